//! The control socket, at which `ropewalk ctl` asks a server that runs: for its status, or to
//! change.
//!
//! A request is its words, each followed by a zero byte, up to the end of the stream; the answer is
//! lines of text, and then a zero byte and the exit status as a digit. A thread reads what a client
//! asks, so that a slow one delays no other, and the server answers one request at a time, each
//! when it has been carried out. The socket is in a folder that no other user can enter.
//!
//! Processes of root and of the server's user may ask, but none of the server's own, or of the
//! server before it: these serve clients, and must have no say in how. That is decided when a
//! client is accepted, before anything of it is read, by the process that has connected: one whose
//! descent cannot be found out is refused, if it is not root's.

mod place;

use std::convert::Infallible;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use os::event::Wake;
use os::process::{Identity, Peer};

use crate::report;

pub use place::{Found, find};

/// The longest request: a configuration key for each word.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// The number of clients at a time; others wait at the socket.
const CLIENTS_MAX: usize = 8;

/// How long a client may take to send all of its request, or to take all of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// What it serves, where and how, and its counts.
    Status,
    /// To read its configuration again.
    Reload,
    /// To serve with these settings in addition: `engine.name=fibers`.
    Change(Vec<String>),
    /// To start its program again, which serves in its place.
    Upgrade,
    /// To end as after SIGTERM.
    Drain,
}

impl Asked {
    const CHANGE: &str = "change";

    /// What is asked without more words.
    fn alone() -> [(&'static str, Self); 4] {
        [
            ("status", Self::Status),
            ("reload", Self::Reload),
            ("upgrade", Self::Upgrade),
            ("drain", Self::Drain),
        ]
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Change(settings) => {
                [Self::CHANGE.to_owned()].into_iter().chain(settings.iter().cloned()).collect()
            }
            alone => {
                let found = Self::alone().into_iter().filter(|(_, asked)| asked == alone);
                found.map(|(name, _)| name.to_owned()).collect()
            }
        }
    }

    fn from_words(words: &[String]) -> Option<Self> {
        let (first, more) = words.split_first()?;
        if first == Self::CHANGE && !more.is_empty() {
            return Some(Self::Change(more.to_vec()));
        }
        let found = Self::alone().into_iter().find(|(name, _)| name == first);
        found.map(|(_, asked)| asked).filter(|_| more.is_empty())
    }
}

/// What a server answers to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What there is to tell, a line each.
    pub lines: Vec<String>,
    /// 0: it was done; 1: it could not be done; 2: a mistake in the request or the configuration.
    pub status: u8,
}

impl Answer {
    pub(crate) fn done(lines: Vec<String>) -> Self {
        Self { lines, status: 0 }
    }

    pub(crate) fn failed(why: String, status: u8) -> Self {
        Self { lines: vec![why], status }
    }
}

/// A request that waits for its answer.
pub(crate) struct Request {
    pub(crate) asked: Asked,
    answer: SyncSender<Answer>,
    /// Disconnected when the answer has been written.
    written: Receiver<Infallible>,
}

impl Request {
    /// Answers, and waits until that is written: the server may end after it.
    pub(crate) fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer); // its client may have gone
        let _ = self.written.recv_timeout(PATIENCE); // never anything but the end
    }
}

/// The control socket of a server. It goes with this.
pub(crate) struct Control {
    path: PathBuf,
    listener: UnixListener,
    pass_on: Sender<Request>,
    requests: Receiver<Request>,
    /// Ends the wait of the server when there is a request, or one client less.
    wake: Arc<Wake>,
    clients: Arc<AtomicUsize>,
    /// This server and those before it: a process that descends from one may not ask.
    servers: Vec<Identity>,
}

impl Control {
    /// Opens the socket in the folder of this user's servers. `wake` is notified of each request.
    /// `former` are the servers in whose place this one has come.
    ///
    /// # Errors
    /// One line: why there is none.
    pub(crate) fn open(wake: Arc<Wake>, former: &[Identity]) -> Result<Self, String> {
        let path = place::own().map_err(|why| format!("no control socket: {why}"))?;
        let failed = |why: io::Error| format!("no control socket at {}: {why}", path.display());
        let listener = UnixListener::bind(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (pass_on, requests) = channel();
        let own = Identity::of(std::process::id());
        let servers = own.into_iter().chain(former.iter().copied()).collect();
        Ok(Self { path, listener, pass_on, requests, wake, clients: Arc::default(), servers })
    }

    /// Has threads read what clients ask that wait at the socket, and refuses those who may not.
    pub(crate) fn accept(&self) {
        /// So many before the server does something else.
        const AT_ONCE: usize = 64;
        for _ in 0..AT_ONCE {
            if self.clients.load(Ordering::Acquire) >= CLIENTS_MAX {
                return;
            }
            let Ok((client, _)) = self.listener.accept() else { return };
            match self.check(&client) {
                Ok(()) => self.begin(client),
                Err(why) => refuse(&client, why),
            }
        }
        self.wake.notify();
    }

    /// Whether the process that has connected may ask.
    fn check(&self, client: &UnixStream) -> Result<(), &'static str> {
        let peer = Peer::of(client.as_fd()).map_err(|_| "it is not known who asks")?;
        let own = os::process::user_id();
        check(peer, own, &self.servers)?;
        match peer.user == own && Peer::has_ended(client.as_fd()) == Some(true) {
            true => Err(UNSEEN), // what was seen may have been another with its number
            false => Ok(()),
        }
    }

    /// Has a thread read what a client asks.
    fn begin(&self, client: UnixStream) {
        let (pass_on, wake) = (self.pass_on.clone(), Arc::clone(&self.wake));
        let clients = Arc::clone(&self.clients);
        clients.fetch_add(1, Ordering::AcqRel);
        let serve = move || {
            if let Err(why) = serve(&client, &pass_on, &wake) {
                report(&format!("control socket: {why}"));
            }
            clients.fetch_sub(1, Ordering::AcqRel);
            wake.notify();
        };
        if let Err(why) = thread::Builder::new().name("control".into()).spawn(serve) {
            self.clients.fetch_sub(1, Ordering::AcqRel);
            report(&format!("control socket: {why}"));
        }
    }

    /// The next request, if there is one.
    pub(crate) fn next(&self) -> Option<Request> {
        self.requests.try_recv().ok()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // it may have been removed already
        place::remove_if_empty(&self.path);
    }
}

/// Has one request answered.
fn serve(client: &UnixStream, pass_on: &Sender<Request>, wake: &Wake) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let (writing, written) = channel();
    let words = read_words(Timed::new(client))?;
    if words.as_ref().is_some_and(Vec::is_empty) {
        return Ok(()); // it has looked whether a server listens
    }
    let asked = words.and_then(|words| Asked::from_words(&words));
    let answer = match asked {
        None => Answer::failed("this server does not know the request".into(), 2),
        Some(asked) => {
            let (answer, answered) = sync_channel(1);
            let ended = || io::Error::other("the server ends");
            pass_on.send(Request { asked, answer, written }).map_err(|_| ended())?;
            wake.notify();
            answered.recv().map_err(|_| ended())?
        }
    };
    // The client may have gone.
    let outcome = write_answer(Timed::new(client), &answer);
    drop(writing);
    outcome.or_else(|why| match why.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(why),
    })
}

/// Why a process may not ask of which nothing is known.
const UNSEEN: &str = "a process that /proc does not show may not control it";

/// Whether this process may ask a server of the user `own`.
fn check(peer: Peer, own: u32, servers: &[Identity]) -> Result<(), &'static str> {
    match peer.user {
        user if user == own => {}
        0 => return Ok(()), // even where /proc shows root's processes to no other user
        _ => return Err("only root and the user of the server may control it"),
    }
    match peer.process.and_then(|process| os::process::descends_from(process, servers)) {
        Some(false) => Ok(()),
        Some(true) => Err("a process of the server may not control it"),
        None => Err(UNSEEN),
    }
}

/// Refuses a client of which nothing is read.
fn refuse(client: &UnixStream, why: &str) {
    // There is room for a line, unless the client has gone.
    let _ = client.set_nonblocking(true);
    let _ = write_answer(client, &Answer::failed(why.into(), 1));
}

/// Reads the words of a request; none if they are too many, not whole, or no text.
fn read_words(client: impl Read) -> io::Result<Option<Vec<String>>> {
    let mut bytes = Vec::new();
    client.take(REQUEST_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 <= REQUEST_BYTES_MAX;
    let Some((last, sent)) = bytes.split_last() else { return Ok(Some(Vec::new())) };
    let words = sent.split(|byte| *byte == 0).map(|word| String::from_utf8(word.to_vec()));
    Ok(words.collect::<Result<_, _>>().ok().filter(|_| is_whole && *last == 0))
}

fn write_answer(mut client: impl Write, answer: &Answer) -> io::Result<()> {
    let lines: String = answer.lines.iter().map(|line| format!("{line}\n")).collect();
    client.write_all(format!("{lines}\0{}", answer.status).as_bytes())
}

/// A client that has a time until which all of its bytes must have come, or been taken.
struct Timed<'s> {
    stream: &'s UnixStream,
    until_us: u64,
}

impl<'s> Timed<'s> {
    fn new(stream: &'s UnixStream) -> Self {
        Self { stream, until_us: os::clock::now() + PATIENCE.as_micros() as u64 }
    }

    /// What is left of the time.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until_us.saturating_sub(os::clock::now()) {
            0 => Err(io::ErrorKind::TimedOut.into()),
            us => Ok(Some(Duration::from_micros(us))),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Asks the server at this socket.
///
/// # Errors
/// There is no server, or it does not answer.
pub fn ask(socket: &Path, asked: &Asked) -> io::Result<Answer> {
    let mut server = UnixStream::connect(socket)?;
    let request: String = asked.words().iter().map(|word| format!("{word}\0")).collect();
    // A server that refuses closes without a look at the request.
    let sent = server.write_all(request.as_bytes());
    let sent = sent.and_then(|()| server.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let read = server.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is not whole");
    let Some((lines, status)) = answer.rsplit_once('\0') else {
        return Err(sent.err().or(read.err()).unwrap_or_else(broken));
    };
    let status = status.parse().map_err(|_| broken())?;
    Ok(Answer { lines: lines.lines().map(str::to_owned).collect(), status })
}

#[cfg(test)]
mod tests;
