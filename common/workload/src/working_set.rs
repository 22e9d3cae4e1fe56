//! The working-set curve: how many bytes of the most popular files answer a share of the requests.
//!
//! A cache that knew the popularity of every file beforehand would hold these files; a real one
//! needs more.

use serde::Serialize;

/// The shares in reports.
pub const SHARES: [f64; 4] = [0.50, 0.90, 0.95, 0.99];

/// The most popular files that together get a share of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// The share of the requests.
    pub share: f64,
    /// The number of these files.
    pub files: u64,
    /// The sum of the files' lengths.
    pub bytes: u64,
}

/// The working sets for `shares`, ascending. A file is its popularity, on any scale, and its
/// length. Without requests there are no sets.
#[must_use]
pub fn working_sets(mut files: Vec<(f64, u64)>, shares: &[f64]) -> Vec<WorkingSet> {
    let total: f64 = files.iter().map(|file| file.0).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    // Of equally popular files the shorter come first, so that the order given does not matter.
    files.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let (mut covered, mut count, mut bytes) = (0.0, 0, 0);
    let set_of = |share: f64| {
        while covered < share * total && count < files.len() {
            covered += files[count].0;
            bytes += files[count].1;
            count += 1;
        }
        WorkingSet { share, files: count as u64, bytes }
    };
    shares.iter().copied().map(set_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::{FILES_PER_CLASS, FILES_PER_DIRECTORY, File};
    use crate::mix::Mix;

    #[test]
    fn the_most_popular_come_first() {
        let files = vec![(1.0, 100), (6.0, 1), (1.0, 50), (2.0, 10)];
        let sets = working_sets(files, &[0.0, 0.5, 0.6, 0.61, 0.9, 1.0]);
        let got: Vec<(u64, u64)> = sets.iter().map(|set| (set.files, set.bytes)).collect();
        assert_eq!(got, [(0, 0), (1, 1), (1, 1), (2, 11), (3, 61), (4, 161)]);
    }

    #[test]
    fn no_requests_no_sets() {
        assert_eq!(working_sets(vec![], &SHARES), []);
        assert_eq!(working_sets(vec![(0.0, 5)], &SHARES), []);
    }

    /// The whole model's curve for 680 directories, from the probabilities and without sampling.
    /// Ruan and Pai (USENIX 2006, table 2) report 4.4, 101.8, 181.2 and 385.7 MB for a set of 3,072
    /// MB.
    #[test]
    fn agrees_with_the_curve_of_specweb99() {
        let mix = Mix::spec99(680);
        let in_directory = mix.shares_in_directory();
        let files = mix.directory_shares().into_iter().flat_map(|directory| {
            (0..FILES_PER_DIRECTORY).zip(&in_directory).map(move |(place, share)| {
                let (class, number) = (place / FILES_PER_CLASS, place % FILES_PER_CLASS);
                let file = File::Spec { directory: 0, class: class as u8, number: number as u8 };
                (directory * share, file.bytes())
            })
        });
        let sets = working_sets(files.collect(), &SHARES);
        let counts: Vec<u64> = sets.iter().map(|set| set.files).collect();
        assert_eq!(counts, [355, 6529, 10_103, 16_133]);
        // The order of files of one popularity makes a difference of 1.4 MiB at the end of the
        // curve.
        for (set, expected) in sets.iter().zip([3.7, 98.8, 178.5, 392.9]) {
            let mib = set.bytes as f64 / 1_048_576.0;
            assert!((mib - expected).abs() < 0.05 + 0.002 * expected, "{set:?}");
        }
    }
}
