//! Checks of what a generator of many connections needs.

use ::doctor::Section::Measuring;
use ::doctor::{Check, LIMITS, Rule, hard_limit};

pub(super) const CHECKS: &[Check] = &[Check {
    section: Measuring,
    subject: "open files",
    source: "Genevès 2012, III-B; Radhakrishnan 2019, fig. 3.15 (70K connections)",
    good: "a hard limit of at least 65536",
    cost: "servers under test and the generator run out of descriptors before the server is at \
               its best",
    mend: "prlimit --pid $$ --nofile=1048576 (as root; for good: LimitNOFILE=, or \
               /etc/security/limits.conf)",
    rule: Rule::Of(&[LIMITS], |machine| hard_limit(machine, "Max open files")),
}];

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use ::doctor::Verdict::{Fine, Unreadable, Wrong};

    #[test]
    fn the_hard_limit_counts() {
        let of =
            |hard: &str| format!("Limit  Soft  Hard  Units\nMax open files  1024  {hard}  x\n");
        check("open files", &[(LIMITS, &of("65536"))], Fine);
        check("open files", &[(LIMITS, &of("4096"))], Wrong);
        check("open files", &[], Unreadable);
    }
}
