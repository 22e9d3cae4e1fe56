//! Names of commands and options that were others before 0.1. They are read until 0.2, and a notice
//! says what each is called now; `docs/internals/renames.md` lists them.

use std::ffi::OsString;

use command::renamed;

/// A command: the name before, and the name now.
const COMMANDS: [(&str, &str); 1] = [("peers", "servers")];

/// Options of the commands that start servers: the name before, and the name now.
const OPTIONS: [(&str, &str); 1] = [("--peers", "--servers")];

/// A notice for each such name among the arguments of this program.
pub(crate) fn notices(arguments: &[OsString]) -> Vec<String> {
    let command = arguments.first();
    let commands = COMMANDS.iter().filter(|(before, _)| command.is_some_and(|it| it == before));
    let is_option = |argument: &OsString, before: &str| {
        let Some(argument) = argument.to_str() else { return false };
        argument.strip_prefix(before).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let options = arguments.split(|it| it == "--").next().unwrap_or_default();
    let options =
        OPTIONS.iter().filter(|(before, _)| options.iter().any(|it| is_option(it, before)));
    commands.chain(options).map(|(before, now)| renamed(before, now)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: &[(&str, &str)]) {
        let arguments: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
        let expected: Vec<String> =
            expected.iter().map(|(before, now)| renamed(before, now)).collect();
        assert_eq!(notices(&arguments), expected, "{typed}");
    }

    #[test]
    fn names_of_before_are_noticed() {
        let (command, option) = (COMMANDS[0], OPTIONS[0]);
        check("servers --servers mine", &[]);
        check("peers", &[command]);
        check("peers --peers=mine", &[command, option]);
        check("study peers --peers mine", &[option]);
        check("study --peersonal", &[]);
        check("load -- --peers", &[]);
    }

    #[test]
    fn the_page_of_renames_has_each_name() {
        let page = include_str!("../../../docs/internals/renames.md");
        for (before, now) in COMMANDS.iter().chain(&OPTIONS) {
            assert!(page.contains(&format!("| `{before}` | `{now}` |")), "{before}");
        }
    }
}
