//! Converts options to the arguments of `ropewalk load` and back: for programs that start a
//! generator, and for files that hold some of its options.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command, Error, FromArgMatches, ValueEnum};
use command::near::{hint, nearest, none_of};
use serde::Serializer;
use serde_json::Value;

use super::Options;

impl Options {
    /// The arguments that these options are parsed from, URLs first. The command line for the
    /// report and options with their default values are left out.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        let mut words = self.urls.clone();
        for (name, values) in self.values() {
            words.extend(values.into_iter().flat_map(|value| [name.clone(), value]));
        }
        words
    }

    /// The names of the options that are set, in the order in which they are written.
    #[must_use]
    pub fn option_names(&self) -> Vec<String> {
        self.values().into_iter().map(|(name, _)| name).collect()
    }

    /// Parses arguments: URLs and options, in any order.
    ///
    /// # Errors
    /// One line: which argument is no option, is repeated, lacks its value, or has an invalid one.
    pub fn from_arguments(words: &[String]) -> Result<Self, String> {
        let found = command().try_get_matches_from(words);
        found.and_then(|found| Self::from_arg_matches(&found)).map_err(|why| explain(&why, words))
    }

    /// The names of the options that are set, with their values as arguments.
    fn values(&self) -> Vec<(String, Vec<String>)> {
        let fields = serde_json::to_value(self).expect("numbers, texts and names are JSON");
        let of = |option: &Arg| {
            let values = texts(&fields[option.get_id().as_str()]);
            let is_list = option.get_value_delimiter().is_some() && !values.is_empty();
            let values = if is_list { vec![values.join(",")] } else { values };
            Some((format!("--{}", option.get_long()?), values))
        };
        command().get_opts().filter_map(of).filter(|(_, values)| !values.is_empty()).collect()
    }
}

/// The parser. It checks each option by itself: that --think-max needs a log, for example, is
/// checked elsewhere.
fn command() -> Command {
    Options::augment_args(Command::new("load").no_binary_name(true).disable_help_flag(true))
}

/// ` (did you mean "--connection"?)`, or nothing when no option is near.
fn near_option(typed: &str) -> String {
    let name = typed.trim_start_matches('-').split('=').next().unwrap_or_default();
    let command = command();
    let near = nearest(name, command.get_opts().filter_map(Arg::get_long));
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
fn explain(why: &Error, words: &[String]) -> String {
    let texts = |kind| match why.get(kind) {
        Some(ContextValue::String(text)) => vec![text.as_str()],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let option = texts(ContextKind::InvalidArg).concat();
    let option = option.split(' ').next().unwrap_or_default();
    let value = texts(ContextKind::InvalidValue).concat();
    match why.kind() {
        ErrorKind::UnknownArgument => {
            let typed = words.iter().find(|word| word.starts_with(option));
            let typed = typed.map_or(option, String::as_str);
            format!("{typed}: there is no such load option{}", near_option(typed))
        }
        ErrorKind::ArgumentConflict => format!("{option}: it occurs twice; once is enough"),
        ErrorKind::InvalidValue if value.is_empty() => format!("{option}: its value is missing"),
        ErrorKind::InvalidValue => none_of(option, &value, texts(ContextKind::ValidValue)),
        ErrorKind::ValueValidation if option == "--speed" => {
            format!("{option} {value}: write a number")
        }
        _ => format!("{option} {value}: write a whole number"),
    }
}

/// The name of a value as it is typed and reported.
pub(super) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("none is left out").get_name().to_owned()
}

/// Serializes a path as a text, or none.
pub(super) fn lossy<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.collect_str(&path.display()),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrivals;
    use super::*;
    use crate::plan::{ConnectionUse, Verify};

    fn every_option() -> Options {
        let text = |text: &str| Some(text.to_owned());
        Options {
            urls: vec!["http://a.example/".into(), "b.example:81".into()],
            log: Some("a log".into()),
            default_think: text("1s"),
            think_max: text("2s"),
            clients: Some(5),
            rate: text("5,1..2@3s"),
            request_rate: text("6.25"),
            arrivals: Some(Arrivals::Poisson),
            speed: Some(1.5),
            duration: text("250000us"),
            warm_up: text("7s"),
            sessions: Some(8),
            connection_use: Some(ConnectionUse::Keep),
            idle: Some(9),
            timeout: text("10s"),
            connect_timeout: text("11s"),
            hosts: vec!["c.example".into(), "d.example".into()],
            headers: vec!["A: b=c".into()],
            sources: vec!["127.0.0.2".into(), "127.0.0.3".into()],
            verify: Some(Verify::Bytes),
            files: Some("/f".into()),
            latency_target: text("12ms"),
            lag_bound: text("13ms"),
            run_delay_bound: text("14%"),
            interval: text("15s"),
            threads: Some(2),
            cpus: text("0,1"),
            share: text("1/2"),
            start_at: text("-"),
            seed: Some(16),
            command: String::new(),
        }
    }

    #[test]
    fn written_arguments_are_parsed_to_equal_options() {
        for options in [every_option(), Options::default()] {
            let words = options.to_arguments();
            assert_eq!(Options::from_arguments(&words).as_ref(), Ok(&options), "{words:?}");
        }
        let words = every_option().to_arguments();
        assert_eq!(every_option().option_names().len(), command().get_opts().count(), "{words:?}");
    }

    #[test]
    fn typed_arguments_are_parsed() {
        let of = |line: &str| {
            Options::from_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        };
        let options = of("-c 8 --timeout=2s -t=3 --verify none").unwrap();
        assert_eq!((options.clients, options.threads), (Some(8), Some(3)));
        assert_eq!((options.timeout.as_deref(), options.verify), (Some("2s"), Some(Verify::None)));
        assert_eq!(options.option_names(), ["--connections", "--timeout", "--verify", "--threads"]);
        assert_eq!(of("-t3 -r 5@1s").unwrap(), of("--threads=3 --rate=5@1s").unwrap());
        assert_eq!(of("--host a --host b --source c,d --source e").unwrap().sources.len(), 3);
        let check = |line: &str, why: &str| assert_eq!(of(line).unwrap_err(), why);
        check("--fast 3", "--fast: there is no such load option");
        check("--json f", "--json: there is no such load option");
        let near =
            "--conection=keep: there is no such load option (did you mean \"--connection\"?)";
        check("--conection=keep", near);
        check("-x5", "-x5: there is no such load option");
        check("--idle", "--idle: its value is missing");
        check("--think-max --idle 5", "--think-max: its value is missing");
        check("--idle 5 --idle=5", "--idle: it occurs twice; once is enough");
        check("-c8 --connections 8", "--connections: it occurs twice; once is enough");
        check("--idle many", "--idle many: write a whole number");
        check("--speed fast", "--speed fast: write a number");
        check("--arrivals rare", "--arrivals rare: it must be one of constant, poisson, trace");
        let near = "--arrivals poison: it must be one of constant, poisson, trace (did you mean \
                    \"poisson\"?)";
        check("--arrivals poison", near);
    }
}
