//! Converts options to the arguments of a program and back: for programs that start another, and
//! for files that hold some of its options as a user types them.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command, Error};
use command::near::{hint, nearest, none_of};
use command::refusal;
use serde::Serialize;
use serde_json::Value;

/// The names of the options that are set, with their values as arguments; an option without a value
/// has none. The fields are named as the options are.
pub fn named_values<T: Args + Serialize>(options: &T) -> Vec<(String, Vec<String>)> {
    let fields = serde_json::to_value(options).expect("numbers, texts and names are JSON");
    let of = |option: &Arg| {
        let name = format!("--{}", option.get_long()?);
        let values = match &fields[option.get_id().as_str()] {
            Value::Bool(is_set) => return is_set.then(|| (name, Vec::new())),
            value => texts(value),
        };
        let is_list = option.get_value_delimiter().is_some();
        let values = if is_list && !values.is_empty() { vec![values.join(",")] } else { values };
        (!values.is_empty()).then_some((name, values))
    };
    command::<T>("").get_arguments().filter_map(of).collect()
}

/// The arguments from which these options are parsed.
pub fn words<T: Args + Serialize>(options: &T) -> Vec<String> {
    let named = named_values(options).into_iter();
    named.flat_map(|(name, values)| each_named(&name, values)).collect()
}

fn each_named(name: &str, values: Vec<String>) -> Vec<String> {
    match values.is_empty() {
        true => vec![name.to_owned()],
        false => values.into_iter().flat_map(|value| [name.to_owned(), value]).collect(),
    }
}

/// Parses the arguments of the command `name`, in any order.
///
/// # Errors
/// One line: which argument is no option, is repeated, lacks its value, or has an invalid one, or
/// which do not go together.
pub fn parse<T: Args>(name: &'static str, words: &[String]) -> Result<T, String> {
    let found = command::<T>(name).try_get_matches_from(words);
    let parsed = found.and_then(|found| T::from_arg_matches(&found));
    parsed.map_err(|why| explain::<T>(name, &why, words))
}

/// The parser. It checks each option by itself: that --think-max needs a log, for example, is
/// checked elsewhere.
fn command<T: Args>(name: &'static str) -> Command {
    T::augment_args(Command::new(name).no_binary_name(true).disable_help_flag(true))
}

/// ` (did you mean "--connection"?)`, or nothing when no option is near.
fn near_option<T: Args>(typed: &str) -> String {
    let name = typed.trim_start_matches('-').split('=').next().unwrap_or_default();
    let command = command::<T>("");
    let near = nearest(name, command.get_arguments().filter_map(Arg::get_long));
    hint(near.map(|near| format!("--{near}")).as_ref())
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::String(text) => vec![text.clone()],
        number => vec![number.to_string()],
    }
}

/// The message for a line of a file, where there is neither usage nor help to point to.
fn explain<T: Args>(name: &str, why: &Error, words: &[String]) -> String {
    let texts = |kind| match why.get(kind) {
        Some(ContextValue::String(text)) => vec![text.as_str()],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let whole = texts(ContextKind::InvalidArg).join(" and ");
    let option = whole.split(' ').next().unwrap_or_default();
    let value = texts(ContextKind::InvalidValue).concat();
    match why.kind() {
        ErrorKind::UnknownArgument => {
            let typed = words.iter().find(|word| word.starts_with(option));
            let typed = typed.map_or(option, String::as_str);
            format!("{typed}: there is no such {name} option{}", near_option::<T>(typed))
        }
        ErrorKind::ArgumentConflict => match texts(ContextKind::PriorArg).join(" and ") {
            same if same == whole => format!("{option}: it occurs twice; once is enough"),
            other => format!("{whole} and {other}: leave one out"),
        },
        ErrorKind::MissingRequiredArgument => format!("{whole} is required"),
        ErrorKind::InvalidValue if value.is_empty() => format!("{option}: its value is missing"),
        ErrorKind::InvalidValue => none_of(option, &value, texts(ContextKind::ValidValue)),
        _ => format!("{option} {value}: {}", why.source().map(refusal).unwrap_or_default()),
    }
}
