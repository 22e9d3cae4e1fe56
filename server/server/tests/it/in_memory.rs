//! Every conformance case against connections in memory: however a request is cut, and however
//! little the client takes at a time, the answer is the same to the byte. Jobs run on the real
//! document root; there are no sockets, and the clock does not advance.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::thread;

use engines::jobs::Runner;
use file_cache::{Budget, Cache};
use server::config::{Arguments, Config, Settings};
use session::{Connection, Counters, Limits, Listings, Op, Phase, Tick, Worker, WorkerParts};
use site::Site;
use testkit::case::{Case, Profile};
use testkit::check::check;
use testkit::response::parse_responses;
use testkit::template::EtagQuery;
use testkit::{DocumentRoot, End, Prepared, Suite, Temporary, Transcript};

const THREADS: usize = 2;

/// A client that takes everything at once.
const WIDE: usize = usize::MAX;

#[test]
fn every_case_holds_in_memory_however_it_is_cut() {
    let root = DocumentRoot::shared().unwrap();
    let suite = Suite::load().unwrap();
    let configurations = Temporary::new();
    let configurations = suite
        .profiles
        .values()
        .map(|profile| {
            let path = configurations.file(&profile.name, profile.configuration(&root.site()));
            (profile, settings(path))
        })
        .collect::<Vec<_>>();
    let mut total = Tally::default();
    thread::scope(|scope| {
        let work = |part| {
            let (suite, root, configurations) = (suite, &root, &configurations);
            scope.spawn(move || run_part(part, suite, root, configurations))
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().for_each(|thread| total.add(thread.join().unwrap()));
    });
    let Tally { cases, conversations, failures } = total;
    println!("{cases} cases in {conversations} conversations");
    assert!(cases > 320 && conversations > 20 * cases, "too few: {cases}, {conversations}");
    let first = failures.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} failures, the first of them:\n{first}", failures.len());
}

fn settings(path: std::path::PathBuf) -> Settings {
    let arguments = Arguments { config: Some(path), ..Arguments::default() };
    Config::load(&arguments).unwrap_or_else(|error| panic!("{error}")).settings
}

/// The results of one thread.
#[derive(Default)]
struct Tally {
    cases: usize,
    conversations: usize,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.conversations += other.conversations;
        self.failures.extend(other.failures);
    }
}

/// Runs every `THREADS`-th case of every profile.
fn run_part(
    part: usize,
    suite: &Suite,
    root: &DocumentRoot,
    configurations: &[(&Profile, Settings)],
) -> Tally {
    let mut tally = Tally::default();
    let permissions_hold = root.permissions_hold();
    for (profile, settings) in configurations {
        let mut server = InMemory::new(settings, &profile.host);
        let cases = suite.cases_for(profile).filter(|case| permissions_hold || !case.unprivileged);
        for case in cases.skip(part).step_by(THREADS) {
            tally.cases += 1;
            let is_rerun = case.settings != profile.name;
            if let Err(failure) = server.run(case, is_rerun, &mut tally.conversations) {
                tally.failures.push(format!("profile {}: {failure}", profile.name));
            }
        }
    }
    tally
}

/// A server without sockets.
struct InMemory {
    worker: Worker,
    runner: Runner,
    host: String,
    etags: BTreeMap<EtagQuery, String>,
}

impl InMemory {
    fn new(settings: &Settings, host: &str) -> Self {
        let site = Arc::new(Site::new(settings.hosts.clone()).unwrap());
        let cache = &settings.cache;
        let runner = Runner::new(Arc::clone(&site), cache.small_body_bytes_max).unwrap();
        let budget = Budget { bytes: 1 << 28, descriptors: 128, entries: 10_000 };
        let mut worker = Worker::new(WorkerParts {
            site,
            limits: Arc::new(limits(settings)),
            listings: Listings::new(1),
            cache: Arc::new(Cache::new(cache.policy, budget, 4)),
            first_level_slots_max: 1024,
            revalidate_us: u64::MAX,
            reads_files: false,
            log: None,
            counters: Arc::new(Counters::default()),
        });
        // Later than every date in the cases, except those that shall be in the future.
        worker.set_time(Tick(1_000_000), 1_800_000_000_000_000);
        Self { worker, runner, host: host.to_owned(), etags: BTreeMap::new() }
    }

    /// Runs a case uncut, checks the answer, and compares it with the answers to the same case cut.
    /// A rerun (a case of another profile) is not cut: where the head is cut does not matter to the
    /// settings of its profile.
    fn run(&mut self, case: &Case, is_rerun: bool, count: &mut usize) -> Result<(), String> {
        let host = self.host.clone();
        let prepared = Prepared::new(case, &host, &mut |query| self.etag(query))?;
        let request = prepared.request.clone();
        let whole = self.converse(&prepared, &[&request], WIDE);
        check(&prepared, &whole).map_err(|mismatch| mismatch.to_string())?;
        let mut again = |pieces: &[&[u8]], window, manner: &str| {
            *count += 1;
            let mut other = self.converse(&prepared, pieces, window);
            if case.group == "framing" && pieces.len() > 1 {
                announce_end(&whole, &mut other);
            }
            difference(&whole, &other).map_or(Ok(()), |difference| {
                let sent = show(&request, 300);
                Err(format!("{}/{}, {manner}: {difference}\n  {sent}", case.group, case.name))
            })
        };
        let bytes = single_bytes(&request);
        again(&bytes, WIDE, "a byte at a time")?;
        for window in [1, 7, 100] {
            again(&[&request], window, &format!("window of {window}"))?;
        }
        again(&bytes, 7, "a byte at a time with a window of 7")?;
        let cuts = if is_rerun { Vec::new() } else { cuts(request.len()) };
        for at in cuts {
            let (one, other) = request.split_at(at);
            again(&[one, other], WIDE, &format!("cut at {at}"))?;
        }
        Ok(())
    }

    fn etag(&mut self, query: &EtagQuery) -> Result<String, String> {
        if let Some(tag) = self.etags.get(query) {
            return Ok(tag.clone());
        }
        let mut client = MemoryClient::new(WIDE);
        let mut connection = self.connect();
        client.waiting.push(query.request(&self.host));
        self.drive(&mut connection, &mut client);
        connection.close(&mut self.worker);
        let parsed = parse_responses(&client.received, &[], true).map_err(|e| e.to_string())?;
        let tag = parsed.responses.last().and_then(|response| response.field("ETag"));
        let tag = tag.ok_or_else(|| format!("no entity tag for {query:?}"))?;
        self.etags.insert(query.clone(), tag.clone());
        Ok(tag)
    }

    fn connect(&self) -> Connection {
        Connection::new(&self.worker, "192.0.2.7:4711".parse().unwrap())
    }

    /// Runs a case on one connection, as `testkit::Client` does over a socket.
    fn converse(&mut self, case: &Prepared<'_>, pieces: &[&[u8]], window: usize) -> Transcript {
        let mut connection = self.connect();
        let mut client = MemoryClient::new(window);
        client.waiting = pieces.iter().rev().map(|piece| piece.to_vec()).collect();
        client.is_at_end = case.case.half_close;
        self.drive(&mut connection, &mut client);
        let probed = case.wants_probe();
        if probed {
            client.waiting.insert(0, case.probe.clone());
            self.drive(&mut connection, &mut client);
        }
        let end = client.end.unwrap_or(End::TimedOut);
        client.is_at_end = true;
        self.drive(&mut connection, &mut client);
        assert_eq!(connection.phase(), Phase::Closed, "{}: after the client's end", case.case.name);
        connection.close(&mut self.worker);
        Transcript { bytes: client.received, end, probed }
    }

    /// Performs the operations of the connection until it waits for the client.
    fn drive(&mut self, connection: &mut Connection, client: &mut MemoryClient) {
        const TURNS_MAX: usize = 1_000_000;
        for _ in 0..TURNS_MAX {
            if !self.turn(connection, client) {
                return;
            }
        }
        panic!(
            "the connection never waits: {:?}, {} bytes received",
            connection.phase(),
            client.received.len()
        );
    }

    fn turn(&mut self, connection: &mut Connection, client: &mut MemoryClient) -> bool {
        let n = match connection.next() {
            Op::Recv => match client.waiting.pop() {
                // An empty piece would be taken for the end of the stream.
                Some(piece) if piece.is_empty() => return true,
                Some(piece) => {
                    connection.ingest(&mut self.worker, &piece);
                    return true;
                }
                None if client.is_at_end => {
                    connection.ingest(&mut self.worker, &[]);
                    return true;
                }
                None => return false,
            },
            Op::Send { head, body, .. } => client.take(head) + client.take_after(head, body),
            Op::File { file, offset, len } => client.take_file(file, offset, len),
            Op::Shutdown => {
                client.end = Some(End::Closed);
                0
            }
            Op::Job | Op::Stream(_) => {
                let (id, job) = connection.take_job();
                connection.done(&mut self.worker, id, self.runner.run(job));
                return true;
            }
            Op::Read { .. } => panic!("this worker has files sent"),
            Op::Wait => panic!("no job is out, and nothing else can be waited for"),
            Op::Close { reset } => {
                client.end.get_or_insert(if reset { End::Reset } else { End::Closed });
                return false;
            }
        };
        connection.sent(&mut self.worker, n);
        true
    }
}

/// The limits of a profile; the times are the session's defaults, and never pass.
fn limits(settings: &Settings) -> Limits {
    let (mut limits, wanted) = (Limits::default(), &settings.limits);
    limits.head.head_bytes_max = wanted.head_bytes_max as usize;
    limits.head.request_line_bytes_max = wanted.request_line_bytes_max as usize;
    limits.head.fields_max = wanted.fields_max as usize;
    limits.requests_per_connection_max = wanted.requests_per_connection_max as u32;
    limits.unread_body_bytes_max = wanted.unread_body_bytes_max;
    limits.ranges_max = wanted.ranges_max as usize;
    limits
}

/// The other end of a connection.
struct MemoryClient {
    /// Pieces to send, the last of them first.
    waiting: Vec<Vec<u8>>,
    /// Whether it shuts its side down after these pieces.
    is_at_end: bool,
    /// How many bytes it takes at a time.
    window: usize,
    /// The number of sends for which the window stays small.
    patience: usize,
    received: Vec<u8>,
    end: Option<End>,
}

impl MemoryClient {
    /// A small window is small for this many sends, then wide: enough for every head and the
    /// beginnings of all bodies, without taking hours for long bodies.
    const SMALL_SENDS: usize = 3000;

    fn new(window: usize) -> Self {
        let (waiting, received) = (Vec::new(), Vec::new());
        let patience = Self::SMALL_SENDS;
        Self { waiting, is_at_end: false, window, patience, received, end: None }
    }

    /// Takes as much of the first bytes of a send as the window allows.
    fn take(&mut self, bytes: &[u8]) -> usize {
        match self.patience.checked_sub(1) {
            Some(left) => self.patience = left,
            None => self.window = WIDE,
        }
        let n = bytes.len().min(self.window);
        self.received.extend_from_slice(&bytes[..n]);
        n
    }

    /// Takes as much of the body as the window allows after its head.
    fn take_after(&mut self, head: &[u8], body: &[u8]) -> usize {
        let n = body.len().min(self.window.saturating_sub(head.len()));
        self.received.extend_from_slice(&body[..n]);
        n
    }

    fn take_file(&mut self, mut file: &fs::File, offset: u64, len: u64) -> usize {
        const CHUNK_BYTES: u64 = 256 * 1024;
        file.seek(SeekFrom::Start(offset)).unwrap();
        let mut part = file.take(len.min(CHUNK_BYTES).min(self.window as u64));
        let n = part.read_to_end(&mut self.received).unwrap();
        self.take(&[]);
        n
    }
}

/// Splits a request into bytes; bytes after the first 20,000, the filler of a body, come in larger
/// pieces.
fn single_bytes(request: &[u8]) -> Vec<&[u8]> {
    let (bytes, filler) = request.split_at(request.len().min(20_000));
    bytes.chunks(1).chain(filler.chunks(1009)).collect()
}

/// Where to cut a request: everywhere, except in the middle of a long one, where a sample is used.
fn cuts(len: usize) -> Vec<usize> {
    const EDGE: usize = 300;
    const SAMPLE: u64 = 100;
    if len <= 2 * EDGE {
        return (1..len).collect();
    }
    let middle = (len - 2 * EDGE) as u64;
    let sample =
        (1..=SAMPLE).map(|i| EDGE + (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % middle) as usize);
    (1..EDGE).chain(sample).chain(len - EDGE..len).collect()
}

/// Adds to `cut` the announcement that the connection ends, if only `whole` has it. A body that
/// proves to be broken ends the connection, and the answer says so (RFC 9112 §9.6), unless it had
/// been sent before the broken part arrived: this is the only difference allowed.
fn announce_end(whole: &Transcript, cut: &mut Transcript) {
    const ANNOUNCED: &[u8] = b"Connection: close\r\n";
    let at = whole.bytes.windows(ANNOUNCED.len()).position(|bytes| bytes == ANNOUNCED);
    let is_missing = |at: &usize| {
        !cut.bytes.windows(ANNOUNCED.len()).any(|b| b == ANNOUNCED) && cut.bytes.len() >= *at
    };
    if let Some(at) = at.filter(is_missing) {
        cut.bytes.splice(at..at, ANNOUNCED.iter().copied());
    }
}

fn difference(one: &Transcript, other: &Transcript) -> Option<String> {
    if one.end != other.end {
        return Some(format!("ended with {:?} instead of {:?}", other.end, one.end));
    }
    if one.bytes == other.bytes {
        return None;
    }
    let same = one.bytes.iter().zip(&other.bytes).take_while(|(a, b)| a == b).count();
    let (expected, found) = (show(&one.bytes[same..], 80), show(&other.bytes[same..], 80));
    Some(format!("after {same} bytes came {found} instead of {expected}"))
}

fn show(bytes: &[u8], max: usize) -> String {
    bytes[..bytes.len().min(max)].escape_ascii().to_string()
}
