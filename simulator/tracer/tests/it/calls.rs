//! System calls and the bytes that they move, of programs whose reads and writes are known.

use std::fs;

use memory_trace::{Call, Event, Reader};
use testkit::Temporary;
use tracer::Recorder;

use crate::{events, recorded_with, recorders};

const BYTES: usize = 10_100;

/// The number of bytes that each call of this number moved.
fn moved(reader: &Reader, number: u32) -> Vec<u32> {
    let of = |event| match event {
        Event::Moved { number: other, bytes } if other == number => Some(bytes),
        _ => None,
    };
    let all = reader.processes().iter().flat_map(|process| events(reader, process.id));
    all.filter_map(of).collect()
}

fn call(reader: &Reader, name: &str) -> Option<Call> {
    let calls = memory_trace::tables(reader, 32).expect("it is whole").calls.list();
    calls.into_iter().find(|call| call.name() == name)
}

#[test]
fn what_is_copied_in_blocks_is_told_call_by_call() {
    recorders().for_each(check_blocks);
}

fn check_blocks(recorder: Recorder) {
    let folder = Temporary::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("file"), vec![b'x'; BYTES]).unwrap();
    let operands = [format!("if={}", path("file")), format!("of={}", path("copy"))];
    let command = ["dd", &operands[0], &operands[1], "bs=1000", "status=none"];
    let (_, reader) = recorded_with(recorder, &folder, &command, (0, 0));
    assert_eq!(fs::read(path("copy")).unwrap().len(), BYTES, "{recorder:?}");

    let expected = [[1000; 10].as_slice(), &[100]].concat();
    assert_eq!(moved(&reader, 1), expected, "{recorder:?}: writes");
    // The loader reads the program before this, and the end of the file is read as well.
    let reads = moved(&reader, 0);
    let end = [&expected[..], &[0]].concat();
    assert!(reads.ends_with(&end), "{recorder:?}: {reads:?}");
    let write = call(&reader, "write").unwrap();
    assert_eq!(
        (write.count, write.with_bytes, write.bytes),
        (11, 11, BYTES as u64),
        "{recorder:?}"
    );
    assert_eq!(call(&reader, "close").map(|close| close.with_bytes), Some(0), "{recorder:?}");
}

#[test]
fn a_copied_file_is_moved_once_whichever_calls_copy_it() {
    recorders().for_each(check_copy);
}

fn check_copy(recorder: Recorder) {
    let folder = Temporary::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("file"), vec![b'x'; BYTES]).unwrap();
    let command = ["cp", "--reflink=never", &path("file"), &path("copy")];
    let (_, reader) = recorded_with(recorder, &folder, &command, (0, 0));
    let bytes = |name: &str| call(&reader, name).map_or(0, |call| call.bytes);
    let all = bytes("copy_file_range") + bytes("write");
    assert_eq!(all, BYTES as u64, "{recorder:?}");
}

/// A call that fails has moved nothing, and its record has no byte count.
#[test]
fn calls_that_fail_are_counted_and_move_nothing() {
    for recorder in recorders() {
        let folder = Temporary::new();
        // Reading a directory as a file.
        let script = "read word < . ; true";
        let (_, reader) = recorded_with(recorder, &folder, &["sh", "-c", script], (0, 0));
        let read = call(&reader, "read").unwrap();
        assert_eq!(read.count, read.with_bytes + 1, "{recorder:?}: {read:?}");
    }
}
