//! Sockets between two processes of one machine (unix(7)): passing a descriptor along with bytes
//! (SCM_RIGHTS), so that the receiver has the same open file under a number of its own; and pairs
//! that keep messages apart.

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::{cmsg_space, io::retry_on_intr};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::slice;

/// Room for one descriptor among control bytes.
const CONTROL_BYTES: usize = cmsg_space!(ScmRights(1));

/// What the kernel uses for itself of the room that a socket has (net/unix/af_unix.c).
const MESSAGE_OVERHEAD_BYTES: usize = 32;

/// Two connected sockets that do not block and keep messages apart (SOCK_SEQPACKET): what one call
/// sends another receives, all of it or nothing, even if several processes send at one end. An end
/// of which all copies are closed shows as a message of 0 bytes. The kernel is asked for room for
/// messages of `message_bytes` at the second end; it may grant less ([`message_bytes_max`]).
///
/// # Errors
/// There are no descriptors or no memory.
pub fn message_pair(message_bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (receiver, sender) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // It grants twice what it is asked for, and never more than twice net.core.wmem_max.
    let half = (message_bytes + MESSAGE_OVERHEAD_BYTES).div_ceil(2);
    set_socket_send_buffer_size(&sender, half.min(i32::MAX as usize))?;
    Ok((receiver, sender))
}

/// The longest message that can be sent at this end, in bytes.
///
/// # Errors
/// `end` is not a socket.
pub fn message_bytes_max(end: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(socket_send_buffer_size(end)?.saturating_sub(MESSAGE_OVERHEAD_BYTES))
}

/// Sends a prefix of `bytes`, which must not be empty, and with its first byte the descriptor.
/// Returns the length of the prefix.
pub fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        let is_in = control.push(SendAncillaryMessage::ScmRights(slice::from_ref(descriptor)));
        debug_assert!(is_in, "there is room for one");
    }
    let bytes = [IoSlice::new(bytes)];
    Ok(retry_on_intr(|| sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL))?)
}

/// Receives into `buffer` what has arrived, and the descriptor if one came with it; 0 bytes mean
/// that the other side is gone (or `buffer` is empty). Never more than one descriptor: others that
/// come with the same bytes are closed.
pub fn receive_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(buffer)];
    let received =
        retry_on_intr(|| recvmsg(socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Readiness, wait_ready};
    use rustix::io::{FdFlags, fcntl_getfd};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, AsRawFd, RawFd};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_comes_with_the_first_byte_and_means_the_same_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut end, other_end) = UnixStream::pair().unwrap();
        assert_eq!(send_with(ours.as_fd(), b"abc", Some(other_end.as_fd())).unwrap(), 3);
        drop(other_end);
        let mut buffer = [0; 2];
        let (count, passed) = receive_with(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((count, &buffer), (2, b"ab"));
        let passed = passed.unwrap();
        assert_eq!(fcntl_getfd(&passed).unwrap(), FdFlags::CLOEXEC);
        UnixStream::from(passed).write_all(b"here").unwrap();
        let mut said = String::new();
        end.read_to_string(&mut said).unwrap();
        assert_eq!(said, "here", "and the end, when the last copy is closed");
        let (count, passed) = receive_with(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((count, passed.is_none(), buffer[0]), (1, true, b'c'));
    }

    #[test]
    fn bytes_come_alone_too_and_the_end_shows() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(send_with(ours.as_fd(), b"x", None).unwrap(), 1);
        drop(ours);
        let mut buffer = [0; 8];
        assert!(matches!(receive_with(theirs.as_fd(), &mut buffer), Ok((1, None))));
        assert!(matches!(receive_with(theirs.as_fd(), &mut buffer), Ok((0, None))));
        let gone = send_with(theirs.as_fd(), b"x", None).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn messages_stay_apart_do_not_wait_and_end() {
        let (ours, theirs) = message_pair(100_000).unwrap();
        let mut buffer = [0; 8];
        let nothing = crate::send::recv(theirs.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        for message in [&b"one"[..], b"three"] {
            assert_eq!(crate::send::send(ours.as_fd(), message, false).unwrap(), message.len());
        }
        assert_eq!(crate::send::recv(theirs.as_fd(), &mut buffer).unwrap(), 3);
        assert_eq!(crate::send::recv(theirs.as_fd(), &mut buffer).unwrap(), 5);
        let full = loop {
            match crate::send::send(ours.as_fd(), &[7; 4096], false) {
                Ok(count) => assert_eq!(count, 4096, "all or nothing"),
                Err(why) => break why.kind(),
            }
        };
        assert_eq!(full, io::ErrorKind::WouldBlock);
        drop(ours);
        let mut large = [0; 4096];
        // A child that another test starts has a copy of the other end until it executes its
        // program.
        let mut next = || {
            assert!(wait_ready(theirs.as_fd(), Readiness::Readable, 10_000).unwrap(), "no end");
            crate::send::recv(theirs.as_fd(), &mut large).unwrap()
        };
        while next() > 0 {}
    }

    #[test]
    fn there_is_room_for_the_longest_message_and_no_more() {
        let (receiver, sender) = message_pair(10_001).unwrap();
        let most = message_bytes_max(sender.as_fd()).unwrap();
        assert!((10_001..10_010).contains(&most), "{most}");
        let mut bytes = vec![7; most];
        assert_eq!(crate::send::send(sender.as_fd(), &bytes, false).unwrap(), most);
        assert_eq!(crate::send::recv(receiver.as_fd(), &mut bytes).unwrap(), most);
        bytes.push(7);
        let refused = crate::send::send(sender.as_fd(), &bytes, false).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EMSGSIZE));
    }

    #[test]
    fn descriptors_of_different_messages_do_not_mix() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let files = ["/proc/self/stat", "/proc/self/maps"].map(|path| File::open(path).unwrap());
        for file in &files {
            send_with(ours.as_fd(), b"-", Some(file.as_fd())).unwrap();
        }
        for file in &files {
            let mut buffer = [0; 8];
            let (count, passed) = receive_with(theirs.as_fd(), &mut buffer).unwrap();
            let name =
                |number: RawFd| std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
            assert_eq!((count, name(passed.unwrap().as_raw_fd())), (1, name(file.as_raw_fd())));
        }
    }
}
