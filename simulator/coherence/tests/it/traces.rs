//! Random workloads, and small machines on which they cause many events.

use coherence::{Builder, Machine, Workload};
use memory_trace::{Event, Object, Process, Region, RegionKind};
use statistics::Generator;

/// Pages of every kind, few and small, so that caches are too small for them.
const KINDS: [(u64, RegionKind, bool); 5] = [
    (0x10_0000, RegionKind::Private, false),
    (0x20_0000, RegionKind::Shared, false),
    (0x30_0000, RegionKind::File, true),
    (0x40_0000, RegionKind::CopyOnWrite, true),
    (0x50_0000, RegionKind::CopyOnWrite, false),
];
const REGION_BYTES: u64 = 0x2000;

/// A family of processes, each with `events` events.
pub(crate) fn random(seed: u64, processes: u32, events: usize) -> Workload {
    let mut generator = Generator::new(seed);
    let mut builder = Builder::new();
    for id in 1..=processes {
        builder.process(&process(id));
        // Threads make a process's own pages shared ones: some have only one.
        let threads = 1 + id as usize % 2;
        let events: Vec<Event> = (0..events).map(|_| event(&mut generator, threads)).collect();
        builder.events(&events).expect("little memory");
    }
    builder.finish().expect("has references")
}

pub(crate) fn process(id: u32) -> Process {
    let region = |(start, kind, object): (u64, RegionKind, bool)| Region {
        start,
        end: start + REGION_BYTES,
        kind,
        name: format!("{kind:?}"),
        object: object.then_some(Object { device: 1, inode: start, offset: 0 }),
    };
    Process {
        id,
        parent: (id > 1).then_some(1),
        command: format!("/bin/process-{id} -x"),
        regions: KINDS.map(region).to_vec(),
        ..Process::default()
    }
}

fn event(generator: &mut Generator, threads: usize) -> Event {
    match generator.below(200) {
        0 => Event::SystemCall { number: [0, 1, 7, 202][generator.below(4)] },
        1 => Event::Synchronise { address: 0x20_0000 },
        2 => Event::SwitchThread { thread: generator.below(threads) as u32 },
        _ => access(generator),
    }
}

fn access(generator: &mut Generator) -> Event {
    let (start, ..) = KINDS[generator.below(KINDS.len())];
    // Some words are used by all, so that much is shared.
    let span = [64, 512, REGION_BYTES as usize - 16][generator.below(3)];
    let address = start + generator.below(span) as u64;
    let bytes = [1, 4, 8, 16][generator.below(4)];
    match generator.below(10) {
        0..4 => Event::fetch(address, 4),
        4..7 => Event::load(address, bytes),
        _ => Event::store(address, bytes),
    }
}

/// Caches of a few lines, slices of a few references.
pub(crate) fn small(protocol: &str, cpus: u32, block_bytes: u64) -> Machine {
    let mut machine = Machine { cpus, protocol: protocol.into(), ..Machine::default() };
    machine.cache.size_kib = 2;
    machine.cache.block_bytes = block_bytes;
    machine.scheduler.slice_references = 60;
    machine.scheduler.blocked_cycles = 300;
    machine.scheduler.until = coherence::Until::AllDone;
    machine.kernel.references_mean = 20.0;
    machine.kernel.code_pages = 2;
    machine.kernel.shared_pages = 1;
    machine.kernel.private_pages = 1;
    machine
}
