//! One run of a study: the conditions of its testbed are made, the server is started in them,
//! warmed up, loaded and observed; and all of it is undone.
//!
//! A server is started anew for each run, so that none inherits what another run left behind: its
//! caches, its memory, what it had not yet finished when it was overloaded.

use super::definition::{Definition, OfferedPlan};
use crate::install::{Installed, SourceTree};
use crate::observe::{Observer, Watched};
use crate::record::{Offered, Point, Run};
use crate::search::{Stop, unable};
use crate::server::{Launch, RunningServer};
use crate::server_description::{Setting, Workers};
use crate::testbed::{Accessed, Affinity, DiskIo, Entered, Testbed, Topology};
use crate::trial::{
    LoadGenerator, LoadSetup, Measured, RunFailure, Side, Target, Trial, run_together,
};
use crate::void::{Neighbour, Void};
use crate::warm_up::{Preparation, UNTIL_STEADY, WarmUp};
use crate::workload::Workload;
use std::net::SocketAddr;

/// What is reported where a server may run on its clients' CPUs, which are not its own.
const CLIENTS_TOO: &str = "counters, soft interrupts and busy CPUs of the server alone: it may run \
                           on its clients' CPUs, and what is done there counts too";

/// A server that takes part.
#[derive(Clone, Debug)]
pub struct Participant {
    /// The server.
    pub installed: Installed,
    /// Its setting.
    pub setting: Setting,
}

/// A server with a workload in a testbed, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The index of the [`Participant`].
    pub participant: usize,
    /// The index of the workload.
    pub workload: usize,
    /// The index of the testbed.
    pub testbed: usize,
}

/// Runs that were made: one, or those of servers that were loaded together.
#[derive(Debug)]
pub struct Made {
    /// The record of each, and its outcome, as `ropewalk load` wrote it; none if there was none.
    pub runs: Vec<(Run, Option<String>)>,
    /// Whether the machine is as it was before; if not, no further run can be made.
    pub left: Result<(), Stop>,
}

/// A server that is warmed up, with what loads it.
struct Ready {
    /// All its copies.
    servers: Vec<RunningServer>,
    load_setup: LoadSetup,
    warm_up: WarmUp,
    /// Why its workers could not be bound, if they should be.
    unbound: Option<String>,
}

impl Ready {
    fn target(&self) -> Target<'_> {
        Target::of_copies(&self.servers)
    }
}

/// Everything that runs are made with.
#[derive(Debug)]
pub struct Stage<'a> {
    /// What is studied.
    pub definition: &'a Definition,
    /// Our own program, room for files, and how clients are run.
    pub load_setup: &'a LoadSetup,
    /// Where servers that come as source lie.
    pub source_tree: &'a SourceTree,
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

    /// Makes a run of each cell: of one, or of several that are loaded together, which differ in
    /// their servers only. A run that cannot be measured is void and says why; what is loaded
    /// together is void together.
    ///
    /// # Errors
    /// Why no run can be made now, whichever the server: the conditions cannot be made any more, or
    /// there is no room for its files.
    pub fn run(&self, cells: &[Cell], offered: Offered, seed: u64) -> Result<Made, String> {
        let begun_us = os::clock::now();
        let first = cells[0];
        let (testbed, files) = (&self.testbeds[first.testbed], &self.accessed[first.workload]);
        let entered = testbed.enter(&self.machine, files)?;
        let (tools, workload) = (&self.load_setup.tools, &self.workloads[first.workload]);
        let measured = self.measure_in(&entered, cells, offered, seed);
        let measured = measured.map_err(|why| why.unless_gone(tools, workload));
        let restored = entered.leave();
        let left = || restored.clone().map_err(|why| Stop::Unable(unable(&why)));
        let took_s = (os::clock::now() - begun_us) as f64 / 1e6 / cells.len() as f64;
        let run = |cell: &Cell, measured: Run| Run {
            point: self.point(*cell, offered),
            seed,
            window_s: self.definition.window_s,
            took_s,
            ..measured
        };
        match measured {
            Ok(measured) => {
                let runs = cells.iter().zip(measured).map(|(cell, (measured, warm_up_s))| {
                    let made = run(cell, Run { warm_up_s, ..measured.to_run() });
                    (made, Some(measured.outcome_json))
                });
                let mut runs: Vec<_> = runs.collect();
                void_together(&mut runs);
                Ok(Made { runs, left: left() })
            }
            Err(RunFailure::Void(why)) => {
                let void = Run { void: vec![why], ..Run::default() };
                let void = |cell| (run(cell, void.clone()), None);
                Ok(Made { runs: cells.iter().map(void).collect(), left: left() })
            }
            Err(RunFailure::Setup(why)) => {
                let more = restored.err().map_or_else(String::new, |more| format!("; {more}"));
                Err(why + &more)
            }
        }
    }

    fn measure_in(
        &self,
        entered: &Entered,
        cells: &[Cell],
        offered: Offered,
        seed: u64,
    ) -> Result<Vec<(Measured, f64)>, RunFailure> {
        let first = cells[0];
        let (workload, files) = (&self.workloads[first.workload], &self.accessed[first.workload]);
        let testbed = &self.testbeds[first.testbed];
        // Before any server runs: a server that has mapped a file keeps its pages in memory.
        let settled = entered.prepare_page_cache(files).map_err(RunFailure::Setup)?;
        if let Some((settled, plan)) = settled.as_ref().zip(entered.plan.as_ref()) {
            settled.judge(plan).map_err(|why| RunFailure::Void(Void::Conditions(why)))?;
        }
        let reads_nothing = testbed.memory.and_then(|memory| memory.disk_io) == Some(DiskIo::None);
        let held = reads_nothing.then(|| files.hold()).transpose();
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
        let mut ready = Vec::new();
        for &cell in cells {
            // Under a bound on memory the page cache has been filled as it is to be.
            let started = self.make_ready(entered, cell, &trial, settled.is_none(), reads_nothing);
            let name = &self.participants[cell.participant].installed.description.name;
            let attribute =
                |why: RunFailure| if cells.len() > 1 { why.naming_server(name) } else { why };
            ready.push(started.map_err(attribute)?);
        }
        let observers: Vec<_> =
            ready.iter().map(|ready| self.observer(entered, ready, cells.len() == 1)).collect();
        let sides = ready.iter().zip(&observers).map(|(ready, observer)| Side {
            load_setup: &ready.load_setup,
            server: ready.target(),
            observer,
        });
        let measured = run_together(&sides.collect::<Vec<_>>(), &trial)?;
        let before_s = trial.before_window_s().map_err(RunFailure::of_generator)?;
        let held = held.err().map(|why| format!("files held in memory: {why}"));
        let measured = measured.into_iter().zip(ready).map(|(mut measured, ready)| {
            if !ready.warm_up.is_steady {
                measured.observed.insert("still_warming_up".into(), 1.0);
            }
            let in_memory = settled.as_ref().zip(entered.plan.as_ref());
            measured.observed.extend(in_memory.into_iter().flat_map(|(it, plan)| it.figures(plan)));
            // Without this the files may stay in memory as well; if they do not, the run is void.
            measured.not_available.extend(held.clone());
            measured.not_available.extend(ready.unbound);
            if entered.server_cpus().iter().any(|cpu| !entered.cpus.server.contains(cpu)) {
                measured.not_available.push(CLIENTS_TOO.into());
            }
            measured.void.extend(judge_disk(testbed, &measured));
            (measured, ready.warm_up.seconds + before_s)
        });
        Ok(measured.collect())
    }

    /// Starts the server of a cell and warms it up.
    fn make_ready(
        &self,
        entered: &Entered,
        cell: Cell,
        trial: &Trial<'_>,
        primes: bool,
        reads_nothing: bool,
    ) -> Result<Ready, RunFailure> {
        let servers = self.start(cell, entered)?;
        let load_setup =
            LoadSetup { generators: generators(entered, &servers), ..self.load_setup.clone() };
        let primed = match primes {
            true => reachable(entered, &servers).map_err(RunFailure::Setup)?,
            false => Vec::new(),
        };
        let preparation = Preparation { primed: &primed, reads_nothing, windows_max: UNTIL_STEADY };
        let name = &self.participants[cell.participant].installed.description.name;
        let testbed = &self.testbeds[cell.testbed];
        let _ = bind_workers(testbed, name, &servers); // they are warmed up where they will be
        let warm_up = load_setup.make_ready(Target::of_copies(&servers), trial, &preparation)?;
        // All workers have been started by now.
        let unbound = bind_workers(testbed, name, &servers);
        Ok(Ready { servers, load_setup, warm_up, unbound })
    }

    /// Observes a server. What is known of the whole testbed is known of a server that is alone.
    fn observer<'s>(&self, entered: &'s Entered, ready: &'s Ready, is_alone: bool) -> Observer<'s> {
        Observer::new(Watched {
            groups: ready.target().groups(),
            applications: ready.target().applications(),
            enclosure: is_alone.then_some(&entered.enclosure),
            cpus: entered.server_cpus(),
            device: entered.device.clone(),
            system_calls: self.definition.system_calls,
        })
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
                source_tree: self.source_tree.clone(),
                root: workload.root.clone(),
                scratch: self.load_setup.tools.scratch.clone(),
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

/// Makes all runs void if one of them is: the servers had each other for company.
fn void_together(runs: &mut [(Run, Option<String>)]) {
    let first = runs.iter().find(|(run, _)| !run.void.is_empty());
    let Some((first, _)) = first else { return };
    let (server, why) = (first.point.server.clone(), Box::new(first.void[0].clone()));
    let beside = Void::Beside(Neighbour { server, why });
    for (run, _) in runs.iter_mut().filter(|(run, _)| run.void.is_empty()) {
        run.void.push(beside.clone());
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
    let with_generator = servers.iter().enumerate().map(|(index, server)| {
        let generator = entered.clients.iter().position(|client| client.server == index);
        Ok((Target::of_server(server), generator.ok_or("a copy of the server has no clients")?))
    });
    with_generator.collect()
}

/// Why a run does not use the disk as its testbed says, if so.
fn judge_disk(testbed: &Testbed, measured: &Measured) -> Option<Void> {
    let disk_io = testbed.memory.and_then(|memory| memory.disk_io)?;
    let read = measured.observed.get("block_read_bytes").map(|&bytes| bytes as u64);
    disk_io.judge(read).err().map(Void::Conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::void::in_words;

    #[test]
    fn runs_that_were_made_together_are_void_together() {
        let run = |server: &str, void: &[&str]| {
            let point = Point { server: server.into(), ..Point::default() };
            (
                Run { point, void: void.iter().map(|&why| why.into()).collect(), ..Run::default() },
                None,
            )
        };
        let mut runs = [run("a", &[]), run("b", &["late", "slow"]), run("c", &["odd"])];
        void_together(&mut runs);
        let words: Vec<String> = runs.iter().map(|(run, _)| in_words(&run.void)).collect();
        assert_eq!(words, ["a server beside it is void: b: late", "late; slow", "odd"]);
        let mut good = [run("a", &[]), run("b", &[])];
        void_together(&mut good);
        assert!(good.iter().all(|(run, _)| run.void.is_empty()));
    }
}
