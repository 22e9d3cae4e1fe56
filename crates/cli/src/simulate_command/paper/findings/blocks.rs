//! Findings of section 5 about blocks, with 8 processors and 2 MB of two ways.

use super::{BLOCKS, Claim, Judged, claim, shown};
use crate::simulate_command::measured::{Runs, Value};
use crate::simulate_command::spec::Spec;

pub(super) const CLAIMS: &[Claim] = &[
    claim("Larger blocks give more power and load the bus less", "section 5", larger_help),
    claim("Above 128 bytes larger blocks soon pay no more", "section 5", knee),
];

/// GSP and bus utilisation at 32, 64, 128 and 256 bytes.
fn values(runs: &Runs) -> Option<[[Value; 4]; 2]> {
    let one = |block_bytes| runs.get(&Spec { block_bytes, ..Spec::SECOND });
    let [a, b, c, d] = BLOCKS.map(one);
    let all = [a?, b?, c?, d?];
    Some([all.map(|one| one.gsp), all.map(|one| one.bus_percent)])
}

fn listed(values: &[Value; 4]) -> String {
    values.map(shown).join(", ")
}

fn larger_help(runs: &Runs) -> Judged {
    let [gsp, bus] = values(runs)?;
    let helps = gsp[3].exceeds(gsp[0]) && bus[0].exceeds(bus[3]);
    let told = format!(
        "with 32, 64, 128 and 256 bytes GSP is {}, bus utilisation {} %",
        listed(&gsp),
        listed(&bus)
    );
    Some((helps, told))
}

/// The last doubling gives less than half of what each of the two before it gave in the mean.
fn knee(runs: &Runs) -> Judged {
    let [gsp, _] = values(runs)?;
    let until = gsp[2].less(gsp[0]).times(0.5);
    let beyond = gsp[3].less(gsp[2]);
    let told = format!(
        "each doubling up to 128 bytes adds {} to GSP in the mean, the one beyond it {}; less than \
         half would show it",
        shown(until),
        shown(beyond)
    );
    Some((gsp[2].exceeds(gsp[0]) && until.times(0.5).exceeds(beyond), told))
}
