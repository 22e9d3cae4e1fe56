//! The header that is recorded of a study of the cache before its first measurement.

use std::collections::BTreeMap;
use std::hint::black_box;

use os::clock;

use super::definition::Definition;
use super::run::estimate_s;
use crate::record::{Described, Header, Kind};

impl Definition {
    /// Makes the header of the folder.
    pub fn header(&self) -> Header {
        Header {
            kind: Kind::Cache,
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            question: self.question.clone(),
            expected: self.expected.clone(),
            definition: self.text.clone(),
            workloads: vec![self.described()],
            repetitions: self.repetitions,
            confidence: self.confidence,
            estimated_s: estimate_s(self),
            budget_s: self.budget_s,
            seed: self.seed,
            started_unix_us: crate::unix_us(),
            ..Header::default()
        }
    }

    fn described(&self) -> Described {
        let clock_ns = clock_ns();
        let (keys, requests) = (self.design.keys, self.design.requests);
        Described {
            name: "zipf".into(),
            about: format!(
                "{keys} keys, {requests} requests by Zipf's law in each measurement; reading the \
                 clock takes {clock_ns:.0} ns, which every time of a lookup or a load includes"
            ),
            numbers: BTreeMap::from([
                ("keys".into(), keys as f64),
                ("requests".into(), requests as f64),
                ("clock_ns".into(), clock_ns),
            ]),
        }
    }
}

/// Measures the time of reading the clock, in nanoseconds.
fn clock_ns() -> f64 {
    const READINGS: u32 = 10_000;
    let start = clock::now_ns();
    for _ in 0..READINGS {
        black_box(clock::now_ns());
    }
    (clock::now_ns() - start) as f64 / f64::from(READINGS)
}
