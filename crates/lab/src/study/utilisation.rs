//! The rate at which a server uses a given part of its processors, by correcting a guess: between
//! two rates the utilisation is nearly on a line. Pure: what comes next is a function of the runs
//! so far, so that a study that is resumed comes to the same rate, and keeps it.

use super::schedule::ATTEMPTS_MAX;
use crate::record::{Offered, Run};

/// A utilisation that is so near the one that was asked for is it.
pub(crate) const NEAR: f64 = 0.02;

/// So many rates are tried, void runs included.
const GUESSES_MAX: usize = 6;

/// A rate is not changed by more than this factor at once.
const CORRECTION_MAX: f64 = 4.0;

/// The purpose of the runs that look for the rate of a utilisation, which it ends with.
const PURPOSE: &str = "rate for utilisation ";

/// The purpose of the runs that look for the rate at which the server is so busy.
pub(super) fn purpose(share: f64) -> String {
    format!("{PURPOSE}{share}")
}

/// What [`purpose`] was told; none where a run is for something else.
pub(crate) fn share_looked_for(purpose: &str) -> Option<f64> {
    purpose.strip_prefix(PURPOSE)?.parse().ok()
}

/// What is meant by a utilisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gauge {
    /// The server's own time on its processors, of which there are so many, as reports show it
    /// ([`Run::utilisation`]); not how busy they were with anything.
    Server(Option<f64>),
    /// How busy the processors were with servers and clients, which share them: the server's part
    /// alone could never be most of it.
    Shared,
}

impl Default for Gauge {
    fn default() -> Self {
        Self::Server(None)
    }
}

impl Gauge {
    /// That of a domain with so many CPUs for the servers and for the clients.
    pub(crate) fn of(cpus: Option<f64>, client_cpus: Option<f64>) -> Self {
        if client_cpus == Some(0.0) { Self::Shared } else { Self::Server(cpus) }
    }

    /// What has that share, in words.
    pub(crate) fn busy(self, share: f64) -> String {
        let percent = 100.0 * share;
        match self {
            Self::Server(_) => format!("{percent:.0} % CPU"),
            Self::Shared => format!("CPUs {percent:.0} % busy with servers and clients"),
        }
    }

    /// What a run shows; none if that was not observed.
    pub(crate) fn read(self, run: &Run) -> Option<f64> {
        match self {
            Self::Server(cpus) => run.utilisation(cpus),
            Self::Shared => run.observed.get("cpus_busy_share").copied(),
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Try this load, which was void so often before.
    Try(Offered, u32),
    /// At this rate, which was tried, it is so busy.
    Reached(f64),
    /// No rate that was tried is; why, in words.
    NotReached(String),
}

/// What comes after `runs`, all that were made to find the rate, in their order. `saturating` is
/// the load that tells what the server bears at most.
pub(super) fn next(runs: &[&Run], share: f64, gauge: Gauge, saturating: Offered) -> Step {
    let (first, guesses): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.point.offered == saturating);
    let good = |run: &&&Run| run.void.is_empty();
    let Some(most) = first.iter().find(good).and_then(|run| run.figures.as_ref()) else {
        let attempts = first.len() as u32;
        return match attempts < ATTEMPTS_MAX {
            true => Step::Try(saturating, attempts),
            false => Step::NotReached("every run that was to tell where to begin was void".into()),
        };
    };
    let mut tried: Vec<(f64, f64)> = Vec::new();
    let mut attempt = 0;
    for run in &guesses {
        let offered = run.point.offered.requests_per_s();
        let busy = gauge.read(run).filter(|_| run.void.is_empty());
        let (Some(offered), Some(busy)) = (offered, busy) else {
            attempt += 1;
            continue;
        };
        if (busy - share).abs() <= NEAR {
            return Step::Reached(offered);
        }
        tried.push((offered, busy));
        attempt = 0;
    }
    if guesses.len() < GUESSES_MAX {
        let rate = match tried.last() {
            Some((last, _)) => {
                corrected(&tried, share).clamp(last / CORRECTION_MAX, last * CORRECTION_MAX)
            }
            None => most.throughput_per_s * share,
        };
        return Step::Try(Offered::RequestsPerS(rate), attempt);
    }
    Step::NotReached(match nearest(tried, share) {
        Some((rate, busy)) => format!(
            "the nearest of {GUESSES_MAX} that were tried, {rate:.0} requests/s, takes {:.0} %",
            100.0 * busy
        ),
        None => format!("all {GUESSES_MAX} runs were void"),
    })
}

/// Of rates with their utilisations the one that comes nearest to `share`.
pub(crate) fn nearest(
    tried: impl IntoIterator<Item = (f64, f64)>,
    share: f64,
) -> Option<(f64, f64)> {
    let distance = |(_, busy): &(f64, f64)| (busy - share).abs();
    tried.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The rate for a utilisation by those that were `tried`, with theirs: where the line through the
/// two that enclose it comes to it, or through the two busiest where none was busy enough. Nothing
/// is used at rate 0.
fn corrected(tried: &[(f64, f64)], share: f64) -> f64 {
    let by_busy = |a: &(f64, f64), b: &(f64, f64)| a.1.total_cmp(&b.1);
    let (mut below, mut above): (Vec<_>, Vec<_>) =
        tried.iter().copied().partition(|(_, busy)| *busy < share);
    below.push((0.0, 0.0));
    below.sort_by(by_busy);
    above.sort_by(by_busy);
    let low = below.pop().unwrap_or_default();
    let other = above.first().copied().or_else(|| below.pop());
    let slope = other.map_or(0.0, |other| (other.1 - low.1) / (other.0 - low.0));
    match slope > 0.0 {
        true => low.0 + (share - low.1) / slope,
        // They contradict each other: more was less.
        false => tried.last().map_or(0.0, |(rate, busy)| rate * share / busy.max(0.01)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Point};

    const MOST: Offered = Offered::Connections(64);
    const SERVER: Gauge = Gauge::Server(Some(2.0));

    /// Two processors, of which other programs use something too.
    fn run(offered: Offered, throughput_per_s: f64, cpu_us: f64) -> Run {
        let figures = Figures { throughput_per_s, ..Figures::default() };
        let observed = [("cpu_us_per_request".into(), cpu_us), ("cpus_busy_share".into(), 0.99)];
        Run {
            point: Point { offered, ..Point::default() },
            figures: Some(figures),
            observed: observed.into(),
            window_s: 1.0,
            ..Run::default()
        }
    }

    /// Does what is said until it is at its end; `cost` is what a request costs at a rate.
    fn search(cost: impl Fn(f64) -> f64) -> (Vec<Run>, Step) {
        let mut runs: Vec<Run> = Vec::new();
        loop {
            let step = next(&runs.iter().collect::<Vec<_>>(), 0.8, SERVER, MOST);
            match step {
                Step::Try(offered, _) => {
                    let rate = offered.requests_per_s().unwrap_or(10_000.0);
                    runs.push(run(offered, rate, cost(rate)));
                }
                end => return (runs, end),
            }
        }
    }

    #[test]
    fn a_purpose_says_what_is_looked_for() {
        assert_eq!(share_looked_for(&purpose(0.8)), Some(0.8));
        assert_eq!(share_looked_for("limit 1"), None);
    }

    #[test]
    fn the_rate_that_is_found_was_tried() {
        // 160 us a request, 200 at the limit of 10,000: 0.8 of two processors at that rate.
        let (runs, end) = search(|rate| 160.0 + 40.0 * (rate / 10_000.0));
        let Step::Reached(rate) = end else { panic!("{end:?}") };
        assert_eq!(runs.last().expect("it was tried").point.offered, Offered::RequestsPerS(rate));
        let busy = rate * (160.0 + 40.0 * (rate / 10_000.0)) / 1e6 / 2.0;
        assert!((busy - 0.8).abs() <= NEAR, "{busy}");
    }

    /// The more there is to do at once, the less a request costs.
    #[test]
    fn a_rate_is_found_where_requests_become_cheaper() {
        let busy = |rate: f64| (rate / 63_000.0).powf(0.3);
        let (runs, end) = search(|rate| 2e6 * busy(rate) / rate);
        let Step::Reached(rate) = end else { panic!("{end:?}") };
        assert!((busy(rate) - 0.8).abs() <= NEAR && runs.len() <= 6, "{rate} after {}", runs.len());
    }

    #[test]
    fn rates_that_contradict_each_other_are_put_up_with() {
        let check = |tried: &[(f64, f64)], expected: f64| {
            let rate = corrected(tried, 0.8);
            assert!((rate - expected).abs() < 1e-6, "{tried:?}: {rate}");
        };
        check(&[(100.0, 0.4)], 200.0); // on a line from 0
        check(&[(100.0, 0.4), (200.0, 0.6)], 300.0);
        check(&[(300.0, 0.9), (100.0, 0.4), (200.0, 0.7)], 250.0);
        check(&[(200.0, 0.6), (100.0, 0.9)], 100.0 * 0.8 / 0.9);
        check(&[(100.0, 0.0)], 8000.0);
    }

    #[test]
    fn what_was_not_reached_is_said() {
        // Half of the processors at most, however much is asked.
        let (runs, end) = search(|rate| 1e6 / rate);
        assert_eq!(runs.len(), GUESSES_MAX + 1, "and no more");
        let Step::NotReached(why) = end else { panic!("{end:?}") };
        assert!(why.contains("requests/s, takes 50 %"), "{why}");
    }

    #[test]
    fn processors_that_clients_share_are_as_busy_as_with_both() {
        let most = run(MOST, 10_000.0, 20.0);
        assert_eq!(Gauge::Shared.read(&most), Some(0.99));
        assert_eq!(SERVER.read(&most), Some(0.1));
        let guess = run(Offered::RequestsPerS(8000.0), 8000.0, 20.0);
        let step = |gauge| next(&[&most, &guess], 0.98, gauge, MOST);
        assert_eq!(step(Gauge::Shared), Step::Reached(8000.0));
        assert!(matches!(step(SERVER), Step::Try(..)));
    }

    /// Later runs for the same purpose do not move a rate at which repetitions were made.
    #[test]
    fn a_rate_that_was_found_stays() {
        let good = |rate| run(Offered::RequestsPerS(rate), rate, 200.0);
        let runs = [run(MOST, 10_000.0, 200.0), good(8000.0), good(8100.0)];
        let step = next(&runs.iter().collect::<Vec<_>>(), 0.8, SERVER, MOST);
        assert_eq!(step, Step::Reached(8000.0));
    }

    #[test]
    fn void_runs_say_nothing_and_are_counted() {
        let void = |offered| Run { void: vec!["late".into()], ..run(offered, 9.0, 9.0) };
        let step = |runs: &[Run]| next(&runs.iter().collect::<Vec<_>>(), 0.8, SERVER, MOST);
        assert_eq!(step(&[void(MOST)]), Step::Try(MOST, 1));
        assert!(matches!(step(&vec![void(MOST); 3]), Step::NotReached(_)));
        let guess = Offered::RequestsPerS(8000.0);
        let begun = [run(MOST, 10_000.0, 200.0), void(guess)];
        assert_eq!(step(&begun), Step::Try(guess, 1), "the same again");
        let all = [vec![run(MOST, 10_000.0, 200.0)], vec![void(guess); GUESSES_MAX]].concat();
        assert_eq!(step(&all), Step::NotReached("all 6 runs were void".into()));
    }
}
