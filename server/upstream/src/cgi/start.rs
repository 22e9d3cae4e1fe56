//! What the process that starts programs is told of a request: one message.

use std::ffi::CStr;

/// The size of a message, at most. A program gets no variable above 128 KiB (execve(2)), and
/// several messages must fit into the buffer of a socket.
pub const START_BYTES_MAX: usize = 96 * 1024;

/// Bytes before the first text: the host, and whether there is a body.
const HEAD_BYTES: usize = 5;

/// Which program is to be started, and what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartProgram<'m> {
    /// The number of the host.
    pub host: usize,
    /// The directory of the programs, as the settings have it: empty for the root of the host.
    pub folder: &'m [u8],
    /// The path of the program below that directory.
    pub program: &'m [u8],
    /// Whether the request has a body. Without one, the standard input is empty, and the connection
    /// is the output alone: it ends when that is closed.
    pub has_body: bool,
    /// The target of the request, for the error log.
    pub target: &'m [u8],
    /// The variables, each `NAME=value` and a NUL.
    pub environment: &'m [u8],
}

/// Why a program was not started, as its caller is told in place of a reply: a byte that begins no
/// reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such program.
    Missing,
    /// It is no program, or may not be run.
    Forbidden,
    /// It could not be started. The error log says why.
    Failed,
}

impl<'m> StartProgram<'m> {
    /// The message; none if it would be too long, or a part of it has a NUL.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let parts = [self.folder, self.program, self.target];
        let len = parts.iter().map(|part| part.len() + 1).sum::<usize>() + self.environment.len();
        if len + HEAD_BYTES > START_BYTES_MAX || parts.iter().any(|part| part.contains(&0)) {
            return None;
        }
        let mut bytes = Vec::with_capacity(len + HEAD_BYTES);
        bytes.extend_from_slice(&u32::try_from(self.host).ok()?.to_le_bytes());
        bytes.push(u8::from(self.has_body));
        for part in parts {
            bytes.extend_from_slice(part);
            bytes.push(0);
        }
        bytes.extend_from_slice(self.environment);
        Some(bytes)
    }

    /// Reads a message; none if it is none.
    #[must_use]
    pub fn decode(bytes: &'m [u8]) -> Option<Self> {
        let (host, rest) = bytes.split_first_chunk()?;
        let (has_body, rest) = rest.split_first()?;
        let mut parts = rest.splitn(4, |byte| *byte == 0);
        let mut next = || parts.next();
        Some(Self {
            host: u32::from_le_bytes(*host) as usize,
            folder: next()?,
            program: next()?,
            has_body: *has_body != 0,
            target: next()?,
            environment: next()?,
        })
    }

    /// The variables, each `NAME=value`.
    pub fn variables(&self) -> impl Iterator<Item = &'m CStr> {
        let each = self.environment.split_inclusive(|byte| *byte == 0);
        each.filter_map(|variable| CStr::from_bytes_with_nul(variable).ok())
    }
}

impl Refusal {
    const ALL: [Self; 3] = [Self::Missing, Self::Forbidden, Self::Failed];

    /// The byte that tells of it.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Missing => 4,
            Self::Forbidden => 3,
            Self::Failed => 5,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(environment: &[u8]) -> StartProgram<'_> {
        let (folder, program, target) = (&b"/usr/lib/cgi-bin"[..], &b"a"[..], &b"/a?b"[..]);
        StartProgram { host: 7, folder, program, has_body: true, target, environment }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = start(b"A=1\0B=\0C==\n\0").encode().unwrap();
        let read = StartProgram::decode(&message).unwrap();
        assert_eq!(read, start(b"A=1\0B=\0C==\n\0"));
        let variables: Vec<_> = read.variables().collect();
        assert_eq!(variables, [c"A=1", c"B=", c"C==\n"]);
        for end in 0..message.len() - read.environment.len() {
            assert_eq!(StartProgram::decode(&message[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_message_is_bounded_and_its_parts_stay_apart() {
        let rest = start(b"").encode().unwrap().len();
        let longest = vec![b'x'; START_BYTES_MAX - rest];
        assert_eq!(start(&longest).encode().map(|it| it.len()), Some(START_BYTES_MAX));
        assert_eq!(start(&[longest, vec![b'x']].concat()).encode(), None);
        assert_eq!(StartProgram { program: b"a\0b", ..start(b"") }.encode(), None);
    }
}
