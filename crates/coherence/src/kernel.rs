//! The operating system's references: a stream drawn for each system call, as in Trace Factory
//! (Giorgi and Prete 1997), because traces are of user mode.
//!
//! Not a trace of any kernel: its parameters are the machine's `[kernel]`. Code is fetched in
//! runs that begin at popular places; data are the process's own kernel pages, or structures that
//! all processes may touch, packed so that some share a block. Which structure is a process's own
//! is fixed: those next to it belong to others, which is false sharing.

use statistics::Generator;

use crate::machine::Kernel;
use crate::record::{GRANULE_BYTES, Kind, Marker, PAGE_BYTES, Record, WORD_BYTES};

/// Where the kernel's pages are, and how often what is referred to.
#[derive(Debug)]
pub(crate) struct Stream {
    kernel: Kernel,
    tasks: u32,
    /// The first frame: code, shared pages, then each task's own.
    first: u32,
    /// Shares of the places of code, added up.
    code: Popularity,
    /// The same of structures.
    structures: Popularity,
}

/// Places by Zipf's law.
#[derive(Debug)]
struct Popularity {
    /// Shares, added up.
    shares: Vec<f64>,
    /// By the first digits of a share: the places before it are smaller.
    guide: Vec<u32>,
}

/// Parts into which a guide divides the shares.
const GUIDES: usize = 4096;

impl Stream {
    pub(crate) fn new(kernel: Kernel, tasks: u32, first: u32) -> Self {
        let granules = u64::from(kernel.code_pages) * PAGE_BYTES / GRANULE_BYTES;
        let structures =
            u64::from(kernel.shared_pages) * PAGE_BYTES / u64::from(kernel.structure_bytes);
        let code = Popularity::new(granules as usize, kernel.code_skew);
        let structures = Popularity::new(structures.max(1) as usize, kernel.structure_skew);
        Self { kernel, tasks, first, code, structures }
    }

    /// Frames that it needs.
    pub(crate) fn frames(kernel: &Kernel, tasks: u32) -> u32 {
        if !kernel.enabled {
            return 0;
        }
        kernel.code_pages + kernel.shared_pages + tasks * kernel.private_pages
    }

    /// The references of one system call, made by that task.
    pub(crate) fn draw(&self, task: u32, generator: &mut Generator, into: &mut Vec<Record>) {
        into.clear();
        let mut left = geometric(generator, self.kernel.references_mean);
        while left > 0 {
            let run = geometric(generator, self.kernel.run_mean).min(left);
            self.fetch(run, generator, into);
            left -= run;
            // So many data references for a run of code that the shares come out.
            let data = run as f64 * (100.0 - self.kernel.code_percent) / self.kernel.code_percent;
            let whole = data as u64 + u64::from(generator.unit() < data.fract());
            for _ in 0..whole.min(left) {
                into.push(self.data(task, generator));
            }
            left -= whole.min(left);
        }
        into.push(Record::marker(Marker::End));
    }

    /// Instructions of four bytes in a row, from a popular place.
    fn fetch(&self, run: u64, generator: &mut Generator, into: &mut Vec<Record>) {
        let granules = self.code.shares.len() as u64;
        let per_granule = GRANULE_BYTES / 4;
        let mut granule = scatter(self.code.draw(generator), granules);
        let mut left = run;
        while left > 0 {
            let count = left.min(per_granule);
            let address = granule * GRANULE_BYTES;
            let frame = self.first + (address / PAGE_BYTES) as u32;
            let offset = (address % PAGE_BYTES) as u16;
            into.push(Record::new(Kind::Fetch, frame, offset, 4, count as u8));
            left -= count;
            granule = (granule + 1) % granules;
        }
    }

    fn data(&self, task: u32, generator: &mut Generator) -> Record {
        let percent = |generator: &mut Generator, share: f64| generator.unit() * 100.0 < share;
        let write = percent(generator, self.kernel.write_percent);
        let kind = if write { Kind::Store } else { Kind::Load };
        if percent(generator, self.kernel.shared_percent) {
            let own = percent(generator, self.kernel.own_percent);
            return self.structure(task, own, kind, generator);
        }
        let bytes = u64::from(self.kernel.private_pages) * PAGE_BYTES;
        // A stack's end is used more than its beginning: the square of a uniform number.
        let depth = generator.unit();
        let address = (depth * depth * bytes as f64) as u64 / 8 * 8;
        let pages = self.kernel.code_pages + self.kernel.shared_pages;
        let own = self.first + pages + task * self.kernel.private_pages;
        reference(kind, own, address, 8).on_page(true)
    }

    /// A word of a structure of all processes: the task's own one, or a popular one.
    fn structure(&self, task: u32, own: bool, kind: Kind, generator: &mut Generator) -> Record {
        let size = u64::from(self.kernel.structure_bytes);
        let structures = self.structures.shares.len() as u64;
        let which = match own {
            true => u64::from(task) % structures,
            // Popular ones lie behind those that belong to somebody.
            false => (self.structures.draw(generator) + u64::from(self.tasks)) % structures,
        };
        let word = generator.below((size / WORD_BYTES) as usize) as u64;
        let address = which * size + word * WORD_BYTES;
        reference(kind, self.first + self.kernel.code_pages, address, 4).on_page(false)
    }
}

fn reference(kind: Kind, first: u32, address: u64, bytes: u16) -> Record {
    let frame = first + (address / PAGE_BYTES) as u32;
    Record::new(kind, frame, (address % PAGE_BYTES) as u16, bytes, 1)
}

/// Spreads popular places over the pages: a permutation of `0..places` for a power of two.
fn scatter(place: u64, places: u64) -> u64 {
    place.wrapping_mul(0x9E37_79B9) % places
}

/// A number of at least 1 with that mean.
fn geometric(generator: &mut Generator, mean: f64) -> u64 {
    // An exponential variable, rounded up: within half of the mean, and integer by construction.
    let mean = (mean - 0.5).max(0.5);
    (-libm::log(generator.unit()) * mean).ceil().clamp(1.0, 1e9) as u64
}

impl Popularity {
    fn new(places: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (0..places)
            .map(|place| {
                sum += libm::pow((place + 1) as f64, -skew);
                sum
            })
            .collect();
        for share in &mut shares {
            *share /= sum;
        }
        let before = |part: usize| {
            let least = part as f64 / GUIDES as f64;
            shares.partition_point(|share| *share < least) as u32
        };
        let guide = (0..=GUIDES).map(before).collect();
        Self { shares, guide }
    }

    fn draw(&self, generator: &mut Generator) -> u64 {
        let unit = generator.unit();
        let part = ((unit * GUIDES as f64) as usize).min(GUIDES - 1);
        let (first, end) = (self.guide[part] as usize, self.guide[part + 1] as usize);
        let place = first + self.shares[first..end].partition_point(|share| *share < unit);
        place.min(self.shares.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(kernel: Kernel, calls: u32) -> Vec<Record> {
        let stream = Stream::new(kernel, 4, 1);
        let mut generator = Generator::new(5);
        let mut all = Vec::new();
        let mut one = Vec::new();
        for call in 0..calls {
            stream.draw(call % 4, &mut generator, &mut one);
            all.extend(one.iter().copied().filter(|record| record.kind().is_some()));
        }
        all
    }

    #[track_caller]
    fn near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.05, "{got} is not about {expected}");
    }

    #[test]
    fn the_shares_are_those_of_the_parameters() {
        let kernel = Kernel::default();
        let records = drawn(kernel, 2000);
        let count = |of: &dyn Fn(&Record) -> bool| {
            records.iter().filter(|one| of(one)).map(|one| one.count()).sum::<u64>() as f64
        };
        let all = count(&|_| true);
        let code = count(&|one| one.kind() == Some(Kind::Fetch));
        let writes = count(&|one| one.kind() == Some(Kind::Store));
        let shared = count(&|one| one.kind() != Some(Kind::Fetch) && !one.is_private());
        near(all / 2000.0, kernel.references_mean);
        near(code / all * 100.0, kernel.code_percent);
        near(writes / (all - code) * 100.0, kernel.write_percent);
        near(shared / (all - code) * 100.0, kernel.shared_percent);
    }

    #[test]
    fn frames_stay_within_what_was_asked_for() {
        let kernel = Kernel::default();
        let end = 1 + Stream::frames(&kernel, 4);
        assert!(drawn(kernel, 500).iter().all(|one| (1..end).contains(&one.frame())));
    }
}
