//! Connections that change their protocol: both directions, with buffers of any size.

use proptest::prelude::*;
use session::Phase;

use crate::chain::{AMPLE, Chain, Sizes, body};

const ASKED: &[u8] =
    b"GET /app/ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

const AGREED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

impl Chain {
    /// The client shuts its side down.
    fn end(&mut self) {
        assert!(self.to_send.is_empty() && self.connection.wants_input());
        self.end_of_client();
        self.run();
    }
}

/// A connection that has changed its protocol.
fn switched(sizes: Sizes) -> Chain {
    let mut chain = Chain::new(sizes);
    chain.send(ASKED);
    assert_eq!(chain.text(), String::from_utf8_lossy(AGREED));
    chain.received.clear();
    chain
}

proptest! {
    #[test]
    fn all_bytes_pass_however_few_at_once(
        client in (1..40_usize, 1..40_usize),
        application in (1..40_usize, 1..40_usize),
        reply_bytes_max in 1..100_usize,
        ahead in any::<bool>(),
    ) {
        let sizes = Sizes { client, application, reply_bytes_max };
        let bytes = body(700);
        let mut chain = Chain::new(sizes);
        match ahead {
            true => chain.send(&[ASKED, &bytes].concat()),
            false => {
                chain.send(ASKED);
                chain.send(&bytes);
            }
        }
        prop_assert!(chain.received == [AGREED, &bytes].concat(), "{}", chain.text());
        prop_assert_eq!(chain.closed, None);
        chain.end();
        prop_assert!(chain.application.has_heard_end);
        prop_assert_eq!(chain.closed, None, "the application may go on");
        chain.application.sent.extend(b"last");
        chain.application.closes = true;
        chain.run();
        prop_assert!(chain.received.ends_with(b"last"));
        prop_assert_eq!(chain.closed, Some(false));
        chain.connection.close(&mut chain.worker);
        prop_assert_eq!((chain.counters.requests.get(), chain.counters.body_bytes.get()), (1, 704));
    }
}

#[test]
fn the_end_of_the_application_ends_the_connection_after_all_that_it_has_sent() {
    let mut chain = switched(Sizes { client: (3, 3), ..AMPLE });
    chain.is_blocked = true;
    chain.application.sent.extend(body(1000));
    chain.application.closes = true;
    chain.run();
    assert_eq!((chain.closed, chain.call.is_none()), (None, true));
    assert!(!chain.connection.is_movable(), "its worker counts it");
    chain.is_blocked = false;
    chain.run();
    assert_eq!(chain.received, body(1000));
    assert_eq!(chain.connection.phase(), Phase::Draining, "its client may still be sending");
    chain.send(ASKED);
    assert_eq!(chain.received, body(1000), "what it sends now is no request");
    chain.end_of_client();
    chain.run();
    assert_eq!(chain.closed, Some(false));
}

/// Each end holds back the other, and only in its direction.
#[test]
fn what_is_kept_in_each_direction_is_bounded() {
    let mut chain = switched(Sizes { reply_bytes_max: 100, application: (50, 50), ..AMPLE });
    chain.is_blocked = true;
    chain.application.sent.extend(body(1000));
    chain.run();
    assert!(chain.application.sent.len() >= 1000 - 150, "{}", chain.application.sent.len());
    chain.send(b"passes");
    let sent: Vec<u8> = chain.application.sent.iter().copied().collect();
    assert!(sent.ends_with(b"passes"), "the other direction goes on");
    chain.is_blocked = false;
    chain.run();
    assert_eq!(chain.received, [body(1000), b"passes".to_vec()].concat());
}

#[test]
fn a_client_has_no_deadline_but_for_what_it_is_to_take() {
    let mut chain = switched(AMPLE);
    assert_eq!(chain.connection.deadline(), None, "it may be silent for as long as it likes");
    assert!(chain.connection.wants_input());
    chain.is_blocked = true;
    chain.send(b"back");
    let deadline = chain.connection.deadline().expect("it takes nothing");
    chain.worker.set_time(deadline, 1_700_000_000_000_000);
    assert!(chain.connection.expire_if_due(&mut chain.worker));
    chain.run();
    assert_eq!(chain.closed, Some(true));
}

#[test]
fn a_client_that_ends_twice_has_gone() {
    let mut chain = switched(AMPLE);
    chain.end();
    assert!(chain.application.has_heard_end && chain.closed.is_none() && chain.call.is_some());
    chain.end_of_client();
    chain.run();
    assert_eq!((chain.closed, chain.call.is_none()), (Some(false), true));
}

#[test]
fn a_client_that_ends_before_the_answer_has_gone() {
    let mut chain = Chain::new(AMPLE);
    chain.application.is_stalled = true;
    chain.send(ASKED);
    chain.end();
    assert_eq!((chain.closed, chain.call.is_none()), (Some(false), true));
}

#[test]
fn a_connection_that_is_drained_goes_on_and_is_logged_when_it_is_cut_off() {
    let mut chain = switched(AMPLE);
    chain.connection.drain();
    chain.run();
    chain.send(b"goes on");
    assert_eq!((chain.text().as_str(), chain.closed), ("goes on", None));
    assert_eq!(chain.counters.requests.get(), 0, "it is logged at its end");
    chain.connection.close(&mut chain.worker);
    assert_eq!((chain.counters.requests.get(), chain.counters.body_bytes.get()), (1, 7));
}
