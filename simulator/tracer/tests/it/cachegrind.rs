//! Cachegrind's counts, from a trace and the simulator: equal to the last miss.
//!
//! Three machines of one processor without a kernel have the three caches: one gets the fetches,
//! one the data, and the third the misses of these two.

use std::collections::{BTreeSet, VecDeque};
use std::fs;

use coherence::protocol::INVALID;
use coherence::{
    Builder, Machine, Observer, Options, Placement, Reference, Workload, simulate_observed,
};
use memory_trace::{Access, AccessKind, Event, Process};
use testkit::Temporary;
use testkit::tools::{VALGRIND, has};
use tracer::Tool;

use crate::{events, recorded};

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// The unit at which the simulator splits accesses, and in which it merges fetches.
const GRANULE: u64 = 32;
/// Pages in one way of the largest cache. Cachegrind chooses sets by virtual addresses: frames are
/// given out so that their numbers end like those of their pages.
const COLOURS: u64 = 16;

/// I references, I1 misses, D references, D1 misses, LL misses.
type Counts = [u64; 5];

fn simulated(events: &[Event]) -> Counts {
    let accesses = counted_once(events);
    let is_fetch = |access: &Access| access.kind == AccessKind::Fetch;
    let (fetches, data): (Vec<Access>, Vec<Access>) = accesses.iter().copied().partition(is_fetch);
    let (i1, d1) = (missed(&fetches, 32, 8), missed(&data, 48, 12));
    let (mut of_fetches, mut of_data) = (i1.iter(), d1.iter());
    let both = accesses.into_iter().filter(|access| {
        let flags = if is_fetch(access) { &mut of_fetches } else { &mut of_data };
        *flags.next().expect("a flag for each access")
    });
    let both: Vec<Access> = both.collect();
    let ll = missed(&both, 256, 4);
    let count = |flags: &[bool]| flags.iter().filter(|missed| **missed).count() as u64;
    [fetches.len() as u64, count(&i1), data.len() as u64, count(&d1), count(&ll)]
}

/// The references that Cachegrind counts: a load and a store of the same bytes by one instruction
/// are one, and none is longer than a line.
fn counted_once(events: &[Event]) -> Vec<Access> {
    let mut accesses = Vec::new();
    let mut loaded = None;
    for event in events {
        let Event::Access(access) = *event else { continue };
        if access.kind == AccessKind::Store && loaded == Some((access.address, access.bytes)) {
            loaded = None;
            continue;
        }
        let is_load = access.kind == AccessKind::Load;
        loaded = is_load.then_some((access.address, access.bytes));
        accesses.push(Access { bytes: access.bytes.min(LINE as u16), ..access });
    }
    accesses
}

/// The accesses that miss in a cache of this shape.
fn missed(accesses: &[Access], size_kib: u64, ways: u32) -> Vec<bool> {
    let mut machine = Machine { cpus: 1, placement: Placement::InOrder, ..Machine::default() };
    (machine.cache.size_kib, machine.cache.ways) = (size_kib, ways);
    machine.cache.block_bytes = LINE;
    machine.kernel.enabled = false;
    let parts = accesses.iter().enumerate().flat_map(|(number, access)| {
        let last = access.address + u64::from(access.bytes) - 1;
        let granules = 1 + last / GRANULE - access.address / GRANULE;
        (0..granules).map(move |granule| (number, u64::from(granule == 0)))
    });
    let mut misses = Misses { parts, missed: vec![false; accesses.len()] };
    let workload = workload(accesses);
    simulate_observed(&workload, &machine, Options::default(), 1, &mut misses).unwrap();
    assert!(misses.parts.next().is_none(), "all has been simulated");
    misses.missed
}

/// One process with these accesses, in frames that match its pages.
fn workload(accesses: &[Access]) -> Workload {
    let mut pages = vec![VecDeque::new(); COLOURS as usize];
    let ends = |access: &Access| [0, u64::from(access.bytes) - 1].map(|end| access.address + end);
    let touched: BTreeSet<u64> = accesses.iter().flat_map(ends).map(|byte| byte / PAGE).collect();
    for page in &touched {
        pages[(page % COLOURS) as usize].push_back(*page);
    }
    let mut builder = Builder::new();
    builder.process(&Process { id: 1, ..Process::default() });
    // A lock gives its page the next frame, from 1, and is no reference. Where no page matches the
    // frame, a page that no program has takes it.
    let mut frame = 1;
    while pages.iter().any(|alike| !alike.is_empty()) {
        let page = pages[(frame % COLOURS) as usize].pop_front().unwrap_or((1 << 50) + frame);
        builder.events(&[Event::Synchronise { address: page * PAGE }]).unwrap();
        frame += 1;
    }
    let events: Vec<Event> = accesses.iter().map(|access| Event::Access(*access)).collect();
    builder.events(&events).unwrap();
    builder.finish().unwrap()
}

/// An observer that records which accesses miss. A part of an access is its number, and 1 if the
/// access begins with it: a record stands for one part, or for the parts of consecutive fetches
/// from one granule, of which only the first can miss.
struct Misses<P> {
    parts: P,
    missed: Vec<bool>,
}

impl<P: Iterator<Item = (usize, u64)>> Observer for Misses<P> {
    fn reference(&mut self, reference: &Reference) {
        let (access, mut count) = self.parts.next().expect("what is simulated was traced");
        while count < reference.record.count() {
            count += self.parts.next().expect("all that is counted was traced").1;
        }
        // An access that straddles two lines touches both and misses once.
        self.missed[access] |= reference.state == INVALID;
    }
}

fn counted_by_cachegrind(command: &[&str]) -> Counts {
    let mut valgrind = Tool::ready().unwrap().valgrind("cachegrind");
    valgrind.args(["--I1=32768,8,64", "--D1=49152,12,64", "--LL=262144,4,64"]);
    valgrind.arg("--cachegrind-out-file=/dev/null").args(command);
    // The same as for the recorded program: a program that checks which signals are ignored does
    // more if none are.
    os::signals::restore_in_child(&mut valgrind);
    let output = valgrind.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let number = |name: [&str; 2]| -> u64 {
        let line = said.lines().find(|line| {
            line.split_whitespace().skip(1).take(2).eq(name) // after ==PID==
        });
        let line = line.unwrap_or_else(|| panic!("{name:?} in\n{said}"));
        line.split_whitespace().nth(3).unwrap().replace(',', "").parse().unwrap()
    };
    let names = [["I", "refs:"], ["I1", "misses:"], ["D", "refs:"], ["D1", "misses:"]];
    let [a, b, c, d] = names.map(number);
    [a, b, c, d, number(["LL", "misses:"])]
}

#[test]
fn a_trace_has_what_cachegrind_counts() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    let text: String = (0..4000).map(|n| format!("line {} of many\n", n * 7919 % 4000)).collect();
    let contents = text;
    let text = folder.file("text", &contents).display().to_string();
    let other = folder.path().join("other").display().to_string();
    let commands: [&[&str]; 6] = [
        &["true"],
        &["ls", "/usr"],
        &["base64", &text],
        &["cp", &text, &other],
        // By default it looks at how much memory is free and how many processors there are.
        &["sort", "--buffer-size=1M", "--parallel=1", &text, "-o", &other],
        &["wc", &text],
    ];
    for command in commands {
        // Each of the two runs finds what the other found.
        let prepare = || {
            fs::write(&text, &contents).unwrap();
            let _ = fs::remove_file(&other);
        };
        let both = || {
            prepare();
            let (summary, reader) = recorded(&folder, command, (0, 0));
            prepare();
            let simulated = simulated(&events(&reader, summary.processes[0].id));
            (simulated, counted_by_cachegrind(command))
        };
        // Programs read the times of files and of the day: two runs may differ for that reason, but
        // would not agree in five numbers by chance.
        let (mut ours, mut theirs) = both();
        for _ in 0..5 {
            if ours == theirs {
                break;
            }
            (ours, theirs) = both();
        }
        assert_eq!(ours, theirs, "{command:?}");
        assert!(ours.iter().all(|count| *count > 500), "{ours:?}");
    }
}
