//! The series as an HdrHistogram interval log, format V2 (`.hlog`): for each interval the histogram
//! of corrected times in microseconds. HdrHistogram's log processors and plotters read it.

use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::outcome::Outcome;

/// The tag of every line of the log, by which concatenated logs of several runs are distinguished.
pub const TAG: &str = "corrected";

/// Writes the log of the series. Starts of intervals count from the base time in its head; the
/// largest value of each line is in milliseconds, for people; programs take it from the histogram.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_micros(outcome.started_unix_us);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("ropewalk load: whole-reply times from when requests were due, microseconds")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(1e3)
        .begin_log_with(&mut bytes, &mut serializer)
        .expect("writing to memory does not fail");
    for (index, seen) in outcome.measures.series.iter().enumerate() {
        let (start_us, length_us) = outcome.interval_span_us(index);
        let (start, length) = (Duration::from_micros(start_us), Duration::from_micros(length_us));
        log.write_histogram(&seen.times, start, length, Tag::new(TAG))
            .expect("writing to memory does not fail, and no count is above 2^63");
    }
    drop(log);
    String::from_utf8(bytes).expect("the log is ASCII: numbers, names and base64")
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::super::sample;
    use super::*;

    #[test]
    fn golden() {
        // The payload depends on the compression library; another test checks that it can be read
        // back.
        let masked = |line: &str| match line.rsplit_once(',') {
            Some((head, _)) if !line.starts_with('#') => format!("{head},...\n"),
            _ => format!("{line}\n"),
        };
        let text: String = render(&sample::run()).lines().map(masked).collect();
        sample::check_golden("series.hlog", &text);
    }

    #[test]
    fn reads_back() {
        let outcome = sample::run();
        let text = render(&outcome);
        let mut histograms = Vec::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            if let LogEntry::Interval(line) = entry.unwrap() {
                assert_eq!(line.start_timestamp().as_secs(), histograms.len() as u64);
                assert_eq!(line.duration(), Duration::from_secs(1));
                assert_eq!(line.tag(), Tag::new(TAG));
                let bytes = STANDARD.decode(line.encoded_histogram()).unwrap();
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                histograms.push(histogram);
            }
        }
        let series = outcome.measures.series.iter().map(|interval| interval.times.clone());
        assert_eq!(histograms, series.collect::<Vec<_>>());
    }
}
