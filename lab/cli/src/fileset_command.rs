//! `ropewalk fileset`: writes, checks and repairs a file set, and shows the progress.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::available_parallelism;

use command::{Failure, ProgressLine, print};
use fileset::{Options, Progress, Stage, Summary, Survey, size};
use lab::workload::FileSetOptions;
use workload::fileset::{FileSet, PRESETS, Preset};

use crate::fileset_arguments::FilesetArguments;

/// The most faults that are named one by one.
const FAULTS_SHOWN: usize = 10;

pub(crate) fn execute(arguments: &FilesetArguments) -> Result<(), Failure> {
    if arguments.list {
        return print(&presets());
    }
    let FileSetOptions { choice, threads, verify } = &arguments.options;
    let set = choice.set().map_err(|why| Failure::Usage(why.to_string()))?;
    let root = arguments.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let cpus = || available_parallelism().map_or(1, usize::from);
    let options = Options { threads: threads.map_or_else(cpus, usize::from), every_byte: *verify };
    let fail = |why: fileset::Error| Failure::Operation(why.to_string());
    let mut line = ProgressLine::new();
    let mut show = |at: &Progress| line.print_on_terminal(&progress_text(at));
    if arguments.check {
        let survey = fileset::check(&root, &set, options, &mut show);
        drop(line);
        report(&set, &survey.map_err(fail)?)
    } else {
        let summary = fileset::write(&root, &set, options, &mut show);
        drop(line);
        print(&summary_line(&summary.map_err(fail)?))
    }
}

fn presets() -> String {
    let mut table = format!("{:<15} {:>6}  {:>13}  source\n", "preset", "files", "bytes");
    for preset in PRESETS {
        let (set, Preset { name, source, .. }) = (preset.set(), preset);
        let (files, bytes) = (grouped(set.files()), grouped(set.bytes()));
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:<15} {files:>6}  {bytes:>13}  {source}");
    }
    table
}

fn summary_line(summary: &Summary) -> String {
    let Summary { written, repaired, untouched, foreign, bytes, elapsed_us } = summary;
    format!(
        "written {}, repaired {}, untouched {}, foreign {}: {} bytes ({}) in {:.1} s\n",
        grouped(*written),
        grouped(*repaired),
        grouped(*untouched),
        grouped(*foreign),
        grouped(*bytes),
        size::show(*bytes),
        *elapsed_us as f64 / 1e6
    )
}

/// Reports the result of a check. Faults make the command fail.
fn report(set: &FileSet, survey: &Survey) -> Result<(), Failure> {
    let mut text = String::new();
    for (file, fault) in survey.faults.iter().take(FAULTS_SHOWN) {
        let _ = writeln!(text, "{file}: {fault}");
    }
    let faults = survey.faults.len() as u64;
    if faults > FAULTS_SHOWN as u64 {
        let _ = writeln!(text, "and {} more", grouped(faults - FAULTS_SHOWN as u64));
    }
    let missing = survey.missing();
    let _ = writeln!(
        text,
        "right {}, missing {}, wrong {}, foreign {}",
        grouped(survey.right),
        grouped(missing),
        grouped(faults - missing),
        grouped(survey.foreign)
    );
    print(&text)?;
    if faults == 0 {
        return Ok(());
    }
    let all = grouped(set.files());
    let faults = grouped(faults);
    let why = format!(
        "{faults} of {all} files are missing or wrong; run it without --check to repair them"
    );
    Err(Failure::Operation(why))
}

/// Groups digits: 24480 becomes 24,480.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn progress_text(progress: &Progress) -> String {
    let Progress { stage, files, files_total, bytes, bytes_total, elapsed_us } = *progress;
    let name = match stage {
        Stage::Checking => "checking",
        Stage::Writing => "writing",
    };
    let per_second = bytes as f64 * 1e6 / elapsed_us.max(1) as f64;
    let left = match bytes {
        0 => "?".to_owned(),
        _ => format!("{:.0} s", bytes_total.saturating_sub(bytes) as f64 / per_second),
    };
    format!(
        "{name} {} of {} files, {} of {}, {}/s, {left} left",
        grouped(files),
        grouped(files_total),
        size::show(bytes),
        size::show(bytes_total),
        size::show(per_second as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let check = |number, expected| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(24_480, "24,480");
        check(3_481_249_120, "3,481,249,120");
    }

    #[test]
    fn progress_says_what_is_left() {
        let progress = Progress {
            stage: Stage::Writing,
            files: 1200,
            files_total: 24_480,
            bytes: 1 << 30,
            bytes_total: 3 << 30,
            elapsed_us: 2_000_000,
        };
        assert_eq!(
            progress_text(&progress),
            "writing 1,200 of 24,480 files, 1.00 GiB of 3.00 GiB, 512 MiB/s, 4 s left"
        );
        let start = Progress { files: 0, bytes: 0, elapsed_us: 0, ..progress };
        assert!(progress_text(&start).ends_with("0 B/s, ? left"));
    }
}
