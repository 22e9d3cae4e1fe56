//! The search against servers whose best configuration is known.

use super::super::grid::Dimension;
use super::super::simulated::{QUEUE_PER_S, Queue, Simulated, World};
use super::super::{Candidate, Measure, Observation, RunRequest, Stop};
use super::*;
use load::find_limit::Conditions;

/// One knob, whose value is the number of the candidate.
fn plan(method: Method, candidates: usize, seed: u64) -> Plan {
    let values = (0..candidates).map(|n| n.to_string()).collect();
    let base =
        Candidate { name: "knob=0".into(), knobs: [("knob".to_owned(), "0".to_owned())].into() };
    Plan {
        method,
        grid: Grid::new(base, vec![Dimension { name: "knob".into(), values }], Vec::new()),
        run_s: 1.0,
        budget_s: None,
        confidence: 0.95,
        margin: 0.02,
        first_per_s: 100.0,
        seed,
    }
}

fn run(measure: &mut dyn Measure, plan: &Plan) -> Result<Tuned, Stop> {
    let mut watch = |_: &super::super::Progress<'_>| ();
    let settings = (0.04, plan.seed);
    let mut blocks = Blocks::new(measure, &mut watch, Conditions::default(), settings);
    tune(&mut blocks, plan)
}

/// The winner sustains what is reported, however long sessions are.
#[test]
fn the_sustained_rate_of_a_queue_is_its_capacity() {
    for (length, window_s) in [1, 3, 5, 8].into_iter().flat_map(|it| [(it, 5.0), (it, 2.0)]) {
        for seed in 0..4 {
            let plan = plan(Method::Grid, 2, seed);
            let tuned = run(&mut Queue { length, window_s }, &plan).expect("it ends");
            let found = &tuned.last_look;
            let per_s = found.held_per_s.expect("it sustains something");
            assert!((per_s / QUEUE_PER_S - 1.0).abs() <= 0.02, "{length} {seed}: {found:?}");
        }
    }
}

/// The sample has as many as fit, however many there are: a server's knobs have billions of
/// combinations.
#[test]
fn a_sample_is_as_large_as_the_budget_allows() {
    for end in 4..40 {
        for fitting in 0..45 {
            let by_turns = (4..end).rev().find(|&count| count <= fitting).unwrap_or(4);
            assert_eq!(most_fitting(4, end, |count| count <= fitting), by_turns, "{end} {fitting}");
        }
    }
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let dimension = |n| Dimension { name: format!("knob{n}"), values: values.clone() };
    let huge = Grid::new(Candidate::default(), (0..20).map(dimension).collect(), Vec::new());
    assert_eq!(huge.size(), usize::MAX);
    let plan = Plan { grid: huge, budget_s: Some(1200.0), ..plan(Method::Halving, 1, 1) };
    let count = plan.candidates().len();
    let fits = |count| plan.estimated_runs(count) <= 1200.0 * (1.0 - PART_FOR_NEIGHBOURS);
    assert!(count > FINALISTS + 1 && fits(count) && !fits(count + 1), "{count}");
}

/// 27 candidates below 1,000 requests a second, and one of them 8 % above it.
fn planted(seed: u64) -> (Vec<f64>, usize) {
    let mut generator = statistics::Generator::new(seed);
    let mut capacities: Vec<f64> = (0..27).map(|_| 700.0 + 300.0 * generator.unit()).collect();
    let best = generator.below(27);
    capacities[best] = 1080.0;
    (capacities, best)
}

/// In how many of these worlds the planted optimum is found, and in how many runs each.
fn found_of(method: Method, noise: f64, seeds: u64) -> (u64, u32) {
    let (mut right, mut runs) = (0, 0);
    for seed in 0..seeds {
        let (capacities, best) = planted(seed);
        let mut server = Simulated::new(World::noisy(capacities, noise), seed);
        let tuned = run(&mut server, &plan(method, 27, seed)).expect("it ends");
        right += u64::from(tuned.winner == best);
        runs += tuned.runs.made;
    }
    (right, runs / seeds as u32)
}

/// The first 400 of the 1,000 worlds in `docs/lab/tune.md`: the best is found in at least 97 of
/// 100, and halving takes less than three quarters of the grid's runs.
#[test]
fn a_planted_optimum_is_found_as_often_as_is_said() {
    for noise in [0.02, 0.05] {
        let [halving, grid] =
            [Method::Halving, Method::Grid].map(|method| found_of(method, noise, 400));
        assert!(halving.0 >= 388 && grid.0 >= 388, "noise {noise}: {halving:?}, {grid:?}");
        assert!(halving.1 * 4 < grid.1 * 3, "noise {noise}: {halving:?}, {grid:?}");
    }
}

/// Prints the tables of `docs/lab/tune.md`:
/// `cargo test -p lab --release -- --ignored --nocapture worlds_of_the_docs`.
#[test]
#[ignore = "it takes minutes, and prints what is in the docs"]
fn worlds_of_the_docs() {
    let worlds = 1000;
    // The interval of a share after Wilson 1927, 95 %.
    let percent = |right: u64| {
        let (n, z) = (worlds as f64, 1.959_964_f64);
        let share = right as f64 / n;
        let middle = share + z * z / (2.0 * n);
        let reach = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
        let [low, high] = [middle - reach, middle + reach].map(|end| end / (1.0 + z * z / n));
        let [share, low, high] = [share, low, high].map(|part| part * 100.0);
        format!("{share:.1} % ({low:.1} to {high:.1})")
    };
    println!("| method | error of a run | best found | runs on average |\n|---|---|---|---|");
    for (name, method) in [("halving", Method::Halving), ("grid", Method::Grid)] {
        for noise in [0.02, 0.05] {
            let (right, runs) = found_of(method, noise, worlds);
            println!("| {name} | {:.0} % | {} | {runs} |", noise * 100.0, percent(right));
        }
    }
    println!("\n| error of a run | best found | called better wrongly | runs on average |");
    println!("|---|---|---|---|");
    for noise in [0.02, 0.05] {
        let of = challenged_of(noise, worlds);
        let (right, wrong) = (percent(of.right), percent(of.wrong));
        println!("| {:.0} % | {right} | {wrong} | {} |", noise * 100.0, of.runs);
    }
}

/// Results of searches over a sample, whose winners' neighbours challenge them.
#[derive(Default, Debug)]
struct Challenged {
    /// The planted optimum was found.
    right: u64,
    /// A race was won by a candidate that is worse than another in it, and was called better.
    wrong: u64,
    /// Races in all searches.
    races: u32,
    /// Runs on average.
    runs: u32,
}

/// Three knobs of six values, each step of a knob away from the best costs 4 to 6 % and more; the
/// budget is for a sample.
fn challenged_of(noise: f64, seeds: u64) -> Challenged {
    let costs = [0.04, 0.05, 0.06];
    let mut all = Challenged::default();
    for seed in 0..seeds {
        let plan = sampled(seed, 900.0);
        let noise = Simulated::new(World::noisy(vec![1.0], noise), seed);
        let tuned = run(&mut Surface { noise, costs }, &plan).expect("it ends");
        let sustains = |one: usize| surface(&tuned.candidates[one], costs);
        let best = sustains(tuned.winner);
        all.right += u64::from(best > 999.9);
        all.wrong += u64::from(
            tuned
                .rivals
                .iter()
                .any(|rival| rival.verdict == Verdict::Higher && sustains(rival.candidate) > best),
        );
        all.races += tuned.certainty.races;
        all.runs += tuned.runs.made;
        assert!(tuned.candidates.len() < 216, "a sample");
    }
    all.runs /= seeds as u32;
    all
}

/// The optimum is mostly no part of the sample: challenges lead to it.
#[test]
fn a_planted_optimum_is_found_by_its_neighbours() {
    let all = challenged_of(0.02, 40);
    assert!(all.right >= 20 && all.wrong <= 2 && all.races >= 90, "{all:?}");
}

/// Whether a winner that was challenged in vain is the best also depends on its challengers.
#[test]
fn challengers_are_rivals() {
    let costs = [0.04, 0.05, 0.06];
    let (mut challenged, mut undecided) = (0, 0);
    for seed in 0..40 {
        let plan = sampled(seed, 900.0);
        let sample = plan.candidates().len();
        let noise = Simulated::new(World::noisy(vec![1.0], 0.05), seed);
        let tuned = run(&mut Surface { noise, costs }, &plan).expect("it ends");
        if tuned.certainty.races == 2 && tuned.winner < sample {
            let mut challengers = tuned.rivals.iter().filter(|rival| rival.candidate >= sample);
            assert!(challengers.clone().next().is_some(), "{seed}: {:?}", tuned.rivals);
            let is_open = challengers.any(|rival| rival.verdict == Verdict::CannotTell);
            assert!(!(is_open && tuned.is_decided()), "{seed}");
            challenged += 1;
            undecided += u32::from(is_open);
        }
    }
    assert!(challenged > 0 && undecided > 0, "{challenged} {undecided}");
}

/// Where neighbours may challenge, each race has its part of the confidence; where all take part
/// from the first there is one race.
#[test]
fn races_share_the_confidence() {
    let certainty_of = |plan: &Plan| {
        let costs = [0.04, 0.05, 0.06];
        let noise = Simulated::new(World::noisy(vec![1.0], 0.02), 5);
        run(&mut Surface { noise, costs }, plan).expect("it ends")
    };
    let tuned = certainty_of(&sampled(5, 900.0));
    let pairs = tuned.rivals.len() as f64;
    let part = (1.0 - tuned.certainty.of_rival) * pairs;
    assert!((part - 0.05 / 6.0).abs() < 1e-9, "{tuned:?}");
    assert!(tuned.certainty.of_gain <= tuned.certainty.of_rival && tuned.certainty.of_gain > 0.95);
    let (capacities, _) = planted(1);
    let mut server = Simulated::new(World::noisy(capacities, 0.02), 1);
    let tuned = run(&mut server, &plan(Method::Halving, 27, 1)).expect("it ends");
    let part = (1.0 - tuned.certainty.of_rival) * tuned.rivals.len() as f64;
    assert!((part - 0.05).abs() < 1e-9 && tuned.certainty.races == 1, "{tuned:?}");
}

/// Where all take part, and the base or a wanted configuration lies beside the grid, their
/// neighbours may challenge: only then are there races to share the confidence with.
#[test]
fn races_share_the_confidence_where_neighbours_lie_beside_the_grid() {
    let values = |of: [&str; 2]| -> Vec<String> { of.map(str::to_owned).into() };
    let knobs = |x: &str, y: &str, z: &str| -> crate::template::Values {
        [("x", x), ("y", y), ("z", z)].map(|(name, value)| (name.into(), value.into())).into()
    };
    let share_of = |base, wanted| {
        let dimensions = [("x", ["2", "3"]), ("y", ["1", "2"]), ("z", ["2", "3"])];
        let dimensions =
            dimensions.map(|(name, of)| Dimension { name: name.into(), values: values(of) });
        let base = Candidate { name: "base".into(), knobs: base };
        let grid = Grid::new(base, dimensions.into(), wanted);
        let noise = Simulated::new(World::noisy(vec![1.0], 0.02), 3);
        let mut server = Surface { noise, costs: [0.04, 0.05, 0.06] };
        let tuned = run(&mut server, &Plan { grid, ..plan(Method::Halving, 1, 3) }).expect("so");
        let is_within = tuned.certainty.races <= 6;
        assert!(
            is_within && tuned.candidate_states.iter().all(|state| state.runs > 0),
            "{tuned:?}"
        );
        (1.0 - tuned.certainty.of_rival) * tuned.rivals.len() as f64 / 0.05
    };
    let check = |share: f64, races: f64| assert!((share * races - 1.0).abs() < 1e-6, "{share}");
    check(share_of(knobs("2", "1", "2"), Vec::new()), 1.0);
    check(share_of(knobs("4", "2", "4"), Vec::new()), 6.0);
    check(share_of(knobs("2", "1", "2"), vec![knobs("4", "2", "4")]), 6.0);
}

/// A candidate that races and then meets its neighbours drops a kind of file in that block.
struct Unmasked(Surface, std::collections::BTreeSet<String>);

impl Measure for Unmasked {
    fn measure(
        &mut self,
        candidate: &Candidate,
        request: &RunRequest,
    ) -> Result<Observation, Stop> {
        let mut observation = self.0.measure(candidate, request)?;
        if request.purpose == Purpose::Race {
            self.1.insert(candidate.name.clone());
        }
        if request.purpose == Purpose::Neighbours(1) && self.1.contains(&candidate.name) {
            let figures = observation.figures.as_mut().expect("it starts");
            // Too few to be noticed in one run.
            figures.served_by_kind.insert("class3_1".into(), (99, 0));
        }
        Ok(observation)
    }
}

/// A winner that proves unfair among its neighbours loses its place, whichever candidate is better,
/// and with or without time for a last look; the next of its race takes it, or a better one.
#[test]
fn a_winner_that_proves_unfair_when_challenged_is_replaced() {
    let costs = [0.04, 0.05, 0.06];
    let mut challenged = 0;
    for seed in 0..40 {
        let noise = Simulated::new(World::noisy(vec![1.0], 0.02), seed);
        let mut server = Unmasked(Surface { noise, costs }, Default::default());
        let tuned = run(&mut server, &sampled(seed, 700.0 + 20.0 * seed as f64)).expect("it ends");
        let is_out = |state: &CandidateState| state.out.is_some();
        let out = tuned.candidate_states.iter().position(is_out);
        let Some(out) = out else { continue };
        assert!(tuned.candidate_states[tuned.winner].out.is_none(), "{seed}: {tuned:?}");
        challenged += u32::from(tuned.certainty.races > 1);
        // The candidates that raced with it, or better ones; never just any neighbour.
        let sustains = |one: usize| surface(&tuned.candidates[one], costs);
        let known = |one: &usize| server.1.contains(&tuned.candidates[*one].name);
        let raced = (0..tuned.candidates.len()).filter(known).filter(|&one| one != out);
        let next = raced.map(sustains).fold(0.0, f64::max);
        assert!(
            sustains(tuned.winner) > 0.95 * next,
            "{seed}: {} of {next}",
            sustains(tuned.winner)
        );
    }
    assert!(challenged >= 20, "{challenged} of 40");
}

/// Candidate 3 gets twice as much out by leaving a fifth of the large files unanswered. In one run
/// fewer than a hundred of them are requested; in all runs that held there are enough to notice.
#[test]
fn a_planted_unfair_winner_is_rejected() {
    for seed in 0..60 {
        let (mut capacities, best) = planted(seed);
        let unfair = (best + 3) % 27;
        capacities[unfair] = 900.0;
        let world = World { unfair: vec![unfair], ..World::noisy(capacities, 0.03) };
        let tuned = run(&mut Simulated::new(world, seed), &plan(Method::Halving, 27, seed));
        let tuned = tuned.expect("it ends");
        assert_ne!(tuned.winner, unfair, "{seed}");
        let why = tuned.candidate_states[unfair].out.as_deref().unwrap_or("in");
        assert!(why.starts_with("unfair: class3_1 is served"), "{seed}: {why}");
    }
}

/// All sustain more than the generator can request: none is better, and the reason is reported.
#[test]
fn a_generator_that_is_saturated_decides_nothing() {
    let world = World { generator: 400.0, noise: 0.02, ..World::quiet(planted(3).0) };
    let tuned = run(&mut Simulated::new(world, 3), &plan(Method::Halving, 27, 3)).expect("so");
    assert!(tuned.rivals.iter().all(|rival| rival.verdict != Verdict::Higher), "{tuned:?}");
    assert!(tuned.candidate_states[tuned.winner].generator_bound);
    assert!(tuned.runs.void >= 27, "{:?}", tuned.runs);
}

#[test]
fn what_does_not_start_does_not_take_part() {
    let (capacities, best) = planted(4);
    let broken = (0..27).filter(|&one| one != best).take(5).collect();
    let world = World { broken, ..World::noisy(capacities, 0.03) };
    let tuned = run(&mut Simulated::new(world, 4), &plan(Method::Halving, 27, 4)).expect("so");
    assert_eq!(tuned.winner, best);
    let out = tuned.candidate_states.iter().filter(|state| state.out.is_some());
    let runs: Vec<u32> = out.map(|state| state.runs).collect();
    assert!(runs.len() == 5 && runs.iter().all(|&runs| runs <= 4), "{runs:?}");
    let nothing = World { broken: (0..27).collect(), ..World::quiet(vec![1.0; 27]) };
    let stop = run(&mut Simulated::new(nothing, 4), &plan(Method::Grid, 27, 4)).expect_err("none");
    assert!(matches!(stop, Stop::Failed(why) if why.contains("it does not start")));
}

/// Where all are alike none is called better, but for the 5 % that were allowed; and they are
/// called alike only where the noise allows it.
#[test]
fn alike_is_not_called_better() {
    let said = |noise: World, wanted| {
        let said = (0..60).filter(|&seed| {
            let mut server = Simulated::new(noise.clone(), seed);
            let tuned = run(&mut server, &plan(Method::Halving, 9, seed)).expect("it ends");
            tuned.rivals.iter().any(|rival| rival.verdict == wanted)
        });
        said.count()
    };
    let noisy = World::noisy(vec![1000.0; 9], 0.03);
    let better = said(noisy, Verdict::Higher);
    assert!(better <= 3, "{better} of 60 called better");
    let calm = World { noise: 0.005, ..World::quiet(vec![1000.0; 9]) };
    let ties = said(calm, Verdict::Tie);
    assert!(ties >= 50, "{ties} of 60 called a tie");
}

/// Candidate 2 drops large files, but only once it is being confirmed.
struct Deceiver(Simulated);

impl Measure for Deceiver {
    fn measure(
        &mut self,
        candidate: &Candidate,
        request: &RunRequest,
    ) -> Result<Observation, Stop> {
        let mut observation = self.0.measure(candidate, request)?;
        if candidate.name.ends_with('2') && request.purpose == Purpose::Confirmation {
            let figures = observation.figures.as_mut().expect("it starts");
            // Too few to be noticed in one run.
            figures.served_by_kind.insert("class3_1".into(), (60, 0));
        }
        Ok(observation)
    }
}

/// The best of the rest takes the place of a winner that was unfair, and the others are compared
/// with it.
#[test]
fn a_winner_that_proves_unfair_is_replaced_with_all_that_was_said_of_it() {
    let world = World { noise: 0.005, ..World::quiet(vec![1000.0, 1080.0, 1200.0]) };
    let mut server = Deceiver(Simulated::new(world, 1));
    let tuned = run(&mut server, &plan(Method::Halving, 3, 1)).expect("it ends");
    assert!(tuned.candidate_states[2].out.as_ref().is_some_and(|why| why.starts_with("unfair")));
    assert_eq!(tuned.winner, 1);
    let [base] = &tuned.rivals[..] else { panic!("{:?}", tuned.rivals) };
    assert!(base.candidate == 0 && base.verdict != Verdict::Lower, "{base:?}");
    assert!(base.ratio.contains(1.08) && tuned.gain == Some(base.ratio), "{tuned:?}");
    assert!(tuned.last_look.held_per_s.is_some_and(|rate| rate < 1150.0));
}

/// Three knobs of six values, of which a budget allows a sample.
fn sampled(seed: u64, budget_s: f64) -> Plan {
    let values: Vec<String> = (0..6).map(|n| n.to_string()).collect();
    let dimensions =
        ["x", "y", "z"].map(|name| Dimension { name: name.into(), values: values.clone() });
    let knobs = ["x", "y", "z"].map(|name| (name.to_owned(), "0".to_owned())).into();
    let grid = Grid::new(Candidate { name: "base".into(), knobs }, dimensions.into(), Vec::new());
    Plan { grid, budget_s: Some(budget_s), ..plan(Method::Halving, 1, seed) }
}

/// A smooth surface; the budget is for a seventh of it.
#[test]
fn a_sample_and_its_neighbours_come_close() {
    let costs = [0.02, 0.03, 0.01];
    let (mut close, mut within) = (0, 0);
    for seed in 0..40 {
        let noise = Simulated::new(World::noisy(vec![1.0], 0.03), seed);
        let mut server = Surface { noise, costs };
        let tuned = run(&mut server, &sampled(seed, 600.0)).expect("it ends");
        close += u32::from(surface(&tuned.candidates[tuned.winner], costs) > 920.0);
        within += u32::from(tuned.runs.made <= 600);
        assert!(tuned.gain.is_some_and(|gain| gain.low > 1.0), "{seed}: the base is far off");
    }
    assert!(close >= 36 && within == 40, "{close} close, {within} within the budget, of 40");
}

/// The time that runs take decides, not the time that was estimated.
#[test]
fn a_budget_is_kept_when_runs_are_long() {
    for (seed, run_s) in (0..20).zip([3.0, 10.0].into_iter().cycle()) {
        let (capacities, _) = planted(seed);
        let world = World { run_s, ..World::noisy(capacities, 0.03) };
        let plan = Plan { budget_s: Some(200.0 * run_s), ..plan(Method::Halving, 27, seed) };
        let tuned = run(&mut Simulated::new(world, seed), &plan).expect("it ends");
        assert!(tuned.runs.made <= 200, "{seed}: {:?} of 200 runs", tuned.runs);
        assert!(tuned.runs.made >= 100 && tuned.candidates.len() >= 4, "{seed}: {tuned:?}");
    }
}

/// However short the budget, no run is begun that would not end within it: either there is a result
/// of what was measured until then, which says so, or the message says how much is needed.
#[test]
fn no_search_outlasts_its_budget() {
    let (mut results, mut refusals) = (0, 0);
    for (seed, runs) in (0..).zip([1, 5, 9, 15, 20, 25, 30, 40, 60, 90, 120, 200]) {
        for (method, size) in
            [(Method::Halving, 2), (Method::Halving, 4), (Method::Halving, 27), (Method::Grid, 4)]
        {
            let world = World { run_s: 3.0, ..World::noisy(planted(seed).0, 0.03) };
            let plan = Plan { budget_s: Some(3.0 * f64::from(runs)), ..plan(method, size, seed) };
            let mut server = Simulated::new(world, seed);
            let said = run(&mut server, &plan);
            assert!(server.runs <= runs, "{size} {method:?}: {} of {runs} runs", server.runs);
            match said {
                Ok(tuned) => {
                    let known = &tuned.candidate_states[tuned.winner].estimates_per_s;
                    assert!(!known.is_empty(), "{runs}, {size} {method:?}: {tuned:?}");
                    assert!(tuned.budget_ended || tuned.is_confirmed, "{tuned:?}");
                    results += 1;
                }
                Err(Stop::Failed(why)) => {
                    assert!(why.starts_with("a run takes 3.0 s here, "), "{why}");
                    refusals += 1;
                }
                Err(stop) => panic!("{stop:?}"),
            }
        }
    }
    assert!(results >= 20 && refusals >= 15, "{results} results, {refusals} refusals");
}

/// A budget as long as the least that is estimated gives a result, though not a sure one.
#[test]
fn the_least_budget_is_enough_for_a_look_at_each() {
    for (seed, size) in (0..40).zip([2, 3, 4, 27].into_iter().cycle()) {
        let least = plan(Method::Halving, size, seed).least_s();
        let plan = Plan { budget_s: Some(least), ..plan(Method::Halving, size, seed) };
        let mut server = Simulated::new(World::noisy(planted(seed).0, 0.02), seed);
        let tuned = run(&mut server, &plan).expect("there is time");
        let looked_at = tuned.candidate_states.iter().all(|one| !one.estimates_per_s.is_empty());
        assert!(looked_at && tuned.budget_ended, "{seed}: {tuned:?}");
    }
}

/// In all but a few searches the winner's limit is confirmed: time for that is kept.
#[test]
fn the_winner_is_confirmed_within_the_budget() {
    for (noise, most) in [(0.02, 3), (0.05, 12)] {
        let unconfirmed = (0..100).filter(|&seed| {
            let plan = Plan { budget_s: Some(200.0), ..plan(Method::Halving, 5, seed) };
            let mut server = Simulated::new(World::noisy(planted(seed).0, noise), seed);
            !run(&mut server, &plan).expect("there is time").is_confirmed
        });
        let unconfirmed = unconfirmed.count();
        assert!(unconfirmed <= most, "{noise}: {unconfirmed} of 100");
    }
}

/// Where a grid was thought to fit and runs prove too long for one block of it, none is made.
#[test]
fn a_grid_that_does_not_fit_its_budget_is_not_begun() {
    let world = World { run_s: 10.0, ..World::noisy(planted(1).0, 0.03) };
    let plan = Plan { budget_s: Some(600.0), ..plan(Method::Grid, 27, 1) };
    let mut server = Simulated::new(world, 1);
    let Stop::Failed(why) = run(&mut server, &plan).expect_err("there is no time") else {
        panic!("no interrupt was sent")
    };
    assert!(why.starts_with("a run takes 10.0 s here, so that a grid of 27 "), "{why}");
    assert!(server.runs < 30, "{} runs: the level alone", server.runs);
    assert_eq!(plan.needed_s(), 27.0 * 3.0 * 4.5 + 4.0 * 8.0 * 4.5 + 24.0);
}

/// The search for the first candidate that sustains anything keeps to the budget.
#[test]
fn scouting_keeps_to_the_budget() {
    let nothing = World { broken: (0..300).collect(), ..World::quiet(vec![1.0; 300]) };
    for method in [Method::Grid, Method::Halving] {
        let plan = Plan { budget_s: Some(40.0), ..plan(method, 300, 1) };
        let mut server = Simulated::new(nothing.clone(), 1);
        let stop = run(&mut server, &plan).expect_err("nothing starts");
        assert!(server.runs <= 40, "{} runs", server.runs);
        let Stop::Failed(why) = stop else { panic!("no interrupt was sent") };
        let is_said = why.starts_with("the budget ended before") || method == Method::Halving;
        assert!(is_said && why.ends_with(": it does not start"), "{why}");
    }
}

/// Wherever the budget cuts a search short, its result says so; and not where it does not.
#[test]
fn a_search_that_its_budget_ended_says_so() {
    for seed in 0..20 {
        let ended = |method, budget_s| {
            let mut server = Simulated::new(World::noisy(planted(seed).0, 0.01), seed);
            let plan = Plan { budget_s, ..plan(method, 27, seed) };
            run(&mut server, &plan).expect("it ends").budget_ended
        };
        for method in [Method::Grid, Method::Halving] {
            assert!(!ended(method, None), "{seed} {method:?}");
        }
        // The budget holds one block and a bit; as all are estimated at first, there is no sample.
        assert!(ended(Method::Grid, Some(190.0)), "{seed}");
        let noise = Simulated::new(World::noisy(vec![1.0], 0.01), seed);
        let mut server = Surface { noise, costs: [0.04, 0.05, 0.06] };
        let tuned = run(&mut server, &sampled(seed, 400.0)).expect("it ends");
        let best = surface(&tuned.candidates[tuned.winner], [0.04, 0.05, 0.06]);
        assert!(tuned.budget_ended || best > 999.9, "{seed}: neighbours were left: {best}");
    }
}

/// The progress after each run: seconds spent, and left.
fn progress(plan: &Plan, world: World) -> Vec<(f64, f64)> {
    let mut told = Vec::new();
    let mut watch = |progress: &super::super::Progress<'_>| {
        told.push((progress.spent_s, progress.left_s));
    };
    let mut server = Simulated::new(world, plan.seed);
    let settings = (0.04, plan.seed);
    let mut blocks = Blocks::new(&mut server, &mut watch, Conditions::default(), settings);
    tune(&mut blocks, plan).expect("it ends");
    told
}

/// Runs take three times as long as was estimated, and the reported rest is soon about right, and
/// never nothing.
#[test]
fn what_is_left_is_told_by_what_runs_have_taken() {
    for seed in 0..10 {
        let world = World { run_s: 3.0, ..World::noisy(planted(seed).0, 0.03) };
        let told = progress(&plan(Method::Halving, 27, seed), world);
        let all_s = told.last().expect("there are runs").0;
        assert!(told.iter().all(|(_, left_s)| *left_s >= 3.0), "{told:?}");
        let (spent_s, left_s) = told[told.len() / 3];
        let ratio = left_s / (all_s - spent_s);
        assert!((0.4..2.5).contains(&ratio), "{seed}: {left_s} of {}", all_s - spent_s);
    }
}

/// The last limit sometimes takes twice the runs that were estimated: until then a run is not
/// reported as the last over and over.
#[test]
fn what_takes_longer_than_was_estimated_is_not_said_to_be_about_to_end() {
    let last_runs = (0..20).map(|seed| {
        let told = progress(&plan(Method::Halving, 3, seed), World::noisy(planted(seed).0, 0.05));
        told.iter().filter(|(_, left_s)| *left_s < 2.0).count()
    });
    let last_runs: Vec<usize> = last_runs.collect();
    assert!(last_runs.iter().all(|&runs| runs <= 4), "{last_runs:?}");
}

/// Neighbours of the best of a sample take what the budget has left.
#[test]
fn a_sample_is_told_to_last_as_long_as_its_budget() {
    let plan = sampled(1, 300.0);
    assert_eq!(plan.expected_s(), 300.0);
    let world = World { run_s: 2.0, ..World::noisy(vec![1000.0; 6], 0.03) };
    let told = progress(&plan, world);
    let (spent_s, left_s) = told[10];
    assert_eq!(spent_s + left_s, 300.0);
    let is_true = |(spent_s, left_s): &(f64, f64)| spent_s + left_s <= 300.0;
    assert!(told[..told.len() - 1].iter().all(is_true), "{told:?}");
}

/// 1,000 where the knobs are 4, 2 and 3; each step away costs.
fn surface(candidate: &Candidate, costs: [f64; 3]) -> f64 {
    let place = [("x", 4.0), ("y", 2.0), ("z", 3.0)].into_iter().zip(costs);
    let parts = place.map(|((knob, best), cost)| {
        let value: f64 = candidate.knobs[knob].parse().expect("a number");
        (1.0 - cost * (value - best).powi(2)).max(0.05)
    });
    1000.0 * parts.product::<f64>()
}

struct Surface {
    noise: Simulated,
    costs: [f64; 3],
}

impl Measure for Surface {
    fn measure(
        &mut self,
        candidate: &Candidate,
        request: &RunRequest,
    ) -> Result<Observation, Stop> {
        self.noise.world.capacities = vec![surface(candidate, self.costs)];
        self.noise.measure(&Candidate::default(), request)
    }
}

/// Whatever is observed, the same seed requests the same runs.
#[test]
fn the_same_seed_makes_the_same_search() {
    let search = || {
        let (capacities, _) = planted(8);
        let mut server = Simulated::new(World::noisy(capacities, 0.05), 8);
        let tuned = run(&mut server, &plan(Method::Halving, 27, 8)).expect("it ends");
        (tuned.winner, tuned.runs, tuned.rivals)
    };
    assert_eq!(search(), search());
}
