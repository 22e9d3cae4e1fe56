//! A network between clients and servers on one machine: namespaces, joined by pairs of virtual
//! interfaces, each pair a subnet with a rate of its own.
//!
//! The servers share one namespace and have an address in each subnet; the clients of each subnet
//! have a namespace, as if they were hosts. The network does not show in the machine's own
//! namespace, and no packet leaves the machine. It is made with `ip` and `tc`; processes are put
//! inside with `nsenter`, which leaves their view of the file systems alone (`ip netns exec` does
//! not: it hides control groups).

use super::names;
use crate::group::as_root;
use crate::process::{self, CommandError};
use os::guard::Guard;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where `ip netns` keeps the names of namespaces.
const NAMESPACES: &str = "/run/netns";

/// Subnets are 10.77.N.0/24, in namespaces that nothing else is in.
const FIRST: [u8; 2] = [10, 77];
const SUBNETS_MAX: usize = 250;
const SOURCES_MAX: usize = 250;

/// The network of a testbed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The number of subnets of clients.
    pub subnets: usize,
    /// The number of addresses that the clients of a subnet have, each with some 28,000 ports; 1 if
    /// not given.
    #[serde(default)]
    pub sources: Option<usize>,
    /// The link of each subnet; as fast as the machine if not given.
    #[serde(flatten)]
    pub link: Link,
}

/// A link with equal properties in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Bits per second.
    #[serde(default)]
    pub rate_bits_per_s: Option<u64>,
    /// Delay of each packet, one way.
    #[serde(default)]
    pub delay_us: Option<u64>,
}

/// Namespaces and links that are removed, with all processes in them, when this value is dropped,
/// or when this process is killed.
#[derive(Debug)]
pub struct Subnets {
    server: String,
    all: Vec<Subnet>,
    _guard: Guard,
}

/// The clients' side of one subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    name: String,
    /// The servers' address in the subnet.
    pub server: Ipv4Addr,
    /// The clients' addresses.
    pub clients: Vec<Ipv4Addr>,
}

impl Network {
    /// Checks that the numbers make sense.
    ///
    /// # Errors
    /// What is wrong, in a line.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=SUBNETS_MAX).contains(&self.subnets) {
            return Err(format!("network: from 1 to {SUBNETS_MAX} subnets"));
        }
        if !(1..=SOURCES_MAX).contains(&self.sources.unwrap_or(1)) {
            return Err(format!("network: from 1 to {SOURCES_MAX} sources"));
        }
        match self.link.rate_bits_per_s {
            Some(rate) if rate < 8000 => {
                Err("network: rate_bits_per_s is in bits, 8000 at least".into())
            }
            _ => Ok(()),
        }
    }

    fn subnet(&self, index: usize, name: &str) -> Subnet {
        let number = u8::try_from(index + 1).expect("there are at most SUBNETS_MAX");
        let address = |host: u8| Ipv4Addr::new(FIRST[0], FIRST[1], number, host);
        let sources = u8::try_from(self.sources.unwrap_or(1)).expect("at most SOURCES_MAX");
        let clients = (0..sources).map(|source| address(2 + source)).collect();
        Subnet { name: format!("{name}-client-{number}"), server: address(1), clients }
    }
}

impl Subnet {
    /// The file that stands for the clients' namespace.
    pub fn namespace(&self) -> PathBuf {
        Path::new(NAMESPACES).join(&self.name)
    }

    /// The words to put before a command so that it runs in the clients' namespace.
    pub fn prefix(&self) -> Vec<String> {
        prefix(&self.name)
    }
}

impl Subnets {
    /// Makes the namespaces and links. First it removes the leftovers of processes that were killed
    /// together with their guards.
    ///
    /// # Errors
    /// When `ip` or `tc`, the right to make namespaces, or a queueing discipline of the kernel is
    /// missing. Nothing is left behind.
    pub fn create(network: &Network) -> Result<Self, String> {
        remove_leftovers();
        let name = names::unique();
        let all: Vec<Subnet> = (0..network.subnets).map(|i| network.subnet(i, &name)).collect();
        let server = format!("{name}-server");
        let guard = guard(&server, &all).map_err(|why| format!("sh: {why}"))?;
        // From here on an early return removes everything.
        let subnets = Self { server, all, _guard: guard };
        subnets.build(network)?;
        Ok(subnets)
    }

    /// The subnets.
    pub fn all(&self) -> &[Subnet] {
        &self.all
    }

    /// The file that stands for the servers' namespace.
    pub fn server_namespace(&self) -> PathBuf {
        Path::new(NAMESPACES).join(&self.server)
    }

    /// The words to put before a command so that it runs in the servers' namespace.
    pub fn server_prefix(&self) -> Vec<String> {
        prefix(&self.server)
    }

    /// The files that stand for all namespaces, the servers' first.
    pub(super) fn namespaces(&self) -> Vec<PathBuf> {
        let clients = self.all.iter().map(Subnet::namespace);
        [self.server_namespace()].into_iter().chain(clients).collect()
    }

    fn build(&self, network: &Network) -> Result<(), String> {
        let server = self.server.as_str();
        ip(&["netns", "add", server])?;
        ip(&["-n", server, "link", "set", "lo", "up"])?;
        for (index, subnet) in self.all.iter().enumerate() {
            let client = subnet.name.as_str();
            let (here, there) = (format!("server{index}"), "client".to_owned());
            ip(&["netns", "add", client])?;
            ip(&["-n", client, "link", "set", "lo", "up"])?;
            let pair = ["type", "veth", "peer", "name", &there, "netns", client];
            ip(&[&["-n", server, "link", "add", "name", &here][..], &pair].concat())?;
            for address in &subnet.clients {
                ip(&["-n", client, "address", "add", &format!("{address}/24"), "dev", &there])?;
            }
            ip(&["-n", server, "address", "add", &format!("{}/24", subnet.server), "dev", &here])?;
            for (namespace, interface) in [(server, &here), (client, &there)] {
                ip(&["-n", namespace, "link", "set", interface, "up"])?;
                network.link.apply(namespace, interface)?;
            }
        }
        Ok(())
    }
}

impl Drop for Subnets {
    fn drop(&mut self) {
        remove(&self.server);
        self.all.iter().for_each(|subnet| remove(&subnet.name));
    }
}

impl Link {
    fn apply(&self, namespace: &str, interface: &str) -> Result<(), String> {
        let mut disciplines = self.disciplines().into_iter();
        disciplines.try_for_each(|discipline| discipline.install(namespace, interface))
    }

    /// The queueing disciplines of the link. Packets are delayed first and wait for the rate then:
    /// if the delay were below the rate, its queue would replace the one that drops packets that
    /// wait too long.
    fn disciplines(&self) -> Vec<Discipline> {
        let mut all = Vec::new();
        if let Some(delay_us) = self.delay_us {
            all.push(Discipline {
                place: &["root", "handle", "1:"],
                kind: "netem",
                option: "CONFIG_NET_SCH_NETEM",
                setting: ["delay", &format!("{delay_us}us"), "limit", "100000"]
                    .map(str::to_owned)
                    .to_vec(),
            });
        }
        if let Some(rate) = self.rate_bits_per_s {
            // At least one large packet, and the bytes sent within a tick of the slowest timer.
            let burst_bytes = (rate / 8 / 250).max(128 << 10).to_string();
            let rate = format!("{rate}bit");
            let setting = ["rate", &rate, "burst", &burst_bytes, "latency", "20ms"];
            all.push(Discipline {
                place: if all.is_empty() { &["root"] } else { &["parent", "1:1"] },
                kind: "tbf",
                option: "CONFIG_NET_SCH_TBF",
                setting: setting.map(str::to_owned).to_vec(),
            });
        }
        all
    }
}

/// A queueing discipline, in the words of tc(8).
#[derive(Debug)]
struct Discipline {
    place: &'static [&'static str],
    kind: &'static str,
    /// The build option of kernels that have the discipline.
    option: &'static str,
    setting: Vec<String>,
}

impl Discipline {
    fn arguments(&self) -> Vec<String> {
        let place = self.place.iter().chain([&self.kind]).map(|word| (*word).to_owned());
        place.chain(self.setting.iter().cloned()).collect()
    }

    fn install(&self, namespace: &str, interface: &str) -> Result<(), String> {
        let add = ["tc", "-n", namespace, "qdisc", "add", "dev", interface].map(str::to_owned);
        let command = [&add[..], &self.arguments()].concat();
        process::run(&command, None).map(drop).map_err(|failure| match failure {
            // These interfaces refuse no discipline that the kernel has, so a failure means that it
            // has none; tc has one exit status for all failures.
            CommandError::Failed(..) => {
                format!(
                    "{} ({} takes a kernel with {})",
                    network_error(&failure),
                    self.kind,
                    self.option
                )
            }
            _ => network_error(&failure),
        })
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let words = ["ip"].iter().chain(arguments);
    let command: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    process::run(&command, None).map(drop).map_err(|failure| network_error(&failure))
}

fn network_error(failure: &CommandError) -> String {
    explain_failure(failure, system::namespaces::may_make_networks())
}

/// Explains why a command failed, given whether this process may make network namespaces.
fn explain_failure(failure: &CommandError, may_make: bool) -> String {
    let why = failure.to_string().trim().replace('\n', " / ");
    match failure {
        CommandError::NotStarted(_, error) if error.kind() == io::ErrorKind::NotFound => {
            format!("network: {why} (apt-get install iproute2)")
        }
        _ if !may_make => format!("network: namespaces cannot be made here{}: {why}", as_root()),
        _ => format!("network: {why}"),
    }
}

fn prefix(namespace: &str) -> Vec<String> {
    vec!["nsenter".to_owned(), format!("--net={NAMESPACES}/{namespace}"), "--".to_owned()]
}

/// Kills the processes in a namespace and removes it; its interfaces go with it.
fn remove(name: &str) {
    let command =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let inside = process::run(&command(&["ip", "netns", "pids", name]), None);
    let inside = inside.unwrap_or_default();
    let inside: Vec<u32> = inside.lines().filter_map(|line| line.trim().parse().ok()).collect();
    os::signals::send("KILL", &inside);
    // This fails for a namespace that was not made yet.
    let _ = process::run(&command(&["ip", "netns", "delete", name]), None);
}

fn remove_leftovers() {
    for entry in fs::read_dir(NAMESPACES).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|name| names::is_left_over(name)) {
            remove(name);
        }
    }
}

fn guard(server: &str, all: &[Subnet]) -> io::Result<Guard> {
    const REMOVE: &str = r#"
        for name; do
            kill -s KILL $(ip netns pids "$name")
            ip netns delete "$name"
        done"#;
    let clients = all.iter().map(|subnet| subnet.name.as_str());
    Guard::new(REMOVE, [server].into_iter().chain(clients))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{self, Connection};
    use crate::needs;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    fn network(subnets: usize, link: Link) -> Network {
        Network { subnets, sources: Some(2), link }
    }

    fn output_of(words: &[&str]) -> String {
        let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        process::run(&command, None).expect("it succeeds")
    }

    /// Packets that wait too long for the rate are dropped, with a delay as without one.
    #[test]
    fn packets_are_delayed_before_they_wait_for_the_rate() {
        let of = |rate_bits_per_s, delay_us| {
            let all = Link { rate_bits_per_s, delay_us }.disciplines();
            all.iter().map(|discipline| discipline.arguments().join(" ")).collect::<Vec<_>>()
        };
        let (rate, delay) = (Some(100_000_000), Some(10_000));
        let shape = "tbf rate 100000000bit burst 131072 latency 20ms";
        assert_eq!(of(rate, None), [format!("root {shape}")]);
        let delayed = "root handle 1: netem delay 10000us limit 100000";
        assert_eq!(of(None, delay), [delayed]);
        assert_eq!(of(rate, delay), [delayed.to_owned(), format!("parent 1:1 {shape}")]);
        assert_eq!(of(None, None), [] as [String; 0]);
    }

    /// Each subnet's clients reach the server at its address there, and at no other.
    #[test]
    fn an_answer_comes_through_each_subnet() {
        if !needs::networks_can_be_made() {
            return;
        }
        let network = network(2, Link { rate_bits_per_s: Some(100_000_000), delay_us: None });
        let subnets = Subnets::create(&network).expect("root may, and iproute2 is there");
        let any = (Ipv4Addr::UNSPECIFIED, 0);
        let listener =
            system::namespaces::in_network(&subnets.server_namespace(), || TcpListener::bind(any));
        let listener = listener.expect("root may enter").expect("all ports are free");
        let port = listener.local_addr().expect("it listens").port();
        let server = thread::spawn(move || -> Vec<SocketAddr> {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
            let serve = |_| {
                let (mut stream, from) = listener.accept().expect("a client connects");
                let _ = stream.read(&mut [0; 512]).expect("it asks for something");
                stream.write_all(answer).expect("it waits for an answer");
                from
            };
            (0..2).map(serve).collect()
        });
        for subnet in subnets.all() {
            let address = SocketAddr::from((subnet.server, port));
            let got = system::namespaces::in_network(&subnet.namespace(), || {
                http::get(&mut http::connect(address)?, "/", Connection::Close)
            });
            assert_eq!(got.expect("root may enter").expect("it answers").body, b"hi");
        }
        let from = server.join().expect("it does not panic");
        let from: Vec<String> = from.iter().map(|from| from.ip().to_string()).collect();
        assert_eq!(from, ["10.77.1.2", "10.77.2.2"]);
        let shape =
            output_of(&["tc", "-n", &subnets.all()[0].name, "qdisc", "show", "dev", "client"]);
        assert!(shape.contains("tbf") && shape.contains("rate 100Mbit"), "{shape}");
    }

    #[test]
    fn commands_run_inside_and_end_with_it() {
        if !needs::networks_can_be_made() {
            return;
        }
        let subnets = Subnets::create(&network(1, Link::default())).expect("root may");
        let inside = [&subnets.all()[0].prefix()[..], &["ip".into(), "address".into()]].concat();
        let addresses = process::run(&inside, None).expect("nsenter is there");
        assert!(addresses.contains("10.77.1.2/24") && addresses.contains("10.77.1.3/24"));
        let sleep = [&subnets.server_prefix()[..], &["sleep".into(), "600".into()]].concat();
        let mut child = std::process::Command::new(&sleep[0])
            .args(&sleep[1..])
            .spawn()
            .expect("nsenter is there");
        let (here, pid) = (subnets.server_namespace(), child.id().to_string());
        while !output_of(&["ip", "netns", "pids", &subnets.server]).lines().any(|line| line == pid)
        {
            thread::sleep(std::time::Duration::from_millis(2));
        }
        drop(subnets);
        assert!(!child.wait().expect("it is our child").success());
        assert!(!here.exists());
    }

    /// Either the kernel delays packets, or the message gives a reason that can be acted upon.
    #[test]
    fn what_the_kernel_cannot_do_is_named() {
        if !needs::networks_can_be_made() {
            return;
        }
        let link = Link { rate_bits_per_s: Some(1_000_000), delay_us: Some(1000) };
        match Subnets::create(&network(1, link)) {
            Ok(subnets) => {
                let client = &subnets.all()[0].name;
                assert!(output_of(&["tc", "-n", client, "qdisc", "show"]).contains("netem"));
            }
            Err(why) => assert!(why.contains("CONFIG_NET_SCH_NETEM"), "{why}"),
        }
    }

    #[test]
    fn namespaces_of_the_dead_are_removed() {
        if !needs::networks_can_be_made() {
            return;
        }
        let name = &format!("{}-server", names::without_owner());
        output_of(&["ip", "netns", "add", name]);
        drop(Subnets::create(&network(1, Link::default())).expect("root may"));
        assert!(!Path::new(NAMESPACES).join(name).exists());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let why = |network: Network| network.check().expect_err("it makes no sense");
        assert!(why(network(0, Link::default())).contains("from 1 to 250 subnets"));
        let slow = Link { rate_bits_per_s: Some(10), delay_us: None };
        assert!(why(network(1, slow)).contains("in bits"));
        assert_eq!(network(3, Link::default()).check(), Ok(()));
        let absent = CommandError::NotStarted("ip".into(), io::ErrorKind::NotFound.into());
        assert!(explain_failure(&absent, false).contains("iproute2"));
        let failed = CommandError::Failed("ip".into(), Some(2), "Operation not permitted".into());
        assert!(explain_failure(&failed, false).contains("namespaces cannot be made here"));
        assert_eq!(explain_failure(&failed, true), "network: ip failed: Operation not permitted");
    }
}
