//! Who takes part: the engines of this program, and foreign servers with architectures like theirs.

use super::look::{Look, look};
use super::window::{Work, measure};
use super::{Row, Subject};
use crate::bench::stage::Stage;
use lab::client::Client;
use lab::{Installed, RunningServer, Setting, Values};
use serde_json::{Value, json};
use std::time::Duration;

/// Foreign servers: Apache for kernel threads, nginx for events.
const OTHERS: &[&str] = &["nginx", "apache-event"];

/// Engines that have helpers for the disk only if asked, as they take part in the cold row.
const WITH_HELPERS: &[(&str, &str)] =
    &[("fibers", "blocking_threads = 16"), ("tasks", "blocking_threads = 16")];

/// The engine with a process for each connection: by itself it has fewer of them than there are
/// connections in some rows, and where tens of thousands rest it cannot take part.
const PROCESSES: &str = "processes";

/// The engine with a process for each connection has so many more processes than there are
/// connections: some are always on their way out.
const SPARE_PROCESSES: u32 = 32;

/// A thread or process for each connection: no machine has numbers for so many (`pid_max`).
const ONE_EACH: [&str; 3] = [PROCESSES, "threads", "threads-direct"];

/// How long listing the engines may take.
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// One way to serve.
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

/// Everybody, and who is not there.
#[derive(Debug)]
pub(super) struct Field {
    engines: Vec<Contestant>,
    helped: Vec<Contestant>,
    sharded: Vec<Contestant>,
    descriptions: Vec<Contestant>,
    pub(super) missing: Vec<String>,
}

impl Field {
    /// Asks the program for its engines, and looks for the servers.
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

    /// The contestants that a row has.
    pub(super) fn of(&self, subject: Subject) -> Vec<&Contestant> {
        match subject {
            Subject::Resting => self.sharded.iter().collect(),
            Subject::Cold => self.engines.iter().chain(&self.helped).collect(),
            Subject::OneFile(_) | Subject::Zipf => {
                self.engines.iter().chain(&self.descriptions).collect()
            }
        }
    }
}

/// The names that `ropewalk engines` begins its paragraphs with.
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

/// A server under each of its settings: the best of them is what counts.
fn settings(installed: &Installed) -> Vec<Contestant> {
    let contestant = |setting: &Setting| Contestant {
        label: format!("{}: {}", installed.description.name, setting.name),
        kind: Kind::Described(Box::new(installed.clone()), setting.clone()),
    };
    installed.description.settings.iter().map(contestant).collect()
}

impl Contestant {
    /// Starts it, for so many connections.
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

/// One window.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) requests_per_s: f64,
    pub(super) cpu_us: f64,
    /// KiB that the disk was read for each request; only where it was watched.
    pub(super) disk_kib: f64,
    /// Why it does not count, if it does not.
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
    pub(super) look: Look,
    server: Option<RunningServer>,
}

impl Entrant {
    /// Starts it, checks every byte of what it serves, and looks at what it uses.
    pub(super) fn enter(
        stage: &Stage<'_, Row>,
        contestant: &Contestant,
        work: &Work,
    ) -> Result<Self, String> {
        let server = contestant.start(stage, work.connections, None)?;
        let look = look(stage, &server, work)?;
        Ok(Self { look, ..Self::without_server(contestant, Some(server)) })
    }

    /// One whose server is started for each window.
    pub(super) fn without_server(contestant: &Contestant, server: Option<RunningServer>) -> Self {
        let (label, samples) = (contestant.label.clone(), Vec::new());
        Self { label, samples, look: Look::default(), server }
    }

    /// A window. One that is void is tried again once.
    pub(super) fn round(&mut self, stage: &Stage<'_, Row>, work: &Work) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        let mut sample = measure(stage, server, work, &mut self.look)?;
        if sample.void.is_some() {
            sample = measure(stage, server, work, &mut self.look)?;
        }
        self.samples.push(sample);
        Ok(())
    }

    /// Where it is, while it runs all the time.
    pub(super) fn server(&self) -> Option<&RunningServer> {
        self.server.as_ref()
    }

    pub(super) fn cpu_us(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.cpu_us).collect()
    }

    /// What a reader must know beside the table.
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
