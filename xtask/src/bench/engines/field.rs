//! The participants: the engines of this program, and foreign servers of similar architectures.

use super::look::{Observation, check_and_observe};
use super::window::{Work, measure};
use super::{Row, Subject};
use crate::bench::stage::Stage;
use lab::client::Client;
use lab::{Installed, RunningServer, Setting, Values};
use serde_json::{Value, json};
use std::time::Duration;

/// Foreign servers: Apache for kernel threads, nginx for events.
const OTHERS: &[&str] = &["nginx", "apache-event"];

/// Engines that use helpers for the disk only on request, with the knobs for it in the cold row.
const WITH_HELPERS: &[(&str, &str)] =
    &[("fibers", "blocking_threads = 16"), ("tasks", "blocking_threads = 16")];

/// The engine with a process for each connection: by default it has fewer processes than there are
/// connections in some rows, and where tens of thousands rest it cannot take part.
const PROCESSES: &str = "processes";

/// The number of additional processes of the engine with a process for each connection: some
/// processes are always about to end.
const SPARE_PROCESSES: u32 = 32;

/// Engines with a thread or process for each connection: no machine has numbers for so many
/// (`pid_max`).
const ONE_EACH: [&str; 3] = [PROCESSES, "threads", "threads-direct"];

/// How long listing the engines may take.
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// One participating server in one setting.
#[derive(Debug)]
pub(super) struct Contestant {
    pub(super) label: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// An engine, with values for knobs of `servers/ropewalk.toml`.
    Engine {
        name: String,
        knobs: Values,
    },
    Described(Box<Installed>, Setting),
}

/// All contestants, and the missing ones.
#[derive(Debug)]
pub(super) struct Field {
    engines: Vec<Contestant>,
    helped: Vec<Contestant>,
    sharded: Vec<Contestant>,
    descriptions: Vec<Contestant>,
    pub(super) missing: Vec<String>,
}

impl Field {
    /// Gets the names of the engines from the program, and looks for the servers.
    pub(super) fn find(stage: &Stage<'_, Row>) -> Result<Self, String> {
        let names = engines(stage)?;
        let wanted = |name: &&String| stage.options.wants(name);
        let plain = |name: &String, turned: &[(&str, &str)]| Contestant {
            label: name.clone(),
            kind: Kind::Engine { name: name.clone(), knobs: knobs(turned) },
        };
        let engines = names.iter().filter(wanted).map(|name| plain(name, &[])).collect();
        let sharded = names.iter().filter(wanted).filter(|name| !ONE_EACH.contains(&name.as_str()));
        let sharded = sharded.map(|name| plain(name, &[("engine.processes", "4")]));
        let helped = WITH_HELPERS.iter().filter(|(name, _)| {
            names.iter().any(|there| there == name) && stage.options.wants(name)
        });
        let helped = helped.map(|(name, knob)| Contestant {
            label: format!("{name}, {knob}"),
            kind: Kind::Engine {
                name: (*name).into(),
                knobs: knobs(&[
                    ("more", &format!("[engine.knobs]\n{knob}")),
                    ("socket.sendfile", "probe"),
                ]),
            },
        });
        let (sharded, helped) = (sharded.collect(), helped.collect());
        let mut field =
            Self { engines, helped, sharded, descriptions: Vec::new(), missing: Vec::new() };
        for name in OTHERS.iter().filter(|name| stage.options.wants(name)) {
            match stage.description(name) {
                Ok(installed) => field.descriptions.extend(settings(&installed)),
                Err(why) => field.missing.push(format!("{name}: {why}")),
            }
        }
        Ok(field)
    }

    /// The contestants of a row.
    pub(super) fn contestants(&self, subject: Subject) -> Vec<&Contestant> {
        match subject {
            Subject::Resting => self.sharded.iter().collect(),
            Subject::Cold => self.engines.iter().chain(&self.helped).collect(),
            Subject::OneFile(_) | Subject::Zipf => {
                self.engines.iter().chain(&self.descriptions).collect()
            }
        }
    }
}

/// The names with which `ropewalk engines` begins its paragraphs.
fn engines(stage: &Stage<'_, Row>) -> Result<Vec<String>, String> {
    let client = Client::start(stage.client_cpu, &stage.command(&["engines"]))?;
    let printed = client.finish(LIST_WITHIN)?.into_output()?;
    let heads = printed.lines().filter(|line| !line.starts_with(' ') && line.contains("  ("));
    let names: Vec<String> =
        heads.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(format!("`ropewalk engines` names none: {printed}"));
    }
    Ok(names)
}

fn knobs(turned: &[(&str, &str)]) -> Values {
    turned.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A server in each of its settings: the best of them counts.
fn settings(installed: &Installed) -> Vec<Contestant> {
    let contestant = |setting: &Setting| Contestant {
        label: format!("{}: {}", installed.description.name, setting.name),
        kind: Kind::Described(Box::new(installed.clone()), setting.clone()),
    };
    installed.description.settings.iter().map(contestant).collect()
}

impl Contestant {
    /// Starts the contestant's server, for `connections` connections.
    pub(super) fn start(
        &self,
        stage: &Stage<'_, Row>,
        connections: u32,
        memory_bytes_max: Option<u64>,
    ) -> Result<RunningServer, String> {
        match &self.kind {
            Kind::Engine { name, knobs } => {
                let mut knobs = knobs.clone();
                knobs.insert("engine".into(), name.clone());
                if name == PROCESSES {
                    let most = connections + SPARE_PROCESSES;
                    knobs.insert("more".into(), format!("[engine.knobs]\nprocesses_max = {most}"));
                }
                stage.server_with(&knobs, memory_bytes_max)
            }
            Kind::Described(installed, setting) => {
                stage.described_server(installed, setting, memory_bytes_max)
            }
        }
    }
}

/// The result of one window.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) requests_per_s: f64,
    pub(super) cpu_us: f64,
    /// KiB read from the disk for each request; only where this was measured.
    pub(super) disk_kib: f64,
    /// Why the window does not count, if it does not.
    pub(super) void: Option<String>,
}

impl Sample {
    pub(super) fn void(why: String) -> Self {
        let nothing = f64::NAN;
        Self { requests_per_s: nothing, cpu_us: nothing, disk_kib: nothing, void: Some(why) }
    }
}

/// A contestant that takes part in a row.
#[derive(Debug)]
pub(super) struct Entrant {
    pub(super) label: String,
    pub(super) samples: Vec<Sample>,
    pub(super) look: Observation,
    server: Option<RunningServer>,
}

impl Entrant {
    /// Starts the server, checks every byte of its replies, and observes its use of memory.
    pub(super) fn enter(
        stage: &Stage<'_, Row>,
        contestant: &Contestant,
        work: &Work,
    ) -> Result<Self, String> {
        let server = contestant.start(stage, work.connections, None)?;
        let look = check_and_observe(stage, &server, work)?;
        Ok(Self { look, ..Self::without_server(contestant, Some(server)) })
    }

    /// A participant whose server is started for each window.
    pub(super) fn without_server(contestant: &Contestant, server: Option<RunningServer>) -> Self {
        let (label, samples) = (contestant.label.clone(), Vec::new());
        Self { label, samples, look: Observation::default(), server }
    }

    /// Measures a window. A void one is repeated once.
    pub(super) fn round(&mut self, stage: &Stage<'_, Row>, work: &Work) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        let mut sample = measure(stage, server, work, &mut self.look)?;
        if sample.void.is_some() {
            sample = measure(stage, server, work, &mut self.look)?;
        }
        self.samples.push(sample);
        Ok(())
    }

    /// The server, if it runs all the time.
    pub(super) fn server(&self) -> Option<&RunningServer> {
        self.server.as_ref()
    }

    pub(super) fn cpu_us(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.cpu_us).collect()
    }

    /// Notes for the reader beside the table.
    pub(super) fn notes(&self) -> Vec<String> {
        let voids: Vec<&String> =
            self.samples.iter().filter_map(|sample| sample.void.as_ref()).collect();
        let void = voids.first().map(|why| {
            format!("{}: {} of {} windows void: {why}", self.label, voids.len(), self.samples.len())
        });
        void.into_iter()
            .chain(self.look.note.iter().map(|n| format!("{}: {n}", self.label)))
            .collect()
    }

    pub(super) fn json(&self) -> Value {
        let of = |value: fn(&Sample) -> f64| self.samples.iter().map(value).collect::<Vec<f64>>();
        json!({
            "name": self.label,
            "cpu_us": of(|sample| sample.cpu_us),
            "requests_per_s": of(|sample| sample.requests_per_s),
            "disk_kib": of(|sample| sample.disk_kib),
            "memory_bytes": self.look.memory_bytes,
            "connection_bytes": self.look.connection_bytes,
            "switches": self.look.switches,
            "system_calls": self.look.system_calls,
            "disk_reads": self.look.disk_reads,
        })
    }
}
