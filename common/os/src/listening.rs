//! Which sockets listen at a port, and which of them a process has open, as far as this process may
//! see (proc_net(5), proc_pid_fd(5)). Sockets are named as they are in `/proc/PID/fd`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The approximate length of a line of these tables. A larger read makes the kernel go through its
/// connections, of which there are many on a machine that makes load.
const LINE_BYTES: usize = 150;

/// The sockets that listen at a port of a network namespace: the one whose tables are in `net`,
/// such as `/proc/self/net`.
#[must_use]
pub fn sockets(net: &Path, port: u16) -> HashSet<PathBuf> {
    let tables = ["tcp", "tcp6"].into_iter().flat_map(|name| File::open(net.join(name)));
    let inodes = tables.flat_map(|table| inodes(BufReader::with_capacity(LINE_BYTES, table), port));
    inodes.map(|inode| format!("socket:[{inode}]").into()).collect()
}

/// The members of `sockets` that the process `pid` has open.
#[must_use]
pub fn held_by_process(pid: u32, sockets: &HashSet<PathBuf>) -> HashSet<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| sockets.contains(target)).collect()
}

/// Reads a table up to its first connection: sockets that listen come first.
fn inodes(table: impl BufRead, port: u16) -> Vec<String> {
    let lines = table.lines().skip(1).map_while(Result::ok);
    let listeners = lines.map_while(|line| inode_and_port(&line));
    listeners.filter(|(_, theirs)| *theirs == port).map(|(inode, _)| inode).collect()
}

/// The inode and the port of the socket in a line of the table, if the socket listens.
fn inode_and_port(line: &str) -> Option<(String, u16)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTEN;
    listens.then_some((fields.get(9)?.to_string(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_has_the_socket_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sockets = sockets(Path::new("/proc/self/net"), port);
        assert_eq!(sockets.len(), 1);
        assert_eq!(held_by_process(std::process::id(), &sockets), sockets);
        drop(listener);
        assert!(held_by_process(std::process::id(), &sockets).is_empty());
    }

    #[test]
    fn listeners_are_known_by_their_ports() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid\n   \
             0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n   \
             1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 79 1\n   \
             2: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 78 1\n";
        let inodes = |table: &str, port| inodes(table.as_bytes(), port);
        assert_eq!(inodes(table, 8080), ["77"]);
        assert_eq!(inodes(table, 80), ["79"]);
        assert!(inodes("", 80).is_empty());
        let connections = "sl\n   0: 0100007F:1F90 0100007F:9999 01 0:0 0:0 0 0 0 78 1\nnot a line";
        assert!(inodes(connections, 8080).is_empty());
    }
}
