//! A client and a connection in memory, with a clock and files that the test controls. The fuzz
//! target for sequences of operations uses them as well.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Weak};

use file_cache::{Budget, Cache, PolicyKind};
use session::{
    AccessLog, Connection, Counters, Done, Job, JobId, Known, Limits, ListCursor, Listings, Op,
    Phase, Published, Revision, Revisions, Tick, Worker, WorkerParts,
};
use site::Site;
use site::entity_tag::ContentHash;
use site::hashing::Hashed;
use site::host::{HostSettings, Symlinks};
use site::listing::Renderer;
use site::resolve::{Files, Kind, Opened, Unopened, Unresolved, is_current, resolve};
use site::resource::{FileRef, Identity};
use upstream::{Call, Next};

use crate::grammar::{Grammar, shape};

/// Files in memory. Directories are the prefixes of their names.
pub(crate) struct MemoryFiles {
    files: BTreeMap<Vec<u8>, (Vec<u8>, i128)>,
    /// The file behind every open file; the address of the handle distinguishes them.
    null: FileRef,
    /// Grows with every change: the modification time of files and directories.
    now_ns: i128,
}

impl MemoryFiles {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        const MODIFIED_NS: i128 = 1_000_000_000_000_000_000;
        let null = FileRef::new(File::open("/dev/null").expect("every Linux has it").into());
        let mut new = Self { files: BTreeMap::new(), null, now_ns: MODIFIED_NS };
        files.iter().for_each(|(name, content)| new.put(name, content));
        new
    }

    /// Replaces a file like a rename: those that have it open keep the old one.
    pub(crate) fn put(&mut self, name: &str, content: &[u8]) {
        self.now_ns += 1_000_000_000;
        self.files.insert(name.into(), (content.to_vec(), self.now_ns));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.now_ns += 1_000_000_000;
        self.files.remove(name.as_bytes());
    }

    /// Cuts a file off at `len` bytes in place, also for connections that have it open.
    pub(crate) fn truncate(&mut self, name: &str, len: usize) {
        self.now_ns += 1_000_000_000;
        let Some((content, modified_ns)) = self.files.get_mut(name.as_bytes()) else { return };
        let before = identity_of_file(content.len(), *modified_ns);
        content.truncate(len);
        *modified_ns = self.now_ns;
        let after = identity_of_file(content.len(), self.now_ns);
        OPEN.with_borrow_mut(|open| {
            for file in open.values_mut().filter(|file| file.identity == before) {
                file.content.truncate(len);
                file.identity = after;
            }
        });
    }

    fn status(&self, path: &[u8]) -> io::Result<(Kind, Identity)> {
        if let Some((content, modified_ns)) = self.files.get(path) {
            return Ok((Kind::Regular, identity_of_file(content.len(), *modified_ns)));
        }
        let prefix = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        if self.files.keys().any(|name| name.starts_with(&prefix)) {
            let identity = identity_of_file(path.len(), self.now_ns);
            return Ok((Kind::Directory, Identity { inode: 0, ..identity }));
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// The identity of a file; no two files were modified at the same time.
fn identity_of_file(len: usize, ns: i128) -> Identity {
    let inode = (ns / 1_000_000_000) as u64;
    Identity { device: 1, inode, len: len as u64, modified_ns: ns, changed_ns: ns }
}

impl Files for MemoryFiles {
    fn open(&self, path: &[u8], _: Symlinks) -> Result<Opened, Unopened> {
        let (kind, identity) = self.status(path)?;
        let file = FileRef::new(self.null.try_clone()?.into());
        if kind == Kind::Regular {
            let handle = Arc::downgrade(&file);
            let content = self.files[path].0.clone();
            OPEN.with_borrow_mut(|open| {
                open.retain(|_, file| file.handle.strong_count() > 0);
                open.insert(address(&file), OpenFile { handle, content, identity });
            });
        }
        Ok(Opened { file, kind, identity })
    }

    fn identity(&self, path: &[u8], _: Symlinks) -> io::Result<Identity> {
        self.status(path).map(|(_, identity)| identity)
    }

    fn read(&self, file: &FileRef, len: usize) -> io::Result<Vec<u8>> {
        OPEN.with_borrow(|open| Ok(open[&address(file)].content[..len].to_vec()))
    }

    fn read_at(&self, _: &FileRef, _: &mut [u8], _: u64) -> io::Result<usize> {
        unreachable!("all these files were modified in whole seconds, and are hashed at once")
    }

    fn identity_of(&self, file: &FileRef) -> io::Result<Identity> {
        OPEN.with_borrow(|open| Ok(open[&address(file)].identity))
    }

    fn hashed(&self, identity: &Identity) -> Option<Hashed> {
        let is_it =
            |(content, ns): &&(Vec<u8>, i128)| identity_of_file(content.len(), *ns) == *identity;
        let content = self.files.values().find(is_it).map(|(content, _)| content);
        Some(content.map_or(Hashed::Changed, |content| Hashed::Hash(ContentHash::compute(content))))
    }
}

/// The file behind a handle.
struct OpenFile {
    handle: Weak<site::resource::OpenFile>,
    content: Vec<u8>,
    identity: Identity,
}

thread_local! {
    /// Open files by the address of their handle.
    static OPEN: RefCell<HashMap<usize, OpenFile>> = RefCell::default();
}

fn address(file: &FileRef) -> usize {
    Arc::as_ptr(file) as usize
}

/// Reads at most `len` bytes of an open file.
fn read_open(file: &FileRef, offset: u64, len: usize) -> Vec<u8> {
    OPEN.with_borrow(|open| {
        let content = &open[&address(file)].content;
        let rest = content.get(offset as usize..).unwrap_or_default();
        rest[..rest.len().min(len)].to_vec()
    })
}

/// How many files this thread has open.
pub(crate) fn open_files() -> usize {
    OPEN.with_borrow(|open| open.values().filter(|file| file.handle.strong_count() > 0).count())
}

/// One site for all pairs: compiling its rules takes longer than most tests.
static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| {
    let mut settings = HostSettings::new("/".into());
    settings.html_suffix = true;
    settings.listing = true;
    Arc::new(Site::new(vec![settings]).expect("good settings"))
});

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
    /// How many bytes of a file are read at once.
    pub(crate) read_bytes_max: usize,
    /// Whether jobs are kept until `finish_job`.
    pub(crate) holds_jobs: bool,
    pub(crate) held: Option<(JobId, Job)>,
    /// Whether the rest of a job is put off while there is something to send.
    pub(crate) puts_off: bool,
    /// The job that was answered last.
    answered: Option<JobId>,
    pub(crate) files: MemoryFiles,
    /// The size up to which bodies are kept in memory.
    pub(crate) small_body_bytes_max: u64,
    pub(crate) site: Arc<Site>,
    /// The site by which the worker went before, and its files.
    former: Option<(Arc<Site>, MemoryFiles)>,
    now: Tick,
    is_at_end: bool,
    grammar: Grammar,
}

fn worker(site: Arc<Site>, limits: Limits, reads_files: bool, counters: &Arc<Counters>) -> Worker {
    Worker::new(parts(site, limits, reads_files, counters))
}

fn parts(
    site: Arc<Site>,
    limits: Limits,
    reads_files: bool,
    counters: &Arc<Counters>,
) -> WorkerParts {
    let budget = Budget { bytes: 1 << 24, descriptors: 64, entries: 1024 };
    WorkerParts {
        site,
        limits: Arc::new(limits),
        listings: Listings::new(LISTINGS_MAX),
        cache: Arc::new(Cache::new(PolicyKind::S3Fifo, budget, 1)),
        first_level_slots_max: 256,
        revalidate_us: 1_000_000,
        reads_files,
        log: None,
        counters: Arc::clone(counters),
    }
}

/// The number of listings at a time: a place that is not given back fails the next listing.
const LISTINGS_MAX: usize = 1;

/// The number of pieces in which a listing comes: its beginning, its end, and blanks between them.
pub(crate) const LISTING_PIECES: usize = 4;

pub(crate) const PEER: &str = "192.0.2.7:4711";

impl Pair {
    pub(crate) fn new(files: MemoryFiles, limits: Limits) -> Self {
        Self::on_site(Arc::clone(&SITE), files, limits)
    }

    pub(crate) fn on_site(site: Arc<Site>, files: MemoryFiles, limits: Limits) -> Self {
        Self::with(site, files, limits, false)
    }

    /// A pair whose connection asks for the bytes of files, and sends them itself.
    pub(crate) fn reading(files: MemoryFiles, limits: Limits) -> Self {
        Self::with(Arc::clone(&SITE), files, limits, true)
    }

    fn with(site: Arc<Site>, files: MemoryFiles, limits: Limits, reads_files: bool) -> Self {
        let counters = Arc::new(Counters::default());
        let mut worker = worker(Arc::clone(&site), limits, reads_files, &counters);
        let now = Tick(1_000_000_000);
        worker.set_time(now, 1_700_000_000_000_000 + now.0);
        let peer: SocketAddr = PEER.parse().expect("an address");
        let connection = Connection::new(&worker, peer);
        Self {
            worker,
            former: None,
            connection,
            counters,
            received: Vec::new(),
            is_shut: false,
            closed: None,
            window: usize::MAX,
            read_bytes_max: usize::MAX,
            holds_jobs: false,
            held: None,
            puts_off: false,
            answered: None,
            files,
            small_body_bytes_max: u64::MAX,
            site,
            now,
            is_at_end: false,
            grammar: Grammar::new(false),
        }
    }

    /// Goes on with a worker that has a log.
    pub(crate) fn log_to(&mut self, log: Box<dyn AccessLog>) {
        let parts = parts(Arc::clone(&self.site), Limits::default(), false, &self.counters);
        self.worker = Worker::new(WorkerParts { log: Some(log), ..parts });
        self.worker.set_time(self.now, self.unix_us());
    }

    /// Closes the connection, and opens another on the same worker.
    pub(crate) fn reconnect(&mut self) {
        self.connection.close(&mut self.worker);
        let _ = self.change_connection();
    }

    /// Goes on with another connection of the same worker, and returns the former.
    pub(crate) fn change_connection(&mut self) -> Connection {
        let other = Connection::new(&self.worker, PEER.parse().expect("an address"));
        self.received.clear();
        (self.held, self.answered) = (None, None);
        self.grammar = Grammar::new(false);
        (self.is_shut, self.closed, self.is_at_end) = (false, None, false);
        std::mem::replace(&mut self.connection, other)
    }

    /// Goes on with the connection on another worker, of another site.
    pub(crate) fn move_to(&mut self, site: Arc<Site>, limits: Limits) {
        self.worker = worker(Arc::clone(&site), limits, false, &self.counters);
        self.worker.set_time(self.now, self.unix_us());
        self.site = site;
    }

    /// Has the worker take over another site, which follows the one that it has.
    pub(crate) fn take_over(&mut self, site: Arc<Site>, files: MemoryFiles, limits: Limits) {
        let revision = Revision { site: Arc::clone(&site), limits: Arc::new(limits) };
        let cache = self.worker.cache().emptied(self.worker.cache().budget());
        self.worker.follow(Revisions::new(&Published::new(revision, None), Arc::new(cache)));
        let former = std::mem::replace(&mut self.site, site);
        self.former = Some((former, std::mem::replace(&mut self.files, files)));
    }

    /// The site of a host, and its files.
    fn of(&self, host: usize) -> (&Site, &MemoryFiles) {
        match &self.former {
            Some((site, files)) if site.place(host).is_some() => (site, files),
            _ => (&self.site, &self.files),
        }
    }

    /// Sends bytes from the client, and drives the connection until it waits.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // If the connection is not ready for bytes, the kernel would hold them: here they are
        // ingested.
        if self.closed.is_none() && !bytes.is_empty() {
            self.connection.ingest(&mut self.worker, bytes);
        }
        self.drive();
    }

    /// Shuts the client's side down.
    pub(crate) fn finish(&mut self) {
        self.is_at_end = true;
        self.drive();
    }

    /// Performs the operations of the connection until it waits. The number is bounded, so that a
    /// state machine that spins fails the test.
    pub(crate) fn drive(&mut self) {
        for _ in 0..1_000_000 {
            if !self.turn() {
                return;
            }
        }
        panic!("the connection never waits");
    }

    /// Performs the next operation. Returns whether it could be.
    pub(crate) fn turn(&mut self) -> bool {
        self.grammar.asked(&self.connection);
        if self.puts_off && self.connection.put_off() {
            return true;
        }
        match self.connection.next() {
            Op::Recv if self.is_at_end => {
                self.connection.ingest(&mut self.worker, &[]);
                self.grammar.ended();
            }
            Op::Recv | Op::Wait => return false,
            Op::Send { head, body, .. } => {
                let n = self.window.min(head.len() + body.len());
                if n == 0 {
                    return false;
                }
                let from_head = n.min(head.len());
                self.received.extend_from_slice(&head[..from_head]);
                self.received.extend_from_slice(&body[..n - from_head]);
                self.count_sent(n);
            }
            Op::File { .. } if self.window == 0 => return false,
            Op::File { file, offset, len } => {
                let bytes = read_open(file, offset, self.window.min(len as usize));
                self.received.extend_from_slice(&bytes);
                self.count_sent(bytes.len());
            }
            Op::Read { file, offset, len } => {
                let bytes = read_open(file, offset, len.min(self.read_bytes_max));
                self.connection.read(&mut self.worker, &bytes);
            }
            Op::Job | Op::Stream(_) => {
                let (id, job) = self.connection.take_job();
                self.grammar.took(id);
                self.held = Some((id, job));
                if !self.holds_jobs {
                    self.finish_job();
                }
            }
            Op::Shutdown => {
                self.is_shut = true;
                self.connection.sent(&mut self.worker, 0);
                self.grammar.shut();
            }
            Op::Close { reset } => {
                self.is_shut = true;
                self.closed = Some(reset);
                return false;
            }
        }
        true
    }

    fn count_sent(&mut self, n: usize) {
        if self.window != usize::MAX {
            self.window -= n;
        }
        self.connection.sent(&mut self.worker, n);
        self.grammar.sent();
    }

    /// Runs the job that is held back.
    pub(crate) fn finish_job(&mut self) {
        let Some((id, job)) = self.held.take() else { return };
        let done = match job {
            Job::Resolve { host, known: Known::Entry(slot), .. }
                if is_current(slot.value(), Symlinks::Anywhere, self.of(host).1) =>
            {
                Done::Current(slot)
            }
            Job::Resolve { host, path, .. } => {
                let (site, files) = self.of(host);
                let host = site.host(host);
                let ns = 1_700_000_000_000_000_000 + i128::from(self.now.0) * 1000;
                let entry = resolve(host, &path, files, ns, self.small_body_bytes_max);
                Done::Resolved(match entry {
                    Ok(entry) => Ok((path, entry)),
                    Err(Unresolved::Failed(why)) => Err(why),
                    Err(Unresolved::Unhashed(_)) => unreachable!("the hashes of all are known"),
                })
            }
            Job::Hash(_) => unreachable!("the hashes of all are known"),
            Job::List { path, format, permit, .. } => {
                let mut bytes = Vec::new();
                let mut cursor = ListCursor {
                    directory: FileRef::clone(&self.files.null),
                    renderer: Renderer::new(format),
                    names: Vec::new(),
                    entries: Vec::new(),
                    next: 0,
                    path,
                    permit,
                };
                cursor.renderer.header(&cursor.path, &mut bytes);
                Done::Listed(Ok((bytes, Some(Box::new(cursor)))))
            }
            Job::ListMore(mut cursor) if cursor.next < LISTING_PIECES - 2 => {
                cursor.next += 1;
                Done::Listed(Ok((vec![b' '; 50], Some(cursor))))
            }
            Job::ListMore(cursor) => {
                let mut bytes = Vec::new();
                cursor.renderer.footer(&mut bytes);
                Done::Listed(Ok((bytes, None)))
            }
            Job::Application(_) => unreachable!("no route leads to one"),
        };
        self.job_done(id, done);
    }

    /// Takes the call of an application that is held back, which the caller drives to its end.
    pub(crate) fn take_call(&mut self) -> (JobId, Box<Call>) {
        let Some((id, Job::Application(call))) = self.held.take() else {
            panic!("no call is held back")
        };
        self.grammar.answered(id, false);
        (id, call)
    }

    /// Has the application of a call that was taken reply with these bytes, in pieces of a size,
    /// and end. Only of a program the input ends, too.
    pub(crate) fn answer_call(
        &mut self,
        (id, mut call): (JobId, Box<Call>),
        reply: &[u8],
        piece: usize,
    ) {
        let now = Tick(1_000_000_000);
        let is_program = call.program().is_some();
        call.connected(false, now);
        let mut pieces = reply.chunks(piece);
        while let Some(mut stream) = self.connection.stream(&mut self.worker, id) {
            match call.next(&mut stream, now) {
                Next::Send(bytes) => {
                    let n = bytes.len();
                    call.sent(n, now);
                }
                Next::EndSending if is_program => call.sending_ended(),
                Next::Recv => match pieces.next() {
                    Some(bytes) => call.ingest(&mut stream, bytes, now),
                    None => call.ended(&mut stream),
                },
                Next::Over { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        self.drive();
    }

    /// Answers the job that is held back with a failure.
    pub(crate) fn fail_job(&mut self) {
        let Some((id, job)) = self.held.take() else { return };
        let error = io::ErrorKind::Other.into();
        let done = match job {
            Job::Resolve { .. } | Job::Hash(_) => Done::Resolved(Err(error)),
            Job::List { .. } | Job::ListMore(_) => Done::Listed(Err(error)),
            Job::Application(_) => unreachable!("no route leads to one"),
        };
        self.job_done(id, done);
    }

    fn job_done(&mut self, id: JobId, done: Done) {
        self.grammar.answered(id, matches!(done, Done::Listed(Ok((_, Some(_))))));
        self.answered = Some(id);
        self.connection.done(&mut self.worker, id, done);
        if self.holds_jobs {
            self.drive();
        }
    }

    /// Answers once more the job that was answered last, which is dropped.
    pub(crate) fn answer_again(&mut self) {
        let Some(id) = self.answered else { return };
        if self.held.as_ref().is_some_and(|(held, _)| *held == id) {
            return; // its rest is out under the same number
        }
        let before = shape(&self.connection.next());
        let done = Done::Resolved(Err(io::ErrorKind::Other.into()));
        self.connection.done(&mut self.worker, id, done);
        assert_eq!(shape(&self.connection.next()), before, "an answer that nothing waits for");
    }

    /// Lets `ms` milliseconds pass, and acts on the deadline if it has passed.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.worker.set_time(self.now, self.unix_us());
        if self.connection.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.connection.expire(&mut self.worker);
        }
        self.drive();
    }

    fn unix_us(&self) -> u64 {
        1_700_000_000_000_000 + self.now.0
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
