//! Tests.

use super::*;
use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc;

use crate::processes::Ledger;

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

fn settings(access: AccessForm) -> LogSettings {
    LogSettings { access, buffer_bytes: 1024, queue_buffers_max: 4, ..LogSettings::default() }
}

/// Writes `records` and returns what came out.
fn written(access: AccessForm, records: &[Record<'_>]) -> String {
    let (sender, receiver) = mpsc::channel();
    let log =
        Log::start(&settings(access), Sent(sender), || Err("not here".into()), Tally::default())
            .unwrap();
    let mut worker = log.ends().worker();
    records.iter().for_each(|record| worker.record(record));
    worker.flush();
    assert_eq!(log.close(), 0);
    String::from_utf8(receiver.iter().flatten().collect()).unwrap()
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

/// 4 buffers wait, 1 is being written, and whatever else comes is dropped and counted.
#[test]
fn a_stalled_writer_costs_lines_and_no_time() {
    let (release, gate) = mpsc::channel();
    let (sender, receiver) = mpsc::channel();
    let output = Stalled { gate, output: Sent(sender) };
    let log = Log::start(
        &settings(AccessForm::Combined),
        output,
        || Err("not here".into()),
        Tally::default(),
    )
    .unwrap();
    let mut worker = log.ends().worker();
    for _ in 0..10_000 {
        worker.record(&record());
    }
    worker.flush();
    drop(release); // the writer runs from here on
    let dropped = log.close();
    let lines = receiver.iter().map(|lines| count_lines(&lines)).sum::<u64>();
    assert_eq!(lines + dropped, 10_000);
    assert!((1..100).contains(&lines), "{lines} lines were written");
}

#[test]
fn a_failing_writer_counts_its_lines_as_dropped() {
    let log =
        Log::start(&settings(AccessForm::Json), Failing, || Ok(Failing), Tally::default()).unwrap();
    let mut worker = log.ends().worker();
    worker.record(&record());
    worker.record(&record());
    worker.flush();
    assert_eq!(log.close(), 2);
}

#[test]
fn rotation_loses_no_line() {
    const LINES: usize = 3000;
    let directory = empty_directory("rotation");
    let path = directory.join("access.log");
    let settings = LogSettings {
        path: path.to_string_lossy().into_owned(),
        queue_buffers_max: 4096,
        ..settings(AccessForm::Combined)
    };
    let log = Log::open(&settings, None).unwrap().unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut worker = log.ends().worker();
            scope.spawn(move || {
                for number in 0..LINES {
                    worker.record(&Record { duration_us: number as u64, ..record() });
                }
                worker.flush();
            });
        }
        for generation in 0..5 {
            let moved = directory.join(format!("access.log.{generation}"));
            // The new file may not be there yet when the rotations come fast.
            if fs::rename(&path, moved).is_ok() {
                log.reopener().reopen();
            }
            thread::yield_now();
        }
    });
    assert_eq!(log.close(), 0);
    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<String> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(texts.len() > 1, "nothing was rotated");
    let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
    assert_eq!(lines, 2 * LINES);
    fs::remove_dir_all(directory).unwrap();
}

/// A process that must not have a thread besides: what is flushed is written when it returns.
#[test]
fn a_log_without_a_thread_is_written_and_rotated_by_its_workers() {
    let directory = empty_directory("direct");
    let path = directory.join("access.log");
    let settings =
        LogSettings { path: path.to_string_lossy().into_owned(), ..settings(AccessForm::Json) };
    let (_file, ledger) = Ledger::create(1).unwrap();
    let place = ledger.place(0).unwrap();
    let sharing = Sharing { ledger: place, lock_path: "/no/such".into(), is_single_threaded: true };
    let log = Log::open(&settings, Some(sharing)).unwrap().unwrap();
    let mut workers = [log.ends().worker(), log.ends().worker()];
    let mut write = |lines: usize| {
        for worker in &mut workers {
            (0..lines).for_each(|_| worker.record(&record()));
            worker.flush();
        }
    };
    let lines = |path: &std::path::Path| fs::read_to_string(path).unwrap().lines().count();
    write(2);
    assert_eq!(lines(&path), 4);
    let moved = directory.join("access.log.1");
    fs::rename(&path, &moved).unwrap();
    write(1);
    assert_eq!(lines(&moved), 6, "nobody has said that it was moved");
    ledger.reopen_log(1);
    write(3);
    assert_eq!((lines(&moved), lines(&path)), (6, 6));
    assert_eq!((place.lines_written().get(), log.close()), (12, 0));
    fs::remove_dir_all(directory).unwrap();
}

/// Several processes write to one standard output in turn; here, to one lock.
#[test]
fn turns_exclude_each_other_and_a_lock_that_is_not_there_excludes_nobody() {
    let directory = empty_directory("turns");
    let path = directory.join("lock");
    fs::write(&path, "").unwrap();
    let turn = |path: &std::path::Path| output::Turn::new(path.to_string_lossy().into_owned());
    let inside = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut turn = turn(&path);
                for _ in 0..200 {
                    turn.take(|| {
                        use std::sync::atomic::Ordering::SeqCst;
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    });
                }
            });
        }
    });
    assert_eq!(turn(std::path::Path::new("/no/such")).take(|| 7), 7);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_directory_is_no_log() {
    let settings = LogSettings { path: "/".into(), ..settings(AccessForm::Json) };
    let error = Log::open(&settings, None).err().unwrap();
    assert!(error.starts_with("cannot open the access log \"/\": "), "{error}");
}

/// An empty directory of this test's own.
fn empty_directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("ropewalk-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Sends what is written to a test.
struct Sent(mpsc::Sender<Vec<u8>>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).unwrap();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes nothing until the gate's other end is dropped.
struct Stalled {
    gate: mpsc::Receiver<()>,
    output: Sent,
}

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.gate.recv();
        self.output.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A full disk.
struct Failing;

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
