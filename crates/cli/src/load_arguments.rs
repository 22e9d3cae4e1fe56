//! What can be typed behind `ropewalk load`. Values are checked in the `load` crate.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use load::options::{Arrivals, Options};
use load::plan::{ConnectionUse, Verify};

pub(crate) const LOAD_EXAMPLES: &str = "\
Without --rate the run is closed: each of the --connections asks again as soon as its reply has
come, as wrk does. With --rate it is open: sessions start when they are due, however slow the server
is, and times count from when a request should have been sent. With --log sessions go on after think
times: partly open, as real users behave.

Exit status: 0 success, 1 errors of the server, 2 wrong usage, 3 the run is void (the generator
itself could not keep up), 4 it was interrupted.

Examples:
  ropewalk load http://127.0.0.1:8080/                       64 connections for 10 s
  ropewalk load http://127.0.0.1:8080/ --rate 2000 --arrivals poisson --duration 30s
  ropewalk load http://127.0.0.1:8080 --log sessions.log --rate 500@30s,500..2000@60s --fairness
  ropewalk load http://127.0.0.1:8080/ --find-limit p99=50ms
  ropewalk load http://10.0.0.2 --log sessions.log --rate 900 --share 1/3 --start-at 1790000000 \\
                --json part1.json
  ropewalk load merge part1.json part2.json part3.json";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LoadArguments {
    #[command(subcommand)]
    pub(crate) command: Option<LoadCommand>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Subcommand)]
pub(crate) enum LoadCommand {
    /// Put the JSON results of several generators together, exactly
    Merge {
        /// Results written with --json
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArguments,
    },
}

#[derive(Args)]
#[command(next_help_heading = "What is asked for")]
pub(crate) struct RunArguments {
    #[arg(value_name = "URL", help = URL_HELP)]
    urls: Vec<String>,
    /// Replay the sessions of a request log (httperf's format; see `ropewalk log`)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Think time where the log has none [default: 0s]
    #[arg(long, value_name = "TIME", requires = "log")]
    default_think: Option<String>,
    /// Cut longer think times to this [default: none is cut]
    #[arg(long, value_name = "TIME", requires = "log")]
    think_max: Option<String>,
    /// Stop after so many sessions (requests, without --log)
    #[arg(long, value_name = "N")]
    sessions: Option<u64>,
    /// Virtual host instead of the URL's; of several, sessions take turns
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// A header for every request; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// Closed: so many clients, each waits for its reply [default: 64]
    #[arg(long, short = 'c', value_name = "N", help_heading = "When it is asked")]
    connections: Option<u64>,
    #[arg(long, short = 'r', value_name = "RATE", help = RATE_HELP)]
    #[arg(help_heading = "When it is asked")]
    rate: Option<String>,
    /// The same in requests per second: the rate times the mean session length
    #[arg(long, value_name = "RATE", help_heading = "When it is asked")]
    request_rate: Option<String>,
    /// How the starts of sessions are spread [default: constant]
    #[arg(long, value_enum, value_name = "PROCESS", help_heading = "When it is asked")]
    arrivals: Option<TypedArrivals>,
    /// With --arrivals trace: so many times as fast
    #[arg(long, value_name = "FACTOR", help_heading = "When it is asked")]
    speed: Option<f64>,
    /// Length of the measured window [default: 10s, or until the log has been replayed]
    #[arg(long, short = 'd', value_name = "TIME", help_heading = "When it is asked")]
    duration: Option<String>,
    /// Load before the window, which is not measured [default: 0s; with --find-limit 1s, and
    /// what sessions that pause need until as many are under way as always will be]
    #[arg(long, value_name = "TIME", help_heading = "When it is asked")]
    warm_up: Option<String>,
    /// Seeds the arrival process [default: 1]
    #[arg(long, value_name = "N", help_heading = "When it is asked")]
    seed: Option<u64>,

    /// Which requests share a connection [default: session with --log, else keep]
    #[arg(long, value_enum, value_name = "USE", help_heading = "How it is asked")]
    connection: Option<TypedConnection>,
    /// Hold so many further connections open, each of which has asked once [default: 0]
    #[arg(long, value_name = "N", help_heading = "How it is asked")]
    idle: Option<u64>,
    /// The whole reply must have come within it [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "How it is asked")]
    timeout: Option<String>,
    /// The connection must be made within it [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "How it is asked")]
    connect_timeout: Option<String>,
    /// Local addresses, in turn: each has its own 28,000 or so ports
    #[arg(long, value_name = "IP", value_delimiter = ',', help_heading = "How it is asked")]
    source: Vec<String>,
    /// Threads [default: one for each of --cpus, else 1]
    #[arg(long, short = 't', value_name = "N", help_heading = "How it is asked")]
    threads: Option<usize>,
    /// Pin the threads to these CPUs, in turn: 1,4-7
    #[arg(long, value_name = "CPUS", help_heading = "How it is asked")]
    cpus: Option<String>,
    /// Be the I-th of N generators: do its share of the sessions
    #[arg(long, value_name = "I/N", help_heading = "How it is asked")]
    share: Option<String>,
    /// Start at this time, in seconds since 1970, with the other generators; -: say `ready` and
    /// read the time from standard input
    #[arg(long, value_name = "SECONDS", help_heading = "How it is asked")]
    start_at: Option<String>,

    /// What is looked at in each reply [default: length]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "What is looked at")]
    verify: Option<TypedVerify>,
    /// A directory with copies of what the replies should be
    #[arg(long, value_name = "DIR", help_heading = "What is looked at")]
    files: Option<PathBuf>,
    /// Count replies within it as goodput
    #[arg(long, value_name = "TIME", help_heading = "What is looked at")]
    latency_target: Option<String>,
    /// The run is void if the generator itself is later at the 99th percentile [default: half of
    /// the 99th percentile reported, and at least 4ms]
    #[arg(long, value_name = "TIME", help_heading = "What is looked at")]
    lag_bound: Option<String>,
    /// The run is void if others make the threads of the generator, or of a server on this machine,
    /// wait for a CPU for more of the time in which they want to run [default: 25%]
    #[arg(long, value_name = "SHARE", help_heading = "What is looked at")]
    run_delay_bound: Option<String>,
    /// Find the highest rate at which the server keeps to it: p99=50ms, or errors=0.1%,p99.9=1s
    #[arg(long, value_name = "CONDITIONS", help_heading = "What is looked at")]
    find_limit: Option<String>,
    /// Length of an interval of the series [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = REPORTED)]
    interval: Option<String>,
}

const REPORTED: &str = "What is reported (FILE may be - for standard output)";

const URL_HELP: &str = "http://host[:port][/path]; of several, sessions take turns";

const RATE_HELP: &str = "Open: sessions per second (requests, without --log), or a schedule of \
    steps and ramps: 500@30s,500..2000@60s";

#[derive(Args)]
#[command(next_help_heading = REPORTED)]
pub(crate) struct OutputArguments {
    /// Everything, with the histograms, for `ropewalk load merge` and other programs
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// HdrHistogram log, version 2, an interval a line
    #[arg(long, value_name = "FILE")]
    pub(crate) interval_log: Option<PathBuf>,
    /// Percentile spectrum, as wrk2 and HdrHistogram print it
    #[arg(long, value_name = "FILE")]
    pub(crate) spectrum: Option<PathBuf>,
    /// Time series as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// httperf's own text, for programs that read it
    #[arg(long, value_name = "FILE")]
    pub(crate) httperf: Option<PathBuf>,
    /// Print the fairness table: by file type, class and session length
    #[arg(long)]
    pub(crate) fairness: bool,
    /// No progress and no summary
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedArrivals {
    /// Evenly spaced
    Constant,
    /// Independent of each other, as those of many users are
    Poisson,
    /// When the log says
    Trace,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedConnection {
    /// Those of a session
    Session,
    /// None: a connection each
    Request,
    /// Any: sessions use again what others have left open
    Keep,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedVerify {
    /// The status, and that the reply is complete
    None,
    /// Its length too, where it is known
    Length,
    /// Every byte
    Bytes,
}

impl LoadArguments {
    /// For the `load` crate, with the conditions of a search for the limit.
    pub(crate) fn into_options(self) -> (Options, Option<String>, OutputArguments) {
        let Self { run, output, .. } = self;
        let options = Options {
            urls: run.urls,
            log: run.log,
            default_think: run.default_think,
            think_max: run.think_max,
            clients: run.connections,
            rate: run.rate,
            request_rate: run.request_rate,
            arrivals: run.arrivals.map(Into::into),
            speed: run.speed,
            duration: run.duration,
            warm_up: run.warm_up,
            sessions: run.sessions,
            connection_use: run.connection.map(Into::into),
            idle: run.idle,
            timeout: run.timeout,
            connect_timeout: run.connect_timeout,
            hosts: run.host,
            headers: run.header,
            sources: run.source,
            verify: run.verify.map(Into::into),
            files: run.files,
            latency_target: run.latency_target,
            lag_bound: run.lag_bound,
            run_delay_bound: run.run_delay_bound,
            interval: run.interval,
            threads: run.threads,
            cpus: run.cpus,
            share: run.share,
            start_at: run.start_at,
            seed: run.seed,
            command: command_line(),
        };
        (options, run.find_limit, output)
    }
}

/// As it was typed, for the report.
fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.fold("ropewalk".into(), |line, word| format!("{line} {word}"))
}

impl From<TypedArrivals> for Arrivals {
    fn from(typed: TypedArrivals) -> Self {
        match typed {
            TypedArrivals::Constant => Self::Constant,
            TypedArrivals::Poisson => Self::Poisson,
            TypedArrivals::Trace => Self::Trace,
        }
    }
}

impl From<TypedConnection> for ConnectionUse {
    fn from(typed: TypedConnection) -> Self {
        match typed {
            TypedConnection::Session => Self::Session,
            TypedConnection::Request => Self::Request,
            TypedConnection::Keep => Self::Keep,
        }
    }
}

impl From<TypedVerify> for Verify {
    fn from(typed: TypedVerify) -> Self {
        match typed {
            TypedVerify::None => Self::None,
            TypedVerify::Length => Self::Length,
            TypedVerify::Bytes => Self::Bytes,
        }
    }
}
