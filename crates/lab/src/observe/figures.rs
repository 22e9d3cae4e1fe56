//! Observations as numbers by name, which is how runs are recorded.

use super::{CoreUse, Hardware, Observed, Pressure};
use std::collections::BTreeMap;

/// A name and what is known of it.
type Named = (&'static str, Option<f64>);

impl Observed {
    /// Everything that was observed, by name; what was not is left out. The names are those of the
    /// fields; those of [`Pressure`] have `pressure_` or `machine_pressure_` before them, and each
    /// CPU has `cpu_N_busy_share`, `cpu_N_softirq_share` and `cpu_N_steal_share`.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let plain = self.plain().into_iter().chain(of_hardware(&self.hardware));
        let plain = plain.map(|(name, value)| (name.to_owned(), value));
        let pressure = of_pressure("pressure", &self.pressure);
        let machine = of_pressure("machine_pressure", &self.machine_pressure);
        let derived = [
            ("cycles_per_instruction".to_owned(), self.cycles_per_instruction()),
            ("run_queue_mean".to_owned(), self.run_queue_mean()),
        ];
        let known = plain.chain(pressure).chain(machine).chain(derived);
        let known = known.filter_map(|(name, value)| Some((name, value?)));
        known.chain(self.cores.iter().flat_map(of_core)).collect()
    }

    fn plain(&self) -> [Named; 24] {
        let number = |value: Option<u64>| value.map(|value| value as f64);
        [
            ("elapsed_us", number(Some(self.elapsed_us))),
            ("look_us", number(Some(self.look_us))),
            ("cpu_us", number(Some(self.cpu_us))),
            ("cpu_user_us", number(self.cpu_user_us)),
            ("cpu_system_us", number(self.cpu_system_us)),
            ("softirq_us", number(self.softirq_us)),
            ("resident_bytes", number(Some(self.resident_bytes))),
            ("own_bytes", number(Some(self.own_bytes))),
            ("page_cache_bytes", number(self.page_cache_bytes)),
            ("machine_page_cache_bytes", number(self.machine_page_cache_bytes)),
            ("block_read_bytes", number(self.block_read_bytes)),
            ("block_reads", number(self.block_reads)),
            ("device_read_bytes", number(self.device_read_bytes)),
            ("device_reads", number(self.device_reads)),
            ("device_busy_ms", number(self.device_busy_ms)),
            ("threads", number(self.threads)),
            ("threads_ended", number(self.threads_ended)),
            ("switches_voluntary", number(self.switches_voluntary)),
            ("switches_involuntary", number(self.switches_involuntary)),
            ("run_queue_wait_us", number(self.run_queue_wait_us)),
            ("machine_runnable", number(self.machine_runnable)),
            ("machine_load_1m", self.machine_load_1m),
            ("system_calls", number(self.system_calls)),
            ("cpus_busy_share", self.cpus_busy_share),
        ]
    }
}

fn of_hardware(hardware: &Hardware) -> [Named; 9] {
    [
        ("cycles", hardware.cycles),
        ("instructions", hardware.instructions),
        ("stalled_frontend_cycles", hardware.stalled_frontend_cycles),
        ("stalled_backend_cycles", hardware.stalled_backend_cycles),
        ("cache_references", hardware.cache_references),
        ("cache_misses", hardware.cache_misses),
        ("bus_cycles", hardware.bus_cycles),
        ("memory_read_bytes", hardware.memory_read_bytes),
        ("memory_written_bytes", hardware.memory_written_bytes),
    ]
    .map(|(name, value)| (name, value.map(|value| value as f64)))
}

fn of_pressure(whose: &str, pressure: &Pressure) -> [(String, Option<f64>); 5] {
    [
        ("cpu_some_us", pressure.cpu_some_us),
        ("memory_some_us", pressure.memory_some_us),
        ("memory_full_us", pressure.memory_full_us),
        ("io_some_us", pressure.io_some_us),
        ("io_full_us", pressure.io_full_us),
    ]
    .map(|(name, value)| (format!("{whose}_{name}"), value.map(|value| value as f64)))
}

fn of_core(core: &CoreUse) -> [(String, f64); 3] {
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
