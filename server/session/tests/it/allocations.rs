//! A request that hits the cache allocates nothing, and a connection at rest is small.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use session::{Connection, Limits, Op};
use site::Site;
use site::host::HostSettings;

use crate::memory::{MemoryFiles, Pair};

/// Counts the allocations of the current thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "a global allocator cannot be written without")]
// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, hence from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A site with an application's page.
fn pair() -> Pair {
    let files = MemoryFiles::new(&[
        ("index.html", b"<p>hello"),
        ("index.html.br", b"compressed"),
        ("a b.txt", b"0123456789"),
    ]);
    let mut settings = HostSettings::new("/".into());
    settings.spa_fallback = Some("/index.html".into());
    let site = Arc::new(Site::new(vec![settings]).unwrap());
    let mut pair = Pair::on_site(site, files, Limits::default());
    pair.received.reserve(1 << 20);
    pair
}

/// The allocations from the hundredth to the two-hundredth request of a kind.
fn allocations(request: &[u8], expected: u16) -> u64 {
    let mut pair = pair();
    for _ in 0..100 {
        pair.send(request);
    }
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        pair.received.clear();
        pair.send(request);
    }
    let after = ALLOCATIONS.get();
    assert_eq!(pair.statuses(), [expected]);
    after - before
}

#[test]
fn a_request_that_hits_the_cache_allocates_nothing() {
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        ("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br;q=0.9\r\n\r\n", 200),
        ("GET /x/../a%20b.txt?query HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n", 304),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200),
        ("GET /some/view HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n", 200),
    ] {
        assert_eq!(allocations(request.as_bytes(), status), 0, "{request}");
    }
}

#[test]
fn a_file_that_is_read_piece_by_piece_allocates_nothing() {
    const REQUEST: &[u8] = b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n";
    static CONTENT: [u8; 40_000] = [b'x'; 40_000];
    let mut pair = Pair::reading(MemoryFiles::new(&[("big", &CONTENT)]), Limits::default());
    pair.small_body_bytes_max = 0;
    pair.send(&REQUEST.repeat(2));
    let (connection, worker) = (&mut pair.connection, &mut pair.worker);
    let before = ALLOCATIONS.get();
    let mut sent = 0;
    for _ in 0..100 {
        connection.ingest(worker, REQUEST);
        loop {
            match connection.next() {
                Op::Send { head, body, .. } => {
                    let n = head.len() + body.len();
                    connection.sent(worker, n);
                    sent += n;
                }
                Op::Read { len, .. } => connection.read(worker, &CONTENT[..len]),
                Op::Recv => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(sent > 100 * CONTENT.len(), "{sent}");
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

#[test]
fn what_has_been_answered_is_not_kept() {
    let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let (one, other) = request.as_bytes().split_at(10);
    let straddling = [other, one].concat();
    let mut pair = pair();
    pair.send(one);
    let mut send = || {
        pair.received.clear();
        pair.send(&straddling);
    };
    (0..100).for_each(|_| send());
    let before = ALLOCATIONS.get();
    (0..10_000).for_each(|_| send());
    assert_eq!(ALLOCATIONS.get() - before, 0, "a buffer grows with every request");
}

#[test]
fn the_counter_counts() {
    let request = b"GET /a%20b.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0,3-3\r\n\r\n";
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1_u8; 10]));
    assert_eq!(ALLOCATIONS.get() - before, 1);
    let _ = request;
}

#[test]
fn a_connection_at_rest_is_small() {
    assert!(size_of::<Connection>() <= 88, "{} bytes", size_of::<Connection>());
}
