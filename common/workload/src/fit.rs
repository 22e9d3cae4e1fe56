//! The deviation of a log from the mix that it should follow.

use std::fmt;

use serde::Serialize;
use statistics::chi_square_test;

use crate::fileset::{CLASSES, FILES_PER_CLASS, FILES_PER_DIRECTORY, File};
use crate::mix::{Mix, file_shares};

/// With fewer expected requests the relative difference of a cell is all noise and not shown.
const EXPECTED_MIN: f64 = 100.0;
/// The share of the requests that goes to hot directories.
const HOT: f64 = 0.5;

/// Requests for SPECweb99 files, counted.
#[derive(Clone, Debug)]
pub struct Counts {
    /// By the file's place in its directory.
    in_directory: [u64; FILES_PER_DIRECTORY],
    directories: Vec<u64>,
    /// For SPECweb99 files in directories that the set does not have, and single files.
    outside: u64,
}

impl Counts {
    /// No requests yet, for a set of this many directories.
    #[must_use]
    pub fn new(directories: u32) -> Self {
        let directories = vec![0; directories as usize];
        Self { in_directory: [0; FILES_PER_DIRECTORY], directories, outside: 0 }
    }

    /// Counts `requests` for `file`.
    pub fn add(&mut self, file: File, requests: u64) {
        let count = match file {
            File::Spec { directory, .. } => self.directories.get_mut(directory as usize),
            File::Single { .. } => None,
        };
        match count {
            Some(count) => {
                *count += requests;
                self.in_directory[file.kind()] += requests;
            }
            None => self.outside += requests,
        }
    }

    /// Whether the share of every class, of every file number and of every hot directory differs
    /// from its probability by no more than the part `tolerance` of it. Hot directories are the
    /// first ones that together get half of the requests.
    #[must_use]
    pub fn are_within(&self, mix: &Mix, tolerance: f64) -> bool {
        let total = self.inside() as f64;
        let within = |counts: &[u64], shares: &[f64]| {
            counts.iter().zip(shares).all(|(&count, share)| {
                (count as f64 - share * total).abs() <= tolerance * share * total
            })
        };
        let shares = mix.directory_shares();
        let mut covered = 0.0;
        let hot = shares.iter().take_while(|&share| {
            let is_hot = covered < HOT;
            covered += share;
            is_hot
        });
        let hot = hot.count();
        total > 0.0
            && within(&self.classes(), &mix.class_shares())
            && within(&self.numbers(), &file_shares())
            && within(&self.directories[..hot], &shares[..hot])
    }

    /// Compares the counts with `mix`, which has as many directories; `None` if there are no
    /// requests.
    #[must_use]
    pub fn fit(&self, mix: &Mix) -> Option<Fit> {
        let class = |index: usize| format!("class {index}");
        let file =
            |index: usize| format!("class{}_{}", index / FILES_PER_CLASS, index % FILES_PER_CLASS);
        let directory = |index: usize| format!("dir{index:05}");
        Some(Fit {
            directories: mix.directories,
            alpha: mix.alpha,
            requests: self.inside(),
            requests_outside: self.outside,
            classes: Agreement::compare(&self.classes(), &mix.class_shares(), class)?,
            files: Agreement::compare(&self.in_directory, &mix.shares_in_directory(), file)?,
            per_directory: Agreement::compare(
                &self.directories,
                &mix.directory_shares(),
                directory,
            )?,
        })
    }

    fn inside(&self) -> u64 {
        self.directories.iter().sum()
    }

    fn classes(&self) -> [u64; CLASSES] {
        let mut classes = [0; CLASSES];
        for (place, count) in self.in_directory.iter().enumerate() {
            classes[place / FILES_PER_CLASS] += count;
        }
        classes
    }

    /// The counts by file number, all classes together.
    fn numbers(&self) -> [u64; FILES_PER_CLASS] {
        let mut numbers = [0; FILES_PER_CLASS];
        for (place, count) in self.in_directory.iter().enumerate() {
            numbers[place % FILES_PER_CLASS] += count;
        }
        numbers
    }
}

/// The agreement of a log with the mix that it should follow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Directories of the mix.
    pub directories: u32,
    /// Zipf's exponent of the mix.
    pub alpha: f64,
    /// The number of requests that were compared.
    pub requests: u64,
    /// The number of requests for files that are not in the mix.
    pub requests_outside: u64,
    /// The agreement over the four classes.
    pub classes: Agreement,
    /// The agreement over the 36 files of a directory, all directories together.
    pub files: Agreement,
    /// The agreement over the directories.
    pub per_directory: Agreement,
}

/// The agreement of counts of cells with their probabilities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The number of cells.
    pub cells: usize,
    /// The cell whose share differs most.
    pub largest_difference: Difference,
    /// The cell whose share differs most in proportion to the probability, among the cells in which
    /// at least 100 requests were expected.
    pub largest_relative_difference: Option<Difference>,
    /// The sum of (observed - expected)^2 / expected; `None` with a single cell, as are the next
    /// two.
    pub chi_square: Option<f64>,
    /// The degrees of freedom of the chi-square test.
    pub degrees_of_freedom: Option<usize>,
    /// The probability that chance alone is at least as far off. Below 0.001 the log does not
    /// follow the mix.
    pub p_value: Option<f64>,
}

/// The difference in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The name of the cell.
    pub cell: String,
    /// The cell's probability.
    pub expected: f64,
    /// The cell's share of the requests.
    pub actual: f64,
}

impl Difference {
    fn absolute(&self) -> f64 {
        (self.actual - self.expected).abs()
    }

    fn relative(&self) -> f64 {
        self.absolute() / self.expected
    }
}

impl Agreement {
    fn compare(counts: &[u64], shares: &[f64], name: impl Fn(usize) -> String) -> Option<Self> {
        let total: u64 = counts.iter().sum();
        let difference = |index: usize| Difference {
            cell: name(index),
            expected: shares[index],
            actual: counts[index] as f64 / total as f64,
        };
        let enough = (0..counts.len()).filter(|&i| shares[i] * total as f64 >= EXPECTED_MIN);
        let by = |measure: fn(&Difference) -> f64| {
            move |one: &Difference, other: &Difference| measure(one).total_cmp(&measure(other))
        };
        let relative = enough.map(difference).max_by(by(Difference::relative));
        let largest = (0..counts.len()).map(difference).max_by(by(Difference::absolute));
        let test = chi_square_test(counts, shares);
        Some(Self {
            cells: counts.len(),
            largest_difference: largest.filter(|_| total > 0)?,
            largest_relative_difference: relative,
            chi_square: test.map(|test| test.statistic),
            degrees_of_freedom: test.map(|test| test.degrees),
            p_value: test.map(|test| test.p_value),
        })
    }
}

/// Four lines: the mix, then classes, files and directories.
impl fmt::Display for Fit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "against SPECweb99's mix over {} directories", self.directories)?;
        writeln!(out, ", Zipf with alpha {}:", self.alpha)?;
        let rows = [("class", &self.classes), ("file", &self.files)];
        for (what, agreement) in rows.into_iter().chain([("directory", &self.per_directory)]) {
            write!(out, "  per {what:<9} {agreement}")?;
        }
        if self.requests_outside > 0 {
            writeln!(out, "  {} requests for other files", self.requests_outside)?;
        }
        Ok(())
    }
}

/// One line.
impl fmt::Display for Agreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(statistic), Some(degrees), Some(p)) =
            (self.chi_square, self.degrees_of_freedom, self.p_value)
        {
            let p = if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") };
            write!(out, "{p} (chi-square {statistic:.1} of {degrees}); ")?;
        }
        let Difference { cell, expected, actual } = &self.largest_difference;
        let (actual, expected) = (100.0 * actual, 100.0 * expected);
        write!(out, "furthest off: {cell} {actual:.3} % for {expected:.3} %")?;
        if let Some(relative) = &self.largest_relative_difference {
            let percent = 100.0 * (relative.actual / relative.expected - 1.0);
            write!(out, ", relatively {} {percent:+.1} %", relative.cell)?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of requests per file according to the mix, with a million for each directory's
    /// rank 1.
    fn ideal(mix: &Mix) -> Counts {
        let mut counts = Counts::new(mix.directories);
        for directory in 0..mix.directories {
            for (place, share) in mix.shares_in_directory().into_iter().enumerate() {
                let requests = (share * 1e6 / f64::from(directory + 1)).round() as u64;
                let (class, number) = ((place / 9) as u8, (place % 9) as u8);
                counts.add(File::Spec { directory, class, number }, requests);
            }
        }
        counts
    }

    #[test]
    fn the_mix_itself_fits() {
        let mix = Mix::spec99(20);
        let counts = ideal(&mix);
        assert!(counts.are_within(&mix, 0.001));
        let fit = counts.fit(&mix).expect("requests");
        for agreement in [&fit.classes, &fit.files, &fit.per_directory] {
            assert!(agreement.p_value.is_some_and(|p| p > 0.99), "{fit}");
            assert!(agreement.largest_difference.absolute() < 1e-5, "{fit}");
        }
    }

    #[test]
    fn what_is_off_is_named() {
        let mix = Mix::spec99(20);
        let mut counts = ideal(&mix);
        counts.add(File::Spec { directory: 7, class: 2, number: 3 }, 60_000);
        assert!(counts.are_within(&mix, 0.2) && !counts.are_within(&mix, 0.1));
        counts.add(File::Spec { directory: 20, class: 2, number: 3 }, 5);
        counts.add(File::Single { bytes: 9 }, 6);
        let fit = counts.fit(&mix).expect("requests");
        assert_eq!(fit.requests_outside, 11);
        for (agreement, cell) in
            [(&fit.classes, "class 2"), (&fit.files, "class2_3"), (&fit.per_directory, "dir00007")]
        {
            assert_eq!(agreement.largest_difference.cell, cell);
            assert!(agreement.p_value.is_some_and(|p| p < 1e-9), "{fit}");
            let relative = agreement.largest_relative_difference.as_ref().expect("many requests");
            assert_eq!(relative.cell, cell);
        }
    }

    #[test]
    fn nothing_counted_nothing_compared() {
        let mix = Mix::spec99(20);
        assert_eq!(Counts::new(20).fit(&mix), None);
        assert!(!Counts::new(20).are_within(&mix, 0.5));
    }
}
