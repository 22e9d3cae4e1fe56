//! The factors that are varied, and the resulting cells.

use serde::Deserialize;

use super::cell::{Cell, Part, Store};

/// The metadata of a file, "a few tens of bytes" (Appendix A.1).
const METADATA_BYTES: u32 = 32;
/// The available sizes of values, in bytes.
const VALUE_BYTES: [u32; 3] = [32, 256, 4096];
/// The number of keys where the values, rather than the index, are to miss the processor's caches.
pub(crate) const FEW_KEYS: u64 = 1 << 12;
/// Numbers of keys: dozens, hundreds and thousands of hot files.
const HOT_KEYS: [u64; 3] = [64, 1024, FEW_KEYS];
const KEYS: std::ops::RangeInclusive<u64> = FEW_KEYS..=1 << 26;

/// The numbers of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// The number of keys: a power of two.
    pub keys: u64,
    /// Requests of one measurement, of all threads together.
    pub requests: u64,
    /// Zipf's exponent where another factor varies.
    pub alpha: f64,
    /// The values of Zipf's exponent where it varies.
    pub alphas: Vec<f64>,
    /// The percentage of the keys that are cached, where another factor varies.
    pub cached: f64,
    /// The percentages of the keys that are cached, where these vary.
    pub cached_percents: Vec<f64>,
    /// The numbers of threads that make requests at once, where these vary; the first is used where
    /// another factor varies.
    pub threads: Vec<u32>,
}

impl Design {
    /// Checks that the design can be measured.
    ///
    /// # Errors
    /// The first number that is not allowed: its key, and the values that are.
    pub fn check(&self) -> Result<(), String> {
        let alphas = || self.alphas.iter().chain([&self.alpha]);
        let percents = || self.cached_percents.iter().chain([&self.cached]);
        let threads_max = self.threads.iter().copied().max().unwrap_or(0);
        let checks = [
            (KEYS.contains(&self.keys) && self.keys.is_power_of_two(), {
                format!("keys: a power of two, {} to {}", KEYS.start(), KEYS.end())
            }),
            (alphas().all(|alpha| (0.0..=4.0).contains(alpha)), "alphas: 0 to 4".into()),
            (percents().all(|&percent| percent > 0.0 && percent <= 100.0), {
                "cached_percents: above 0, up to 100".into()
            }),
            ((1..=1024).contains(&threads_max) && !self.threads.contains(&0), {
                "threads: at least one number, each 1 to 1024".into()
            }),
            ((1000..=1 << 30).contains(&self.requests) && self.requests >= threads_max.into(), {
                format!("requests: at least 1000, at most {}", 1 << 30)
            }),
            (!self.alphas.is_empty(), "alphas: at least one".into()),
            (!self.cached_percents.is_empty(), "cached_percents: at least one".into()),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }

    /// All measurements, part by part.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for part in Part::ALL {
            for &store in part.stores() {
                for cell in self.cells_of_part(part) {
                    let cell = Cell { part, store, ..cell };
                    // The values of a varied factor include the one used elsewhere: such a cell is
                    // measured once.
                    if !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        }
        // The time of a hash does not depend on the number of names.
        cells.retain(|cell| cell.store != Store::Hash || cell.keys == FEW_KEYS);
        cells
    }

    fn cells_of_part(&self, part: Part) -> Vec<Cell> {
        let base = Cell {
            keys: self.keys,
            cached_percent: self.cached,
            alpha: self.alpha,
            threads: self.threads[0],
            value_bytes: METADATA_BYTES,
            ..Cell::default()
        };
        let all_cached = Cell { cached_percent: 100.0, ..base.clone() };
        let by_percent = |alpha: f64| {
            let base = &base;
            let percents = self.cached_percents.iter();
            percents.map(move |&cached_percent| Cell { cached_percent, alpha, ..base.clone() })
        };
        let by_threads =
            |base: Cell| self.threads.iter().map(move |&threads| Cell { threads, ..base.clone() });
        match part {
            Part::Lists => {
                let by_alpha = self.alphas.iter().map(|&alpha| Cell { alpha, ..base.clone() });
                by_percent(self.alpha).chain(by_alpha).chain(by_threads(base.clone())).collect()
            }
            Part::Locks => by_threads(all_cached).collect(),
            Part::Copies => VALUE_BYTES
                .into_iter()
                .map(|value_bytes| Cell { keys: FEW_KEYS, value_bytes, ..all_cached.clone() })
                .flat_map(by_threads)
                .collect(),
            Part::Levels => HOT_KEYS
                .map(|keys| Cell { keys, alpha: 0.0, threads: 1, ..all_cached.clone() })
                .to_vec(),
            Part::Policies => self.alphas.iter().flat_map(|&alpha| by_percent(alpha)).collect(),
            Part::Crawler => {
                by_percent(self.alpha).map(|cell| Cell { threads: 1, ..cell }).collect()
            }
        }
    }

    /// The number of loads and requests of a cell, to estimate its time.
    pub fn operations(&self, cell: &Cell) -> u64 {
        let fill = cell.keys as f64 * cell.cached_percent / 100.0;
        fill as u64 + self.requests * if cell.part == Part::Levels { 4 } else { 1 }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn design() -> Design {
        Design {
            keys: 1 << 12,
            requests: 8000,
            alpha: 1.0,
            alphas: vec![0.5, 1.0],
            cached: 10.0,
            cached_percents: vec![10.0, 100.0],
            threads: vec![1, 2],
        }
    }

    #[test]
    fn what_varies_is_measured_once_with_everything_else_as_it_is() {
        let cells = design().cells();
        let count = |part| cells.iter().filter(|cell| cell.part == part).count();
        // Lists are four: two shares, one more alpha, one more number of threads.
        assert_eq!(Part::ALL.map(count), [4 * 4, 9 * 2, 3 * 3 * 2, 3 * 3 + 1, 3 * 4, 3 * 2]);
    }

    #[test]
    fn what_cannot_be_measured_is_reported() {
        let wrong = [
            (Design { keys: 5000, ..design() }, "keys: a power of two, 4096 to 67108864"),
            (Design { alphas: vec![-1.0], ..design() }, "alphas: 0 to 4"),
            (Design { cached: 101.0, ..design() }, "cached_percents: above 0, up to 100"),
            (Design { threads: vec![], ..design() }, "threads: at least one number"),
            (Design { threads: vec![2, 0], ..design() }, "threads: at least one number"),
            (Design { requests: 10, ..design() }, "requests: at least 1000"),
            (Design { alphas: vec![], ..design() }, "alphas: at least one"),
        ];
        assert_eq!(design().check(), Ok(()));
        for (design, expected) in wrong {
            let why = design.check().expect_err(expected);
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
