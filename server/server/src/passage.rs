//! The passage of connections from one process to another: each at rest, as bytes
//! ([`Connection::pack`]), with its socket beside them, on a socket that keeps messages apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use engines::{Handed, Heir};
use os::errors::Cause;
use os::event::Wake;
use os::passing;
use os::poll::PollSet;
use os::socket::{Readiness, wait_ready};
use session::{Connection, Limits, Tick};

use crate::report;
use crate::stop_deadline::StopDeadline;

/// The first byte of a message that is a connection.
const CONNECTION: u8 = b'c';

/// The longest message: an address takes the most of it.
const MESSAGE_BYTES_MAX: usize = 128;

/// The messages that are taken before their receiver does something else.
const MESSAGES_AT_A_TIME: usize = 256;

/// The room for messages on their way at a socket.
const ROOM_BYTES: usize = 64 * 1024;

/// How many connections may wait to be sent before those who give them are to wait.
const ROOM: usize = 32;

/// How long the other side may take to take connections after a passage was closed: the thread that
/// ends it waits so long at most.
const TAKE_US: u64 = 2_000_000;

/// The pause after which a connection is sent, or taken, again for which there was no room.
pub(crate) const PAUSE_MS: u32 = 5;

/// Two sockets, of which the second has room for many messages.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    passing::message_pair(ROOM_BYTES)
}

/// A passage on which connections are sent, by a thread of its own: who gives one does not wait.
///
/// What a process has not received when it ends still has an owner: the supervisor, which starts
/// another in its place, has the other end of its socket as well, and a server that was followed
/// has [`FarEnd`]. So nothing need be acknowledged. Such a server goes on with what comes back if
/// its workers still take connections; otherwise it closes that, and says so.
pub(crate) struct Passage {
    way: Arc<Way>,
    thread: JoinHandle<()>,
}

/// The other end of a passage to a process that no supervisor replaces.
pub(crate) struct FarEnd {
    /// A copy of that process's own.
    pub(crate) socket: OwnedFd,
    /// Can be read when the process has ended.
    pub(crate) ended: OwnedFd,
    /// The bounds of connections that come back.
    pub(crate) limits: Limits,
}

impl FarEnd {
    fn has_ended(&self) -> bool {
        wait_ready(self.ended.as_fd(), Readiness::Readable, 0).unwrap_or(true)
    }
}

/// A connection on its way: the message, and the socket.
type Packed = (Vec<u8>, OwnedFd);

/// The heir of those whose connections are sent.
struct Way {
    /// None when no more is sent.
    sender: Mutex<Option<Sender<Packed>>>,
    sockets: Arc<[OwnedFd]>,
    far_end: Option<FarEnd>,
    /// The number of connections that are open in this process.
    open: Arc<AtomicUsize>,
    flow: Arc<Flow>,
}

/// What the thread that sends shares with those who give.
struct Flow {
    /// The number of connections that were taken and are not sent.
    waiting: AtomicUsize,
    /// Until when the other side is waited for.
    until_us: AtomicU64,
}

impl Passage {
    /// A passage to the processes that receive at the other ends of these sockets, in turn. If that
    /// is one process that no supervisor replaces, its end is the `far_end`. When the passage was
    /// closed and all is sent, `ended` is called. `open` is the number of connections that are open
    /// in this process.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        sockets: Vec<OwnedFd>,
        far_end: Option<FarEnd>,
        open: Arc<AtomicUsize>,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let flow = Flow { waiting: AtomicUsize::new(0), until_us: AtomicU64::new(u64::MAX) };
        let flow = Arc::new(flow);
        let sockets: Arc<[OwnedFd]> = sockets.into();
        let (shared, used) = (Arc::clone(&flow), Arc::clone(&sockets));
        let pass = move || {
            pass_connections(&used, &receiver, &shared);
            drop(used);
            ended();
        };
        let thread = thread::Builder::new().name("passage".into()).spawn(pass)?;
        let way = Way { sender: Mutex::new(Some(sender)), sockets, far_end, open, flow };
        Ok(Self { way: Arc::new(way), thread })
    }

    /// Who takes the connections.
    pub(crate) fn heir(&self) -> Arc<dyn Heir> {
        Arc::clone(&self.way) as Arc<dyn Heir>
    }

    /// Whether the other side takes no more.
    pub(crate) fn is_over(&self) -> bool {
        self.way.is_over()
    }

    /// Has one of these heirs go on with what a process that has ended has not received. What none
    /// takes is closed, with a line that says how many those are.
    pub(crate) fn take_back(&self, heirs: &[Arc<dyn Heir>]) {
        if let Some(far_end) = self.way.far_end.as_ref().filter(|it| it.has_ended()) {
            let mut landing = Landing::new(far_end.limits.clone(), Arc::clone(&self.way.open));
            landing.take_all(far_end.socket.as_fd(), heirs);
        }
    }

    /// Whether none of those that were taken wait any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.way.waiting() == 0
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        drop(self.way.sender().take());
        self.way.flow.until_us.fetch_min(os::clock::now() + TAKE_US, Ordering::Relaxed);
    }

    /// Takes no more, and waits until all that were taken are sent, or until the `deadline`.
    pub(crate) fn end_by(self, deadline: &mut StopDeadline<'_>) {
        drop(self.way.sender().take());
        while !self.thread.is_finished() && !deadline.has_passed() {
            self.take_back(&[]);
        }
        self.take_back(&[]);
        self.end();
    }

    /// Takes no more, and waits until all that were taken are sent.
    pub(crate) fn end(self) {
        self.close();
        let _ = self.thread.join(); // its panic has been printed
    }
}

impl Way {
    /// The other side sends nothing: what can be received is the end.
    fn is_over(&self) -> bool {
        let is_ended = |socket: &OwnedFd| wait_ready(socket.as_fd(), Readiness::Readable, 0);
        self.far_end.as_ref().is_some_and(FarEnd::has_ended)
            || self.sockets.iter().all(|socket| is_ended(socket).unwrap_or(false))
    }

    fn waiting(&self) -> usize {
        self.flow.waiting.load(Ordering::Relaxed)
    }

    fn sender(&self) -> MutexGuard<'_, Option<Sender<Packed>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heir for Way {
    fn may_take(&self, connection: &Connection) -> bool {
        connection.is_at_rest()
    }

    fn has_room(&self) -> bool {
        let is_ready = |socket: &OwnedFd| wait_ready(socket.as_fd(), Readiness::Writable, 0);
        self.waiting() < ROOM && self.sockets.iter().any(|it| is_ready(it).unwrap_or(true))
    }

    fn take(&self, release: &mut dyn FnMut() -> Handed) -> bool {
        let sender = self.sender();
        let Some(sender) = sender.as_ref() else { return false };
        if self.is_over() {
            return false;
        }
        let Handed { connection, socket } = release();
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.flow.waiting.fetch_add(1, Ordering::Relaxed);
        let packed = connection.pack(Tick(os::clock::now()));
        let packed = packed.expect("only those are taken that rest");
        sender.send(([&[CONNECTION], &packed[..]].concat(), socket)).is_ok()
    }
}

/// Sends what comes until no more is given, at these sockets in turn.
fn pass_connections(sockets: &[OwnedFd], connections: &Receiver<Packed>, flow: &Flow) {
    let mut lost = 0;
    for (number, (message, connection)) in connections.iter().enumerate() {
        let sockets = sockets.iter().cycle().skip(number % sockets.len()).take(sockets.len());
        let sockets: Vec<BorrowedFd<'_>> = sockets.map(OwnedFd::as_fd).collect();
        lost += u64::from(send(&sockets, &message, connection.as_fd(), &flow.until_us).is_err());
        flow.waiting.fetch_sub(1, Ordering::Relaxed);
    }
    if lost > 0 {
        report(&format!("{lost} connections are closed: no other process takes them"));
    }
}

/// Sends a message at the first of these sockets that has room for it, for which it waits.
fn send(
    sockets: &[BorrowedFd<'_>],
    message: &[u8],
    connection: BorrowedFd<'_>,
    until_us: &AtomicU64,
) -> io::Result<()> {
    loop {
        let (mut are_too_many, mut broken) = (false, Vec::new());
        for socket in sockets {
            match passing::send_with(*socket, message, Some(connection)) {
                Ok(_) => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) if Cause::from_error(&why) == Cause::TooManyPassed => are_too_many = true,
                Err(why) => broken.push(why),
            }
        }
        match are_too_many {
            _ if broken.len() == sockets.len() => return Err(broken.swap_remove(0)),
            _ if os::clock::now() >= until_us.load(Ordering::Relaxed) => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            true => pause()?,
            false => drop(wait_ready(sockets[0], Readiness::Writable, PAUSE_MS.into())?),
        }
    }
}

/// Waits for as long as it takes until there may be room.
pub(crate) fn pause() -> io::Result<()> {
    PollSet::new().wait(&mut Vec::new(), 1, Some(PAUSE_MS))
}

/// Takes the connections that come by a passage, as long as there is room for them. Others stay in
/// its socket.
pub(crate) struct Landing {
    limits: Limits,
    /// The number of connections that are open in this process.
    open: Arc<AtomicUsize>,
    /// A descriptor that is closed for the next connection: one for which there is none would be
    /// lost. None if there is none now.
    reserve: Option<Wake>,
}

/// What is to be expected of a passage from which all was taken that could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// More may come: the other side is there.
    MayCome,
    /// There was no room for what may have come, or no time.
    NoRoom,
    /// The other side has gone.
    Over,
}

impl Landing {
    pub(crate) fn new(limits: Limits, open: Arc<AtomicUsize>) -> Self {
        Self { limits, open, reserve: Wake::new().ok() }
    }

    /// Has the first of the heirs that does take each connection that has come, if one of them has
    /// room. Does not wait.
    pub(crate) fn take_all(&mut self, socket: BorrowedFd<'_>, heirs: &[Arc<dyn Heir>]) -> Outlook {
        let (mut lost, mut count, mut buffer) = (0, 0, [0; MESSAGE_BYTES_MAX]);
        let outlook = loop {
            if count == MESSAGES_AT_A_TIME || !self.has_room(heirs) {
                break Outlook::NoRoom;
            }
            count += 1;
            self.reserve = None;
            match passing::receive_with(socket, &mut buffer) {
                Ok((0, _)) => break Outlook::Over,
                Ok((bytes, passed)) => {
                    lost += u64::from(!self.take(&buffer[..bytes], passed, heirs));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break Outlook::MayCome,
                Err(_) => break Outlook::Over,
            }
        };
        self.hold_reserve();
        if lost > 0 {
            report(&format!("{lost} connections of another process could not be taken"));
        }
        outlook
    }

    /// Whether a connection may be received. Without heirs it may: it is closed.
    fn has_room(&mut self, heirs: &[Arc<dyn Heir>]) -> bool {
        self.hold_reserve();
        let has_room = |heir: &Arc<dyn Heir>| heir.has_room() && !heir.is_full();
        self.reserve.is_some() && (heirs.is_empty() || heirs.iter().any(has_room))
    }

    fn hold_reserve(&mut self) {
        self.reserve = self.reserve.take().or_else(|| Wake::new().ok());
    }

    /// Has the first of the heirs that does take a connection. Returns whether one does.
    fn take(&self, message: &[u8], socket: Option<OwnedFd>, heirs: &[Arc<dyn Heir>]) -> bool {
        let (Some(socket), [CONNECTION, packed @ ..]) = (socket, message) else { return false };
        let now = Tick(os::clock::now());
        let Some(connection) = Connection::unpack(packed, now, &self.limits) else { return false };
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut handed = Some(Handed { connection, socket });
        let mut release = || handed.take().expect("it is taken once");
        let is_taken = heirs.iter().any(|heir| heir.take(&mut release));
        if !is_taken {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::slice;

    use super::*;

    /// A connection at rest, as bytes: its form, its state, requests, the time left, and its peer.
    const PACKED: &[u8] = b"\x01\x01\0\0\0\0\x40\x42\x0f\0\0\0\0\x00127.0.0.1:7";

    /// An heir that keeps what it takes, and no more than that many.
    struct Keeper(Mutex<Vec<Handed>>, usize);

    impl Default for Keeper {
        fn default() -> Self {
            Self(Mutex::default(), usize::MAX)
        }
    }

    impl Heir for Keeper {
        fn is_full(&self) -> bool {
            self.0.lock().unwrap().len() == self.1
        }

        fn take(&self, release: &mut dyn FnMut() -> Handed) -> bool {
            self.0.lock().unwrap().push(release());
            true
        }
    }

    fn handed(socket: UnixStream) -> Handed {
        let connection = Connection::unpack(PACKED, Tick(1), &Limits::default()).unwrap();
        Handed { connection, socket: socket.into() }
    }

    /// Gives a connection to a passage, and returns its other end.
    fn give(passage: &Passage) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut theirs = Some(theirs);
        assert!(passage.heir().take(&mut || handed(theirs.take().unwrap())));
        ours
    }

    fn landing(open: &Arc<AtomicUsize>) -> Landing {
        Landing::new(Limits::default(), Arc::clone(open))
    }

    /// The number of connections that have come.
    fn come(socket: &OwnedFd) -> usize {
        let keeper = Arc::new(Keeper::default());
        let heir: Arc<dyn Heir> = keeper.clone();
        landing(&Arc::default()).take_all(socket.as_fd(), slice::from_ref(&heir));
        keeper.0.lock().unwrap().len()
    }

    #[test]
    fn connections_pass_in_turn_and_are_counted() {
        let ways = [pair().unwrap(), pair().unwrap()];
        let sockets = ways.iter().map(|(near, _)| near.try_clone().unwrap()).collect();
        let left = Arc::new(AtomicUsize::new(4));
        let (sender, over) = mpsc::channel();
        let passage =
            Passage::start(sockets, None, Arc::clone(&left), move || sender.send(()).unwrap())
                .unwrap();
        let clients: Vec<UnixStream> = (0..4).map(|_| give(&passage)).collect();
        let way = passage.heir();
        passage.end();
        over.recv().unwrap();
        assert!(!way.take(&mut || unreachable!("it is closed")));
        assert_eq!(left.load(Ordering::Relaxed), 0);
        for (_, far) in &ways {
            let (keeper, open) = (Arc::new(Keeper::default()), Arc::default());
            let heir: Arc<dyn Heir> = keeper.clone();
            let outlook = landing(&open).take_all(far.as_fd(), slice::from_ref(&heir));
            assert_eq!(outlook, Outlook::MayCome);
            let kept = keeper.0.lock().unwrap();
            assert_eq!((kept.len(), open.load(Ordering::Relaxed)), (2, 2));
            assert!(kept.iter().all(|kept| kept.connection.peer().port() == 7));
        }
        drop(clients);
    }

    #[test]
    fn what_has_no_room_at_one_socket_goes_to_another() {
        let ways = [pair().unwrap(), pair().unwrap()];
        while passing::send_with(ways[0].0.as_fd(), b"?", None).is_ok() {}
        let sockets = ways.iter().map(|(near, _)| near.try_clone().unwrap()).collect();
        let passage = Passage::start(sockets, None, Arc::default(), || ()).unwrap();
        let _clients = [give(&passage), give(&passage)];
        passage.end();
        assert_eq!(ways.each_ref().map(|(_, far)| come(far)), [0, 2]);
    }

    #[test]
    fn what_cannot_be_taken_is_closed() {
        let (near, far) = pair().unwrap();
        let (mut client, theirs) = UnixStream::pair().unwrap();
        let message = [&[CONNECTION], PACKED].concat();
        let socket = theirs.as_fd();
        for (message, socket) in [
            (&message[..], None),
            (&message[..4], Some(socket)),
            (PACKED, Some(socket)),
            (&[&message[..], b"?"].concat(), Some(socket)),
        ] {
            passing::send_with(near.as_fd(), message, socket).unwrap();
        }
        assert_eq!(come(&far), 0);
        passing::send_with(near.as_fd(), &message, Some(socket)).unwrap();
        drop(theirs);
        let open = Arc::default();
        let take_all = || landing(&open).take_all(far.as_fd(), &[]);
        assert_eq!(take_all(), Outlook::MayCome, "there is no heir to take it");
        assert_eq!(open.load(Ordering::Relaxed), 0);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop(near);
        assert_eq!(take_all(), Outlook::Over);
    }

    /// Those who give keep theirs meanwhile, and what was given is not closed.
    #[test]
    fn what_there_is_no_room_for_waits() {
        let (near, far) = pair().unwrap();
        let passage = Passage::start(vec![near], None, Arc::default(), || ()).unwrap();
        let mut clients = Vec::new();
        testkit::wait_until(|| {
            clients.push(give(&passage));
            !passage.heir().has_room()
        });
        let keeper = Arc::new(Keeper(Mutex::default(), 3));
        let heir: Arc<dyn Heir> = keeper.clone();
        let mut landing = landing(&Arc::default());
        let mut take_all = || landing.take_all(far.as_fd(), slice::from_ref(&heir));
        assert_eq!((take_all(), take_all()), (Outlook::NoRoom, Outlook::NoRoom));
        let taken = || std::mem::take(&mut *keeper.0.lock().unwrap());
        assert_eq!(taken().len(), 3);
        let mut count = 3;
        testkit::wait_until(|| {
            take_all();
            count += taken().len();
            count == clients.len()
        });
        assert!(passage.heir().has_room());
    }
}
