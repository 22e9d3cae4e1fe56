//! `ropewalk-lab doctor`: prints the checks of the machine as a testbed.

use std::path::Path;

use command::Failure;

/// Prints the checks.
pub(crate) fn execute(directory: &Path, is_json: bool) -> Result<(), Failure> {
    doctor::check_directory(directory)?;
    doctor::print(&lab::doctor::examine(directory), is_json)
}

#[cfg(test)]
mod tests {
    use doctor::Section;

    /// The table of the documentation and the checks are equal, word for word.
    #[test]
    fn the_documentation_has_every_check() {
        let page = include_str!("../../../docs/serve/doctor.md");
        doctor::expect::documented(page, Section::Measuring, &lab::doctor::measuring());
    }
}
