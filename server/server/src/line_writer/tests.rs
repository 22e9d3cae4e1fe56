//! Writers that hang, fail and panic: callers do not wait, and each line is counted.

use std::os::fd::AsFd;
use std::sync::mpsc;

use super::*;

const PURPOSE: Purpose = Purpose { thread: "test", what: "the test's log", report: |_| () };
const LIMITS: QueueLimits = QueueLimits { buffer_bytes: 64, buffers_max: 4 };

fn endless() -> StopDeadline<'static> {
    StopDeadline::new(u64::MAX, || false)
}

fn start<W: Write + Send + 'static>(output: W) -> LineWriter {
    LineWriter::start(PURPOSE, LIMITS, output, || Err("not here".into())).unwrap()
}

/// Hands over full buffers, of two lines each. Returns how many were taken.
fn hand_over(writer: &LineWriter, buffers: usize) -> usize {
    let full = [&[b'x'; LIMITS.buffer_bytes - 2][..], b"\n\n"].concat();
    let hand = |_: &usize| writer.queue().hand_over(&mut full.clone(), 2);
    (0..buffers).filter(hand).count()
}

/// Writes nothing until the gate's other end is dropped, and then into a channel.
struct Gated {
    gate: mpsc::Receiver<()>,
    written: mpsc::Sender<u64>,
}

impl Gated {
    fn new() -> (Self, mpsc::Sender<()>, mpsc::Receiver<u64>) {
        let ((release, gate), (written, lines)) = (mpsc::channel(), mpsc::channel());
        (Self { gate, written }, release, lines)
    }
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.gate.recv();
        let _ = self.written.send(count_lines(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Four buffers wait, one is being written, and all other lines are dropped and counted.
#[test]
fn a_writer_that_stalls_costs_lines_and_no_time() {
    let (output, release, lines) = Gated::new();
    let writer = start(output);
    let taken = hand_over(&writer, 1000);
    assert!((4..=5).contains(&taken), "{taken}");
    drop(release); // from here on the writer writes
    let closed = writer.close(os::clock::now(), &mut endless());
    assert_eq!(closed, Closed { dropped: 2 * (1000 - taken as u64), hangs: false });
    assert_eq!(lines.iter().sum::<u64>(), 2 * taken as u64);
}

/// As many nearly empty buffers wait as there is room for their bytes.
#[test]
fn small_buffers_are_joined_until_the_bytes_are_too_many() {
    let (output, release, lines) = Gated::new();
    let writer = start(output);
    let fit = LIMITS.buffers_max * LIMITS.buffer_bytes / b"one\n".len();
    let hand = |_: &usize| writer.queue().hand_over(&mut b"one\n".to_vec(), 1);
    let taken = (0..1000).filter(hand).count();
    let most = fit + LIMITS.buffer_bytes / b"one\n".len(); // one buffer may be with the writer
    assert!((fit..=most).contains(&taken), "{taken}");
    drop(release);
    let closed = writer.close(os::clock::now(), &mut endless());
    assert_eq!(closed, Closed { dropped: 1000 - taken as u64, hangs: false });
    assert_eq!(lines.iter().sum::<u64>(), taken as u64);
}

#[test]
fn a_writer_that_hangs_is_not_waited_for_and_what_it_has_is_counted() {
    let (output, release, lines) = Gated::new();
    let writer = start(output);
    hand_over(&writer, 100);
    let closed = writer.close(os::clock::now(), &mut StopDeadline::passed());
    assert_eq!(closed, Closed { dropped: 200, hangs: true });
    drop(release); // what the writer still writes was counted as dropped
    assert!(lines.iter().sum::<u64>() <= 2);
}

/// The output is a pipe of the kernel's that is full and has no reader.
#[test]
fn a_pipe_without_a_reader_is_not_waited_for() {
    let (reader, pipe) = io::pipe().unwrap();
    let output = Output::standard(&pipe).unwrap();
    drop(pipe);
    let writer = LineWriter::start(
        PURPOSE,
        QueueLimits { buffer_bytes: 4096, buffers_max: 64 },
        output,
        || Err("not here".into()),
    );
    let writer = writer.unwrap();
    let line = [&[b'x'; 4095][..], b"\n"].concat();
    for _ in 0..1000 {
        writer.queue().hand_over(&mut line.clone(), 1);
    }
    let closed = writer.close(os::clock::now(), &mut StopDeadline::passed());
    assert!(closed.hangs && closed.dropped > 800, "{closed:?}");
    drop(reader);
}

/// The program that started the server may have set its standard output to non-blocking.
#[test]
fn an_output_that_does_not_block_is_waited_for() {
    let (mut reader, pipe) = io::pipe().unwrap();
    os::socket::set_blocking(pipe.as_fd(), false).unwrap();
    let mut output = Output::standard(&pipe).unwrap();
    drop(pipe);
    let writing = thread::spawn(move || output.write_all(&vec![b'\n'; 1 << 20]));
    let read = io::copy(&mut reader, &mut io::sink()).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(read, 1 << 20);
}

#[test]
fn a_full_disk_costs_its_lines() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writer = start(Full);
    assert_eq!(hand_over(&writer, 3), 3);
    assert_eq!(writer.close(os::clock::now(), &mut endless()), Closed { dropped: 6, hangs: false });
}

#[test]
fn a_writer_that_panics_delays_no_caller() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("(this message is expected)");
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writer = start(Broken);
    hand_over(&writer, 3);
    assert_eq!(writer.close(os::clock::now(), &mut endless()), Closed { dropped: 6, hangs: false });
}
