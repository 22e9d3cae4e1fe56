//! What `cargo xtask bench serve` was asked to do.

use super::row::{ROWS, Row};
use std::path::PathBuf;
use std::time::Duration;

/// The options, ready for use.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) rows: Vec<&'static Row>,
    /// Only these servers; all, if empty.
    pub(crate) servers: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) window: Duration,
    pub(crate) json: Option<PathBuf>,
    /// Whether what comes as source is built first.
    pub(crate) build: bool,
}

impl Options {
    /// Reads the arguments that follow `serve`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let is_given = |flag: &str| arguments.iter().any(|argument| argument == flag);
        let mut options = if is_given("--quick") { Self::quick() } else { Self::full() };
        options.build = !is_given("--no-build");
        let is_flag = |argument: &&String| ["--quick", "--no-build"].contains(&argument.as_str());
        let mut rest = arguments.iter().filter(|argument| !is_flag(argument));
        while let Some(name) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn full() -> Self {
        Self {
            rows: ROWS.iter().collect(),
            servers: Vec::new(),
            rounds: 7,
            window: Duration::from_millis(1100),
            json: None,
            build: true,
        }
    }

    fn quick() -> Self {
        Self {
            rows: ROWS.iter().filter(|row| matches!(row.name, "1k" | "1m")).collect(),
            rounds: 2,
            window: Duration::from_millis(400),
            ..Self::full()
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = || format!("{name} cannot be {value:?}");
        match name {
            "--rows" => self.rows = value.split(',').map(row).collect::<Result<_, _>>()?,
            "--servers" => self.servers = value.split(',').map(str::to_owned).collect(),
            "--rounds" => {
                self.rounds = value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
            }
            "--seconds" => {
                let seconds = value.parse().ok().filter(|s| (0.1..=600.0).contains(s));
                self.window = Duration::from_secs_f64(seconds.ok_or_else(wrong)?);
            }
            "--json" => self.json = Some(value.into()),
            _ => return Err(format!("no option {name:?}; see `cargo xtask bench --help`")),
        }
        Ok(())
    }
}

fn row(name: &str) -> Result<&'static Row, String> {
    ROWS.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        format!("no row {name:?}; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_in_any_order() {
        let options = parse("--rounds 3 --quick --seconds 0.5 --rows 64k,idle").expect("right");
        let rows: Vec<&str> = options.rows.iter().map(|row| row.name).collect();
        assert_eq!((options.rounds, options.window.as_millis()), (3, 500));
        assert_eq!(rows, ["64k", "idle"]);
        assert_eq!(parse("").expect("right").rows.len(), ROWS.len());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("--rows 2k", "no row \"2k\""),
            ("--rounds 0", "--rounds cannot be \"0\""),
            ("--rounds", "--rounds needs a value"),
            ("--seconds -1", "--seconds cannot be \"-1\""),
            ("--fast 1", "no option \"--fast\""),
        ] {
            let why = parse(line).expect_err(line);
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}
