//! The body of a request for an application, as the call takes it from what has arrived.

use http1::BodyError;
use upstream::Body;

use crate::exchange::{Exchange, Then};

/// Invites a client to send its body (RFC 9110 §15.2.1).
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Exchange {
    /// What there is of the body. `is_free` says that nothing is left to send, `is_at_end` that the
    /// client has shut its side down.
    pub(crate) fn request_body(&mut self, is_free: bool, is_at_end: bool) -> Body<'_> {
        if self.stream().is_some_and(|stream| stream.spool.is_some()) {
            let spool = self.stream_mut().and_then(|stream| stream.spool.as_mut());
            return spool.map_or(Body::Broken(400), |spool| spool.body());
        }
        if self.skipper.is_none() {
            return self.unframed_body(is_at_end);
        }
        let ahead = match self.body_ahead() {
            Ok(ahead) => ahead,
            Err(why) => return Body::Broken(why.status()),
        };
        if self.skipper.is_none() {
            return self.unframed_body(is_at_end);
        }
        let (unread, at) = (&self.input, self.input_at);
        let Then::Application(stream) = &mut self.then else { return Body::Broken(400) };
        if stream.body_bytes + ahead as u64 > stream.body_bytes_max {
            return Body::Broken(413);
        }
        if ahead > 0 {
            stream.owes_continue = false;
            return Body::Bytes(&unread[at..at + ahead]);
        }
        if is_at_end {
            return Body::Broken(400);
        }
        stream.awaits_body = true;
        if std::mem::take(&mut stream.owes_continue) && !stream.has_reply {
            let out = if is_free { &mut self.out } else { &mut stream.gathered };
            out.extend_from_slice(CONTINUE);
        }
        Body::Pending
    }

    /// Takes the first `n` bytes of what [`Exchange::request_body`] returned.
    pub(crate) fn request_body_taken(&mut self, n: usize) {
        let stream = self.stream_mut();
        if let Some(spool) = stream.and_then(|stream| stream.spool.as_mut()) {
            return spool.advance(n);
        }
        self.take_body(n);
        if let Some(stream) = self.stream_mut() {
            stream.body_bytes += n as u64;
        }
    }

    /// What has come of another protocol. Of HTTP the body is whole, and so is its trailer.
    #[inline(never)]
    fn unframed_body(&mut self, is_at_end: bool) -> Body<'_> {
        let Self { then: Then::Application(stream), input, input_at, .. } = self else {
            return Body::End(b"");
        };
        match &input[*input_at..] {
            _ if !stream.is_tunnel() => Body::End(&stream.trailer),
            [] if is_at_end => Body::End(b""),
            [] => {
                stream.awaits_body = true;
                Body::Pending
            }
            bytes => Body::Bytes(bytes),
        }
    }

    /// Takes the next `n` bytes of the request's body.
    pub(crate) fn take_body(&mut self, n: usize) {
        // Without framing it is of another protocol.
        let Some(mut reader) = self.skipper.take() else { return self.consume(n) };
        reader.advance(n as u64);
        self.consume(n);
        if !reader.is_done() {
            self.skipper = Some(reader);
        }
    }

    /// Advances over the framing of the request's body to its next bytes, and gathers its trailer.
    pub(crate) fn body_ahead(&mut self) -> Result<usize, BodyError> {
        let Then::Application(stream) = &mut self.then else { return Ok(0) };
        let Some(reader) = &mut self.skipper else { return Ok(0) };
        let unread = &self.input[self.input_at..];
        let mut taken = 0;
        let mut outcome = Ok(());
        while outcome.is_ok()
            && !reader.is_done()
            && reader.data_ahead() == 0
            && taken < unread.len()
        {
            match reader.read_with_trailer(&unread[taken..=taken], &mut stream.trailer) {
                Ok((n, _)) => taken += n,
                Err(why) => outcome = Err(why),
            }
        }
        let ahead = usize::try_from(reader.data_ahead()).unwrap_or(usize::MAX);
        if reader.is_done() {
            self.skipper = None;
        }
        self.consume(taken);
        outcome.map(|()| ahead.min(self.unread().len()))
    }
}
