//! Observations as numbers by name: the form in which runs are recorded.

use super::{CoreUse, Observed};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

impl Observed {
    /// All observations by name; those that are missing are left out. The names are those of the
    /// fields; the fields of [`Pressure`](super::Pressure) have the prefix `pressure_` or
    /// `machine_pressure_`, and each CPU has `cpu_N_busy_share`, `cpu_N_softirq_share` and
    /// `cpu_N_steal_share`.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let derived = [
            ("cycles_per_instruction", self.cycles_per_instruction()),
            ("run_queue_mean", self.run_queue_mean()),
        ];
        let derived = derived.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        let known = [
            numbers(self, ""),
            numbers(&self.hardware, ""),
            numbers(&self.pressure, "pressure_"),
            numbers(&self.machine_pressure, "machine_pressure_"),
        ];
        let of_cores = self.cores.iter().flat_map(core_figures);
        known.into_iter().flatten().chain(derived).chain(of_cores).collect()
    }
}

/// The fields that are numbers, each with its name behind `prefix`.
fn numbers(fields: &impl Serialize, prefix: &str) -> Vec<(String, f64)> {
    let fields = serde_json::to_value(fields).expect("fields with names are an object");
    let fields = fields.as_object().into_iter().flatten();
    let number =
        |(name, value): (&String, &Value)| Some((format!("{prefix}{name}"), value.as_f64()?));
    fields.filter_map(number).collect()
}

fn core_figures(core: &CoreUse) -> [(String, f64); 3] {
    let share = |us: u64| us as f64 / core.total_us().max(1) as f64;
    [
        ("busy", core.busy_share()),
        ("softirq", share(core.softirq_us)),
        ("steal", share(core.steal_us)),
    ]
    .map(|(name, share)| (format!("cpu_{}_{name}_share", core.cpu), share))
}

#[cfg(test)]
mod tests {
    use super::super::{Hardware, Pressure};
    use super::*;

    #[test]
    fn what_is_known_has_a_name() {
        let observed = Observed {
            cpu_us: 5,
            block_read_bytes: Some(0),
            pressure: Pressure { io_full_us: Some(7), ..Pressure::default() },
            hardware: Hardware { cycles: Some(9), ..Hardware::default() },
            cores: vec![CoreUse { cpu: 3, user_us: 1, steal_us: 3, ..CoreUse::default() }],
            ..Observed::default()
        };
        let figures = observed.figures();
        assert_eq!((figures["cpu_us"], figures["block_read_bytes"]), (5.0, 0.0));
        assert_eq!((figures["pressure_io_full_us"], figures["cycles"]), (7.0, 9.0));
        assert_eq!((figures["cpu_3_busy_share"], figures["cpu_3_steal_share"]), (0.25, 0.75));
        assert!(!figures.contains_key("system_calls") && !figures.contains_key("instructions"));
    }
}
