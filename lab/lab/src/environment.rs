//! The machine as it was when something was measured: what a reader needs to judge the numbers, or
//! to repeat them. It is recorded, not judged.

use crate::observe;
use crate::testbed::{Entered, Topology};
use os::memory::field_bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All that is recorded. Facts that the machine does not show are missing, or empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The version of the lab.
    pub lab_version: String,
    /// Servers and their versions, as the caller knows them.
    pub servers: BTreeMap<String, String>,
    /// Seconds since 1970 when it was recorded.
    pub recorded_at_s: i64,
    /// The kernel's release and how it was built.
    pub kernel: String,
    /// The kernel's command line.
    pub kernel_command_line: String,
    /// The distribution.
    pub distribution: String,
    /// The processor's name.
    pub cpu_model: String,
    /// The CPUs that may be used, and which of them share caches or cores.
    pub topology: Topology,
    /// How frequencies are chosen, where the kernel shows it.
    pub cpu_governor: Option<String>,
    /// The clock that the kernel reads.
    pub clock_source: Option<String>,
    /// Whether this is a virtual machine, and of which kind.
    pub virtualisation: Option<String>,
    /// What the processor is known to be vulnerable to, and what is done about it.
    pub mitigations: BTreeMap<String, String>,
    /// All memory.
    pub memory_bytes: Option<u64>,
    /// All swap space.
    pub swap_bytes: Option<u64>,
    /// Huge pages for anonymous memory: the word in brackets is in force.
    pub transparent_huge_pages: Option<String>,
    /// The version of control groups that the machine has.
    pub control_groups: String,
    /// Settings of the kernel that matter to servers.
    pub kernel_settings: BTreeMap<String, String>,
    /// Settings of the kernel that differ inside a testbed, by the testbed's name: because the
    /// testbed sets them, or has a network of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", alias = "domain_settings")]
    pub testbed_settings: SettingsInside,
    /// Limits of the process that starts servers: soft and hard.
    pub limits: BTreeMap<String, String>,
    /// The load average of one minute before the run.
    pub load_1m: Option<f64>,
    /// Threads that ran or were ready before the run, those of this process included.
    pub runnable: Option<u64>,
}

/// Settings of the kernel as they are inside each testbed, by its name.
pub type SettingsInside = BTreeMap<String, BTreeMap<String, String>>;

/// Settings that papers tune, or that change what a server can do.
const SETTINGS: &[&str] = &[
    "fs.file-max",
    "fs.nr_open",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.pid_max",
    "kernel.sched_autogroup_enabled",
    "kernel.threads-max",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
];

impl Environment {
    /// Records this machine. `servers` are the versions of what will be measured.
    pub fn record(servers: BTreeMap<String, String>) -> Self {
        let (seconds, _) = os::clock::unix_time();
        let meminfo = text("/proc/meminfo").unwrap_or_default();
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let (load_1m, runnable) = observe::load();
        Self {
            lab_version: env!("CARGO_PKG_VERSION").into(),
            servers,
            recorded_at_s: seconds,
            kernel: text("/proc/version").unwrap_or_else(os::process::kernel_release),
            kernel_command_line: text("/proc/cmdline").unwrap_or_default(),
            distribution: text("/etc/os-release").as_deref().and_then(pretty).unwrap_or_default(),
            cpu_model: cpu_model(&cpuinfo).unwrap_or_default(),
            topology: Topology::of_this_machine(),
            cpu_governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            virtualisation: virtualisation(&cpuinfo),
            mitigations: mitigations(),
            memory_bytes: field_bytes(&meminfo, "MemTotal:"),
            swap_bytes: field_bytes(&meminfo, "SwapTotal:"),
            transparent_huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled"),
            control_groups: control_groups(&text("/proc/self/mounts").unwrap_or_default()),
            kernel_settings: settings(SETTINGS),
            testbed_settings: SettingsInside::new(),
            limits: limits(&text("/proc/self/limits").unwrap_or_default()),
            load_1m,
            runnable,
        }
    }

    /// This environment with the settings whose values inside testbeds differ from those outside.
    /// The testbeds have been left by now.
    #[must_use]
    pub fn with_testbeds(mut self, inside: SettingsInside) -> Self {
        for (testbed, mut settings) in inside {
            settings.retain(|name, value| setting(name).as_ref() != Some(value));
            if !settings.is_empty() {
                self.testbed_settings.insert(testbed, settings);
            }
        }
        self
    }
}

/// The settings that hold for the servers of a testbed that has been entered: those that any
/// environment records, and those that the testbed names.
pub fn settings_inside(entered: &Entered) -> BTreeMap<String, String> {
    let named = entered.kernel.iter().map(String::as_str);
    let names: Vec<&str> = SETTINGS.iter().copied().chain(named).collect();
    match entered.server_namespace() {
        // A process inside the network namespace has its own values of the network's settings.
        Some(network) => system::namespaces::in_network(&network, || settings(&names)),
        None => Ok(settings(&names)),
    }
    .unwrap_or_default()
}

/// A file's text without the white space around it; none if the file is absent or empty.
fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn pretty(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The first processor's name; on Arm the kernel prints numbers for its parts instead.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let parts = || Some(format!("{} {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(parts)
}

fn virtualisation(cpuinfo: &str) -> Option<String> {
    let is_guest = cpuinfo.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    });
    let said =
        ["sys_vendor", "product_name"].map(|name| text(&format!("/sys/class/dmi/id/{name}")));
    let container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let mut parts: Vec<String> = Vec::new();
    if is_guest {
        parts.push("virtual machine".into());
        parts.extend(text("/sys/hypervisor/type"));
        parts.extend(said.into_iter().flatten());
    }
    if container {
        parts.push("container".into());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn mitigations() -> BTreeMap<String, String> {
    let listed = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let entries = listed.into_iter().flatten().flatten();
    let pairs = entries.filter_map(|entry| {
        let said = text(entry.path().to_str()?)?;
        Some((entry.file_name().to_str()?.to_owned(), said))
    });
    pairs.filter(|(_, said)| said != "Not affected").collect()
}

fn control_groups(mounts: &str) -> String {
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => "versions 1 and 2",
        (true, false) => "version 1",
        (false, true) => "version 2",
        (false, false) => "none",
    }
    .into()
}

fn settings(names: &[&str]) -> BTreeMap<String, String> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), setting(name)?))).collect()
}

fn setting(name: &str) -> Option<String> {
    let value = text(&format!("/proc/sys/{}", name.replace('.', "/")))?;
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The names in `/proc/self/limits` have 26 characters at most, the numbers 21.
fn limits(text: &str) -> BTreeMap<String, String> {
    let wanted = ["Max open files", "Max processes", "Max locked memory", "Max stack size"];
    let pairs = wanted.iter().filter_map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let numbers: Vec<&str> = line.split_whitespace().take(2).collect();
        Some(((*name).to_owned(), numbers.join(" ")))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Accessed, Testbed};

    #[test]
    fn this_machine_is_recorded_and_read_back() {
        let servers = BTreeMap::from([("nginx".to_owned(), "1.22.1".to_owned())]);
        let environment = Environment::record(servers);
        assert!(environment.kernel.contains(&os::process::kernel_release()));
        assert!(environment.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(environment.kernel_settings.contains_key("net.core.somaxconn"));
        assert!(environment.limits.contains_key("Max open files"));
        assert!(!environment.topology.cpus.is_empty());
        let text = serde_json::to_string(&environment).expect("text and numbers only");
        let back: Environment = serde_json::from_str(&text).expect("the same code wrote it");
        assert_eq!(back, environment);
    }

    /// What a testbed sets in its namespaces is recorded for the inside only, and what is equal
    /// everywhere is not repeated.
    #[test]
    fn settings_that_differ_inside_a_testbed_are_recorded() {
        if !crate::needs::networks_can_be_made() {
            return;
        }
        let text = "network = { subnets = 1 }\nclient_cpus = 0\n\
                    [kernel]\n\"net.core.somaxconn\" = 513\n\"net.ipv4.tcp_ecn\" = 0";
        let testbed = Testbed::parse(text).expect("it makes sense");
        let entered =
            testbed.enter(&Topology::of_this_machine(), &Accessed::default()).expect("root may");
        let inside = settings_inside(&entered);
        drop(entered);
        let plain = Testbed { client_cpus: Some(0), ..Testbed::default() };
        let entered = plain
            .enter(&Topology::of_this_machine(), &Accessed::default())
            .expect("it needs no rights");
        let inside = [("netted", inside), ("plain", settings_inside(&entered))];
        let inside = inside.map(|(name, settings)| (name.to_owned(), settings));
        let environment = Environment::record(BTreeMap::new()).with_testbeds(inside.into());
        let said = &environment.testbed_settings["netted"];
        assert_eq!(said.get("net.core.somaxconn").map(String::as_str), Some("513"));
        assert_eq!(said.get("net.ipv4.tcp_ecn").map(String::as_str), Some("0"));
        assert!(!said.contains_key("vm.swappiness"), "{said:?}");
        assert!(!environment.testbed_settings.contains_key("plain"));
        assert_ne!(environment.kernel_settings["net.core.somaxconn"], "513");
    }

    #[test]
    fn files_of_other_machines_are_read() {
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("0x41 0xd0c"));
        assert_eq!(cpu_model("model name\t: AMD EPYC\n").as_deref(), Some("AMD EPYC"));
        let os_release = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian 12\"\n";
        assert_eq!(pretty(os_release).as_deref(), Some("Debian 12"));
        assert_eq!(control_groups("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"), "version 2");
        assert_eq!(control_groups("proc /proc proc rw 0 0\n"), "none");
        let table = "Max open files            1024                 524288               files\n";
        assert_eq!(limits(table)["Max open files"], "1024 524288");
    }
}
