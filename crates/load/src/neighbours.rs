//! What others did on this machine's CPUs while a run was measured: processor time that neither the
//! generator nor the server used. Without it waiting for a CPU says little, because a server on
//! this machine has its share of the CPUs, too.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use crate::client::Window;

/// In such steps the kernel says what a CPU was busy with: USER_HZ is 100 on every architecture.
const TICK_US: u64 = 10_000;

/// Looks at the machine when the window begins and when it ends. Who serves is found out
/// afterwards: looking through all that is open takes its time.
pub(crate) struct Neighbours {
    addresses: Vec<SocketAddr>,
    cpus: Vec<usize>,
    window: Window,
    begin: Option<Look>,
    end: Option<Look>,
}

/// Who serves.
#[derive(Debug, PartialEq, Eq)]
enum Server {
    /// Nobody on this machine.
    Elsewhere,
    /// These processes of it.
    Processes(Vec<u32>),
    /// Somebody on this machine who is not ours to look at.
    Hidden,
}

/// Processor time so far, in microseconds.
#[derive(Clone, Debug)]
struct Look {
    all_us: u64,
    by_process: HashMap<u32, u64>,
}

impl Neighbours {
    /// Of a run that asks at these addresses.
    pub(crate) fn of(addresses: Vec<SocketAddr>, window: Window) -> Self {
        Self { addresses, cpus: os::affinity::allowed_cpus(), window, begin: None, end: None }
    }

    /// Looks if it is time to.
    pub(crate) fn look(&mut self, now_us: u64) {
        if self.begin.is_none() && now_us >= self.window.from_us {
            self.begin = self.read();
        }
        if self.end.is_none() && now_us >= self.window.to_us {
            self.end = self.read();
        }
    }

    /// Processor time that others used between the looks, of which the second may be now; none
    /// where that cannot be known.
    pub(crate) fn used_us(&self) -> Option<u64> {
        let (begin, end) = (self.begin.clone()?, self.end.clone().or_else(|| self.read())?);
        let mut known = match server_at(&self.addresses) {
            Server::Elsewhere => Vec::new(),
            Server::Processes(pids) => pids,
            Server::Hidden => return None,
        };
        known.push(std::process::id());
        known.sort_unstable();
        known.dedup();
        let used_us = |look: &Look, pid| look.by_process.get(pid).copied().unwrap_or(0);
        let of = |pid| used_us(&end, pid).saturating_sub(used_us(&begin, pid));
        let known_us: u64 = known.iter().map(of).sum();
        Some(end.all_us.saturating_sub(begin.all_us).saturating_sub(known_us))
    }

    fn read(&self) -> Option<Look> {
        let all_us = busy_us(&fs::read_to_string("/proc/stat").ok()?, &self.cpus);
        let used = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, used_us(&stat)?))
        };
        Some(Look { all_us, by_process: processes().filter_map(used).collect() })
    }
}

/// How long these CPUs were not idle, in the words of proc_stat(5): user, nice, system, idle,
/// iowait, irq, softirq and steal.
fn busy_us(stat: &str, cpus: &[usize]) -> u64 {
    let of_line = |line: &str| {
        let (name, numbers) = line.split_once(' ')?;
        let cpu: usize = name.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = numbers.split_whitespace().flat_map(str::parse).collect();
        let idle = ticks.iter().skip(3).take(2).sum::<u64>();
        cpus.contains(&cpu).then(|| (ticks.iter().take(8).sum::<u64>() - idle) * TICK_US)
    };
    stat.lines().filter_map(of_line).sum()
}

/// What a process used so far, in user and in system mode: fields 14 and 15 of proc_pid_stat(5), of
/// which the second is a name that may have blanks in it.
fn used_us(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks =
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Some(ticks.sum::<u64>() * TICK_US)
}

/// Who listens at these addresses.
fn server_at(addresses: &[SocketAddr]) -> Server {
    // A socket can be bound to an address of this machine only.
    let here = addresses.iter().filter(|address| UdpSocket::bind((address.ip(), 0)).is_ok());
    let ports: HashSet<u16> = here.map(SocketAddr::port).collect();
    if ports.is_empty() {
        return Server::Elsewhere;
    }
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.iter().filter_map(|path| fs::read_to_string(path).ok());
    let sockets: HashSet<String> =
        tables.flat_map(|table| listening(&table, &ports)).map(|inode| socket(&inode)).collect();
    let pids: Vec<u32> = processes().filter(|pid| has_one_of(*pid, &sockets)).collect();
    if pids.is_empty() { Server::Hidden } else { Server::Processes(pids) }
}

/// The inodes of the sockets in a table (proc_net(5)) that listen at one of these ports.
fn listening(table: &str, ports: &HashSet<u16>) -> Vec<String> {
    const LISTEN: &str = "0A";
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let listens = *fields.get(3)? == LISTEN && ports.contains(&port);
        listens.then(|| fields.get(9).map(ToString::to_string))?
    };
    table.lines().skip(1).filter_map(of_line).collect()
}

fn socket(inode: &str) -> String {
    format!("socket:[{inode}]")
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process, as far as we may look, has one of these sockets open.
fn has_one_of(pid: u32, sockets: &HashSet<String>) -> bool {
    let open = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let mut links = open.into_iter().flatten().flatten().filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str().map(str::to_owned)
    });
    links.any(|link| sockets.contains(&link))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn idle_and_waiting_for_disks_are_not_busy() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 0 0\n\
                    cpu1 7 0 0 9 9 0 0 0 0 0\n\
                    cpu12 1 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(busy_us(stat, &[0]), 21 * TICK_US);
        assert_eq!(busy_us(stat, &[1, 12]), 8 * TICK_US);
        assert_eq!(busy_us("", &[0]), 0);
    }

    #[test]
    fn who_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(server_at(&[address]), Server::Processes(vec![std::process::id()]));
        drop(listener);
        assert_eq!(server_at(&[address]), Server::Hidden);
        // For documentation only (RFC 5737): nobody has it.
        assert_eq!(server_at(&["192.0.2.1:80".parse().unwrap()]), Server::Elsewhere);
    }

    #[test]
    fn a_process_says_what_it_used() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 5";
        assert_eq!(used_us(stat), Some(200 * TICK_US));
        assert_eq!(used_us(""), None);
    }

    /// Others may do what they like: only that it is known, and that we are not among them.
    #[test]
    fn what_we_use_is_not_others() {
        let window = Window { from_us: 0, to_us: 1 };
        let mut neighbours = Neighbours::of(vec!["192.0.2.1:80".parse().unwrap()], window);
        neighbours.cpus = Vec::new();
        neighbours.look(0);
        while os::clock::cpu_time_thread().as_millis() < 50 {}
        neighbours.look(1);
        assert_eq!(neighbours.used_us(), Some(0));
        // Nobody listens there any more, who could be known.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        neighbours.addresses = vec![address];
        assert_eq!(neighbours.used_us(), None);
    }
}
