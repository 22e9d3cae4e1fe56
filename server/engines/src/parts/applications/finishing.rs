//! Calls that are finished although their clients have left: the application is not interrupted,
//! and what it answers is received and dropped. The worker that had the client goes on without
//! it, and a thread of its own, which mostly sleeps, waits for the application.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::Builder;

use os::socket::Readiness;
use session::Tick;
use upstream::{Call, Next, Nobody};

/// Such a thread has few calls, none of which is deep.
const STACK_BYTES: usize = 64 * 1024;

/// Bytes received at once: they are dropped.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Has a call finished on this connection. If no more may be, or no thread can be made, the
/// connection is closed, as that of any client that leaves.
pub(crate) fn finish(call: Box<Call>, socket: OwnedFd) {
    let application = call.application();
    if let Some(place) = application.enter_finishing() {
        let name = format!("finishing-{}", application.number());
        let builder = Builder::new().name(name).stack_size(STACK_BYTES);
        let _ = builder.spawn(move || {
            drain(*call, &socket);
            drop(place);
        });
    }
}

/// Receives until the reply is over, or takes too long.
fn drain(mut call: Call, socket: &OwnedFd) {
    let mut buffer = vec![0; RECEIVE_BYTES];
    loop {
        let now = Tick(os::clock::now());
        let Next::Recv = call.next(&mut Nobody, now) else { return };
        let due = call.deadline().unwrap_or(now);
        let timeout_ms = due.since(now).div_ceil(1000);
        match os::socket::wait_ready(socket.as_fd(), Readiness::Readable, timeout_ms) {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
        match os::send::recv(socket.as_fd(), &mut buffer) {
            Ok(0) => return,
            Ok(n) => call.ingest(&mut Nobody, &buffer[..n], now),
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
