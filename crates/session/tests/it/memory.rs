//! A client and a connection in memory, with a clock that the test turns and files made up by it.
//! Also used by the fuzz target for sequences of operations.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use file_cache::{Budget, Cache, PolicyKind};
use session::{
    Connection, Counters, Done, Job, JobId, Limits, Op, Phase, Tick, Worker, WorkerParts,
};
use site::Site;
use site::host::{HostSettings, Symlinks};
use site::resolve::{Files, Kind, Opened, is_current, resolve};
use site::resource::{FileRef, Identity};

/// Files that exist only here. Directories are the prefixes of their names.
pub(crate) struct MemoryFiles {
    files: BTreeMap<Vec<u8>, (Vec<u8>, i128)>,
    /// Stands for every open file; its identity tells which.
    null: FileRef,
}

impl MemoryFiles {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        const MODIFIED_NS: i128 = 1_000_000_000_000_000_000;
        let entry = |(name, content): &(&str, &[u8])| {
            (name.as_bytes().to_vec(), (content.to_vec(), MODIFIED_NS))
        };
        let null = FileRef::new(File::open("/dev/null").expect("every Linux has it"));
        Self { files: files.iter().map(entry).collect(), null }
    }

    fn look(&self, path: &[u8]) -> io::Result<(Kind, Identity)> {
        if let Some((content, modified_ns)) = self.files.get(path) {
            let inode = self.files.keys().position(|name| name == path).unwrap_or(0) as u64 + 1;
            return Ok((Kind::Regular, identity(inode, content.len(), *modified_ns)));
        }
        let prefix = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        if self.files.keys().any(|name| name.starts_with(&prefix)) {
            return Ok((Kind::Directory, identity(0, path.len(), 0)));
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

fn identity(inode: u64, len: usize, ns: i128) -> Identity {
    Identity { device: 1, inode, len: len as u64, modified_ns: ns, changed_ns: ns }
}

impl Files for MemoryFiles {
    fn open(&self, path: &[u8], _: Symlinks) -> io::Result<Opened> {
        let (kind, mut identity) = self.look(path)?;
        // `read` gets only the file: a private descriptor whose number it can be told by.
        let file = FileRef::new(self.null.try_clone()?);
        if kind == Kind::Regular {
            identity.device = 1;
            OPEN.with_borrow_mut(|open| {
                let key = Arc::as_ptr(&file) as usize;
                open.insert(key, (self.files[path].0.clone(), identity));
            });
        }
        Ok(Opened { file, kind, identity })
    }

    fn identity(&self, path: &[u8]) -> io::Result<Identity> {
        self.look(path).map(|(_, identity)| identity)
    }

    fn read(&self, file: &FileRef, len: usize) -> io::Result<Vec<u8>> {
        OPEN.with_borrow(|open| Ok(open[&(Arc::as_ptr(file) as usize)].0[..len].to_vec()))
    }

    fn identity_of(&self, file: &FileRef) -> io::Result<Identity> {
        OPEN.with_borrow(|open| Ok(open[&(Arc::as_ptr(file) as usize)].1))
    }
}

thread_local! {
    /// Contents of open files by the address of their handle. Handles are few and short-lived.
    static OPEN: std::cell::RefCell<std::collections::HashMap<usize, (Vec<u8>, Identity)>> =
        std::cell::RefCell::default();
}

/// One connection and the worker that serves it.
pub(crate) struct Pair {
    pub(crate) worker: Worker,
    pub(crate) connection: Connection,
    pub(crate) counters: Arc<Counters>,
    /// What the client has received.
    pub(crate) received: Vec<u8>,
    /// Whether the server has shut its side down or closed.
    pub(crate) is_shut: bool,
    /// `Some(reset)` once closed.
    pub(crate) closed: Option<bool>,
    /// How many bytes the client's window takes before it must be opened again.
    pub(crate) window: usize,
    /// Whether jobs are kept until `finish_job`.
    pub(crate) holds_jobs: bool,
    pub(crate) held: Option<(JobId, Job)>,
    site: Arc<Site>,
    files: MemoryFiles,
    now: Tick,
    is_at_end: bool,
}

pub(crate) const PEER: &str = "192.0.2.7:4711";

impl Pair {
    pub(crate) fn new(files: MemoryFiles, limits: Limits) -> Self {
        let mut settings = HostSettings::new("/".into());
        settings.html_suffix = true;
        let site = Arc::new(Site::new(vec![settings]).expect("good settings"));
        let counters = Arc::new(Counters::default());
        let budget = Budget { bytes: 1 << 24, descriptors: 64, entries: 1024 };
        let mut worker = Worker::new(WorkerParts {
            site: Arc::clone(&site),
            limits: Arc::new(limits),
            cache: Arc::new(Cache::new(PolicyKind::S3Fifo, budget, 1)),
            first_level_slots_max: 256,
            revalidate_us: 1_000_000,
            log: None,
            counters: Arc::clone(&counters),
        });
        let now = Tick(1_000_000_000);
        worker.set_time(now, 1_700_000_000_000_000);
        let peer: SocketAddr = PEER.parse().expect("an address");
        let connection = Connection::new(&worker, peer);
        Self {
            worker,
            connection,
            counters,
            received: Vec::new(),
            is_shut: false,
            closed: None,
            window: usize::MAX,
            holds_jobs: false,
            held: None,
            site,
            files,
            now,
            is_at_end: false,
        }
    }

    /// A new connection on the same worker.
    pub(crate) fn reconnect(&mut self) {
        self.connection.close(&mut self.worker);
        self.connection = Connection::new(&self.worker, PEER.parse().expect("an address"));
        self.received.clear();
        (self.is_shut, self.closed, self.is_at_end) = (false, None, false);
    }

    /// The client sends bytes; the server does all it can.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // Bytes that the connection is not ready for the kernel would hold: as if it had.
        if self.closed.is_none() && !bytes.is_empty() {
            self.connection.ingest(&mut self.worker, bytes);
        }
        self.drive();
    }

    /// The client shuts its side down.
    pub(crate) fn finish(&mut self) {
        self.is_at_end = true;
        self.drive();
    }

    /// Does what the connection says until it waits. Bounded: a state machine that spins fails.
    pub(crate) fn drive(&mut self) {
        for _ in 0..1_000_000 {
            if !self.turn() {
                return;
            }
        }
        panic!("the connection never waits");
    }

    fn turn(&mut self) -> bool {
        match self.connection.next() {
            Op::Recv if self.is_at_end => self.connection.ingest(&mut self.worker, &[]),
            Op::Recv | Op::Wait => return false,
            Op::Send { head, body, .. } => {
                let n = self.window.min(head.len() + body.len());
                if n == 0 {
                    return false;
                }
                let from_head = n.min(head.len());
                self.received.extend_from_slice(&head[..from_head]);
                self.received.extend_from_slice(&body[..n - from_head]);
                self.window =
                    self.window.saturating_sub(if self.window == usize::MAX { 0 } else { n });
                self.connection.sent(&mut self.worker, n);
            }
            Op::File { .. } => unreachable!("all bodies are in memory here"),
            Op::Job => {
                let (id, job) = self.connection.take_job();
                self.held = Some((id, job));
                if !self.holds_jobs {
                    self.finish_job();
                }
            }
            Op::Shutdown => {
                self.is_shut = true;
                self.connection.sent(&mut self.worker, 0);
            }
            Op::Close { reset } => {
                self.is_shut = true;
                self.closed = Some(reset);
                return false;
            }
        }
        true
    }

    /// Runs the job that is held.
    pub(crate) fn finish_job(&mut self) {
        let Some((id, job)) = self.held.take() else { return };
        let done = match job {
            Job::Resolve { previous: Some(slot), .. } if is_current(slot.value(), &self.files) => {
                Done::Current(slot)
            }
            Job::Resolve { host, path, .. } => {
                let host = self.site.host(host);
                let ns = 1_700_000_000_000_000_000;
                let entry = resolve(host, &path, &self.files, ns, u64::MAX);
                Done::Resolved(entry.map(|entry| (path, entry)))
            }
            Job::List { .. } | Job::ListMore(_) => Done::Listed(Err(io::ErrorKind::Other.into())),
        };
        self.connection.done(&mut self.worker, id, done);
        if !self.holds_jobs {
            return;
        }
        self.drive();
    }

    /// Lets time pass, and acts on the deadline if it has.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.worker.set_time(self.now, 1_700_000_000_000_000 + self.now.0);
        if self.connection.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.connection.expire(&mut self.worker);
        }
        self.drive();
    }

    /// The statuses of all responses received, by their status lines.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let text = String::from_utf8_lossy(&self.received);
        let lines = text.match_indices("HTTP/1.1 ");
        lines.filter_map(|(at, _)| text[at + 9..].get(..3)?.parse().ok()).collect()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.connection.phase()
    }
}
