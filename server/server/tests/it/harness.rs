//! Servers under test, and their clients: what several programs of tests need.

use std::io::Read;
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use engines::EngineSpec;
use server::config::{Arguments, Config};
use server::{Server, Summary};
use testkit::Temporary;

use crate::under_test::{engines, knobs, load};

/// Runs `test` for every engine under test, several at a time.
pub(crate) fn for_each_engine(test: impl Fn(&'static EngineSpec) + Sync) {
    let names: Vec<&str> = engines().iter().map(|spec| spec.name).collect();
    testkit::side_by_side(&names, |name| test(engines::find(name).expect("it was just listed")));
}

/// A server that ends with its test: one that is dropped without a stop would go on to the end of
/// the process, with all of its threads.
pub(crate) struct Running(Option<Server>);

impl Running {
    pub(crate) fn start(config: &Config) -> Self {
        Self(Some(Server::start(config).unwrap()))
    }

    pub(crate) fn stop_gracefully(mut self, drain: Duration) -> Result<Summary, String> {
        self.0.take().expect("it runs").stop_gracefully(drain)
    }
}

impl Deref for Running {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.0.as_ref().expect("it runs")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Server {
        self.0.as_mut().expect("it runs")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let stopped = self.0.take().map(|server| server.stop_gracefully(Duration::ZERO));
        if let (Some(Err(why)), false) = (stopped, std::thread::panicking()) {
            panic!("{why}");
        }
    }
}

/// Starts a server of `directory` on a free port.
pub(crate) fn start(directory: &Temporary, set: &[&str]) -> Running {
    Running::start(&config(directory, set))
}

pub(crate) fn config(directory: &Temporary, set: &[&str]) -> Config {
    // A test that chooses its engine sets the knobs itself.
    let is_under_test = |spec: &&EngineSpec| set.contains(&&*format!("engine.name={}", spec.name));
    let knobs = engines().iter().any(is_under_test).then(knobs);
    let arguments = Arguments {
        directory: Some(directory.path().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        set: quietly(set).chain(knobs.into_iter().flatten()).collect(),
        ..Arguments::default()
    };
    load(&arguments).unwrap()
}

/// The settings `set`, without a log line for each request that is refused: many requests shall be.
pub(crate) fn quietly(set: &[&str]) -> impl Iterator<Item = String> {
    ["log.errors=off"].iter().chain(set).map(ToString::to_string)
}

pub(crate) fn site() -> Temporary {
    let directory = Temporary::new();
    directory.file("site/index.html", "<h1>Rope</h1>");
    directory
}

pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads the head of a response, and nothing of its body.
pub(crate) fn take_head(stream: &mut TcpStream) -> Vec<u8> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    while !head.ends_with(END) {
        // Nothing after the head is taken; the bytes that have arrived may not be all of it.
        let mut came = [0; 1024];
        let count = os::uninterrupted(|| stream.peek(&mut came)).unwrap();
        let end = came[..count].windows(END.len()).position(|bytes| bytes == END);
        let mut next = vec![0; end.map_or(1, |at| at + END.len())];
        stream.read_exact(&mut next).unwrap();
        head.extend(next);
    }
    head
}
