//! Jobs that answer in pieces: more of a listing is prepared while its client takes what there is.

use session::{Limits, Op};

use crate::memory::{LISTING_PIECES, MemoryFiles, Pair};

const LIST: &[u8] = b"GET /list/ HTTP/1.1\r\nHost: h\r\n\r\n";

/// A pair that keeps jobs, and whose client has asked for a listing.
fn pair() -> Pair {
    let mut pair = Pair::new(MemoryFiles::new(&[("list/a.txt", b"a")]), Limits::default());
    pair.holds_jobs = true;
    pair.window = 0;
    pair.send(LIST);
    pair.finish_job(); // resolves the path
    pair
}

/// Lets the client take `n` bytes more.
fn take(pair: &mut Pair, n: usize) {
    pair.window = n;
    pair.drive();
}

/// The bytes that are to be sent now, and where they are.
fn unsent(pair: &Pair) -> (usize, usize) {
    match pair.connection.next() {
        Op::Send { head, .. } => (head.as_ptr() as usize, head.len()),
        other => panic!("{other:?}"),
    }
}

fn whole_listing() -> Vec<u8> {
    let mut pair = pair();
    pair.window = usize::MAX;
    (0..LISTING_PIECES).for_each(|_| pair.finish_job());
    assert!(pair.received.ends_with(b"0\r\n\r\n"), "{}", pair.received.escape_ascii());
    pair.received
}

#[test]
fn more_is_prepared_when_half_of_the_last_piece_is_taken() {
    let mut pair = pair();
    pair.finish_job(); // the first piece
    let (_, len) = unsent(&pair);
    take(&mut pair, len / 2 - 1);
    assert!(pair.held.is_none(), "as much again would have to be kept");
    take(&mut pair, 1);
    let (id, _) = pair.held.as_ref().expect("the rest is a job");
    assert_eq!(unsent(&pair).1, len - len / 2, "the client has not taken all");
    let first = *id;
    let place = unsent(&pair);
    pair.finish_job();
    assert_eq!(unsent(&pair), place, "bytes move while they are sent");
    // No more than one piece is ahead.
    take(&mut pair, 1);
    assert!(pair.held.is_none());
    pair.window = usize::MAX;
    pair.drive();
    assert_eq!(pair.held.as_ref().map(|(id, _)| *id), Some(first), "one job, one number");
    (2..LISTING_PIECES).for_each(|_| pair.finish_job());
    assert_eq!(pair.received, whole_listing());
}

#[test]
fn a_listing_is_the_same_however_much_its_client_takes_at_once() {
    let whole = whole_listing();
    for window in [1, 2, 7, 25, 40, 100, 1000] {
        // The answers of jobs come at once, or only when the client waits for them.
        for is_late in [false, true] {
            let mut pair = pair();
            for _ in 0..2 * whole.len() {
                if !is_late || pair.window > 0 {
                    pair.finish_job();
                }
                take(&mut pair, window);
            }
            assert!(pair.received == whole, "{window}: {}", pair.received.escape_ascii());
        }
    }
}

#[test]
fn the_time_of_a_client_goes_on_while_a_job_is_out() {
    let limits = Limits::default();
    let mut pair = pair();
    pair.finish_job();
    let (_, len) = unsent(&pair);
    take(&mut pair, len / 2);
    assert!(pair.held.is_some(), "the rest is being prepared");
    pair.advance(limits.write_ms / 2);
    pair.finish_job(); // an answer is no progress of the client
    pair.advance(limits.write_ms / 2 - 1);
    assert_eq!(pair.closed, None);
    pair.advance(1);
    assert_eq!(pair.closed, Some(true));
}

#[test]
fn a_client_has_no_deadline_when_it_has_taken_all_there_is() {
    let mut pair = pair();
    pair.finish_job();
    pair.window = usize::MAX;
    pair.drive();
    assert!(pair.held.is_some(), "the rest is being prepared");
    assert_eq!(pair.connection.deadline(), None);
    pair.advance(1_000_000);
    (1..LISTING_PIECES).for_each(|_| pair.finish_job());
    assert_eq!(pair.received, whole_listing());
}

#[test]
fn the_rest_may_be_put_off_until_all_is_sent() {
    let mut pair = pair();
    pair.puts_off = true;
    pair.finish_job();
    let (_, len) = unsent(&pair);
    take(&mut pair, len / 2);
    assert!(pair.held.is_none(), "there is something to send yet");
    take(&mut pair, len - len / 2);
    assert!(pair.held.is_some(), "nothing else is left to do");
    pair.window = usize::MAX;
    (1..LISTING_PIECES).for_each(|_| pair.finish_job());
    assert_eq!(pair.received, whole_listing());
}

#[test]
fn what_was_never_sent_is_not_counted() {
    let mut pair = pair();
    pair.finish_job();
    let (_, len) = unsent(&pair);
    take(&mut pair, len / 2);
    let text = String::from_utf8_lossy(&pair.received).into_owned();
    let (_, chunk) = text.split_once("\r\n\r\n").expect("the whole head");
    let first = u64::from_str_radix(chunk.split("\r\n").next().unwrap(), 16).unwrap();
    pair.finish_job(); // a piece that follows, of which nothing is sent
    pair.reconnect();
    assert_eq!(pair.counters.body_bytes.get(), first);
}

#[test]
fn a_piece_that_fails_ends_in_a_reset_though_another_is_being_sent() {
    let mut pair = pair();
    pair.finish_job();
    let (_, len) = unsent(&pair);
    take(&mut pair, len / 2);
    pair.fail_job();
    assert_eq!(pair.closed, Some(true));
    assert_eq!(pair.counters.bodies_cut_short.get(), 1);
}

#[test]
fn a_request_behind_a_listing_is_answered_after_it() {
    let mut pair = pair();
    pair.finish_job();
    let (_, len) = unsent(&pair);
    take(&mut pair, len / 2);
    pair.send(b"GET /missing HTTP/1.1\r\nHost: h\r\n\r\n");
    pair.holds_jobs = false;
    pair.window = usize::MAX;
    pair.finish_job();
    pair.drive();
    assert_eq!(pair.statuses(), [200, 404]);
}

#[test]
fn an_answer_that_comes_twice_is_dropped() {
    let mut pair = pair();
    for _ in 0..LISTING_PIECES {
        pair.answer_again();
        pair.finish_job();
        pair.answer_again();
        take(&mut pair, 1000);
        pair.answer_again();
    }
    assert_eq!(pair.received, whole_listing());
}
