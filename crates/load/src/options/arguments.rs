//! Options as the words behind `ropewalk load`, and back: for programs that start a generator, and
//! for files in which somebody has typed some of its options.

use std::path::PathBuf;

use super::{Arrivals, Options};
use crate::plan::{ConnectionUse, Verify};

/// Every option that is not about what is reported, in the order in which it is written.
const NAMES: [&str; 29] = [
    "--log",
    "--default-think",
    "--think-max",
    "--connections",
    "--rate",
    "--request-rate",
    "--arrivals",
    "--speed",
    "--duration",
    "--warm-up",
    "--sessions",
    "--connection",
    "--idle",
    "--timeout",
    "--connect-timeout",
    "--host",
    "--header",
    "--source",
    "--verify",
    "--files",
    "--latency-target",
    "--lag-bound",
    "--run-delay-bound",
    "--interval",
    "--threads",
    "--cpus",
    "--share",
    "--start-at",
    "--seed",
];

/// Those that have a short name as well.
const SHORT: [(&str, &str); 4] =
    [("-c", "--connections"), ("-r", "--rate"), ("-d", "--duration"), ("-t", "--threads")];

/// Where an option's value is kept.
enum Place<'o> {
    Text(&'o mut Option<String>),
    Path(&'o mut Option<PathBuf>),
    Count(&'o mut Option<u64>),
    Threads(&'o mut Option<usize>),
    Factor(&'o mut Option<f64>),
    Arrivals(&'o mut Option<Arrivals>),
    Connection(&'o mut Option<ConnectionUse>),
    Verify(&'o mut Option<Verify>),
    Each(&'o mut Vec<String>),
    Listed(&'o mut Vec<String>),
}

impl Options {
    /// The words that mean the same, URLs first. Neither the command line for the report nor what
    /// is as it is without a word is among them.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        let mut words = self.urls.clone();
        let mut options = self.clone();
        for name in NAMES {
            let values = options.place(name).map_or_else(Vec::new, Place::values);
            words.extend(values.into_iter().flat_map(|value| [name.to_owned(), value]));
        }
        words
    }

    /// The options that have a value, in the order in which they are written.
    #[must_use]
    pub fn given(&self) -> Vec<&'static str> {
        let mut options = self.clone();
        let mut is_given = |name: &&str| options.place(name).is_some_and(|place| place.is_taken());
        NAMES.into_iter().filter(|name| is_given(name)).collect()
    }

    /// What words mean: URLs and options, in any order.
    ///
    /// # Errors
    /// One line: what is no option, stands there twice, lacks its value, or has one that it cannot
    /// have.
    pub fn from_arguments(words: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                options.urls.push(word.clone());
                continue;
            }
            let (name, joined) = split(word);
            let place = options
                .place(name)
                .ok_or_else(|| format!("{word}: there is no such option of what is asked"))?;
            if place.is_taken() && !place.takes_several() {
                return Err(format!("{name}: it stands there twice; once is enough"));
            }
            let value = joined.or_else(|| words.next().map(String::as_str));
            // A single dash is a value: that of a start that one is told.
            let value = value.filter(|value| !value.starts_with("--"));
            let value = value.ok_or_else(|| format!("{name}: its value is missing"))?;
            place.set(value).map_err(|why| format!("{name} {value}: {why}"))?;
        }
        Ok(options)
    }

    fn place(&mut self, name: &str) -> Option<Place<'_>> {
        Some(match name {
            "--log" => Place::Path(&mut self.log),
            "--files" => Place::Path(&mut self.files),
            "--connections" => Place::Count(&mut self.clients),
            "--sessions" => Place::Count(&mut self.sessions),
            "--idle" => Place::Count(&mut self.idle),
            "--threads" => Place::Threads(&mut self.threads),
            "--speed" => Place::Factor(&mut self.speed),
            "--seed" => Place::Count(&mut self.seed),
            "--arrivals" => Place::Arrivals(&mut self.arrivals),
            "--connection" => Place::Connection(&mut self.connection_use),
            "--verify" => Place::Verify(&mut self.verify),
            "--host" => Place::Each(&mut self.hosts),
            "--header" => Place::Each(&mut self.headers),
            "--source" => Place::Listed(&mut self.sources),
            _ => Place::Text(self.text(name)?),
        })
    }

    /// Where an option is kept as it is typed.
    fn text(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "--default-think" => &mut self.default_think,
            "--think-max" => &mut self.think_max,
            "--rate" => &mut self.rate,
            "--request-rate" => &mut self.request_rate,
            "--duration" => &mut self.duration,
            "--warm-up" => &mut self.warm_up,
            "--timeout" => &mut self.timeout,
            "--connect-timeout" => &mut self.connect_timeout,
            "--latency-target" => &mut self.latency_target,
            "--lag-bound" => &mut self.lag_bound,
            "--run-delay-bound" => &mut self.run_delay_bound,
            "--interval" => &mut self.interval,
            "--cpus" => &mut self.cpus,
            "--share" => &mut self.share,
            "--start-at" => &mut self.start_at,
            _ => return None,
        })
    }
}

/// The long name of an option, and its value if that is in the same word: `--idle=5`, `-t3`,
/// `-t=3`.
fn split(word: &str) -> (&str, Option<&str>) {
    let short = word.get(..2).and_then(|name| SHORT.iter().find(|(short, _)| *short == name));
    if let Some((_, long)) = short {
        let value = &word[2..];
        let value = value.strip_prefix('=').unwrap_or(value);
        return (long, Some(value).filter(|_| word.len() > 2));
    }
    word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
}

impl Place<'_> {
    fn is_taken(&self) -> bool {
        match self {
            Self::Text(text) => text.is_some(),
            Self::Path(path) => path.is_some(),
            Self::Count(count) => count.is_some(),
            Self::Threads(threads) => threads.is_some(),
            Self::Factor(factor) => factor.is_some(),
            Self::Arrivals(arrivals) => arrivals.is_some(),
            Self::Connection(use_) => use_.is_some(),
            Self::Verify(verify) => verify.is_some(),
            Self::Each(values) | Self::Listed(values) => !values.is_empty(),
        }
    }

    fn takes_several(&self) -> bool {
        matches!(self, Self::Each(_) | Self::Listed(_))
    }

    /// The words of its values: none if it has none.
    fn values(self) -> Vec<String> {
        fn of<T: ToString>(value: Option<&T>) -> Vec<String> {
            value.map(ToString::to_string).into_iter().collect()
        }
        match self {
            Self::Text(text) => of(text.as_ref()),
            Self::Path(path) => path.iter().map(|path| path.display().to_string()).collect(),
            Self::Count(count) => of(count.as_ref()),
            Self::Threads(threads) => of(threads.as_ref()),
            Self::Factor(factor) => of(factor.as_ref()),
            Self::Arrivals(arrivals) => arrivals.iter().map(|it| it.name().to_owned()).collect(),
            Self::Connection(use_) => use_.iter().map(|it| it.name().to_owned()).collect(),
            Self::Verify(verify) => verify.iter().map(|it| it.name().to_owned()).collect(),
            Self::Each(values) => values.clone(),
            Self::Listed(values) if values.is_empty() => Vec::new(),
            Self::Listed(values) => vec![values.join(",")],
        }
    }

    fn set(self, value: &str) -> Result<(), String> {
        const NUMBER: &str = "give a whole number";
        match self {
            Self::Text(text) => *text = Some(value.to_owned()),
            Self::Path(path) => *path = Some(value.into()),
            Self::Count(count) => *count = Some(value.parse().map_err(|_| NUMBER)?),
            Self::Threads(threads) => *threads = Some(value.parse().map_err(|_| NUMBER)?),
            Self::Factor(factor) => *factor = Some(value.parse().map_err(|_| "give a number")?),
            Self::Arrivals(arrivals) => {
                *arrivals = Some(named(&Arrivals::ALL, Arrivals::name, value)?);
            }
            Self::Connection(use_) => {
                *use_ = Some(named(&ConnectionUse::ALL, ConnectionUse::name, value)?);
            }
            Self::Verify(verify) => *verify = Some(named(&Verify::ALL, Verify::name, value)?),
            Self::Each(values) => values.push(value.to_owned()),
            Self::Listed(values) => values.extend(value.split(',').map(str::to_owned)),
        }
        Ok(())
    }
}

/// The one of that name.
fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, typed: &str) -> Result<T, String> {
    let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|one| name(*one) == typed);
    found.ok_or_else(|| format!("it is one of {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_written_is_read() {
        for options in [every_option(), Options::default()] {
            let words = options.to_arguments();
            assert_eq!(Options::from_arguments(&words).as_ref(), Ok(&options), "{words:?}");
        }
        let words = every_option().to_arguments();
        assert!(NAMES.iter().all(|name| words.iter().any(|word| word == name)), "{words:?}");
    }

    #[test]
    fn what_people_type() {
        let of = |line: &str| {
            Options::from_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        };
        let options = of("-c 8 --timeout=2s -t=3 --verify none").unwrap();
        assert_eq!((options.clients, options.threads), (Some(8), Some(3)));
        assert_eq!((options.timeout.as_deref(), options.verify), (Some("2s"), Some(Verify::None)));
        assert_eq!(options.given(), ["--connections", "--timeout", "--verify", "--threads"]);
        assert_eq!(of("-t3 -r 5@1s").unwrap(), of("--threads=3 --rate=5@1s").unwrap());
        assert_eq!(of("--host a --host b --source c,d --source e").unwrap().sources.len(), 3);
        let check = |line: &str, why: &str| assert_eq!(of(line).unwrap_err(), why);
        check("--fast 3", "--fast: there is no such option of what is asked");
        check("--json f", "--json: there is no such option of what is asked");
        check("-x5", "-x5: there is no such option of what is asked");
        check("--idle", "--idle: its value is missing");
        check("--think-max --idle 5", "--think-max: its value is missing");
        check("--idle 5 --idle=5", "--idle: it stands there twice; once is enough");
        check("-c8 --connections 8", "--connections: it stands there twice; once is enough");
        check("--idle many", "--idle many: give a whole number");
        check("--arrivals rare", "--arrivals rare: it is one of constant, poisson, trace");
    }
}
