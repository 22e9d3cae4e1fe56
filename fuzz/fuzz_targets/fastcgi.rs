//! Arbitrary bytes as what a FastCGI server sends: they never cause a panic, and what the client
//! gets of them does not depend on how they are cut into reads. The first two bytes choose the
//! sizes of the reads. What is wrong with a head that is never whole may be noticed early or late.

#![no_main]

use std::sync::Arc;

use http1::{HeadLimits, Parsed};
use libfuzzer_sys::fuzz_target;
use upstream::{
    Application, ApplicationSettings, Body, Call, Downstream, Failure, Length, Next, Origin,
    Protocol, ReplyFields, ScriptRequest, Tick,
};

const NOW: Tick = Tick(1_000_000);

fuzz_target!(|input: &[u8]| {
    let Some((sizes, bytes)) = input.split_first_chunk::<2>() else { return };
    let whole = receive(bytes.chunks(bytes.len().max(1)));
    assert_eq!(receive(bytes.chunks(1)), whole, "a byte at a time");
    for size in sizes.map(|size| usize::from(size) + 1) {
        assert_eq!(receive(bytes.chunks(size)), whole, "in reads of {size}");
    }
});

/// What a client gets.
#[derive(Debug, Default, PartialEq)]
struct Client {
    heads: Vec<(u16, Length, Vec<u8>)>,
    content: Vec<u8>,
    is_complete: bool,
    has_failed: bool,
}

impl Downstream for Client {
    fn body(&mut self) -> Body<'_> {
        Body::End(b"")
    }

    fn body_taken(&mut self, _: usize) {}

    fn interim(&mut self, status: u16, fields: ReplyFields<'_>) {
        self.reply(status, Length::None(None), fields);
    }

    fn reply(&mut self, status: u16, length: Length, fields: ReplyFields<'_>) {
        let mut lines = Vec::new();
        fields.write(&mut lines);
        assert!(!lines.windows(2).any(|pair| pair == b"\n\n"), "fields are no end of a head");
        self.heads.push((status, length, lines));
    }

    fn redirect(&mut self, target: &[u8]) {
        assert!(target.starts_with(b"/") && !target.starts_with(b"//"));
        self.heads.push((302, Length::Unknown, target.to_vec()));
    }

    fn room(&mut self) -> usize {
        usize::MAX
    }

    fn push(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty() && !self.is_complete && !self.heads.is_empty());
        self.content.extend_from_slice(bytes);
    }

    fn end(&mut self, trailers: &[u8]) {
        assert!(trailers.is_empty(), "there are no chunks");
        assert!(!std::mem::replace(&mut self.is_complete, true), "it ends once");
        if let Some((_, Length::Known(length), _)) = self.heads.last() {
            assert_eq!(*length, self.content.len() as u64, "as long as was said");
        }
    }

    fn fail(&mut self, _: Failure) {
        assert!(!self.is_complete && !std::mem::replace(&mut self.has_failed, true));
    }
}

fn receive<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Client {
    let head = b"GET /a.php HTTP/1.1\r\nHost: h\r\n\r\n";
    let Ok(Parsed::Complete(head)) = http1::parse_head(head, 0, &HeadLimits::default()) else {
        unreachable!("it is a good head")
    };
    let settings = ApplicationSettings { protocol: Protocol::FastCgi, ..Default::default() };
    let origin = Origin { peer: [127, 0, 0, 1].into(), is_trusted: false, authority: "h" };
    let script = ScriptRequest {
        origin,
        peer_port: 1,
        root: b"/srv",
        script_name: b"/a.php",
        path_info: b"",
        body_bytes: None,
        asked: None,
    };
    let mut call = Call::fastcgi(Arc::new(Application::new(settings, 0)), &head, &script, NOW);
    call.connected(false, NOW);
    let mut client = Client::default();
    for piece in pieces {
        while let Next::Send(bytes) = call.next(&mut client, NOW) {
            let n = bytes.len();
            call.sent(n, NOW);
        }
        call.ingest(&mut client, piece, NOW);
    }
    call.ended(&mut client);
    assert!(client.is_complete != client.has_failed, "one of both");
    client
}
