//! Moving bytes: receiving, sending from memory and sending from files.
//!
//! Whether a call waits is decided by the descriptor (non-blocking sockets return `WouldBlock`),
//! never here; nothing is repeated to make a short transfer whole. A send on a closed connection
//! is an error (`BrokenPipe`), not a signal; for [`sendfile`], which has no flag for that, see
//! [`crate::signals::raise_pipe_ignored`].
//!
//! All calls go past the C library's functions: those are cancellation points of POSIX threads,
//! which in a process with several threads costs two locked instructions a call.

use crate::call::{check_len, uninterrupted};
use rustix::io::retry_on_intr;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Receives what has arrived into `buffer`; 0 means the peer sends no more (or `buffer` is empty).
pub fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = retry_on_intr(|| net::recv(socket, &mut *buffer, RecvFlags::empty()))?;
    Ok(count)
}

/// Receives what has arrived into `buffer`, as [`recv`] does, but returns if the thread is
/// interrupted ([`crate::interrupt`]): the error is `Interrupted`.
pub fn recv_interruptible(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Receives what has arrived into `buffer`, as [`recv`] does, but never waits: on a socket that
/// blocks, too, `WouldBlock` says that there is nothing.
pub fn recv_now(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = retry_on_intr(|| net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT))?;
    Ok(count)
}

/// Takes at most `len` bytes that have arrived and drops them uncopied (MSG_TRUNC); returns how
/// many. TCP only; 0 means the peer sends no more (or `len` is 0).
pub fn recv_discard(socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    uninterrupted(|| {
        // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket (tcp(7)),
        // so that a null pointer is as good as any.
        check_len(unsafe {
            let no_address: *mut libc::c_void = std::ptr::null_mut();
            let (socket, flags) = (socket.as_raw_fd(), libc::MSG_TRUNC);
            libc::syscall(
                libc::SYS_recvfrom,
                socket,
                no_address,
                len,
                flags,
                no_address,
                no_address,
            )
        } as libc::ssize_t)
    })
}

/// Sends a prefix of `bytes` and returns its length. `more`: further bytes follow at once, so
/// that the last, partly filled packet may wait for them.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::send(socket, bytes, flags(more)))?)
}

/// Sends as [`send`] does, but never waits: on a socket that blocks, too, `WouldBlock` says that
/// there is no room.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::send(socket, bytes, flags(more) | SendFlags::DONTWAIT))?)
}

/// Sends `head` and then `body` with one call; the count returned covers both.
pub fn send_two(socket: BorrowedFd<'_>, head: &[u8], body: &[u8], more: bool) -> io::Result<usize> {
    send_vectored(socket, &[IoSlice::new(head), IoSlice::new(body)], more)
}

/// Sends a prefix of the concatenated `slices` (the kernel takes at most 1,024 of them per call)
/// and returns its length.
pub fn send_vectored(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    more: bool,
) -> io::Result<usize> {
    const SLICES_MAX: usize = 1_024; // UIO_MAXIOV; more is EMSGSIZE
    let slices = &slices[..slices.len().min(SLICES_MAX)];
    let mut nothing = SendAncillaryBuffer::default();
    Ok(retry_on_intr(|| sendmsg(socket, slices, &mut nothing, flags(more)))?)
}

/// Sends bytes `offset..offset + len` of `file` without copying them through this process, as
/// many as fit; 0 means that the file ends at or before `offset`. The file's own position is
/// neither used nor moved. May wait for the disk even when `socket` is non-blocking.
pub fn sendfile(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    const LEN_MAX: usize = 0x7fff_f000; // what the kernel takes per call
    let len = len.min(LEN_MAX);
    Ok(retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut { offset }), len))?)
}

fn flags(more: bool) -> SendFlags {
    if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Readiness, wait_ready};
    use std::fs::{self, File};
    use std::io::{Read, Seek, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Two ends of a TCP connection, the first one non-blocking.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        ours.set_nodelay(true).unwrap();
        (ours, theirs)
    }

    fn file_with(contents: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!(
            "ropewalk-os-send-{}-{:?}",
            std::process::id(),
            thread::current().id()
        ));
        fs::write(&path, contents).unwrap();
        let file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file
    }

    fn received(socket: &mut TcpStream, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_discarded_does_not_come_again() {
        let (ours, mut theirs) = connected();
        theirs.write_all(b"away, kept").unwrap();
        assert!(wait_ready(ours.as_fd(), Readiness::Readable, 10_000).unwrap());
        assert_eq!(recv_discard(ours.as_fd(), 6).unwrap(), 6);
        let mut buffer = [0; 16];
        assert_eq!(recv(ours.as_fd(), &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"kept");
        let nothing = recv_discard(ours.as_fd(), 6).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        theirs.shutdown(Shutdown::Write).unwrap(); // whichever process has a copy of it
        assert!(wait_ready(ours.as_fd(), Readiness::Readable, 10_000).unwrap());
        assert_eq!(recv_discard(ours.as_fd(), 6).unwrap(), 0);
    }

    #[test]
    fn recv_tells_bytes_nothing_yet_and_the_end_apart() {
        let (ours, mut theirs) = connected();
        let mut buffer = [0; 8];
        let nothing = recv(ours.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        theirs.write_all(b"abc").unwrap();
        ours.set_nonblocking(false).unwrap();
        assert_eq!(recv(ours.as_fd(), &mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
        drop(theirs);
        assert_eq!(recv(ours.as_fd(), &mut buffer).unwrap(), 0);
    }

    #[test]
    fn pieces_arrive_in_order() {
        let (ours, mut theirs) = connected();
        assert_eq!(send(ours.as_fd(), b"one ", false).unwrap(), 4);
        assert_eq!(send_two(ours.as_fd(), b"two ", b"three ", false).unwrap(), 10);
        let slices = [b"four ".as_slice(), b"", b"five"].map(IoSlice::new);
        assert_eq!(send_vectored(ours.as_fd(), &slices, false).unwrap(), 9);
        assert_eq!(received(&mut theirs, 23), b"one two three four five");
    }

    #[test]
    fn a_long_vector_is_sent_in_part() {
        let (ours, mut theirs) = connected();
        let slices = vec![IoSlice::new(b"x"); 3_000];
        assert_eq!(send_vectored(ours.as_fd(), &slices, false).unwrap(), 1_024);
        assert_eq!(received(&mut theirs, 1_024), [b'x'; 1_024]);
    }

    #[test]
    fn a_head_sent_with_more_travels_with_the_file() {
        let file = file_with(b"0123456789");
        // The kernel sends it after 200 ms at the latest: only an arrival well before that proves
        // something.
        testkit::undisturbed(|| {
            let (ours, mut theirs) = connected();
            theirs.set_nonblocking(true).unwrap();
            let began_us = crate::clock::now();
            assert_eq!(send(ours.as_fd(), b"head ", true).unwrap(), 5);
            thread::sleep(Duration::from_millis(20));
            let early = theirs.peek(&mut [0; 64]);
            assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 2, 5).unwrap(), 5);
            let took_us = crate::clock::now() - began_us;
            if took_us > 150_000 {
                return Err(format!("it took {took_us} microseconds"));
            }
            let early = early.unwrap_err();
            assert_eq!(early.kind(), io::ErrorKind::WouldBlock, "the head went out alone");
            theirs.set_nonblocking(false).unwrap();
            let mut buffer = [0; 64];
            let len = theirs.read(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"head 23456");
            Ok(())
        });
    }

    #[test]
    fn sendfile_stops_at_the_end_and_leaves_the_position_alone() {
        let (ours, mut theirs) = connected();
        let mut file = file_with(b"0123456789");
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 7, usize::MAX).unwrap(), 3);
        assert_eq!(received(&mut theirs, 3), b"789");
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 10, 1).unwrap(), 0);
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 1 << 40, 1).unwrap(), 0);
        let negative = sendfile(ours.as_fd(), file.as_fd(), u64::MAX, 1).unwrap_err();
        assert_eq!(negative.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(file.stream_position().unwrap(), 0);
    }

    #[test]
    fn a_large_transfer_fills_the_socket_and_arrives_whole() {
        let contents: Vec<u8> = (0..8_000_000_u32).map(|i| (i % 251) as u8).collect();
        let file = file_with(&contents);
        let (ours, mut theirs) = connected();
        let (full, is_full) = mpsc::channel();
        let reader = thread::spawn(move || {
            let _ = is_full.recv(); // an error: everything fitted into the socket
            let mut bytes = Vec::new();
            theirs.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let (mut offset, mut waits) = (0, 0);
        while offset < contents.len() {
            let (at, left) = (offset as u64, contents.len() - offset);
            match sendfile(ours.as_fd(), file.as_fd(), at, left) {
                Ok(len) => offset += len,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    waits += 1;
                    full.send(()).unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        drop((ours, full));
        assert!(waits > 0, "8 MB fit into the socket");
        assert!(reader.join().unwrap() == contents, "the bytes differ");
    }

    #[test]
    fn sending_on_a_closed_connection_is_an_error_and_no_signal() {
        let (ours, _theirs) = connected();
        ours.shutdown(Shutdown::Write).unwrap();
        let file = file_with(b"0123456789");
        crate::signals::raise_pipe_ignored().unwrap();
        for result in [
            send(ours.as_fd(), b"x", false),
            send_two(ours.as_fd(), b"x", b"y", true),
            sendfile(ours.as_fd(), file.as_fd(), 0, 1),
        ] {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
