//! Which CPUs serve, and how they are grouped. Pure: the machine is an argument.

use std::fmt;
use std::str::FromStr;

use os::cpu_list;

use crate::config::{Division, PartitionSettings, Pin};
use crate::topology::Topology;

/// The processor time that this process may use, which others change while it runs: its affinity,
/// and the quota of its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    cpus: Vec<usize>,
    parallelism: usize,
}

impl Allowance {
    pub(crate) fn inspect() -> Self {
        let cpus = os::affinity::allowed_cpus();
        let parallelism = std::thread::available_parallelism().map_or(cpus.len(), Into::into);
        Self { cpus, parallelism }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, parallelism } = self;
        write!(f, "CPUs {}", cpu_list::show(cpus))?;
        match parallelism < &cpus.len() {
            true => write!(f, ", the time of {parallelism}"),
            false => Ok(()),
        }
    }
}

/// The part of the machine that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The CPUs its threads may run on.
    pub(crate) cpus: Vec<usize>,
    /// How many CPUs' worth of time it gets: fewer than `cpus` where a container has a quota.
    pub(crate) parallelism: usize,
    /// Descriptors that it may have open.
    pub(crate) descriptors_max: u64,
    /// Which of the CPUs are close to each other.
    pub(crate) topology: Topology,
}

impl Machine {
    /// Inspects the machine, and raises the descriptor limit as far as possible.
    pub(crate) fn inspect() -> Self {
        /// The descriptor limit that a process gets on nearly every system unless it is set.
        const DESCRIPTORS_USUAL: u64 = 1024;
        let Allowance { cpus, parallelism } = Allowance::inspect();
        Self {
            parallelism,
            descriptors_max: os::limits::raise_descriptor_limit().unwrap_or(DESCRIPTORS_USUAL),
            topology: Topology::of_this_machine(&cpus),
            cpus,
        }
    }

    pub(crate) fn allowance(&self) -> Allowance {
        Allowance { cpus: self.cpus.clone(), parallelism: self.parallelism }
    }
}

/// The machine as the text that a worker process is given, CPUs/parallelism/descriptors:
/// `0-3/4/1024`.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", cpu_list::show(&self.cpus), self.parallelism, self.descriptors_max)
    }
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} describes no machine");
        let parts: Vec<&str> = text.split('/').collect();
        let [list, parallelism, descriptors] = parts[..] else { return Err(wrong()) };
        let cpus = cpu_list::parse(list)?;
        Ok(Self {
            parallelism: parallelism.parse().map_err(|_| wrong())?,
            descriptors_max: descriptors.parse().map_err(|_| wrong())?,
            // The topology does not change, so it is read anew.
            topology: Topology::of_this_machine(&cpus),
            cpus,
        })
    }
}

/// One group of CPUs with its own workers, listeners and cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Its CPUs; empty if its workers are not pinned.
    pub(crate) cpus: Vec<usize>,
    /// How many CPUs' worth of workers it should have.
    pub(crate) width: usize,
}

/// Divides the machine as the settings say.
///
/// # Errors
/// One line: a CPU that this process may not use, or more partitions than CPUs.
pub(crate) fn divide(
    settings: &PartitionSettings,
    machine: &Machine,
) -> Result<Vec<Partition>, String> {
    let pin = settings.pin != Pin::Never;
    if !settings.cpus.is_empty() {
        return settings.cpus.iter().map(|list| named(list, pin, machine)).collect();
    }
    // Under a quota the process does not have the CPUs to itself. Pinning to the first few of them
    // would put all containers of a machine on the same ones.
    let pin = pin && machine.parallelism >= machine.cpus.len();
    let groups = match settings.by {
        Division::Count => return divide_by_count(settings.count as usize, pin, machine),
        Division::Cache => &machine.topology.caches,
        Division::Socket => &machine.topology.sockets,
        Division::Node => &machine.topology.nodes,
    };
    let width = |group: &Vec<usize>| match machine.parallelism >= machine.cpus.len() {
        true => group.len(),
        false => (machine.parallelism / groups.len()).max(1),
    };
    let partition = |group: &Vec<usize>| Partition {
        cpus: if pin { group.clone() } else { Vec::new() },
        width: width(group),
    };
    Ok(groups.iter().map(partition).collect())
}

fn divide_by_count(count: usize, pin: bool, machine: &Machine) -> Result<Vec<Partition>, String> {
    let available = machine.cpus.len();
    if count > available {
        let these = cpu_list::show(&machine.cpus);
        return Err(format!(
            "{count} partitions need {count} CPUs: there are {available} ({these})"
        ));
    }
    let width_all = machine.parallelism.clamp(count, available);
    let share = |index: usize, of: usize| (index * of / count)..((index + 1) * of / count);
    let partition = |index| Partition {
        cpus: if pin { machine.cpus[share(index, available)].to_vec() } else { Vec::new() },
        width: share(index, width_all).len(),
    };
    Ok((0..count).map(partition).collect())
}

fn named(list: &[usize], pin: bool, machine: &Machine) -> Result<Partition, String> {
    if let Some(cpu) = list.iter().find(|cpu| !machine.cpus.contains(cpu)) {
        let these = cpu_list::show(&machine.cpus);
        return Err(format!("CPU {cpu} is not among those this process may use: {these}"));
    }
    Ok(Partition { cpus: if pin { list.to_vec() } else { Vec::new() }, width: list.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: usize, parallelism: usize) -> Machine {
        let pairs: Vec<Vec<usize>> =
            (0..cpus / 2).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
        let all: Vec<usize> = (0..cpus).collect();
        let topology = Topology { caches: pairs, sockets: vec![all.clone()], nodes: vec![all] };
        Machine { cpus: (0..cpus).collect(), parallelism, descriptors_max: 1024, topology }
    }

    fn settings(count: u64, lists: &[&str], pin: bool) -> PartitionSettings {
        let pin = if pin { Pin::Auto } else { Pin::Never };
        let cpus = lists.iter().map(|list| cpu_list::parse(list).unwrap()).collect();
        PartitionSettings { count, cpus, pin, ..PartitionSettings::default() }
    }

    fn divided_by(by: Division) -> PartitionSettings {
        PartitionSettings { by, ..settings(1, &[], true) }
    }

    /// Formats partitions: `0-1*2` is a partition of CPUs 0 and 1 with a width of 2.
    fn show(partitions: &[Partition]) -> String {
        let show = |p: &Partition| format!("{}*{}", cpu_list::show(&p.cpus), p.width);
        partitions.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn divisions() {
        let check = |settings: PartitionSettings, machine: Machine, expected: &str| {
            let partitions = divide(&settings, &machine);
            assert_eq!(partitions.map(|p| show(&p)).as_deref(), Ok(expected));
        };
        check(settings(1, &[], true), machine(4, 4), "0-3*4");
        check(settings(2, &[], true), machine(4, 4), "0-1*2 2-3*2");
        check(settings(2, &[], true), machine(5, 5), "0-1*2 2-4*3");
        check(settings(1, &[], false), machine(4, 4), "*4");
        check(settings(1, &[], true), machine(64, 2), "*2");
        check(settings(3, &[], true), machine(64, 2), "*1 *1 *1");
        check(divided_by(Division::Cache), machine(4, 4), "0-1*2 2-3*2");
        check(divided_by(Division::Cache), machine(4, 2), "*1 *1");
        check(divided_by(Division::Socket), machine(4, 4), "0-3*4");
        check(divided_by(Division::Node), machine(4, 4), "0-3*4");
        check(settings(1, &["0,2", "3"], true), machine(4, 4), "0,2*2 3*1");
        check(settings(1, &["0,2", "3"], false), machine(4, 4), "*2 *1");
    }

    #[test]
    fn a_machine_is_formatted_and_parsed() {
        let topology = Topology::of_this_machine(&[0, 2, 3]);
        let cpus = vec![0, 2, 3];
        let written = Machine { cpus, parallelism: 2, descriptors_max: 20_000, topology };
        assert_eq!(written.to_string(), "0,2-3/2/20000");
        assert_eq!(written.to_string().parse(), Ok(written));
        assert!("0-1/2".parse::<Machine>().is_err());
    }

    #[test]
    fn refused() {
        let check = |settings: PartitionSettings, expected: &str| {
            assert_eq!(divide(&settings, &machine(2, 2)).unwrap_err(), expected);
        };
        check(settings(3, &[], true), "3 partitions need 3 CPUs: there are 2 (0-1)");
        check(settings(1, &["1-2"], true), "CPU 2 is not among those this process may use: 0-1");
    }
}
