//! Diagnostics of a server that does not answer, for the reader of a failed test.

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;

use crate::sockets::lines_with;
use crate::thread_folders;

/// The sockets of a server and the other ends of them, as the kernel shows them (a socket whose
/// inode is 0 has not been accepted), and all threads of this process, in which most tests have
/// their servers: name, state, the CPU of each, and how long it has run and waited for one.
pub(crate) fn describe(stream: &TcpStream) -> String {
    let mut text = "a server does not answer: sockets, then the threads of the test\n".to_owned();
    for line in stream.peer_addr().map(|server| lines_with(server.port())).unwrap_or_default() {
        let _ = writeln!(text, "{line}");
    }
    for thread in thread_folders(std::process::id()) {
        let read = |name| fs::read_to_string(thread.join(name)).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::comes_true;

    /// A connection that neither side has closed, and a listener, by their states (proc_net(5)).
    const OPEN: [&str; 2] = [" 01 ", " 0A "];

    #[test]
    fn a_connection_that_is_not_accepted_is_shown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let port = format!(":{:04X} ", stream.peer_addr().unwrap().port());
        // The kernel may still list an earlier connection to another listener on this port, and
        // does not read its table at one moment.
        let is_open = |line: &str| OPEN.iter().any(|state| line.contains(state));
        let of_now = |line: &&str| line.contains(&port) && is_open(line);
        let shows_all = || describe(&stream).lines().filter(of_now).count() == 3;
        let text = describe(&stream);
        assert!(comes_true(shows_all), "a listener and two ends: {text}");
        assert!(text.contains(" on CPU "), "{text}");
    }
}
