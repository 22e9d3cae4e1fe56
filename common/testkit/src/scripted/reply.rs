//! Replies for scripts, well-formed or wrong in one chosen way, as bytes.

use std::fmt::Write;

/// How the end of a body is indicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// With the true Content-Length.
    Length,
    /// With this Content-Length, true or not.
    ClaimedLength(u64),
    /// In chunks of these sizes, the last again and again; none of them 0.
    Chunks(Vec<usize>),
    /// By the end of the connection, which the script must bring about.
    UntilClose,
    /// Not at all: neither a field nor a byte, as with 204 and 304.
    None,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `HTTP/1.1`, unless set otherwise.
    pub version: &'static str,
    /// The status code of the status line.
    pub status: u16,
    /// Further fields, each a whole line without its end.
    pub fields: Vec<String>,
    /// How the body is framed.
    pub framing: Body,
    /// The bytes of the body.
    pub body: Vec<u8>,
    /// Whether the body is left out though the fields announce it, as for HEAD.
    pub is_to_head: bool,
}

impl Reply {
    /// 200 with a body and its length.
    #[must_use]
    pub fn ok(body: &[u8]) -> Self {
        Self::status(200, body)
    }

    /// Any status with a body and its length.
    #[must_use]
    pub fn status(status: u16, body: &[u8]) -> Self {
        Self {
            version: "HTTP/1.1",
            status,
            fields: Vec::new(),
            framing: Body::Length,
            body: body.to_vec(),
            is_to_head: false,
        }
    }

    /// This reply, with its body framed in another way.
    #[must_use]
    pub fn framed(mut self, framing: Body) -> Self {
        self.framing = framing;
        self
    }

    /// This reply with one more field.
    #[must_use]
    pub fn field(mut self, line: &str) -> Self {
        self.fields.push(line.to_owned());
        self
    }

    /// This reply with another byte at `offset` of the body.
    ///
    /// # Panics
    /// If the body is shorter.
    #[must_use]
    pub fn with_wrong_byte(mut self, offset: usize) -> Self {
        self.body[offset] ^= 1;
        self
    }

    /// The head of the reply, blank line included.
    #[must_use]
    pub fn head(&self) -> String {
        let mut head = format!("{} {} As scripted\r\n", self.version, self.status);
        for field in &self.fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        match &self.framing {
            Body::Length => push_length(&mut head, self.body.len() as u64),
            Body::ClaimedLength(claimed) => push_length(&mut head, *claimed),
            Body::Chunks(_) => head.push_str("Transfer-Encoding: chunked\r\n"),
            Body::UntilClose | Body::None => {}
        }
        head.push_str("\r\n");
        head
    }

    /// The whole reply.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().into_bytes();
        match &self.framing {
            _ if self.is_to_head => {}
            Body::None => {}
            Body::Chunks(sizes) => push_chunks(&mut bytes, &self.body, sizes),
            _ => bytes.extend_from_slice(&self.body),
        }
        bytes
    }

    /// The reply without its last `missing` bytes.
    #[must_use]
    pub fn cut(&self, missing: usize) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes.truncate(bytes.len().saturating_sub(missing));
        bytes
    }
}

fn push_length(head: &mut String, length: u64) {
    write!(head, "Content-Length: {length}\r\n").expect("a String takes everything");
}

fn push_chunks(bytes: &mut Vec<u8>, mut body: &[u8], sizes: &[usize]) {
    let mut sizes = sizes.iter().copied();
    let mut size = body.len();
    while !body.is_empty() {
        size = sizes.next().unwrap_or(size).clamp(1, body.len());
        let (chunk, rest) = body.split_at(size);
        bytes.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        body = rest;
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(framing: Body, expected: &str) {
        let bytes = Reply::ok(b"hello").framed(framing).field("A: b").bytes();
        let expected = format!("HTTP/1.1 200 As scripted\r\nA: b\r\n{expected}");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn bodies_are_framed_as_asked() {
        check(Body::Length, "Content-Length: 5\r\n\r\nhello");
        check(Body::ClaimedLength(9), "Content-Length: 9\r\n\r\nhello");
        check(Body::UntilClose, "\r\nhello");
        check(Body::None, "\r\n");
        let chunks = "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n2\r\nel\r\n2\r\nlo\r\n0\r\n\r\n";
        check(Body::Chunks(vec![1, 2]), chunks);
    }

    #[test]
    fn replies_can_be_wrong() {
        assert_eq!(Reply::ok(b"hello").with_wrong_byte(4).body, b"helln");
        assert!(Reply::ok(b"hello").cut(2).ends_with(b"\r\nhel"));
    }
}
