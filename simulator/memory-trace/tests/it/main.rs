//! Traces written and read as a whole: round trips, and damaged traces.

mod counts;
mod damage;
mod imports;
mod round_trip;

use memory_trace::{Event, Header, Process, Reader, Writer};

/// A trace in memory with these processes; events in the order given.
fn written(header: &Header, processes: &[Process], events: &[(u32, Event)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, header).expect("memory does not fail");
    for process in processes {
        writer.process(process).expect("memory does not fail");
    }
    for (process, event) in events {
        writer.event(*process, event).expect("memory does not fail");
    }
    let written = writer.finish().expect("memory does not fail");
    assert_eq!(written.events, events.len() as u64);
    assert_eq!(written.bytes, bytes.len() as u64);
    bytes
}

/// All events of a process.
fn events_of(reader: &Reader, process: u32) -> Vec<Event> {
    let mut stream = reader.stream(process).expect("the process is there");
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while stream.next_block(&mut block).expect("the trace is whole") {
        all.extend_from_slice(&block);
    }
    all
}
