//! Local redirects of scripts (RFC 3875 §6.2.2): the answer is what a client would get that asks
//! for the path in their `Location`, by all rules for requests. The client learns nothing of it,
//! and the access log has what it has asked for.
//!
//! Until the answer is complete, the head of the exchange is that of the new request, and after it
//! in the same bytes is the head that the client has sent.

use http1::{Head, HeadLimits, Method, Parsed, is_name, parse_head};

use crate::after::After;
use crate::exchange::{Draft, Purpose};
use crate::response::{Incoming, Prepared, Request, Response};
use crate::worker::Worker;

/// Redirects of one request. Paths with more of them lead to each other.
const REDIRECTS_MAX: u8 = 10;

impl Response<'_> {
    /// Answers the request that a script has redirected to, whose call is over.
    #[cold]
    pub(crate) fn answer_redirect(
        &mut self,
        w: &mut Worker,
        application: usize,
        target: &[u8],
    ) -> Prepared {
        // Where a body ends that was not taken, only a close says.
        if self.exchange.skipper.take().is_some() {
            *self.after = After::Linger;
        }
        let limits = self.exchange.limits_or(&w.limits).head;
        match self.redirected(&limits, target) {
            Ok(head) => self.respond_anew(w, head),
            Err(why) => self.with_request(w, |response, w, request| {
                let site = response.exchange.site_or(&w.site);
                let application = &site.applications()[application];
                application.report_redirect(request.head.target_bytes, target, why);
                response.error(w, request, 502)
            }),
        }
    }

    /// The head of the new request, and after it the one that the client has sent; or why there is
    /// none.
    fn redirected(&self, limits: &HeadLimits, target: &[u8]) -> Result<Vec<u8>, &'static str> {
        if self.exchange.draft.redirects == REDIRECTS_MAX {
            return Err("more than 10 in a row");
        }
        let bytes = &*self.exchange.head;
        let Ok(Parsed::Complete(head)) = parse_head(bytes, 0, limits) else {
            unreachable!("the head was read before")
        };
        let mut redirected = Vec::with_capacity(2 * bytes.len() + target.len());
        put_head(&mut redirected, &head, target);
        if !matches!(parse_head(&redirected, 0, limits), Ok(Parsed::Complete(_))) {
            return Err("no client could ask for it");
        }
        redirected.extend_from_slice(match &bytes[head.len..] {
            [] => bytes,
            sent => sent,
        });
        Ok(redirected)
    }

    fn respond_anew(&mut self, w: &mut Worker, bytes: Vec<u8>) -> Prepared {
        let Draft { started, redirects, host, .. } = self.exchange.draft;
        self.exchange.head.clear();
        self.exchange.purpose = Purpose::Path;
        let limits = self.exchange.limits_or(&w.limits).head;
        let Ok(Parsed::Complete(head)) = parse_head(&bytes, 0, &limits) else {
            unreachable!("the head was read before")
        };
        let incoming = Incoming::simple(Request { bytes: &bytes, head: &head, host }, *self.after);
        let lingers = matches!(self.after, After::Linger);
        let called = self.call(w, incoming);
        let prepared = called.unwrap_or_else(|| self.answer_from_files(w, incoming));
        if lingers {
            *self.after = After::Linger; // whatever the head says: a body may be on its way
        }
        self.exchange.head = bytes;
        let draft = &mut self.exchange.draft;
        (draft.started, draft.redirects) = (started, redirects + 1);
        prepared
    }
}

/// Writes the head of a request for another target. It has no body, and asks for no other protocol:
/// the client was answered in this one.
fn put_head(out: &mut Vec<u8>, head: &Head<'_>, target: &[u8]) {
    let method: &[u8] = if head.method == Method::Head { b"HEAD " } else { b"GET " };
    for part in [method, target, b" ", head.version.as_str().as_bytes(), b"\r\n"] {
        out.extend_from_slice(part);
    }
    // That of an absolute target counts.
    let host = head.host.map(|host| (&b"Host"[..], host));
    for (name, value) in host.into_iter().chain(head.lines().filter(|(name, _)| is_kept(name))) {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn is_kept(name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 5] = [b"expect", b"host", b"trailer", b"transfer-encoding", b"upgrade"];
    let is_of_content = name.get(..8).is_some_and(|start| is_name(start, b"content-"));
    !is_of_content && !OTHERS.iter().any(|known| is_name(name, known))
}
