//! A server and its load in virtual time: sessions that arrive, requests that wait for the reply to
//! the request before, a server of exactly known capacity. Nothing of it depends on the machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How a server answers.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// One request after the other, so many a second.
    Queue(f64),
    /// Any number at a time, each within this many seconds on average, exponentially distributed.
    Slow(f64),
    /// Any number at a time, each within exactly this many seconds.
    Delay(f64),
}

/// Sessions of a fixed number of requests each, without think times.
#[derive(Clone, Copy, Debug)]
pub struct VirtualLoad {
    /// How the server answers.
    pub service: Service,
    /// Requests of a session.
    pub length: usize,
    /// The rate of requests in one second, if every reply came at once.
    pub asked_per_s: f64,
    /// Whether sessions come independently of each other; else they are evenly spaced.
    pub is_random: bool,
    /// Seconds before the window.
    pub warm_up_s: f64,
    /// Seconds of the window.
    pub window_s: f64,
}

/// What happened within the window, in steps of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Requests sent and not answered when the window began.
    pub begin: u64,
    /// Requests sent in each step: those that would have been due, had every reply come at once.
    pub asked: Vec<u64>,
    /// Requests answered in each step.
    pub settled: Vec<u64>,
    /// How long each request that was answered in the window took, in microseconds.
    pub took_us: Vec<u64>,
}

impl Steps {
    /// What nine of ten requests took at most, in microseconds; 0 if none was answered.
    pub fn took_us_of_most(&self) -> u64 {
        let mut took_us = self.took_us.clone();
        took_us.sort_unstable();
        took_us.get(took_us.len() * 9 / 10).copied().unwrap_or(0)
    }
}

/// A session's next request: when it is due, in nanoseconds, and its number in the session, from 1.
type Due = BinaryHeap<Reverse<(u64, usize)>>;

impl VirtualLoad {
    /// Runs the load, in `steps` steps. `random` returns numbers from 0 to below 1.
    pub fn run(&self, steps: usize, random: &mut dyn FnMut() -> f64) -> Steps {
        let (asked, settled) = (vec![0; steps], vec![0; steps]);
        let mut seen = Steps { begin: 0, asked, settled, took_us: Vec::new() };
        let mut due = self.sessions(&mut seen, random);
        let mut free_s = 0.0_f64;
        while let Some(Reverse((at_ns, number))) = due.pop() {
            let at_s = at_ns as f64 / 1e9;
            let done_s = match self.service {
                Service::Queue(per_s) => free_s.max(at_s) + 1.0 / per_s,
                Service::Slow(mean_s) => at_s + mean_s * exponential(random),
                Service::Delay(seconds) => at_s + seconds,
            };
            free_s = done_s;
            match self.step(done_s, steps) {
                None => seen.begin -= 1,
                Some(step) if step < steps => {
                    seen.settled[step] += 1;
                    seen.took_us.push(((done_s - at_s) * 1e6) as u64);
                }
                Some(_) => continue,
            }
            if number < self.length {
                due.push(Reverse((nanoseconds(done_s), number + 1)));
            }
        }
        seen
    }

    /// When each session begins; its requests are counted.
    fn sessions(&self, seen: &mut Steps, random: &mut dyn FnMut() -> f64) -> Due {
        let gap_s = self.length as f64 / self.asked_per_s;
        let (mut start_s, mut due) = (0.0, Due::new());
        while start_s < self.warm_up_s + self.window_s {
            match self.step(start_s, seen.asked.len()) {
                None => seen.begin += self.length as u64,
                Some(step) => seen.asked[step] += self.length as u64,
            }
            due.push(Reverse((nanoseconds(start_s), 1)));
            start_s += if self.is_random { gap_s * exponential(random) } else { gap_s };
        }
        due
    }

    /// The step in which a time lies; none before the window.
    fn step(&self, at_s: f64, steps: usize) -> Option<usize> {
        let into_s = at_s - self.warm_up_s;
        (into_s >= 0.0).then(|| (into_s / self.window_s * steps as f64) as usize)
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Exponentially distributed, with mean 1.
fn exponential(random: &mut dyn FnMut() -> f64) -> f64 {
    -(1.0 - random()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(asked_per_s: f64) -> VirtualLoad {
        let service = Service::Queue(100.0);
        let (is_random, warm_up_s, window_s) = (false, 1.0, 10.0);
        VirtualLoad { service, length: 4, asked_per_s, is_random, warm_up_s, window_s }
    }

    /// A queue answers as many requests as it can and no more.
    #[test]
    fn a_queue_has_the_capacity_that_it_is_said_to_have() {
        let of = |asked_per_s| load(asked_per_s).run(50, &mut || 0.5);
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let calm = of(60.0);
        assert_eq!((sum(&calm.asked), sum(&calm.settled)), (600, 600));
        let busy = of(120.0);
        assert!(sum(&busy.asked).abs_diff(1200) <= 4, "{busy:?}");
        assert!(sum(&busy.settled).abs_diff(1000) <= 1, "{busy:?}");
        // The load exceeded the capacity by 20 a second for a second, give or take a session and
        // the requests that were about to be answered.
        assert!((15..=25).contains(&busy.begin), "{busy:?}");
    }
}
