//! What a check found, and how findings are shown. Nothing here looks at the machine.

use command::json::{array, object, text, text_or_null};
use std::fmt::Write;

/// What a finding matters for, first of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Numbers that can be trusted, repeated and compared.
    Measuring,
    /// Many clients, quickly.
    Serving,
}

impl Section {
    /// The word for it in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Measuring => "measuring",
            Self::Serving => "serving",
        }
    }
}

/// How good what was found is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// It costs something, and there is a command that fixes it.
    Wrong,
    /// Advice of the literature that today's kernels make void.
    Obsolete,
    /// The machine does not tell.
    Unreadable,
}

impl Verdict {
    /// The beginning of its line, always four columns.
    fn mark(self) -> &'static str {
        match self {
            Self::Fine => "ok  ",
            Self::Wrong => "note",
            Self::Obsolete => "old ",
            Self::Unreadable => "?   ",
        }
    }

    /// The word for it in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Wrong => "wrong",
            Self::Obsolete => "obsolete",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it matters for.
    pub section: Section,
    /// What was checked.
    pub subject: String,
    /// How good it is.
    pub verdict: Verdict,
    /// What was found, or why nothing was.
    pub found: String,
    /// What would be good.
    pub good: String,
    /// What it costs; only of what is wrong.
    pub cost: Option<String>,
    /// The command that fixes it; only of what is wrong.
    pub mend: Option<String>,
    /// The source: a paper and the place in it, or the kernel's documentation.
    pub source: String,
}

/// How many findings there are of each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Findings of things that are as they should be.
    pub fine: usize,
    /// Findings of things to be fixed.
    pub wrong: usize,
    /// Findings about nothing that matters any more.
    pub obsolete: usize,
    /// Findings that the machine does not tell.
    pub unreadable: usize,
}

impl Tally {
    /// Counts the findings of each verdict.
    #[must_use]
    pub fn from_findings(findings: &[Finding]) -> Self {
        let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        Self {
            fine: count(Verdict::Fine),
            wrong: count(Verdict::Wrong),
            obsolete: count(Verdict::Obsolete),
            unreadable: count(Verdict::Unreadable),
        }
    }
}

/// A line for each finding, under the heading of its section; three for what is wrong; and a last
/// line that counts.
#[must_use]
pub fn show(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (section, heading) in
        [(Section::Measuring, "For measuring"), (Section::Serving, "For serving")]
    {
        let of_section = || findings.iter().filter(|finding| finding.section == section);
        if of_section().next().is_none() {
            continue;
        }
        text += &format!("{heading}\n");
        of_section().for_each(|finding| show_one(&mut text, finding));
        text.push('\n');
    }
    let Tally { fine, wrong, obsolete, unreadable } = Tally::from_findings(findings);
    let all = findings.len();
    text + &format!(
        "{all} checks: {wrong} to look at, {fine} fine, {obsolete} obsolete, {unreadable} not \
         readable here\n"
    )
}

fn show_one(text: &mut String, finding: &Finding) {
    let Finding { subject, verdict, found, .. } = finding;
    let note = match verdict {
        Verdict::Unreadable => "not readable here: ",
        Verdict::Obsolete => "obsolete: ",
        Verdict::Wrong | Verdict::Fine => "",
    };
    let mut line = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("a string takes everything");
    };
    line(format_args!("{} {subject:<20} {note}{found}", verdict.mark()));
    if *verdict == Verdict::Wrong {
        line(format_args!("     good:  {}", finding.good));
    }
    for (label, told) in [("costs:", &finding.cost), ("fix:  ", &finding.mend)] {
        if let Some(told) = told {
            line(format_args!("     {label} {told}"));
        }
    }
}

/// The findings for programs: an object with their counts and all of them.
#[must_use]
pub fn json(findings: &[Finding]) -> String {
    let Tally { fine, wrong, obsolete, unreadable } = Tally::from_findings(findings);
    let tally = object([
        ("fine", fine.to_string()),
        ("wrong", wrong.to_string()),
        ("obsolete", obsolete.to_string()),
        ("unreadable", unreadable.to_string()),
    ]);
    object([("tally", tally), ("findings", array(findings.iter().map(json_of_one)))]) + "\n"
}

fn json_of_one(finding: &Finding) -> String {
    object([
        ("section", text(finding.section.name())),
        ("subject", text(&finding.subject)),
        ("verdict", text(finding.verdict.name())),
        ("found", text(&finding.found)),
        ("good", text(&finding.good)),
        ("cost", text_or_null(finding.cost.as_deref())),
        ("mend", text_or_null(finding.mend.as_deref())),
        ("source", text(&finding.source)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(section: Section, verdict: Verdict) -> Finding {
        let told = |text: &str| (verdict == Verdict::Wrong).then(|| text.to_owned());
        Finding {
            section,
            subject: "somaxconn".into(),
            verdict,
            found: "128".into(),
            good: "at least 4096".into(),
            cost: told("it costs"),
            mend: told("sysctl"),
            source: "a paper".into(),
        }
    }

    #[test]
    fn what_is_wrong_takes_four_lines_and_the_rest_one() {
        let all = [
            finding(Section::Serving, Verdict::Wrong),
            finding(Section::Measuring, Verdict::Fine),
            finding(Section::Measuring, Verdict::Obsolete),
            finding(Section::Measuring, Verdict::Unreadable),
        ];
        let expected = "\
For measuring
ok   somaxconn            128
old  somaxconn            obsolete: 128
?    somaxconn            not readable here: 128

For serving
note somaxconn            128
     good:  at least 4096
     costs: it costs
     fix:   sysctl

4 checks: 1 to look at, 1 fine, 1 obsolete, 1 not readable here
";
        assert_eq!(show(&all), expected);
    }

    #[test]
    fn programs_get_the_same() {
        let text = json(&[finding(Section::Serving, Verdict::Wrong)]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["tally"]["wrong"], 1);
        assert_eq!(value["findings"][0]["section"], "serving");
        assert_eq!(value["findings"][0]["verdict"], "wrong");
        assert_eq!(value["findings"][0]["mend"], "sysctl");
    }
}
