//! What the parser of the command line says in place of a command: help, the version, or what is
//! wrong, which is one line in the style of all other mistakes.

use std::env;
use std::error::Error as _;
use std::ffi::OsString;
use std::io::{self, Write};
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use crate::Emphasis;
use crate::near::{hint, none_of, plain};
use crate::outcome::{exit_code, notify, print};

/// The exit status when the parser of `program` has refused the arguments, or has found that they
/// ask for help or the version, after that has been printed, with headings emphasised on a
/// terminal.
pub fn exit_code_of_parser(error: &Error, program: &Command, arguments: &[OsString]) -> ExitCode {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            exit_code(print(&Emphasis::of_stream(&io::stdout()).help(&text)), notify)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let text = Emphasis::of_stream(&io::stderr()).help(&text);
            // It is not a failure that standard error is closed.
            let _ = io::stderr().write_all(text.as_bytes());
            ExitCode::from(2)
        }
        _ => {
            let (names, command) = command_in(&typed_name(program), program, arguments);
            let mistake = ErrorInContext { error, command }.mistake();
            notify(&format!("{mistake}: see `{names} --help`"));
            ExitCode::from(2)
        }
    }
}

/// The name by which the program was started: that of the program that was typed, which may have
/// passed its command on to this one.
fn typed_name(program: &Command) -> String {
    let typed = env::args_os().next().unwrap_or_default();
    let name = Path::new(&typed).file_name();
    name.map_or_else(|| program.get_name().into(), |name| name.to_string_lossy().into_owned())
}

/// The name of the program with the names of the command that the arguments begin with, and that
/// command.
fn command_in<'p>(
    name: &str,
    program: &'p Command,
    arguments: &[OsString],
) -> (String, &'p Command) {
    let (mut names, mut within) = (name.to_owned(), program);
    for argument in arguments {
        let Some(command) = within.find_subcommand(argument) else { break };
        names += " ";
        names += command.get_name();
        within = command;
    }
    (names, within)
}

/// An error with its context.
struct ErrorInContext<'e> {
    error: &'e Error,
    /// The command whose arguments are wrong.
    command: &'e Command,
}

impl ErrorInContext<'_> {
    /// What is wrong, and which word was meant if one is near.
    fn mistake(&self) -> String {
        let [argument, value] = [ContextKind::InvalidArg, ContextKind::InvalidValue]
            .map(|kind| self.words(kind).join(" and "));
        let option = argument.split(' ').next().unwrap_or_default();
        match self.error.kind() {
            ErrorKind::UnknownArgument if argument.starts_with('-') => {
                format!("unknown option {argument:?}{}", self.option_hint(&argument))
            }
            ErrorKind::UnknownArgument => format!("unexpected argument {argument:?}"),
            ErrorKind::InvalidSubcommand => self.unknown_command(),
            ErrorKind::MissingSubcommand => {
                format!(
                    "a command is missing: {}",
                    self.words(ContextKind::ValidSubcommand).join(", ")
                )
            }
            ErrorKind::InvalidValue if value.is_empty() => {
                format!("{argument}: a value is missing")
            }
            ErrorKind::InvalidValue => self.none_of(option, &value),
            ErrorKind::ValueValidation => {
                let why = self.error.source().map(refusal).unwrap_or_default();
                format!("{option} {}: {why}", plain(&value))
            }
            ErrorKind::TooManyValues => format!("{option}: the value {value:?} is one too many"),
            ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
                format!("{argument}: this is not the right number of values")
            }
            ErrorKind::NoEquals => format!("{argument}: write its value after an equals sign"),
            ErrorKind::ArgumentConflict => self.conflict(),
            ErrorKind::MissingRequiredArgument => format!("{argument} is required"),
            ErrorKind::InvalidUtf8 => "an argument is not UTF-8".into(),
            _ => "the arguments cannot be read".into(),
        }
    }

    fn unknown_command(&self) -> String {
        let name = self.words(ContextKind::InvalidSubcommand).concat();
        format!("unknown command {name:?}{}", self.hint(ContextKind::SuggestedSubcommand))
    }

    fn none_of(&self, option: &str, value: &str) -> String {
        // Not the parser's suggestion: `zsh` for `tcsh`.
        let words = self.words(ContextKind::ValidValue);
        none_of(option, value, words.iter().map(String::as_str))
    }

    fn conflict(&self) -> String {
        let own = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
            .map(|kind| self.words(kind).concat())
            .concat();
        let others = self.words(ContextKind::PriorArg).join(" and ");
        match others == own {
            true => format!("{own} is there twice: leave one out"),
            false => format!("{own} cannot be used with {others}: leave one out"),
        }
    }

    /// ` (did you mean "--port"?)`, or nothing. For a letter these are the options that begin with
    /// it.
    fn option_hint(&self, typed: &str) -> String {
        let longs = self.command.get_arguments().filter(|option| !option.is_hide_set());
        let longs = longs.filter_map(Arg::get_long);
        let meant: Vec<String> = match typed.strip_prefix('-').filter(|it| it.len() == 1) {
            Some(letter) => longs
                .filter(|long| long.starts_with(letter))
                .map(|long| format!("\"--{long}\""))
                .collect(),
            None => Vec::new(),
        };
        match meant.is_empty() {
            true => self.hint(ContextKind::SuggestedArg),
            false => format!(" (did you mean {}?)", meant.join(" or ")),
        }
    }

    /// ` (did you mean "serve"?)`, or nothing. The parser lists the nearest word last.
    fn hint(&self, kind: ContextKind) -> String {
        hint(self.words(kind).last())
    }

    /// The words of this kind in the context.
    fn words(&self, kind: ContextKind) -> &[String] {
        match self.error.get(kind) {
            Some(ContextValue::String(word)) => std::slice::from_ref(word),
            Some(ContextValue::Strings(words)) => words,
            _ => &[],
        }
    }
}

/// Why a value is refused, in a line: in our own words where its parser is the library's.
pub fn refusal(why: &(dyn std::error::Error + 'static)) -> String {
    let number = why.downcast_ref::<ParseIntError>();
    match number.map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => return "write a smaller number".into(),
        Some(_) => return "write a whole number".into(),
        None if why.is::<ParseFloatError>() => return "write a number".into(),
        None => {}
    }
    why.to_string().lines().collect::<Vec<_>>().join(", ")
}

/// The mistakes in values of a program's options that are told in the words of a library, a line
/// for each: for tests.
#[must_use]
pub fn faults_of_values(mut program: Command) -> Vec<String> {
    program.build();
    let mut faults = Vec::new();
    add_faults(&program, (&program, &[program.get_name()]), &mut faults);
    faults
}

/// Words of the standard library and of the parser on numbers that are none, or out of range.
const FOREIGN: [&str; 6] =
    ["invalid digit", "invalid float", "cannot parse", "is not in ", "too large", "would be zero"];

fn add_faults(program: &Command, (command, names): (&Command, &[&str]), faults: &mut Vec<String>) {
    for long in command.get_arguments().filter_map(Arg::get_long) {
        for value in ["x", "", "0", "99999999999", "99999999999999999999999"] {
            let typed = format!("--{long}={value}");
            let words = names.iter().copied().chain([typed.as_str()]);
            let Err(error) = program.clone().try_get_matches_from(words) else { continue };
            let mistake = ErrorInContext { error: &error, command }.mistake();
            if FOREIGN.iter().any(|words| mistake.contains(words)) {
                faults.push(format!("{}: {mistake}", names.join(" ")));
            }
        }
    }
    for below in command.get_subcommands() {
        let names = [names, &[below.get_name()]].concat();
        add_faults(program, (below, &names), faults);
    }
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, value_parser};

    use super::*;
    use crate::numbers::whole;

    fn program() -> Command {
        let option = |name: &'static str| Arg::new(name).long(name).value_name("X");
        let measure = Command::new("measure").args([
            Arg::new("FILE").required(true),
            option("kind").value_parser(["plain", "fancy"]),
            option("count").value_parser(whole(1..=9_u16)),
            option("bytes").value_parser(value_parser!(u64)),
            option("share").value_parser(value_parser!(f64)),
            option("pair").num_args(2),
            option("exact").require_equals(true),
            option("all").action(ArgAction::SetTrue).conflicts_with_all(["kind", "count"]),
        ]);
        let log = Command::new("log").subcommand_required(true).subcommand(Command::new("show"));
        Command::new("program").subcommand_required(true).subcommands([measure, log])
    }

    fn line(arguments: &[&str]) -> String {
        let error = program().try_get_matches_from([&["program"], arguments].concat()).unwrap_err();
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let program = program();
        let (names, command) = command_in("program", &program, &arguments);
        format!("{} ({names})", ErrorInContext { error: &error, command }.mistake())
    }

    #[test]
    fn each_kind_of_mistake_is_one_line() {
        let check = |arguments: &[&str], expected: &str| {
            assert_eq!(line(arguments), expected, "{arguments:?}");
        };
        check(&["meazure"], "unknown command \"meazure\" (did you mean \"measure\"?) (program)");
        check(&["x\ny"], "unknown command \"x\\ny\" (program)");
        check(&["log"], "a command is missing: show, help (program log)");
        let measure = |arguments: &[&str], expected: &str| {
            let expected = format!("{expected} (program measure)");
            check(&[&["measure"], arguments].concat(), &expected);
        };
        measure(&[], "<FILE> is required");
        measure(&["a", "b"], "unexpected argument \"b\"");
        measure(&["a", "--kin", "b"], "unknown option \"--kin\" (did you mean \"--kind\"?)");
        measure(&["a", "-c", "9"], "unknown option \"-c\" (did you mean \"--count\"?)");
        measure(&["a", "-x"], "unknown option \"-x\"");
        measure(&["a", "--kind"], "--kind <X>: a value is missing");
        measure(
            &["a", "--kind", "plan"],
            "--kind plan: it must be one of plain, fancy (did you mean \"plain\"?)",
        );
        measure(&["a", "--kind", "lain't"], "--kind lain't: it must be one of plain, fancy");
        measure(&["a", "--kind", ""], "--kind <X>: a value is missing");
        measure(&["a", "--count", "10"], "--count 10: write a whole number from 1 to 9");
        measure(&["a", "--bytes", "a b"], "--bytes \"a b\": write a whole number");
        let large = "99999999999999999999";
        measure(&["a", "--bytes", large], &format!("--bytes {large}: write a smaller number"));
        measure(&["a", "--share", "1,5"], "--share 1,5: write a number");
        measure(&["a", "--pair", "1"], "--pair <X> <X>: this is not the right number of values");
        measure(&["a", "--exact", "1"], "--exact=<X>: write its value after an equals sign");
        measure(&["a", "--all=1"], "--all: the value \"1\" is one too many");
        measure(
            &["a", "--count", "1", "--all"],
            "--count <X> cannot be used with --all: leave one out",
        );
        measure(
            &["a", "--kind", "plain", "--kind", "plain"],
            "--kind <X> is there twice: leave one out",
        );
    }

    #[test]
    fn words_of_a_library_are_found() {
        assert_eq!(faults_of_values(program()), Vec::<String>::new());
        let ranged = Arg::new("n").long("n").value_parser(value_parser!(u16).range(1..=9));
        let faults = faults_of_values(Command::new("p").subcommand(Command::new("c").arg(ranged)));
        assert_eq!(faults.first().map(String::as_str), Some("p c: --n 0: 0 is not in 1..=9"));
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
