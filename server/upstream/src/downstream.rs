//! The other end of a call: where its request comes from and its reply goes to.

use crate::failure::Failure;
use crate::fields::ReplyFields;

/// The end of a call at which the request comes in and the reply goes out. All bytes are payload:
/// framing, such as chunks, is the implementation's.
pub trait Downstream {
    /// The next bytes of the request's body.
    fn body(&mut self) -> Body<'_>;

    /// Takes the first `n` of the bytes that [`Downstream::body`] returned.
    fn body_taken(&mut self, n: usize);

    /// Takes an interim response (1xx, RFC 9110 §15.2), of which there may be several.
    fn interim(&mut self, status: u16, fields: ReplyFields<'_>);

    /// Takes the head of the reply: once, before anything of its content. After 101 the connection
    /// is of another protocol: the body is all that its client sends from there on, and the content
    /// all that the application does (RFC 9110 §7.8).
    fn reply(&mut self, status: u16, length: Length, fields: ReplyFields<'_>);

    /// Takes a redirect to a path and a query of this server in place of the reply's head, as
    /// scripts may send one (RFC 3875 §6.2.2): the client gets the answer to a request for those,
    /// and content that is pushed is dropped.
    fn redirect(&mut self, target: &[u8]);

    /// How many bytes of content are welcome. 0: nothing is to be received until there is room
    /// again. More may be pushed all the same: what was received already.
    fn room(&mut self) -> usize;

    /// Takes some of the reply's content.
    fn push(&mut self, bytes: &[u8]);

    /// The reply is complete, with these trailer fields, a line each and mostly none: none if the
    /// client has not asked for them (RFC 9110 §6.5.1). They are for no other place than after
    /// content in chunks.
    fn end(&mut self, trailers: &[u8]);

    /// There is no reply, or none of its rest if its head was taken already.
    fn fail(&mut self, failure: Failure);
}

/// No client any more: it has left, and its application is to finish all the same.
#[derive(Debug)]
pub struct Nobody;

impl Downstream for Nobody {
    fn body(&mut self) -> Body<'_> {
        Body::Broken(400) // what was not sent before is lost
    }

    fn body_taken(&mut self, _: usize) {}

    fn interim(&mut self, _: u16, _: ReplyFields<'_>) {}

    fn reply(&mut self, _: u16, _: Length, _: ReplyFields<'_>) {}

    fn redirect(&mut self, _: &[u8]) {}

    fn room(&mut self) -> usize {
        usize::MAX
    }

    fn push(&mut self, _: &[u8]) {}

    fn end(&mut self, _: &[u8]) {}

    fn fail(&mut self, _: Failure) {}
}

/// What there is of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'b> {
    /// Bytes, at least one.
    Bytes(&'b [u8]),
    /// Nothing at the moment.
    Pending,
    /// Nothing any more but its trailer fields, a line each as they were sent. There may be some
    /// if the body came in chunks.
    End(&'b [u8]),
    /// The body breaks off, is malformed, or is too large: the request is answered with this
    /// status.
    Broken(u16),
}

/// How the end of a reply's content is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// There is no content: by the status, or because the request was HEAD. The number is the
    /// length that such a reply announces, if it does.
    None(Option<u64>),
    /// So many bytes.
    Known(u64),
    /// Known only when it ends.
    Unknown,
}
