//! The results of a measurement.

use serde::{Deserialize, Serialize};

/// The results of a cell. Times are nanoseconds; those of pairs are wall-clock times and include
/// one reading of the clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Numbers {
    /// Requests that found their key, in percent.
    pub hit_percent: f64,
    /// Processor time of a request, with its load if it missed.
    pub cpu_ns: f64,
    /// Requests of all threads together, in millions a second.
    pub millions_per_s: f64,
    /// The share of the time of the CPUs that other processes had meanwhile, 0 to 1; none where
    /// that is not known.
    pub others_share: Option<f64>,
    /// Lookups that found their key.
    pub get: Option<Pair>,
    /// Loads into a store that has room.
    pub set: Option<Pair>,
    /// Loads for which another entry is evicted.
    pub evict: Option<Pair>,
    /// Whole requests.
    pub request: Option<Pair>,
}

/// Median and 99th percentile, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The median.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
}
