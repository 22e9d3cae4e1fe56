//! `ropewalk membench`: the memory bandwidth of this machine for 1, 2, 4, … cores at once.
//!
//! The bandwidth bounds everything that a server does with bytes. The method is that of Genevès
//! 2012, IV-C: each core has an area on its own node, which it touched first, and accesses it in
//! order; nothing is shared. He found a speed-up of 12.1 on 24 cores, and of 4.8 with wide
//! instructions. Memory is measured, not caches: the areas are larger than the caches. Latency is
//! not measured.

mod facts;
mod kind;
mod report;
mod threads;

use statistics::{Estimate, median_estimate, paired_ratio};

use crate::observe::{Disturbed, INTERFERENCE_MAX, INTERFERENCE_REPORTED, Others};
use crate::void::Void;
pub use facts::Facts;
pub use kind::{Access, Kind};
pub use report::{Outcome, Row, Spread};
use threads::{MeasuringThreads, Sample};

/// The shortest measurement: shorter ones measure the clock and the start of the threads as well.
const WINDOW_US_MIN: u64 = 2000;
/// The share of the budget that is kept for making the areas, and for delays.
const RESERVE: f64 = 0.1;
/// The size of an area as a multiple of the last cache's, so that little of an area is left in the
/// cache when the area is accessed again.
const TIMES_CACHE: u64 = 4;
const AREA_BYTES_MIN: u64 = 64 << 20;
/// All areas together take at most the free memory divided by this.
const PART_OF_MEMORY: u64 = 4;
/// The confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// The smallest area: both halves of a copy must hold a chunk.
const AREA_BYTES_LEAST: u64 = 2 * threads::CHUNK_BYTES as u64;

/// The options of a user.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The most time that all measurements together may take, in microseconds.
    pub budget_us: u64,
    /// Bytes of each core's area; if none, chosen by the size of the last cache.
    pub area_bytes: Option<u64>,
    /// The number of repetitions of each measurement.
    pub repetitions: u32,
}

/// The planned measurements, and their time.
#[derive(Debug, Clone)]
pub struct Plan {
    facts: Facts,
    kinds: Vec<Kind>,
    /// The numbers of cores at work at once: 1, 2, 4, … all.
    counts: Vec<usize>,
    area_bytes: u64,
    window_us: u64,
    repetitions: u32,
    /// Caveats for readers of the results.
    caveats: Vec<String>,
}

impl Plan {
    /// Divides the budget among all measurements.
    ///
    /// # Errors
    /// When the budget or the area is too small, or the areas are too large, in one line.
    pub fn new(options: Options, facts: Facts) -> Result<Self, String> {
        let kinds = kind::available();
        let counts = counts(facts.cpus.len());
        let repetitions = options.repetitions.max(1);
        let number = measurements(&kinds, &counts, repetitions);
        let window_us = (options.budget_us as f64 * (1.0 - RESERVE)) as u64 / number;
        if window_us < WINDOW_US_MIN {
            let least_s = (number * WINDOW_US_MIN) as f64 / 1e6 / (1.0 - RESERVE);
            return Err(format!(
                "--budget: {number} measurements need at least {least_s:.1} s; give them more \
                 time, or fewer --repetitions"
            ));
        }
        let area_bytes = area_bytes(options.area_bytes, &facts)?;
        let most_cpus = counts.iter().copied().max().unwrap_or(1);
        let caveats = caveats(area_bytes, most_cpus, &facts);
        Ok(Self { facts, kinds, counts, area_bytes, window_us, repetitions, caveats })
    }

    /// Describes the measurements and their time in one line, for before they begin.
    #[must_use]
    pub fn announce(&self) -> String {
        let number = measurements(&self.kinds, &self.counts, self.repetitions);
        let seconds = (number * self.window_us) as f64 / 1e6 / (1.0 - RESERVE);
        format!(
            "{number} measurements of {} ms on up to {} cores, {} MiB each: at most about \
             {seconds:.0} s",
            self.window_us / 1000,
            self.facts.cpus.len(),
            self.area_bytes >> 20,
        )
    }

    /// Measures. Each repetition makes all measurements, so that a slow minute of the machine is
    /// spread over all rows. `show` receives before each how many are done, and how many there are.
    ///
    /// # Errors
    /// When a thread cannot run on its core, or when memory did not hold what was written to it, in
    /// one line.
    pub fn run(&self, show: &mut dyn FnMut(u32, u32)) -> Result<Outcome, String> {
        let threads = MeasuringThreads::start(&self.facts.cpus, self.area_bytes)?;
        let cells = self.counts.len() * self.kinds.len();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); cells];
        // All of the run: one measurement is too short for the kernel's accounts.
        let others = Others::watch();
        for done in 0..self.repetitions {
            show(done, self.repetitions);
            let turns = self
                .kinds
                .iter()
                .flat_map(|kind| self.counts.iter().map(move |count| (*kind, *count)));
            for ((kind, count), cell) in turns.zip(&mut samples) {
                cell.push(threads.measure(kind, count, self.window_us)?);
            }
        }
        let others_share = others.and_then(|others| others.share());
        Ok(self.outcome(&samples, others_share))
    }

    fn outcome(&self, samples: &[Vec<Sample>], others_share: Option<f64>) -> Outcome {
        let per_kind = samples.chunks(self.counts.len());
        let rows = self.kinds.iter().zip(per_kind).flat_map(|(kind, cells)| {
            let row = |(cores, cell): (&usize, &Vec<Sample>)| row(*kind, *cores, cell, &cells[0]);
            self.counts.iter().zip(cells).filter_map(row).collect::<Vec<_>>()
        });
        Outcome {
            processor: self.facts.processor.clone(),
            cpus: self.facts.cpus.clone(),
            cache_bytes: self.facts.cache_bytes,
            huge_pages: self.facts.huge_pages.clone(),
            area_bytes: self.area_bytes,
            window_us: self.window_us,
            repetitions: self.repetitions,
            reference_ghz: reference_ghz(samples),
            rows: rows.collect(),
            void: void(others_share).into_iter().collect(),
            caveats: self.caveats.iter().cloned().chain(others_text(others_share)).collect(),
        }
    }
}

/// The row of one cell; its speed-up over one core is computed repetition by repetition.
fn row(kind: Kind, cores: usize, cell: &[Sample], one_core: &[Sample]) -> Option<Row> {
    let rates = |cell: &[Sample]| -> Vec<f64> { cell.iter().map(|sample| sample.rate).collect() };
    let estimate = |sample: &[f64]| median_estimate(sample, CONFIDENCE);
    let spread = |estimate: Estimate| Spread {
        median: estimate.median,
        low: estimate.interval.low,
        high: estimate.interval.high,
    };
    let per_cycle: Vec<f64> = cell.iter().filter_map(|sample| sample.bytes_per_cycle).collect();
    let speed_up = paired_ratio(&rates(cell), &rates(one_core), CONFIDENCE)?;
    Some(Row {
        access: kind.access,
        is_streaming: kind.is_streaming(),
        instructions: kind.instructions.name(),
        access_bytes: kind.instructions.bytes(),
        cores,
        gigabytes_per_second: spread(estimate(&rates(cell))?),
        bytes_per_cycle: estimate(&per_cycle).map(spread),
        speed_up: spread(speed_up),
    })
}

/// The frequency of the reference cycles, in GHz: the median of all measurements.
fn reference_ghz(samples: &[Vec<Sample>]) -> Option<f64> {
    let paces: Vec<f64> =
        samples.iter().flatten().filter_map(|sample| sample.reference_ghz).collect();
    statistics::median(&paces)
}

fn measurements(kinds: &[Kind], counts: &[usize], repetitions: u32) -> u64 {
    kinds.len() as u64 * counts.len() as u64 * u64::from(repetitions)
}

/// The numbers of cores to measure with: 1, 2, 4, … and all.
fn counts(all: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|bit| 1 << bit).take_while(|count| *count < all);
    powers.chain([all]).collect()
}

fn area_bytes(typed: Option<u64>, facts: &Facts) -> Result<u64, String> {
    let cores = facts.cpus.len().max(1) as u64;
    let room = facts.free_bytes / PART_OF_MEMORY / cores;
    let wanted = (facts.cache_bytes.unwrap_or(0) * TIMES_CACHE).max(AREA_BYTES_MIN);
    let by_itself = wanted.min(room).max(AREA_BYTES_LEAST).next_multiple_of(1 << 20);
    match typed.unwrap_or(by_itself) {
        bytes if bytes < AREA_BYTES_LEAST => {
            Err(format!("--area: at least {} MiB", AREA_BYTES_LEAST >> 20))
        }
        // Even the smallest area may be too much for a small control group, which would kill this
        // process.
        bytes if bytes.saturating_mul(cores) > facts.free_bytes => Err(format!(
            "--area: {cores} cores want {} MiB, and {} MiB are free",
            bytes.saturating_mul(cores) >> 20,
            facts.free_bytes >> 20
        )),
        bytes => Ok(bytes),
    }
}

fn caveats(area_bytes: u64, most_cpus: usize, facts: &Facts) -> Vec<String> {
    let mut caveats = Vec::new();
    match facts.cache_bytes {
        None => {
            caveats.push("the size of the last cache is not known: areas may fit into it".into());
        }
        Some(cache) if area_bytes < 2 * cache => caveats.push(format!(
            "an area of {} MiB is not much more than the last cache of {} MiB: part of what is \
             measured is the cache",
            area_bytes >> 20,
            cache >> 20
        )),
        Some(_) => {}
    }
    if let Some(quota) = facts.quota_cpus.filter(|&quota| quota < most_cpus as f64) {
        caveats.push(format!(
            "a control group allows {quota:.2} CPUs' worth of time: speed-up beyond that is the \
             group's, not the memory's"
        ));
    }
    if !system::memory_bandwidth::has_streaming_stores() {
        caveats.push("plain instructions only: no others are written for this processor".into());
    }
    if system::memory_bandwidth::reference_cycles().is_none() {
        caveats.push("no reference cycles can be read here: GB/s only".into());
    }
    caveats
}

/// The caveat for a share of the CPUs that other processes had meanwhile, if it is worth a word.
/// Why the results are void, if others had too much of the CPUs.
fn void(share: Option<f64>) -> Option<Void> {
    let (disturbed, bound) = (Disturbed::SharedCpus, INTERFERENCE_MAX);
    let share = share.filter(|share| *share > bound)?;
    Some(Void::Interference { disturbed, share, bound })
}

fn others_text(share: Option<f64>) -> Option<String> {
    let is_told = |share: &f64| *share > INTERFERENCE_REPORTED && *share <= INTERFERENCE_MAX;
    let share = share.filter(is_told)?;
    let others = Disturbed::SharedCpus.describe(share);
    Some(format!("{others} meanwhile: rates and speed-ups may be lower for that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cpus: usize, cache_bytes: Option<u64>, free_bytes: u64) -> Facts {
        Facts { cpus: (0..cpus).collect(), cache_bytes, free_bytes, ..Facts::default() }
    }

    fn options(budget_us: u64) -> Options {
        Options { budget_us, area_bytes: None, repetitions: 5 }
    }

    #[test]
    fn cores_double_to_all() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
        assert_eq!(counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn the_budget_is_kept_and_a_small_one_refused() {
        let plan = Plan::new(options(60_000_000), facts(2, Some(1 << 20), 1 << 34)).expect("fits");
        let number = measurements(&plan.kinds, &plan.counts, 5);
        assert!(number * plan.window_us <= 54_000_000, "{plan:?}");
        assert!((number + 1) * plan.window_us > 53_000_000, "{plan:?}");
        assert!(plan.announce().ends_with(": at most about 60 s"), "{}", plan.announce());
        let why = Plan::new(options(100), facts(2, Some(1 << 20), 1 << 34)).expect_err("too short");
        assert!(why.starts_with("--budget: ") && why.contains(" need at least "), "{why}");
    }

    #[test]
    fn areas_exceed_the_cache_and_leave_memory() {
        let of = |typed, facts: &Facts| area_bytes(typed, facts).map(|bytes| bytes >> 20);
        assert_eq!(of(None, &facts(2, Some(32 << 20), 1 << 34)), Ok(128));
        assert_eq!(of(None, &facts(2, None, 1 << 34)), Ok(64));
        assert_eq!(of(None, &facts(64, Some(32 << 20), 1 << 34)), Ok(64), "a quarter of all");
        assert_eq!(of(Some(16 << 20), &facts(2, None, 1 << 34)), Ok(16));
        assert!(of(Some(1000), &facts(2, None, 1 << 34)).is_err());
        assert!(of(Some(1 << 33), &facts(4, None, 1 << 34)).is_err());
        assert!(of(None, &facts(64, None, 100 << 20)).is_err(), "the least for 64 is 128 MiB");
    }

    #[test]
    fn areas_that_fit_into_a_cache_give_a_caveat() {
        let told = |facts: &Facts| caveats(64 << 20, 2, facts).join(" ");
        assert!(told(&facts(2, Some(40 << 20), 1)).contains("the last cache of 40 MiB"));
        assert!(told(&facts(2, None, 1)).contains("not known"));
        assert!(!told(&facts(2, Some(32 << 20), 1)).contains("cache"));
    }

    #[test]
    fn a_group_that_has_less_time_than_cpus_gives_a_caveat() {
        let told = |quota_cpus, most_cpus| {
            let facts = Facts { quota_cpus, ..facts(8, Some(1 << 20), 1) };
            caveats(64 << 20, most_cpus, &facts).join(" ")
        };
        assert!(told(Some(2.5), 4).contains("allows 2.50 CPUs' worth of time"));
        assert!(!told(Some(2.5), 2).contains("worth") && !told(None, 8).contains("worth"));
    }

    #[test]
    fn what_others_had_of_the_cpus_gives_a_caveat() {
        let options = Options { budget_us: 500_000, area_bytes: None, repetitions: 1 };
        let plan = Plan::new(options, facts(1, Some(1 << 20), 1 << 34)).expect("fits");
        let told = |share| plan.outcome(&[], share).caveats[plan.caveats.len()..].join(" ");
        let text = "other processes used 3 % of the CPUs meanwhile: rates and speed-ups may be \
                    lower for that";
        assert_eq!(told(Some(0.03)), text);
        assert_eq!([told(Some(0.01)), told(None)], ["", ""]);
    }

    #[test]
    fn everything_is_measured_on_every_number_of_cores() {
        let cpus: Vec<usize> = os::affinity::allowed_cpus().into_iter().take(2).collect();
        let facts = Facts { cpus: cpus.clone(), free_bytes: 1 << 34, ..Facts::default() };
        let options = Options { budget_us: 500_000, area_bytes: Some(4 << 20), repetitions: 1 };
        let plan = Plan::new(options, facts).expect("half a second is enough");
        let mut shown = Vec::new();
        let outcome = plan.run(&mut |done, all| shown.push((done, all))).expect("it runs");
        assert_eq!(shown, [(0, 1)]);
        assert_eq!(outcome.rows.len(), kind::available().len() * counts(cpus.len()).len());
        for row in &outcome.rows {
            assert!(row.gigabytes_per_second.median > 0.0, "{row:?}");
            assert!(row.cores > 1 || row.speed_up.median == 1.0, "{row:?}");
        }
    }

    #[test]
    fn speed_up_is_taken_repetition_by_repetition() {
        let sample = |rate| Sample { rate, bytes_per_cycle: Some(rate / 2.0), reference_ghz: None };
        let one: Vec<Sample> = [2.0, 4.0, 2.0].map(sample).to_vec();
        let two: Vec<Sample> = [3.0, 6.0, 3.0].map(sample).to_vec();
        let row = row(kind::available()[0], 2, &two, &one).expect("a row");
        assert_eq!((row.speed_up.low, row.speed_up.median, row.speed_up.high), (1.5, 1.5, 1.5));
        assert_eq!(row.gigabytes_per_second.median, 3.0);
        assert_eq!(row.bytes_per_cycle.map(|spread| spread.median), Some(1.5));
    }
}
