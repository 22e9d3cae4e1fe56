//! The trials of a search: open runs of one plan at rates that the search chooses, and the closed
//! run from whose throughput it begins.

use super::{Conditions, FIRST_SHARE, Limit, Rates, Trial, search};
use crate::filling;
use crate::options::{Options, OptionsError};
use crate::outcome::{Outcome, Setting};
use crate::plan::{Model, Plan, Process};
use crate::run::{Watch, run};
use crate::run_error::RunError;
use crate::schedule::Schedule;

/// The default length of a trial.
const TRIAL: &str = "5s";
/// The default load before a trial's window, to which the time is added that sessions need until
/// their number is steady.
const WARM_UP_US: u64 = 1_000_000;
/// Time for the server to recover between trials.
const REST_US: u64 = 500_000;

/// The trials of a search.
#[derive(Debug)]
pub struct Trials {
    plan: Plan,
    setting: Setting,
    process: Process,
    /// The rate of the first trial, if the user has set it.
    first_rate: Option<f64>,
}

impl Trials {
    /// Trials with these options of a run, whose rate is that of the first trial.
    ///
    /// # Errors
    /// One line: what is wrong with the options.
    pub fn new(options: &Options) -> Result<Self, OptionsError> {
        let mut options = options.clone();
        let has_rate = options.rate.is_some() || options.request_rate.is_some();
        options.duration.get_or_insert_with(|| TRIAL.into());
        if !has_rate {
            options.rate = Some("1".into());
        }
        let (mut plan, setting) = options.resolve()?;
        let Model::Open(process) = plan.model.clone() else {
            let why = "--find-limit: sessions must arrive at a rate";
            return Err(OptionsError::Typed(why.into()));
        };
        if options.warm_up.is_none() {
            let filling_us = filling::bounded(plan.log.filling_us());
            let filling_us = filling_us.map_err(|why| format!("--find-limit: {why}"))?;
            plan.warm_up_us = WARM_UP_US + filling_us;
        }
        filling::check(&plan)?;
        let first_rate = match &process {
            Process::Constant(rate) | Process::Poisson(rate) if has_rate => Some(rate.rate(0)),
            _ => None,
        };
        Ok(Self { plan, setting, process, first_rate })
    }

    /// Whether the user has set the rate of the first trial: it may be far from the limit.
    #[must_use]
    pub fn has_first_rate(&self) -> bool {
        self.first_rate.is_some()
    }

    /// How long a trial takes, in seconds.
    #[must_use]
    pub fn trial_s(&self) -> f64 {
        (self.plan.warm_up_us + self.window_us() + REST_US) as f64 / 1e6
    }

    /// Makes trials until the limit is known, or until `watch` wants to stop; `seen` is called
    /// after each.
    ///
    /// # Errors
    /// Why a trial could not be made.
    pub fn find_limit(
        mut self,
        conditions: &Conditions,
        watch: &mut dyn Watch,
        seen: &mut dyn FnMut(&Trial),
    ) -> Result<Limit, RunError> {
        let first = match self.first_rate {
            Some(rate) => rate,
            None => self.guess(watch)?,
        };
        self.plan.rest_us = REST_US;
        let rates = Rates { first, min: 1e6 / self.window_us().max(1) as f64 };
        search(conditions, rates, &mut |rate| self.trial(rate, watch), seen)
    }

    /// The outcome of a trial; none if it was interrupted.
    fn trial(&mut self, rate: f64, watch: &mut dyn Watch) -> Result<Option<Outcome>, RunError> {
        // It may also be interrupted between two trials.
        if watch.wants_to_stop() {
            return Ok(None);
        }
        self.plan.model = Model::Open(steady(&self.process, rate)?);
        let outcome = run(&self.plan, self.setting.clone(), watch)?;
        Ok(Some(outcome).filter(|outcome| !outcome.interrupted))
    }

    /// The rate at which the search begins: a part of the rate of a short closed run.
    fn guess(&self, watch: &mut dyn Watch) -> Result<f64, RunError> {
        const CLIENTS: u64 = 32;
        let mut plan = self.plan.clone();
        plan.model = Model::Closed { clients: CLIENTS, endless: false };
        plan.duration_us = Some(1_000_000);
        plan.warm_up_us = 0;
        plan.sessions_max = None;
        let outcome = run(&plan, self.setting.clone(), watch)?;
        let length = plan.log.requests() as f64 / plan.log.sessions() as f64;
        Ok((outcome.throughput() / length * FIRST_SHARE).max(1.0))
    }

    fn window_us(&self) -> u64 {
        self.plan.duration_us.unwrap_or(1)
    }
}

/// An arrival process at one steady rate: a Poisson process remains one, any other becomes
/// constant.
fn steady(process: &Process, rate: f64) -> Result<Process, RunError> {
    let no_rate = || RunError::Generator(format!("{rate} is no rate"));
    let schedule = Schedule::constant(rate).ok_or_else(no_rate)?;
    Ok(match process {
        Process::Poisson(_) => Process::Poisson(schedule),
        Process::Constant(_) | Process::Trace(_) => Process::Constant(schedule),
    })
}
