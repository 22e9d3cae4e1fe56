//! Requests of a loop to a helper process, as bytes and maybe a descriptor. Both ends are the same
//! program, so that the format has no versions.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use session::Job;
use site::resource::FileRef;

use crate::jobs::{HASHED_BYTES, lock_hashing};
use crate::parts::disk::helpers::Work;

/// The length of a request's head: a kind and two numbers. The second is the length of the path
/// that follows, unless the kind is [`FETCH`]: then a descriptor comes with it.
const HEAD_BYTES: usize = 17;

const FETCH: u8 = b'f';
const RESOLVE: u8 = b'p';
const LIST: u8 = b'l';

/// The longest path in a request. A longer one is no path of a file (PATH_MAX is 4096).
const PATH_BYTES_MAX: u64 = 16 * 1024;

/// A request to a helper process.
#[derive(Debug)]
pub(super) enum Request {
    /// Brings `len` bytes of a file from `offset` on into memory.
    Fetch { file: FileRef, offset: u64, len: u64 },
    /// Brings the data of the file system that resolve a path into memory.
    Resolve { host: usize, path: Box<[u8]> },
    /// Brings a directory and the inodes of its entries into memory.
    List { host: usize, path: Box<[u8]> },
}

/// Encodes the request for a piece of work: its bytes, and the descriptor that goes with them. None
/// if a helper has nothing to do for it: the rest of a listing, which was prepared with its
/// beginning.
pub(super) fn encode(work: &Work) -> Option<(Vec<u8>, Option<BorrowedFd<'_>>)> {
    match work {
        Work::Fetch { file, offset, len } => Some((head(FETCH, *offset, *len), Some(file.as_fd()))),
        Work::Job(_, Job::Resolve { host, path, .. }) => with_path(RESOLVE, *host, path),
        Work::Job(_, Job::Hash(job)) => {
            let offset = lock_hashing(&job.hashing).offset();
            Some((head(FETCH, offset, HASHED_BYTES as u64), Some(job.file.as_fd())))
        }
        Work::Job(_, Job::List { host, path, .. }) => with_path(LIST, *host, path),
        Work::Job(_, Job::ListMore(_) | Job::Application(_)) => None,
    }
}

fn with_path(kind: u8, host: usize, path: &[u8]) -> Option<(Vec<u8>, Option<BorrowedFd<'static>>)> {
    let len = path.len() as u64;
    let mut bytes = head(kind, host as u64, len);
    bytes.extend_from_slice(path);
    (len <= PATH_BYTES_MAX).then_some((bytes, None))
}

fn head(kind: u8, first: u64, second: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    bytes.push(kind);
    bytes.extend_from_slice(&first.to_le_bytes());
    bytes.extend_from_slice(&second.to_le_bytes());
    bytes
}

/// Waits for a request. Returns none at the end of the stream.
pub(super) fn receive(socket: &UnixStream) -> io::Result<Option<Request>> {
    let mut head = [0; HEAD_BYTES];
    let mut descriptor = None;
    if !receive_all(socket, &mut head, &mut descriptor)? {
        return Ok(None);
    }
    let number = |at: usize| {
        let bytes = head[at..at + 8].try_into().expect("eight of seventeen bytes");
        u64::from_le_bytes(bytes)
    };
    let (first, second) = (number(1), number(9));
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "a request is broken");
    if head[0] == FETCH {
        let file = FileRef::new(File::from(descriptor.ok_or_else(broken)?).into());
        return Ok(Some(Request::Fetch { file, offset: first, len: second }));
    }
    if second > PATH_BYTES_MAX {
        return Err(broken());
    }
    let (host, mut path) = (first as usize, vec![0; second as usize]);
    if !receive_all(socket, &mut path, &mut descriptor)? {
        return Err(broken());
    }
    let path = path.into();
    match head[0] {
        RESOLVE => Ok(Some(Request::Resolve { host, path })),
        LIST => Ok(Some(Request::List { host, path })),
        _ => Err(broken()),
    }
}

/// Fills the buffer. Returns false if the stream has ended before its first byte.
fn receive_all(
    socket: &UnixStream,
    buffer: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> io::Result<bool> {
    let mut at = 0;
    while at < buffer.len() {
        let (count, passed) = os::passing::receive_with(socket.as_fd(), &mut buffer[at..])?;
        *descriptor = descriptor.take().or(passed);
        match count {
            0 if at == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => at += count,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use session::{JobId, Known};

    use super::*;

    fn send(socket: &UnixStream, work: &Work) {
        let (bytes, descriptor) = encode(work).unwrap();
        let sent = os::passing::send_with(socket.as_fd(), &bytes, descriptor).unwrap();
        assert_eq!(sent, bytes.len());
    }

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let path: Box<[u8]> = (*b"/a/b.html").into();
        let resolve = Job::Resolve { host: 3, path: path.clone(), known: Known::Nothing };
        send(&ours, &Work::Job(JobId { number: 1, stream: 0 }, resolve));
        let file = FileRef::new(File::open("/proc/self/exe").unwrap().into());
        send(&ours, &Work::Fetch { file: FileRef::clone(&file), offset: 1 << 40, len: 1 });
        drop(ours);
        let first = receive(&theirs).unwrap().unwrap();
        assert!(matches!(first, Request::Resolve { host: 3, path: p } if p == path));
        let Request::Fetch { file: other, offset, len } = receive(&theirs).unwrap().unwrap() else {
            panic!("a fetch was sent")
        };
        assert_eq!((offset, len), (1 << 40, 1));
        let identity =
            |file: &FileRef| os::files::FileStatus::from_file(file.as_fd()).unwrap().inode;
        assert_eq!(identity(&other), identity(&file));
        assert!(receive(&theirs).unwrap().is_none());
    }

    #[test]
    fn a_broken_request_is_an_error() {
        let check = |bytes: &[u8]| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            os::passing::send_with(ours.as_fd(), bytes, None).unwrap();
            drop(ours);
            receive(&theirs).unwrap_err();
        };
        check(b"f");
        check(&head(FETCH, 0, 1));
        check(&head(RESOLVE, 0, PATH_BYTES_MAX + 1));
        check(&head(RESOLVE, 0, 1));
        check(&[head(b'?', 0, 1), vec![b'/']].concat());
    }
}
