//! Makes real runs: starts a server under a candidate's knobs, warms it up, loads it, stops it.
//!
//! Each run has a server of its own, so that none inherits what another has left behind.

use super::{Candidate, Live, Measured, RunRequest, Stop, unable};
use crate::install::Installed;
use crate::record::Offered;
use crate::server::{Launch, RunningServer};
use crate::server_description::Setting;
use crate::trial::{LoadSetup, RunFailure, Target, Trial};
use crate::warm_up::Preparation;
use crate::workload::Workload;

/// How many windows of warming up a run has: equal for all runs, so that what a search decides
/// within its budget does not depend on how steady a server is.
pub const WARM_UPS: u32 = 1;

/// A server that is installed, and everything to measure it with.
pub struct Workbench<'a> {
    /// The setup that loads it.
    pub load_setup: &'a LoadSetup,
    /// The workload.
    pub workload: &'a Workload,
    /// The server.
    pub installed: &'a Installed,
    /// How it is started.
    pub launch: Launch,
    /// Seconds of a window.
    pub window_s: f64,
    /// Replies within so many microseconds count as goodput.
    pub latency_target_us: Option<u64>,
    /// Whether the user wants the search to end.
    pub is_interrupted: &'a mut dyn FnMut() -> bool,
}

impl Workbench<'_> {
    /// A failure of the server is an observation; a failure of ours is not.
    fn try_run(&self, candidate: &Candidate, request: &RunRequest) -> Result<Measured, RunFailure> {
        let setting = setting_of(candidate);
        let server = RunningServer::start(self.installed, &setting, &self.launch)?;
        let target = Target::of_server(&server);
        let trial = Trial {
            workload: self.workload,
            offered: Offered::RequestsPerS(request.rate),
            window_s: self.window_s,
            seed: request.seed,
            latency_target_us: self.latency_target_us,
            verify_bytes: false,
            is_even: request.is_even,
            waits_for_sessions: true,
        };
        let preparation =
            Preparation { primed: &[(target, 0)], reads_nothing: false, windows_max: WARM_UPS };
        self.load_setup.make_ready(target, &trial, &preparation)?;
        let measured = self.load_setup.run(target, &trial)?;
        Ok(Measured {
            figures: Some(measured.figures),
            void: measured.void,
            observed: measured.observed,
            not_available: measured.not_available,
            started_unix_us: measured.started_unix_us,
            outcome_json: Some(measured.outcome_json),
        })
    }
}

impl Live for Workbench<'_> {
    fn run(&mut self, candidate: &Candidate, request: &RunRequest) -> Result<Measured, Stop> {
        if (self.is_interrupted)() {
            return Err(Stop::Interrupted);
        }
        let measured = self.try_run(candidate, request);
        match measured.map_err(|why| why.unless_gone(&self.load_setup.tools, self.workload)) {
            Ok(measured) => Ok(measured),
            // A user who interrupts the search may have ended the server, too.
            Err(_) if (self.is_interrupted)() => Err(Stop::Interrupted),
            Err(RunFailure::Void(why)) => Ok(Measured { void: vec![why], ..Measured::default() }),
            Err(RunFailure::Setup(why)) => Err(Stop::Unable(unable(&why))),
        }
    }
}

/// A candidate as a setting.
pub fn setting_of(candidate: &Candidate) -> Setting {
    Setting { name: candidate.name.clone(), about: String::new(), knobs: candidate.knobs.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::SourceTree;
    use crate::record::{Described, Purpose};
    use crate::server_description::ServerDescription;
    use crate::template::Values;
    use crate::testbed::Place;
    use crate::workload::Tools;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    /// A scratch directory that cannot be made, taken for the fault of a configuration, would count
    /// against one configuration after the other.
    #[test]
    fn a_scratch_directory_that_is_gone_is_no_fault_of_a_configuration() {
        let descriptions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        let description =
            ServerDescription::read(&descriptions.join("floor.toml")).expect("it is shipped");
        let scratch = PathBuf::from("/dev/null/scratch");
        let (program, there) = (std::env::temp_dir(), std::env::temp_dir());
        let tools = Tools { program, scratch: scratch.clone() };
        let workload = Workload {
            described: Described::default(),
            root: there.clone(),
            log: there.clone(),
            requests: Arc::default(),
            filling_us: 0,
            prime: there.clone(),
            ready_path: "/".into(),
            load: Default::default(),
            values: Values::new(),
            client: Default::default(),
            wrk_script: None,
        };
        let launch = Launch {
            source_tree: SourceTree::find(false),
            root: there,
            scratch,
            workers: 1,
            cpus: Vec::new(),
            memory_bytes_max: None,
            ready_path: "/".into(),
            workload: Values::new(),
            place: Place::default(),
            affinity: Default::default(),
        };
        let knobs = description.knob_values(&description.settings[0]);
        let mut workbench = Workbench {
            load_setup: &LoadSetup {
                tools,
                generators: Vec::new(),
                lag_bound: None,
                interference_bound: 1.0,
            },
            workload: &workload,
            installed: &Installed { description, version: "1".into() },
            launch,
            window_s: 0.1,
            latency_target_us: None,
            is_interrupted: &mut || false,
        };
        let request = RunRequest {
            rate: 1.0,
            purpose: Purpose::Point,
            block: 1,
            attempt: 0,
            seed: 1,
            is_even: false,
        };
        let made = workbench.run(&Candidate { name: "floor".into(), knobs }, &request);
        assert!(matches!(&made, Err(Stop::Unable(why)) if why.contains("/dev/null")), "{made:?}");
    }
}
