//! One client: a session under way and the connection it uses.

use std::os::fd::OwnedFd;

use http1::BodySkipper;

use super::timers::NEVER;

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// For a session to take it.
    Free,
    /// For the connection to be made.
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
    /// Its head; the body has an end of its own.
    Framed(BodySkipper),
    /// Its head; the body ends with the connection.
    UntilClose,
}

/// One client: a session under way and the connection it uses. Times are of [`os::clock::now`].
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Option<OwnedFd>,
    pub(super) phase: Phase,
    /// Tells events of this connection from those of the slot's earlier ones.
    pub(super) generation: u32,
    /// The server has closed its side.
    pub(super) peer_closed: bool,
    /// Whether the epoll set tells of room to send.
    pub(super) watches_room: bool,
    /// Where the connection leads.
    pub(super) target: usize,
    /// When connecting began, then when the connection was made.
    pub(super) connected_us: u64,
    /// Good replies over this connection.
    pub(super) connection_replies: u32,

    /// The number of the session in the whole run.
    pub(super) session: u64,
    /// The request of the session whose reply comes next.
    pub(super) position: u32,
    /// Requests of the session issued so far.
    pub(super) issued: u32,
    /// Replies of the session, good ones.
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
    /// When they were.
    pub(super) issued_us: u64,
    /// When the first byte of the reply came.
    pub(super) first_byte_us: u64,
    /// Whether they belong to the measures.
    pub(super) measured: bool,
    /// Whether they were issued when the window had ended.
    pub(super) is_late: bool,
    pub(super) reply: Reply,
    pub(super) status: u16,
    /// Whether the server keeps the connection after this reply.
    pub(super) keep_alive: bool,
    /// Bytes of the body so far.
    pub(super) body_bytes: u64,

    /// An incomplete head.
    pub(super) held: Vec<u8>,
    /// What could not be sent at once.
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

    /// Whether the connection can take another request: not in the middle of one that the server
    /// has answered before it had all of it.
    pub(super) fn is_usable(&self) -> bool {
        let is_open = self.socket.is_some() && !self.peer_closed;
        is_open && self.keep_alive && self.unsent.is_empty()
    }

    /// Ready for the next reply.
    pub(super) fn expect_reply(&mut self) {
        self.reply = Reply::Head;
        self.body_bytes = 0;
        self.first_byte_us = 0;
    }
}
