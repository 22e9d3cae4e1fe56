//! Other processes on the CPUs of a server that is a separate process, while the generator has
//! another CPU.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::parent_id;
use std::time::Duration;

use load::outcome::Outcome;
use load::void::{Bounds, Void};
use testkit::{Victim, skip};

use crate::setup::{MS, closed, get, log, plan, run_to_end};

/// Turns [`busy_server`] into a server on the CPU that the variable names.
const SERVER: &str = "ROPEWALK_LOAD_BUSY_SERVER";

/// Turns [`busy_loops`] into busy loops on the CPU that the variable names.
const LOOPS: &str = "ROPEWALK_LOAD_BUSY_LOOPS";

/// The number of busy loops.
const LOOPS_COUNT: usize = 3;

/// The number of clients, and of threads that serve them.
const CLIENTS: u64 = 4;

/// The processor time of a request in the server, many times its time in the generator, so that the
/// server always has work even if the generator gets little of its CPU.
const WORK: Duration = Duration::from_millis(5);

/// Binds this process to the CPU that `variable` names. Returns false if the variable is not set.
fn is_bound_by(variable: &str) -> bool {
    let Ok(cpu) = std::env::var(variable) else { return false };
    os::affinity::pin_thread(&[cpu.parse().unwrap()]).unwrap();
    true
}

/// No test by itself: serves on the CPU that the variable names, and prints its address.
#[test]
fn busy_server() {
    if !is_bound_by(SERVER) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("{}", listener.local_addr().unwrap());
    // How long threads that have ended waited is not known, so these threads do not end.
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            // A client that has gone makes `answer` fail, which is no failure of the server.
            scope.spawn(|| listener.incoming().flatten().for_each(|stream| drop(answer(&stream))));
        }
    });
}

/// Answers all requests of a connection, and works for each.
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

/// No test by itself: keeps the CPU that the variable names busy until the process that started it
/// ends.
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

/// Runs clients that never pause, on another CPU than the server's.
fn run_clients(server: SocketAddr, cpu: usize, window_ms: u64, bound: f64) -> Outcome {
    let mut plan = plan(server, log(&[&[get("/")]]));
    (plan.model, plan.sessions_max) = (closed(CLIENTS), None);
    (plan.warm_up_us, plan.duration_us) = (100 * MS, Some(window_ms * MS));
    (plan.cpus, plan.bounds) = (vec![cpu], Bounds { run_delay_share: bound, ..plan.bounds });
    run_to_end(&plan)
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
    let outcome = run_clients(address, elsewhere, 500, 0.25);
    let had = outcome.server_cpu.unwrap();
    let is_starved = |void: &Void| matches!(void, Void::ServerStarved { bound_percent: 25, .. });
    assert!(outcome.void.iter().any(is_starved), "{had:?} {:?}", outcome.void);
    // Where the bound allows any disturbance the server is not inspected.
    assert_eq!(run_clients(address, elsewhere, 1, 1.0).server_cpu, None);
}
