//! Others on the CPUs of a server that is a process of its own, while the generator has another
//! CPU.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::parent_id;
use std::time::Duration;

use load::outcome::Outcome;
use load::void::{Bounds, Void};
use testkit::{Victim, skip};

use crate::setup::{MS, closed, done, get, log, plan};

/// Makes a server of [`busy_server`], on the CPU that it says.
const SERVER: &str = "ROPEWALK_LOAD_BUSY_SERVER";

/// Makes busy loops of [`busy_loops`], on the CPU that it says.
const LOOPS: &str = "ROPEWALK_LOAD_BUSY_LOOPS";

/// How many there are.
const LOOPS_COUNT: usize = 3;

/// How many clients there are, and threads that serve them.
const CLIENTS: u64 = 4;

/// What a request costs the server, many times what it costs the generator: however little that
/// gets of its CPU, the server always has something to do.
const WORK: Duration = Duration::from_millis(5);

/// Binds this process to the CPU that `variable` says; not where it says none.
fn is_bound_by(variable: &str) -> bool {
    let Ok(cpu) = std::env::var(variable) else { return false };
    os::affinity::pin_thread(&[cpu.parse().unwrap()]).unwrap();
    true
}

/// Not a test by itself: serves on the CPU that it is told, and says where.
#[test]
fn busy_server() {
    if !is_bound_by(SERVER) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("{}", listener.local_addr().unwrap());
    // What threads have waited that have ended nobody knows: these do not.
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            // Whoever asks goes when he has what he wants, or is gone.
            scope.spawn(|| listener.incoming().flatten().for_each(|stream| drop(answer(&stream))));
        }
    });
}

/// Answers all requests of a connection, each with work.
fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while let Some(line) = lines.next().transpose()? {
        if line.is_empty() {
            let until = os::clock::cpu_time_thread() + WORK;
            while os::clock::cpu_time_thread() < until {}
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
    }
    Ok(())
}

/// Not a test by itself: keeps the CPU that it is told busy for as long as whoever started it is
/// there.
#[test]
fn busy_loops() {
    if !is_bound_by(LOOPS) {
        return;
    }
    let parent = parent_id();
    eprintln!("busy");
    std::thread::scope(|scope| {
        for _ in 0..LOOPS_COUNT {
            scope.spawn(|| while parent_id() == parent {});
        }
    });
}

/// Clients that never pause, on another CPU than the server's.
fn asked(server: SocketAddr, cpu: usize, window_ms: u64, bound: f64) -> Outcome {
    let mut plan = plan(server, log(&[&[get("/")]]));
    (plan.model, plan.sessions_max) = (closed(CLIENTS), None);
    (plan.warm_up_us, plan.duration_us) = (100 * MS, Some(window_ms * MS));
    (plan.cpus, plan.bounds) = (vec![cpu], Bounds { run_delay_share: bound, ..plan.bounds });
    done(&plan)
}

#[test]
fn a_server_that_others_keep_from_its_cpu_is_known() {
    let cpus = os::affinity::allowed_cpus();
    let [here, elsewhere, ..] = cpus[..] else {
        return skip("a server beside busy loops, on other CPUs than the generator", "one CPU");
    };
    if os::process::run_delay_of_thread().is_none() {
        return skip("a server beside busy loops", "the kernel keeps no schedstat");
    }
    let server = Victim::start("others::busy_server", SERVER, here.to_string());
    let address = server.printed_words().next().unwrap().parse().unwrap();
    let _loops = Victim::start("others::busy_loops", LOOPS, here.to_string());
    let outcome = asked(address, elsewhere, 500, 0.25);
    let had = outcome.server_cpu.unwrap();
    let is_starved = |void: &Void| matches!(void, Void::ServerStarved { bound_percent: 25, .. });
    assert!(outcome.void.iter().any(is_starved), "{had:?} {:?}", outcome.void);
    // Where nothing is held against others nobody looks.
    assert_eq!(asked(address, elsewhere, 1, 1.0).server_cpu, None);
}
