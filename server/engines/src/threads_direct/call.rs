//! A request that an application answers, in the conversation with its client: the thread moves
//! bytes between both sockets, and poll(2) waits for either. Neither is waited for in a call that
//! sends or receives.

use std::io;

use os::socket::Awaited;
use session::{Prepared, Reply, StreamRef, Worker};
use upstream::Call;

use super::conversation::{Conversation, End, Pace};
use super::input::Input;
use crate::parts::applications::driven_call::{CallClient, DrivenCall, Progress, Unwatched};
use crate::parts::kernel_threads::blocking::{thread_waker, wait_for_either, wait_for_place};

/// The client of a call: its stream is the reply's.
struct ReplyClient<'c> {
    reply: &'c mut Reply,
    worker: &'c mut Worker,
}

impl CallClient for ReplyClient<'_> {
    type Watch = Unwatched;
    type Stream<'s>
        = StreamRef<'s>
    where
        Self: 's;

    fn watch(&self) -> &Unwatched {
        &Unwatched
    }

    fn stream(&mut self) -> Option<StreamRef<'_>> {
        self.reply.stream(self.worker)
    }
}

/// What is known of the client's socket.
struct Ready {
    /// Whether there was nothing to receive.
    is_drained: bool,
    /// Whether there was no room for what is to be sent.
    is_full: bool,
}

impl Conversation<'_> {
    /// Has an application answer. When its call is over, what has come last of its reply, or the
    /// answer in its place, is still to be sent.
    #[cold]
    #[inline(never)]
    pub(super) fn call(
        &mut self,
        call: Box<Call>,
        reply: &mut Reply,
        input: &mut Input<'_>,
    ) -> Result<Prepared, End> {
        let now = self.worker().now();
        let driven = DrivenCall::begin(&self.registry.calls, call, thread_waker, now);
        reply.ingest(input.bytes());
        input.consume(input.len());
        self.converse(driven, reply, input.spare())?;
        input.append(reply.unread());
        reply.drop_unread();
        Ok(Prepared::Bytes)
    }

    /// Moves bytes between client and application until the call is over.
    fn converse(
        &mut self,
        mut driven: DrivenCall,
        reply: &mut Reply,
        buffer: &mut [u8],
    ) -> Result<(), End> {
        // Most clients have sent all there is: the wait notices if one has not.
        let (mut pace, mut ready) = (self.pace(), Ready { is_drained: true, is_full: false });
        while self.go_on(&mut driven, reply, &mut pace, buffer) == Progress::Waits {
            let has_sent = self.send_now(reply, &mut pace, &mut ready)?;
            let has_received = self.receive_now(reply, &mut ready, buffer)?;
            let has_moved = has_sent || has_received;
            if !has_moved && self.wait(&mut driven, reply, &pace, &mut ready)? == Progress::Over {
                return Ok(());
            }
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        driven: &mut DrivenCall,
        reply: &mut Reply,
        pace: &mut Pace,
        buffer: &mut [u8],
    ) -> Progress {
        let may_keep = !self.registry.is_ending();
        if self.registry.are_last() {
            reply.be_last();
        }
        // The time for what comes now begins.
        if reply.is_sent() {
            *pace = self.pace();
        }
        let worker = self.lease.worker();
        let now = worker.now();
        let mut client = ReplyClient { reply, worker };
        match driven.go_on(&mut client, buffer, now, &self.registry.runner, may_keep) {
            Progress::Waits if reply.is_complete() => Progress::Over,
            progress => progress,
        }
    }

    /// Sends what there is of the reply, as far as there is room. Returns whether anything was
    /// sent.
    fn send_now(
        &mut self,
        reply: &mut Reply,
        pace: &mut Pace,
        ready: &mut Ready,
    ) -> Result<bool, End> {
        let mut has_sent = false;
        while !ready.is_full {
            let bytes = reply.to_send();
            if bytes.is_empty() {
                break;
            }
            match os::send::send_now(self.entry.socket(), bytes, false) {
                Ok(n) => {
                    ready.is_full = n < bytes.len();
                    reply.sent(n);
                    self.note_sent(pace, n);
                    has_sent = true;
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => ready.is_full = true,
                Err(_) => return Err(left(reply)),
            }
        }
        Ok(has_sent)
    }

    /// Receives what has come of the request's body, or after it. Returns whether anything has.
    fn receive_now(
        &mut self,
        reply: &mut Reply,
        ready: &mut Ready,
        buffer: &mut [u8],
    ) -> Result<bool, End> {
        if ready.is_drained || !reply.wants_input() {
            return Ok(false);
        }
        match os::send::recv_now(self.entry.socket(), buffer) {
            Ok(n @ 1..) => {
                ready.is_drained = n < buffer.len();
                reply.ingest(&buffer[..n]);
                Ok(true)
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                ready.is_drained = true;
                Ok(false)
            }
            Ok(0) if reply.end_of_stream() => Ok(true),
            Ok(_) | Err(_) => Err(left(reply)),
        }
    }

    /// Waits for either socket, or until something is due. If the time for the request's body is
    /// over, so is the call.
    fn wait(
        &mut self,
        driven: &mut DrivenCall,
        reply: &mut Reply,
        pace: &Pace,
        ready: &mut Ready,
    ) -> Result<Progress, End> {
        let now = self.worker().now();
        self.lease.release();
        if driven.is_waiting() {
            wait_for_place(self.registry, driven, now);
            ready.is_drained = false;
            return Ok(Progress::Waits);
        }
        let (input, room) = (reply.wants_input(), ready.is_full);
        let client = (self.entry.socket(), Awaited { input, room, ..Awaited::default() });
        let due = reply.awaits_client().then_some(pace.deadline);
        let [client, server] = wait_for_either(self.registry, client, driven, due, now);
        if client.is_over {
            return Err(left(reply));
        }
        ready.is_drained &= !client.input;
        ready.is_full &= !client.room;
        let now = self.worker().now();
        if due.is_some_and(|due| due <= now) {
            let end = self.expired(End::Reset);
            return if reply.time_out() { Ok(Progress::Over) } else { Err(end) };
        }
        driven.expire_if_due(&mut ReplyClient { reply, worker: self.lease.worker() }, now);
        driven.note(server, now);
        Ok(Progress::Waits)
    }
}

/// The client has gone: its request ends without a reply.
fn left(reply: &mut Reply) -> End {
    reply.leave();
    End::Close
}
