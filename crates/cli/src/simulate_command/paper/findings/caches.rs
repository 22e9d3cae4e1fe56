//! Findings of Figures 1 to 4: sizes and ways of caches, and where sharing is.

use super::{Claim, Judged, Of, SIZES_KIB, WAYS, both, bus, claim, falls, gsp, rises, shown};
use crate::simulate_command::measured::{Measured, Rates, Runs, Value};
use crate::simulate_command::spec::Spec;
use coherence::{Miss, Sharing};

pub(super) const CLAIMS: &[Claim] = &[
    claim("Larger caches and more ways give more power", "Fig. 1", power_rises),
    claim("Larger caches and more ways load the bus less", "Fig. 2", bus_falls),
    claim("The larger the caches, the further the machine scales", "section 5", scales_further),
    claim("Invalidation misses are basically due to the kernel", "Fig. 3", of_the_kernel),
    claim("False sharing is the main source of invalidation misses", "Fig. 3", false_is_main),
    claim(
        "False sharing is the kernel's, and almost absent in user code",
        "sections 2 and 5",
        false_in_the_kernel,
    ),
    claim(
        "True sharing is in the kernel, and limited in the user area",
        "section 5",
        true_in_the_kernel,
    ),
    claim("Invalidation misses slightly increase with cache size", "Fig. 3", invalidations_rise),
    claim("Passive sharing increases with cache and ways", "Fig. 4", passive_rises),
    claim(
        "Coherence takes a larger part of the bus the larger the caches are",
        "section 5",
        coherence_weighs,
    ),
    claim("With 8 processors each is used less than with 4", "section 5", each_is_used_less),
];

const SMALLEST: Spec = Spec { size_kib: 128, ways: 1, ..Spec::FIRST };
const LARGEST: Spec = Spec { ways: 4, ..Spec::FIRST };

/// Sizes upwards for each number of ways, then ways upwards for each size.
fn chains() -> Vec<Vec<Spec>> {
    let at = |size_kib, ways| Spec { size_kib, ways, ..Spec::FIRST };
    let sizes = WAYS.iter().map(|ways| SIZES_KIB.iter().map(|kib| at(*kib, *ways)).collect());
    let ways = SIZES_KIB.iter().map(|kib| WAYS.iter().map(|ways| at(*kib, *ways)).collect());
    sizes.chain(ways).collect()
}

/// The smallest cache and the largest.
fn ends(runs: &Runs) -> Option<[&Measured; 2]> {
    Some([runs.get(&SMALLEST)?, runs.get(&LARGEST)?])
}

fn between(runs: &Runs, name: &str, of: Of) -> Option<String> {
    let [small, large] = ends(runs)?.map(of);
    Some(both(name, ("128K/1", small), ("2M/4", large)))
}

fn power_rises(runs: &Runs) -> Judged {
    let (higher, where_) = rises(runs, &chains(), gsp)?;
    let [small, large] = ends(runs)?.map(gsp);
    Some((
        higher && large.exceeds(small),
        format!("{}; it rises {where_}", between(runs, "GSP", gsp)?),
    ))
}

fn bus_falls(runs: &Runs) -> Judged {
    let (lower, where_) = falls(runs, &chains(), bus)?;
    let [small, large] = ends(runs)?.map(bus);
    Some((
        lower && small.exceeds(large),
        format!("{}; it falls {where_}", between(runs, "bus, %:", bus)?),
    ))
}

fn scales_further(runs: &Runs) -> Judged {
    let (small, large) = (runs.scales(&SMALLEST)?, runs.scales(&LARGEST)?);
    let told = format!("to {} CPUs (128K/1), {} (2M/4)", small.show(), large.show());
    Some((large.cpus() > small.cpus(), told))
}

const INVALIDATIONS: [Miss; 3] =
    [Miss::InvalidationTrue, Miss::InvalidationFalse, Miss::InvalidationPassive];

/// What is drawn is not found: the words that go with everything about the kernel.
fn drawn(runs: &Runs) -> &'static str {
    match runs.kernel {
        true => "; the kernel's references are drawn, not traced",
        false => "; no kernel was simulated",
    }
}

/// All invalidation misses of a mode.
fn after_invalidations(rates: &Rates, mode: usize) -> f64 {
    INVALIDATIONS.iter().map(|class| rates.misses[*class as usize][mode]).sum()
}

fn of_the_kernel(runs: &Runs) -> Judged {
    let large = runs.get(&LARGEST)?;
    let all = large.misses_of(Miss::is_invalidation);
    if all.mean == 0.0 {
        return Some((false, format!("there are no invalidation misses{}", drawn(runs))));
    }
    let part = large.rate(|one| {
        let [user, kernel] = [0, 1].map(|mode| after_invalidations(one, mode));
        // A seed without any has no part of them that is the kernel's.
        if user + kernel > 0.0 { kernel * 100.0 / (user + kernel) } else { 0.0 }
    });
    let told = format!("{} % of them with 2M/4{}", shown(part), drawn(runs));
    Some((part.exceeds(Value::exactly(50.0)), told))
}

fn false_is_main(runs: &Runs) -> Judged {
    let large = runs.get(&LARGEST)?;
    let [of_true, of_false, of_passive] =
        INVALIDATIONS.map(|class| large.misses_of(|other| other == class));
    let others = large.misses_of(|one| one.is_invalidation() && one != Miss::InvalidationFalse);
    let told = format!(
        "for 100 references with 2M/4: {} false, {} true, {} passive",
        shown(of_false),
        shown(of_true),
        shown(of_passive)
    );
    Some((of_false.exceeds(others), told))
}

fn false_in_the_kernel(runs: &Runs) -> Judged {
    mostly_in_the_kernel(runs, Miss::InvalidationFalse)
}

fn true_in_the_kernel(runs: &Runs) -> Judged {
    mostly_in_the_kernel(runs, Miss::InvalidationTrue)
}

fn mostly_in_the_kernel(runs: &Runs, class: Miss) -> Judged {
    let large = runs.get(&LARGEST)?;
    let [user, kernel] = [0, 1].map(|mode| large.rate(|one| one.misses[class as usize][mode]));
    let told = format!(
        "invalidation misses for 100 references with 2M/4: {} kernel, {} user{}",
        shown(kernel),
        shown(user),
        drawn(runs)
    );
    Some((kernel.exceeds(user), told))
}

fn invalidations_rise(runs: &Runs) -> Judged {
    let rate: Of = |one| one.misses_of(Miss::is_invalidation);
    let [small, large] = ends(runs)?.map(rate);
    Some((large.exceeds(small), between(runs, "for 100 references:", rate)?))
}

fn passive_rises(runs: &Runs) -> Judged {
    let rate: Of = |one| one.coherence_of(Sharing::Passive);
    let (higher, where_) = rises(runs, &chains(), rate)?;
    let told = between(runs, "passive transactions for 100 references:", rate)?;
    Some((higher, format!("{told}; they rise {where_}")))
}

fn coherence_weighs(runs: &Runs) -> Judged {
    let part: Of = |one| one.rate(|seed| seed.coherence_of_bus);
    let [small, large] = ends(runs)?.map(part);
    Some((large.exceeds(small), between(runs, "% of its work:", part)?))
}

fn each_is_used_less(runs: &Runs) -> Judged {
    let four = runs.get(&Spec::FIRST)?.cpu_percent;
    let eight = runs.get(&Spec { cpus: 8, ..Spec::FIRST })?.cpu_percent;
    let told = both("CPU, %:", ("4 CPUs", four), ("8 CPUs", eight));
    Some((four.exceeds(eight), told))
}
