//! `ropewalk doctor`: prints the checks of the machine by the lab and the server's checks of itself
//! as one list.

use std::path::Path;

use command::{Failure, print};
use doctor::{Finding, Section, Tally, Verdict};

/// The source of the server's own checks.
const SOURCE: &str = "Ropewalk itself: tried, not read";

/// Prints the checks. The exit status is 1 if any finding is wrong.
pub(crate) fn execute(directory: &Path, is_json: bool) -> Result<(), Failure> {
    let mut findings = lab::doctor::examine(directory);
    findings.extend(server::doctor::examine(directory).into_iter().map(from_server));
    print(&if is_json { doctor::json(&findings) } else { doctor::show(&findings) })?;
    match Tally::of(&findings).wrong {
        0 => Ok(()),
        _ => Err(Failure::Reported(1)),
    }
}

fn from_server(finding: server::doctor::Finding) -> Finding {
    let check = finding.check;
    let verdict = match finding.verdict {
        server::doctor::Verdict::Fine => Verdict::Fine,
        server::doctor::Verdict::Wrong => Verdict::Wrong,
        server::doctor::Verdict::Unreadable => Verdict::Unreadable,
    };
    let told = |text: &str| (verdict == Verdict::Wrong).then(|| text.to_owned());
    Finding {
        section: Section::Serving,
        subject: check.subject.into(),
        verdict,
        found: finding.found,
        good: check.good.into(),
        cost: told(check.cost),
        mend: told(check.mend),
        source: SOURCE.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../../docs/doctor.md");

    /// A row of the tables in docs/doctor.md.
    fn row(of: [&str; 5]) -> String {
        format!("| {} |\n", of.join(" | "))
    }

    fn table(section: Section) -> String {
        let heading = row(["subject", "good", "what it costs", "what mends it", "source"]);
        let all = lab::doctor::measuring().into_iter().chain(doctor::serving());
        let of_lab = all.filter(|check| check.section == section);
        let of_lab = of_lab
            .map(|check| row([check.subject, check.good, check.cost, check.mend, check.source]));
        let of_server = server::doctor::CHECKS.iter().filter(|_| section == Section::Serving);
        let from_server =
            of_server.map(|check| row([check.subject, check.good, check.cost, check.mend, SOURCE]));
        heading + "|---|---|---|---|---|\n" + &of_lab.chain(from_server).collect::<String>()
    }

    /// The tables of the documentation and of the checks are equal, word for word.
    #[test]
    fn the_documentation_has_every_check() {
        for section in [Section::Measuring, Section::Serving] {
            let table = table(section);
            assert!(DOCS.contains(&table), "docs/doctor.md should have:\n{table}");
        }
        let rows = DOCS.lines().filter(|line| line.starts_with("| ")).count();
        let checks =
            lab::doctor::measuring().len() + doctor::serving().len() + server::doctor::CHECKS.len();
        assert_eq!(rows, checks + 2, "two tables with a heading each, and no other rows");
    }

    #[test]
    fn no_subject_is_in_both_lists() {
        for check in server::doctor::CHECKS {
            let mut read = lab::doctor::measuring().into_iter().chain(doctor::serving());
            assert!(read.all(|other| other.subject != check.subject));
        }
    }

    #[test]
    fn a_finding_of_the_server_names_costs_only_where_it_is_wrong() {
        let check = &server::doctor::CHECKS[0];
        let of = |verdict| server::doctor::Finding { check, verdict, found: "5.4".into() };
        let wrong = from_server(of(server::doctor::Verdict::Wrong));
        assert_eq!(wrong.cost.as_deref(), Some(check.cost));
        assert_eq!(wrong.mend.as_deref(), Some(check.mend));
        let fine = from_server(of(server::doctor::Verdict::Fine));
        assert_eq!((fine.cost, fine.mend, fine.found), (None, None, "5.4".to_owned()));
    }
}
