//! One run of a study: the conditions of its testbed are made, the server is started in them,
//! warmed up, loaded and observed; and all of it is undone.
//!
//! A server is started anew for each run, so that none inherits what another run left behind: its
//! caches, its memory, what it had not yet finished when it was overloaded.

use super::definition::{Definition, OfferedPlan};
use crate::install::{Installed, Surroundings};
use crate::observe::{Observer, Watched};
use crate::record::{Offered, Point, Run};
use crate::server::{Launch, RunningServer};
use crate::server_description::{Setting, Workers};
use crate::testbed::{Accessed, Affinity, DiskIo, Entered, Testbed, Topology};
use crate::trial::{Bench, LoadGenerator, Measured, RunFailure, Target, Trial};
use crate::void::Void;
use crate::warm_up::{Readying, UNTIL_STEADY};
use crate::workload::Workload;
use std::net::SocketAddr;

/// What is reported where a server may run on its clients' CPUs, which are not its own.
const CLIENTS_TOO: &str = "counters, soft interrupts and busy CPUs of the server alone: it may run \
                           on its clients' CPUs, and what is done there counts too";

/// A server that takes part.
#[derive(Clone, Debug)]
pub struct Participant {
    /// What it is.
    pub installed: Installed,
    /// How it is set.
    pub setting: Setting,
}

/// A server with a workload in a testbed, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which [`Participant`].
    pub participant: usize,
    /// Which workload.
    pub workload: usize,
    /// Which testbed.
    pub testbed: usize,
}

/// A run that was made.
#[derive(Debug)]
pub struct Made {
    /// Its record.
    pub run: Run,
    /// The outcome, as `ropewalk load` wrote it; none if there was none.
    pub outcome_json: Option<String>,
    /// Whether the machine is as it was before; if not, the difference, in a line.
    pub left: Result<(), String>,
}

/// Everything that runs are made with.
#[derive(Debug)]
pub struct Stage<'a> {
    /// What is studied.
    pub definition: &'a Definition,
    /// Our own program, room for files, and how clients are run.
    pub bench: &'a Bench,
    /// Where servers that come as source lie.
    pub surroundings: &'a Surroundings,
    /// The servers that take part.
    pub participants: Vec<Participant>,
    /// The workloads, ready.
    pub workloads: Vec<Workload>,
    /// The testbeds; at least one.
    pub testbeds: Vec<Testbed>,
    /// The files of each workload.
    pub accessed: Vec<Accessed>,
    /// The machine.
    pub machine: Topology,
}

impl Participant {
    /// Whether the server can be run in this testbed.
    ///
    /// # Errors
    /// Why it cannot, in a line.
    pub fn fits(&self, testbed: &Testbed) -> Result<(), String> {
        if testbed.network.is_some() && !self.installed.description.takes_an_address() {
            return Err("it cannot be put into a network: its file does not use {listen}".into());
        }
        if testbed.affinity != Affinity::Workers {
            return Ok(());
        }
        let bindable = Workers::bindable(self.installed.description.start.workers.as_ref());
        bindable
            .map(drop)
            .map_err(|why| format!("its workers cannot be bound to a CPU each: {why}"))
    }
}

impl Stage<'_> {
    /// All cells in which a server can be run, servers changing fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (testbed, conditions) in self.testbeds.iter().enumerate() {
            for workload in 0..self.workloads.len() {
                let fits =
                    |&participant: &usize| self.participants[participant].fits(conditions).is_ok();
                let participants = (0..self.participants.len()).filter(fits);
                cells.extend(participants.map(|participant| Cell {
                    participant,
                    workload,
                    testbed,
                }));
            }
        }
        cells
    }

    /// The point of a cell with what is offered there.
    pub fn point(&self, cell: Cell, offered: Offered) -> Point {
        let Participant { installed, setting } = &self.participants[cell.participant];
        Point {
            server: installed.description.name.clone(),
            setting: setting.name.clone(),
            knobs: installed.description.knob_values(setting),
            workload: self.workloads[cell.workload].described.name.clone(),
            testbed: self.testbeds[cell.testbed].name.clone(),
            offered,
        }
    }

    /// Makes a run. A run that cannot be measured is void and says why.
    ///
    /// # Errors
    /// Why no run can be made now, whichever the server: the conditions cannot be made any more, or
    /// there is no room for its files.
    pub fn run(&self, cell: Cell, offered: Offered, seed: u64) -> Result<Made, String> {
        let begun_us = os::clock::now();
        let (testbed, files) = (&self.testbeds[cell.testbed], &self.accessed[cell.workload]);
        let entered = testbed.enter(&self.machine, files)?;
        let (tools, workload) = (&self.bench.tools, &self.workloads[cell.workload]);
        let measured = self.measure_in(&entered, cell, offered, seed);
        let measured = measured.map_err(|why| why.unless_gone(tools, workload));
        let left = entered.leave();
        let run = Run {
            point: self.point(cell, offered),
            seed,
            window_s: self.definition.window_s,
            took_s: (os::clock::now() - begun_us) as f64 / 1e6,
            ..Run::default()
        };
        match measured {
            Ok((measured, warm_up_s)) => {
                let seen = measured.to_run();
                let run = Run {
                    warm_up_s,
                    started_unix_us: seen.started_unix_us,
                    void: seen.void,
                    figures: seen.figures,
                    observed: seen.observed,
                    not_available: seen.not_available,
                    ..run
                };
                Ok(Made { run, outcome_json: Some(measured.outcome_json), left })
            }
            Err(RunFailure::Void(why)) => {
                Ok(Made { run: Run { void: vec![why], ..run }, outcome_json: None, left })
            }
            Err(RunFailure::Surroundings(why)) => {
                let more = left.err().map_or_else(String::new, |more| format!("; {more}"));
                Err(why + &more)
            }
        }
    }

    fn measure_in(
        &self,
        entered: &Entered,
        cell: Cell,
        offered: Offered,
        seed: u64,
    ) -> Result<(Measured, f64), RunFailure> {
        let (workload, files) = (&self.workloads[cell.workload], &self.accessed[cell.workload]);
        let testbed = &self.testbeds[cell.testbed];
        // Before any server runs: a server that has mapped a file keeps its pages in memory.
        let settled = entered.settle(files).map_err(RunFailure::Surroundings)?;
        if let Some((settled, plan)) = settled.as_ref().zip(entered.plan.as_ref()) {
            settled.judge(plan).map_err(|why| RunFailure::Void(Void::Conditions(why)))?;
        }
        let reads_nothing = testbed.memory.and_then(|memory| memory.disk_io) == Some(DiskIo::None);
        let held = reads_nothing.then(|| files.hold()).transpose();
        let servers = self.start(cell, entered)?;
        let bench = Bench { generators: generators(entered, &servers), ..self.bench.clone() };
        let target = Target::of_copies(&servers);
        let trial = Trial {
            workload,
            offered,
            window_s: self.definition.window_s,
            seed,
            latency_target_us: self.definition.latency_target_us,
            verify_bytes: self.definition.verify_bytes,
            is_even: self.is_even(),
            waits_for_sessions: true,
        };
        // Under a bound on memory the page cache has been filled as it is to be.
        let primed = if settled.is_none() {
            reachable(entered, &servers).map_err(RunFailure::no_load)?
        } else {
            Vec::new()
        };
        let readying = Readying { primed: &primed, reads_nothing, windows_max: UNTIL_STEADY };
        let name = &self.participants[cell.participant].installed.description.name;
        let _ = bind_workers(testbed, name, &servers); // they are warmed up where they will be
        let warm_up = bench.make_ready(target, &trial, &readying)?;
        // All workers have been started by now.
        let unbound = bind_workers(testbed, name, &servers);
        let observer = Observer::new(Watched {
            groups: target.groups(),
            enclosure: Some(&entered.enclosure),
            cpus: entered.server_cpus(),
            device: entered.device.clone(),
            system_calls: self.definition.system_calls,
        });
        let mut measured = bench.run_observed(target, &trial, Some(&observer))?;
        if !warm_up.is_steady {
            measured.observed.insert("still_warming_up".into(), 1.0);
        }
        let in_memory = settled.as_ref().zip(entered.plan.as_ref());
        measured.observed.extend(in_memory.into_iter().flat_map(|(it, plan)| it.figures(plan)));
        // Without this the files may stay in memory as well; if they do not, the run is void.
        measured.not_available.extend(held.err().map(|why| format!("files held in memory: {why}")));
        measured.not_available.extend(unbound);
        if entered.server_cpus().iter().any(|cpu| !entered.cpus.server.contains(cpu)) {
            measured.not_available.push(CLIENTS_TOO.into());
        }
        measured.void.extend(judge_disk(testbed, &measured));
        let before_s = trial.before_window_s().map_err(RunFailure::no_load)?;
        Ok((measured, warm_up.seconds + before_s))
    }

    /// Whether only a rate is looked for.
    fn is_even(&self) -> bool {
        let is_search = matches!(self.definition.offered, OfferedPlan::Mat);
        is_search && self.definition.conditions.are_of_rates()
    }

    /// Starts every copy of the server.
    fn start(&self, cell: Cell, entered: &Entered) -> Result<Vec<RunningServer>, RunFailure> {
        let Participant { installed, setting } = &self.participants[cell.participant];
        let workload = &self.workloads[cell.workload];
        let copies = entered.servers.iter().map(|place| {
            let launch = Launch {
                surroundings: self.surroundings.clone(),
                root: workload.root.clone(),
                scratch: self.bench.tools.scratch.clone(),
                workers: place.workers,
                cpus: place.cpus.clone(),
                memory_bytes_max: None,
                ready_path: workload.ready_path.clone(),
                workload: workload.values.clone(),
                place: place.place.clone(),
                affinity: self.testbeds[cell.testbed].affinity,
            };
            RunningServer::start(installed, setting, &launch).map_err(RunFailure::from)
        });
        copies.collect()
    }
}

/// Binds the workers of each copy, if the testbed says so; returns why, if that cannot be done.
fn bind_workers(testbed: &Testbed, name: &str, servers: &[RunningServer]) -> Option<String> {
    if testbed.affinity != Affinity::Workers {
        return None;
    }
    let why = servers.iter().find_map(|server| server.bind_workers().err())?;
    Some(format!("workers of {name} on a CPU each: {why}"))
}

/// One generator for the clients of each subnet.
fn generators(entered: &Entered, servers: &[RunningServer]) -> Vec<LoadGenerator> {
    let serving: Vec<usize> =
        entered.servers.iter().flat_map(|server| server.cpus.iter().copied()).collect();
    let clients = entered.clients.iter().map(|client| LoadGenerator {
        prefix: client.prefix.clone(),
        address: Some(SocketAddr::from((client.address, servers[client.server].address().port()))),
        sources: client.sources.clone(),
        ..LoadGenerator::beside(&serving, &client.cpus)
    });
    clients.collect()
}

/// Each copy of the server, and a load generator that reaches it.
fn reachable<'a>(
    entered: &Entered,
    servers: &'a [RunningServer],
) -> Result<Vec<(Target<'a>, usize)>, String> {
    let with_seat = servers.iter().enumerate().map(|(index, server)| {
        let generator = entered.clients.iter().position(|client| client.server == index);
        Ok((Target::of_server(server), generator.ok_or("a copy of the server has no clients")?))
    });
    with_seat.collect()
}

/// Why a run does not use the disk as its testbed says, if so.
fn judge_disk(testbed: &Testbed, measured: &Measured) -> Option<Void> {
    let disk_io = testbed.memory.and_then(|memory| memory.disk_io)?;
    let read = measured.observed.get("block_read_bytes").map(|&bytes| bytes as u64);
    disk_io.judge(read).err().map(Void::Conditions)
}
