//! The cache against another program: pycachesim counts as many misses and as many blocks written
//! back on the same random traces, at every checkpoint.
//!
//! Its answers are in `pycachesim.txt`, made by `pycachesim.py`, which has the same traces and
//! geometries; where pycachesim is installed, it is run again. Only one processor, no kernel.

use std::process::Command;

use coherence::protocol::{PROTOCOLS, Transaction};
use coherence::{
    Builder, Done, Machine, Observer, Options, Outcome, Placement, Reference, Workload, simulate,
    simulate_observed,
};
use memory_trace::{Event, Process};
use statistics::Generator;

const ANSWERS: &str = include_str!("pycachesim.txt");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pycachesim.py");
const REFERENCES: usize = 60_000;
const CHECKPOINT: u64 = 5000;
const PAGE_BYTES: u64 = 4096;

#[test]
fn pycachesim_counts_the_same_on_random_traces() {
    let mut geometries = 0;
    for line in ANSWERS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let (shape, answers) = words.split_at(5);
        let shape: Vec<u64> = shape.iter().map(|word| word.parse().expect("a number")).collect();
        let expected: Vec<(u64, u64)> = answers.iter().map(|answer| pair(answer)).collect();
        assert_eq!(expected.len() as u64, REFERENCES as u64 / CHECKPOINT);
        check([shape[0], shape[1], shape[2]], shape[3], shape[4], &expected);
        geometries += 1;
    }
    assert!(geometries >= 12, "{geometries}");
}

#[test]
fn the_answers_are_those_of_pycachesim() {
    let installed = Command::new("python3").args(["-c", "import cachesim"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        let why = "pycachesim is not there: pip install pycachesim";
        return testkit::leave_out("asking pycachesim again for what it has answered", why);
    }
    let output = Command::new("python3").arg(SCRIPT).output().expect("python3 has just run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == ANSWERS.as_bytes(), "python3 {SCRIPT} does not give pycachesim.txt");
    println!("pycachesim was asked again and gave the same answers");
}

fn pair(answer: &str) -> (u64, u64) {
    let (misses, updates) = answer.split_once('/').expect("MISSES/UPDATES");
    (misses.parse().expect("a number"), updates.parse().expect("a number"))
}

fn check([size_kib, ways, block_bytes]: [u64; 3], seed: u64, pages: u64, expected: &[(u64, u64)]) {
    let workload = workload(seed, pages);
    assert_eq!((workload.pages() as u64, workload.references()), (pages, REFERENCES as u64));
    for protocol in PROTOCOLS {
        let mut machine = Machine { cpus: 1, protocol: protocol.name.into(), ..Machine::default() };
        (machine.cache.size_kib, machine.cache.ways) = (size_kib, ways as u32);
        machine.cache.block_bytes = block_bytes;
        machine.kernel.enabled = false;
        machine.placement = Placement::InOrder;
        let of = format!("{} {size_kib} {ways} {block_bytes}", protocol.name);
        let options = Options::default();
        let mut checkpoints = Checkpoints::default();
        simulate_observed(&workload, &machine, options, 1, &mut checkpoints).expect("right");
        assert_eq!(checkpoints.finish(), expected, "{of}");
        let strict = Options { run_ahead_cycles: 0, ..options };
        for options in [options, strict] {
            let outcome = simulate(&workload, &machine, options, 1).expect("right");
            assert_eq!(Some(&counted(&outcome)), expected.last(), "{of}");
        }
    }
}

/// The trace of `pycachesim.py`, with physical addresses that are the same: frames are given out in
/// the order in which pages are named, from 1. Virtual addresses are others.
fn workload(seed: u64, pages: u64) -> Workload {
    let virtual_of = |physical: u64| {
        let (frame, offset) = (physical / PAGE_BYTES, physical % PAGE_BYTES);
        (0x70_0000 - frame * 3) * PAGE_BYTES + offset
    };
    let mut builder = Builder::new();
    builder.process(&Process { id: 1, ..Process::default() });
    let named = |frame| Event::Synchronise { address: virtual_of(frame * PAGE_BYTES) };
    let mut events: Vec<Event> = (1..=pages).map(named).collect();
    let mut generator = Generator::new(seed);
    let mut address = PAGE_BYTES;
    for _ in 0..REFERENCES {
        address = match generator.below(8) {
            0 => PAGE_BYTES + generator.below((pages * PAGE_BYTES) as usize) as u64,
            1 => PAGE_BYTES + generator.below((pages * PAGE_BYTES / 8) as usize) as u64,
            _ => (address + generator.below(200) as u64).min((pages + 1) * PAGE_BYTES - 1),
        };
        let bytes = 1_u64 << generator.below(5);
        let place = virtual_of(address / bytes * bytes);
        events.push(match generator.below(10) {
            0..3 => Event::store(place, bytes as u16),
            _ => Event::load(place, bytes as u16),
        });
    }
    builder.events(&events).expect("little memory");
    builder.finish().expect("has references")
}

/// Misses, and dirty blocks that went to memory.
fn counted(outcome: &Outcome) -> (u64, u64) {
    let of = |what: &[Transaction]| {
        let bus = outcome.bus.iter().filter(|one| what.contains(&one.transaction));
        bus.map(|one| one.count).sum()
    };
    let fetches = [Transaction::ReadBlock, Transaction::ReadAndInvalidate];
    (of(&fetches), of(&[Transaction::UpdateBlock]))
}

/// Misses, and dirty blocks that went to memory, after every [`CHECKPOINT`] references and at the
/// end.
#[derive(Default)]
struct Checkpoints {
    references: u64,
    now: (u64, u64),
    passed: Vec<(u64, u64)>,
}

impl Checkpoints {
    fn finish(mut self) -> Vec<(u64, u64)> {
        self.passed.push(self.now);
        self.passed
    }
}

impl Observer for Checkpoints {
    fn reference(&mut self, reference: &Reference) {
        // The effects of the last reference have been reported by now.
        if self.references > 0 && self.references.is_multiple_of(CHECKPOINT) {
            self.passed.push(self.now);
        }
        self.references += reference.record.count();
    }

    fn transaction(&mut self, done: &Done) {
        match done.what {
            Transaction::ReadBlock | Transaction::ReadAndInvalidate => self.now.0 += 1,
            Transaction::UpdateBlock => self.now.1 += 1,
            other => panic!("one processor has no others to tell: {other:?}"),
        }
    }
}
