//! Servers that are formulas, for the tests: known capacities behind the noise of real machines.

use super::{Candidate, Measure, Observation, RunRequest, Stop};
use crate::record::Figures;
use crate::void::Void;
use load::backlog::{Backlog, STEPS};
use statistics::Generator;
use std::collections::BTreeMap;
use testkit::virtual_server::{Service, Steps, VirtualLoad};

/// The truth about a simulated machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// Requests a second that each candidate sustains, by the number in its name.
    pub(crate) capacities: Vec<f64>,
    /// Standard deviation of a run's capacity, relative.
    pub(crate) noise: f64,
    /// How far the machine itself drifts up and down, relative, in [`DRIFT_RUNS`].
    pub(crate) drift: f64,
    /// Share of the runs in which something else takes half of the machine.
    pub(crate) stalls: f64,
    /// The rate above which the generator cannot keep up.
    pub(crate) generator: f64,
    /// The rate above which a server ends.
    pub(crate) ends_above: f64,
    /// Candidates that sustain twice as much by dropping a fifth of the large files.
    pub(crate) unfair: Vec<usize>,
    /// Candidates that do not start.
    pub(crate) broken: Vec<usize>,
    /// Seconds of a window.
    pub(crate) window_s: f64,
    /// Seconds that a run takes.
    pub(crate) run_s: f64,
}

/// Why a run is void in which the generator reaches its limit.
pub(crate) const LATE: Void =
    Void::Load(load::void::Void::Late { p99_us: 20_000, bound_us: 10_000 });

/// Runs after which the drift is back where it was.
const DRIFT_RUNS: f64 = 300.0;

impl World {
    /// A world without any noise.
    pub(crate) fn quiet(capacities: Vec<f64>) -> Self {
        Self {
            capacities,
            generator: f64::INFINITY,
            ends_above: f64::INFINITY,
            window_s: 5.0,
            run_s: 1.0,
            ..Self::default()
        }
    }

    /// A world like a virtual machine with neighbours.
    pub(crate) fn noisy(capacities: Vec<f64>, noise: f64) -> Self {
        Self { noise, drift: 0.1, stalls: 0.02, ..Self::quiet(capacities) }
    }
}

/// Measures a [`World`].
pub(crate) struct Simulated {
    pub(crate) world: World,
    generator: Generator,
    /// Runs made.
    pub(crate) runs: u32,
    /// Runs after which the user presses Ctrl-C.
    pub(crate) runs_max: u32,
}

impl Simulated {
    pub(crate) fn new(world: World, seed: u64) -> Self {
        Self { world, generator: Generator::new(seed ^ 0xD1CE), runs: 0, runs_max: u32::MAX }
    }

    /// The number at the end of a candidate's name; 0 if there is none.
    fn index(candidate: &Candidate) -> usize {
        let digits = candidate.name.rsplit(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.generator.unit(), self.generator.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    fn capacity(&mut self, index: usize) -> f64 {
        let drift = (std::f64::consts::TAU * f64::from(self.runs) / DRIFT_RUNS).sin();
        let mut capacity = self.world.capacities[index] * (self.world.noise * self.normal()).exp();
        capacity *= 1.0 + self.world.drift * drift;
        if self.generator.unit() < self.world.stalls {
            capacity *= 0.5;
        }
        if self.world.unfair.contains(&index) { 2.0 * capacity } else { capacity }
    }
}

impl Measure for Simulated {
    fn measure(
        &mut self,
        candidate: &Candidate,
        request: &RunRequest,
    ) -> Result<Observation, Stop> {
        if self.runs >= self.runs_max {
            return Err(Stop::Interrupted);
        }
        self.runs += 1;
        let index = Self::index(candidate);
        if self.world.broken.contains(&index) {
            let void = vec![Void::NoLoad("it does not start".into())];
            return Ok(Observation { void, took_s: self.world.run_s, ..Observation::default() });
        }
        let served = (self.capacity(index) / request.rate).min(1.0);
        let unfair = self.world.unfair.contains(&index);
        let due = (request.rate * self.world.window_s) as u64;
        let large = due / 100;
        let large_served = if unfair { 0.8 } else { served };
        let replies = |requests: u64, share: f64| (requests, (requests as f64 * share) as u64);
        let figures = Figures {
            requests_due: due,
            offered_per_s: request.rate,
            throughput_per_s: request.rate * served,
            served_share: if unfair { served * 0.998 } else { served },
            kept_up_share: 1.0,
            served_by_kind: BTreeMap::from([
                ("class0_1".to_owned(), replies(due - large, served)),
                ("class3_1".to_owned(), replies(large, large_served)),
            ]),
            ..Figures::default()
        };
        let late = (request.rate > self.world.generator).then_some(LATE);
        let ended = Void::Ended { copy: 1, copies: 1 };
        let ended = (request.rate > self.world.ends_above).then_some(ended);
        let void = late.into_iter().chain(ended).collect();
        Ok(Observation { figures: Some(figures), void, took_s: self.world.run_s })
    }
}

/// Requests a second that a queue sustains in virtual time.
pub(crate) const QUEUE_PER_S: f64 = 250.0;

/// A queue of [`QUEUE_PER_S`] requests a second, and sessions of so many requests.
pub(crate) struct Queue {
    pub(crate) length: usize,
    /// Seconds of a window.
    pub(crate) window_s: f64,
}

impl Measure for Queue {
    fn measure(&mut self, _: &Candidate, request: &RunRequest) -> Result<Observation, Stop> {
        let load = VirtualLoad {
            service: Service::Queue(QUEUE_PER_S),
            length: self.length,
            asked_per_s: request.rate,
            is_random: !request.is_even,
            warm_up_s: 0.0,
            window_s: self.window_s,
        };
        let mut random = Generator::new(request.seed);
        let steps = load.run(STEPS, &mut || random.unit());
        let reply_share = steps.took_us_of_most() as f64 / 1e6 / load.window_s;
        let Steps { begin, asked: due, settled, .. } = steps;
        let backlog = Backlog { begin, asked: due, settled };
        let sessions = backlog.asked_in_window() / self.length as u64;
        let kept_up_share = 1.0 - backlog.share_left(sessions, load.is_random, reply_share);
        let figures = Figures { served_share: 1.0, kept_up_share, ..Figures::default() };
        Ok(Observation { figures: Some(figures), ..Observation::default() })
    }
}
