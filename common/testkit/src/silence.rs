//! What there is to know about a server that does not answer, for whoever reads a failed test.

use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, TcpStream};

/// Both ends of a connection as the kernel shows them (a socket whose inode is 0 has not been
/// accepted), and all threads of this process, in which most tests have their servers: name, state,
/// the CPU of each, and how long it has run and waited for one.
pub(crate) fn describe(stream: &TcpStream) -> String {
    let mut text = "a server does not answer: sockets, then the threads of the test\n".to_owned();
    let ends = [stream.local_addr(), stream.peer_addr()].map(Result::ok);
    for line in fs::read_to_string("/proc/net/tcp").unwrap_or_default().lines() {
        if ends.iter().flatten().any(|end| names(line, *end)) {
            let _ = writeln!(text, "{}", line.trim());
        }
    }
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
        let field = |number: usize| fields.get(number - 2).copied().unwrap_or("?");
        let (name, waits_in) = (read("comm"), read("wchan"));
        let schedule = read("schedstat");
        let _ = writeln!(
            text,
            "{:<16} {} on CPU {:<3} in {waits_in:<24} ran and waited (ns) {}",
            name.trim(),
            field(3),
            field(39),
            schedule.trim()
        );
    }
    text
}

/// Whether a line of /proc/net/tcp has this address: four bytes in the order of the machine, and a
/// port.
fn names(line: &str, address: SocketAddr) -> bool {
    let SocketAddr::V4(address) = address else { return false };
    let number = u32::from_ne_bytes(address.ip().octets());
    line.contains(&format!("{number:08X}:{:04X} ", address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_that_nobody_accepts_is_shown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let text = describe(&stream);
        let both = |line: &&str| names(line, stream.peer_addr().unwrap());
        assert_eq!(text.lines().filter(both).count(), 3, "a listener and two ends: {text}");
        assert!(text.contains(" on CPU "), "{text}");
    }
}
