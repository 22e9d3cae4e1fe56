//! The operating system's references: a stream drawn for each system call, as in Trace Factory
//! (Giorgi and Prete 1997), because traces contain user mode only.
//!
//! The stream is not a trace of any kernel: its parameters are the machine's `[kernel]`. Code is
//! fetched in runs that begin at popular places; data are the process's own kernel pages, or
//! structures that all processes may touch, packed so that some share a block, and visited for some
//! references each. Each process has one structure of its own, which is fixed: the neighbouring
//! ones belong to other processes, which is false sharing.

use statistics::Generator;

use crate::machine::Kernel;
use crate::record::{GRANULE_BYTES, Kind, Marker, PAGE_BYTES, Record, WORD_BYTES};

/// The kernel's pages, and the distribution of the references to them.
#[derive(Debug)]
pub(crate) struct Stream {
    kernel: Kernel,
    tasks: u32,
    /// The first frame of the kernel: code, shared pages, then each task's own pages.
    first: u32,
    /// Cumulative shares of the places of code.
    code: Popularity,
    /// Cumulative shares of the structures.
    structures: Popularity,
    /// The percentage of data references outside a visit that begin one.
    visits_percent: f64,
}

/// Consecutive references to a structure, from one of its words on.
#[derive(Debug, Default)]
struct Visit {
    structure: u64,
    word: u64,
    left: u64,
    write_percent: f64,
}

/// Places drawn by Zipf's law.
#[derive(Debug)]
struct Popularity {
    /// Cumulative shares.
    shares: Vec<f64>,
    /// For each interval of shares, the number of places before it: where a search begins.
    guide: Vec<u32>,
}

/// The number of intervals into which a guide divides the shares.
const GUIDES: usize = 4096;

impl Stream {
    pub(crate) fn new(kernel: Kernel, tasks: u32, first: u32) -> Self {
        let granules = u64::from(kernel.code_pages) * PAGE_BYTES / GRANULE_BYTES;
        let structures =
            u64::from(kernel.shared_pages) * PAGE_BYTES / u64::from(kernel.structure_bytes);
        let code = Popularity::new(granules as usize, kernel.code_skew);
        let structures = Popularity::new(structures.max(1) as usize, kernel.structure_skew);
        let share = kernel.shared_percent / 100.0;
        let visits_percent = kernel.shared_percent / (share + kernel.visit_mean * (1.0 - share));
        Self { kernel, tasks, first, code, structures, visits_percent }
    }

    /// The number of frames of the kernel for that many tasks.
    pub(crate) fn frames(kernel: &Kernel, tasks: u32) -> u32 {
        if !kernel.enabled {
            return 0;
        }
        kernel.code_pages + kernel.shared_pages + tasks * kernel.private_pages
    }

    /// Draws the references of one system call by `task` that moved `bytes` bytes.
    pub(crate) fn draw(
        &self,
        task: u32,
        moved_bytes: u64,
        generator: &mut Generator,
        into: &mut Vec<Record>,
    ) {
        into.clear();
        let mut left = geometric(generator, self.kernel.references_mean);
        if self.kernel.bytes_per_reference > 0.0 {
            left += (moved_bytes as f64 / self.kernel.bytes_per_reference) as u64;
        }
        let mut visit = Visit::default();
        while left > 0 {
            let run = geometric(generator, self.kernel.run_mean).min(left);
            self.fetch(run, generator, into);
            left -= run;
            // The number of data references for a run of code that yields the configured shares.
            let data = run as f64 * (100.0 - self.kernel.code_percent) / self.kernel.code_percent;
            let whole = data as u64 + u64::from(generator.unit() < data.fract());
            for _ in 0..whole.min(left) {
                into.push(self.data(task, &mut visit, generator));
            }
            left -= whole.min(left);
        }
        into.push(Record::marker(Marker::End));
    }

    /// Fetches consecutive instructions of four bytes, from a popular place.
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

    fn data(&self, task: u32, visit: &mut Visit, generator: &mut Generator) -> Record {
        let unit = generator.unit() * 100.0;
        let kind = |percent: f64| if unit < percent { Kind::Store } else { Kind::Load };
        if visit.left == 0 && one_of(generator, self.visits_percent) {
            *visit = self.visit(task, generator);
        }
        if visit.left > 0 {
            return self.go_on(visit, kind(visit.write_percent));
        }
        let bytes = u64::from(self.kernel.private_pages) * PAGE_BYTES;
        // A stack's end is used more than its beginning: the square of a uniform number.
        let depth = generator.unit();
        let address = (depth * depth * bytes as f64) as u64 / 8 * 8;
        let pages = self.kernel.code_pages + self.kernel.shared_pages;
        let own = self.first + pages + task * self.kernel.private_pages;
        reference(kind(self.kernel.write_percent), own, address, 8).with_private(true)
    }

    /// Begins a visit to a structure of all processes: the task's own one, or a popular one.
    fn visit(&self, task: u32, generator: &mut Generator) -> Visit {
        let kernel = &self.kernel;
        let size = u64::from(kernel.structure_bytes);
        let structures = self.structures.shares.len() as u64;
        let which = match one_of(generator, kernel.own_percent) {
            true => u64::from(task) % structures,
            // Popular structures lie behind those that belong to a task.
            false => (self.structures.draw(generator) + u64::from(self.tasks)) % structures,
        };
        let word = generator.below((size / WORD_BYTES) as usize) as u64;
        let left = match kernel.visit_mean > 1.0 {
            true => geometric(generator, kernel.visit_mean),
            false => 1,
        };
        let writing = kernel.writing_visits_percent;
        let write_percent = match writing >= 100.0 || one_of(generator, writing) {
            true => kernel.write_percent * 100.0 / writing,
            false => 0.0,
        };
        Visit { structure: which * size, word, left, write_percent }
    }

    /// The next word of a visit; the last word is followed by the first.
    fn go_on(&self, visit: &mut Visit, kind: Kind) -> Record {
        let address = visit.structure + visit.word * WORD_BYTES;
        visit.word = (visit.word + 1) % (u64::from(self.kernel.structure_bytes) / WORD_BYTES);
        visit.left -= 1;
        reference(kind, self.first + self.kernel.code_pages, address, 4).with_private(false)
    }
}

/// Whether an event of this probability, in percent, happens.
fn one_of(generator: &mut Generator, percent: f64) -> bool {
    generator.unit() * 100.0 < percent
}

fn reference(kind: Kind, first: u32, address: u64, bytes: u16) -> Record {
    let frame = first + (address / PAGE_BYTES) as u32;
    Record::new(kind, frame, (address % PAGE_BYTES) as u16, bytes, 1)
}

/// Spreads popular places over the pages: a permutation of `0..places` for a power of two.
fn scatter(place: u64, places: u64) -> u64 {
    place.wrapping_mul(0x9E37_79B9) % places
}

/// A geometrically distributed number of at least 1 with this mean.
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
            stream.draw(call % 4, 0, &mut generator, &mut one);
            all.extend(one.iter().copied().filter(|record| record.kind().is_some()));
        }
        all
    }

    #[track_caller]
    fn near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.05, "{got} is not about {expected}");
    }

    #[track_caller]
    fn check_shares(kernel: Kernel) {
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
    fn what_was_moved_makes_a_call_longer_if_it_is_to() {
        let references = |bytes_per_reference: f64, moved: u64| -> u64 {
            let kernel = Kernel { bytes_per_reference, ..Kernel::default() };
            let (stream, mut one) = (Stream::new(kernel, 4, 1), Vec::new());
            stream.draw(1, moved, &mut Generator::new(5), &mut one);
            one.iter().filter(|record| record.kind().is_some()).map(|record| record.count()).sum()
        };
        let without = references(0.0, 0);
        assert_eq!(references(0.0, 1 << 20), without, "off");
        assert_eq!(references(16.0, 0), without, "nothing was moved");
        assert_eq!(references(16.0, 1 << 20), without + (1 << 16));
    }

    #[test]
    fn the_check_shares_the_parameters() {
        check_shares(Kernel::default());
        check_shares(Kernel { visit_mean: 6.0, ..Kernel::default() });
        let some = Kernel { visit_mean: 6.0, writing_visits_percent: 40.0, ..Kernel::default() };
        check_shares(some);
        check_shares(Kernel { shared_percent: 100.0, ..some });
    }

    #[test]
    fn a_visit_goes_from_word_to_word() {
        let kernel = Kernel {
            visit_mean: 8.0,
            writing_visits_percent: 40.0,
            structure_bytes: 4096,
            ..Kernel::default()
        };
        let references: Vec<Record> = drawn(kernel, 2000)
            .into_iter()
            .filter(|one| one.kind() != Some(Kind::Fetch) && !one.is_private())
            .collect();
        let follows = |one: &[Record]| one[1].offset() == (one[0].offset() + 4) % 4096;
        let visits: Vec<&[Record]> =
            references.chunk_by(|one, next| follows(&[*one, *next])).collect();
        near(references.len() as f64 / visits.len() as f64, 8.0);
        let writing = |visit: &&&[Record]| visit.iter().any(|one| one.kind() == Some(Kind::Store));
        let share = visits.iter().filter(writing).count() as f64 / visits.len() as f64;
        // A visit that may write has eight words at 75 %: hardly one in five has a single word.
        assert!((0.3..0.4).contains(&share), "{share} of the visits write");
    }

    #[test]
    fn frames_stay_within_what_was_asked_for() {
        let kernel = Kernel::default();
        let end = 1 + Stream::frames(&kernel, 4);
        assert!(drawn(kernel, 500).iter().all(|one| (1..end).contains(&one.frame())));
    }
}
