//! Which servers take part in a study and where, and which do not and why: what is missing is known
//! before anything is measured, and not from runs that are all void.

use super::definition::Definition;
use super::stage::{Participant, Stage};
use crate::environment::{SettingsInside, settings_inside};
use crate::error::Error;
use crate::lab::Lab;
use crate::record::{Absent, Offered, Skipped};
use crate::testbed::{Accessed, Testbed, Topology};
use crate::trial::{LoadSetup, Trial};
use crate::workload::Workload;

/// The servers of a study that can run here, and everything that takes no part.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The servers.
    pub participants: Vec<Participant>,
    /// The servers that cannot run here, and the testbeds that this machine does not support, with
    /// the reason.
    pub skipped: Vec<Skipped>,
}

impl Selection {
    /// Looks for the servers of a definition. The testbeds that this machine does not support are
    /// removed from the definition.
    ///
    /// # Errors
    /// When a server cannot be set as the definition says, or two are the same.
    pub fn find(lab: &Lab, definition: &mut Definition) -> Result<Self, Error> {
        definition.check_servers(&lab.descriptions).map_err(Error::Usage)?;
        let mut selection = Self::default();
        for spec in &definition.servers {
            let mut found = lab.detect(spec)?;
            selection.skipped.extend(found.skipped.drain(..).map(|one| Skipped {
                what: Absent::Server { server: spec.to_string() },
                reason: one.reason,
                command: one.command,
            }));
            for installed in found.installed {
                let setting = spec.setting(&installed.description).map_err(Error::Usage)?;
                selection.participants.push(Participant { installed, setting });
            }
        }
        let machine = Topology::of_this_machine();
        let fits = |testbed: &Testbed| testbed.fits(&machine);
        selection.skipped.extend(skip_testbeds(&mut definition.testbeds, fits));
        selection.skipped.extend(unfit(&selection.participants, &definition.testbeds));
        Ok(selection)
    }

    /// How many cells there are: servers with a workload in a testbed.
    pub fn cells(&self, definition: &Definition) -> usize {
        let in_testbed =
            |testbed| self.participants.iter().filter(|it| it.fits(testbed).is_ok()).count();
        definition.testbeds.iter().map(in_testbed).sum::<usize>() * definition.workloads.len()
    }

    /// Makes the workloads, and with them everything that runs are made with.
    ///
    /// # Errors
    /// When nothing can be run, a workload cannot be made, or its options are refused.
    pub fn stage<'a>(&self, lab: &'a Lab, definition: &'a Definition) -> Result<Stage<'a>, Error> {
        check_testbeds(&definition.testbeds)?;
        if self.cells(definition) == 0 {
            return Err(Error::Failed("none of the servers can run here".into()));
        }
        let (mut workloads, mut accessed) = (Vec::new(), Vec::new());
        for spec in &definition.workloads {
            let workload = lab.load_setup.tools.prepare(spec)?;
            check_load(&workload, definition, &lab.load_setup)?;
            accessed.push(accessed_by(&workload, definition)?);
            workloads.push(workload);
        }
        Ok(Stage {
            definition,
            load_setup: &lab.load_setup,
            source_tree: &lab.source_tree,
            participants: self.participants.clone(),
            workloads,
            testbeds: definition.testbeds.clone(),
            accessed,
            machine: Topology::of_this_machine(),
        })
    }
}

impl Stage<'_> {
    /// Removes the testbeds that cannot be made with the files of each workload. Returns them, and
    /// the settings of the kernel inside the others.
    ///
    /// # Errors
    /// What of the machine is not as it was before.
    pub fn try_testbeds(&mut self) -> Result<(Vec<Skipped>, SettingsInside), Error> {
        let mut inside = SettingsInside::new();
        let mut left = Ok(());
        let Self { testbeds, workloads, accessed, machine, .. } = self;
        let skipped = skip_testbeds(testbeds, |testbed| {
            for (workload, files) in workloads.iter().zip(accessed.iter()) {
                let name = &workload.described.name;
                let entered =
                    testbed.enter(machine, files).map_err(|why| match workloads.len() {
                        1 => why,
                        _ => format!("with workload {name}: {why}"),
                    })?;
                inside.entry(testbed.name.clone()).or_insert_with(|| settings_inside(&entered));
                left = entered.leave().and(left.clone());
            }
            Ok(())
        });
        left.map(|()| (skipped, inside)).map_err(Error::Failed)
    }
}

/// Checks that there is a testbed.
///
/// # Errors
/// When there is none.
pub fn check_testbeds(testbeds: &[Testbed]) -> Result<(), Error> {
    match testbeds.is_empty() {
        true => Err(Error::Failed("none of the testbeds can be made here".into())),
        false => Ok(()),
    }
}

/// Removes and returns the testbeds that cannot be made here.
fn skip_testbeds(
    testbeds: &mut Vec<Testbed>,
    mut can_be_had: impl FnMut(&Testbed) -> Result<(), String>,
) -> Vec<Skipped> {
    let mut skipped = Vec::new();
    testbeds.retain(|testbed| match can_be_had(testbed) {
        Ok(()) => true,
        Err(reason) => {
            let what = Absent::Testbed { testbed: testbed.name.clone() };
            skipped.push(Skipped { what, reason, command: String::new() });
            false
        }
    });
    skipped
}

/// The servers that take no part in a testbed, although both are present.
fn unfit(participants: &[Participant], testbeds: &[Testbed]) -> Vec<Skipped> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for testbed in testbeds {
        for participant in participants {
            let Err(reason) = participant.fits(testbed) else { continue };
            let (server, testbed) =
                (participant.installed.description.name.clone(), testbed.name.clone());
            let what = Absent::ServerIn { server, testbed };
            // The reason is equal for all its settings.
            if skipped.last().is_none_or(|last| last.what != what) {
                skipped.push(Skipped { what, reason, command: String::new() });
            }
        }
    }
    skipped
}

/// Checks that generators take a workload's `load`: otherwise every run would be void.
fn check_load(
    workload: &Workload,
    definition: &Definition,
    load_setup: &LoadSetup,
) -> Result<(), Error> {
    let generators = definition.testbeds.iter().map(Testbed::generators).max().unwrap_or(1);
    let trial = Trial {
        workload,
        offered: match definition.is_open() {
            true => Offered::RequestsPerS(1.0),
            false => Offered::Connections(generators as u64),
        },
        window_s: definition.window_s,
        seed: definition.seed,
        latency_target_us: definition.latency_target_us,
        verify_bytes: definition.verify_bytes,
        is_even: false,
        waits_for_sessions: true,
    };
    Ok(trial.check(load_setup, generators)?)
}

/// The files that a workload requests; all must be known where memory is bounded.
fn accessed_by(workload: &Workload, definition: &Definition) -> Result<Accessed, Error> {
    let files = Accessed::of_requests(&workload.root, workload.popularity());
    let bounds_memory = definition.testbeds.iter().any(|testbed| testbed.memory.is_some());
    if files.missing() > 0 && bounds_memory {
        return Err(Error::Failed(format!(
            "workload {}: {} of the paths that its log requests are no files, and so it is not \
             known how much `memory` they need",
            workload.described.name,
            files.missing()
        )));
    }
    Ok(files)
}
