//! The recorder from its command to its trace: the trace has what Cachegrind counts, and nothing is
//! lost whichever way a process ends.

mod cachegrind;
mod calls;
mod heap;
mod processes;
mod qemu;

use memory_trace::{Event, Reader};
use std::path::Path;
use testkit::Temporary;
use testkit::tools::{QEMU, VALGRIND, has};
use tracer::{Options, Recorder, Summary, record};

/// The recorders that are available here. Missing ones are reported.
fn recorders() -> impl Iterator<Item = Recorder> {
    let all = [(Recorder::Valgrind, &VALGRIND), (Recorder::Qemu, &QEMU)];
    all.into_iter().filter(|(_, tool)| has(tool)).map(|(recorder, _)| recorder)
}

/// Records a command into `folder`, under Valgrind.
fn recorded(folder: &Temporary, command: &[&str], window: (u64, u64)) -> (Summary, Reader) {
    recorded_with(Recorder::Valgrind, folder, command, window)
}

/// Records a command into `folder`.
fn recorded_with(
    recorder: Recorder,
    folder: &Temporary,
    command: &[&str],
    window: (u64, u64),
) -> (Summary, Reader) {
    let options = Options {
        recorder,
        out: folder.path().join("trace"),
        skip: window.0,
        references_max: window.1,
        time_us: 0,
        scratch: folder.path().to_owned(),
        ropewalk: Err("no recipe is run here".into()),
    };
    let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
    let summary = record(&options, &command).unwrap();
    let reader = Reader::open(&options.out).unwrap();
    assert_eq!(leftovers(folder.path()), 0, "the records are removed");
    (summary, reader)
}

fn leftovers(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("ropewalk-trace-")).count()
}

/// All events of a process.
fn events(reader: &Reader, process: u32) -> Vec<Event> {
    let mut stream = reader.stream(process).unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while stream.next_block(&mut block).unwrap() {
        all.append(&mut block);
    }
    all
}

/// The references of the first process of a recording.
fn accesses((summary, reader): &(Summary, Reader)) -> Vec<Event> {
    let all = events(reader, summary.processes[0].id);
    all.into_iter().filter(|event| matches!(event, Event::Access(_))).collect()
}
