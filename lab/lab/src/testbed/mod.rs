//! Testbeds: the conditions under which servers are compared.
//!
//! A [`Testbed`] describes them, as a table of a study's file: CPUs, memory, speed of the disk,
//! network, settings of the kernel. [`Testbed::enter`] establishes them, and the [`Entered`] that
//! it returns says where servers and clients are to be started, and undoes everything when it is
//! dropped, or when this process is killed. It starts neither servers nor clients.

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

/// The binding of a server's threads to CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affinity {
    /// Each worker is bound to a CPU of its own: by the server itself, or its processes from
    /// outside.
    Workers,
    /// All threads are bound to the server's CPUs; among these the kernel chooses, or the server if
    /// it does so of its own accord.
    #[default]
    Set,
    /// Threads may run on all CPUs of the servers and the clients: the kernel chooses.
    None,
}

/// The conditions of a run. A condition that is not given is as the machine is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Testbed {
    /// The name in reports.
    pub name: String,
    /// The number of CPUs that the servers get together; 1, or one whole unit of the policy, if not
    /// given.
    pub cpus: Option<usize>,
    /// The policy by which the CPUs are chosen.
    pub policy: Policy,
    /// Whether all hardware threads of a core count as CPUs.
    pub threads: bool,
    /// The number of CPUs of the clients; all that are left if not given; 0: they share the
    /// servers'.
    pub client_cpus: Option<usize>,
    /// The binding of threads.
    pub affinity: Affinity,
    /// The number of copies of the server that share the CPUs; 1 if not given.
    pub replicas: Option<usize>,
    /// The memory, and so the share of the files that it holds.
    pub memory: Option<Memory>,
    /// The bounds on the speed of the disk.
    pub disk: Option<Throttle>,
    /// The network between clients and servers; loopback if not given.
    pub network: Option<Network>,
    /// Settings of the kernel.
    pub kernel: KernelSettings,
}

/// The place where a server is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The words to put before the command so that it runs in a network namespace; often none.
    pub prefix: Vec<String>,
    /// The network namespace in which the command runs; that of this process if none.
    pub network: Option<PathBuf>,
    /// The address at which the server shall listen: one, or any of a namespace.
    pub listen: Ipv4Addr,
    /// An address at which the server can be reached.
    pub address: Ipv4Addr,
    /// The network namespace from which the server can be reached; that of this process if none.
    pub ask_from: Option<PathBuf>,
    /// The control groups around the server.
    pub enclosing: Enclosing,
}

impl Default for Place {
    /// The place of this process: loopback, and no control groups.
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
    /// The CPUs to bind the copy to.
    pub cpus: Vec<usize>,
    /// The number of workers that the copy would have if each had a CPU.
    pub workers: usize,
    /// The place where the copy runs.
    pub place: Place,
}

/// Clients of one subnet, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPlace {
    /// The CPUs to bind them to.
    pub cpus: Vec<usize>,
    /// The words to put before the command.
    pub prefix: Vec<String>,
    /// The copy of the server that they send requests to, as an index into [`Entered::servers`].
    pub server: usize,
    /// The address to which they connect.
    pub address: Ipv4Addr,
    /// The addresses that they connect from; if empty, the kernel chooses.
    pub sources: Vec<Ipv4Addr>,
}

/// Conditions that hold until this value is dropped.
#[derive(Debug)]
pub struct Entered {
    /// The places of the servers, one for each copy.
    pub servers: Vec<ServerPlace>,
    /// The places of the clients, one for each subnet, or one.
    pub clients: Vec<ClientPlace>,
    /// The CPUs of all servers and of all clients.
    pub cpus: CpuSets,
    /// The control groups around the servers.
    pub enclosure: Enclosure,
    /// The plan of memory, if memory is a condition.
    pub plan: Option<Plan>,
    /// The disk of the files, if there is one.
    pub device: Option<Device>,
    /// The names of the kernel's settings that are changed.
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
        let testbed: Self = toml_reader::read(text)?;
        testbed.check()?;
        Ok(testbed)
    }

    /// Checks that the testbed makes sense on any machine.
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

    /// Describes the testbed in a few words: all that its table sets but the name.
    pub fn about(&self) -> String {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return String::new();
        };
        let mut words = Vec::new();
        list_settings("", &serde_json::Value::Object(fields), &mut words);
        words.join(", ")
    }

    /// Establishes the conditions on this machine, for these files.
    ///
    /// # Errors
    /// The condition that this machine cannot meet, in a line, and what would fix that. Nothing is
    /// left behind.
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
        let device = files.first().map(Device::find);
        self.throttle_disk(&mut enclosure, device.as_ref())?;
        let subnets = self.network.as_ref().map(Subnets::create).transpose()?;
        let settings = self.kernel.apply(subnets.as_ref())?;
        let servers = self.servers(&cpus, &enclosure, subnets.as_ref());
        let clients = clients(&cpus, &servers, subnets.as_ref());
        let device = device.and_then(Result::ok);
        let kernel = self.kernel.names();
        Ok(Entered { servers, clients, cpus, enclosure, plan, device, kernel, subnets, settings })
    }

    /// The number of CPUs that the servers get together on this machine; the number wanted, if the
    /// machine has fewer.
    pub fn server_cpus(&self, machine: &Topology) -> usize {
        let chosen = machine.choose(&self.choice()).map(|sets| sets.server.len());
        chosen.unwrap_or(self.cpus.unwrap_or(1))
    }

    /// Checks that this machine has the CPUs for the testbed.
    ///
    /// # Errors
    /// What the machine lacks, in a line.
    pub fn fits(&self, machine: &Topology) -> Result<(), String> {
        machine.choose(&self.choice()).map(drop)
    }

    /// The number of places for clients, which share a load: one for each subnet, or one for each
    /// copy of the server.
    pub fn generators(&self) -> usize {
        self.network.map_or(self.replicas.unwrap_or(1), |network| network.subnets)
    }

    /// Whether clients are in a network of their own, or several generators share the load.
    pub fn divides_clients(&self) -> bool {
        self.network.is_some() || self.generators() > 1
    }

    fn choice(&self) -> Choice {
        let replicas = self.replicas.unwrap_or(1);
        // Each copy needs at least one CPU.
        let least = matches!(self.policy, Policy::Close | Policy::Spread).then_some(replicas);
        Choice {
            cpus: self.cpus.or(least),
            policy: self.policy,
            threads: self.threads,
            client_cpus: self.client_cpus,
        }
    }

    /// Makes the group count what the disk does, where it can, and bounds the disk if that is a
    /// condition.
    fn throttle_disk(
        &self,
        enclosure: &mut Enclosure,
        device: Option<&Result<Device, String>>,
    ) -> Result<(), String> {
        let known = device.and_then(|device| device.as_ref().ok());
        let folder = enclosure.count_disk(known).map(PathBuf::from);
        let Some(throttle) = &self.disk else { return Ok(()) };
        let device = device.ok_or("disk: it is not known which, for no file is requested")?;
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
                Affinity::None => cpus.union(),
                Affinity::Set | Affinity::Workers => set.to_vec(),
            };
            ServerPlace { cpus: bound, workers: set.len(), place }
        };
        sets.map(server).collect()
    }
}

/// The places of the clients: subnets are dealt to the copies in turn, and the clients' CPUs to the
/// subnets.
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

/// The CPUs of number `index` of `count` sharers; if there are too few CPUs, some sharers have the
/// same.
fn dealt(cpus: &[usize], index: usize, count: usize) -> Vec<usize> {
    if cpus.len() < count {
        return vec![cpus[index % cpus.len()]];
    }
    cpus.iter().skip(index).step_by(count).copied().collect()
}

impl Entered {
    /// Prepares the page cache for a run, if memory is a condition. To be called before each run,
    /// while no server runs that could have mapped the files.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn prepare_page_cache(&self, files: &Accessed) -> Result<Option<Settled>, String> {
        self.plan.map(|plan| plan.prepare_page_cache(files, &self.enclosure)).transpose()
    }

    /// The CPUs on which servers may run.
    pub fn server_cpus(&self) -> Vec<usize> {
        let mut cpus: Vec<usize> =
            self.servers.iter().flat_map(|server| server.cpus.iter().copied()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Undoes everything, as dropping the value does, and reports what could not be undone.
    ///
    /// # Errors
    /// The settings of the kernel that are not as they were, in a line.
    pub fn leave(mut self) -> Result<(), String> {
        let left = self.settings.iter_mut().filter_map(|settings| settings.put_back().err());
        let left: Vec<String> = left.collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }

    /// The network namespace of the servers; that of this process if none.
    pub fn server_namespace(&self) -> Option<PathBuf> {
        self.subnets.as_ref().map(Subnets::server_namespace)
    }
}

/// Appends to `words` each setting below `value`, with its path.
fn list_settings(path: &str, value: &serde_json::Value, words: &mut Vec<String>) {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => {}
        serde_json::Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "name") {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                list_settings(&path, value, words);
            }
        }
        serde_json::Value::String(text) => words.push(format!("{path} {text}")),
        other => words.push(format!("{path} {other}")),
    }
}

#[cfg(test)]
mod tests;
