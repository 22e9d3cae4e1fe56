//! The quantities of a machine's outcomes that a paper's file can name: `gsp`, `bus`, `cpu`,
//! `scales_to` and `gsp_there`; rates for 100 references such as `misses`,
//! `misses.cold+first-here`, `misses.invalidation.kernel` and `coherence.passive`; and one rate's
//! percentage of another of the same seed (`A/B`).

use coherence::{Miss, Sharing};
use serde::Deserialize;

use crate::simulate_command::measured::{Rates, Runs, Scales, Value};
use crate::simulate_command::spec::Spec;

/// A quantity of a machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Quantity {
    /// The name in the file.
    pub(super) text: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Gsp,
    Bus,
    Cpu,
    Rate(Rate),
    /// The first rate in percent of the second; 0 for a seed in which the second is 0.
    Share(Rate, Rate),
    /// Number of processors to which this kind of machine scales; the machine's own number is
    /// ignored.
    ScalesTo,
    /// GSP at the number of processors to which the kind of machine scales.
    GspThere,
}

/// A number computed from the rates of a seed.
#[derive(Debug, Clone)]
enum Rate {
    CoherenceOfBus,
    Misses(Vec<Miss>, Modes),
    Coherence(Vec<Sharing>, Modes),
}

/// Indices of modes: user mode is 0, the kernel 1.
type Modes = &'static [usize];

impl Quantity {
    /// The value of the quantity; none where the machine was not simulated.
    pub(super) fn evaluate(&self, runs: &Runs, spec: &Spec) -> Option<Value> {
        let one = runs.get(spec);
        Some(match &self.kind {
            Kind::Gsp => one?.gsp,
            Kind::Bus => one?.bus_percent,
            Kind::Cpu => one?.cpu_percent,
            Kind::Rate(rate) => one?.rate(|seed| rate.evaluate(seed)),
            Kind::Share(part, whole) => one?.rate(|seed| match whole.evaluate(seed) {
                whole if whole > 0.0 => part.evaluate(seed) * 100.0 / whole,
                _ => 0.0,
            }),
            Kind::ScalesTo => Value::exactly(f64::from(runs.scales(spec)?.cpus())),
            Kind::GspThere => Value::exactly(runs.scales(spec)?.gsp()),
        })
    }

    /// Whether the quantity belongs to a kind of machine, for all numbers of processors.
    pub(super) fn is_of_kind(&self) -> bool {
        matches!(self.kind, Kind::ScalesTo | Kind::GspThere)
    }

    /// The value in words, if these say more than its number.
    pub(super) fn words(&self, runs: &Runs, spec: &Spec) -> Option<String> {
        matches!(self.kind, Kind::ScalesTo).then(|| runs.scales(spec).map(Scales::show)).flatten()
    }

    /// The name in tables.
    pub(super) fn name(&self) -> String {
        match &*self.text {
            "gsp" => "GSP".into(),
            "bus" => "bus utilisation, %".into(),
            "cpu" => "processor utilisation, %".into(),
            "coherence_of_bus" => "coherence's part of the bus's work, %".into(),
            "scales_to" => "scales to, CPUs".into(),
            "gsp_there" => "GSP there".into(),
            rate => format!("{rate} for 100 references"),
        }
    }
}

impl TryFrom<String> for Quantity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let kind = match (&*text, text.split_once('/')) {
            ("gsp", _) => Kind::Gsp,
            ("bus", _) => Kind::Bus,
            ("cpu", _) => Kind::Cpu,
            ("scales_to", _) => Kind::ScalesTo,
            ("gsp_there", _) => Kind::GspThere,
            (_, Some((part, whole))) => Kind::Share(Rate::parse(part)?, Rate::parse(whole)?),
            (rate, None) => Kind::Rate(Rate::parse(rate)?),
        };
        Ok(Self { text, kind })
    }
}

impl Rate {
    fn evaluate(&self, seed: &Rates) -> f64 {
        let of = |rate: &[f64; 2], modes: Modes| modes.iter().map(|mode| rate[*mode]).sum::<f64>();
        match self {
            Self::CoherenceOfBus => seed.coherence_of_bus,
            Self::Misses(classes, modes) => {
                classes.iter().map(|class| of(&seed.misses[*class as usize], modes)).sum()
            }
            Self::Coherence(kinds, modes) => {
                let rates = kinds.iter().map(|kind| seed.coherence[*kind as usize]);
                rates.flat_map(|rate| modes.iter().map(move |mode| rate[*mode])).sum()
            }
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (rest, modes): (&str, Modes) = match text.rsplit_once('.') {
            Some((rest, "user")) => (rest, &[0]),
            Some((rest, "kernel")) => (rest, &[1]),
            _ => (text, &[0, 1]),
        };
        let (what, names) = match rest.split_once('.') {
            None => (rest, None),
            Some((what, names)) => (what, Some(names)),
        };
        match (what, names) {
            ("coherence_of_bus", None) => Ok(Self::CoherenceOfBus),
            ("misses", Some("invalidation")) => Ok(Self::misses(Miss::is_invalidation, modes)),
            ("misses", Some("other")) => Ok(Self::misses(|one| !one.is_invalidation(), modes)),
            ("misses", names) => Ok(Self::Misses(chosen(&Miss::ALL, Miss::name, names)?, modes)),
            ("coherence", names) => {
                Ok(Self::Coherence(chosen(&Sharing::ALL, Sharing::name, names)?, modes))
            }
            _ => Err(format!(
                "no quantity {text:?}: give gsp, bus, cpu, coherence_of_bus, misses, \
                 coherence, scales_to or gsp_there"
            )),
        }
    }

    fn misses(of: fn(Miss) -> bool, modes: Modes) -> Self {
        Self::Misses(Miss::ALL.into_iter().filter(|class| of(*class)).collect(), modes)
    }
}

/// The elements named in `names`, which `+` separates, in their usual order; all if there are no
/// names.
fn chosen<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
    names: Option<&str>,
) -> Result<Vec<T>, String> {
    let Some(names) = names else { return Ok(all.to_vec()) };
    let names: Vec<&str> = names.split('+').collect();
    let known: Vec<&str> = all.iter().copied().map(name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("no class {unknown:?}; there is {}", known.join(", ")));
    }
    Ok(all.iter().copied().filter(|one| names.contains(&name(*one))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_command::measured::Measured;
    use coherence::Machine;

    fn measured() -> Measured {
        let mut seed = Rates { coherence_of_bus: 7.0, ..Rates::default() };
        seed.misses[Miss::Cold as usize] = [1.0, 2.0];
        seed.misses[Miss::InvalidationTrue as usize] = [4.0, 8.0];
        seed.misses[Miss::InvalidationFalse as usize] = [16.0, 32.0];
        seed.coherence[Sharing::Alone as usize] = [0.5, 0.25];
        let (gsp, bus_percent) = (Value::exactly(3.0), Value::exactly(40.0));
        Measured { gsp, bus_percent, rates: vec![seed], ..Measured::default() }
    }

    #[test]
    fn quantities_are_found_by_their_names() {
        let spec = Spec::from_machine(&Machine::default()).expect("its protocol is known");
        let both = [spec, Spec { cpus: spec.cpus + 1, ..spec }];
        let by_spec = both.map(|spec| (spec, measured())).into();
        let runs = Runs { by_spec, ..Runs::default() };
        for (text, expected) in [
            ("gsp", 3.0),
            ("scales_to", f64::from(spec.cpus)),
            ("gsp_there", 3.0),
            ("bus", 40.0),
            ("cpu", 0.0),
            ("coherence_of_bus", 7.0),
            ("misses", 63.0),
            ("misses.kernel", 42.0),
            ("misses.other", 3.0),
            ("misses.invalidation", 60.0),
            ("misses.invalidation-true+cold.user", 5.0),
            ("misses.invalidation.kernel/misses.invalidation", 4000.0 / 60.0),
            ("coherence.passive/coherence.true", 0.0),
            ("coherence", 0.75),
            ("coherence.alone.kernel", 0.25),
        ] {
            let quantity = Quantity::try_from(text.to_owned()).expect(text);
            let found = quantity.evaluate(&runs, &spec).expect(text);
            assert_eq!(found.mean, expected, "{text}");
        }
    }

    #[test]
    fn unknown_quantities_are_reported() {
        for (text, expected) in [
            ("power", "no quantity \"power\": give gsp"),
            ("misses.warm", "no class \"warm\"; there is cold, first-here"),
            ("coherence.true+sole", "no class \"sole\"; there is true, false"),
            ("coherence_of_bus.true", "no quantity"),
            ("misses/", "no quantity"),
        ] {
            let why = Quantity::try_from(text.to_owned()).expect_err(text);
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }
}
