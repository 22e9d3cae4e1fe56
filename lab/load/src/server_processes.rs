//! Finds the processes of this machine that serve at an address, as far as permissions allow: in
//! the generator's network namespace or in another.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use os::{accounting, interfaces, listening};

/// The processes behind the addresses of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// No process of this machine.
    Elsewhere,
    /// These processes of this machine.
    Processes(HashSet<u32>),
    /// A process of this machine that may not be inspected, or it is not known where the server
    /// runs.
    Unknown,
}

/// Finds the processes that listen at these addresses. Servers behind a proxy are not found: their
/// work does not count as the proxy's.
pub(crate) fn find_server(addresses: &[SocketAddr]) -> Server {
    let sockets: Vec<HashSet<PathBuf>> = addresses.iter().filter_map(sockets_at).collect();
    if sockets.is_empty() {
        return Server::Elsewhere;
    }
    let all: HashSet<PathBuf> = sockets.iter().flatten().cloned().collect();
    let pids = accounting::processes().map(|process| process.pid);
    let each = pids
        .map(|pid| (pid, listening::held_by_process(pid, &all)))
        .filter(|(_, open)| !open.is_empty());
    let holders: HashMap<u32, HashSet<PathBuf>> = each.collect();
    let is_known = |at: &HashSet<PathBuf>| holders.values().any(|open| !open.is_disjoint(at));
    if sockets.iter().all(is_known) {
        Server::Processes(holders.into_keys().collect())
    } else {
        Server::Unknown
    }
}

/// The sockets that listen at an address, by the names that they have among a process's open files;
/// none if the address is another machine's.
fn sockets_at(address: &SocketAddr) -> Option<HashSet<PathBuf>> {
    let tables = match way_to(address.ip()) {
        Way::Device => return None,
        Way::Loopback => vec![PathBuf::from("/proc/self/net")],
        Way::Software => namespaces_with(address.ip()),
    };
    Some(tables.iter().flat_map(|net| listening::sockets(net, address.port())).collect())
}

/// How this machine reaches an address.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// The address is one of the machine's own.
    Loopback,
    /// The packets leave over a hardware device, and so for another machine.
    Device,
    /// The packets leave over a virtual interface, behind which may be a container of this machine,
    /// or the address cannot be reached.
    Software,
}

fn way_to(ip: IpAddr) -> Way {
    // Only an address of this machine can be bound.
    if UdpSocket::bind((ip, 0)).is_ok() {
        return Way::Loopback;
    }
    let any: IpAddr = if ip.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    // Connecting a UDP socket sends nothing: the kernel chooses the interface, and with it the
    // source address.
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    let all = interfaces::addresses().unwrap_or_default();
    let name = source.ok().and_then(|source| {
        let mut with_it = all.into_iter().filter(|(_, address)| *address == source.ip());
        with_it.next().map(|(name, _)| name)
    });
    let device = name.and_then(|name| interfaces::device(Path::new("/sys/class/net"), &name));
    if device.is_some() { Way::Device } else { Way::Software }
}

/// The folders with the tables of each network namespace that has this address and contains a
/// process that may be inspected.
fn namespaces_with(ip: IpAddr) -> Vec<PathBuf> {
    let of_process = |process: accounting::Process| {
        let folder = Path::new("/proc").join(process.pid.to_string());
        let namespace = fs::read_link(folder.join("ns/net")).ok()?;
        Some((namespace, folder.join("net")))
    };
    let each: HashMap<PathBuf, PathBuf> = accounting::processes().filter_map(of_process).collect();
    each.into_values().filter(|net| has_address(net, ip)).collect()
}

/// Whether the namespace whose tables are in `net` has this address.
fn has_address(net: &Path, ip: IpAddr) -> bool {
    let read = |table: &str| fs::read_to_string(net.join(table)).unwrap_or_default();
    match ip {
        IpAddr::V4(ip) => has_v4(&read("fib_trie"), &ip.to_string()),
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", ip.to_bits());
            read("if_inet6").lines().any(|line| line.split(' ').next() == Some(&digits))
        }
    }
}

/// Whether `fib_trie` holds this address as a local one: its kind stands in the line below the
/// address.
fn has_v4(tree: &str, ip: &str) -> bool {
    let lines: Vec<&str> = tree.lines().map(str::trim).collect();
    let is_it =
        |pair: &[&str]| pair[0].strip_prefix("|-- ") == Some(ip) && pair[1].ends_with("host LOCAL");
    lines.windows(2).any(is_it)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listening_processes_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = HashSet::from([std::process::id()]);
        assert_eq!(find_server(&[address]), Server::Processes(own));
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = other.local_addr().unwrap();
        drop(other);
        assert_eq!(find_server(&[address, gone]), Server::Unknown);
        assert_eq!(find_server(&[]), Server::Elsewhere);
    }

    #[test]
    fn own_addresses_are_here() {
        assert_eq!(way_to([127, 0, 0, 1].into()), Way::Loopback);
        // An address reserved for documentation (RFC 5737), which no machine has.
        assert_ne!(way_to([203, 0, 113, 1].into()), Way::Loopback);
    }

    #[test]
    fn our_own_namespace_is_among_all() {
        assert!(!namespaces_with([127, 0, 0, 1].into()).is_empty());
        assert!(namespaces_with([203, 0, 113, 1].into()).is_empty());
    }

    #[test]
    fn only_local_addresses_of_a_namespace_are_its_own() {
        let tree = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 172.17.0.0\n        /16 link UNICAST\n  \
                    |-- 172.17.0.2\n    /32 host LOCAL\n  |-- 172.17.255.255\n    /32 link BROADCAST\n";
        let of = |ip| has_v4(tree, ip);
        assert!(of("172.17.0.2"));
        assert!(!of("172.17.0.0") && !of("172.17.0.20") && !of("172.17.255.255"));
    }
}
