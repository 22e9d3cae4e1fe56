//! The client's end of a call that is driven apart from an event loop: bytes are moved there until
//! the call can go on, or the client is to be waited for.

use os::socket::Awaited;
use session::{Connection, JobId, Worker};

use crate::parts::loops::step::{Ready, Step, Turn, step};
use crate::parts::loops::transport::Transport;

/// Sends to the client of a call what there is, and receives what has come; neither waits. Returns
/// whether the call can go on.
pub(crate) fn move_client(
    socket: &mut impl Transport,
    connection: &mut Connection,
    worker: &mut Worker,
    buffer: &mut [u8],
    ready: &mut Ready,
    id: JobId,
) -> bool {
    loop {
        if !connection.wants_stream(id) {
            return true;
        }
        let mut turn = Turn::endless();
        match step(socket, connection, worker, buffer, ready, &mut turn) {
            Step::More | Step::Yield => {}
            Step::Job => return true,
            Step::Wait | Step::Away | Step::Cold => return false,
            // The client has gone: what it was sent is lost.
            Step::Closed => connection.ingest(worker, &[]),
        }
    }
}

/// Takes note of what there is at the socket of a client that waits for its call.
pub(crate) fn note_client(
    connection: &mut Connection,
    worker: &mut Worker,
    ready: &mut Ready,
    found: Awaited,
) {
    ready.is_drained &= !found.input;
    ready.is_full &= !found.room && !found.is_over;
    ready.is_hung_up |= found.is_over;
    if found.is_over && !connection.wants_input() {
        connection.ingest(worker, &[]);
    }
}
