//! What `step` is to a client's socket, [`join`] is to an application's: all policy of its input
//! and output, once for all engines that wait for readiness.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use os::epoll::Interest;
use session::Tick;
use upstream::{Call, Downstream, Next};

/// Bytes received at once: whole replies of usual size, and large ones in few calls.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// A connection to a server of an application, and its known readiness. Its socket is an `S`, with
/// what its engine has to know to watch it.
pub(crate) struct Line<S = OwnedFd> {
    pub(crate) socket: S,
    pub(crate) ready: LineReady,
}

/// The known readiness of a connection to a server.
pub(crate) struct LineReady {
    /// Whether the receive queue was empty after the last receive and no event has come since.
    pub(crate) is_drained: bool,
    /// Whether the server has shut its side down, or the connection has failed.
    pub(crate) is_hung_up: bool,
    /// Whether the last send found no room, and no event has come since.
    pub(crate) is_full: bool,
    /// Whether a send has failed: there will be no room any more.
    is_broken: bool,
    /// Whether the connection is still being made.
    pub(crate) is_connecting: bool,
    /// What the call waits for at the socket.
    pub(crate) wanted: Interest,
}

impl<S: AsFd> Line<S> {
    pub(crate) fn new(socket: S) -> Self {
        let ready = LineReady {
            is_drained: false,
            is_hung_up: false,
            is_full: false,
            is_broken: false,
            is_connecting: true,
            wanted: Interest::WRITE,
        };
        Self { socket, ready }
    }

    /// Whether the server has sent something, or closed, although nothing was asked of it.
    pub(crate) fn is_unsound(&self) -> bool {
        !os::socket::is_silent(self.socket.as_fd())
    }
}

impl LineReady {
    fn receive<D: Downstream>(
        &mut self,
        socket: BorrowedFd<'_>,
        call: &mut Call,
        d: &mut D,
        buffer: &mut [u8],
        now: Tick,
    ) -> bool {
        if self.is_drained && !self.is_hung_up {
            return false;
        }
        match os::send::recv(socket, buffer) {
            Ok(0) => call.ended(d),
            Ok(n) => {
                self.is_drained = n < buffer.len();
                call.ingest(d, &buffer[..n], now);
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                (self.is_drained, self.is_hung_up) = (true, false);
                return false;
            }
            Err(_) => call.ended(d),
        }
        true
    }
}

/// Why a call pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    /// It waits for its socket, or for its client.
    Waits,
    /// It is over. Another call may use the connection, or it is to be closed.
    Over { keeps: bool },
    /// It needs another connection.
    Anew,
}

/// Moves bytes between an application and its client's stream until neither end can go on.
pub(crate) fn join<S: AsFd, D: Downstream>(
    line: &mut Line<S>,
    call: &mut Call,
    d: &mut D,
    buffer: &mut [u8],
    now: Tick,
) -> Joint {
    join_at(line.socket.as_fd(), &mut line.ready, call, d, buffer, now)
}

/// Does what [`join`] does: once, whatever is known of the socket besides.
fn join_at<D: Downstream>(
    socket: BorrowedFd<'_>,
    line: &mut LineReady,
    call: &mut Call,
    d: &mut D,
    buffer: &mut [u8],
    now: Tick,
) -> Joint {
    loop {
        let mut receives = false;
        let outcome = match call.next(d, now) {
            Next::Connect | Next::ConnectAnew => return Joint::Anew,
            Next::Over { keeps } => return Joint::Over { keeps: keeps && !line.is_hung_up },
            Next::Wait => {
                line.wanted = Interest::NONE;
                return Joint::Waits;
            }
            Next::EndSending => {
                // It fails if the connection has ended, which is received.
                let _ = os::socket::shutdown_write(socket);
                call.sending_ended();
                continue;
            }
            Next::Recv => {
                receives = true;
                None
            }
            Next::Send(_) if line.is_full => None,
            Next::Send(bytes) => {
                Some(os::send::send(socket, bytes, false).map(|n| (n, bytes.len())))
            }
        };
        let is_sending = outcome.is_some() || line.is_full;
        match outcome {
            Some(Ok((n, len))) => {
                line.is_full = n < len;
                call.sent(n, now);
                continue;
            }
            Some(Err(why)) if why.kind() == io::ErrorKind::WouldBlock => line.is_full = true,
            // A reply may have come before the failure: it is read first.
            Some(Err(_)) => (line.is_full, line.is_broken) = (true, true),
            None => {}
        }
        receives = receives || call.wants_input(d);
        if !(receives && line.receive(socket, call, d, buffer, now)) {
            line.wanted = match (is_sending && !line.is_broken, receives) {
                (true, true) => Interest::READ.with(Interest::WRITE),
                (true, false) => Interest::WRITE,
                (false, true) => Interest::READ,
                (false, false) => Interest::NONE,
            };
            return Joint::Waits;
        }
    }
}
