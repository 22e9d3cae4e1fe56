//! Testbeds: the conditions under which servers are compared.
//!
//! A [`Testbed`] says them, as a table of a study's file: which CPUs, how much memory, how fast a
//! disk, which network, which settings of the kernel. [`Testbed::enter`] makes them so, and the
//! [`Entered`] that it returns says where servers and clients are to be started, and undoes
//! everything when it is dropped, or when this process is killed. It starts neither.

mod accessed;
mod disk;
mod enclosure;
mod kernel;
mod memory;
pub(crate) mod names;
mod network;
mod topology;

pub use accessed::Accessed;
pub(crate) use disk::Done;
pub use disk::{Device, Throttle};
pub(crate) use enclosure::no_controller;
pub use enclosure::{Enclosing, Enclosure};
pub use kernel::{KernelSettings, Settings};
pub use memory::{DiskIo, Memory, Plan, Settled};
pub use network::{Link, Network, Subnet, Subnets};
pub use topology::{Choice, Cpu, CpuSets, Policy, Topology};

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What a server's threads are bound to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affinity {
    /// Each worker to a CPU of its own: by the server itself, or its processes from outside.
    Workers,
    /// All to the server's CPUs; among them the kernel chooses, or the server if it does so of its
    /// own accord.
    #[default]
    Set,
    /// To nothing among the CPUs of the servers and the clients: the kernel chooses.
    None,
}

/// The conditions of a run. What is not given is as the machine is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Testbed {
    /// What reports call it.
    pub name: String,
    /// How many CPUs the servers get together; 1, or one whole unit of the policy, if not given.
    pub cpus: Option<usize>,
    /// Which CPUs.
    pub policy: Policy,
    /// Whether all hardware threads of a core count as CPUs.
    pub threads: bool,
    /// How many CPUs the clients get; all that are left if not given; 0: they share the servers'.
    pub client_cpus: Option<usize>,
    /// What threads are bound to.
    pub affinity: Affinity,
    /// How many copies of the server share the CPUs; 1 if not given.
    pub replicas: Option<usize>,
    /// How much of the files is in memory.
    pub memory: Option<Memory>,
    /// How fast the disk is.
    pub disk: Option<Throttle>,
    /// Which network lies between clients and servers; loopback if not given.
    pub network: Option<Network>,
    /// Settings of the kernel.
    pub kernel: KernelSettings,
}

/// Where a server is to be started, beside what a launch says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What to put before the command, so that it runs in a network namespace; often nothing.
    pub prefix: Vec<String>,
    /// The network namespace in which the command runs; ours if none.
    pub network: Option<PathBuf>,
    /// The address it shall listen at: one, or any of a namespace.
    pub listen: Ipv4Addr,
    /// An address at which it can be asked.
    pub address: Ipv4Addr,
    /// The network namespace from which it can be asked; ours if none.
    pub ask_from: Option<PathBuf>,
    /// The control groups around it.
    pub enclosing: Enclosing,
}

impl Default for Place {
    /// The place of this process: loopback, and no groups.
    fn default() -> Self {
        Self {
            prefix: Vec::new(),
            network: None,
            listen: Ipv4Addr::LOCALHOST,
            address: Ipv4Addr::LOCALHOST,
            ask_from: None,
            enclosing: Enclosing::default(),
        }
    }
}

/// A copy of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPlace {
    /// The CPUs to bind it to.
    pub cpus: Vec<usize>,
    /// How many workers it would have if each had a CPU.
    pub workers: usize,
    /// Where it is.
    pub place: Place,
}

/// Clients of one subnet, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPlace {
    /// The CPUs to bind them to.
    pub cpus: Vec<usize>,
    /// What to put before the command.
    pub prefix: Vec<String>,
    /// The copy of the server that they ask, as an index into [`Entered::servers`].
    pub server: usize,
    /// The address at which they ask it.
    pub address: Ipv4Addr,
    /// The addresses that they come from; empty: whatever the kernel chooses.
    pub sources: Vec<Ipv4Addr>,
}

/// Conditions that hold until this is dropped.
#[derive(Debug)]
pub struct Entered {
    /// One for each copy.
    pub servers: Vec<ServerPlace>,
    /// One for each subnet, or one.
    pub clients: Vec<ClientPlace>,
    /// The CPUs of all servers and of all clients.
    pub cpus: CpuSets,
    /// What is around the servers.
    pub enclosure: Enclosure,
    /// How memory is divided, if that is a condition.
    pub plan: Option<Plan>,
    /// The disk of the files, if there is one.
    pub device: Option<Device>,
    /// The settings of the kernel that it names.
    pub kernel: Vec<String>,
    subnets: Option<Subnets>,
    settings: Vec<Settings>,
}

impl Testbed {
    /// Reads the text of a table and checks it.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let testbed: Self = toml::from_str(text).map_err(|why| why.message().to_owned())?;
        testbed.check()?;
        Ok(testbed)
    }

    /// Whether it makes sense on any machine.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    pub fn check(&self) -> Result<(), String> {
        let replicas = self.replicas.unwrap_or(1);
        if replicas == 0 {
            return Err("replicas: there is at least one server".into());
        }
        if self.cpus.is_some_and(|cpus| cpus == 0 || cpus % replicas != 0) {
            return Err(format!("cpus: {replicas} replicas share them evenly, and each has one"));
        }
        self.memory.as_ref().map_or(Ok(()), Memory::check)?;
        self.disk.as_ref().map_or(Ok(()), Throttle::check)?;
        self.network.as_ref().map_or(Ok(()), Network::check)?;
        let subnets = self.network.as_ref().map(|network| network.subnets);
        if subnets.is_some_and(|subnets| subnets < replicas) {
            return Err(format!("network: {replicas} replicas need a subnet each"));
        }
        self.kernel.check()
    }

    /// What it is, in a few words: what is written in its table, but for the name.
    pub fn about(&self) -> String {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return String::new();
        };
        let mut words = Vec::new();
        tell("", &serde_json::Value::Object(fields), &mut words);
        words.join(", ")
    }

    /// Makes it so on this machine, for these files.
    ///
    /// # Errors
    /// What cannot be had here, in a line, and what would mend it. Nothing is left behind.
    pub fn enter(&self, machine: &Topology, files: &Accessed) -> Result<Entered, String> {
        self.check()?;
        let cpus = machine.choose(&self.choice())?;
        let replicas = self.replicas.unwrap_or(1);
        if cpus.server.len() % replicas != 0 {
            return Err(format!("{replicas} replicas cannot share {} CPUs", cpus.server.len()));
        }
        let mut enclosure = Enclosure::create();
        let plan = self.memory.map(|memory| memory.plan(files.bytes()));
        if let Some(plan) = plan {
            enclosure.bound_memory(plan.limit_bytes)?;
        }
        let device = files.first().map(Device::of);
        self.slow_the_disk(&mut enclosure, device.as_ref())?;
        let subnets = self.network.as_ref().map(Subnets::create).transpose()?;
        let settings = self.kernel.apply(subnets.as_ref())?;
        let servers = self.servers(&cpus, &enclosure, subnets.as_ref());
        let clients = clients(&cpus, &servers, subnets.as_ref());
        let device = device.and_then(Result::ok);
        let kernel = self.kernel.names();
        Ok(Entered { servers, clients, cpus, enclosure, plan, device, kernel, subnets, settings })
    }

    /// How many CPUs the servers get together on this machine; if it has not so many, how many are
    /// wanted.
    pub fn server_cpus(&self, machine: &Topology) -> usize {
        let chosen = machine.choose(&self.choice()).map(|sets| sets.server.len());
        chosen.unwrap_or(self.cpus.unwrap_or(1))
    }

    /// Whether this machine has the CPUs for it.
    ///
    /// # Errors
    /// What it lacks, in a line.
    pub fn fits(&self, machine: &Topology) -> Result<(), String> {
        machine.choose(&self.choice()).map(drop)
    }

    /// How many places there are for clients, which share a load: a subnet each, or a copy of the
    /// server.
    pub fn generators(&self) -> usize {
        self.network.map_or(self.replicas.unwrap_or(1), |network| network.subnets)
    }

    fn choice(&self) -> Choice {
        let replicas = self.replicas.unwrap_or(1);
        // A copy needs a CPU.
        let least = matches!(self.policy, Policy::Close | Policy::Spread).then_some(replicas);
        Choice {
            cpus: self.cpus.or(least),
            policy: self.policy,
            threads: self.threads,
            client_cpus: self.client_cpus,
        }
    }

    /// Counts what the disk does where that matters, and bounds it.
    fn slow_the_disk(
        &self,
        enclosure: &mut Enclosure,
        device: Option<&Result<Device, String>>,
    ) -> Result<(), String> {
        let known = device.and_then(|device| device.as_ref().ok());
        let folder = enclosure.count_disk(known).map(PathBuf::from);
        let Some(throttle) = &self.disk else { return Ok(()) };
        let device = device.ok_or("disk: it is not known which, for no file is asked for")?;
        let device = device.as_ref().map_err(Clone::clone)?;
        throttle.apply(&folder?, device)
    }

    fn servers(
        &self,
        cpus: &CpuSets,
        enclosure: &Enclosure,
        subnets: Option<&Subnets>,
    ) -> Vec<ServerPlace> {
        let share = cpus.server.len() / self.replicas.unwrap_or(1);
        let sets = cpus.server.chunks(share).enumerate();
        let server = |(index, set): (usize, &[usize])| {
            let place = match subnets {
                Some(subnets) => Place {
                    prefix: subnets.server_prefix(),
                    network: Some(subnets.server_namespace()),
                    listen: Ipv4Addr::UNSPECIFIED,
                    address: subnets.all()[index].server,
                    ask_from: Some(subnets.all()[index].namespace()),
                    enclosing: enclosure.enclosing(),
                },
                None => Place { enclosing: enclosure.enclosing(), ..Place::default() },
            };
            let bound = match self.affinity {
                Affinity::None => cpus.all(),
                Affinity::Set | Affinity::Workers => set.to_vec(),
            };
            ServerPlace { cpus: bound, workers: set.len(), place }
        };
        sets.map(server).collect()
    }
}

/// Subnets are dealt to the copies in turn, and the clients' CPUs to the subnets.
fn clients(cpus: &CpuSets, servers: &[ServerPlace], subnets: Option<&Subnets>) -> Vec<ClientPlace> {
    let Some(subnets) = subnets else {
        let client = |index: usize, server: &ServerPlace| ClientPlace {
            cpus: dealt(&cpus.clients, index, servers.len()),
            prefix: Vec::new(),
            server: index,
            address: server.place.address,
            sources: Vec::new(),
        };
        return servers.iter().enumerate().map(|(index, server)| client(index, server)).collect();
    };
    let all = subnets.all();
    let client = |(index, subnet): (usize, &Subnet)| ClientPlace {
        cpus: dealt(&cpus.clients, index, all.len()),
        prefix: subnet.prefix(),
        server: index % servers.len(),
        address: subnet.server,
        sources: subnet.clients.clone(),
    };
    all.iter().enumerate().map(client).collect()
}

/// What falls to number `index` of `count`; if there are too few for all, some have the same.
fn dealt(cpus: &[usize], index: usize, count: usize) -> Vec<usize> {
    if cpus.len() < count {
        return vec![cpus[index % cpus.len()]];
    }
    cpus.iter().skip(index).step_by(count).copied().collect()
}

impl Entered {
    /// Prepares the page cache for a run, if memory is a condition: to be called before each run,
    /// while no server runs that could have mapped the files.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn settle(&self, files: &Accessed) -> Result<Option<Settled>, String> {
        self.plan.map(|plan| plan.settle(files, &self.enclosure)).transpose()
    }

    /// The CPUs on which servers may run.
    pub fn server_cpus(&self) -> Vec<usize> {
        let mut cpus: Vec<usize> =
            self.servers.iter().flat_map(|server| server.cpus.iter().copied()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Undoes everything, as dropping it does, and says what could not be.
    ///
    /// # Errors
    /// Which settings of the kernel are not as they were, in a line.
    pub fn leave(mut self) -> Result<(), String> {
        let left = self.settings.iter_mut().filter_map(|settings| settings.put_back().err());
        let left: Vec<String> = left.collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }

    /// The network namespace of the servers; ours if none.
    pub fn server_namespace(&self) -> Option<PathBuf> {
        self.subnets.as_ref().map(Subnets::server_namespace)
    }
}

/// Lists what is set below `value`, each with its path.
fn tell(path: &str, value: &serde_json::Value, words: &mut Vec<String>) {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => {}
        serde_json::Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "name") {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                tell(&path, value, words);
            }
        }
        serde_json::Value::String(text) => words.push(format!("{path} {text}")),
        other => words.push(format!("{path} {other}")),
    }
}

#[cfg(test)]
mod tests;
