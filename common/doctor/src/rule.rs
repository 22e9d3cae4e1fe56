//! One check: what it reads, what is good, and what the answer means. Which checks there are stands
//! in the files of the themes.

use super::finding::{Finding, Section, Verdict};
use super::machine::Machine;

/// A property of the machine that is checked.
#[derive(Debug)]
pub struct Check {
    /// What it matters for.
    pub section: Section,
    /// Its name: that of the kernel's setting where it is one.
    pub subject: &'static str,
    /// The source of the advice, with the value given there.
    pub source: &'static str,
    /// What is good.
    pub good: &'static str,
    /// What it costs otherwise.
    pub cost: &'static str,
    /// The command that fixes it.
    pub mend: &'static str,
    /// How it decides.
    pub rule: Rule,
}

/// How a check decides.
#[derive(Debug)]
pub enum Rule {
    /// The file holds this number or a greater one; of several numbers the last.
    AtLeast(&'static str, u64),
    /// The file holds this number or a smaller one.
    AtMost(&'static str, u64),
    /// From these files; a `*` stands for anything within a name.
    Of(&'static [&'static str], fn(&Machine) -> Reading),
    /// By what happens when something is tried: no file tells, so the reading is made elsewhere.
    Tried,
}

/// What a check reads off the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// How good what was found is.
    pub verdict: Verdict,
    /// What was found, or why nothing was.
    pub found: String,
    /// A command that fits better than that of the table, which knows no names.
    pub mend: Option<String>,
}

impl Reading {
    /// It is as it should be.
    pub fn fine(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fine, found: found.into(), mend: None }
    }

    /// It costs something.
    pub fn wrong(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Wrong, ..Self::fine(found) }
    }

    /// It does not matter any more.
    pub fn obsolete(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Obsolete, ..Self::fine(found) }
    }

    /// The machine does not tell: this file, or why.
    pub fn unreadable(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unreadable, ..Self::fine(why) }
    }

    /// Fine or wrong.
    pub fn fine_if(is_fine: bool, found: impl Into<String>) -> Self {
        if is_fine { Self::fine(found) } else { Self::wrong(found) }
    }
}

impl Check {
    /// The files it reads.
    pub(super) fn files(&self) -> &[&'static str] {
        match &self.rule {
            Rule::AtLeast(path, _) | Rule::AtMost(path, _) => std::slice::from_ref(path),
            Rule::Of(paths, _) => paths,
            Rule::Tried => &[],
        }
    }

    /// What it says of the machine.
    pub fn examine(&self, machine: &Machine) -> Finding {
        self.finding(self.read(machine))
    }

    /// What a reading means. Cost and mend are of what is wrong only.
    pub fn finding(&self, reading: Reading) -> Finding {
        let Reading { verdict, found, mend } = reading;
        let told = |text: &str| (verdict == Verdict::Wrong).then(|| text.to_owned());
        Finding {
            section: self.section,
            subject: self.subject.into(),
            verdict,
            found,
            good: self.good.into(),
            cost: told(self.cost),
            mend: mend.or_else(|| told(self.mend)),
            source: self.source.into(),
        }
    }

    /// What it reads off the machine.
    pub fn read(&self, machine: &Machine) -> Reading {
        let number = |path: &str, is_fine: &dyn Fn(u64) -> bool| {
            let text = machine.text(path)?;
            let last: u64 = text.split_whitespace().next_back()?.parse().ok()?;
            let shown = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(Reading::fine_if(is_fine(last), shown))
        };
        let (path, reading) = match &self.rule {
            Rule::AtLeast(path, least) => (path, number(path, &|found| found >= *least)),
            Rule::AtMost(path, most) => (path, number(path, &|found| found <= *most)),
            Rule::Of(_, read) => return read(machine),
            Rule::Tried => return Reading::unreadable("not tried"),
        };
        reading.unwrap_or_else(|| Reading::unreadable(*path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_tells_costs_only_of_what_is_wrong() {
        let check = Check {
            section: Section::Serving,
            subject: "thing",
            source: "a paper",
            good: "at most 3",
            cost: "time",
            mend: "mend it",
            rule: Rule::AtMost("/proc/thing", 3),
        };
        let reading = |value| check.read(&Machine::with_files(&[("/proc/thing", value)]));
        assert_eq!(reading("3\n"), Reading::fine("3"));
        assert_eq!(reading("1\t 4\n"), Reading::wrong("1 4"));
        assert_eq!(reading("none"), Reading::unreadable("/proc/thing"));
        let wrong = check.examine(&Machine::with_files(&[("/proc/thing", "4")]));
        assert_eq!((wrong.cost.as_deref(), wrong.mend.as_deref()), (Some("time"), Some("mend it")));
        let fine = check.examine(&Machine::with_files(&[("/proc/thing", "2")]));
        assert_eq!((fine.cost, fine.mend), (None, None));
    }
}
