//! References per second: how fast a machine is simulated, by protocol, order and processors.
//!
//! `cargo bench -p coherence` takes a minute; `cargo test --benches` runs the same with small
//! parameters, as a test. Words after it select the rows that contain them all: `-- mesi strict`.
//! The time is the processor time of this thread, where the system reports it, since other programs
//! may run too. The workload is synthetic: processes that loop over code, go up and down a stack,
//! wander through a heap and now and then touch shared memory, about as often as Table 3 of Foglia
//! et al. says. Making it is not timed; classification is on, and one row also distinguishes
//! capacity from conflict misses (`three-c`). There are two workloads: one of 20 processes, with
//! which at most 20 processors are at work, and one of 64. The checksum is of all counts: it
//! differs if a change alters what is simulated.

use std::sync::OnceLock;
use std::time::Instant;

use coherence::{Builder, Machine, Options, Outcome, Workload, simulate};
use memory_trace::{Event, Process, Region, RegionKind};
use statistics::Generator;

const SHARED: u64 = 0x7000_0000;
const SHARED_BYTES: u64 = 1 << 18;

/// Processes of the first workload, about as many as the paper's, and of the second, so that all
/// of 64 processors are at work.
const TASKS: u32 = 20;
const MANY_TASKS: u32 = 64;

fn main() {
    // `cargo bench` passes this argument; without it this is a test run.
    let full = std::env::args().any(|argument| argument == "--bench");
    let references = if full { 30_000_000 } else { 100_000 };
    let words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut table = Table { words, checksum: 0 };
    let ahead = Options::RUN_AHEAD_CYCLES;
    let workload = made(TASKS, references);
    for protocol in ["mesi", "amsd", "pscr", "dragon"] {
        table.both_orders(&workload, protocol, 8);
        if protocol == "mesi" {
            table.row(&workload, protocol, 8, ahead, true);
        }
    }
    for cpus in [1, 2, 4, 16, 64] {
        table.both_orders(&workload, "mesi", cpus);
    }
    drop(workload);
    let workload = made(MANY_TASKS, references);
    for cpus in [1, 16, 64] {
        table.both_orders(&workload, "mesi", cpus);
    }
    println!("\nchecksum {:016x}", table.checksum);
}

/// Makes a workload, and prints the head of the rows about it.
fn made(tasks: u32, references: u64) -> Workload {
    let workload = workload(tasks, references / u64::from(tasks));
    let (references, pages) = (workload.references(), workload.pages());
    println!("\n{} tasks, {references} references, {pages} pages", workload.tasks());
    println!("\nprotocol  order   tasks  CPUs  M refs/s  miss %  GSP    late");
    workload
}

/// The output so far.
struct Table {
    /// The words that a row must contain to be run.
    words: Vec<String>,
    checksum: u64,
}

impl Table {
    fn both_orders(&mut self, workload: &Workload, protocol: &str, cpus: u32) {
        self.row(workload, protocol, cpus, Options::RUN_AHEAD_CYCLES, false);
        self.row(workload, protocol, cpus, 0, false);
    }

    fn row(&mut self, workload: &Workload, protocol: &str, cpus: u32, ahead: u64, three_c: bool) {
        let order = if ahead == 0 { "strict" } else { "ahead" };
        let classes = if three_c { "three-c" } else { "" };
        let has = [protocol, order, classes, &cpus.to_string()];
        if self.words.iter().all(|word| has.contains(&word.as_str())) {
            let fold = measure(workload, protocol, cpus, ahead, three_c);
            self.checksum = self.checksum.rotate_left(7) ^ fold;
        }
    }
}

fn measure(workload: &Workload, protocol: &str, cpus: u32, ahead: u64, three_c: bool) -> u64 {
    let mut machine = Machine { cpus, protocol: protocol.into(), ..Machine::default() };
    machine.scheduler.until = coherence::Until::AllDone;
    let prefetch = os::memory::prefetch;
    let options = Options { run_ahead_cycles: ahead, three_c, rank: false, prefetch };
    let start = now();
    let outcome = simulate(workload, &machine, options, 1).expect("a machine that is right");
    let seconds = now() - start;
    let rate = outcome.counts.all_references() as f64 / seconds / 1e6;
    let order = if ahead == 0 { "strict" } else { "ahead" };
    let misses = outcome.miss_percent(|_| true);
    let (tasks, gsp, late) = (workload.tasks(), outcome.gsp, outcome.counts.late);
    let more = if three_c { "  three-c: capacity and conflict told apart" } else { "" };
    println!(
        "{protocol:9} {order:6} {tasks:6} {cpus:5} {rate:9.1} {misses:7.3} {gsp:6.2} {late:7}{more}"
    );
    fold(&outcome)
}

/// Seconds of processor time of this thread, or elapsed seconds if the system does not report it.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread's own time, else this; a benchmark times itself"
)]
fn now() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = told.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    match ran {
        Some(nanoseconds) => nanoseconds as f64 / 1e9,
        None => START.get_or_init(Instant::now).elapsed().as_secs_f64(),
    }
}

fn fold(outcome: &Outcome) -> u64 {
    let misses = outcome.counts.misses.iter().flatten().flatten();
    let transactions = outcome.counts.coherence.iter().flatten().flatten();
    misses.chain(transactions).fold(outcome.cycles, |sum, count| sum.rotate_left(5) ^ count)
}

/// Processes that do about the same, each at addresses of its own.
fn workload(processes: u32, references: u64) -> Workload {
    let mut builder = Builder::new();
    for id in 1..=processes {
        let shared = Region {
            start: SHARED,
            end: SHARED + SHARED_BYTES,
            kind: RegionKind::Shared,
            name: "shared".into(),
            object: None,
        };
        let text = Region {
            start: 0x40_0000,
            end: 0x80_0000,
            kind: RegionKind::File,
            name: "text".into(),
            object: Some(memory_trace::Object { device: 1, inode: 1, offset: 0 }),
        };
        builder.process(&Process {
            id,
            parent: (id > 1).then_some(1),
            regions: vec![text, shared],
            ..Process::default()
        });
        let mut actor = Actor::new(u64::from(id));
        let mut events = Vec::new();
        let mut made = 0;
        while made < references {
            events.clear();
            while events.len() < 10_000 {
                actor.act(&mut events);
            }
            made += events.len() as u64;
            builder.events(&events).expect("little memory");
        }
    }
    builder.finish().expect("has references")
}

/// One process: its position in its code, its stack and its heap.
struct Actor {
    generator: Generator,
    code: u64,
    heap: u64,
    loop_left: u64,
    loop_start: u64,
}

impl Actor {
    fn new(seed: u64) -> Self {
        let generator = Generator::new(seed);
        Self { generator, code: 0x40_0000, heap: 0, loop_left: 0, loop_start: 0x40_0000 }
    }

    /// Emits a basic block of instructions, then data references.
    fn act(&mut self, events: &mut Vec<Event>) {
        for _ in 0..4 + self.generator.below(8) {
            events.push(Event::fetch(self.code, 4));
            self.code += 4;
            if self.generator.below(4) == 0 {
                self.refer(events);
            }
        }
        if self.loop_left > 0 {
            self.loop_left -= 1;
            self.code = self.loop_start;
        } else {
            self.loop_left = self.generator.below(12) as u64;
            let far = self.generator.unit();
            // Few functions are called often: the cube of a uniform number.
            self.code = 0x40_0000 + (far * far * far * 400_000.0) as u64 / 16 * 16;
            self.loop_start = self.code;
        }
        if self.generator.below(2000) == 0 {
            events.push(Event::SystemCall {
                number: if self.generator.below(8) == 0 { 7 } else { 0 },
            });
        }
    }

    fn refer(&mut self, events: &mut Vec<Event>) {
        let write = self.generator.below(3) == 0;
        let address = match self.generator.below(100) {
            0..60 => 0x7fff_0000 - self.generator.below(64) as u64 * 8,
            60..94 => {
                if self.generator.below(30) == 0 {
                    let far = self.generator.unit();
                    self.heap = (far * far * 600_000.0) as u64 / 64 * 64;
                }
                0x1000_0000 + self.heap + self.generator.below(16) as u64 * 8
            }
            _ => {
                let far = self.generator.unit();
                SHARED + (far * far * SHARED_BYTES as f64) as u64 / 8 * 8
            }
        };
        events.push(if write { Event::store(address, 8) } else { Event::load(address, 8) });
    }
}
