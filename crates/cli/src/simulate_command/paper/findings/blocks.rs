//! Findings of section 5 about blocks, with 8 processors and 2 MB of two ways.

use page::number::figure;

use super::{Claim, Judged, claim};
use crate::simulate_command::measured::{Runs, Value};
use crate::simulate_command::paper::plan::BLOCKS;
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
    values.map(|value| figure(value.mean)).join(", ")
}

fn larger_help(runs: &Runs) -> Judged {
    let [gsp, bus] = values(runs)?;
    let shown = gsp[3].exceeds(gsp[0]) && bus[0].exceeds(bus[3]);
    let told = format!(
        "with 32, 64, 128 and 256 bytes GSP is {}, bus utilisation {} %",
        listed(&gsp),
        listed(&bus)
    );
    Some((shown, told))
}

/// The last doubling gives less than half of what each of the two before it gave in the mean.
fn knee(runs: &Runs) -> Judged {
    let [gsp, _] = values(runs)?;
    let until = (gsp[2].mean - gsp[0].mean) / 2.0;
    let beyond = gsp[3].mean - gsp[2].mean;
    let told = format!(
        "each doubling up to 128 bytes adds {} to GSP in the mean, the one beyond it {}; less than \
         half would show it",
        figure(until),
        figure(beyond)
    );
    Some((gsp[2].exceeds(gsp[0]) && beyond < until / 2.0, told))
}
