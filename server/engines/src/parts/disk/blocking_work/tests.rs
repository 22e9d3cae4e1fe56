//! Tests of connections whose work finds no room.

use std::fs::File;

use session::{Counters, Limits};
use site::host::HostSettings;
use testkit::Temporary;

use super::super::helpers::Returned;
use super::*;
use crate::idle;

/// Helpers that have no room, until they are given some.
struct Full {
    has_room: bool,
    wake: File,
}

impl std::os::fd::AsFd for Full {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Help for Full {
    fn has_room(&self) -> bool {
        self.has_room
    }

    fn hand_out(&mut self, _: u64, _: Work) -> Result<(), Work> {
        Ok(())
    }

    fn take_back(&mut self) -> Vec<Returned> {
        Vec::new()
    }
}

/// A loop whose helpers are full, with one connection that is being sent a listing in pieces.
struct Bench {
    work: BlockingWork,
    connections: Connections<Slot<()>>,
    worker: Worker,
    key: u64,
    /// The connections that the loop went on with.
    went_on: Vec<u64>,
}

impl Offload for Bench {
    type Socket = ();

    fn parts(&mut self) -> (&mut BlockingWork, &mut Connections<Slot<()>>, &mut Worker) {
        (&mut self.work, &mut self.connections, &mut self.worker)
    }

    fn evict(&mut self) -> bool {
        false
    }

    fn go_on(&mut self, key: u64, _: bool) {
        self.went_on.push(key);
    }
}

impl Bench {
    fn new(root: &std::path::Path) -> Self {
        let settings = HostSettings { listing: true, ..HostSettings::new(root.into()) };
        let site = Arc::new(site::Site::new(vec![settings]).unwrap());
        let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
        let mut worker = idle::maker(site, Limits::default())(None, Arc::new(Counters::default()));
        let mut connection = Connection::new(&worker, "192.0.2.7:4711".parse().unwrap());
        connection.ingest(&mut worker, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        while matches!(connection.next(), Op::Job) {
            run_on_the_spot(&mut connection, &mut worker, &runner);
        }
        let mut connections = Connections::new(worker.now());
        let key = connections.welcome(connection, ());
        let full = Full { has_room: false, wake: File::open("/dev/null").unwrap() };
        let work = BlockingWork::new(runner, Some(Box::new(full)), 0);
        Self { work, connections, worker, key, went_on: Vec::new() }
    }

    /// What is left to send of the piece that is being sent; none if something else is to be done.
    fn left(&mut self) -> Option<usize> {
        match self.connections.get(self.key).unwrap().connection.next() {
            Op::Send { head, body, .. } => Some(head.len() + body.len()),
            _ => None,
        }
    }

    /// The client takes `n` bytes.
    fn send(&mut self, n: usize) {
        self.connections.get(self.key).unwrap().connection.sent(&mut self.worker, n);
    }
}

#[test]
fn a_listing_whose_next_piece_finds_no_room_sends_what_is_left_of_the_last() {
    let directory = Temporary::new();
    for number in 0..1000 {
        directory.file(&format!("{number:0200}"), "");
    }
    let mut bench = Bench::new(directory.path());
    let len = bench.left().expect("the first piece");
    bench.send(len - len / 4);
    assert_eq!(bench.left(), None, "the next piece is wanted before the rest is sent");
    assert_eq!(bench.begin_job(bench.key), Begun::Out);
    assert_eq!(bench.left(), Some(len / 4));
    bench.send(len / 4);
    assert_eq!(bench.left(), None);
    // Now there is nothing else to do for it: it waits in line, once.
    for _ in 0..2 {
        assert_eq!(bench.begin_job(bench.key), Begun::Away);
        bench.take_back();
        assert!(bench.went_on.is_empty());
    }
    let full = Full { has_room: true, wake: File::open("/dev/null").unwrap() };
    bench.work.helpers = Some(Box::new(full));
    bench.take_back();
    assert_eq!(bench.went_on, [bench.key]);
    assert_eq!(bench.begin_job(bench.key), Begun::Out);
    assert!(matches!(bench.connections.get(bench.key).unwrap().connection.next(), Op::Recv));
}
