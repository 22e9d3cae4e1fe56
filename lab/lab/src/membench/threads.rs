//! Measuring threads: one for each core, pinned, with an area of its own that the thread touched
//! first, so that the area lies on the thread's node. The threads wait for orders, and start each
//! measurement together.

use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::thread;

use system::memory_bandwidth::{self as memory, Line};

use super::kind::{Access, Kind};

/// The clock is read after so many bytes.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_LINES: usize = CHUNK_BYTES / size_of::<Line>();

/// The value of every word of every area at any time: reads are checked by it.
const WORD: u64 = 0x5bd1_e995_9e37_79b9;

/// The rates of one core, or of all cores together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// Gigabytes (10^9) per second.
    pub(super) rate: f64,
    /// Bytes per reference cycle.
    pub(super) bytes_per_cycle: Option<f64>,
    /// Reference cycles per nanosecond.
    pub(super) reference_ghz: Option<f64>,
}

struct Order {
    kind: Kind,
    window_us: u64,
    together: Arc<Barrier>,
}

type Answer = Result<Sample, String>;

/// The measuring threads. They end when this value is dropped.
pub(super) struct MeasuringThreads {
    orders: Vec<Sender<Order>>,
    answers: Receiver<Answer>,
}

impl MeasuringThreads {
    /// Starts a thread on each of `cpus` and waits until all areas are written.
    pub(super) fn start(cpus: &[usize], area_bytes: u64) -> Result<Self, String> {
        let lines = area_bytes as usize / size_of::<Line>();
        let (answer, answers) = mpsc::channel();
        let mut orders = Vec::new();
        for &cpu in cpus {
            let (order, for_thread) = mpsc::channel();
            let answer = answer.clone();
            let name = format!("membench-{cpu}");
            let started = thread::Builder::new()
                .name(name)
                .spawn(move || work(cpu, lines, &for_thread, &answer));
            started.map_err(|why| format!("cannot start a thread: {why}"))?;
            orders.push(order);
        }
        let threads = Self { orders, answers };
        threads.collect(cpus.len())?;
        Ok(threads)
    }

    /// Lets the first `cores` threads access memory at the same time for `window_us`, and sums
    /// their rates.
    pub(super) fn measure(&self, kind: Kind, cores: usize, window_us: u64) -> Answer {
        let together = Arc::new(Barrier::new(cores));
        for orders in &self.orders[..cores] {
            let order = Order { kind, window_us, together: Arc::clone(&together) };
            orders.send(order).map_err(|_| LOST)?;
        }
        let parts = self.collect(cores)?;
        let sum = |of: fn(&Sample) -> f64| parts.iter().map(of).sum::<f64>();
        let has_cycles = parts.iter().all(|part| part.bytes_per_cycle.is_some());
        Ok(Sample {
            rate: sum(|part| part.rate),
            bytes_per_cycle: has_cycles.then(|| sum(|part| part.bytes_per_cycle.unwrap_or(0.0))),
            reference_ghz: parts[0].reference_ghz,
        })
    }

    fn collect(&self, count: usize) -> Result<Vec<Sample>, String> {
        (0..count).map(|_| self.answers.recv().map_err(|_| LOST)?).collect()
    }
}

const LOST: &str = "a measuring thread ended early";

fn work(cpu: usize, lines: usize, orders: &Receiver<Order>, answers: &Sender<Answer>) {
    if let Err(why) = os::affinity::pin_thread(&[cpu]) {
        let why = format!("cannot stay on CPU {cpu}: {why}");
        // The send fails when the starting thread has given up; then no report is needed.
        let _ = answers.send(Err(why));
        return;
    }
    // This thread writes the area first, so its pages are on the node of this CPU.
    let mut area = vec![Line([WORD; 8]); lines];
    // Each measurement continues where the last one ended: lines that are still in the caches come
    // last.
    let mut at = 0;
    let mut answer = Ok(Sample::default());
    while answers.send(answer).is_ok() {
        let Ok(order) = orders.recv() else { return };
        order.together.wait();
        answer = measure(&mut area, &mut at, &order);
    }
}

fn measure(area: &mut [Line], at: &mut usize, order: &Order) -> Answer {
    let mut bytes = 0;
    let start = (os::clock::now(), memory::reference_cycles());
    loop {
        let (next, moved) = step(area, *at, order.kind)?;
        *at = next;
        bytes += moved;
        let elapsed_us = os::clock::now() - start.0;
        if elapsed_us >= order.window_us.max(1) {
            let cycles = memory::reference_cycles().zip(start.1).map(|(end, start)| end - start);
            return Ok(sample(bytes as f64, elapsed_us as f64, cycles.map(|cycles| cycles as f64)));
        }
    }
}

fn sample(bytes: f64, elapsed_us: f64, cycles: Option<f64>) -> Sample {
    Sample {
        rate: bytes / elapsed_us / 1000.0,
        bytes_per_cycle: cycles.map(|cycles| bytes / cycles),
        reference_ghz: cycles.map(|cycles| cycles / elapsed_us / 1000.0),
    }
}

/// Accesses one chunk from line `at`. Returns where the next chunk starts, and how many bytes went
/// over the bus, as the program sees it.
fn step(area: &mut [Line], at: usize, kind: Kind) -> Result<(usize, usize), String> {
    let Kind { access, store, instructions } = kind;
    let lines = if access == Access::Copy { area.len() / 2 } else { area.len() };
    // After accesses to the whole area `at` may lie beyond the half that is copied.
    let at = at % lines;
    let end = (at + CHUNK_LINES).min(lines);
    let bytes = (end - at) * size_of::<Line>();
    let moved = match access {
        Access::Read => {
            let sum = memory::read(instructions, &area[at..end]);
            check(black_box(sum), bytes)?;
            bytes
        }
        Access::Write => {
            memory::write(instructions, store, &mut area[at..end], WORD);
            bytes
        }
        Access::Copy => {
            let (from, to) = area.split_at_mut(lines);
            memory::copy(instructions, store, &from[at..end], &mut to[at..end]);
            2 * bytes
        }
    };
    Ok((if end == lines { 0 } else { end }, moved))
}

/// Checks that `sum` is the sum of `bytes` bytes of words.
fn check(sum: u64, bytes: usize) -> Result<(), String> {
    match sum == WORD.wrapping_mul(bytes as u64 / 8) {
        true => Ok(()),
        false => {
            Err("memory does not hold what was written to it: do not trust this machine".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::memory_bandwidth::{Instructions, Store};

    fn kind(access: Access) -> Kind {
        Kind { access, store: Store::Cached, instructions: Instructions::Plain }
    }

    #[test]
    fn steps_go_through_the_whole_area_and_start_again() {
        let mut area = vec![Line([WORD; 8]); 2 * CHUNK_LINES + 3];
        let mut steps = |access| {
            let mut at = 0;
            let mut all = Vec::new();
            for _ in 0..4 {
                let (next, moved) = step(&mut area, at, kind(access)).expect("as written");
                all.push((at, moved / 64));
                at = next;
            }
            all
        };
        let (one, two) = (CHUNK_LINES, 2 * CHUNK_LINES);
        assert_eq!(steps(Access::Read), [(0, one), (one, one), (two, 3), (0, one)]);
        assert_eq!(steps(Access::Write), [(0, one), (one, one), (two, 3), (0, one)]);
        // Half of the area is copied, and each line counts twice.
        assert_eq!(steps(Access::Copy), [(0, two), (one, 2), (0, two), (one, 2)]);
    }

    #[test]
    fn a_measurement_goes_on_where_the_last_one_ended() {
        let mut area = vec![Line([WORD; 8]); 4 * CHUNK_LINES];
        let mut at = 0;
        let mut ends = |access| {
            let together = Arc::new(Barrier::new(1));
            let order = Order { kind: kind(access), window_us: 1, together };
            measure(&mut area, &mut at, &order).expect("as written");
            at / CHUNK_LINES
        };
        assert_eq!([Access::Read, Access::Write, Access::Read].map(&mut ends), [1, 2, 3]);
        assert_eq!([Access::Copy, Access::Read].map(&mut ends), [0, 1], "copied is one half");
    }

    #[test]
    fn memory_that_changed_is_found() {
        let mut area = vec![Line([WORD; 8]); CHUNK_LINES];
        area[77].0[3] ^= 1;
        assert!(step(&mut area, 0, kind(Access::Read)).is_err());
        step(&mut area, 0, kind(Access::Write)).expect("writes are not checked");
        step(&mut area, 0, kind(Access::Read)).expect("whole again");
    }

    #[test]
    fn rates() {
        let expected = Sample { rate: 2.0, bytes_per_cycle: Some(0.5), reference_ghz: Some(4.0) };
        assert_eq!(sample(4e6, 2000.0, Some(8e6)), expected);
        assert_eq!(sample(4e6, 2000.0, None).bytes_per_cycle, None);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_reported() {
        let why = MeasuringThreads::start(&[8190], 1 << 20).err().expect("no such CPU");
        assert!(why.starts_with("cannot stay on CPU 8190: "), "{why}");
    }
}
