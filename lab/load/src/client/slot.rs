//! One client: a session under way and its connection.

use std::os::fd::OwnedFd;

use http1::BodySkipper;

use super::timers::NEVER;

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// For a session to take the slot.
    Free,
    /// For the connection to be established.
    Connecting,
    /// For room to send the rest of the request.
    Sending,
    /// For the first byte of a reply.
    Waiting,
    /// For the rest of a reply.
    Receiving,
    /// For the think time to end.
    Thinking,
}

/// How much of a reply has been read.
#[derive(Debug)]
pub(super) enum Reply {
    /// Less than its head.
    Head,
    /// Its head; the end of the body is marked by its framing.
    Framed(BodySkipper),
    /// Its head; the body ends with the connection.
    UntilClose,
}

/// One client: a session under way and its connection. Times are by [`os::clock::now`].
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Option<OwnedFd>,
    pub(super) phase: Phase,
    /// Distinguishes events of this connection from events of the slot's earlier connections.
    pub(super) generation: u32,
    /// The server has closed its side.
    pub(super) peer_closed: bool,
    /// Whether the epoll set reports room to send.
    pub(super) watches_room: bool,
    /// The target of the connection.
    pub(super) target: usize,
    /// When connecting began; once the connection is established, when that was.
    pub(super) connected_us: u64,
    /// Good replies over this connection.
    pub(super) connection_replies: u32,

    /// The number of the session in the whole run.
    pub(super) session: u64,
    /// The request of the session whose reply comes next.
    pub(super) position: u32,
    /// Requests of the session issued so far.
    pub(super) issued: u32,
    /// Good replies of the session.
    pub(super) replies: u32,
    /// When the session should have begun.
    pub(super) session_us: u64,
    /// Whether the session belongs to the measures.
    pub(super) session_measured: bool,
    /// Whether a request of the session has failed.
    pub(super) session_failed: bool,
    /// Whether the connection has failed, and with it the session.
    pub(super) is_broken: bool,

    /// When the requests under way should have been issued.
    pub(super) intended_us: u64,
    /// When the requests under way were issued.
    pub(super) issued_us: u64,
    /// When the first byte of the reply came.
    pub(super) first_byte_us: u64,
    /// Whether the requests under way belong to the measures.
    pub(super) measured: bool,
    /// Whether the requests under way were issued after the end of the window.
    pub(super) is_late: bool,
    pub(super) reply: Reply,
    pub(super) status: u16,
    /// Whether the server keeps the connection after this reply.
    pub(super) keep_alive: bool,
    /// Bytes of the body so far.
    pub(super) body_bytes: u64,

    /// An incomplete head.
    pub(super) held: Vec<u8>,
    /// Bytes that could not be sent at once.
    pub(super) unsent: Vec<u8>,

    /// When the client gives up.
    pub(super) deadline_us: u64,
    /// When the slot's entry among the deadlines comes up.
    pub(super) armed_deadline: u64,
    /// When the slot's entry among the think times comes up.
    pub(super) armed_wake: u64,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            socket: None,
            phase: Phase::Free,
            generation: 0,
            peer_closed: false,
            watches_room: false,
            target: 0,
            connected_us: 0,
            connection_replies: 0,
            session: 0,
            position: 0,
            issued: 0,
            replies: 0,
            session_us: 0,
            session_measured: false,
            session_failed: false,
            is_broken: false,
            intended_us: 0,
            issued_us: 0,
            first_byte_us: 0,
            measured: false,
            is_late: false,
            reply: Reply::Head,
            status: 0,
            keep_alive: true,
            body_bytes: 0,
            held: Vec::new(),
            unsent: Vec::new(),
            deadline_us: NEVER,
            armed_deadline: NEVER,
            armed_wake: NEVER,
        }
    }

    /// Requests issued and not yet answered.
    pub(super) fn in_flight(&self) -> u32 {
        self.issued - self.position
    }

    /// Whether the connection can take another request: it cannot in the middle of a request that
    /// the server has answered before it had all of it.
    pub(super) fn is_usable(&self) -> bool {
        let is_open = self.socket.is_some() && !self.peer_closed;
        is_open && self.keep_alive && self.unsent.is_empty()
    }

    /// Prepares the slot for the next reply.
    pub(super) fn expect_reply(&mut self) {
        self.reply = Reply::Head;
        self.body_bytes = 0;
        self.first_byte_us = 0;
    }
}
