//! The port at which a server is to listen: how a port is chosen that no other process takes
//! meanwhile, and whether another process has taken it.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ports below this one belong to well-known services.
const FIRST: u16 = 10_000;

/// The first and the last port that the kernel gives to sockets that are bound to none.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// A port at which no process listens in a network namespace; in ours if none is named. A server
/// may need seconds to bind it, and no other process must get it until then: so it is not one that
/// the kernel gives to connections, or to servers that name no port, and this process goes through
/// all other ports before it chooses this one again.
///
/// # Errors
/// The namespace cannot be entered, or no port is free.
pub(crate) fn free(listen: Ipv4Addr, network: Option<&Path>) -> Result<u16, String> {
    inside(network, || choose(listen)).map_err(|why| format!("no free port: {why}"))
}

/// Whether another process listens where a server, which has ended, should. The kernel is asked,
/// because every server words its error differently.
pub(crate) fn is_taken(port: u16, listen: Ipv4Addr, network: Option<&Path>) -> bool {
    let bound = inside(network, || TcpListener::bind((listen, port)));
    bound.is_err_and(|why| why.kind() == io::ErrorKind::AddrInUse)
}

/// Runs a closure in a network namespace; in ours if none is named.
pub(crate) fn inside<T: Send>(
    network: Option<&Path>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    match network {
        Some(network) => system::namespaces::in_network(network, work).flatten(),
        None => work(),
    }
}

fn choose(listen: Ipv4Addr) -> io::Result<u16> {
    // Other processes of the lab begin at another port.
    static NEXT: LazyLock<AtomicUsize> =
        LazyLock::new(|| AtomicUsize::new(RandomState::new().hash_one(FIRST) as usize));
    let ports = outside(&fs::read_to_string(EPHEMERAL).unwrap_or_default());
    let bind = |port| TcpListener::bind((listen, port));
    let in_turn = ports.iter().map(|_| ports[NEXT.fetch_add(1, Ordering::Relaxed) % ports.len()]);
    let found = in_turn.map(bind).find_map(Result::ok);
    // Where the kernel may give away every port, its choice is as good as any.
    let listener = found.map_or_else(|| bind(0), Ok)?;
    Ok(listener.local_addr()?.port())
}

/// The ports outside a range, which is written as the kernel writes it.
fn outside(range: &str) -> Vec<u16> {
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u16>().ok());
    let given = ends.next().zip(ends.next()).map(|(first, last)| first..=last);
    let is_given = |port: &u16| given.as_ref().is_some_and(|given| given.contains(port));
    (FIRST..=u16::MAX).filter(|port| !is_given(port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Affinity, Place};
    use crate::{
        Installed, Launch, RunningServer, ServerDescription, SourceTree, StartError, Values,
    };
    use std::fs::OpenOptions;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::path::PathBuf;
    use std::thread;

    /// The variables that make the next test do something: where it listens, how many times it is
    /// to find its port taken, and which process then takes the port.
    const PORT: &str = "ROPEWALK_LAB_PORT";
    const TIMES: &str = "ROPEWALK_LAB_PORT_TAKEN_TIMES";
    const TAKER: &str = "ROPEWALK_LAB_PORT_TAKER";

    /// Not a test by itself: the server of the tests below, started in the folder that it serves.
    #[test]
    fn server() {
        let Ok(port) = std::env::var(PORT) else { return };
        let times: u64 = std::env::var(TIMES).expect("it is set").parse().expect("a number");
        let taker = std::env::var(TAKER).expect("it is set, too");
        let root = std::env::var_os("ROOT").expect("all are set");
        let starts = Path::new(&root).join("starts");
        let mut file =
            OpenOptions::new().create(true).append(true).open(starts).expect("it is ours");
        file.write_all(b".").expect("the folder is writable");
        let starts = file.metadata().expect("it is there").len();
        if starts <= times {
            take_port(&taker, &port);
        }
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).expect("the port is free");
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    }

    fn launch(root: &Path, place: Place) -> Launch {
        Launch {
            source_tree: SourceTree::find(false),
            root: root.to_owned(),
            scratch: root.to_owned(),
            workers: 1,
            cpus: Vec::new(),
            memory_bytes_max: None,
            ready_path: "/".into(),
            workload: Values::new(),
            place,
            affinity: Affinity::default(),
        }
    }

    /// Sends a port to the thread that takes ports, and waits until it is taken.
    fn take_port(taker: &str, port: &str) {
        let mut taker = TcpStream::connect(taker).expect("it listens");
        writeln!(taker, "{port}").expect("it hears");
        taker.read_exact(&mut [0]).expect("it answers");
    }

    /// Listens at each port that it receives, until it receives 0.
    fn take_ports(requests: &TcpListener) {
        let mut taken = Vec::new();
        for mut stream in requests.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).expect("it says a port");
            match line.trim().parse::<u16>().expect("a port is a number") {
                0 => return stream.write_all(b".").expect("it waits"),
                port => taken.push(TcpListener::bind(("127.0.0.1", port)).expect("it is free")),
            }
            stream.write_all(b".").expect("it waits");
        }
    }

    /// What comes of a server whose port is taken this many times, and how often it was started.
    fn started(times: u32) -> (Result<(), StartError>, u64) {
        let requests = TcpListener::bind("127.0.0.1:0").expect("some are free");
        let taker = requests.local_addr().expect("it listens");
        let taking = thread::spawn(move || take_ports(&requests));
        let program = std::env::current_exe().expect("it runs");
        let text = format!(
            "name = 'late'\ndescription = 'd'\npackage = 'p'\n\
             settings = [{{ name = 'usual', about = 'a' }}]\nstop = {{ signal = 'KILL' }}\n\
             detect = {{ command = ['true'], version_after = '' }}\n[start]\n\
             command = ['{}', '--exact', 'port::tests::server', '--nocapture']\n\
             environment = {{ {PORT} = '{{port}}', {TIMES} = '{times}', {TAKER} = '{taker}', \
             ROOT = '{{root}}' }}\n",
            program.display()
        );
        let description = ServerDescription::parse(&text).expect("it is right");
        let installed = Installed { description, version: String::new() };
        let root = folder(&format!("late-{times}"));
        let launch = launch(&root, Place::default());
        let outcome = RunningServer::start(&installed, &installed.description.settings[0], &launch);
        let outcome = outcome.map(drop);
        let starts = fs::metadata(root.join("starts")).map_or(0, |file| file.len());
        take_port(&taker.to_string(), "0");
        taking.join().expect("it heard that this is the end");
        fs::remove_dir_all(root).expect("it is ours");
        (outcome, starts)
    }

    fn folder(name: &str) -> PathBuf {
        let name = format!("ropewalk-lab-port-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("it is writable");
        folder
    }

    /// A chosen port is none that the kernel gives away, and none is chosen twice in a row.
    #[test]
    fn ports_that_the_kernel_gives_away_are_left_alone() {
        assert_eq!(outside("10002\t65533\n"), [10_000, 10_001, 65_534, 65_535]);
        assert_eq!(outside("1024 65535"), [0_u16; 0]);
        let given = outside(&fs::read_to_string(EPHEMERAL).expect("Linux has it"));
        let chosen = [(); 3].map(|()| free(Ipv4Addr::LOCALHOST, None).expect("some are free"));
        assert!(given.is_empty() || chosen.iter().all(|port| given.contains(port)), "{chosen:?}");
        assert!(chosen[0] != chosen[1] && chosen[1] != chosen[2], "{chosen:?}");
    }

    /// The result does not depend on how a server words its error.
    #[test]
    fn of_every_server_it_is_known_that_its_port_is_taken() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some are free");
        let port = other.local_addr().expect("it listens").port();
        let root = folder("taken");
        // At this address the other listener does not answer in the server's place.
        let address = Ipv4Addr::new(127, 0, 0, 2);
        let place = Place { listen: Ipv4Addr::UNSPECIFIED, address, ..Place::default() };
        let launch = launch(&root, place);
        let descriptions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        let descriptions = ServerDescription::read_all(&descriptions).expect("all are right");
        // The floor gets its files from a list, which does not exist here.
        let there = descriptions.into_iter().filter(|description| description.name != "floor");
        for description in
            there.filter_map(|description| description.install(&launch.source_tree).ok())
        {
            let (name, setting) =
                (&description.description.name, &description.description.settings[0]);
            let why = RunningServer::start_at(port, &description, setting, &launch).map(drop);
            let why = why.expect_err("the port is taken");
            let is_it = matches!(why, StartError::DoesNotServe { port_is_taken: true, .. });
            assert!(is_it, "{name}: {why}");
        }
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn a_server_whose_port_is_taken_gets_another() {
        assert_eq!(started(0), (Ok(()), 1));
        assert_eq!(started(2), (Ok(()), 3));
    }

    #[test]
    fn a_server_that_finds_every_port_taken_is_given_up() {
        let (outcome, starts) = started(u32::MAX);
        let why = outcome.expect_err("it never listens");
        assert_eq!(starts, 3, "{why}");
        let text = why.to_string();
        let is_it = matches!(why, StartError::DoesNotServe { port_is_taken: true, .. });
        assert!(is_it && text.contains("(its port is taken; it ended)"), "{text}");
    }
}
