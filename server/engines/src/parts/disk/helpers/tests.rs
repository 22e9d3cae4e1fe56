//! Tests of helpers alone: order, bounds, panics, the end.

use std::fs::File;
use std::sync::mpsc;

use os::epoll::{Epoll, EventBuffer, Interest};
use session::{Known, WorkerParts};
use testkit::Temporary;

use super::*;
use crate::idle;

fn job(path: &[u8]) -> Job {
    Job::Resolve { host: 0, path: path.into(), known: Known::Nothing }
}

/// A runner whose answers carry the job's path: `/stall` waits at the gate, `/panic` panics.
fn runner(gate: mpsc::Receiver<()>) -> RunJob {
    let gate = Mutex::new(gate);
    Arc::new(move |job| {
        let Job::Resolve { path, .. } = job else { unreachable!("all jobs resolve paths") };
        match &*path {
            b"/stall" => lock(&gate).recv().unwrap(),
            b"/panic" => panic!("a job that panics, as a bug would"),
            _ => {}
        }
        Done::Resolved(Err(io::Error::other(String::from_utf8(path.into()).unwrap())))
    })
}

/// Waits for the next pieces of work to come back. Returns their keys and outcomes.
fn take(helpers: &mut Helpers) -> Vec<(u64, String)> {
    let epoll = Epoll::new().unwrap();
    epoll.add(helpers.as_fd(), Interest::READ, 0).unwrap();
    epoll.wait(&mut EventBuffer::with_capacity(1), None).unwrap();
    let describe = |outcome| match outcome {
        Outcome::Done(JobId { number, .. }, Done::Resolved(Err(why))) => format!("{number} {why}"),
        Outcome::Fetched => "fetched".into(),
        other => panic!("{other:?}"),
    };
    helpers.take_back().into_iter().map(|back| (back.key, describe(back.outcome))).collect()
}

fn id(number: u32) -> JobId {
    JobId { number, stream: 0 }
}

fn hand_out(helpers: &mut Helpers, key: u64, path: &[u8]) {
    helpers.hand_out(key, Work::Job(id(key as u32), job(path))).unwrap();
}

#[test]
fn a_stalled_job_delays_no_other() {
    let (open, gate) = mpsc::channel();
    let mut helpers = Helpers::start("helper", 2, 8, runner(gate)).unwrap();
    hand_out(&mut helpers, 1, b"/stall");
    for key in 2..5 {
        hand_out(&mut helpers, key, b"/quick");
        assert_eq!(take(&mut helpers), [(key, format!("{key} /quick"))]);
    }
    assert_eq!(helpers.out(), 1);
    open.send(()).unwrap();
    assert_eq!(take(&mut helpers), [(1, "1 /stall".into())]);
    assert_eq!(helpers.out(), 0);
}

#[test]
fn work_that_does_not_fit_is_returned() {
    let (open, gate) = mpsc::channel();
    let mut helpers = Helpers::start("helper", 1, 1, runner(gate)).unwrap();
    hand_out(&mut helpers, 1, b"/stall");
    assert!(helpers.has_room());
    hand_out(&mut helpers, 2, b"/quick");
    assert!(!helpers.has_room());
    let refused = helpers.hand_out(3, Work::Job(id(3), job(b"/more"))).unwrap_err();
    assert!(matches!(refused, Work::Job(JobId { number: 3, .. }, _)));
    open.send(()).unwrap();
    let mut back = Vec::new();
    while back.len() < 2 {
        back.append(&mut take(&mut helpers));
    }
    assert_eq!(back, [(1, "1 /stall".into()), (2, "2 /quick".into())]);
    assert!(helpers.has_room());
}

#[test]
fn a_panic_is_the_failure_of_its_job() {
    let (_open, gate) = mpsc::channel();
    let mut helpers = Helpers::start("helper", 1, 8, runner(gate)).unwrap();
    for key in 1..4 {
        hand_out(&mut helpers, key, b"/panic");
        assert_eq!(take(&mut helpers), [(key, format!("{key} the job panicked"))]);
    }
    hand_out(&mut helpers, 4, b"/quick");
    assert_eq!(take(&mut helpers), [(4, "4 /quick".into())]);
}

#[test]
fn files_are_fetched_and_their_faults_are_not_the_helpers() {
    let (_open, gate) = mpsc::channel();
    let mut helpers = Helpers::start("helper", 1, 8, runner(gate)).unwrap();
    let file = FileRef::new(File::open("/proc/self/exe").unwrap().into());
    let directory = FileRef::new(File::open("/").unwrap().into());
    for (key, file, offset) in [(1, &file, 0), (2, &file, u64::MAX - 1), (3, &directory, 0)] {
        let work = Work::Fetch { file: FileRef::clone(file), offset, len: 1 << 20 };
        helpers.hand_out(key, work).unwrap();
        assert_eq!(take(&mut helpers), [(key, "fetched".into())]);
    }
}

#[test]
fn the_end_waits_for_work_under_way_and_discards_the_rest() {
    let (open, gate) = mpsc::channel();
    let mut helpers = Helpers::start("helper", 1, 8, runner(gate)).unwrap();
    let shared = Arc::clone(&helpers.shared);
    let left = Arc::downgrade(&shared);
    hand_out(&mut helpers, 1, b"/stall");
    hand_out(&mut helpers, 2, b"/stall");
    while shared.queue.len() > 1 {
        std::thread::yield_now();
    }
    let opener = std::thread::spawn(move || {
        while !shared.queue.is_closed() {
            std::thread::yield_now();
        }
        open.send(()).unwrap();
        open // kept open: the second job would wait for ever if it began
    });
    drop(helpers);
    let _open = opener.join().unwrap();
    assert!(left.upgrade().is_none(), "a helper is left");
}

#[test]
fn bytes_that_are_to_be_read_are_fetched_as_those_that_are_to_be_sent() {
    let directory = Temporary::new();
    directory.file("file", "content");
    let site = idle::directory_site(directory.path());
    let runner = Runner::new(Arc::clone(&site), 0).unwrap();
    let mut worker = Worker::new(WorkerParts { reads_files: true, ..idle::parts(&site) });
    let mut connection = Connection::new(&worker, "192.0.2.7:4711".parse().unwrap());
    connection.ingest(&mut worker, b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    run_on_the_spot(&mut connection, &mut worker, &runner);
    let Op::Send { head, .. } = connection.next() else { panic!("the head is sent first") };
    let len = head.len();
    connection.sent(&mut worker, len);
    assert!(matches!(connection.next(), Op::Read { .. }));
    let work = next_work(&mut connection, 4);
    assert!(matches!(work, Work::Fetch { offset: 0, len: 4, .. }), "{work:?}");
}
