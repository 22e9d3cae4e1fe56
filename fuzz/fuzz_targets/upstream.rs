//! Requests with bodies to applications of all protocols, over one connection: a client, a session,
//! a call and an application that sends the body back, with bounds of a few bytes, whose steps come
//! in any order. Whatever the order was, once nothing is held back any more each body has come back
//! whole, its trailer with it, all calls are over, and the connection waits for another request.
//!
//! An input is read byte by byte: the first chooses the requests, and each of the others is an
//! operation of [`operate`], with the byte after it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use session::Phase;

#[allow(dead_code)] // the session's own tests use the rest of it
#[path = "../../server/session/tests/it/chain.rs"]
mod chain;

#[allow(dead_code)] // and of this
#[path = "../../server/session/tests/it/grammar.rs"]
mod grammar;

use chain::{Chain, Sizes, TRAILER, body, request_to, with_trailer};

/// Above the length of every body and of what is kept of a reply. More only takes longer: all of it
/// passes byte by byte.
const BYTES_MAX: usize = 64;

/// How many requests there are. Three bits choose each, of which the first chooses the framing.
const REQUESTS: usize = 3;

/// Where requests go. Those in chunks to the last have trailers.
const PATHS: [&str; 4] = ["/app/x", "/script/x", "/program/x", "/app/y"];

fuzz_target!(|input: &[u8]| {
    let [choice, lengths @ .., chunk] = input.first_chunk::<6>().copied().unwrap_or_default();
    let mut bytes = Vec::new();
    let (mut expected, mut trailers) = (Vec::new(), Vec::new());
    for (index, length) in lengths.into_iter().take(REQUESTS).enumerate() {
        let choice = usize::from(choice) >> (3 * index) & 7;
        let content = body(usize::from(length) % BYTES_MAX);
        let chunks = [usize::from(chunk % 16) + 1, usize::from(chunk / 16) + 1];
        let chunks = (choice & 1 == 1).then_some(&chunks[..]);
        let request = request_to(PATHS[choice >> 1], &content, chunks);
        let has_trailer = choice == 7;
        bytes.extend(if has_trailer { with_trailer(&request) } else { request });
        trailers.push(if has_trailer { TRAILER } else { "" });
        expected.push((200, content));
    }
    let reply_bytes_max = usize::from(lengths[REQUESTS]) % BYTES_MAX + 1;
    let mut chain = Chain::new(Sizes { client: (1, 1), application: (1, 1), reply_bytes_max });
    let mut unsent = bytes.into_iter();
    for operation in input.get(6..).unwrap_or_default().chunks_exact(2) {
        operate(&mut chain, &mut unsent, operation[0], usize::from(operation[1]));
    }
    chain.is_blocked = false;
    chain.application.is_stalled = false;
    chain.application.take(b"");
    chain.to_send.extend(unsent);
    chain.run();
    assert!(chain.failures.is_empty() && chain.closed.is_none(), "{:?}", chain.failures);
    assert_eq!(chain.responses(), expected);
    assert_eq!(chain.trailers(), trailers);
    assert!(chain.call.is_none() && chain.connection.phase() == Phase::Idle);
});

fn operate(chain: &mut Chain, unsent: &mut impl Iterator<Item = u8>, operation: u8, n: usize) {
    let size = n % 40 + 1;
    match operation % 11 {
        0 => chain.to_send.extend(unsent.take(n)),
        1 => chain.sizes.client.0 = size,
        2 => chain.sizes.client.1 = size,
        3 => chain.sizes.application.0 = size,
        4 => chain.sizes.application.1 = size,
        5 => chain.is_blocked ^= true,
        6 => {
            chain.application.is_stalled ^= true;
            chain.application.take(b"");
        }
        7 => {
            let _ = (0..size).all(|_| chain.step_client());
        }
        8 => {
            chain.step_call();
        }
        9 => chain.sends_late ^= true,
        _ => chain.run(),
    }
}
