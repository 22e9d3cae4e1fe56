//! In which order the points of a study are measured, which runs are made again because they were
//! void, and which repetition is worth its time.
//!
//! A block is every point once, in a randomised order: so what changes slowly on the machine
//! affects all points alike, and two points of one block are a pair. Without a budget there are as
//! many blocks as repetitions. With one, every point is measured at least [`FIRST_BLOCKS`] times,
//! and then time goes to the points whose intervals are widest.

use crate::record::{Point, Purpose, Run};
use statistics::{Generator, median_estimate};

/// How often every point is measured before any is preferred, whatever the budget.
const FIRST_BLOCKS: u32 = 2;

/// How often a void run is made within its block before it is given up.
pub(super) const ATTEMPTS_MAX: u32 = 3;

/// One run that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Index of its point.
    pub point: usize,
    /// Its repetition, from 0.
    pub block: u32,
    /// How often it was void before.
    pub attempt: u32,
}

/// What has been measured of a point.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The figure of each repetition, or none if it was given up as void.
    blocks: Vec<Option<f64>>,
    /// How often the repetition under way was void.
    attempts: u32,
}

/// The order of a study's runs. It is a function of the points, the seed and what has been
/// measured: so a study that is resumed goes on as it would have.
#[derive(Debug)]
pub struct Schedule {
    points: Vec<Point>,
    known: Vec<Known>,
    repetitions: u32,
    seed: u64,
    confidence: f64,
    by_width: bool,
}

impl Schedule {
    /// A schedule before any measurement. With `by_width` repetitions go where intervals are
    /// widest.
    pub fn new(
        points: Vec<Point>,
        repetitions: u32,
        by_width: bool,
        seed: u64,
        confidence: f64,
    ) -> Self {
        let known = vec![Known::default(); points.len()];
        Self { points, known, repetitions, seed, confidence, by_width }
    }

    /// The points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Records a run that was made, now or before the study was interrupted. Runs of other points,
    /// or for another purpose, are ignored.
    pub fn learn(&mut self, run: &Run) {
        if run.purpose != Purpose::Point {
            return;
        }
        // Of equal points the one that is behind: otherwise the second would never get a run.
        let same = (0..self.points.len()).filter(|&index| self.points[index].is_same(&run.point));
        let Some(index) = same.min_by_key(|&index| self.known[index].block()) else { return };
        let known = &mut self.known[index];
        if run.void.is_empty() {
            known.blocks.push(run.figures.as_ref().map(|figures| figures.throughput_per_s));
            known.attempts = 0;
        } else {
            known.attempts += 1;
            if known.attempts == ATTEMPTS_MAX {
                known.blocks.push(None);
                known.attempts = 0;
            }
        }
    }

    /// What to measure next; none when all is done.
    pub fn next(&self) -> Option<Next> {
        let block = self.known.iter().map(Known::block).min()?;
        if !self.by_width || block < FIRST_BLOCKS.min(self.repetitions) {
            return self.next_of_block(block);
        }
        let open =
            (0..self.points.len()).filter(|&point| self.known[point].block() < self.repetitions);
        let width = |&point: &usize| self.width(point);
        let widest = open.max_by(|a, b| width(a).total_cmp(&width(b)))?;
        Some(self.next_of(widest))
    }

    /// How many runs are left at most, without those that will be void.
    pub fn runs_left(&self) -> u32 {
        self.known.iter().map(|known| self.repetitions.saturating_sub(known.block())).sum()
    }

    /// The indices of points without any figure: all their repetitions were void.
    pub fn empty_points(&self) -> impl Iterator<Item = usize> {
        let all_void = |known: &Known| !known.blocks.is_empty() && known.figures().is_empty();
        (0..self.points.len()).filter(move |&point| all_void(&self.known[point]))
    }

    fn next_of_block(&self, block: u32) -> Option<Next> {
        if block >= self.repetitions {
            return None;
        }
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        Generator::new(self.seed.wrapping_add(u64::from(block))).shuffle(&mut order);
        let due = order.into_iter().find(|&point| self.known[point].block() == block)?;
        Some(self.next_of(due))
    }

    fn next_of(&self, point: usize) -> Next {
        let known = &self.known[point];
        Next { point, block: known.block(), attempt: known.attempts }
    }

    /// The interval of a point's throughput, relative to its median. A point that was measured less
    /// than twice has an unknown variation and counts as the widest of all; unless it was given up
    /// so often that it comes last: it would take the time of points that can be measured.
    fn width(&self, point: usize) -> f64 {
        let figures = self.known[point].figures();
        if figures.len() < 2 {
            let given_up = self.known[point].blocks.len() - figures.len();
            let is_hopeless = given_up >= FIRST_BLOCKS as usize;
            return if is_hopeless { f64::NEG_INFINITY } else { f64::INFINITY };
        }
        let estimate = median_estimate(&figures, self.confidence);
        estimate.map_or(f64::INFINITY, |estimate| {
            let width = estimate.interval.high - estimate.interval.low;
            // Few values give a range that is too narrow; what was measured less often comes first.
            (width / estimate.median.max(f64::MIN_POSITIVE)) / figures.len() as f64
        })
    }
}

impl Known {
    fn block(&self) -> u32 {
        self.blocks.len() as u32
    }

    fn figures(&self) -> Vec<f64> {
        self.blocks.iter().copied().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Offered};

    fn points(count: u64) -> Vec<Point> {
        let offered = (1..=count).map(Offered::Connections);
        offered.map(|offered| Point { offered, ..Point::default() }).collect()
    }

    fn schedule(count: u64, repetitions: u32, by_width: bool) -> Schedule {
        Schedule::new(points(count), repetitions, by_width, 7, 0.95)
    }

    fn run(schedule: &Schedule, next: Next, throughput_per_s: f64) -> Run {
        let figures = Some(Figures { throughput_per_s, ..Figures::default() });
        Run { point: schedule.points()[next.point].clone(), figures, ..Run::default() }
    }

    fn void(schedule: &Schedule, next: Next) -> Run {
        Run { void: vec!["late".into()], ..run(schedule, next, 0.0) }
    }

    /// Makes all runs of a schedule and returns them.
    fn exhaust(schedule: &mut Schedule, throughput: impl Fn(Next) -> f64) -> Vec<Next> {
        let mut made = Vec::new();
        while let Some(next) = schedule.next() {
            made.push(next);
            let run = run(schedule, next, throughput(next));
            schedule.learn(&run);
        }
        made
    }

    #[test]
    fn blocks_hold_every_point_once_in_changing_order() {
        let made = exhaust(&mut schedule(5, 3, false), |_| 1.0);
        assert_eq!(made.len(), 15);
        let blocks: Vec<Vec<usize>> =
            made.chunks(5).map(|block| block.iter().map(|next| next.point).collect()).collect();
        for (number, block) in blocks.iter().enumerate() {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            assert!(made[5 * number..5 * number + 5].iter().all(|n| n.block == number as u32));
        }
        assert!(blocks[0] != blocks[1] || blocks[1] != blocks[2], "{blocks:?}");
    }

    #[test]
    fn void_runs_are_repeated_and_then_given_up() {
        let mut schedule = schedule(2, 1, false);
        let first = schedule.next().expect("nothing is measured");
        for attempt in 0..ATTEMPTS_MAX {
            let next = schedule.next().expect("it is void");
            assert_eq!(next, Next { attempt, ..first });
            let run = void(&schedule, next);
            schedule.learn(&run);
        }
        let other = schedule.next().expect("the other one");
        assert_ne!(other.point, first.point);
        assert_eq!(schedule.empty_points().count(), 1);
        let run = run(&schedule, other, 1.0);
        schedule.learn(&run);
        assert_eq!((schedule.next(), schedule.runs_left()), (None, 0));
    }

    /// A point that is listed twice is measured twice as often, and the schedule comes to an end.
    #[test]
    fn points_that_are_equal_share_their_runs() {
        let twice = [points(1), points(2)].concat();
        for by_width in [false, true] {
            let mut schedule = Schedule::new(twice.clone(), 3, by_width, 7, 0.95);
            for left in (0..9).rev() {
                let next = schedule.next().expect("there are more");
                let run = run(&schedule, next, 1.0);
                schedule.learn(&run);
                assert_eq!(schedule.runs_left(), left);
            }
            assert_eq!(schedule.next(), None);
        }
    }

    /// A study that was killed and is resumed does what it would have done.
    #[test]
    fn resuming_changes_nothing() {
        let whole = exhaust(&mut schedule(4, 5, true), |next| next.point as f64 + 1.0);
        let mut first = schedule(4, 5, true);
        let mut runs = Vec::new();
        for _ in 0..9 {
            let next = first.next().expect("there are more");
            runs.push(run(&first, next, next.point as f64 + 1.0));
            first.learn(runs.last().expect("just pushed"));
        }
        let mut second = schedule(4, 5, true);
        runs.iter().for_each(|run| second.learn(run));
        let rest = exhaust(&mut second, |next| next.point as f64 + 1.0);
        assert_eq!(rest, whole[9..]);
    }

    #[test]
    fn time_goes_to_the_widest_interval() {
        let mut schedule = schedule(3, 12, true);
        let noisy = |next: Next| match next.point {
            1 => 100.0 + 40.0 * f64::from(next.block % 2),
            _ => 100.0 + f64::from(next.block % 2),
        };
        let mut made = Vec::new();
        for _ in 0..15 {
            let next = schedule.next().expect("there are more");
            let run = run(&schedule, next, noisy(next));
            schedule.learn(&run);
            made.push(next.point);
        }
        let of_noisy = made.iter().filter(|&&point| point == 1).count();
        assert!(of_noisy >= 9, "{made:?}");
        assert!((0..3).all(|point| made.iter().filter(|&&one| one == point).count() >= 2));
    }

    #[test]
    fn what_was_measured_once_is_measured_again_first() {
        let mut schedule = schedule(3, 12, true);
        for _ in 0..3 {
            let next = schedule.next().expect("there are more");
            schedule.learn(&run(&schedule, next, 100.0));
        }
        // The second block of one point is given up.
        while let Some(next) = schedule.next().filter(|next| next.block < 2) {
            let made = match next.point {
                1 => void(&schedule, next),
                _ => run(&schedule, next, 100.0 + next.point as f64),
            };
            schedule.learn(&made);
        }
        assert_eq!(schedule.next().map(|next| next.point), Some(1));
    }

    /// With a budget the last repetitions are the ones that may be left out.
    #[test]
    fn what_was_given_up_in_each_block_comes_last() {
        let mut schedule = schedule(3, 5, true);
        let mut order = Vec::new();
        while let Some(next) = schedule.next() {
            order.push(next.point);
            let made = match next.point {
                1 => void(&schedule, next),
                _ => run(&schedule, next, 100.0),
            };
            schedule.learn(&made);
        }
        let (begun, last) = order.split_at(order.len() - 3 * ATTEMPTS_MAX as usize);
        assert!(last.iter().all(|&point| point == 1), "{order:?}");
        let begun = begun.iter().filter(|&&point| point == 1).count();
        assert_eq!(begun, 2 * ATTEMPTS_MAX as usize, "two blocks of all");
    }

    #[test]
    fn searches_are_not_repetitions() {
        let mut schedule = schedule(1, 1, false);
        let next = schedule.next().expect("nothing is measured");
        let search = Run { purpose: Purpose::Race, ..run(&schedule, next, 1.0) };
        schedule.learn(&search);
        assert_eq!(schedule.next(), Some(next));
    }
}
