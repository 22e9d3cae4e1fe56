//! The options that all benchmarks have.

use std::path::PathBuf;
use std::time::Duration;

/// Something that can be measured and has a name to choose it by.
pub(crate) trait Named: 'static {
    fn name(&self) -> &'static str;
}

/// The defaults of a benchmark.
#[derive(Debug)]
pub(crate) struct Defaults<R: 'static> {
    /// All rows, in the order of the report.
    pub(crate) rows: &'static [R],
    /// The rows of `--quick`.
    pub(crate) quick_rows: &'static [&'static str],
    /// The option that restricts the contestants.
    pub(crate) only_option: &'static str,
    pub(crate) rounds: usize,
    pub(crate) quick_rounds: usize,
    pub(crate) window: Duration,
}

/// The options, ready for use.
#[derive(Debug, PartialEq)]
pub(crate) struct Options<R: 'static> {
    pub(crate) rows: Vec<&'static R>,
    /// Only these contestants; all, if empty.
    pub(crate) only: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) window: Duration,
    pub(crate) json: Option<PathBuf>,
    /// Whether servers that come as source are built first.
    pub(crate) build: bool,
    /// Whether the run only checks that everything works.
    pub(crate) quick: bool,
}

/// The length of the windows with `--quick`.
const QUICK_WINDOW: Duration = Duration::from_millis(400);

impl<R: Named> Options<R> {
    /// Reads the arguments that follow the benchmark's name.
    pub(crate) fn parse(arguments: &[String], defaults: &Defaults<R>) -> Result<Self, String> {
        let is_given = |flag: &str| arguments.iter().any(|argument| argument == flag);
        let mut options = Self::from_defaults(defaults, is_given("--quick"));
        options.build = !is_given("--no-build");
        let is_flag = |argument: &&String| ["--quick", "--no-build"].contains(&argument.as_str());
        let mut rest = arguments.iter().filter(|argument| !is_flag(argument));
        while let Some(name) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
            options.set(name, value, defaults)?;
        }
        Ok(options)
    }

    fn from_defaults(defaults: &Defaults<R>, quick: bool) -> Self {
        let is_due = |row: &&R| !quick || defaults.quick_rows.contains(&row.name());
        Self {
            rows: defaults.rows.iter().filter(is_due).collect(),
            only: Vec::new(),
            rounds: if quick { defaults.quick_rounds } else { defaults.rounds },
            window: if quick { QUICK_WINDOW } else { defaults.window },
            json: None,
            build: true,
            quick,
        }
    }

    fn set(&mut self, name: &str, value: &str, defaults: &Defaults<R>) -> Result<(), String> {
        let wrong = || format!("{name} cannot be {value:?}");
        match name {
            "--rows" => {
                let names = value.split(',');
                self.rows = names.map(|name| row(name, defaults.rows)).collect::<Result<_, _>>()?;
            }
            "--rounds" => {
                self.rounds = value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
            }
            "--seconds" => {
                let seconds = value.parse().ok().filter(|s| (0.1..=600.0).contains(s));
                self.window = Duration::from_secs_f64(seconds.ok_or_else(wrong)?);
            }
            "--json" => self.json = Some(value.into()),
            _ if name == defaults.only_option => {
                self.only = value.split(',').map(str::to_owned).collect();
            }
            _ => return Err(format!("no option {name:?}; see `cargo xtask bench --help`")),
        }
        Ok(())
    }

    /// Whether a contestant takes part.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }
}

fn row<R: Named>(name: &str, rows: &'static [R]) -> Result<&'static R, String> {
    rows.iter().find(|row| row.name() == name).ok_or_else(|| {
        let names: Vec<&str> = rows.iter().map(Named::name).collect();
        format!("no row {name:?}; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{load, simulate};
    use super::*;

    fn parse(line: &str) -> Result<Options<simulate::Program>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words, &simulate::DEFAULTS)
    }

    #[test]
    fn options_are_read_in_any_order() {
        let options = parse("--rounds 3 --quick --seconds 0.5 --rows sort,wc").expect("right");
        let rows: Vec<&str> = options.rows.iter().map(|row| row.name()).collect();
        assert_eq!((options.rounds, options.window.as_millis()), (3, 500));
        assert_eq!(rows, ["sort", "wc"]);
        assert_eq!(parse("").expect("right").rows.len(), simulate::DEFAULTS.rows.len());
        assert!(parse("--quick").expect("right").rows.len() < simulate::DEFAULTS.rows.len());
    }

    #[test]
    fn contestants_are_chosen_by_name() {
        let words = ["--clients", "none,wrk"].map(str::to_owned);
        let options = Options::parse(&words, &load::DEFAULTS).expect("right");
        assert!(options.wants("wrk") && !options.wants("bytes"));
        assert!(parse("").expect("right").wants("bytes"));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("--rows 2k", "no row \"2k\""),
            ("--rounds 0", "--rounds cannot be \"0\""),
            ("--rounds", "--rounds needs a value"),
            ("--seconds -1", "--seconds cannot be \"-1\""),
            ("--fast 1", "no option \"--fast\""),
            ("--clients wrk", "no option \"--clients\""),
        ] {
            let why = parse(line).expect_err(line);
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}
