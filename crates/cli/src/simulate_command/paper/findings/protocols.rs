//! Findings of Figures 8 to 11 and of the end of section 5: coherence protocols.

use page::number::figure;

use super::{CPUS, Claim, Judged, PROTOCOLS, SCHEDULERS, claim, shown};
use crate::simulate_command::lists::Scheduler;
use crate::simulate_command::measured::{Measured, Runs, Scales, Value};
use crate::simulate_command::spec::Spec;

pub(super) const CLAIMS: &[Claim] = &[
    claim(
        "Differences between protocols grow with the number of processors",
        "Fig. 8",
        differences_grow,
    ),
    claim("MESI is the most penalising choice", "Fig. 8", mesi_is_last),
    claim("MESI saturates first, AMSD next, PSCR last", "Fig. 8", order),
    claim("MESI with random scheduling is near saturation at 12 processors", "Fig. 8", mesi_at_12),
    claim("AMSD saturates between 12 and 16 with either scheduler", "Fig. 8", amsd_after_12),
    claim("PSCR is not saturated with 16 processors", "Fig. 8", pscr_never),
    claim("AMSD needs fewer coherence transactions than MESI", "section 5", amsd_needs_fewer),
    claim("PSCR makes the most coherence transactions", "section 5", pscr_makes_most),
    claim("PSCR has the fewest misses and loads the bus least", "section 5", pscr_misses_least),
    claim(
        "Blocks of 128 bytes, affinity and PSCR together scale to 20 processors",
        "section 5",
        together,
    ),
];

/// The GSP that one more processor must add: so much for each step of the figure.
const STEP: Value = Value { mean: 2.0, half: 0.0 };

fn at<'r>(
    runs: &'r Runs,
    protocol: &'static str,
    scheduler: Scheduler,
    cpus: u32,
) -> Option<&'r Measured> {
    runs.get(&Spec { protocol, scheduler, cpus, ..Spec::SECOND })
}

/// What 12 processors add to 8, and 16 to 12.
fn gains(runs: &Runs, protocol: &'static str, scheduler: Scheduler) -> Option<[Value; 2]> {
    let [eight, twelve, sixteen] = CPUS.map(|cpus| at(runs, protocol, scheduler, cpus));
    let [eight, twelve, sixteen] = [eight?, twelve?, sixteen?].map(|one| one.gsp);
    Some([twelve.less(eight), sixteen.less(twelve)])
}

/// With 16 processors and random scheduling, in the order of [`PROTOCOLS`].
fn all_at_16(runs: &Runs) -> Option<[&Measured; 3]> {
    let [mesi, amsd, pscr] = PROTOCOLS.map(|name| at(runs, name, Scheduler::Random, 16));
    Some([mesi?, amsd?, pscr?])
}

/// `MESI 12.1, AMSD 12.9, PSCR 14.2`.
fn listed(values: [Value; 3]) -> String {
    let named = PROTOCOLS.iter().zip(values);
    let shown: Vec<String> =
        named.map(|(name, value)| format!("{} {}", name.to_uppercase(), shown(value))).collect();
    shown.join(", ")
}

fn differences_grow(runs: &Runs) -> Judged {
    let mut spreads = [Value::exactly(0.0); 2];
    for (spread, cpus) in spreads.iter_mut().zip([8, 16]) {
        let [a, b, c] = PROTOCOLS.map(|name| at(runs, name, Scheduler::Random, cpus));
        let mut values = [a?, b?, c?].map(|one| one.gsp);
        values.sort_by(|one, other| one.mean.total_cmp(&other.mean));
        *spread = values[2].less(values[0]);
    }
    let told = format!(
        "from the lowest to the highest GSP {} with 8, {} with 16 processors, random scheduling",
        shown(spreads[0]),
        shown(spreads[1])
    );
    Some((spreads[1].exceeds(spreads[0]), told))
}

fn mesi_is_last(runs: &Runs) -> Judged {
    let [mesi, amsd, pscr] = all_at_16(runs)?.map(|one| one.gsp);
    let told = format!("GSP with 16 processors, random: {}", listed([mesi, amsd, pscr]));
    Some((amsd.exceeds(mesi) && pscr.exceeds(mesi), told))
}

/// Who gains less from the last four processors is nearer to saturation, or further beyond it.
fn order(runs: &Runs) -> Judged {
    let mut holds = true;
    let mut told = Vec::new();
    for scheduler in SCHEDULERS {
        let [mesi, amsd, pscr] = PROTOCOLS.map(|name| gains(runs, name, scheduler));
        let all = [mesi?[1], amsd?[1], pscr?[1]];
        // What reaches the threshold is not saturated, and needs no order.
        holds &= all[1].exceeds(all[0]) && all[2].exceeds(all[1]) && STEP.exceeds(all[0]);
        told.push(format!("{}: {}", scheduler.name(), listed(all)));
    }
    let told = told.join("; ");
    Some((holds, format!("GSP that 16 processors add to 12 (saturated below 2): {told}")))
}

fn mesi_at_12(runs: &Runs) -> Judged {
    let [before, after] = gains(runs, "mesi", Scheduler::Random)?;
    Some((STEP.exceeds(after), steps("random", before, after)))
}

fn steps(name: &str, before: Value, after: Value) -> String {
    format!(
        "{name}: 12 processors add {} to the GSP of 8, 16 add {} to that of 12; saturated below 2",
        shown(before),
        shown(after)
    )
}

fn amsd_after_12(runs: &Runs) -> Judged {
    for_both(runs, "amsd", |before, after| before.exceeds(STEP) && STEP.exceeds(after))
}

fn pscr_never(runs: &Runs) -> Judged {
    for_both(runs, "pscr", |before, after| before.exceeds(STEP) && after.exceeds(STEP))
}

fn for_both(runs: &Runs, protocol: &'static str, holds: fn(Value, Value) -> bool) -> Judged {
    let mut all = true;
    let mut told = Vec::new();
    for scheduler in SCHEDULERS {
        let [before, after] = gains(runs, protocol, scheduler)?;
        all &= holds(before, after);
        told.push(steps(scheduler.name(), before, after));
    }
    Some((all, told.join("; ")))
}

fn transactions(runs: &Runs) -> Option<([Value; 3], String)> {
    let rates = all_at_16(runs)?.map(Measured::transactions);
    Some((rates, format!("for 100 references, 16 processors, random: {}", listed(rates))))
}

fn amsd_needs_fewer(runs: &Runs) -> Judged {
    let ([mesi, amsd, _], told) = transactions(runs)?;
    Some((mesi.exceeds(amsd), told))
}

fn pscr_makes_most(runs: &Runs) -> Judged {
    let ([mesi, amsd, pscr], told) = transactions(runs)?;
    Some((pscr.exceeds(mesi) && pscr.exceeds(amsd), told))
}

fn pscr_misses_least(runs: &Runs) -> Judged {
    let all = all_at_16(runs)?;
    let misses = all.map(|one| one.misses_of(|_| true));
    let bus = all.map(|one| one.bus_percent);
    let least = misses[0].exceeds(misses[2])
        && misses[1].exceeds(misses[2])
        && bus[0].exceeds(bus[2])
        && bus[1].exceeds(bus[2]);
    let told = format!(
        "16 processors, random: misses for 100 references {}; bus, %: {}",
        listed(misses),
        listed(bus)
    );
    Some((least, told))
}

fn together(runs: &Runs) -> Judged {
    let kind = Spec { protocol: "pscr", scheduler: Scheduler::Affinity, ..Spec::SECOND };
    let found = runs.scales(&kind)?;
    let told = match found {
        Scales::To(cpus, gsp) => format!("to {cpus} processors, GSP {} there", figure(gsp)),
        Scales::Beyond(cpus, gsp) => {
            format!("beyond {cpus} processors, the most simulated; GSP {} there", figure(gsp))
        }
    };
    // With fewer tasks than 20 nobody can tell, unless it ends earlier.
    match found {
        Scales::Beyond(cpus, _) if cpus < 20 => None,
        _ => Some((found.cpus() >= 20, told)),
    }
}
