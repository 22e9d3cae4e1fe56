//! Damaged and truncated traces: the damage is found and located, or of no consequence; the result
//! is never another trace.

use memory_trace::{Event, Fault, Header, Process, Reader, Synthetic};

use crate::written;

/// The description of a trace, and the events of each of its processes.
type All = (Header, Vec<Process>, Vec<Vec<Event>>);

/// Everything in a trace, or the first error.
fn read_all(bytes: &[u8]) -> Result<All, String> {
    let reader = Reader::from_bytes(bytes.to_vec()).map_err(|why| why.to_string())?;
    if let Some(damage) = reader.damage() {
        return Err(damage.to_string());
    }
    let mut events = Vec::new();
    for process in reader.processes() {
        events.push(readable(&reader, process.id)?);
    }
    Ok((reader.header().clone(), reader.processes().to_vec(), events))
}

fn readable(reader: &Reader, process: u32) -> Result<Vec<Event>, String> {
    let mut stream = reader.stream(process).map_err(|why| why.to_string())?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while stream.next_block(&mut block).map_err(|why| why.to_string())? {
        all.extend_from_slice(&block);
    }
    Ok(all)
}

fn small() -> Vec<u8> {
    let process = |id| Process { id, command: "a".into(), ..Process::default() };
    let nth = |at: u64| (1 + at as u32 % 2, Event::fetch(0x1000 + at * 3, 3));
    let events: Vec<(u32, Event)> = (0..40).map(nth).collect();
    written(&Header::default(), &[process(1), process(2)], &events)
}

#[test]
fn every_flipped_bit_is_found() {
    let whole = small();
    read_all(&whole).expect("whole");
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let why = read_all(&damaged).expect_err("damaged");
            assert!(!why.contains('\n'), "{why}");
            assert!(why.contains(": byte "), "byte {at}: {why}");
        }
    }
}

#[test]
fn a_damaged_block_is_located_and_the_next_one_is_read() {
    let count = 70_000_u64;
    let events: Vec<(u32, Event)> = (0..count).map(|at| (1, Event::load(at * 64, 8))).collect();
    let mut bytes = written(&Header::default(), &[], &events);
    // The head of the file, its header's frame, then the first block.
    let block = bytes.windows(4).position(|tag| tag == b"EVNT").expect("a block");
    bytes[block + 60] ^= 1;
    let reader = Reader::from_bytes(bytes).expect("the index is whole");
    assert!(reader.damage().is_none());
    let mut stream = reader.stream(1).expect("the process is there");
    let mut out = Vec::new();
    let why = stream.next_block(&mut out).expect_err("damaged");
    assert_eq!(why.offset, Some(block as u64));
    assert!(matches!(why.fault, Fault::Damaged(_)));
    assert!(out.is_empty());
    assert!(stream.next_block(&mut out).expect("the second block is whole"));
    assert_eq!(out[0], Event::load(65_536 * 64, 8));
    assert!(!stream.next_block(&mut out).expect("that was all"));
}

#[test]
fn what_precedes_a_missing_end_is_read_and_the_rest_reported() {
    let whole = small();
    let (_, _, events) = read_all(&whole).expect("whole");
    let mut most = 0;
    for length in 0..whole.len() {
        let Ok(reader) = Reader::from_bytes(whole[..length].to_vec()) else {
            assert_eq!(most, 0, "{length}");
            continue;
        };
        let damage = reader.damage().expect("it is not whole");
        assert!(damage.offset.is_some_and(|offset| offset <= length as u64), "{damage}");
        let mut found = 0;
        for (at, process) in reader.processes().iter().enumerate() {
            let read = readable(&reader, process.id).expect("what is there is whole");
            assert!(read.is_empty() || read == events[at]);
            found += read.len();
        }
        assert!(found >= most, "more bytes, fewer events");
        most = found;
    }
    assert_eq!(most, 40, "without its index a trace has all its events");
}

#[test]
fn a_damaged_end_is_as_good_as_none() {
    let whole = small();
    for behind in 1..=24 {
        let mut damaged = whole.clone();
        let at = damaged.len() - behind;
        damaged[at] ^= 0x10;
        let reader = Reader::from_bytes(damaged).expect("the rest is whole");
        assert!(reader.damage().expect("the end is damaged").to_string().contains("end mark"));
        assert_eq!(readable(&reader, 2).expect("whole").len(), 20);
    }
}

#[test]
fn foreign_files_and_later_versions_are_told_apart() {
    let why = |bytes: &[u8]| read_all(bytes).expect_err("not ours");
    for foreign in [&b""[..], b"\x7fELF", b"I  04016b80,3\n", &[0; 100]] {
        assert!(why(foreign).contains("byte 0: not a trace"), "{}", why(foreign));
    }
    let later = small_with_version(3);
    assert!(why(&later).contains("format version 3 is not known here"), "{}", why(&later));
    assert!(why(&small_with_version(0)).contains("format version 0 is not known here"));
    assert!(why(&small()[..10]).contains("truncated file head"));
}

fn small_with_version(version: u8) -> Vec<u8> {
    let mut bytes = small();
    bytes[8] = version;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..12]) as u32;
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn the_version_before_is_read_as_it_was() {
    assert_eq!(small()[8], 2, "what is written");
    assert_eq!(
        read_all(&small_with_version(1)).expect("whole"),
        read_all(&small()).expect("whole")
    );
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let reader = Reader::from_bytes(Synthetic::default().bytes()).expect("whole");
    let why = reader.stream(77).expect_err("there are two").to_string();
    assert!(why.contains("no process 77"), "{why}");
}
