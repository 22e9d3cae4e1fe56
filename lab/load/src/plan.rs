//! The plan of a run, resolved from the options: addresses, sessions, times. Nothing in it is
//! checked again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;
use workload::content::{Content, Mismatch};
use workload::request_log::RequestLog;

use crate::measures::OTHER;
use crate::outcome::Arrivals;
use crate::schedule::Schedule;
use crate::void::Bounds;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Session k goes to target k modulo their number.
    pub targets: Vec<Target>,
    /// Session k comes from source k modulo their number; none: the system chooses.
    pub sources: Vec<IpAddr>,
    /// The requests. Session k replays session k of the log modulo their number.
    pub log: Arc<RequestLog>,
    /// The expected reply for each template of the log.
    pub expected: Arc<[Expected]>,
    /// When sessions start.
    pub model: Model,
    /// Which requests share a connection.
    pub connection_use: ConnectionUse,
    /// How replies are verified.
    pub verify: Verify,
    /// How long a whole reply may take from the sending of its request, in microseconds.
    pub timeout_us: u64,
    /// How long connecting may take, in microseconds.
    pub connect_timeout_us: u64,
    /// Replies that take no longer are goodput, in microseconds.
    pub latency_target_us: Option<u64>,
    /// Bounds beyond which the run is void.
    pub bounds: Bounds,
    /// Time before the measured window, in microseconds.
    pub warm_up_us: u64,
    /// Length of the measured window in microseconds; none: until all sessions are over.
    pub duration_us: Option<u64>,
    /// The most sessions that are started.
    pub sessions_max: Option<u64>,
    /// Length of an interval of the time series, in microseconds.
    pub interval_us: u64,
    /// Threads of this process.
    pub threads: usize,
    /// The CPU of each thread, in turn; empty: the scheduler's choice.
    pub cpus: Vec<usize>,
    /// The number of this generator, from 0, and how many there are.
    pub share: (u32, u32),
    /// Connections, of all generators, that are open beside the load and rest.
    pub idle: u64,
    /// When this generator starts.
    pub start: Start,
    /// Time before the start, in microseconds: for a server that was loaded before to recover.
    pub rest_us: u64,
    /// Seeds the arrival process.
    pub seed: u64,
    /// Notes for the user: parts of the log that are ignored or remarkable.
    pub notes: Vec<String>,
}

/// When a generator starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as the generator is ready.
    Now,
    /// At this time, in microseconds since 1970.
    At(u64),
    /// At the time that the caller returns once the generator has reported that it is ready:
    /// [`crate::run::Watch::on_ready`].
    WhenNotified,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub address: SocketAddr,
    /// As typed, for reports.
    pub url: String,
    /// The text that follows the URI in each request: version, Host and other fields, without the
    /// blank line.
    pub fields: Vec<u8>,
}

/// When sessions start.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A number of clients (of all generators), each of which begins its next session when its last
    /// is over.
    Closed {
        /// The number of clients.
        clients: u64,
        /// Whether a session begins anew after its last request, on the same connection.
        endless: bool,
    },
    /// At intended times, independent of the progress of earlier sessions.
    Open(Process),
}

/// An arrival process.
#[derive(Clone, Debug, PartialEq)]
pub enum Process {
    /// Evenly spaced under a schedule of sessions per second.
    Constant(Schedule),
    /// Poisson under a schedule of sessions per second.
    Poisson(Schedule),
    /// At the times of the log, this many times as fast.
    Trace(f64),
}

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionUse {
    /// The requests of a session.
    Session,
    /// None: each request has a connection of its own.
    Request,
    /// Any: sessions reuse connections that earlier ones have left open.
    Keep,
}

/// What is verified in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// The status, and that the reply is complete.
    None,
    /// Also the length of the body, where it is known.
    Length,
    /// Also every byte of the body.
    Bytes,
}

/// The expected reply to a template.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The length of its body, if that is known; it is not for requests other than GET.
    pub bytes: Option<u64>,
    /// The content of its body.
    pub body: ExpectedBody,
    /// The row of the fairness table in which the reply counts.
    pub kind: u8,
}

/// The bytes of a reply.
#[derive(Clone, Debug, Default)]
pub enum ExpectedBody {
    /// The content is not known.
    #[default]
    Unknown,
    /// The bytes of a file of a file set.
    Derived(Content),
    /// A copy of the file.
    Stored(Arc<[u8]>),
}

impl Expected {
    /// A reply of which only the length is known, or nothing.
    #[must_use]
    pub fn other(bytes: Option<u64>) -> Self {
        Self { bytes, body: ExpectedBody::Unknown, kind: OTHER as u8 }
    }
}

impl ExpectedBody {
    /// Compares bytes of a body, beginning at `offset`, with the expected ones.
    ///
    /// # Errors
    /// The first byte that differs. Bytes behind the end of a copy are not compared: the length is
    /// checked elsewhere.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        match self {
            Self::Unknown => Ok(()),
            Self::Derived(content) => content.check(offset, bytes),
            Self::Stored(copy) => check_copy(copy, offset, bytes),
        }
    }
}

impl Plan {
    /// Checks what no single option shows to be wrong.
    ///
    /// # Errors
    /// One line: which options do not go together.
    pub fn check(&self) -> Result<(), String> {
        /// The series costs memory and the progress line a reader's patience.
        const INTERVAL_US_MIN: u64 = 10_000;
        /// An interval's histogram.
        const INTERVAL_BYTES: u64 = 26 << 10;
        const SERIES_BYTES_MAX: u64 = 1 << 30;
        if self.interval_us < INTERVAL_US_MIN {
            return Err("--interval: at least 10ms".into());
        }
        let intervals = self.least_us() / self.interval_us;
        let intervals = intervals.saturating_mul(self.threads as u64);
        if intervals > SERIES_BYTES_MAX / INTERVAL_BYTES {
            return Err(format!(
                "--interval: {intervals} intervals in all threads would need more than {} MiB: \
                 give a longer one",
                SERIES_BYTES_MAX >> 20
            ));
        }
        if self.timeout_us == 0 || self.connect_timeout_us == 0 {
            return Err("--timeout and --connect-timeout: more than 0".into());
        }
        if self.duration_us == Some(0) || self.sessions_max == Some(0) {
            return Err("--duration and --sessions: more than 0".into());
        }
        match self.model {
            Model::Closed { clients: 0, .. } => Err("--connections: at least 1".into()),
            Model::Closed { clients, .. } if clients < u64::from(self.share.1) => Err(format!(
                "--connections: {clients} cannot be shared among {} generators",
                self.share.1
            )),
            Model::Closed { .. } if self.duration_us.is_none() && self.sessions_max.is_none() => {
                Err("the run would never end: give --duration or --sessions".into())
            }
            _ => Ok(()),
        }
    }

    /// The least length of the window: if none is set, the time until the last session of a trace
    /// begins. At a low rate the replay of a long log may take weeks, but a user that starts it
    /// without a length means to interrupt it.
    fn least_us(&self) -> u64 {
        let Model::Open(Process::Trace(speed)) = self.model else {
            return self.duration_us.unwrap_or(0);
        };
        self.duration_us.unwrap_or_else(|| {
            let sessions = self.sessions_max.unwrap_or(0).min(self.log.sessions() as u64);
            let last_us = self.log.start_us(sessions.saturating_sub(1) as usize).unwrap_or(0);
            ((last_us as f64 / speed) as u64).saturating_sub(self.warm_up_us)
        })
    }
}

fn check_copy(copy: &[u8], offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
    let expected = usize::try_from(offset).ok().and_then(|start| copy.get(start..)).unwrap_or(&[]);
    let len = expected.len().min(bytes.len());
    if expected[..len] == bytes[..len] {
        return Ok(());
    }
    let differs = |index: &usize| expected[*index] != bytes[*index];
    let at = (0..len).find(differs).expect("they are not equal");
    Err(Mismatch { offset: offset + at as u64, expected: expected[at], got: bytes[at] })
}

impl Model {
    /// The kind of arrivals as which the model is reported.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        match self {
            Self::Closed { .. } => Arrivals::Closed,
            Self::Open(Process::Constant(_)) => Arrivals::Constant,
            Self::Open(Process::Poisson(_)) => Arrivals::Poisson,
            Self::Open(Process::Trace(_)) => Arrivals::Trace,
        }
    }

    /// Whether a session begins anew after its last request.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        matches!(self, Self::Closed { endless: true, .. })
    }
}
