//! `ropewalk doctor`: prints the checks of what limits any server, and of what the server tries, as
//! one list.

use std::path::Path;

use command::Failure;
use doctor::Machine;

/// Prints the checks.
pub(crate) fn execute(directory: &Path, is_json: bool) -> Result<(), Failure> {
    doctor::check_directory(directory)?;
    let checks = doctor::serving();
    let mut findings = doctor::examine(&checks, &Machine::read(directory, &checks));
    findings.extend(server::doctor::examine(directory));
    doctor::print(&findings, is_json)
}

#[cfg(test)]
mod tests {
    use doctor::{Check, Section, expect};

    /// The table of the documentation and the checks are equal, word for word.
    #[test]
    fn the_documentation_has_every_check() {
        let tried: Vec<&Check> = server::doctor::CHECKS.iter().collect();
        let all = [doctor::serving(), tried].concat();
        expect::whole_list(&all);
        expect::documented(include_str!("../../../docs/serve/doctor.md"), Section::Serving, &all);
    }
}
