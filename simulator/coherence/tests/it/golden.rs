//! The reference machine's results before anything was added to it, to the cycle.
//!
//! A machine without a last-level cache and without memory nodes must keep giving these numbers; a
//! change that is meant to alter them alters them here.

use coherence::protocol::PROTOCOLS;
use coherence::{Machine, Options, Outcome, simulate};

use crate::traces::{random, small};

/// By protocol: the reference machine and a small one, each ahead and in strict order.
const EXPECTED: [(&str, [u64; 4]); 4] = [
    (
        "mesi",
        [
            0x73c0_8049_e445_8ef3,
            0x8fbe_0412_0120_e0a0,
            0x41da_2b0f_886a_aefb,
            0xb463_e807_2c29_7e9e,
        ],
    ),
    (
        "amsd",
        [
            0x9743_4985_e330_1479,
            0x3b2c_2273_ea28_78e5,
            0x69f1_55b8_54d5_cf47,
            0x93f4_4ffc_8c06_41f8,
        ],
    ),
    (
        "pscr",
        [
            0x3f70_139e_cc4b_b6d9,
            0xd7e7_d660_cf28_2ec4,
            0x24c4_bdc1_5c82_930e,
            0x2fd3_098b_c6aa_d06a,
        ],
    ),
    (
        "dragon",
        [
            0x8782_930e_3f39_d8e7,
            0x6751_407c_020e_c466,
            0x1920_0c04_b804_b6c3,
            0xc901_f2e2_9804_1147,
        ],
    ),
];

/// The whole outcome as one number (FNV-1a).
fn digest(outcome: &Outcome) -> u64 {
    let counts = &outcome.counts;
    let mut all = vec![outcome.cycles, outcome.bus_waited, counts.system_calls];
    all.extend([counts.switches, counts.migrations, counts.late]);
    all.extend(outcome.processors.iter().flat_map(|one| [one.delayed, one.idle]));
    for bus in &outcome.bus {
        let time = (bus.utilisation * outcome.cycles as f64).round() as u64;
        all.extend([bus.transaction as u64, u64::from(bus.from_cache), bus.count, time]);
    }
    all.extend(counts.references.iter().flatten());
    all.extend(counts.coherence.iter().flatten().flatten());
    let misses = coherence::Miss::ALL.map(|class| counts.misses.map(|mode| mode[class as usize]));
    all.extend(misses.iter().flatten().flatten().filter(|count| **count > 0));
    let start = 0xcbf2_9ce4_8422_2325_u64;
    all.iter().fold(start, |sum, one| (sum ^ one).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn without_the_new_tables_the_outcome_is_the_old_one() {
    let workload = random(11, 14, 4000);
    let strict = Options { run_ahead_cycles: 0, ..Options::default() };
    let found = PROTOCOLS.map(|protocol| {
        let reference = Machine { protocol: protocol.name.into(), ..Machine::default() };
        let machines = [reference, small(protocol.name, 8, 64)];
        let digests = [0, 1, 2, 3].map(|number| {
            let options = [Options::default(), strict][number % 2];
            let outcome = simulate(&workload, &machines[number / 2], options, 5);
            digest(&outcome.expect("a machine that is right"))
        });
        (protocol.name, digests)
    });
    assert_eq!(found, EXPECTED, "{found:#x?}");
}
