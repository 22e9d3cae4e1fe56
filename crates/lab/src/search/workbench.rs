//! Measures in truth: starts a peer under a candidate's knobs, warms it up, loads it, stops it.
//!
//! Each run has a server of its own, so that none inherits what another has left behind.

use super::{Asked, Candidate, Live, Measured, Stop};
use crate::install::Installed;
use crate::peer::Setting;
use crate::record::Offered;
use crate::server::{Launch, RunningServer};
use crate::trial::{Bench, Target, Trial};
use crate::warm_up::Readying;
use crate::workload::Workload;

/// How many windows of warming up a run has: all runs the same, so that what a search decides
/// within its budget does not depend on how steady a server is.
pub const WARM_UPS: u32 = 1;

/// A server that is there, and everything to measure it with.
pub struct Workbench<'a> {
    /// What loads it.
    pub bench: &'a Bench,
    /// What is asked for.
    pub workload: &'a Workload,
    /// The server.
    pub installed: &'a Installed,
    /// How it is started.
    pub launch: Launch,
    /// Seconds of a window.
    pub window_s: f64,
    /// Replies within so many microseconds count as goodput.
    pub latency_target_us: Option<u64>,
    /// Whether somebody wants to end it.
    pub is_interrupted: &'a mut dyn FnMut() -> bool,
}

impl Workbench<'_> {
    /// A failure of the server is an answer; one of ours is not, but cannot be told from it here.
    fn try_run(&self, candidate: &Candidate, asked: &Asked) -> Result<Measured, String> {
        let setting = setting_of(candidate);
        let server = RunningServer::start(self.installed, &setting, &self.launch)?;
        let target = Target::of(&server);
        let trial = Trial {
            workload: self.workload,
            offered: Offered::RequestsPerS(asked.rate),
            window_s: self.window_s,
            seed: asked.seed,
            latency_target_us: self.latency_target_us,
            verify_bytes: false,
        };
        let readying =
            Readying { primed: &[(target, 0)], reads_nothing: false, windows_max: WARM_UPS };
        self.bench.make_ready(target, &trial, &readying)?;
        let measured = self.bench.run(target, &trial)?;
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
    fn run(&mut self, candidate: &Candidate, asked: &Asked) -> Result<Measured, Stop> {
        if (self.is_interrupted)() {
            return Err(Stop::Interrupted);
        }
        match self.try_run(candidate, asked) {
            Ok(measured) => Ok(measured),
            // Whoever wants it to end may have ended the server, too.
            Err(_) if (self.is_interrupted)() => Err(Stop::Interrupted),
            Err(why) => Ok(Measured { void: vec![why], ..Measured::default() }),
        }
    }
}

/// A candidate as a setting.
pub fn setting_of(candidate: &Candidate) -> Setting {
    Setting { name: candidate.name.clone(), about: String::new(), knobs: candidate.knobs.clone() }
}
