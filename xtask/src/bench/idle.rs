//! Servers at rest: the user memory of 10,000 idle connections, the size of a server after its
//! start, and how soon it answers.

use super::corpus::Corpus;
use super::rounds::progress;
use super::row::Subject;
use super::serve::{Bench, OURS};
use lab::http::{self, Connection};
use lab::{Installed, Launch, RunningServer, ServerDescription, Setting};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// How many connections are opened, descriptors permitting.
const CONNECTIONS: usize = 10_000;

/// Connections opened and closed before memory is first read, so that memory that is allocated once
/// is not attributed to the later ones.
const WARM_UP_CONNECTIONS: usize = 64;

/// How often each server is started for the time to its first byte.
const STARTS: usize = 10;

/// The time in which a server gives memory back: h2o, for one, does so once a second.
const SETTLE: Duration = Duration::from_millis(1500);

/// Ropewalk's engines besides the first, and the values of knobs of `servers/ropewalk.toml`: each
/// way to wait has its own memory for a connection.
const ENGINES: &[(&str, &[(&str, &str)])] = &[
    ("staged", &[("engine", "staged")]),
    ("fibers", &[("engine", "fibers")]),
    ("fibers, packed", &[("engine", "fibers"), ("more", "[engine.knobs]\npark_idle = 1")]),
    ("tasks", &[("engine", "tasks")]),
    ("rings", &[("engine", "rings")]),
    ("thread-pool", &[("engine", "thread-pool")]),
];

/// The result for one server.
#[derive(Debug)]
pub(crate) struct IdleResult {
    pub(crate) name: String,
    /// Resident bytes after the first answer, shared pages counted in each process.
    pub(crate) resident_bytes: u64,
    /// Resident bytes after the first answer, shared pages divided among the processes.
    pub(crate) proportional_bytes: u64,
    /// User memory of an idle connection in bytes, or why it is unknown.
    pub(crate) connection_bytes: Result<f64, String>,
    /// Milliseconds from each start to the first byte.
    pub(crate) first_byte_ms: Vec<f64>,
}

/// Measures every server.
pub(crate) fn run(bench: &Bench<'_>) -> Result<Vec<IdleResult>, String> {
    let path = &Corpus::paths(Subject::Idle)[0];
    let head =
        bench.corpus.scratch().write("head", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    let list = bench.corpus.scratch().write("paths", path.as_bytes())?;
    let workload = [
        ("path_list", list.display().to_string()),
        ("head_file", head.display().to_string()),
        ("connection", Connection::KeepAlive.token().to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let launch = bench.launch(path, workload.into());
    let mut results = Vec::new();
    for installed in &bench.servers {
        for setting in settings(&installed.description) {
            let name = [installed.description.name.as_str(), &setting.name].join(" ");
            let name = name.trim_end();
            progress(&format!("idle: {name}"));
            match measure(installed, &setting, &launch) {
                Ok(result) => results.push(IdleResult { name: name.into(), ..result }),
                Err(why) => progress(&format!("{name} left out: {why}")),
            }
        }
    }
    Ok(results)
}

/// The first setting of each server, which needs no name, and more of Ropewalk's.
fn settings(description: &ServerDescription) -> Vec<Setting> {
    let first = Setting { name: String::new(), ..description.settings[0].clone() };
    let engines = ENGINES.iter().filter(|_| description.name == OURS).map(|(name, knobs)| {
        let knobs = knobs.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned()));
        Setting { name: (*name).to_owned(), about: String::new(), knobs: knobs.collect() }
    });
    std::iter::once(first).chain(engines).collect()
}

fn measure(
    installed: &Installed,
    setting: &Setting,
    launch: &Launch,
) -> Result<IdleResult, String> {
    let server = RunningServer::start(installed, setting, launch)?;
    let at_start = server.memory();
    let connection_bytes = connection_bytes(&server, &launch.ready_path);
    drop(server);
    let mut first_byte_ms = Vec::new();
    for _ in 0..STARTS {
        let server = RunningServer::start(installed, setting, launch)?;
        first_byte_ms.push(server.first_byte_us() as f64 / 1000.0);
    }
    Ok(IdleResult {
        name: String::new(),
        resident_bytes: at_start.resident_bytes,
        proportional_bytes: at_start.proportional_bytes,
        connection_bytes,
        first_byte_ms,
    })
}

/// The user memory of one idle connection, from many.
fn connection_bytes(server: &RunningServer, path: &str) -> Result<f64, String> {
    drop(open(server, path, WARM_UP_CONNECTIONS)?);
    thread::sleep(SETTLE);
    let before = server.memory().proportional_bytes;
    let mut connections = open(server, path, CONNECTIONS)?;
    thread::sleep(SETTLE);
    let after = server.memory().proportional_bytes;
    // If a server has silently closed the first connections it seems to need less than it does.
    http::get(&mut connections[0], path, Connection::KeepAlive)
        .map_err(|_| "it does not keep idle connections".to_owned())?;
    Ok((after as f64 - before as f64) / connections.len() as f64)
}

/// Opens connections, and has one request answered on each.
fn open(server: &RunningServer, path: &str, count: usize) -> Result<Vec<TcpStream>, String> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let answered = http::connect(server.address()).and_then(|mut stream| {
            http::get(&mut stream, path, Connection::KeepAlive).map(|_| stream)
        });
        connections.push(answered.map_err(|why| format!("at connection {number}: {why}"))?);
    }
    Ok(connections)
}
