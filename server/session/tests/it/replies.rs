//! Requests that applications answer where there is no connection: their driver keeps its state,
//! and the reply lends its stream to the call.

use std::sync::Arc;

use http1::{HeadLimits, Parsed, parse_head};
use proptest::prelude::*;
use session::{After, Counters, Job, Op, Prepared, Reply, Worker};
use upstream::{Call, Failure};

use crate::chain::{AMPLE, Echo, NOW, Sizes, body, join, request, responses, worker};

/// A client that has sent all its requests, and who answers them.
struct Talk {
    worker: Worker,
    counters: Arc<Counters>,
    application: Echo,
    sizes: Sizes,
    /// What the client has sent and the server has not received.
    to_receive: Vec<u8>,
    received: Vec<u8>,
}

impl Talk {
    fn new(sizes: Sizes, sent: &[u8]) -> Self {
        let (worker, counters) = worker(sizes);
        let (application, received) = (Echo::default(), Vec::new());
        Self { worker, counters, application, sizes, to_receive: sent.to_vec(), received }
    }

    /// Reads the head of a request that an application answers.
    fn begin(&mut self) -> (Reply, Box<Call>) {
        let peer = "192.0.2.7:4711".parse().expect("an address");
        let parsed = parse_head(&self.to_receive, 0, &HeadLimits::default());
        let Ok(Parsed::Complete(head)) = parsed else { panic!("no head: {parsed:?}") };
        let (bytes, arrived) = self.to_receive.split_at(head.len);
        let (mut reply, prepared) =
            Reply::begin(&mut self.worker, peer, bytes, &head, arrived, false);
        assert_eq!(prepared, Prepared::Job);
        let Job::Application(mut call) = reply.take_job() else { panic!("no file is asked for") };
        call.connected(false, NOW);
        let len = head.len;
        self.to_receive.drain(..len);
        (reply, call)
    }

    /// Moves bytes until the call is over, or all wait. Returns whether it is over.
    fn converse(&mut self, reply: &mut Reply, call: &mut Call) -> bool {
        loop {
            let Some(mut stream) = reply.stream(&mut self.worker) else { return true };
            let (has_joined, is_over) = join(call, &mut stream, &mut self.application, self.sizes);
            drop(stream);
            if is_over {
                return true;
            }
            if !(self.send(reply) | self.receive(reply) | has_joined) {
                return false;
            }
        }
    }

    fn send(&mut self, reply: &mut Reply) -> bool {
        let bytes = reply.to_send();
        let n = bytes.len().min(self.sizes.client.1);
        self.received.extend_from_slice(&bytes[..n]);
        reply.sent(n);
        n > 0
    }

    fn receive(&mut self, reply: &mut Reply) -> bool {
        let n = self.to_receive.len().min(self.sizes.client.0);
        let receives = n > 0 && reply.wants_input();
        if receives {
            let bytes: Vec<u8> = self.to_receive.drain(..n).collect();
            reply.ingest(&bytes);
        }
        receives
    }

    /// Sends the rest of a reply whose call is over. Returns what follows.
    fn finish(&mut self, mut reply: Reply) -> (Prepared, After) {
        let mut last = Prepared::Bytes;
        while last == Prepared::Bytes {
            while let Op::Send { head, .. } = reply.op() {
                let n = head.len().min(self.sizes.client.1);
                self.received.extend_from_slice(&head[..n]);
                reply.sent(n);
            }
            match reply.refill(&mut self.worker) {
                Some(next) => last = next,
                None => break,
            }
        }
        self.to_receive.splice(..0, reply.unread().iter().copied());
        let (after, body) = reply.finish(&mut self.worker);
        assert_eq!(body.is_some(), last == Prepared::Nothing, "a call takes all of a body");
        (last, after)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }
}

const UNFINISHED: &[u8] = b"POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello";

#[test]
fn a_body_that_stops_is_answered_with_408() {
    let mut talk = Talk::new(AMPLE, UNFINISHED);
    talk.application.is_stalled = true;
    let (mut reply, mut call) = talk.begin();
    assert!(!talk.converse(&mut reply, &mut call));
    assert!(reply.awaits_client());
    assert!(reply.time_out());
    assert_eq!(talk.finish(reply), (Prepared::Bytes, After::Linger));
    assert!(talk.text().starts_with("HTTP/1.1 408 "), "{}", talk.text());
}

#[test]
fn a_client_that_takes_nothing_gets_no_answer_for_that() {
    let sizes = Sizes { client: (usize::MAX, 0), ..AMPLE };
    let mut talk = Talk::new(sizes, UNFINISHED);
    let (mut reply, mut call) = talk.begin();
    assert!(!talk.converse(&mut reply, &mut call));
    assert!(reply.awaits_client());
    assert!(!reply.time_out());
}

/// While an application works, the time is its own.
#[test]
fn an_application_that_works_does_not_wait_for_its_client() {
    let mut talk = Talk::new(AMPLE, &request(b"hello", None));
    talk.application.is_stalled = true;
    let (mut reply, mut call) = talk.begin();
    assert!(!talk.converse(&mut reply, &mut call));
    assert!(!reply.awaits_client());
    reply.leave();
    let _ = reply.finish(&mut talk.worker);
    assert_eq!(talk.counters.responses[3].get(), 1, "it is counted with 499");
}

#[test]
fn a_failure_is_answered_if_the_reply_has_not_begun() {
    for (has_begun, expected) in [(false, Prepared::Bytes), (true, Prepared::Nothing)] {
        let mut talk = Talk::new(AMPLE, UNFINISHED);
        talk.application.is_stalled = !has_begun;
        let (mut reply, mut call) = talk.begin();
        assert!(!talk.converse(&mut reply, &mut call));
        call.fail(&mut reply.stream(&mut talk.worker).expect("it is wanted"), Failure::Closed);
        assert_eq!(talk.finish(reply).0, expected);
        let status = if has_begun { 200 } else { 502 };
        assert!(talk.text().starts_with(&format!("HTTP/1.1 {status} ")), "{}", talk.text());
    }
}

#[test]
fn what_a_client_sends_ahead_is_bounded() {
    let ahead = [request(b"", None), body(100_000)].concat();
    let mut talk = Talk::new(Sizes { client: (1000, 1000), ..AMPLE }, &ahead);
    talk.application.is_stalled = true;
    let (mut reply, mut call) = talk.begin();
    assert!(!talk.converse(&mut reply, &mut call));
    assert!((16_384..17_384).contains(&reply.unread().len()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// As with a connection: whatever passes in whatever pieces, both ends get what the other has
    /// sent, and none waits for ever.
    #[test]
    fn bodies_pass_in_both_directions_in_pieces_of_any_size(
        bodies in prop::collection::vec((0_usize..400, any::<bool>()), 1..4),
        chunks in prop::collection::vec(1_usize..30, 1..5),
        client in (1_usize..20, 1_usize..20),
        application in (1_usize..20, 1_usize..20),
        reply_bytes_max in 1_usize..30,
    ) {
        let requests = bodies.iter().map(|(len, is_chunked)| {
            request(&body(*len), is_chunked.then_some(&chunks[..]))
        });
        let sent: Vec<u8> = requests.flatten().collect();
        let mut talk = Talk::new(Sizes { client, application, reply_bytes_max }, &sent);
        for _ in &bodies {
            let (mut reply, mut call) = talk.begin();
            prop_assert!(talk.converse(&mut reply, &mut call));
            prop_assert_eq!(talk.finish(reply), (Prepared::Bytes, After::KeepAlive));
        }
        let expected: Vec<_> = bodies.iter().map(|(len, _)| (200, body(*len))).collect();
        prop_assert_eq!(responses(&talk.received), expected);
        prop_assert!(talk.to_receive.is_empty());
        prop_assert_eq!(talk.counters.requests.get(), bodies.len() as u64);
        let content = bodies.iter().map(|(len, _)| *len as u64).sum::<u64>();
        prop_assert_eq!(talk.counters.body_bytes.get(), content);
    }
}
