//! `ropewalk doctor`: prints the checks of the machine by the lab and the server's checks of itself
//! as one list.

use std::path::Path;

use command::{Failure, print};
use doctor::Tally;

/// Prints the checks. The exit status is 1 if any finding is wrong.
pub(crate) fn execute(directory: &Path, is_json: bool) -> Result<(), Failure> {
    let mut findings = lab::doctor::examine(directory);
    findings.extend(server::doctor::examine(directory));
    print(&if is_json { doctor::json(&findings) } else { doctor::show(&findings) })?;
    match Tally::of(&findings).wrong {
        0 => Ok(()),
        _ => Err(Failure::Reported(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::{Check, Section};

    const DOCS: &str = include_str!("../../../docs/doctor.md");

    /// A row of the tables in docs/doctor.md.
    fn row(of: [&str; 5]) -> String {
        format!("| {} |\n", of.join(" | "))
    }

    fn table(section: Section) -> String {
        let heading = row(["subject", "good", "what it costs", "what mends it", "source"]);
        let rows = all()
            .into_iter()
            .filter(|check| check.section == section)
            .map(|check| row([check.subject, check.good, check.cost, check.mend, check.source]));
        heading + "|---|---|---|---|---|\n" + &rows.collect::<String>()
    }

    fn all() -> Vec<&'static Check> {
        let tried: Vec<&Check> = server::doctor::CHECKS.iter().collect();
        [lab::doctor::measuring(), doctor::serving(), tried].concat()
    }

    /// The tables of the documentation and of the checks are equal, word for word.
    #[test]
    fn the_documentation_has_every_check() {
        for section in [Section::Measuring, Section::Serving] {
            let table = table(section);
            assert!(DOCS.contains(&table), "docs/doctor.md should have:\n{table}");
        }
        let rows = DOCS.lines().filter(|line| line.starts_with("| ")).count();
        assert_eq!(rows, all().len() + 2, "two tables with a heading each, and no other rows");
    }

    #[test]
    fn the_list_is_whole() {
        doctor::expect::whole_list(&all());
    }
}
