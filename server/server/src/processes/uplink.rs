//! Messages of worker processes to the supervisor other than their state: lines of the access log,
//! and reports. The supervisor has threads that write and may wait; a worker process may have no
//! such threads, and must not wait itself.
//!
//! A pair of sockets for each place keeps messages apart, whichever thread of the place sends them,
//! or process that was forked from the first. Each message is a byte that gives its kind, and one
//! or more whole lines. Nothing has to be recovered when a process is killed: a message was sent or
//! it was not.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::config::AccessForm;

/// The largest message, where the kernel grants room for it: twice net.core.wmem_max must be more,
/// as it is unless an administrator has lowered it. Elsewhere messages are shorter.
pub(crate) const MESSAGE_BYTES_MAX: usize = 192 * 1024;

const COMBINED_LINES: u8 = b'c';
const JSON_LINES: u8 = b'j';
const REPORT: u8 = b'r';

/// A worker process's end.
pub(crate) struct Uplink {
    socket: OwnedFd,
    message_bytes_max: usize,
}

/// The supervisor's end.
pub(super) struct Downlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// A message of a worker process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'m> {
    /// Whole lines of the access log, of one form.
    AccessLines(AccessForm, &'m [u8]),
    /// Something to report.
    Report(&'m str),
}

/// Makes both ends of the uplink of one place: the supervisor's end, and the end that the processes
/// of the place inherit.
pub(super) fn pair() -> io::Result<(Downlink, OwnedFd)> {
    let (ours, theirs) = os::passing::message_pair(MESSAGE_BYTES_MAX + 1)?;
    Ok((Downlink { socket: ours, buffer: vec![0; MESSAGE_BYTES_MAX + 1] }, theirs))
}

impl Uplink {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        let granted = os::passing::message_bytes_max(socket.as_fd());
        // The kind takes one byte.
        let granted = granted.map_or(MESSAGE_BYTES_MAX, |bytes| bytes.saturating_sub(1));
        Self { socket, message_bytes_max: granted.min(MESSAGE_BYTES_MAX) }
    }

    /// The number of bytes of lines that one message has room for: [`MESSAGE_BYTES_MAX`] or less.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// Sends whole lines of the access log, all of one form, at most as many as one message has
    /// room for, all or none.
    ///
    /// # Errors
    /// `WouldBlock` while the supervisor has not taken earlier messages; another error if the lines
    /// cannot be sent at all.
    pub(crate) fn send_access_lines(&self, form: AccessForm, lines: &[u8]) -> io::Result<()> {
        match form {
            AccessForm::Off => Err(io::ErrorKind::InvalidInput.into()), // it has no lines
            AccessForm::Combined => self.send(COMBINED_LINES, lines),
            AccessForm::Json => self.send(JSON_LINES, lines),
        }
    }

    /// Has the supervisor report `message`, cut off to the size of one message.
    ///
    /// # Errors
    /// `WouldBlock` while the supervisor has not taken earlier messages; another error if the
    /// message cannot be sent at all.
    pub(crate) fn report(&self, message: &str) -> io::Result<()> {
        let end = message.floor_char_boundary(self.message_bytes_max);
        self.send(REPORT, &message.as_bytes()[..end])
    }

    fn send(&self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.message_bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let parts = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(bytes)];
        os::send::send_vectored(self.socket.as_fd(), &parts, false).map(drop)
    }
}

impl Downlink {
    /// Returns the next message that has arrived; none if no message is waiting.
    pub(super) fn next(&mut self) -> Option<Message<'_>> {
        // This fails if nothing has arrived. There is no end of stream: this process has both ends.
        let count = os::send::recv(self.socket.as_fd(), &mut self.buffer).ok()?;
        let (kind, bytes) = self.buffer[..count].split_first()?;
        match *kind {
            COMBINED_LINES => Some(Message::AccessLines(AccessForm::Combined, bytes)),
            JSON_LINES => Some(Message::AccessLines(AccessForm::Json, bytes)),
            _ => Some(Message::Report(std::str::from_utf8(bytes).unwrap_or("unreadable"))),
        }
    }
}

impl AsFd for Downlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (mut down, theirs) = pair().unwrap();
        let up = Uplink::new(theirs);
        assert_eq!(down.next(), None);
        up.send_access_lines(AccessForm::Combined, b"one\ntwo\n").unwrap();
        up.send_access_lines(AccessForm::Json, b"{}\n").unwrap();
        up.report("a worker failed").unwrap();
        assert_eq!(down.next(), Some(Message::AccessLines(AccessForm::Combined, b"one\ntwo\n")));
        assert_eq!(down.next(), Some(Message::AccessLines(AccessForm::Json, b"{}\n")));
        assert_eq!(down.next(), Some(Message::Report("a worker failed")));
        assert_eq!(down.next(), None);
    }

    #[test]
    fn the_longest_message_fits_and_a_longer_one_is_refused() {
        let (mut down, theirs) = pair().unwrap();
        let up = Uplink::new(theirs);
        assert_eq!(up.message_bytes_max(), MESSAGE_BYTES_MAX);
        let mut lines = vec![b'x'; MESSAGE_BYTES_MAX];
        up.send_access_lines(AccessForm::Json, &lines).unwrap();
        assert_eq!(down.next(), Some(Message::AccessLines(AccessForm::Json, &lines)));
        lines.push(b'\n');
        let why = up.send_access_lines(AccessForm::Json, &lines).unwrap_err();
        assert_ne!(why.kind(), io::ErrorKind::WouldBlock);
        up.report(&"é".repeat(MESSAGE_BYTES_MAX)).unwrap();
        assert!(matches!(down.next(), Some(Message::Report(text)) if text.starts_with("éé")));
    }

    #[test]
    fn sending_does_not_wait_for_a_supervisor_that_does_not_receive() {
        let (_down, theirs) = pair().unwrap();
        let up = Uplink::new(theirs);
        let send = || up.send_access_lines(AccessForm::Json, &[b'\n'; 4096]);
        let refused = (0..10_000).find_map(|_| send().err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::WouldBlock);
    }
}
