//! The values that `--set` lists: they distinguish machines that are otherwise alike.
//!
//! They are read from the machines, so that all tables, files and pages show them in one form.

use coherence::Machine;
use toml::{Table, Value};

use super::settings::Setting;

/// The keys that have more than one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Varied {
    keys: Vec<String>,
}

impl Varied {
    pub(super) fn from_settings(settings: &[Setting]) -> Self {
        let several = settings.iter().filter(|setting| setting.count() > 1);
        Self { keys: several.map(Setting::key).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys as they were typed, such as `bus.write_cycles`.
    pub(super) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The machine's value for each of the keys.
    pub(super) fn values(&self, machine: &Machine) -> Vec<Value> {
        if self.is_empty() {
            return Vec::new();
        }
        let whole = to_table(machine);
        let value = |key: &String| found(&whole, key).expect("it was set, so that it is there");
        self.keys.iter().map(|key| value(key).clone()).collect()
    }

    /// A label such as `bus.write_cycles=5, cpu.write_buffer=8`; empty if no key is listed.
    pub(super) fn label(&self, machine: &Machine) -> String {
        let each = self.keys.iter().zip(self.values(machine));
        let each = each.map(|(key, value)| format!("{key}={}", shown(&value)));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// The value as text, names without their quotes.
pub(super) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The machine's value for a key; none if it has no such key.
pub(super) fn value(machine: &Machine, key: &str) -> Option<String> {
    let whole = to_table(machine);
    found(&whole, key).map(shown)
}

fn to_table(machine: &Machine) -> Table {
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
    fn only_listed_values_distinguish_machines() {
        let typed = ["kernel.code_skew=1,2", "bus.memory_latency=holds-bus,split", "cpus=4"];
        let typed = typed.map(|text| text.parse::<Setting>().expect(text));
        let varied = Varied::from_settings(&typed);
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
        assert_eq!(Varied::from_settings(&typed[2..]).label(&machines[0]), "");
    }
}
