//! A FastCGI server that answers as a script says. It reads strictly: what a real one would not
//! understand is a panic.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request as it was received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    keeps: bool,
}

impl Asked {
    pub(crate) fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("-", String::as_str)
    }
}

/// What the server does with its connection, one after another.
pub(crate) enum Does {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Closes, although the client has asked to keep the connection.
    Close,
    /// Waits until the client closes.
    Stall,
}

/// A server that listens at a socket in the file system until it is dropped.
pub(crate) struct FastCgiServer {
    path: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

type Script = dyn Fn(&Asked) -> Vec<Does> + Send + Sync;

struct Shared {
    script: Box<Script>,
    requests: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    is_over: AtomicBool,
}

impl FastCgiServer {
    pub(crate) fn start(
        path: PathBuf,
        script: impl Fn(&Asked) -> Vec<Does> + Send + Sync + 'static,
    ) -> Self {
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { path, shared, accepting: Some(accepting) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections there are.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }
}

impl Drop for FastCgiServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.path); // wakes the thread that accepts
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        shared.connections.fetch_add(1, Ordering::SeqCst);
        shared.open.fetch_add(1, Ordering::SeqCst);
        std::thread::spawn(move || {
            // A client that closes in the middle is none of its faults.
            let _ = serve(stream.unwrap(), &shared);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn serve(mut stream: UnixStream, shared: &Shared) -> io::Result<()> {
    loop {
        let asked = read_request(&mut stream)?;
        shared.requests.lock().unwrap().push(asked.clone());
        for action in (shared.script)(&asked) {
            match action {
                Does::Send(bytes) => stream.write_all(&bytes)?,
                Does::Close => return Ok(()),
                Does::Stall => {
                    let _ = stream.read(&mut [0]);
                    return Ok(());
                }
            }
        }
        if !asked.keeps {
            return Ok(());
        }
    }
}

fn read_request(stream: &mut UnixStream) -> io::Result<Asked> {
    let (mut asked, mut variables, mut is_known) = (Asked::default(), Vec::new(), false);
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header)?;
        let [version, kind, id_high, id_low, high, low, padding, _] = header;
        assert_eq!((version, id_high, id_low), (1, 0, 1));
        let mut content = vec![0; usize::from(u16::from_be_bytes([high, low]))];
        stream.read_exact(&mut content)?;
        stream.read_exact(&mut vec![0; usize::from(padding)])?;
        match (kind, content.is_empty()) {
            (1, false) => {
                assert_eq!(content[..2], [0, 1], "a responder");
                asked.keeps = content[2] == 1;
            }
            (4, false) => variables.extend(content),
            (4, true) => {
                asked.variables = pairs(&variables);
                is_known = true;
            }
            (5, false) => asked.body.extend(content),
            (5, true) => {
                assert!(is_known, "the variables come first");
                return Ok(asked);
            }
            other => panic!("a record of type {other:?}"),
        }
    }
}

fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let twice = found.insert(text(&bytes[..name]), text(&bytes[name..][..value]));
        assert!(twice.is_none(), "a variable is there once");
        bytes = &bytes[name + value..];
    }
    found
}

fn length(bytes: &mut &[u8]) -> usize {
    let (length, size) = match **bytes {
        [a @ 128..=255, b, c, d, ..] => (u32::from_be_bytes([a & 127, b, c, d]) as usize, 4),
        _ => (usize::from(bytes[0]), 1),
    };
    *bytes = &bytes[size..];
    length
}

/// A record that a server sends.
pub(crate) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let padding = (8 - content.len() % 8) % 8;
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, high, low, padding as u8, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// The end of a request, with a status of the protocol.
pub(crate) fn end(protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, protocol_status, 0, 0, 0])
}

/// A whole reply: a head without its blank line, and content.
pub(crate) fn reply(head: &str, content: &[u8]) -> Vec<Does> {
    let output = [head.as_bytes(), b"\r\n\r\n", content].concat();
    let mut bytes: Vec<u8> = output.chunks(60_000).flat_map(|it| record(6, it)).collect();
    bytes.extend(end(0));
    vec![Does::Send(bytes)]
}
