//! One check: what it reads, what is good, and what the answer means. Which checks there are stands
//! in the files of the themes.

use super::finding::{Finding, Section, Verdict};
use super::machine::Machine;

/// Something to look at.
#[derive(Debug)]
pub struct Check {
    /// What it matters for.
    pub section: Section,
    /// Its name: that of the kernel's setting where it is one.
    pub subject: &'static str,
    /// Who says so, with the value given there.
    pub source: &'static str,
    /// What is good.
    pub good: &'static str,
    /// What it costs otherwise.
    pub cost: &'static str,
    /// The command that mends it.
    pub mend: &'static str,
    pub(super) rule: Rule,
}

/// How a check decides.
#[derive(Debug)]
pub(super) enum Rule {
    /// The file holds this number or a greater one; of several numbers the last.
    AtLeast(&'static str, u64),
    /// The file holds this number or a smaller one.
    AtMost(&'static str, u64),
    /// From these files; a `*` stands for anything within a name.
    Of(&'static [&'static str], fn(&Machine) -> Look),
}

/// What a look at the machine gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// A command that fits better than that of the table, which knows no names.
    pub(super) mend: Option<String>,
}

impl Look {
    pub(super) fn fine(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fine, found: found.into(), mend: None }
    }

    pub(super) fn wrong(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Wrong, ..Self::fine(found) }
    }

    pub(super) fn obsolete(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Obsolete, ..Self::fine(found) }
    }

    pub(super) fn unreadable(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unreadable, ..Self::fine(why) }
    }

    pub(super) fn fine_if(is_fine: bool, found: impl Into<String>) -> Self {
        if is_fine { Self::fine(found) } else { Self::wrong(found) }
    }
}

impl Check {
    /// The files it reads.
    pub(super) fn reads(&self) -> &[&'static str] {
        match &self.rule {
            Rule::AtLeast(path, _) | Rule::AtMost(path, _) => std::slice::from_ref(path),
            Rule::Of(paths, _) => paths,
        }
    }

    /// What it says of the machine.
    pub(super) fn examine(&self, machine: &Machine) -> Finding {
        let Look { verdict, found, mend } = self.look(machine);
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

    pub(super) fn look(&self, machine: &Machine) -> Look {
        let number = |path: &str, is_fine: &dyn Fn(u64) -> bool| {
            let text = machine.text(path)?;
            let last: u64 = text.split_whitespace().next_back()?.parse().ok()?;
            let shown = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(Look::fine_if(is_fine(last), shown))
        };
        let (path, look) = match &self.rule {
            Rule::AtLeast(path, least) => (path, number(path, &|found| found >= *least)),
            Rule::AtMost(path, most) => (path, number(path, &|found| found <= *most)),
            Rule::Of(_, look) => return look(machine),
        };
        look.unwrap_or_else(|| Look::unreadable(*path))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What the check called `subject` says of a machine with these files.
    #[track_caller]
    pub(crate) fn check(subject: &str, files: &[(&str, &str)], verdict: Verdict) -> Look {
        check_machine(subject, &Machine::of(files), verdict)
    }

    #[track_caller]
    pub(crate) fn check_machine(subject: &str, machine: &Machine, is: Verdict) -> Look {
        let all = super::super::checks();
        let check = all.iter().find(|check| check.subject == subject).expect("such a check");
        let look = check.look(machine);
        assert_eq!(look.verdict, is, "{subject}: {look:?}");
        look
    }

    /// A good value and a bad one of a setting that is one number, or several.
    #[track_caller]
    pub(crate) fn check_setting(subject: &str, path: &str, good: &str, bad: &str) {
        check(subject, &[(path, good)], Verdict::Fine);
        check(subject, &[(path, bad)], Verdict::Wrong);
        check(subject, &[(path, "")], Verdict::Unreadable);
        check(subject, &[], Verdict::Unreadable);
    }

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
        let look = |value| check.look(&Machine::of(&[("/proc/thing", value)]));
        assert_eq!(look("3\n"), Look::fine("3"));
        assert_eq!(look("1\t 4\n"), Look::wrong("1 4"));
        assert_eq!(look("none"), Look::unreadable("/proc/thing"));
        let wrong = check.examine(&Machine::of(&[("/proc/thing", "4")]));
        assert_eq!((wrong.cost.as_deref(), wrong.mend.as_deref()), (Some("time"), Some("mend it")));
        let fine = check.examine(&Machine::of(&[("/proc/thing", "2")]));
        assert_eq!((fine.cost, fine.mend), (None, None));
    }
}
