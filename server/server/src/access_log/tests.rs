//! Tests of the access log: forms of lines, rotation, and the way from a worker process.

use super::*;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::thread;

use testkit::Temporary;

use crate::processes::{Ledger, MESSAGE_BYTES_MAX};
use crate::services::Services;

fn record<'r>() -> Record<'r> {
    Record {
        peer: SocketAddr::from(([192, 0, 2, 1], 5000)),
        unix_us: 784_111_777_000_042, // Sun, 06 Nov 1994 08:49:37 GMT
        method: b"GET",
        target: b"/a%20b?q=\"1\"",
        version: "HTTP/1.1",
        host: Some(b"example.com:8080"),
        status: 200,
        body_bytes: 1234,
        referer: None,
        user_agent: Some(b"curl/8 \x1b[31m"),
        duration_us: 57,
    }
}

fn endless() -> StopDeadline<'static> {
    StopDeadline::new(u64::MAX, || false)
}

fn settings(access: AccessForm) -> LogSettings {
    LogSettings { access, buffer_bytes: 1024, queue_buffers_max: 4, ..LogSettings::default() }
}

/// Opens a log, with the way to it.
fn open(settings: &LogSettings) -> (Log, Arc<Routes>) {
    let log = Log::open(settings).unwrap().unwrap();
    let routes = Routes::begin(settings, Some(log.queue()));
    (log, Arc::new(routes))
}

/// The end of a worker that is a thread.
fn worker(routes: &Arc<Routes>) -> WorkerLog {
    begun(LogTarget::Writer(Arc::clone(routes)))
}

fn begun(target: LogTarget) -> WorkerLog {
    let mut worker = WorkerLog::new(target);
    assert!(worker.renew());
    worker
}

/// Writes `records` and returns what came out.
fn written(access: AccessForm, records: &[Record<'_>]) -> String {
    let directory = Temporary::new();
    let path = directory.path().join("access.log").to_string_lossy().into_owned();
    let (log, routes) = open(&LogSettings { path: path.clone(), ..settings(access) });
    let mut worker = worker(&routes);
    records.iter().for_each(|record| assert!(worker.record(record)));
    worker.flush();
    assert_eq!(log.close(os::clock::now(), &mut endless()), Closed { dropped: 0, hangs: false });
    fs::read_to_string(path).unwrap()
}

#[test]
fn combined_line() {
    let expected = r#"192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] "GET /a%20b?q=\x221\x22 HTTP/1.1" 200 1234 "-" "curl/8 \x1B[31m" 57"#;
    assert_eq!(written(AccessForm::Combined, &[record()]), format!("{expected}\n"));
}

#[test]
fn json_line() {
    let expected = r#"{"time":"1994-11-06T08:49:37.000042Z","peer":"192.0.2.1:5000","method":"GET","target":"/a%20b?q=\"1\"","version":"HTTP/1.1","host":"example.com:8080","status":200,"bytes":1234,"referer":null,"user_agent":"curl/8 \u001b[31m","duration_us":57}"#;
    assert_eq!(written(AccessForm::Json, &[record()]), format!("{expected}\n"));
}

/// Service managers open one socket for both families (RFC 4291 §2.5.5.2).
#[test]
fn a_client_of_ipv4_has_one_name_at_every_socket() {
    let check = |peer: &str, combined: &str, json: &str| {
        let record = [Record { peer: peer.parse().unwrap(), ..record() }];
        let line = written(AccessForm::Combined, &record);
        assert!(line.starts_with(&format!("{combined} - - [")), "{line}");
        let line = written(AccessForm::Json, &record);
        assert!(line.contains(&format!("\"peer\":\"{json}\",")), "{line}");
    };
    check("[::ffff:192.0.2.7]:40000", "192.0.2.7", "192.0.2.7:40000");
    check("[2001:db8::7]:40000", "2001:db8::7", "[2001:db8::7]:40000");
    check("[::1]:40000", "::1", "[::1]:40000");
}

#[test]
fn a_request_that_could_not_be_read_has_a_dash() {
    let malformed = Record { method: b"", target: b"", status: 400, ..record() };
    let line = written(AccessForm::Combined, &[malformed]);
    assert!(line.contains("+0000] \"-\" 400 "), "{line}");
}

#[test]
fn a_line_longer_than_the_buffer_is_whole() {
    let target = vec![b'\x01'; 3000];
    let long = Record { target: &target, ..record() };
    let lines = written(AccessForm::Combined, &[record(), long, record()]);
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.lines().nth(1).unwrap().contains(&"\\x01".repeat(3000)));
}

#[test]
fn rotation_loses_no_line() {
    const LINES: usize = 3000;
    let directory = Temporary::new();
    let path = directory.path().join("access.log");
    let settings = LogSettings {
        path: path.to_string_lossy().into_owned(),
        queue_buffers_max: 4096,
        ..settings(AccessForm::Combined)
    };
    let (log, routes) = open(&settings);
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut worker = worker(&routes);
            scope.spawn(move || {
                for number in 0..LINES {
                    assert!(worker.record(&Record { duration_us: number as u64, ..record() }));
                }
                worker.flush();
            });
        }
        for generation in 0..5 {
            let moved = directory.path().join(format!("access.log.{generation}"));
            // When rotations come fast, the new file may not exist yet.
            if fs::rename(&path, moved).is_ok() {
                log.reopener().reopen();
            }
            thread::yield_now();
        }
    });
    assert_eq!(log.close(os::clock::now(), &mut endless()).dropped, 0);
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<String> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(texts.len() > 1, "nothing was rotated");
    let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
    assert_eq!(lines, 2 * LINES);
}

/// The end of a worker in a worker process, and the supervisor's end of its uplink.
fn in_worker_process(ledger: Ledger) -> (WorkerLog, OwnedFd) {
    with_message_bytes(MESSAGE_BYTES_MAX, ledger)
}

/// The end of a worker in a worker process, and the supervisor's end of its uplink, where a message
/// has room for `bytes` bytes of lines.
fn with_message_bytes(bytes: usize, ledger: Ledger) -> (WorkerLog, OwnedFd) {
    let (ours, theirs) = os::passing::message_pair(bytes + 1).unwrap();
    let style = ledger.log_style();
    style.set(Style::of(&settings(AccessForm::Combined)));
    let (uplink, ledger) = (Arc::new(Uplink::new(theirs)), ledger.place(0).unwrap());
    (begun(LogTarget::Supervisor { uplink, ledger, style }), ours)
}

/// Returns all lines that a supervisor has received so far.
fn take_sent(supervisor: &OwnedFd) -> String {
    let (mut all, mut message) = (Vec::new(), vec![0; 1 << 18]);
    while let Ok(count @ 1..) = os::send::recv(supervisor.as_fd(), &mut message) {
        all.extend_from_slice(&message[1..count]); // after the kind
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn lines_of_a_worker_process_are_sent_and_counted_where_they_outlive_it() {
    let (_file, ledger) = Ledger::create(1, 0).unwrap();
    let place = ledger.place(0).unwrap();
    let (mut worker, supervisor) = in_worker_process(ledger);
    (0..5).for_each(|_| assert!(worker.record(&record())));
    worker.flush();
    assert_eq!(take_sent(&supervisor).lines().count(), 5);
    assert_eq!((place.lines_written().get(), place.lines_dropped().get()), (5, 0));
}

/// Messages are as short as on a system where net.core.wmem_max is low.
#[test]
fn where_messages_are_short_there_are_more_of_them() {
    const ROUNDS: usize = 20;
    const LINES: usize = 11;
    let (_file, ledger) = Ledger::create(1, 0).unwrap();
    let place = ledger.place(0).unwrap();
    let (mut worker, supervisor) = with_message_bytes(6_000, ledger);
    let (target, mut sent) = (vec![b'x'; 900], String::new());
    for _ in 0..ROUNDS {
        // The socket is soon full, so that several messages are kept and sent together.
        (0..LINES).for_each(|_| assert!(worker.record(&Record { target: &target, ..record() })));
        for _ in 0..LINES {
            sent.push_str(&take_sent(&supervisor));
            worker.flush();
        }
    }
    let long = Record { target: &[b'x'; 7_000], ..record() };
    assert!(worker.record(&long));
    worker.flush();
    sent.push_str(&take_sent(&supervisor));
    assert_eq!(sent.lines().count(), ROUNDS * LINES);
    let counted = (place.lines_written().get(), place.lines_dropped().get());
    assert_eq!(counted, ((ROUNDS * LINES) as u64, 1));
}

/// A worker process never waits: lines are kept for a while, and the excess is dropped.
#[test]
fn a_supervisor_that_does_not_listen_costs_lines_and_no_time() {
    const LINES: u64 = 20_000;
    let (_file, ledger) = Ledger::create(1, 0).unwrap();
    let place = ledger.place(0).unwrap();
    let (mut worker, supervisor) = in_worker_process(ledger);
    (0..LINES).for_each(|_| assert!(worker.record(&record())));
    let sent = take_sent(&supervisor);
    drop(worker);
    let dropped = place.lines_dropped().get();
    assert!(sent.lines().count() > 0 && dropped > 0, "{dropped} dropped");
    let sent = sent.lines().chain(take_sent(&supervisor).lines()).count() as u64;
    assert_eq!((place.lines_written().get(), sent + dropped), (sent, LINES));
}

#[test]
fn a_line_that_is_longer_than_a_message_is_dropped_and_the_others_are_sent() {
    let (_file, ledger) = Ledger::create(1, 0).unwrap();
    let place = ledger.place(0).unwrap();
    let (mut worker, supervisor) = in_worker_process(ledger);
    let target = vec![b'\x01'; 100_000]; // four times as long in the log
    assert!(worker.record(&record()));
    assert!(worker.record(&Record { target: &target, ..record() }));
    assert!(worker.record(&record()));
    worker.flush();
    assert_eq!(take_sent(&supervisor).lines().count(), 2);
    assert_eq!((place.lines_written().get(), place.lines_dropped().get()), (2, 1));
}

#[test]
fn messages_end_with_a_line() {
    let lines = |count: usize| [&vec![b'x'; 99][..], b"\n"].concat().repeat(count);
    let check =
        |lines: &[u8], expected| assert_eq!(first_lines(lines, MESSAGE_BYTES_MAX).len(), expected);
    check(b"one\ntwo\n", 8);
    check(&lines(MESSAGE_BYTES_MAX / 100), MESSAGE_BYTES_MAX / 100 * 100);
    check(&lines(4000), MESSAGE_BYTES_MAX / 100 * 100);
    let long = [&vec![b'x'; 300_000][..], b"\n", b"short\n"].concat();
    check(&long, 300_001);
}

#[test]
fn a_directory_is_no_log() {
    let settings = LogSettings { path: "/".into(), ..settings(AccessForm::Json) };
    let error = Log::open(&settings).err().unwrap().to_string();
    assert!(error.starts_with("cannot open the access log \"/\": "), "{error}");
}

#[test]
fn a_fifo_without_a_reader_is_no_log() {
    let directory = Temporary::new();
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let path = path.to_string_lossy().into_owned();
    let settings = LogSettings { path, ..settings(AccessForm::Json) };
    let error = Log::open(&settings).err().unwrap().to_string();
    assert!(error.ends_with("it is a FIFO; start its reader first"), "{error}");
}

/// A pipe that no process reads holds up no caller that asks whether all is written.
#[test]
fn a_former_log_that_hangs_is_given_up_by_and_by() {
    let directory = Temporary::new();
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let path = path.to_string_lossy().into_owned();
    let (log, routes) = open(&LogSettings { path, ..settings(AccessForm::Combined) });
    let mut worker = worker(&routes);
    (0..2000).for_each(|_| assert!(worker.record(&record())));
    worker.flush();
    let mut services = Services::with_log(log, routes);
    assert!(!services.have_ended(), "a pipe has no room for so much");
    assert!(testkit::comes_true(|| services.have_ended()));
    assert!(services.end(0, &mut StopDeadline::passed()) > 0, "what is lost is counted");
    drop(reader);
}

/// What a worker has written before it looks at what it is to write goes to the former log, and in
/// the former form: to the other log if there is none any more, and it is counted if there is none
/// at all.
#[test]
fn lines_go_to_the_log_of_their_form() {
    let directory = Temporary::new();
    let of = |access, name: &str| {
        let path = directory.path().join(name).to_string_lossy().into_owned();
        LogSettings { path, ..settings(access) }
    };
    let lines = |name| fs::read_to_string(directory.path().join(name)).unwrap();
    let close = |log: Log| log.close(os::clock::now(), &mut endless());
    let one = of(AccessForm::Combined, "one");
    let (log, routes) = open(&one);
    let [mut quick, mut slow] = [worker(&routes), worker(&routes)];
    assert!(quick.record(&record()) && slow.record(&record()));

    let two = of(AccessForm::Json, "two");
    let other = Log::open(&two).unwrap().unwrap();
    routes.lead_to(two.access, other.queue());
    routes.set_style(Style::of(&two));
    assert!(quick.renew() && quick.record(&record()));
    quick.flush();
    assert!(slow.record(&record()));
    slow.flush();
    routes.leave(&log.queue());
    assert_eq!(close(log).dropped, 0);
    assert_eq!(lines("one").lines().filter(|line| line.starts_with("192.")).count(), 3);

    assert!(slow.record(&record()), "there is no log of this form any more");
    slow.flush();
    routes.set_style(Style::default());
    assert!(!quick.renew() && !quick.record(&record()));
    assert_eq!(routes.take_lost(), 0);
    routes.set_style(Style::of(&two));
    assert!(quick.renew() && quick.record(&record()));
    routes.leave(&other.queue());
    assert_eq!(close(other).dropped, 0);
    quick.flush();
    assert_eq!((routes.take_lost(), routes.take_lost()), (1, 0));
    let (json, combined): (Vec<String>, Vec<String>) =
        lines("two").lines().map(str::to_owned).partition(|line| line.starts_with('{'));
    assert_eq!((json.len(), combined.len()), (1, 1));
}

/// What is not sent yet when another form is to be written is sent as what it is.
#[test]
fn a_worker_process_changes_the_form_when_its_lines_are_sent() {
    const LINES: usize = 20_000;
    let (_file, ledger) = Ledger::create(1, 0).unwrap();
    let (mut worker, supervisor) = in_worker_process(ledger);
    (0..LINES).for_each(|_| assert!(worker.record(&record())));
    assert!(ledger.lines_dropped() > 0, "there is room for all");
    ledger.log_style().set(Style::of(&settings(AccessForm::Json)));
    assert!(worker.renew() && worker.record(&record()));
    let mut kinds = Vec::new();
    let mut message = vec![0; 1 << 18];
    for _ in 0..2 {
        while let Ok(count) = os::send::recv(supervisor.as_fd(), &mut message) {
            let is_json = message[1] == b'{';
            assert!(
                message[1..count]
                    .split(|byte| *byte == b'\n')
                    .all(|line| { line.is_empty() || line.starts_with(b"{") == is_json })
            );
            kinds.push((message[0], is_json));
        }
        assert!(worker.record(&record()));
        worker.flush();
    }
    kinds.dedup();
    assert_eq!(kinds, [(b'c', false), (b'j', true)]);
}
