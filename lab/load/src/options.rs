//! The options as the user types them, and their resolution into a plan. All errors in them are
//! found here, before anything is sent.

mod arguments;
mod error;

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use workload::request_log::{RequestLog, wsesslog};

use crate::expected;
use crate::merge;
use crate::outcome::Setting;
use crate::plan::{ConnectionUse, Model, Plan, Process, Start, Target, Verify};
use crate::schedule::Schedule;
use crate::target::Url;
use crate::void::Bounds;
use command::near::unreadable;
use command::units::{parse_duration, parse_share};
pub use error::OptionsError;

/// The default number of connections of a closed run: a usual choice of wrk's users.
const CLIENTS: u64 = 64;
/// The duration of a run that has no other end.
const DURATION_US: u64 = 10_000_000;
/// The papers' timeout (Radhakrishnan section 3.5.1).
const TIMEOUT_US: u64 = 10_000_000;

const WHEN: &str = "Arrivals and duration";
const HOW: &str = "Connections, threads and generators";
/// The heading in the help above the options for checking replies and judging runs.
pub const CHECKED: &str = "What is checked";
/// The heading in the help above the options for reports.
pub const REPORTED: &str = "What is reported (FILE may be - for standard output)";

const URL_HELP: &str = "http://host[:port][/path]; sessions alternate between several";
const REQUEST_RATE_HELP: &str =
    "Open: requests per second: the session rate times the mean session length";

/// The arrival process, as typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Evenly spaced.
    #[default]
    Constant,
    /// Independent of each other, like the sessions of many users.
    Poisson,
    /// At the times of the log.
    Trace,
}

/// The arguments of `ropewalk load`, with the help that the program prints. Durations and rates are
/// kept as texts and are parsed by [`resolve`](Self::resolve).
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize)]
#[command(next_help_heading = "What is requested")]
pub struct Options {
    /// Servers, with paths if there is no log.
    #[arg(value_name = "URL", help = URL_HELP)]
    pub urls: Vec<String>,
    /// Replay the sessions of a request log
    ///
    /// The format is httperf's; see `ropewalk log`.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "arguments::lossy")]
    pub log: Option<PathBuf>,
    /// Think time where the log has none [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub default_think: Option<String>,
    /// Cut longer think times to this [default: none is cut]
    #[arg(long, value_name = "TIME")]
    pub think_max: Option<String>,

    /// This many clients at once [default: 64]
    ///
    /// The run is closed: each client waits for its reply before it asks again.
    #[arg(long = "connections", short = 'c', value_name = "N", help_heading = WHEN)]
    pub clients: Option<u64>,
    /// Requests (with --log: sessions) a second
    ///
    /// The run is open. A schedule has steps and ramps: 500@30s,500..2000@60s.
    #[arg(long, short = 'r', value_name = "RATE", help_heading = WHEN)]
    pub rate: Option<String>,
    /// Open: requests per second, divided by the mean length of a session.
    #[arg(long, value_name = "RATE", help_heading = WHEN, help = REQUEST_RATE_HELP)]
    pub request_rate: Option<String>,
    /// How the starts of sessions are spread [default: constant]
    #[arg(long, value_enum, value_name = "PROCESS", help_heading = WHEN)]
    pub arrivals: Option<Arrivals>,
    /// With --arrivals trace: replay this many times as fast
    #[arg(long, value_name = "FACTOR", help_heading = WHEN)]
    pub speed: Option<f64>,
    /// Length of the window [default: 10s]
    ///
    /// The window is what is measured. Where sessions arrive at the times of the log the default is
    /// until it has been replayed.
    #[arg(long, short = 'd', value_name = "TIME", help_heading = WHEN)]
    pub duration: Option<String>,
    /// Load before the window, which is not measured [default: 0s; with --find-limit 1s, and
    /// the time until the number of sessions under way is steady]
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    pub warm_up: Option<String>,
    /// Stop after this many sessions (requests, without --log)
    #[arg(long, value_name = "N")]
    pub sessions: Option<u64>,

    /// Which requests share a connection [default: session with --log, else keep]
    #[arg(long = "connection", value_enum, value_name = "USE", help_heading = HOW)]
    pub connection_use: Option<ConnectionUse>,
    /// Hold this many further connections open, idle after one request each [default: 0]
    #[arg(long, value_name = "N", help_heading = HOW)]
    pub idle: Option<u64>,
    /// The whole reply must come within this time [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = HOW)]
    pub timeout: Option<String>,
    /// The connection must be established within this time [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = HOW)]
    pub connect_timeout: Option<String>,
    /// Virtual host instead of the URL's; sessions alternate between several
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// A header for every request; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Local addresses, in turn: each has its own 28,000 or so ports
    #[arg(long = "source", value_name = "IP", value_delimiter = ',', help_heading = HOW)]
    pub sources: Vec<String>,

    /// What is checked in each reply [default: length]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = CHECKED)]
    pub verify: Option<Verify>,
    /// A directory with copies of the expected replies
    #[arg(long, value_name = "DIR", help_heading = CHECKED)]
    #[serde(serialize_with = "arguments::lossy")]
    pub files: Option<PathBuf>,
    /// Count replies within this time as goodput
    #[arg(long, value_name = "TIME", help_heading = CHECKED)]
    pub latency_target: Option<String>,
    /// The run is void if the generator itself is later at the 99th percentile [default: half of
    /// the 99th percentile reported, and at least 4ms]
    #[arg(long, value_name = "TIME", help_heading = CHECKED)]
    pub lag_bound: Option<String>,
    /// The run is void if other processes make the threads of the generator, or of a server on this
    /// machine, wait for a CPU for more of the time in which they want to run [default: 25%]
    #[arg(long, value_name = "SHARE", help_heading = CHECKED)]
    pub run_delay_bound: Option<String>,
    /// Length of an interval of the series [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = REPORTED)]
    pub interval: Option<String>,

    /// Threads [default: one for each of --cpus, else 1]
    #[arg(long, short = 't', value_name = "N", help_heading = HOW)]
    pub threads: Option<usize>,
    /// Pin the threads to these CPUs, in turn: 1,4-7
    #[arg(long, value_name = "CPUS", help_heading = HOW)]
    pub cpus: Option<String>,
    /// Act as generator I of N: run its share of the sessions
    #[arg(long, value_name = "I/N", help_heading = HOW)]
    pub share: Option<String>,
    /// Start at this time, in seconds since 1970, with the other generators; -: print `ready` and
    /// read the time from standard input
    #[arg(long, value_name = "SECONDS", help_heading = HOW)]
    pub start_at: Option<String>,
    /// Seeds the arrival process [default: 1]
    #[arg(long, value_name = "N", help_heading = WHEN)]
    pub seed: Option<u64>,
    /// The command line, for the report.
    #[arg(skip)]
    pub command: String,
}

impl Options {
    /// Resolves the options into the plan and the setting that reports show.
    ///
    /// # Errors
    /// One line: which option is wrong, how, and what to do.
    pub fn resolve(&self) -> Result<(Plan, Setting), OptionsError> {
        let urls = self.urls.iter().map(|url| Url::parse(url)).collect::<Result<Vec<_>, _>>()?;
        // Most runs need more connections than the usual limit allows; where it cannot be raised,
        // requests that fail for want of descriptors are counted and explained.
        let _ = os::limits::raise_descriptor_limit();
        if urls.is_empty() {
            let why = "no server is named: ropewalk load http://host:port/path";
            return Err(OptionsError::Typed(why.into()));
        }
        let (log, notes) = self.request_log(&urls)?;
        let sources = self.sources()?;
        let connect_timeout_us = self.connect_timeout_us()?;
        let targets = self.targets(&urls, &sources, connect_timeout_us)?;
        let model = self.model(&log)?;
        let verify = self.verify.unwrap_or(Verify::Length);
        let plan = Plan {
            sources,
            targets,
            expected: expected::for_log(&log, verify, self.files.as_deref())?.into(),
            connection_use: self.connection_use.unwrap_or(match self.log {
                Some(_) => ConnectionUse::Session,
                None => ConnectionUse::Keep,
            }),
            verify,
            timeout_us: self.timeout_us()?,
            connect_timeout_us,
            latency_target_us: optional("--latency-target", self.latency_target.as_deref())?,
            bounds: self.bounds()?,
            warm_up_us: self.warm_up_us()?,
            duration_us: self.duration(&model, &log)?,
            sessions_max: self.sessions_max(&model, &log),
            interval_us: duration("--interval", self.interval.as_deref(), 1_000_000)?,
            threads: self.threads()?,
            cpus: self.cpus()?,
            share: self.share()?,
            idle: self.idle.unwrap_or(0),
            start: self.start()?,
            rest_us: 0,
            seed: self.seed.unwrap_or(1),
            notes,
            log: Arc::new(log),
            model,
        };
        plan.check()?;
        let setting = self.setting(&plan);
        Ok((plan, setting))
    }

    /// Every URL under every host. Without a log session k requests the path of URL k modulo their
    /// number, so the URLs must vary fastest.
    fn targets(
        &self,
        urls: &[Url],
        sources: &[IpAddr],
        connect_timeout_us: u64,
    ) -> Result<Vec<Target>, OptionsError> {
        let within = Duration::from_micros(connect_timeout_us.max(1));
        let addresses = urls.iter().map(|url| url.address(sources, within));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let hosts = self.hosts.iter().map(|host| Some(&**host));
        let hosts: Vec<Option<&str>> =
            if self.hosts.is_empty() { vec![None] } else { hosts.collect() };
        let of_host = |host| {
            let pairs = urls.iter().zip(&addresses);
            pairs.map(move |(url, address)| url.target(*address, host, &self.headers))
        };
        Ok(hosts.into_iter().flat_map(of_host).collect::<Result<_, String>>()?)
    }

    /// The log, and notes on the parts of it that were ignored.
    fn request_log(&self, urls: &[Url]) -> Result<(RequestLog, Vec<String>), OptionsError> {
        let think_max_us = optional("--think-max", self.think_max.as_deref())?;
        let Some(path) = &self.log else { return Ok((log_of_urls(urls)?, Vec::new())) };
        if let Some(url) = urls.iter().find(|url| !matches!(&*url.path, "" | "/")) {
            return Err(OptionsError::Typed(format!(
                "{}: with --log the URL names a server only; its path comes from the log",
                url.typed
            )));
        }
        let think_us = duration("--default-think", self.default_think.as_deref(), 0)?;
        let refused =
            |why| OptionsError::of_named(&why, unreadable(path, &why, "a log of sessions"));
        let bytes = fs::read(path).map_err(refused)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (mut log, notes) = wsesslog::read_with_notes(&bytes, think_us, threads)
            .map_err(|why| format!("{}: {why}", path.display()))?;
        if let Some(us) = think_max_us {
            log.cut_pauses(us);
        }
        if log.sessions() == 0 {
            let why = format!("{}: there is no request in it", path.display());
            return Err(OptionsError::Typed(why));
        }
        let notes = notes.to_string();
        Ok((log, notes.lines().map(|note| format!("{}: {note}", path.display())).collect()))
    }

    fn model(&self, log: &RequestLog) -> Result<Model, String> {
        let speed = self.speed.unwrap_or(1.0);
        if self.speed.is_some() && self.arrivals != Some(Arrivals::Trace) {
            return Err("--speed is for --arrivals trace".into());
        }
        match (self.arrivals, self.schedule(log)?) {
            (Some(Arrivals::Trace), None) if log.start_us(0).is_none() => {
                Err("--arrivals trace: the log does not say when its sessions began; \
                     `ropewalk log import` writes logs that do"
                    .into())
            }
            (Some(Arrivals::Trace), None) if !(speed.is_finite() && speed > 0.0) => {
                Err("--speed: give a number above 0".into())
            }
            (Some(Arrivals::Trace), None) => Ok(Model::Open(Process::Trace(speed))),
            (Some(Arrivals::Trace), Some(_)) => Err("--arrivals trace has its own rate: \
                                                     leave --rate out, or set --speed"
                .into()),
            (Some(_), None) => Err("--arrivals: at which --rate?".into()),
            (None, None) => {
                let clients = self.clients.unwrap_or(CLIENTS);
                // Sessions alternate between several targets, so each must have an end.
                let is_one = self.urls.len() * self.hosts.len().max(1) == 1;
                let endless = is_one && self.log.is_none() && self.sessions.is_none();
                Ok(Model::Closed { clients, endless })
            }
            (_, Some(_)) if self.clients.is_some() => Err("--connections is for closed runs and \
                                                           --rate for open ones: leave one out"
                .into()),
            (Some(Arrivals::Poisson), Some(rate)) => Ok(Model::Open(Process::Poisson(rate))),
            (_, Some(rate)) => Ok(Model::Open(Process::Constant(rate))),
        }
    }

    /// Sessions per second.
    fn schedule(&self, log: &RequestLog) -> Result<Option<Schedule>, String> {
        let read = |option: &str, text: &str| {
            text.parse::<Schedule>().map_err(|why| format!("{option} {text}: {why}"))
        };
        match (&self.rate, &self.request_rate) {
            (Some(_), Some(_)) => Err("--rate and --request-rate: leave one out".into()),
            (Some(rate), None) => read("--rate", rate).map(Some),
            (None, Some(rate)) => {
                let mean_length = log.requests() as f64 / log.sessions() as f64;
                Ok(Some(read("--request-rate", rate)?.scaled(1.0 / mean_length)))
            }
            (None, None) => Ok(None),
        }
    }

    /// The length of the load before the window, in microseconds.
    ///
    /// # Errors
    /// One line, if the option's value is no time.
    pub fn warm_up_us(&self) -> Result<u64, String> {
        duration("--warm-up", self.warm_up.as_deref(), 0)
    }

    /// The time until the number of sessions of the log under way is steady, with the pauses
    /// between requests: [`RequestLog::filling_us`].
    ///
    /// # Errors
    /// One line, if the log cannot be read.
    pub fn filling_us(&self) -> Result<u64, OptionsError> {
        self.request_log(&[]).map(|(log, _)| log.filling_us())
    }

    /// How much longer than its window a run may take, in microseconds: the warm-up, and the
    /// timeouts of requests that are still under way.
    ///
    /// # Errors
    /// One line, if the value of one of these options is no time.
    pub fn beyond_window_us(&self) -> Result<u64, String> {
        Ok(self.warm_up_us()? + self.timeout_us()? + self.connect_timeout_us()?)
    }

    fn timeout_us(&self) -> Result<u64, String> {
        duration("--timeout", self.timeout.as_deref(), TIMEOUT_US)
    }

    fn connect_timeout_us(&self) -> Result<u64, String> {
        duration("--connect-timeout", self.connect_timeout.as_deref(), TIMEOUT_US)
    }

    /// The length of the measured window: a default for runs that have no other end.
    fn duration(&self, model: &Model, log: &RequestLog) -> Result<Option<u64>, String> {
        let typed = optional("--duration", self.duration.as_deref())?;
        let of_model = match model {
            Model::Open(Process::Constant(rate) | Process::Poisson(rate)) => rate.duration_us(),
            _ => None,
        };
        let has_end = self.sessions.is_some()
            || matches!(model, Model::Open(Process::Trace(_)))
            || self.log.is_some() && log.sessions() > 0;
        Ok(match (typed, of_model) {
            (Some(typed), _) => Some(typed),
            // The schedule begins with the warm-up.
            (None, Some(of_model)) => match of_model.saturating_sub(self.warm_up_us()?) {
                0 => return Err("--warm-up: it leaves nothing of the schedule of --rate".into()),
                rest_us => Some(rest_us),
            },
            (None, None) if has_end => None,
            (None, None) => Some(DURATION_US),
        })
    }

    /// The number of sessions after which the run ends: a log is replayed once, unless there is
    /// another end.
    fn sessions_max(&self, model: &Model, log: &RequestLog) -> Option<u64> {
        let once = self.log.is_some() && self.duration.is_none();
        let is_trace = matches!(model, Model::Open(Process::Trace(_)));
        let all = (once || is_trace).then_some(log.sessions() as u64);
        self.sessions.or(all)
    }

    fn bounds(&self) -> Result<Bounds, String> {
        let lag_us = optional("--lag-bound", self.lag_bound.as_deref())?;
        let Some(typed) = &self.run_delay_bound else {
            return Ok(Bounds { lag_us, ..Bounds::default() });
        };
        let explain = |why| format!("--run-delay-bound {typed}: {why}");
        Ok(Bounds { lag_us, run_delay_share: parse_share(typed).map_err(explain)? })
    }

    fn sources(&self) -> Result<Vec<IpAddr>, OptionsError> {
        let mut sources = Vec::new();
        for typed in &self.sources {
            let source: IpAddr = typed
                .parse()
                .map_err(|_| format!("--source {typed}: give an IP address of this machine"))?;
            // Binding a UDP socket shows whether the address is one of this machine's.
            UdpSocket::bind((source, 0))
                .map_err(|why| OptionsError::of_named(&why, format!("--source {source}: {why}")))?;
            sources.push(source);
        }
        Ok(sources)
    }

    fn threads(&self) -> Result<usize, String> {
        match self.threads {
            Some(0) => Err("--threads: at least 1".into()),
            Some(threads) => Ok(threads),
            None => Ok(self.cpus()?.len().max(1)),
        }
    }

    fn cpus(&self) -> Result<Vec<usize>, String> {
        self.cpus.as_ref().map_or_else(|| Ok(Vec::new()), |typed| parse_cpus("--cpus", typed))
    }

    fn share(&self) -> Result<(u32, u32), String> {
        let Some(typed) = &self.share else { return Ok((0, 1)) };
        let parsed = typed.split_once('/').and_then(|(index, of)| {
            let (index, of): (u32, u32) = (index.parse().ok()?, of.parse().ok()?);
            (1 <= index && index <= of).then(|| (index - 1, of))
        });
        parsed.ok_or_else(|| format!("--share {typed}: give I/N, the I-th of N generators"))
    }

    fn start(&self) -> Result<Start, String> {
        match self.start_at.as_deref() {
            None => Ok(Start::Now),
            Some("-") => Ok(Start::WhenNotified),
            Some(typed) => parse_start(typed).map(Start::At),
        }
    }

    fn setting(&self, plan: &Plan) -> Setting {
        Setting {
            command: self.command.clone(),
            targets: self.urls.clone(),
            arrivals: plan.model.arrivals(),
            rate: match &plan.model {
                Model::Open(Process::Constant(rate) | Process::Poisson(rate)) => rate.to_string(),
                _ => String::new(),
            },
            connections: match plan.model {
                Model::Closed { clients, .. } => Some(clients),
                Model::Open(_) => None,
            },
            idle: plan.idle,
            connection_use: arguments::name(&plan.connection_use),
            verify: arguments::name(&plan.verify),
            timeout_us: plan.timeout_us,
            connect_timeout_us: plan.connect_timeout_us,
            latency_target_us: plan.latency_target_us,
            duration_us: plan.duration_us,
            lag_bound_us: plan.bounds.lag_us,
            run_delay_bound: plan.bounds.run_delay_share,
            seed: plan.seed,
            log: self.log.as_ref().map(|path| path.display().to_string()),
            log_beyond_get: plan.log.templates().iter().any(|asked| &*asked.method != "GET"),
            digest: merge::digest(plan),
            share: vec![plan.share.0],
            generators: plan.share.1,
            starts_apart_us: 0,
            threads: plan.threads as u32,
            descriptors_max: os::limits::descriptor_limit().unwrap_or(0),
        }
    }
}

/// A session of one request for each URL: session k goes to the k-th target with its own path.
fn log_of_urls(urls: &[Url]) -> Result<RequestLog, String> {
    let mut builder = RequestLog::builder();
    for url in urls {
        let path = if url.path.is_empty() { "/" } else { &url.path };
        let template = builder.intern_get(path.as_bytes());
        builder.push_known(template, false, 0);
        builder.end_session();
    }
    builder.finish().map_err(|why| why.to_string())
}

fn duration(option: &str, typed: Option<&str>, default_us: u64) -> Result<u64, String> {
    Ok(optional(option, typed)?.unwrap_or(default_us))
}

fn optional(option: &str, typed: Option<&str>) -> Result<Option<u64>, String> {
    let Some(typed) = typed else { return Ok(None) };
    parse_duration(typed).map(Some).map_err(|why| format!("{option} {typed}: {why}"))
}

/// Parses a start time, typed in seconds since 1970, into microseconds since 1970.
///
/// # Errors
/// One line: the form that is expected.
pub fn parse_start(typed: &str) -> Result<u64, String> {
    let seconds: Option<f64> = typed.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
    let seconds = seconds.ok_or_else(|| {
        format!("--start-at {typed}: give seconds since 1970, such as $(date -d '+10 sec' +%s)")
    })?;
    Ok((seconds * 1e6) as u64)
}

/// Parses the CPUs that were typed as the value of `option`: numbers and ranges such as `1,4-7`.
///
/// # Errors
/// One line with the option's name: a syntax error, or CPUs that do not exist or are not allowed.
pub fn parse_cpus(option: &str, typed: &str) -> Result<Vec<usize>, String> {
    let cpus = os::cpu_list::parse(typed).map_err(|why| format!("{option} {typed}: {why}"))?;
    let allowed = os::affinity::allowed_cpus();
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(format!("{option} {typed}: CPU {cpu} is not there or not allowed")),
        None => Ok(cpus),
    }
}
