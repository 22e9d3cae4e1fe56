//! The machine's topology, by what its CPUs share: cores, last-level caches, sockets, memory nodes;
//! and the choice of CPUs for a server and for its clients.
//!
//! Reading is a pure function of the text of `/sys`, so that it can be tested with recordings of
//! other machines. This module binds nothing to a CPU.

use os::cpu_list;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// One CPU as the kernel counts CPUs: a hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// Its core, named after the core's lowest CPU that the machine has.
    pub core: usize,
    /// Its last-level cache, named after the lowest CPU that uses it.
    pub cache: usize,
    /// Its socket, as the firmware counts them.
    pub socket: usize,
    /// Its memory node.
    pub node: usize,
}

/// The CPUs that this process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// In ascending order of their numbers.
    pub cpus: Vec<Cpu>,
}

/// The policy by which the CPUs of a server are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Under one cache if it has enough CPUs, else under one memory node, else on one socket.
    #[default]
    Close,
    /// As few as possible share a socket, a memory node, a cache.
    Spread,
    /// Whole sockets; one if no number is given.
    Socket,
    /// Whole memory nodes; one if no number is given.
    Node,
}

/// The request to [`Topology::choose`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choice {
    /// The number of CPUs of the server; if none, one for `Close` and `Spread`, else one whole
    /// unit.
    pub cpus: Option<usize>,
    /// The policy by which they are chosen.
    pub policy: Policy,
    /// Whether all hardware threads of a core count as CPUs. If not, the server uses one thread of
    /// each of its cores, and the other threads stay idle.
    pub threads: bool,
    /// The number of CPUs of the clients; if none, all that are left; if 0, the clients share the
    /// server's.
    pub client_cpus: Option<usize>,
}

/// The CPUs of server and clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSets {
    /// The server's CPUs, in the order in which the policy took them.
    pub server: Vec<usize>,
    /// The clients' CPUs: on none of the server's cores, unless they share.
    pub clients: Vec<usize>,
}

impl CpuSets {
    /// The CPUs of server and clients, each once, in ascending order.
    pub fn union(&self) -> Vec<usize> {
        let both: BTreeSet<usize> = self.server.iter().chain(&self.clients).copied().collect();
        both.into_iter().collect()
    }
}

/// Threads that share a core.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Core {
    threads: Vec<usize>,
    of: Cpu,
}

impl Topology {
    /// Reads the topology of this machine, as far as this process may use it.
    pub fn of_this_machine() -> Self {
        let devices = Path::new("/sys/devices/system");
        let read = |path: &str| fs::read_to_string(devices.join(path)).ok();
        Self::parse(read, &os::affinity::allowed_cpus())
    }

    /// Reads a machine from the files below `/sys/devices/system`; `read` returns the text of a
    /// file by its path below that folder. A unit that no file names is taken to be shared by all
    /// CPUs (socket, node), by the CPUs of the socket (cache) or by no other CPU (core).
    pub fn parse(read: impl Fn(&str) -> Option<String>, allowed: &[usize]) -> Self {
        let nodes = nodes(&read);
        let mut cpus: Vec<Cpu> = allowed.iter().map(|cpu| parse_cpu(&read, &nodes, *cpu)).collect();
        cpus.sort_by_key(|cpu| cpu.number);
        for index in 0..cpus.len() {
            if cpus[index].cache == usize::MAX {
                let same = |cpu: &&Cpu| cpu.socket == cpus[index].socket;
                cpus[index].cache = cpus.iter().find(same).map_or(index, |first| first.number);
            }
        }
        Self { cpus }
    }

    /// The numbers of CPUs, 1, 2, 4, 8 and so on, that a server can have here if `client_cores`
    /// cores are left for its clients.
    pub fn sizes(&self, threads: bool, client_cores: usize) -> Vec<usize> {
        let cores = self.cores();
        let usable = cores.len().saturating_sub(client_cores);
        let count = |core: &Core| if threads { core.threads.len() } else { 1 };
        let cpus: usize = cores.iter().take(usable).map(count).sum();
        (0..usize::BITS).map(|power| 1 << power).take_while(|size| *size <= cpus).collect()
    }

    /// Chooses CPUs.
    ///
    /// # Errors
    /// When there are too few CPUs, with their number.
    pub fn choose(&self, choice: &Choice) -> Result<CpuSets, String> {
        let cores = self.cores();
        if cores.is_empty() || choice.cpus == Some(0) {
            return Err("a server needs a CPU: cpus = 1 or more".into());
        }
        let chosen = match choice.cpus {
            Some(cpus) if choice.threads && differ(&cores) => filled(&cores, choice.policy, cpus)?,
            _ => by_policy(&cores, choice.policy, self.cores_wanted(&cores, choice)?)?,
        };
        let threads = |core: &Core| {
            core.threads[..if choice.threads { core.threads.len() } else { 1 }].to_vec()
        };
        let server: Vec<usize> = chosen.iter().flat_map(threads).collect();
        let clients = clients(&cores, &chosen, &server, choice.client_cpus)?;
        Ok(CpuSets { server, clients })
    }

    /// The number of cores that have the CPUs wanted; none for a whole unit.
    fn cores_wanted(&self, cores: &[Core], choice: &Choice) -> Result<Option<usize>, String> {
        let whole = matches!(choice.policy, Policy::Socket | Policy::Node);
        let Some(cpus) = choice.cpus else { return Ok(if whole { None } else { Some(1) }) };
        let per_core = if choice.threads { cores[0].threads.len() } else { 1 };
        if cpus % per_core != 0 {
            return Err(format!("{cpus} CPUs are not whole cores: each has {per_core} threads"));
        }
        if cpus / per_core > cores.len() {
            let there = cores.len() * per_core;
            return Err(format!("{cpus} CPUs are wanted and {there} are there"));
        }
        Ok(Some(cpus / per_core))
    }

    /// The cores, ordered so that adjacent cores share most.
    fn cores(&self) -> Vec<Core> {
        let mut cores = BTreeMap::<(usize, usize, usize, usize), Core>::new();
        for cpu in &self.cpus {
            let key = (cpu.socket, cpu.node, cpu.cache, cpu.core);
            let core = cores.entry(key).or_insert(Core { threads: Vec::new(), of: *cpu });
            core.threads.push(cpu.number);
        }
        cores.into_values().collect()
    }
}

/// Whether cores differ in the number of threads that may be used.
fn differ(cores: &[Core]) -> bool {
    cores.iter().any(|core| core.threads.len() != cores[0].threads.len())
}

/// Chooses `wanted` cores by the policy; if that is none, one core or one whole unit.
fn by_policy(cores: &[Core], policy: Policy, wanted: Option<usize>) -> Result<Vec<Core>, String> {
    Ok(match policy {
        Policy::Close => close(cores, wanted),
        Policy::Spread => spread(cores, wanted),
        Policy::Socket => whole(cores, wanted, "socket", |cpu| cpu.socket)?,
        Policy::Node => whole(cores, wanted, "memory node", |cpu| cpu.node)?,
    })
}

/// Where cores differ in threads: chooses the fewest whole cores that have exactly `cpus` threads
/// together, among all cores, else among the cores that have the most threads.
fn filled(cores: &[Core], policy: Policy, cpus: usize) -> Result<Vec<Core>, String> {
    let threads = |cores: &[Core]| cores.iter().map(|core| core.threads.len()).sum::<usize>();
    let most = cores.iter().map(|core| core.threads.len()).max().unwrap_or(0);
    let widest: Vec<Core> =
        cores.iter().filter(|core| core.threads.len() == most).cloned().collect();
    for pool in [cores, &widest] {
        let sets = (1..=pool.len()).filter_map(|count| by_policy(pool, policy, Some(count)).ok());
        if let Some(chosen) = sets.into_iter().find(|chosen| threads(chosen) == cpus) {
            return Ok(chosen);
        }
    }
    let there = threads(cores);
    Err(format!("{cpus} CPUs are wanted: no whole cores among the {there} CPUs have so many"))
}

/// Chooses the first `wanted` cores of the smallest unit that has so many.
fn close(cores: &[Core], wanted: Option<usize>) -> Vec<Core> {
    let wanted = wanted.unwrap_or(1);
    let units: [fn(&Cpu) -> usize; 4] = [|cpu| cpu.cache, |cpu| cpu.node, |cpu| cpu.socket, |_| 0];
    let fitting = units.iter().find_map(|unit| {
        let mut groups = groups(cores, unit);
        groups.retain(|group| group.len() >= wanted);
        groups.into_iter().min_by_key(Vec::len)
    });
    let mut fitting = fitting.unwrap_or_default();
    // Caches of which most cores may be used come first.
    let members =
        |core: &Core| cores.iter().filter(|other| other.of.cache == core.of.cache).count();
    let largest = fitting.iter().map(members).max().unwrap_or(0);
    fitting.sort_by_key(|core| (core.of.socket, largest - members(core), core.of.cache));
    fitting.truncate(wanted);
    fitting
}

/// Chooses cores one after the other, each in the units that have the fewest chosen cores so far.
fn spread(cores: &[Core], wanted: Option<usize>) -> Vec<Core> {
    let mut chosen: Vec<Core> = Vec::new();
    while chosen.len() < wanted.unwrap_or(1) {
        let beside = |same: &dyn Fn(&Cpu) -> bool| chosen.iter().filter(|it| same(&it.of)).count();
        let next = cores.iter().filter(|core| !chosen.contains(core)).min_by_key(|core| {
            let of = core.of;
            let socket = beside(&|other| other.socket == of.socket);
            let node = beside(&|other| other.node == of.node);
            (socket, node, beside(&|other| other.cache == of.cache), of.number)
        });
        match next {
            Some(core) => chosen.push(core.clone()),
            None => break,
        }
    }
    chosen
}

/// Chooses the first whole units that have `wanted` cores together.
fn whole(
    cores: &[Core],
    wanted: Option<usize>,
    name: &str,
    unit: fn(&Cpu) -> usize,
) -> Result<Vec<Core>, String> {
    let groups = groups(cores, &unit);
    let wanted = wanted.unwrap_or(groups[0].len());
    let mut chosen = Vec::new();
    for group in groups {
        if chosen.len() >= wanted {
            break;
        }
        chosen.extend(group);
    }
    match chosen.len() == wanted {
        true => Ok(chosen),
        false => {
            let first = chosen.iter().filter(|core| unit(&core.of) == unit(&chosen[0].of)).count();
            Err(format!("{wanted} cores are not whole units: the first {name} has {first}"))
        }
    }
}

/// Groups cores by their unit, in the order of the units.
fn groups(cores: &[Core], unit: &fn(&Cpu) -> usize) -> Vec<Vec<Core>> {
    let mut groups = BTreeMap::<usize, Vec<Core>>::new();
    for core in cores {
        groups.entry(unit(&core.of)).or_default().push(core.clone());
    }
    groups.into_values().collect()
}

/// Chooses CPUs of the cores that are left: those farthest from the server first, and one thread of
/// each core before a second thread of any.
fn clients(
    cores: &[Core],
    chosen: &[Core],
    server: &[usize],
    wanted: Option<usize>,
) -> Result<Vec<usize>, String> {
    if wanted == Some(0) {
        return Ok(server.to_vec());
    }
    let mut left: Vec<&Core> = cores.iter().filter(|core| !chosen.contains(core)).collect();
    let near = |core: &Core| {
        let shares = |same: fn(&Cpu, &Cpu) -> bool| chosen.iter().any(|it| same(&it.of, &core.of));
        (shares(|a, b| a.socket == b.socket), shares(|a, b| a.cache == b.cache))
    };
    left.sort_by_key(|core| (near(core), core.of.number));
    let most = left.iter().map(|core| core.threads.len()).max().unwrap_or(0);
    let of_cores = |thread| left.iter().filter_map(move |core| core.threads.get(thread).copied());
    let cpus: Vec<usize> = (0..most).flat_map(of_cores).collect();
    let count = wanted.unwrap_or(cpus.len());
    if cpus.is_empty() || count > cpus.len() {
        let (wanted, left) = (count.max(1), cpus.len());
        return Err(format!(
            "clients need {wanted} CPUs and {left} are left: fewer for the server, or \
             client_cpus = 0 to share its"
        ));
    }
    Ok(cpus[..count].to_vec())
}

fn parse_cpu(
    read: &impl Fn(&str) -> Option<String>,
    nodes: &BTreeMap<usize, usize>,
    number: usize,
) -> Cpu {
    let at = |file: &str| read(&format!("cpu/cpu{number}/{file}"));
    let lowest =
        |list: Option<String>| list.and_then(|list| cpu_list::numbers(&list).into_iter().min());
    // Some virtual machines report -1.
    let socket = at("topology/physical_package_id").and_then(|id| id.trim().parse().ok());
    let siblings = at("topology/thread_siblings_list").or_else(|| at("topology/core_cpus_list"));
    let levels = (0..16).filter_map(|index| {
        let level: u32 = at(&format!("cache/index{index}/level"))?.trim().parse().ok()?;
        Some((level, index))
    });
    let last = levels.max();
    let shared = last.and_then(|(_, index)| at(&format!("cache/index{index}/shared_cpu_list")));
    Cpu {
        number,
        core: lowest(siblings).unwrap_or(number),
        cache: lowest(shared).unwrap_or(usize::MAX),
        socket: socket.unwrap_or(0),
        node: nodes.get(&number).copied().unwrap_or(0),
    }
}

/// The node of each CPU.
fn nodes(read: &impl Fn(&str) -> Option<String>) -> BTreeMap<usize, usize> {
    const NODES_MAX: usize = 1024; // more than any kernel supports
    let mut found = BTreeMap::new();
    let online = read("node/online").map(|list| cpu_list::numbers(&list));
    for node in online.unwrap_or_else(|| (0..NODES_MAX).collect()) {
        if let Some(list) = read(&format!("node/node{node}/cpulist")) {
            found.extend(cpu_list::numbers(&list).into_iter().map(|cpu| (cpu, node)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded by the hwloc project, under its BSD licence; files that are not read here are left
    /// out. Two Xeons with four cores each, of which two share an L2, as in Genevès' machine.
    const PAIRS: &str = include_str!("recorded/eight-cores-in-pairs.txt");
    /// Four Opterons: 8 nodes, each with an L3 and 8 CPUs in 4 modules.
    const NODES: &str = include_str!("recorded/four-sockets-eight-nodes.txt");
    /// Four Xeons with 16 nodes and two threads for each core; an L3 spans two nodes.
    const THREADS: &str = include_str!("recorded/four-sockets-with-threads.txt");
    /// Two Xeons with eight cores, an L3 and a node each.
    const SOCKETS: &str = include_str!("recorded/two-sockets-two-nodes.txt");

    fn recorded(text: &str, allowed: &[usize]) -> Topology {
        let files: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once('=')).collect();
        Topology::parse(|path| files.get(path).map(|text| (*text).to_owned()), allowed)
    }

    fn first_cpus(count: usize) -> Vec<usize> {
        (0..count).collect()
    }

    #[track_caller]
    fn check(topology: &Topology, cpus: usize, policy: Policy, server: &[usize]) {
        let choice = Choice { cpus: Some(cpus), policy, ..Choice::default() };
        let sets = topology.choose(&choice).expect("there are so many");
        assert_eq!(sets.server, server, "{policy:?} {cpus}");
        assert!(sets.clients.iter().all(|cpu| !server.contains(cpu)), "{sets:?}");
        assert!(!sets.clients.is_empty());
    }

    #[test]
    fn eight_cores_in_pairs() {
        let machine = recorded(PAIRS, &first_cpus(8));
        let expected = Cpu { number: 6, core: 6, cache: 2, socket: 0, node: 0 };
        assert_eq!(machine.cpus[6], expected, "CPUs 2 and 6 are a pair");
        assert_eq!(machine.sizes(false, 1), [1, 2, 4]);
        assert_eq!(machine.sizes(false, 0), [1, 2, 4, 8]);
        check(&machine, 2, Policy::Close, &[0, 4]);
        check(&machine, 4, Policy::Close, &[0, 4, 2, 6]);
        check(&machine, 2, Policy::Spread, &[0, 1]);
        check(&machine, 4, Policy::Spread, &[0, 1, 2, 3]);
        check(&machine, 4, Policy::Socket, &[0, 4, 2, 6]);
    }

    #[test]
    fn four_sockets_with_eight_nodes() {
        let machine = recorded(NODES, &first_cpus(64));
        assert_eq!(machine.cpus[13], Cpu { number: 13, core: 12, cache: 8, socket: 0, node: 1 });
        assert_eq!(machine.sizes(false, 1), [1, 2, 4, 8, 16]);
        assert_eq!(machine.sizes(true, 1), [1, 2, 4, 8, 16, 32]);
        check(&machine, 4, Policy::Close, &[0, 2, 4, 6]);
        check(&machine, 4, Policy::Node, &[0, 2, 4, 6]);
        check(&machine, 8, Policy::Socket, &[0, 2, 4, 6, 8, 10, 12, 14]);
        check(&machine, 4, Policy::Spread, &[0, 16, 32, 48]);
        check(&machine, 8, Policy::Spread, &[0, 16, 32, 48, 8, 24, 40, 56]);
    }

    #[test]
    fn two_sockets_with_a_node_each() {
        let machine = recorded(SOCKETS, &first_cpus(16));
        assert_eq!(machine.cpus[9], Cpu { number: 9, core: 9, cache: 8, socket: 1, node: 1 });
        check(&machine, 8, Policy::Socket, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&machine, 8, Policy::Close, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&machine, 4, Policy::Spread, &[0, 8, 1, 9]);
        let one_node = Choice { policy: Policy::Node, ..Choice::default() };
        let sets = machine.choose(&one_node).expect("there are two");
        assert_eq!((sets.server, sets.clients), (first_cpus(8), (8..16).collect()));
    }

    #[test]
    fn threads_of_a_core_stay_together() {
        let machine = recorded(THREADS, &first_cpus(64));
        assert_eq!(machine.cpus[33], Cpu { number: 33, core: 32, cache: 32, socket: 2, node: 8 });
        let choice = Choice { cpus: Some(4), threads: true, ..Choice::default() };
        assert_eq!(machine.choose(&choice).map(|sets| sets.server), Ok(vec![0, 1, 2, 3]));
        let one = machine.choose(&Choice::default()).expect("there is one");
        assert_eq!(one.server, [0]);
        assert!(!one.clients.contains(&1), "the other thread of the core rests");
        assert_eq!(
            one.clients[..3],
            [16, 18, 20],
            "other sockets come first, cores before threads"
        );
        assert_eq!((one.clients.len(), one.clients[31]), (62, 17), "then their other threads");
        let odd = machine.choose(&Choice { cpus: Some(3), ..choice }).expect_err("half a core");
        assert_eq!(odd, "3 CPUs are not whole cores: each has 2 threads");
    }

    #[test]
    fn cores_that_differ_give_as_many_cpus_as_they_say() {
        // Only one thread of the first core may be used.
        let machine = recorded(THREADS, &first_cpus(64)[1..]);
        let choice = |cpus| Choice { cpus: Some(cpus), threads: true, ..Choice::default() };
        let server = |cpus| machine.choose(&choice(cpus)).map(|sets| sets.server);
        assert_eq!(server(3), Ok(vec![1, 2, 3]));
        assert_eq!(server(4), Ok(vec![2, 3, 4, 5]), "of whole cores");
        assert!(server(64).is_err_and(|why| why.contains("63 CPUs")));
        // Eight cores with two threads, and four with one.
        let siblings = |path: &str| {
            let cpu: usize = path.strip_prefix("cpu/cpu")?.split('/').next()?.parse().ok()?;
            let pair = cpu / 2 * 2;
            (path.ends_with("siblings_list") && cpu < 16).then(|| format!("{pair}-{}", pair + 1))
        };
        let hybrid = Topology::parse(siblings, &first_cpus(20));
        let shared = Choice { client_cpus: Some(0), ..choice(20) };
        assert_eq!(hybrid.choose(&shared).map(|sets| sets.server), Ok(first_cpus(20)));
        assert_eq!(hybrid.choose(&choice(17)).map(|sets| sets.server.len()), Ok(17));
    }

    #[test]
    fn only_what_is_allowed_is_chosen() {
        let machine = recorded(PAIRS, &[0, 2, 3, 6, 7]);
        check(&machine, 2, Policy::Close, &[2, 6]);
        check(&machine, 3, Policy::Close, &[2, 6, 0]);
        assert_eq!(machine.sizes(false, 1), [1, 2, 4]);
        let choice = Choice { client_cpus: Some(1), ..Choice::default() };
        assert_eq!(machine.choose(&choice).map(|sets| sets.clients), Ok(vec![3]));
    }

    #[test]
    fn too_much_is_refused_in_a_line() {
        let machine = recorded(PAIRS, &first_cpus(8));
        let why = |choice: Choice| machine.choose(&choice).expect_err("it is too much");
        let choice = Choice::default();
        assert_eq!(why(Choice { cpus: Some(9), ..choice }), "9 CPUs are wanted and 8 are there");
        assert!(why(Choice { cpus: Some(8), ..choice }).starts_with("clients need 1 CPUs and 0"));
        let half = Choice { cpus: Some(3), policy: Policy::Socket, ..choice };
        assert_eq!(why(half), "3 cores are not whole units: the first socket has 4");
        let shared = Choice { cpus: Some(8), client_cpus: Some(0), ..choice };
        assert_eq!(machine.choose(&shared).map(|sets| sets.clients.len()), Ok(8));
    }

    #[test]
    fn a_machine_that_says_nothing_has_cores_on_one_socket() {
        let machine = Topology::parse(|_| None, &[3, 5]);
        let shared = Cpu { number: 5, core: 5, cache: 3, socket: 0, node: 0 };
        assert_eq!(machine.cpus[1], shared);
        check(&machine, 1, Policy::Close, &[3]);
    }

    #[test]
    fn this_machine_is_read() {
        let machine = Topology::of_this_machine();
        assert_eq!(machine.cpus.len(), os::affinity::allowed_cpus().len());
        let shared = Choice { client_cpus: Some(0), ..Choice::default() };
        assert_eq!(machine.choose(&shared).map(|sets| sets.server.len()), Ok(1));
    }
}
