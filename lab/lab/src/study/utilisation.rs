//! The rate at which a server uses a given part of its processors, by correcting a guess. The
//! busier a server, the more requests share a wake-up: utilisation grows as a power of the rate
//! below 1, so that between two rates it is nearly on a line where both are logarithms. Pure: what
//! comes next is a function of the runs so far, so that a study that is resumed comes to the same
//! rate, and keeps it.

use super::schedule::ATTEMPTS_MAX;
use crate::record::{Offered, Run};
use crate::void::{Void, generator_gave_out};

/// A utilisation this near to the wanted one, relative, counts as reached.
pub(crate) const NEAR: f64 = 0.02;

/// How many runs look for a rate, void ones included.
const GUESSES_MAX: usize = 9;

/// After this many runs in a row in which the generator or the server gave out, a rate is too high.
const GAVE_OUT_MAX: u32 = 2;

/// The power of the rate that utilisation is, as long as only one rate was tried.
const POWER: f64 = 0.7;

/// The powers that are believed of two rates beyond which the wanted one lies: where hardly
/// anything changes from one to the other, the cause is noise, or an end that both are beyond.
const POWERS: (f64, f64) = (0.4, 1.2);

/// A rate is not changed by more than this factor at once.
const CORRECTION_MAX: f64 = 4.0;

/// How a utilisation is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gauge {
    /// The server's own time on its processors, of this number, as reports show it
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
    /// The gauge of a testbed with this many CPUs for the servers and for the clients.
    pub(crate) fn of_cpus(cpus: Option<f64>, client_cpus: Option<f64>) -> Self {
        if client_cpus == Some(0.0) { Self::Shared } else { Self::Server(cpus) }
    }

    /// The CPUs that are busy to that share, in words.
    pub(crate) fn busy(self, share: f64) -> String {
        let percent = 100.0 * share;
        match self {
            Self::Server(_) => format!("{percent:.0} % CPU"),
            Self::Shared => format!("CPUs {percent:.0} % busy with servers and clients"),
        }
    }

    /// The utilisation in a run; none if it was not observed.
    pub(crate) fn read(self, run: &Run) -> Option<f64> {
        match self {
            Self::Server(cpus) => run.utilisation(cpus),
            Self::Shared => run.observed.get("cpus_busy_share").copied(),
        }
    }
}

/// The next step towards the rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Try this load, which was void this often before.
    Try(Offered, u32),
    /// At this rate, which was tried, the utilisation is reached.
    Reached(f64),
    /// It is reached at no rate that was tried; why, in words.
    NotReached(String),
}

/// The step after `runs`, all runs that were made to find the rate, in their order. `saturating` is
/// the load that shows what the server sustains at most.
pub(super) fn next(runs: &[&Run], share: f64, gauge: Gauge, saturating: Offered) -> Step {
    let (first, guesses): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.point.offered == saturating);
    let good = |run: &&&Run| run.void.is_empty();
    let Some(most) = first.iter().find(good).and_then(|run| run.figures.as_ref()) else {
        let attempts = first.len() as u32;
        return match attempts < ATTEMPTS_MAX {
            true => Step::Try(saturating, attempts),
            false => Step::NotReached("every run that was to show where to begin was void".into()),
        };
    };
    let Tries { tried, known, attempt, .. } = Tries::from_runs(&guesses, gauge);
    if let Some((rate, _)) = tried.iter().find(|(_, busy)| (busy - share).abs() <= NEAR) {
        return Step::Reached(*rate);
    }
    if guesses.len() < GUESSES_MAX {
        let rate = match known.last() {
            Some((last, _)) => {
                corrected(&known, share).clamp(last / CORRECTION_MAX, last * CORRECTION_MAX)
            }
            None => most.throughput_per_s * share.powf(1.0 / POWER),
        };
        return Step::Try(Offered::RequestsPerS(rate), attempt);
    }
    Step::NotReached(match nearest(tried, share) {
        Some((rate, busy)) => format!(
            "the nearest of those that were tried in {GUESSES_MAX} runs, {rate:.0} requests/s, \
             takes {:.0} %",
            100.0 * busy
        ),
        None => match guesses.iter().filter(good).count() {
            0 => format!("all {GUESSES_MAX} runs were void"),
            valid => format!(
                "how busy the CPUs were could be observed in none of the {valid} runs that were \
                 not void"
            ),
        },
    })
}

/// Rates with their utilisations, in the order of their runs.
#[derive(Default)]
struct Tries {
    /// Rates with their utilisations as they were measured.
    tried: Vec<(f64, f64)>,
    /// Rates with their utilisations, and those at which the processors were at their end.
    known: Vec<(f64, f64)>,
    /// How many runs at the last rate were void, so far.
    attempt: u32,
    /// How many of them in a row in which the generator or the server gave out.
    gave_out: u32,
}

impl Tries {
    fn from_runs(guesses: &[&Run], gauge: Gauge) -> Self {
        let mut tries = Self::default();
        for run in guesses {
            let Some(rate) = run.point.offered.requests_per_s() else { continue };
            let gave_out = generator_gave_out(&run.void) || run.void.iter().any(Void::is_fault);
            tries.gave_out = if gave_out { tries.gave_out + 1 } else { 0 };
            match gauge.read(run).filter(|_| run.void.is_empty()) {
                Some(busy) => {
                    tries.tried.push((rate, busy));
                    tries.learn(rate, busy);
                }
                None if tries.gave_out == GAVE_OUT_MAX => tries.learn(rate, 1.0),
                None => tries.attempt += 1,
            }
        }
        tries
    }

    /// Enters a rate with its utilisation; the next rate is another.
    fn learn(&mut self, rate: f64, busy: f64) {
        self.known.push((rate, busy));
        (self.attempt, self.gave_out) = (0, 0);
    }
}

/// The rate whose utilisation comes nearest to `share`.
pub(crate) fn nearest(
    tried: impl IntoIterator<Item = (f64, f64)>,
    share: f64,
) -> Option<(f64, f64)> {
    let distance = |(_, busy): &(f64, f64)| (busy - share).abs();
    tried.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The rate for a utilisation by those that are `known`, with theirs: between the two that enclose
/// it, or beyond the two nearest.
fn corrected(known: &[(f64, f64)], share: f64) -> f64 {
    // A utilisation of 0 was not exactly 0.
    let mut known: Vec<(f64, f64)> =
        known.iter().map(|&(rate, busy)| (rate, busy.max(0.01))).collect();
    let last = known.last().copied().unwrap_or((1.0, share));
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let above = known.partition_point(|(_, busy)| *busy < share);
    let is_enclosed = 0 < above && above < known.len();
    // The two rates, the nearer one first where both lie on one side.
    let two = match known[..] {
        [] | [_] => None,
        _ if is_enclosed => Some((known[above - 1], known[above])),
        [first, second, ..] if above == 0 => Some((first, second)),
        [.., second, first] => Some((first, second)),
    };
    let by_last = last.0 * (share / last.1).powf(1.0 / POWER);
    let Some((near, far)) = two else { return by_last };
    let power = match (far.1 / near.1).ln() / (far.0 / near.0).ln() {
        // They contradict each other: a higher rate used less. Another run at them would not help.
        power if !(power > 0.0 && power.is_finite()) => return by_last,
        power if is_enclosed => power,
        power => power.clamp(POWERS.0, POWERS.1),
    };
    near.0 * (share / near.1).powf(1.0 / power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Point};
    use crate::search::simulated::LATE;
    use load::error_kind::ErrorKind;

    const MOST: Offered = Offered::Connections(64);
    const SERVER: Gauge = Gauge::Server(Some(2.0));

    /// Two processors, which other programs use a little, too.
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

    /// Makes the runs that are wanted until the end; `cost` is the cost of a request at a rate.
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
    fn the_rate_that_is_found_was_tried() {
        // 160 us a request, 200 at the limit of 10,000: 0.8 of two processors at that rate.
        let (runs, end) = search(|rate| 160.0 + 40.0 * (rate / 10_000.0));
        let Step::Reached(rate) = end else { panic!("{end:?}") };
        assert_eq!(runs.last().expect("it was tried").point.offered, Offered::RequestsPerS(rate));
        let busy = rate * (160.0 + 40.0 * (rate / 10_000.0)) / 1e6 / 2.0;
        assert!((busy - 0.8).abs() <= NEAR, "{busy}");
    }

    /// The more work is waiting, the less a request costs.
    #[test]
    fn a_rate_is_found_where_requests_become_cheaper() {
        let busy = |rate: f64| (rate / 63_000.0).powf(0.3);
        let (runs, end) = search(|rate| 2e6 * busy(rate) / rate);
        let Step::Reached(rate) = end else { panic!("{end:?}") };
        assert!((busy(rate) - 0.8).abs() <= NEAR && runs.len() <= 6, "{rate} after {}", runs.len());
    }

    /// As measured where servers and clients share processors, in thousands of requests/s; beyond
    /// the last rate the generator is late, and what it sustained with clients that wait.
    #[test]
    fn rates_are_found_on_shared_processors() {
        let check = |most: f64, curve: &[(f64, f64)], share: f64| {
            let busy = |rate: f64| {
                let beyond = curve.iter().position(|(known, _)| *known >= rate)?;
                let (to, from) =
                    (curve[beyond], beyond.checked_sub(1).map_or((0.0, 0.0), |n| curve[n]));
                Some(from.1 + (to.1 - from.1) * (rate - from.0) / (to.0 - from.0))
            };
            let mut runs = vec![run(MOST, most, 0.0)];
            let rate = loop {
                match next(&runs.iter().collect::<Vec<_>>(), share, Gauge::Shared, MOST) {
                    Step::Reached(rate) => break rate,
                    Step::NotReached(why) => panic!("{most} {share}: {why}"),
                    Step::Try(offered, _) => {
                        let mut tried = run(offered, 0.0, 0.0);
                        match busy(offered.requests_per_s().expect("a rate")) {
                            Some(busy) => tried.observed.insert("cpus_busy_share".into(), busy),
                            None => {
                                tried.void.push(LATE);
                                None
                            }
                        };
                        runs.push(tried);
                    }
                }
            };
            assert!(busy(rate).is_some_and(|busy| (busy - share).abs() <= NEAR));
        };
        let one = [(7.9, 0.49), (10.3, 0.57), (18.6, 0.9), (21.0, 0.92), (25.6, 0.97), (31.8, 1.0)];
        let two =
            [(10.0, 0.51), (13.5, 0.63), (21.7, 0.84), (26.4, 0.89), (30.9, 0.94), (38.1, 0.98)];
        let three =
            [(19.7, 0.49), (28.5, 0.64), (37.8, 0.84), (47.9, 0.92), (53.0, 0.93), (60.0, 0.99)];
        let four = [(19.6, 0.48), (30.7, 0.72), (34.3, 0.73), (38.0, 0.85)];
        let five =
            [(30.8, 0.5), (44.5, 0.64), (69.8, 0.78), (83.3, 0.83), (100.7, 0.87), (115.7, 0.92)];
        for share in [0.5, 0.8] {
            check(39.8, &one, share);
            check(47.6, &two, share);
            check(107.6, &three, share);
            check(38.3, &four, share);
            check(144.6, &five, share);
        }
    }

    #[test]
    fn rates_that_contradict_each_other_are_put_up_with() {
        let check = |known: &[(f64, f64)], expected: f64| {
            let rate = corrected(known, 0.8);
            assert!((rate / expected - 1.0).abs() < 1e-4, "{known:?}: {rate}");
        };
        check(&[(100.0, 0.4)], 269.18); // a power of 0.7
        check(&[(100.0, 0.4), (200.0, 0.6)], 327.05); // 0.585
        check(&[(300.0, 0.9), (100.0, 0.4), (200.0, 0.7)], 248.08);
        check(&[(100.0, 0.75), (101.0, 0.751)], 118.29); // hardly a change: 0.4
        check(&[(200.0, 0.6), (100.0, 0.9)], 84.51); // more was less: by the last alone
        check(&[(100.0, 0.83), (95.0, 0.89)], 81.58);
        check(&[(100.0, 0.0)], 100.0 * 80.0_f64.powf(1.0 / 0.7));
    }

    #[test]
    fn what_was_not_reached_is_said() {
        // Half of the processors at most, however much is requested.
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
        let void_for =
            |offered, why: &Void| Run { void: vec![why.clone()], ..run(offered, 9.0, 9.0) };
        let void = |offered| void_for(offered, &LATE);
        let step = |runs: &[Run]| next(&runs.iter().collect::<Vec<_>>(), 0.8, SERVER, MOST);
        assert_eq!(step(&[void(MOST)]), Step::Try(MOST, 1));
        assert!(matches!(step(&vec![void(MOST); 3]), Step::NotReached(_)));
        let most = run(MOST, 10_000.0, 200.0);
        let Step::Try(guess, 0) = step(std::slice::from_ref(&most)) else { panic!("a guess") };
        let begun = [most.clone(), void(guess)];
        assert_eq!(step(&begun), Step::Try(guess, 1), "the same again");
        let late = [most.clone(), void(guess), void(guess)];
        let Step::Try(lower, 0) = step(&late) else { panic!("another") };
        assert!(lower.requests_per_s() < guess.requests_per_s(), "{lower:?}");
        // So does a server that dies there, and a generator that has no ports left.
        let ended = || void_for(guess, &Void::Ended { copy: 1, copies: 1 });
        let no_ports = load::void::Void::Failed { kind: ErrorKind::OutOfPorts, times: 9 };
        let failed = || void_for(guess, &Void::Load(no_ports.clone()));
        for [first, second] in [[ended(), ended()], [failed(), failed()], [void(guess), ended()]] {
            assert_eq!(step(&[most.clone(), first, second]), Step::Try(lower, 0));
        }
        // A reason that has nothing to do with the rate does not change it.
        let read = void_for(guess, &"4096 bytes were read from the disk".into());
        for also in [void(guess), read.clone()] {
            assert_eq!(step(&[most.clone(), also, read.clone()]), Step::Try(guess, 2));
        }
        let all = [vec![most.clone()], vec![void(guess); GUESSES_MAX]].concat();
        assert_eq!(step(&all), Step::NotReached("all 9 runs were void".into()));
        let unseen = Run { observed: Default::default(), ..run(guess, 9.0, 9.0) };
        let all = [vec![most], vec![unseen; GUESSES_MAX - 1], vec![void(guess)]].concat();
        let Step::NotReached(why) = step(&all) else { panic!("nothing was observed") };
        assert!(why.contains("observed in none of the 8 runs"), "{why}");
    }
}
