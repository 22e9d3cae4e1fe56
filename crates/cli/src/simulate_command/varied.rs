//! What `--set` lists: the values that tell machines apart which are otherwise alike.
//!
//! They are read from the machines, so that every table, file and page has them in one form.

use coherence::Machine;
use toml::{Table, Value};

use super::settings::Setting;

/// The keys that have more than one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Varied {
    keys: Vec<String>,
}

impl Varied {
    pub(super) fn of(settings: &[Setting]) -> Self {
        let several = settings.iter().filter(|setting| setting.count() > 1);
        Self { keys: several.map(Setting::key).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// `bus.write_cycles` and others, as they were typed.
    pub(super) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// What the machine has for each of the keys.
    pub(super) fn values(&self, machine: &Machine) -> Vec<Value> {
        if self.is_empty() {
            return Vec::new();
        }
        let whole = whole(machine);
        let value = |key: &String| found(&whole, key).expect("it was set, so that it is there");
        self.keys.iter().map(|key| value(key).clone()).collect()
    }

    /// `bus.write_cycles=5, cpu.write_buffer=8`; nothing if nothing is listed.
    pub(super) fn label(&self, machine: &Machine) -> String {
        let each = self.keys.iter().zip(self.values(machine));
        let each = each.map(|(key, value)| format!("{key}={}", shown(&value)));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Names without their quotes.
pub(super) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What the machine has for a key; nothing if it has no such key.
pub(super) fn value(machine: &Machine, key: &str) -> Option<String> {
    let whole = whole(machine);
    found(&whole, key).map(shown)
}

fn whole(machine: &Machine) -> Table {
    machine.to_toml().parse().expect("a machine's own file is TOML")
}

fn found<'a>(whole: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = whole.get(parts.next()?)?;
    parts.try_fold(first, |table, part| table.get(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_command::settings;

    #[test]
    fn machines_are_told_apart_by_what_is_listed_and_by_nothing_else() {
        let typed = ["kernel.code_skew=1,2", "bus.memory_latency=holds-bus,split", "cpus=4"];
        let typed = typed.map(|text| text.parse::<Setting>().expect(text));
        let varied = Varied::of(&typed);
        assert_eq!(varied.keys(), ["kernel.code_skew", "bus.memory_latency"]);
        let machines = settings::machines(&Machine::default(), &typed, &Machine::check)
            .expect("all are right");
        let labels: Vec<String> = machines.iter().map(|one| varied.label(one)).collect();
        assert_eq!(
            labels,
            [
                "kernel.code_skew=1.0, bus.memory_latency=holds-bus",
                "kernel.code_skew=1.0, bus.memory_latency=split",
                "kernel.code_skew=2.0, bus.memory_latency=holds-bus",
                "kernel.code_skew=2.0, bus.memory_latency=split",
            ]
        );
        assert_eq!(Varied::of(&typed[2..]).label(&machines[0]), "");
    }
}
