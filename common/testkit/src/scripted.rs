//! A server with scripted behaviour, for testing clients: a closure decides for each request what
//! is sent, when, and how the connection ends; the requests are recorded.
//!
//! The server is not fast, and it speaks correct HTTP only if the script does: a thread for each
//! connection, blocking calls, the loopback interface. It stops when it is dropped, whatever it is
//! doing.

mod connection;
mod reply;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{net::Shutdown, thread};

pub use reply::{Body, Reply};

/// Returns the time in microseconds, from any origin.
pub type Clock = fn() -> u64;

/// One request as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The number of the connection in the order of acceptance, from 0.
    pub connection: usize,
    /// The number of the request on its connection, from 0.
    pub request: usize,
    /// The client's address.
    pub peer: SocketAddr,
    /// When its head was complete, by the server's clock.
    pub at_us: u64,
    /// The first word of the request line.
    pub method: String,
    /// The second word of the request line.
    pub target: String,
    /// The head, blank line included.
    pub head: String,
    /// The body. It is empty when the script is called, which decides whether the body is read.
    pub body: Vec<u8>,
}

/// What the server does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends bytes as they are.
    Send(Vec<u8>),
    /// Sends bytes one by one.
    SendSingly(Vec<u8>),
    /// Does nothing for this long.
    Wait(Duration),
    /// Does nothing until this time by the server's clock.
    WaitUntil(u64),
    /// Does nothing more on this connection until the server is dropped.
    Stall,
    /// Closes the connection in order.
    Close,
    /// Resets the connection; what was sent before still reaches the client.
    Reset,
    /// Leaves the request's body unread, so that a long one gets stuck. This must be the first
    /// action.
    LeaveBody,
    /// Reads the body that was left, and discards it.
    TakeBody,
}

type Script = dyn Fn(&ReceivedRequest) -> Vec<Action> + Send + Sync;

/// The server.
pub struct Scripted {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What the threads of a server share.
struct Shared {
    clock: Clock,
    script: Box<Script>,
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    seen: Vec<ReceivedRequest>,
    peers: Vec<SocketAddr>,
    streams: Vec<Weak<TcpStream>>,
    under_way: usize,
    under_way_max: usize,
}

impl Scripted {
    /// Listens on a free port of 127.0.0.1 and does what `script` says for each request.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn start(
        clock: Clock,
        script: impl Fn(&ReceivedRequest) -> Vec<Action> + Send + Sync + 'static,
    ) -> Self {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let listener = TcpListener::bind(local).expect("a free port of the loopback interface");
        let address = listener.local_addr().expect("it is bound");
        let state = Mutex::new(State::default());
        let shared = Shared { clock, script: Box::new(script), state, stopped: Condvar::new() };
        let shared = Arc::new(shared);
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Answers every request with `reply`.
    #[must_use]
    pub fn always(clock: Clock, reply: &Reply) -> Self {
        let bytes = reply.bytes();
        Self::start(clock, move |_| vec![Action::Send(bytes.clone())])
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far, in the order in which they came.
    #[must_use]
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.state().seen.clone()
    }

    /// The peers of the connections so far, in the order of acceptance.
    #[must_use]
    pub fn connections(&self) -> Vec<SocketAddr> {
        self.shared.state().peers.clone()
    }

    /// The number of connections whose end the server has not seen.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.state().streams.iter().filter(|stream| stream.strong_count() > 0).count()
    }

    /// The largest number of requests under way at a time, each from its arrival until the last of
    /// its actions begins (or ends, if that is a wait): never more than the clients count.
    #[must_use]
    pub fn under_way_max(&self) -> usize {
        self.shared.state().under_way_max
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let streams = {
            let mut state = self.shared.state();
            state.is_stopping = true;
            std::mem::take(&mut state.streams)
        };
        self.shared.stopped.notify_all();
        for stream in streams.iter().filter_map(Weak::upgrade) {
            // The connection may be closed already, which is the aim.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The acceptor waits for a connection: this is one. If none can be made, the acceptor does
        // not wait.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(20));
        if let Some(acceptor) = self.acceptor.take()
            && acceptor.join().is_err()
            && !thread::panicking()
        {
            panic!("a script has panicked");
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `length`, or without one for ever. False if the server is to end.
    fn wait(&self, length: Option<Duration>) -> bool {
        let state = self.state();
        let goes_on = |state: &mut State| !state.is_stopping;
        match length {
            None => {
                drop(self.stopped.wait_while(state, goes_on));
                false
            }
            Some(length) => {
                let waited = self.stopped.wait_timeout_while(state, length, goes_on);
                waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
            }
        }
    }
}

/// Takes connections until the server ends, then waits for all of them to end.
fn accept(listener: &TcpListener, shared: &Shared) {
    thread::scope(|scope| {
        loop {
            let accepted = listener.accept();
            let mut state = shared.state();
            if state.is_stopping {
                return;
            }
            // The client has gone again, or there is no descriptor: the next connection may
            // succeed.
            let Ok((stream, peer)) = accepted else { continue };
            let stream = Arc::new(stream);
            let number = state.peers.len();
            state.peers.push(peer);
            state.streams.push(Arc::downgrade(&stream));
            drop(state);
            scope.spawn(move || connection::serve(shared, stream, peer, number));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};

    fn still() -> u64 {
        0
    }

    /// How long nothing comes on a connection that stays open.
    const SILENCE: Duration = Duration::from_millis(200);

    /// The response to two requests in one packet, and how the connection ends. The response has
    /// `bytes` bytes at least; only where the connection is left open it is not waited for its end.
    fn exchange(
        actions: &[Action],
        bytes: usize,
        is_left_open: bool,
    ) -> (Vec<u8>, Result<(), ErrorKind>, Vec<ReceivedRequest>) {
        let actions = actions.to_vec();
        let server = Scripted::start(still, move |_| actions.clone());
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let requests = b"GET /a HTTP/1.1\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz";
        stream.write_all(requests).unwrap();
        let mut got = vec![0; bytes];
        stream.read_exact(&mut got).unwrap();
        stream.set_read_timeout(is_left_open.then_some(SILENCE)).unwrap();
        let end = stream.read_to_end(&mut got).map(|_| ()).map_err(|why| why.kind());
        (got, end, server.requests())
    }

    #[test]
    fn both_requests_are_answered_and_seen() {
        let (got, end, seen) = exchange(&[Action::Send(b"x".into())], 2, true);
        assert_eq!((&*got, end), (&b"xx"[..], Err(ErrorKind::WouldBlock)));
        let seen: Vec<_> = seen.iter().map(|asked| (&*asked.target, &*asked.body)).collect();
        assert_eq!(seen, [("/a", &b""[..]), ("/b", b"xyz")]);
    }

    #[test]
    fn connections_end_as_the_script_says() {
        let x = || Action::Send(b"x".into());
        let check = |actions: &[Action], end| {
            let is_left_open = end == Err(ErrorKind::WouldBlock);
            let (got, ended, seen) = exchange(actions, 1, is_left_open);
            assert_eq!((&*got, ended, seen.len()), (&b"x"[..], end, 1), "{actions:?}");
        };
        check(&[x(), Action::Close], Ok(()));
        check(&[x(), Action::Reset], Err(ErrorKind::ConnectionReset));
        check(&[x(), Action::Stall], Err(ErrorKind::WouldBlock));
    }
}
