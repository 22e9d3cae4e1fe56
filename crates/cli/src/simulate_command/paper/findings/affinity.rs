//! Findings of Figures 5 to 7: what cache affinity does, with 8 processors, 2 MB of two ways and
//! blocks of 128 bytes.

use super::{Claim, Judged, about_as_many, both, claim, shown};
use crate::simulate_command::lists::Scheduler;
use crate::simulate_command::measured::{Measured, Runs, Value};
use crate::simulate_command::spec::Spec;
use coherence::{Miss, Sharing};

pub(super) const CLAIMS: &[Claim] = &[
    claim("Cache affinity gives more power and loads the bus less", "Fig. 5", gains),
    claim(
        "Affinity reduces misses other than after invalidations, above all of context switches",
        "Fig. 6",
        fewer_others,
    ),
    claim("Affinity reduces the transactions of passive sharing", "Fig. 7", fewer_passive),
    claim("The other coherence transactions remain as they are", "Fig. 7", others_remain),
    claim("Affinity leaves invalidation misses as they are", "section 5", invalidations_remain),
];

/// What is called "no substantial difference", in percent.
const SAME_PERCENT: f64 = 10.0;

/// Random scheduling, then affinity.
fn two(runs: &Runs) -> Option<[&Measured; 2]> {
    let affine = Spec { scheduler: Scheduler::Affinity, ..Spec::SECOND };
    Some([runs.get(&Spec::SECOND)?, runs.get(&affine)?])
}

fn told(name: &str, [random, affine]: [Value; 2]) -> String {
    both(name, ("random", random), ("affinity", affine))
}

fn gains(runs: &Runs) -> Judged {
    let [random, affine] = two(runs)?;
    let shown = affine.gsp.exceeds(random.gsp) && random.bus_percent.exceeds(affine.bus_percent);
    let power = told("GSP", [random, affine].map(|one| one.gsp));
    let bus = told("bus, %:", [random, affine].map(|one| one.bus_percent));
    Some((shown, format!("{power}; {bus}")))
}

fn fewer_others(runs: &Runs) -> Judged {
    let all = two(runs)?;
    let others = all.map(|one| one.misses_of(|class| !class.is_invalidation()));
    let switched =
        all.map(|one| one.misses_of(|c| matches!(c, Miss::ContextSwitch | Miss::Migrated)));
    let saved = others[0].less(others[1]);
    let of_switches = switched[0].less(switched[1]);
    let text = format!(
        "{}; {} of the difference are of context switches and of migration",
        told("for 100 references:", others),
        shown(of_switches)
    );
    let nothing = Value::exactly(0.0);
    Some((saved.exceeds(nothing) && of_switches.exceeds(saved.times(0.5)), text))
}

fn fewer_passive(runs: &Runs) -> Judged {
    let rates = two(runs)?.map(|one| one.coherence_of(Sharing::Passive));
    Some((rates[0].exceeds(rates[1]), told("for 100 references:", rates)))
}

fn others_remain(runs: &Runs) -> Judged {
    let both = [Sharing::True, Sharing::False];
    let rates = two(runs)?.map(|one| {
        one.rate(|seed| both.iter().flat_map(|kind| seed.coherence[*kind as usize]).sum())
    });
    let text = told("true and false ones for 100 references:", rates);
    Some(same(rates, &text))
}

fn invalidations_remain(runs: &Runs) -> Judged {
    let rates = two(runs)?.map(|one| one.misses_of(Miss::is_invalidation));
    let text = told("for 100 references:", rates);
    Some(same(rates, &text))
}

fn same(rates: [Value; 2], text: &str) -> (bool, String) {
    let same = about_as_many(rates[0], rates[1], SAME_PERCENT);
    (same, format!("{text}; within {SAME_PERCENT} % would show it"))
}
