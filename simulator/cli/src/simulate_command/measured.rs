//! The results of a run for each machine, as means over its seeds.

use std::collections::BTreeMap;

use coherence::protocol::Transaction;
use coherence::{MachineError, Miss, Outcome, Sharing, scalable_to};
use page::chart::Dot;
use statistics::Mean;

use super::spec::Spec;
use super::varied::Varied;

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Shown values have three significant digits: two values that differ by a smaller part of the
/// larger one may look equal, and count as equal.
const VISIBLE: f64 = 0.005;

/// A mean, and half of its confidence interval, which is 0 for one seed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Value {
    pub(super) mean: f64,
    pub(super) half: f64,
}

/// The results of one machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) gsp: Value,
    pub(super) bus_percent: Value,
    pub(super) cpu_percent: Value,
    /// The rates of each seed.
    pub(super) rates: Vec<Rates>,
    /// The part of the trace that was simulated, in percent.
    pub(super) simulated_percent: f64,
}

/// The rates of one seed for 100 references. The second index of an array is 0 for user mode and 1
/// for the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    /// By [`Miss::ALL`].
    pub(super) misses: [[f64; 2]; 12],
    /// By [`Sharing::ALL`].
    pub(super) coherence: [[f64; 2]; 4],
    /// The part of the bus's work that is for coherence, in percent: INV and WR, and invalidation
    /// misses. These are assumed to cost as much as a block supplied by a cache, because the
    /// processor that invalidated the copy has the block dirty.
    pub(super) coherence_of_bus: f64,
}

/// The results of all machines of a sweep.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    pub(super) by_spec: BTreeMap<Spec, Measured>,
    /// The combinations of values that `--set` lists, by [`Spec::set`]; empty where it lists
    /// nothing.
    pub(super) sets: Vec<String>,
    /// Whether references of the kernel were drawn.
    pub(super) kernel: bool,
    /// The number of seeds with which each machine was run.
    pub(super) seeds: usize,
}

/// To how many processors a kind of machine scales, with the GSP at that number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scales {
    To(u32, f64),
    /// The machine scales to this number at least; no larger one was simulated.
    Beyond(u32, f64),
}

impl Value {
    pub(super) fn from_values(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let half = Mean::from_sample(values).map_or(0.0, |mean| {
            let interval = mean.interval(CONFIDENCE);
            (interval.high - interval.low) / 2.0
        });
        Self { mean, half: if half.is_finite() { half } else { 0.0 } }
    }

    /// A value without an interval.
    pub(super) fn exactly(mean: f64) -> Self {
        Self { mean, half: 0.0 }
    }

    /// The value as a point of a curve, at `x`. No value that is measured here can be negative.
    pub(super) fn dot(self, x: f64) -> Dot {
        let (low, high) = ((self.mean - self.half).max(0.0), self.mean + self.half);
        Dot { x, y: self.mean, low, high }
    }

    /// The difference from another value, which is measured independently.
    pub(super) fn less(self, other: Self) -> Self {
        Self { mean: self.mean - other.mean, half: self.half.hypot(other.half) }
    }

    /// The value multiplied by `factor`.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, half: self.half * factor.abs() }
    }

    /// Whether this value is larger than another by more than their intervals explain, and by a
    /// visible difference.
    pub(super) fn exceeds(self, other: Self) -> bool {
        let apart = self.mean - other.mean;
        let visible = VISIBLE * self.mean.abs().max(other.mean.abs());
        apart > self.half.hypot(other.half) && apart > visible
    }

    /// Formats the value as in `3.41 ±0.02`.
    pub(super) fn show(self) -> String {
        let digits = if self.mean.abs() < 20.0 { 2 } else { 1 };
        match self.half > 0.0 {
            true => format!("{:.digits$} ±{:.digits$}", self.mean, self.half),
            false => format!("{:.digits$}", self.mean),
        }
    }
}

impl Measured {
    /// Computes the results of one machine from its outcomes with all seeds.
    pub(super) fn from_outcomes(group: &[Outcome]) -> Self {
        let value = |of: &dyn Fn(&Outcome) -> f64| {
            Value::from_values(&group.iter().map(of).collect::<Vec<f64>>())
        };
        Self {
            gsp: value(&|one| one.gsp),
            bus_percent: value(&|one| one.bus_utilisation * 100.0),
            cpu_percent: value(&|one| one.processor_utilisation() * 100.0),
            rates: group.iter().map(Rates::from_outcome).collect(),
            simulated_percent: value(&Outcome::simulated_percent).mean,
        }
    }

    /// The mean of a rate, or of a number computed from several rates of a seed.
    pub(super) fn rate(&self, of: impl Fn(&Rates) -> f64) -> Value {
        Value::from_values(&self.rates.iter().map(of).collect::<Vec<f64>>())
    }

    /// Misses of the classes that `of` accepts, in both modes.
    pub(super) fn misses_where(&self, of: impl Fn(Miss) -> bool) -> Value {
        self.rate(|one| one.misses_where(&of))
    }

    /// All coherence transactions.
    pub(super) fn transactions(&self) -> Value {
        self.rate(|one| one.coherence.iter().flatten().sum())
    }
}

impl Rates {
    /// Misses of the classes that `of` accepts, in both modes.
    pub(super) fn misses_where(&self, of: impl Fn(Miss) -> bool) -> f64 {
        let classes = Miss::ALL.into_iter().filter(|class| of(*class));
        classes.map(|class| self.misses[class as usize].iter().sum::<f64>()).sum()
    }

    fn from_outcome(outcome: &Outcome) -> Self {
        let counts = &outcome.counts;
        let all = counts.all_references().max(1) as f64;
        let rate = |count: [u64; 2]| count.iter().sum::<u64>() as f64 * 100.0 / all;
        let misses = |class| [0, 1].map(|mode| rate(counts.misses[mode][class as usize]));
        let coherence = |kind| [0, 1].map(|mode| rate(counts.coherence[mode][kind as usize]));
        Self {
            misses: Miss::ALL.map(misses),
            coherence: Sharing::ALL.map(coherence),
            coherence_of_bus: coherence_of_bus(outcome),
        }
    }
}

fn coherence_of_bus(outcome: &Outcome) -> f64 {
    let own = |transaction| matches!(transaction, Transaction::Invalidate | Transaction::Write);
    let (mut all, mut coherence, mut fetching, mut fetches) = (0.0, 0.0, 0.0, 0);
    for bus in &outcome.bus {
        all += bus.utilisation;
        if own(bus.transaction) {
            coherence += bus.utilisation;
        } else if bus.from_cache {
            fetching += bus.utilisation;
            fetches += bus.count;
        }
    }
    let after: u64 = Miss::ALL
        .into_iter()
        .filter(|class| class.is_invalidation())
        .map(|class| outcome.counts.misses_of(class))
        .sum();
    coherence += fetching * f64::min(after as f64 / f64::max(fetches as f64, 1.0), 1.0);
    if all > 0.0 { coherence * 100.0 / all } else { 0.0 }
}

impl Runs {
    /// Collects the outcomes, of which there are `seeds` for each machine, one after the other.
    pub(super) fn from_outcomes(
        outcomes: &[Outcome],
        seeds: usize,
        varied: &Varied,
    ) -> Result<Self, MachineError> {
        let mut runs = Self {
            kernel: outcomes.first().is_some_and(|one| one.machine.kernel.enabled),
            seeds,
            ..Self::default()
        };
        for group in outcomes.chunks(seeds.max(1)) {
            let machine = &group[0].machine;
            let set = runs.set(varied.label(machine));
            let spec = Spec { set, ..Spec::from_machine(machine)? };
            runs.by_spec.insert(spec, Measured::from_outcomes(group));
        }
        Ok(runs)
    }

    /// Returns the number of a combination, which is added if it is new.
    fn set(&mut self, label: String) -> usize {
        let known = self.sets.iter().position(|other| *other == label);
        known.unwrap_or_else(|| {
            self.sets.push(label);
            self.sets.len() - 1
        })
    }

    /// Describes a kind of machine: all but the number of processors.
    pub(super) fn kind(&self, spec: &Spec) -> String {
        self.with_set(spec, spec.kind())
    }

    pub(super) fn describe(&self, spec: &Spec) -> String {
        self.with_set(spec, spec.describe())
    }

    fn with_set(&self, spec: &Spec, name: String) -> String {
        match self.sets.get(spec.set).filter(|set| !set.is_empty()) {
            None => name,
            Some(set) => format!("{name}, {set}"),
        }
    }

    pub(super) fn get(&self, spec: &Spec) -> Option<&Measured> {
        self.by_spec.get(spec)
    }

    /// The machines of a kind, by number of processors.
    pub(super) fn curve(&self, kind: &Spec) -> Vec<(u32, &Measured)> {
        let same = |spec: &Spec| Spec { cpus: kind.cpus, ..*spec } == *kind;
        self.by_spec.iter().filter(|(spec, _)| same(spec)).map(|(s, one)| (s.cpus, one)).collect()
    }

    /// To how many processors a kind scales, by our reading of the paper's rule; none where there
    /// is no curve.
    pub(super) fn scales(&self, kind: &Spec) -> Option<Scales> {
        let curve: Vec<(u32, f64)> =
            self.curve(kind).into_iter().map(|(cpus, one)| (cpus, one.gsp.mean)).collect();
        let [.., (most, highest)] = curve[..] else { return None };
        if curve.len() < 2 {
            return None;
        }
        Some(match scalable_to(&curve) {
            None => Scales::Beyond(most, highest),
            Some(cpus) => {
                let there = curve.iter().find(|(at, _)| *at == cpus);
                Scales::To(cpus, there.map_or(highest, |(_, gsp)| *gsp))
            }
        })
    }

    /// The smallest and the largest part of the trace that was simulated, in percent.
    pub(super) fn simulated(&self) -> (f64, f64) {
        let parts = self.by_spec.values().map(|one| one.simulated_percent);
        parts.fold((f64::INFINITY, 0.0), |(low, high), part| (low.min(part), high.max(part)))
    }
}

impl Scales {
    pub(super) fn cpus(self) -> u32 {
        let (Self::To(cpus, _) | Self::Beyond(cpus, _)) = self;
        cpus
    }

    pub(super) fn gsp(self) -> f64 {
        let (Self::To(_, gsp) | Self::Beyond(_, gsp)) = self;
        gsp
    }

    pub(super) fn show(self) -> String {
        match self {
            Self::To(cpus, _) => cpus.to_string(),
            Self::Beyond(cpus, _) => format!("beyond {cpus}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_intervals_if_there_are_several() {
        let one = Value::from_values(&[3.0]);
        assert_eq!((one, &*one.show()), (Value { mean: 3.0, half: 0.0 }, "3.00"));
        let three = Value::from_values(&[2.9, 3.0, 3.1]);
        // Student's t for two degrees of freedom: 4.303.
        assert!((three.half - 4.303 * 0.1 / 3f64.sqrt()).abs() < 1e-3, "{three:?}");
        assert!(!one.exceeds(three) && one.exceeds(Value::from_values(&[2.5])));
        assert!(!Value { mean: 1.0, half: 0.1 }.exceeds(Value { mean: 0.9, half: 0.0 }));
        // Both values are shown as 100.
        assert!(!Value::exactly(99.98).exceeds(Value::exactly(99.96)));
        assert!(Value::exactly(0.001).exceeds(Value::exactly(0.0)));
    }

    #[test]
    fn a_number_computed_from_measured_values_has_an_interval_as_well() {
        let (one, other) = (Value { mean: 5.0, half: 0.3 }, Value { mean: 2.0, half: 0.4 });
        assert_eq!(one.less(other), Value { mean: 3.0, half: 0.5 });
        assert_eq!(one.times(-2.0), Value { mean: -10.0, half: 0.6 });
        let seed = |rate| {
            let mut one = Rates::default();
            one.coherence[Sharing::True as usize] = [rate, 1.0];
            one.misses[Miss::Cold as usize] = [1.0, rate];
            one
        };
        let two = Measured { rates: vec![seed(1.0), seed(1.2)], ..Measured::default() };
        let expected = Value::from_values(&[2.0, 2.2]);
        assert!(expected.half > 0.1, "{expected:?}");
        assert_eq!(two.transactions(), expected);
        assert_eq!(two.misses_where(|class| class == Miss::Cold), expected);
        assert_eq!(two.misses_where(Miss::is_invalidation).mean, 0.0);
    }
}
