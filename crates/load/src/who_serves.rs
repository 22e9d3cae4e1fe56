//! Which processes of this machine serve at an address, as far as we may look: here, in another
//! network namespace, or nobody.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use os::{accounting, interfaces};

/// Who serves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Nobody on this machine.
    Elsewhere,
    /// These processes of it.
    Processes(HashSet<u32>),
    /// Somebody on this machine who is not ours to look at, or nobody knows where.
    Unknown,
}

/// Who listens at these addresses. What a server has others do for it, as a proxy does, is theirs.
pub(crate) fn who_serves(addresses: &[SocketAddr]) -> Server {
    let sockets: Vec<HashSet<PathBuf>> = addresses.iter().filter_map(sockets_at).collect();
    if sockets.is_empty() {
        return Server::Elsewhere;
    }
    let all: HashSet<PathBuf> = sockets.iter().flatten().cloned().collect();
    let pids = accounting::processes().map(|process| process.pid);
    let each = pids.map(|pid| (pid, open_of(pid, &all))).filter(|(_, open)| !open.is_empty());
    let holders: HashMap<u32, HashSet<PathBuf>> = each.collect();
    let is_known = |at: &HashSet<PathBuf>| holders.values().any(|open| !open.is_disjoint(at));
    if sockets.iter().all(is_known) {
        Server::Processes(holders.into_keys().collect())
    } else {
        Server::Unknown
    }
}

/// The sockets that listen at an address, as they are named among what a process has open; none
/// if it is another machine's.
fn sockets_at(address: &SocketAddr) -> Option<HashSet<PathBuf>> {
    let tables = match way_to(address.ip()) {
        Way::Device => return None,
        Way::Loopback => vec![PathBuf::from("/proc/self/net")],
        Way::Software => namespaces_with(address.ip()),
    };
    let inodes = tables.iter().flat_map(|net| listening_in(net, address.port()));
    Some(inodes.map(|inode| format!("socket:[{inode}]").into()).collect())
}

/// How this machine reaches an address.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// It is one of its own.
    Loopback,
    /// Over a device, and so to another machine.
    Device,
    /// Over an interface that the kernel has made up, behind which may be a container of this
    /// machine; or not at all.
    Software,
}

fn way_to(ip: IpAddr) -> Way {
    // A socket can be bound to an address of this machine only.
    if UdpSocket::bind((ip, 0)).is_ok() {
        return Way::Loopback;
    }
    let any: IpAddr = if ip.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    // Connecting sends nothing: the kernel chooses the interface, and by it our address.
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

/// The tables of the network namespaces with this address that one of the processes that we may
/// look at is in.
fn namespaces_with(ip: IpAddr) -> Vec<PathBuf> {
    let of_process = |process: accounting::Process| {
        let folder = Path::new("/proc").join(process.pid.to_string());
        let namespace = fs::read_link(folder.join("ns/net")).ok()?;
        Some((namespace, folder.join("net")))
    };
    let each: HashMap<PathBuf, PathBuf> = accounting::processes().filter_map(of_process).collect();
    each.into_values().filter(|net| has_address(net, ip)).collect()
}

/// Whether an address is of the namespace with these tables.
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

/// Below each address of the tree it says what it is good for.
fn has_v4(tree: &str, ip: &str) -> bool {
    let lines: Vec<&str> = tree.lines().map(str::trim).collect();
    let is_it =
        |pair: &[&str]| pair[0].strip_prefix("|-- ") == Some(ip) && pair[1].ends_with("host LOCAL");
    lines.windows(2).any(is_it)
}

/// A line of these tables, about: whoever reads more at once has the kernel go through its
/// connections, which are many where load is made.
const LINE_BYTES: usize = 150;

/// The inodes of the sockets in a namespace's tables (proc_net(5)) that listen at a port.
fn listening_in(net: &Path, port: u16) -> HashSet<String> {
    let tables = ["tcp", "tcp6"].into_iter().flat_map(|name| File::open(net.join(name)));
    tables.flat_map(|table| listening(BufReader::with_capacity(LINE_BYTES, table), port)).collect()
}

/// Reads a table up to its first connection: sockets that listen come first.
fn listening(table: impl BufRead, port: u16) -> Vec<String> {
    let lines = table.lines().skip(1).map_while(Result::ok);
    let listeners = lines.map_while(|line| inode_and_port(&line));
    listeners.filter(|(_, theirs)| *theirs == port).map(|(inode, _)| inode).collect()
}

/// Of a line, if its socket listens.
fn inode_and_port(line: &str) -> Option<(String, u16)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTEN;
    listens.then_some((fields.get(9)?.to_string(), u16::from_str_radix(port, 16).ok()?))
}

/// Which of these sockets a process, as far as we may look, has open.
fn open_of(pid: u32, sockets: &HashSet<PathBuf>) -> HashSet<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| sockets.contains(target)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = HashSet::from([std::process::id()]);
        assert_eq!(who_serves(&[address]), Server::Processes(own));
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = other.local_addr().unwrap();
        drop(other);
        assert_eq!(who_serves(&[address, gone]), Server::Unknown);
        assert_eq!(who_serves(&[]), Server::Elsewhere);
    }

    #[test]
    fn own_addresses_are_here() {
        assert_eq!(way_to([127, 0, 0, 1].into()), Way::Loopback);
        // For documentation only (RFC 5737): nobody has it.
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

    #[test]
    fn listeners_are_known_by_their_ports() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid\n   \
             0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n   \
             1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 79 1\n   \
             2: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 78 1\n";
        let listening = |table: &str, port| listening(table.as_bytes(), port);
        assert_eq!(listening(table, 8080), ["77"]);
        assert_eq!(listening(table, 80), ["79"]);
        assert!(listening("", 80).is_empty());
        let connections = "sl\n   0: 0100007F:1F90 0100007F:9999 01 0:0 0:0 0 0 0 78 1\nnot a line";
        assert!(listening(connections, 8080).is_empty());
    }
}
