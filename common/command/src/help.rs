//! Help in two lengths: `-h` fits a screen and has the usual options, `--help` has everything.

use clap::{Arg, Command};

/// Columns and lines of the smallest screen that is in use.
pub const SCREEN: (usize, usize) = (80, 24);

/// What [`mut_args`](Command::mut_args) does with each option of a command: the usual ones stand
/// first and without a heading; the others are left out of the short help. The options are named
/// by their fields.
pub fn usual(options: &'static [&'static str]) -> impl Fn(Arg) -> Arg {
    |option| match option.is_positional() || options.contains(&option.get_id().as_str()) {
        true => option.help_heading(None),
        false => option.hide_short_help(true),
    }
}

/// What is wrong with the help of a command and of all visible commands below it, a line for each
/// fault: for tests.
#[must_use]
pub fn faults(command: Command) -> Vec<String> {
    let mut command = command.term_width(SCREEN.0);
    command.build();
    let mut faults = Vec::new();
    add_faults(&mut command, &mut faults);
    faults
}

fn add_faults(command: &mut Command, faults: &mut Vec<String>) {
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
    let lines = short.lines().count();
    if lines > SCREEN.1 {
        faults.push(format!("{name} -h: {lines} lines"));
    }
    for (option, help) in [("-h", &short), ("--help", &long)] {
        let wide = help.lines().filter(|line| line.chars().count() > SCREEN.0);
        faults.extend(wide.map(|line| format!("{name} {option}: too wide: {line}")));
    }
    for part in ["\nExamples:\n  ", "\nExit status:\n  0  "] {
        if !long.contains(part) {
            faults.push(format!("{name} --help: without {:?}", part.trim()));
        }
    }
    let below = command.get_subcommands_mut().filter(|below| !below.is_hide_set());
    below.filter(|below| below.get_name() != "help").for_each(|below| add_faults(below, faults));
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: &str = "Exit status:\n  0  success\n\nExamples:\n  a b";

    fn found(change: impl Fn(Command) -> Command) -> Vec<String> {
        let below = Command::new("b").after_help(COMPLETE);
        faults(Command::new("a").after_help(COMPLETE).subcommand(change(below)))
    }

    #[test]
    fn rare_options_are_in_the_long_help_only() {
        let option = |name: &'static str| Arg::new(name).long(name).help_heading("Others");
        let mut command = Command::new("a")
            .args([option("rare"), option("often"), Arg::new("FILE")])
            .mut_args(usual(&["often"]));
        let short = command.render_help().to_string();
        assert!(short.contains("--often") && short.contains("FILE"), "{short}");
        assert!(!short.contains("--rare") && !short.contains("Others:"), "{short}");
        let long = command.render_long_help().to_string();
        assert!(long.contains("\nOthers:\n      --rare"), "{long}");
    }

    #[test]
    fn help_that_does_not_fit_or_lacks_a_part_is_found() {
        assert_eq!(found(|below| below), Vec::<String>::new());
        let long = (0..SCREEN.1).map(|_| "line\n").collect::<String>();
        let check = |after: String, expected: &str| {
            let found = found(|below| below.after_help(after.clone()));
            assert!(found.iter().any(|fault| fault.starts_with(expected)), "{expected}: {found:?}");
        };
        check(format!("{long}\n{COMPLETE}"), "a b -h: 35 lines");
        check(format!("{COMPLETE}\n{}", "c".repeat(81)), "a b -h: too wide: ccc");
        check(COMPLETE.replace("Examples", "Samples"), "a b --help: without \"Examples:");
        check(COMPLETE.replace("status", "code"), "a b --help: without \"Exit status:");
    }
}
