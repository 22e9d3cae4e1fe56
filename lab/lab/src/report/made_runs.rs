//! Runs as tests of reports make them.

use crate::record::{Figures, Offered, Point, Run};

/// Runs of a server with these throughputs, one in each block, at this cost of a request.
pub(super) fn runs_on(testbed: &str, server: &str, throughputs: &[f64], cost_us: f64) -> Vec<Run> {
    let run = |(block, throughput_per_s): (u32, &f64)| Run {
        point: Point {
            server: server.into(),
            setting: "default".into(),
            workload: "w".into(),
            testbed: testbed.into(),
            offered: Offered::Connections(64),
            ..Point::default()
        },
        block,
        observed: [("cpu_us_per_request".to_owned(), cost_us)].into(),
        figures: Some(Figures { throughput_per_s: *throughput_per_s, ..Figures::default() }),
        ..Run::default()
    };
    (0..).zip(throughputs).map(run).collect()
}
