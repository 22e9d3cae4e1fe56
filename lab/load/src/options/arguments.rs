//! Converts options to the arguments of `ropewalk load` and back.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serializer;

use super::Options;
use crate::arguments::{named_values, parse, words};

impl Options {
    /// The arguments that these options are parsed from, URLs first. The command line for the
    /// report and options with their default values are left out.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        [self.urls.clone(), words(self)].concat()
    }

    /// The names of the options that are set, in the order in which they are written.
    #[must_use]
    pub fn option_names(&self) -> Vec<String> {
        named_values(self).into_iter().map(|(name, _)| name).collect()
    }

    /// Parses arguments: URLs and options, in any order.
    ///
    /// # Errors
    /// One line: which argument is no option, is repeated, lacks its value, or has an invalid one.
    pub fn from_arguments(words: &[String]) -> Result<Self, String> {
        parse("load", words)
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
    use clap::{Args, Command};

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
        let options = Options::augment_args(Command::new("load")).get_opts().count();
        assert_eq!(every_option().option_names().len(), options, "{words:?}");
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
