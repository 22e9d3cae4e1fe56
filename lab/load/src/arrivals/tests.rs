//! Tests of exact times, of shares, and of whether Poisson arrivals are a Poisson process.

use statistics::{chi_square_test, kolmogorov_smirnov};

use super::*;

/// A fit with a lower p-value is refused. The seeds are fixed, so nothing here fails by chance.
const P_MIN: f64 = 0.001;

fn schedule(text: &str) -> Schedule {
    text.parse().unwrap()
}

fn all(mut arrivals: impl Arrivals) -> Vec<u64> {
    std::iter::from_fn(|| arrivals.next_us()).collect()
}

fn gaps(times: &[u64]) -> Vec<f64> {
    times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

#[test]
fn a_constant_rate_is_evenly_spaced() {
    let times = all(Constant::new(schedule("500@10s")));
    assert_eq!(times.len(), 5000);
    assert!(times.iter().enumerate().all(|(k, &time_us)| time_us == k as u64 * 2000));
}

#[test]
fn nothing_adds_up() {
    let mut late = Constant { schedule: schedule("3"), next: 3_000_000_000 };
    assert_eq!(late.next_us(), Some(1_000_000_000_000_000));
    assert_eq!(late.next_us(), Some(1_000_000_000_333_333));
}

#[test]
fn steps_ramps_and_spikes_have_their_counts() {
    let times = all(Constant::new(schedule("100@1s,0@1s,100..300@2s,1000@0.5s")));
    let count = |from: u64, to: u64| times.iter().filter(|&&t| from <= t && t < to).count();
    assert_eq!(times.len(), 1000);
    assert_eq!(count(0, 1_000_000), 100);
    assert_eq!(count(1_000_000, 2_000_000), 0);
    assert_eq!(count(2_000_000, 3_000_000), 150);
    assert_eq!(count(3_000_000, 4_000_000), 250);
    assert_eq!(count(4_000_000, 4_500_000), 500);
    assert!(times.is_sorted());
}

#[test]
fn a_trace_runs_at_its_speed() {
    assert_eq!(all(Trace::new(vec![0, 300, 100], 1.0)), [0, 100, 300]);
    assert_eq!(all(Trace::new(vec![0, 300, 100], 2.0)), [0, 50, 150]);
    assert_eq!(all(Trace::new(vec![0, 300, 100], 0.5)), [0, 200, 600]);
}

#[test]
fn shares_are_a_partition() {
    let process = || Poisson::new(schedule("1000@2s"), 5);
    let whole: Vec<(u64, u64)> = (0..).zip(all(process())).collect();
    for of in [1, 2, 3, 7] {
        let mut together: Vec<(u64, u64)> =
            (0..of).flat_map(|index| Share::new(process(), index, of)).collect();
        together.sort_unstable();
        assert_eq!(together, whole, "{of} shares");
    }
}

#[test]
fn a_seed_determines_a_poisson_process() {
    let first = |seed| Poisson::new(schedule("1000"), seed).next_us();
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

/// How well the gaps fit the exponential distribution of `per_second`.
fn exponential_p_value(times: &[u64], per_second: f64) -> f64 {
    let cdf = |gap_us: f64| 1.0 - (-gap_us * per_second / 1e6).exp();
    kolmogorov_smirnov(&gaps(times), cdf).unwrap().p_value
}

/// How well the counts in `bins` equal stretches of time fit a schedule.
fn counts_p_value(times: &[u64], schedule: &Schedule, bins: usize) -> f64 {
    let bin_us = schedule.duration_us().unwrap() / bins as u64;
    let mut observed = vec![0; bins];
    times.iter().for_each(|time_us| observed[((time_us / bin_us) as usize).min(bins - 1)] += 1);
    let count = |bin: usize| schedule.count(bin as u64 * bin_us);
    let weights: Vec<f64> = (0..bins).map(|bin| count(bin + 1) - count(bin)).collect();
    chi_square_test(&observed, &weights).unwrap().p_value
}

#[test]
fn gaps_of_a_poisson_process_are_exponential() {
    for seed in 1..6 {
        let times = all(Poisson::new(schedule("200@200s"), seed));
        let p_value = exponential_p_value(&times, 200.0);
        assert!(p_value > P_MIN, "seed {seed}: {p_value}");
        let mean = times.len() as f64 / 200.0;
        assert!((mean - 200.0).abs() < 4.0, "seed {seed}: {mean} a second"); // 4 deviations
    }
}

#[test]
fn gaps_of_a_poisson_process_know_nothing_of_each_other() {
    let gaps = gaps(&all(Poisson::new(schedule("200@200s"), 1)));
    // Pairs of neighbouring gaps, by quarters of the distribution: all sixteen are equally likely.
    let quarter = |gap: f64| ((1.0 - (-gap * 200.0 / 1e6).exp()) * 4.0) as usize;
    let mut observed = [0; 16];
    gaps.chunks_exact(2).for_each(|pair| observed[quarter(pair[0]) * 4 + quarter(pair[1])] += 1);
    let p_value = chi_square_test(&observed, &[1.0; 16]).unwrap().p_value;
    assert!(p_value > P_MIN, "{p_value}");
}

#[test]
fn counts_of_a_poisson_process_follow_a_ramp() {
    let ramp = schedule("100..2000@30s,500@10s,2000..0@20s");
    for seed in 1..6 {
        let times = all(Poisson::new(ramp.clone(), seed));
        let p_value = counts_p_value(&times, &ramp, 60);
        assert!(p_value > P_MIN, "seed {seed}: {p_value}");
        // Mapped through the schedule's count, the process has rate 1.
        let unit: Vec<u64> = times.iter().map(|&t| (ramp.count(t) * 1e6) as u64).collect();
        let p_value = exponential_p_value(&unit, 1.0);
        assert!(p_value > P_MIN, "seed {seed}: {p_value} of rate 1");
    }
}

#[test]
fn evenly_spaced_arrivals_are_not_poisson() {
    let times = all(Constant::new(schedule("200@200s")));
    assert!(exponential_p_value(&times, 200.0) < 1e-9);
}

#[test]
fn the_wrong_rate_or_shape_is_found_out() {
    let times = all(Poisson::new(schedule("200@200s"), 1));
    assert!(exponential_p_value(&times, 210.0) < P_MIN);
    let flat = all(Poisson::new(schedule("1000@60s"), 1));
    assert!(counts_p_value(&flat, &schedule("900..1100@60s"), 60) < P_MIN);
}

#[test]
fn counts_of_a_poisson_process_vary_as_they_should() {
    // The variance of counts equals their mean; that of evenly spaced arrivals is nearly 0.
    let dispersion = |times: &[u64]| {
        let mut counts = [0.0; 200];
        times.iter().for_each(|t| counts[(*t / 1_000_000).min(199) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 200.0;
        counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 199.0 / mean
    };
    let poisson = dispersion(&all(Poisson::new(schedule("200@200s"), 3)));
    assert!((0.65..1.45).contains(&poisson), "{poisson}"); // chi-square of 199, 0.001 either side
    assert!(dispersion(&all(Constant::new(schedule("200@200s")))) < 0.01);
}
