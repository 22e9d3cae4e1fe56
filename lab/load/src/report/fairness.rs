//! The fairness table: shows whether every kind of request was served alike. A server can raise its
//! throughput by neglecting large files (Radhakrishnan 2019, chapter 3), which this table reveals.
//! Its columns are the columns of the tool that the published comparisons used.

use std::fmt::Write as _;

use workload::fileset::{CLASSES, FILES_PER_CLASS, File};

use super::format;
use crate::measures::{FileRow, LengthRow, OTHER, SESSION_LENGTH_MAX, SINGLE};
use crate::outcome::{Outcome, SPREAD_REQUESTS_MIN, Spread, file_kind_name};

/// Writes the tables by kind of file, by class and by session length, and the spread.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    let measures = &outcome.measures;
    if measures.files.iter().any(|row| row.requests > 0) {
        write_file_table(&mut text, &measures.files);
        write_class_table(&mut text, &measures.files);
    }
    if measures.lengths.iter().any(|row| row.sessions > 0) {
        write_length_table(&mut text, &measures.lengths);
    }
    let line = spread_line(outcome);
    let line = line.unwrap_or_else(|| "no request named a file of a file set".into());
    // Writing to a string does not fail; this holds for the whole file.
    let _ = writeln!(
        text,
        "Fairness: {line}\n\
         The spread is the largest timeout percentage of a kind of file less the smallest;\n\
         kinds with fewer than {SPREAD_REQUESTS_MIN} requests are too rare to judge."
    );
    text
}

/// The spread in a line; none if no request named a file of a file set.
#[must_use]
pub fn spread_line(outcome: &Outcome) -> Option<String> {
    let files = &outcome.measures.files;
    let asked = files[..OTHER].iter().filter(|row| row.requests > 0).count();
    match outcome.fairness_spread() {
        None if asked == 0 => None,
        None if asked == 1 => Some("not judged: the one kind of file is too rare".into()),
        None => Some(format!("not judged: each of the {asked} kinds of file is too rare")),
        Some(Spread { points, largest: (kind, percent), left_out, is_chance, .. }) => {
            let chance =
                if is_chance && points > 0.0 { " (no more than chance gives)" } else { "" };
            Some(format!(
                "spread {points:.2} points of timeouts{chance}, worst {} {percent:.2} %; \
                 {left_out} of {asked} kinds too rare",
                file_kind_name(kind)
            ))
        }
    }
}

fn write_file_table(text: &mut String, files: &[FileRow]) {
    heads(text, "Kind of file", "file bytes");
    for (kind, row) in files.iter().enumerate().filter(|(_, row)| row.requests > 0) {
        line(text, &file_kind_name(kind), file_bytes(kind), row);
    }
}

fn write_class_table(text: &mut String, files: &[FileRow]) {
    text.push('\n');
    heads(text, "Class", "");
    let sum = |rows: &[FileRow]| {
        rows.iter().fold(FileRow::default(), |mut sum, row| {
            sum.merge(row);
            sum
        })
    };
    for class in 0..CLASSES {
        let row = sum(&files[class * FILES_PER_CLASS..(class + 1) * FILES_PER_CLASS]);
        if row.requests > 0 {
            line(text, &format!("class {class}"), None, &row);
        }
    }
    for (name, row) in [("single", &files[SINGLE]), ("other", &files[OTHER])] {
        if row.requests > 0 {
            line(text, name, None, row);
        }
    }
    line(text, "all", None, &sum(files));
    text.push('\n');
}

/// The length of a SPECweb99 file; none for single files, which may have any length.
fn file_bytes(kind: usize) -> Option<u64> {
    let (class, number) = ((kind / FILES_PER_CLASS) as u8, (kind % FILES_PER_CLASS) as u8);
    (kind < SINGLE).then(|| File::Spec { directory: 0, class, number }.bytes())
}

fn heads(text: &mut String, first: &str, second: &str) {
    let _ = writeln!(
        text,
        "{first:<12} {second:>10} {:>11} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9}",
        "requests", "timeouts", "timeout %", "truncated", "asked", "got", "mean ms"
    );
}

fn line(text: &mut String, name: &str, bytes: Option<u64>, row: &FileRow) {
    let _ = writeln!(
        text,
        "{name:<12} {:>10} {:>11} {:>9} {:>9.2} {:>9} {:>10} {:>10} {:>9}",
        bytes.map(format::count).unwrap_or_default(),
        format::count(row.requests),
        format::count(row.timeouts),
        row.timeout_percent(),
        format::count(row.truncated),
        format::bytes(row.bytes_asked as f64),
        format::bytes(row.bytes_got as f64),
        format::ms(row.mean_ms() * 1e3)
    );
}

fn write_length_table(text: &mut String, lengths: &[LengthRow]) {
    let _ = writeln!(
        text,
        "{:<15} {:>10} {:>10} {:>9} {:>9} {:>12} {:>12} {:>10}",
        "Session length",
        "sessions",
        "completed",
        "timeouts",
        "timeout %",
        "requests",
        "replies",
        "got"
    );
    let lengths = lengths.iter().enumerate();
    for (length, row) in lengths.filter(|(_, row)| row.sessions + row.requests > 0) {
        let more = if length == SESSION_LENGTH_MAX { " or more" } else { "" };
        let _ = writeln!(
            text,
            "{:<15} {:>10} {:>10} {:>9} {:>9.2} {:>12} {:>12} {:>10}",
            format!("{length}{more}"),
            format::count(row.sessions),
            format::count(row.completed),
            format::count(row.timeouts),
            row.timeout_percent(),
            format::count(row.requests),
            format::count(row.replies),
            format::bytes(row.bytes_got as f64)
        );
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn golden() {
        sample::check_golden("fairness.txt", &render(&sample::run()));
        sample::check_golden("fairness_empty.txt", &render(&sample::empty()));
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let mut outcome = sample::run();
        outcome.measures.files[26] = FileRow {
            requests: 123_456_789,
            timeouts: 1_234_567,
            truncated: 123_456,
            bytes_asked: u64::MAX / 1_000_000,
            ..FileRow::default()
        };
        for line in render(&outcome).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn few_requests_are_not_judged() {
        let mut outcome = sample::empty();
        assert_eq!(spread_line(&outcome), None);
        outcome.measures.files[OTHER].requests = 1_000;
        assert_eq!(spread_line(&outcome), None);
        outcome.measures.files[0].requests = 99;
        assert!(spread_line(&outcome).unwrap().starts_with("not judged: the one kind"));
    }
}
