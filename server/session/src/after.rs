//! What happens to a connection after a response, and to the body that came with its request.

use http1::{BodyFraming, BodySkipper, Expectation, Head};

use crate::limits::Limits;

/// What happens to a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The connection waits for the next request.
    KeepAlive,
    /// The connection is closed: the client asked for it and sends no more.
    Close,
    /// The connection is closed, but the client may still be sending.
    Linger,
}

impl After {
    /// What happens after a request whose body is read, and which may be the last anyway
    /// (`is_last`).
    #[inline]
    pub(crate) fn from_head(head: &Head<'_>, is_last: bool) -> Self {
        match (head.keep_alive, is_last) {
            (false, _) => Self::Close,
            (true, true) => Self::Linger,
            (true, false) => Self::KeepAlive,
        }
    }

    /// Decides what happens to the connection after a request, which may be the last anyway
    /// (`is_last`), and returns the body that has to be read and dropped before the next request.
    /// `arrived` are the bytes after the head that have arrived.
    #[inline]
    pub(crate) fn from_request(
        head: &Head<'_>,
        arrived: &[u8],
        is_last: bool,
        limits: &Limits,
    ) -> (Self, Option<BodySkipper>) {
        let after = Self::from_head(head, is_last);
        match head.body {
            BodyFraming::None | BodyFraming::Length(0) => (after, None),
            _ => after.with_body(head, arrived, limits),
        }
    }

    /// An unwanted body is dropped if it is small, so that the connection can go on. A client that
    /// waits for `100 Continue` may never send it: then the final status and a close are the only
    /// framing that both sides agree on (RFC 9110 §10.1.1). The same holds for a broken body, and
    /// if `arrived` shows it, the response can say that it is the last (RFC 9112 §9.6).
    fn with_body(
        self,
        head: &Head<'_>,
        arrived: &[u8],
        limits: &Limits,
    ) -> (Self, Option<BodySkipper>) {
        let too_large =
            matches!(head.body, BodyFraming::Length(n) if n > limits.unread_body_bytes_max);
        if too_large || head.expectation != Expectation::None {
            return (Self::Linger, None);
        }
        let body = BodySkipper::new(head.body);
        match body.clone().skip(arrived) {
            Ok(_) => (self, Some(body)),
            Err(_) => (Self::Linger, None),
        }
    }
}
