//! The tables against a count that is slow and obvious, and against traces made by hand.

use std::collections::{BTreeMap, BTreeSet};

use memory_trace::{
    Access, AccessKind, Counts, Event, Header, Object, Process, Reader, Region, RegionKind,
    Synthetic, program, tables,
};

use crate::{events_of, written};

/// A block as the slow count names it: a text for the memory it belongs to, and its place there.
type Name = (String, u64);

/// The memory that an address of a synthetic process belongs to: `written` are the pages it has
/// written.
fn memory(process: &Process, address: u64, written: &BTreeSet<u64>) -> Name {
    let region = process.regions.iter().find(|r| r.start <= address && address < r.end);
    let own = (format!("process {}", process.id), address);
    let Some(region) = region else { return own };
    let Some(object) = region.object else { return own };
    if region.kind == RegionKind::CopyOnWrite && written.contains(&(address / 4096)) {
        return own;
    }
    (format!("object {}", object.inode), object.offset + address - region.start)
}

/// Counts all processes together, the slow way.
fn slow(trace: &Synthetic, block_bytes: u64) -> Counts {
    let mut counts = Counts::default();
    let mut touched = BTreeSet::new();
    let mut users: BTreeMap<Name, BTreeSet<(u32, u32)>> = BTreeMap::new();
    let mut data: Vec<(AccessKind, Name)> = Vec::new();
    for process in trace.processes() {
        let (mut thread, mut copied) = (0, BTreeSet::new());
        for event in trace.events(process.id) {
            let Access { kind, address, bytes } = match event {
                Event::Access(access) => access,
                Event::SwitchThread { thread: other } => {
                    thread = other;
                    continue;
                }
                Event::SystemCall { .. } => {
                    counts.system_calls += 1;
                    continue;
                }
                Event::Moved { .. } => continue,
                Event::Synchronise { .. } => {
                    counts.synchronisations += 1;
                    continue;
                }
            };
            if kind == AccessKind::Store {
                copied.insert(address / 4096);
            }
            for byte in 0..u64::from(bytes) {
                let (space, at) = memory(&process, address + byte, &copied);
                let block = (space, at / block_bytes);
                if kind != AccessKind::Fetch {
                    users.entry(block.clone()).or_default().insert((process.id, thread));
                    if byte == 0 {
                        data.push((kind, block.clone()));
                    }
                }
                touched.insert(block);
            }
            counts.fetches += u64::from(kind == AccessKind::Fetch);
            counts.loads += u64::from(kind == AccessKind::Load);
            counts.stores += u64::from(kind == AccessKind::Store);
        }
    }
    counts.blocks = touched.len() as u64;
    users.retain(|_, users| users.len() > 1);
    counts.shared_blocks = users.len() as u64;
    let mut written = BTreeSet::new();
    for (kind, block) in data.iter().filter(|(_, block)| users.contains_key(block)) {
        counts.shared_loads += u64::from(*kind == AccessKind::Load);
        counts.shared_stores += u64::from(*kind == AccessKind::Store);
        if *kind == AccessKind::Store {
            written.insert(block);
        }
    }
    counts.shared_written_blocks = written.len() as u64;
    counts
}

#[test]
fn a_slow_count_agrees() {
    for (seed, threads, block_bytes) in [(1, 1, 32), (2, 3, 32), (3, 2, 4096), (4, 1, 8)] {
        let trace = Synthetic { seed, threads, processes: 3, events: 4000, shared_percent: 20 };
        let reader = Reader::from_bytes(trace.bytes()).expect("whole");
        let found = tables(&reader, block_bytes).expect("whole");
        assert_eq!(found.all.counts, slow(&trace, block_bytes), "seed {seed}");
        assert_eq!(found.all.processes, 3);
        assert_eq!(found.programs.len(), 1);
        assert_eq!(found.programs[0].name, "synthetic");
        assert_eq!(found.programs[0].counts, found.all.counts);
        let references = found.processes.iter().map(|row| row.counts.references()).sum::<u64>();
        assert_eq!(references, found.all.counts.references());
        let shared = found.processes.iter().map(|row| row.counts.shared_stores).sum::<u64>();
        assert_eq!(shared, found.all.counts.shared_stores);
    }
}

fn counted(processes: &[Process], events: &[(u32, Event)]) -> memory_trace::Tables {
    let reader = Reader::from_bytes(written(&Header::default(), processes, events));
    tables(&reader.expect("whole"), 32).expect("whole")
}

fn mapped(id: u32, parent: Option<u32>, kind: RegionKind, object: Option<u64>) -> Process {
    let object = object.map(|inode| Object { device: 1, inode, offset: 0x3000 });
    let region = Region { start: 0x1_0000, end: 0x2_0000, kind, name: String::new(), object };
    let command = format!("/usr/bin/p{id}: at work");
    Process { id, parent, command, regions: vec![region], symbols: Vec::new() }
}

#[test]
fn what_is_not_mapped_is_private() {
    let events = [(1, Event::store(0x100, 8)), (2, Event::load(0x100, 8))];
    let counts = counted(&[], &events).all.counts;
    assert_eq!((counts.blocks, counts.shared_blocks), (2, 0));
}

#[test]
fn an_object_is_the_same_at_different_addresses() {
    let first = mapped(1, None, RegionKind::Shared, Some(7));
    let mut second = mapped(2, None, RegionKind::Shared, Some(7));
    second.regions[0].start = 0x1_1000;
    second.regions[0].object = Some(Object { device: 1, inode: 7, offset: 0x4000 });
    let events = [(1, Event::store(0x1_1008, 8)), (2, Event::load(0x1_1010, 8))];
    let tables = counted(&[first, second], &events);
    let counts = tables.all.counts;
    assert_eq!((counts.blocks, counts.shared_blocks, counts.shared_stores), (1, 1, 1));
    // Different programs: neither of them shares with itself.
    assert_eq!(tables.programs.len(), 2);
    assert_eq!(tables.programs[0].counts.shared_blocks, 0);
    assert_eq!(tables.processes[1].counts.shared_loads, 1);
}

#[test]
fn text_that_several_run_is_no_shared_data_but_one_block() {
    let both = [1, 2].map(|id| mapped(id, None, RegionKind::File, Some(7)));
    let events = [(1, Event::fetch(0x1_0000, 4)), (2, Event::fetch(0x1_0004, 4))];
    let counts = counted(&both, &events).all.counts;
    assert_eq!((counts.blocks, counts.shared_blocks), (1, 0));
}

#[test]
fn a_page_is_common_until_it_is_written() {
    let parent = mapped(1, None, RegionKind::Private, None);
    let child = mapped(2, Some(1), RegionKind::CopyOnWrite, None);
    let events = [
        (1, Event::store(0x1_0000, 8)),
        (2, Event::load(0x1_0000, 8)),
        (2, Event::store(0x1_0100, 8)),
        (2, Event::load(0x1_0000, 8)),
    ];
    let counts = counted(&[parent, child], &events).all.counts;
    // The parent's block, which the child reads once, and two of the child's copy.
    assert_eq!((counts.blocks, counts.shared_blocks, counts.shared_loads), (3, 1, 1));
}

#[test]
fn shared_memory_without_an_object_is_the_ancestors() {
    let parent = mapped(1, None, RegionKind::Shared, None);
    let children = [2, 3].map(|id| mapped(id, Some(1), RegionKind::Shared, None));
    let stranger = mapped(4, None, RegionKind::Shared, None);
    let events = [2, 3, 4].map(|id| (id, Event::store(0x1_0000, 8)));
    let [second, third] = children;
    let counts = counted(&[parent, second, third, stranger], &events).all.counts;
    assert_eq!((counts.blocks, counts.shared_blocks, counts.shared_stores), (2, 1, 2));
}

#[test]
fn a_reference_across_blocks_counts_once_and_touches_both() {
    let counts = counted(&[], &[(1, Event::load(0x101c, 8)), (1, Event::load(u64::MAX, 2))]);
    let counts = counts.all.counts;
    assert_eq!((counts.blocks, counts.loads), (4, 2));
}

#[test]
fn bytes_moved_are_counted_with_the_calls_of_all_processes() {
    let call = |number| Event::SystemCall { number };
    let moved = |number, bytes| Event::Moved { number, bytes };
    let events = [(1, call(0)), (1, moved(0, 4096)), (2, call(0)), (2, moved(0, 1)), (2, call(3))];
    let tables = counted(&[], &events);
    let mix: Vec<_> =
        tables.calls.list().iter().map(|c| (c.number, c.count, c.with_bytes, c.bytes)).collect();
    assert_eq!(mix, [(0, 2, 2, 4097), (3, 1, 0, 0)]);
    // The event with the bytes of a call is not a call of its own.
    assert_eq!(tables.all.counts.system_calls, 3);
    assert_eq!(tables.processes[1].counts.system_calls, 2);
}

#[test]
fn ancestors_in_a_circle_do_no_harm() {
    let pair = [(1, 2), (2, 1)].map(|(id, of)| mapped(id, Some(of), RegionKind::Shared, None));
    let events = [(1, Event::store(0x1_0000, 8)), (2, Event::store(0x1_0000, 8))];
    counted(&pair, &events);
}

#[test]
fn programs_are_named_by_their_commands() {
    let pairs = [
        ("/usr/sbin/apache2 -k start", "apache2"),
        ("postgres: checkpointer", "postgres"),
        ("ls", "ls"),
        ("", "(unknown)"),
        ("/", "/"),
    ];
    for (command, name) in pairs {
        assert_eq!(program(command), name);
    }
}

#[test]
fn synthetic_traces_are_what_they_are_said_to_be() {
    let trace = Synthetic::default();
    assert_eq!(trace.bytes(), trace.bytes());
    assert_ne!(trace.bytes(), Synthetic { seed: 2, ..trace }.bytes());
    let reader = Reader::from_bytes(trace.bytes()).expect("whole");
    assert_eq!(reader.processes(), trace.processes());
    let events: Vec<Event> = trace.events(2).collect();
    assert_eq!(events_of(&reader, 2), events);
    assert_eq!(events.len() as u64, trace.events);
    let counts = tables(&reader, 32).expect("whole").all.counts;
    let code = counts.percent(counts.fetches);
    assert!((60.0..90.0).contains(&code), "{code}");
}
