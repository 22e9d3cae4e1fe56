//! How the connections of a ring go to another engine, and how it goes on with those of others.
//!
//! A receive that is under way takes bytes out of the socket, so it has to end first: it is
//! cancelled, and what it brought is taken in. Sends end by themselves. After that nothing of the
//! ring uses the socket but waits for events, which change nothing: it is duplicated, because these
//! hold it for a moment longer.

use std::os::fd::{AsFd, OwnedFd};

use super::ring_loop::RingLoop;
use super::socket::RingSocket;
use crate::engine::Handed;
use crate::orders::Order;
use crate::parts::accept::admission::accept_all;
use crate::parts::loops::connections::NO_UPSTREAM;

impl RingLoop {
    /// Leaves the listeners to others, who accept there already. Returns false if that takes
    /// another turn: accepts have to end, and connections that wait in a queue need a place. Those
    /// that were accepted without one have it now: no other worker can take them.
    pub(super) fn leave_listeners(&mut self) -> bool {
        self.is_accepting = false;
        if !self.accepting.disarm(&mut self.ring) {
            return false;
        }
        let waiting = std::mem::take(&mut self.accepting.waiting);
        waiting.into_iter().for_each(|socket| self.welcome(socket));
        let is_left = accept_all(self);
        if is_left {
            self.accepting.close();
        }
        is_left
    }

    /// Gives a connection to another engine, if it can be moved now. Returns whether it has gone.
    #[cold]
    #[inline(never)]
    pub(super) fn gives(&mut self, key: u64) -> bool {
        let Some(slot) = self.connections.get(key) else { return true };
        let Some(heir) = self.shared.heir() else {
            slot.connection.end_with_next();
            return false;
        };
        let is_movable = slot.upstream == NO_UPSTREAM && heir.may_take(&slot.connection);
        let is_sending = slot.socket.is_sending_bytes();
        if !is_movable || is_sending || slot.socket.cancel_receive(&mut self.ring) {
            return false;
        }
        // Without a descriptor it stays, and is tried again.
        let Ok(ordinary) = self.ring.ordinary(&slot.socket.descriptor) else { return false };
        let Ok(socket) = ordinary.try_clone_to_owned() else { return false };
        let mut socket = Some(socket);
        heir.take(&mut || self.release(key, socket.take().expect("it is released once")))
    }

    /// Lets go of a connection that others go on with, on a duplicate of its socket.
    fn release(&mut self, key: u64, socket: OwnedFd) -> Handed {
        let mut slot = self.connections.remove(key).expect("a connection is released once");
        self.work.forget(key, &mut slot);
        self.excess_bytes -= slot.socket.take_excess();
        self.ends.remove(&key).into_iter().for_each(|end| self.ring.cancel(end));
        slot.socket.hang_up(&mut self.ring);
        self.worker.counters.connections_open.subtract(1);
        let mut connection = slot.connection;
        if let Ok(peer) = os::socket::peer_addr(socket.as_fd()) {
            connection.set_peer(peer); // the ring may not have asked for it
        }
        Handed { connection, socket }
    }

    /// Goes on with the connections that come from another engine.
    #[cold]
    #[inline(never)]
    pub(super) fn adopt_all(&mut self) {
        for Handed { mut connection, socket } in self.shared.inboxes.take(self.index) {
            self.worker.counters.connections_open.add(1);
            if self.obeyed.is_draining {
                connection.drain();
            }
            let key = self.connections.welcome(connection, RingSocket::new(socket.into()));
            match self.shared.orders.is_issued(Order::Abort) {
                true => self.close(key),
                false => self.drive(key),
            }
        }
    }
}
