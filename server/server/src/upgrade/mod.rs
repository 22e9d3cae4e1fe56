//! The change to a new program while the server serves: `ropewalk ctl upgrade`.
//!
//! The server starts its program's file again, with the arguments that it was started with itself,
//! and with one end of a socket that keeps messages apart. By these the successor gets the
//! listening sockets, and says when it serves beside its predecessor. From then on it gets the
//! connections, each when it rests (`passage.rs`).
//! The predecessor ends when it has none left, or `timeouts.drain_ms` later.
//!
//! Until the successor has read its configuration its standard error is a pipe, so that the client
//! that has asked for the upgrade is told what is wrong; after that it says so by the socket.

mod predecessor;
mod successor;

use std::env;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{self, PathBuf};

use os::passing;
use os::socket::{Readiness, wait_ready};

pub(crate) use predecessor::Predecessor;
pub(crate) use successor::{Launch, Refusal, Successor};

/// The environment variable by which a successor knows what it was given: the form of the messages,
/// the process that it follows, the number and the identity of the socket, the number of what is to
/// be its standard error, and the processes that the one before has followed. It stays in the
/// successor's environment, so that a server which a program of that starts has it as well, but not
/// that socket. Who the parent is does not tell: the predecessor may have been killed already.
const VARIABLE: &str = "ROPEWALK_UPGRADE";

/// The form of the messages: others are not understood.
const FORM: &str = "1";

/// The longest message.
const MESSAGE_BYTES_MAX: usize = 4096;

// The first byte of a message.
/// A listening socket: its description, and the descriptor.
const LISTENER: u8 = b'l';
/// A setting of the machine that was changed: its description.
const SETTING: u8 = b's';
/// There are no more listening sockets and settings.
const ALL_LISTENERS: u8 = b'a';
/// The successor serves: whether it takes connections (`+`), and what it serves.
const READY: u8 = b'r';
/// It does not: the exit status as a digit, and why.
const FAILED: u8 = b'f';

/// A message that has come.
struct Message {
    kind: u8,
    text: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

/// What tells the socket of this number in this process from all other sockets.
fn identity(socket: RawFd) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/self/fd/{socket}"))?.ino())
}

/// Waits for the next message; none if the other side has closed its end.
fn receive(socket: BorrowedFd<'_>, until_us: u64) -> io::Result<Option<Message>> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    loop {
        match passing::receive_with(socket, &mut buffer) {
            Ok((0, _)) => return Ok(None),
            Ok((count, descriptor)) => {
                let (kind, text) = (buffer[0], buffer[1..count].to_vec());
                return Ok(Some(Message { kind, text, descriptor }));
            }
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => return Err(why),
            Err(_) if os::clock::now() >= until_us => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {
                wait_ready(socket, Readiness::Readable, left_ms(until_us))?;
            }
        }
    }
}

fn left_ms(until_us: u64) -> u64 {
    until_us.saturating_sub(os::clock::now()).div_ceil(1000)
}

/// The file of this program, as it was named when it was started: an upgrade replaces it, or what a
/// link on its way leads to.
pub(crate) fn program() -> Option<PathBuf> {
    let named = env::args_os().next().map(PathBuf::from)?;
    let found = match named.components().count() {
        1 => {
            let folders = env::var_os("PATH")?;
            let mut files = env::split_paths(&folders).map(|folder| folder.join(&named));
            files.find(|file| file.is_file())?
        }
        _ => named,
    };
    path::absolute(found).ok()
}
