//! Writes an outcome as one JSON document, and reads it back. Nothing is lost: the document
//! contains the histograms themselves, so that written outcomes can be merged exactly. Times whose
//! names end in `_us` are whole microseconds as measured; times in `_ms` are derived, and are not
//! read back.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{self, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error_kind::{ErrorCounts, ErrorKind};
use crate::measures::{
    FILE_CLASSES, FILE_KINDS, FileRow, Interval, LengthRow, SESSION_LENGTH_MAX, histogram,
    interval_histogram,
};
use crate::outcome::{Outcome, Setting, file_class_name, file_kind_name, file_kind_of_name};
use crate::run_error::RunError;
use crate::void::Void;

/// The value of `format` in every document.
pub const FORMAT: &str = "ropewalk-load";
/// The version that is written. It grows when a field on which readers rely changes its meaning or
/// is removed; fields may be added without a new version. In version 1 `setting.lag_bound_us` was
/// always a number, and the reasons of a void run were words only.
pub const VERSION: u32 = 2;

/// Writes `outcome`, indented, with a line feed at its end.
#[must_use]
pub fn write(outcome: &Outcome) -> String {
    let mut text = serde_json::to_string_pretty(outcome)
        .expect("structs of numbers and strings with string keys are JSON");
    text.push('\n');
    text
}

/// Writes that there was no run, and why, in place of an outcome.
#[must_use]
pub fn write_error(why: &RunError) -> String {
    let document = serde_json::json!({
        "format": FORMAT,
        "version": VERSION,
        "no_run": why,
        "why": why.to_string(),
    });
    format!("{document:#}\n")
}

/// What a document contains.
#[derive(Debug)]
pub enum Document {
    /// What [`write()`] wrote.
    Outcome(Box<Outcome>),
    /// What [`write_error`] wrote.
    NoRun(RunError),
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// One line: not JSON, not an outcome, of a later version, or damaged; or that there was no run.
pub fn parse(text: &str) -> Result<Outcome, String> {
    match read(text)? {
        Document::Outcome(outcome) => Ok(*outcome),
        Document::NoRun(why) => Err(format!("there was no run: {why}")),
    }
}

/// Reads what [`write()`] or [`write_error`] wrote.
///
/// # Errors
/// One line: not JSON, of something else, of a later version, or damaged.
pub fn read(text: &str) -> Result<Document, String> {
    let head: Head = serde_json::from_str(text)
        .map_err(|why| format!("not an outcome of `ropewalk load`: {why}"))?;
    if head.format != FORMAT {
        return Err(format!("not an outcome of `ropewalk load`: its format is `{}`", head.format));
    }
    if !(1..=VERSION).contains(&head.version) {
        let version = head.version;
        return Err(format!(
            "its version is {version}, this program reads versions 1 to {VERSION}"
        ));
    }
    if let Some(why) = head.no_run {
        return Ok(Document::NoRun(why));
    }
    let explain = |why: serde_json::Error| why.to_string();
    // Each structure takes its own fields from the text.
    let mut outcome: Outcome = serde_json::from_str(text).map_err(explain)?;
    outcome.measures = serde_json::from_str(text).map_err(explain)?;
    let apart: Apart = serde_json::from_str(text).map_err(explain)?;
    check_share(&outcome.setting)?;
    (outcome.measures.files, outcome.measures.lengths) =
        (apart.fairness.files, apart.fairness.lengths);
    outcome.cpu_us = (apart.cpu_user_us, apart.cpu_system_us);
    if outcome.void.is_empty() {
        outcome.void = apart.void.into_iter().map(Void::Other).collect();
    }
    Ok(Document::Outcome(Box::new(outcome)))
}

/// The fields that are checked before all others.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
    #[serde(default)]
    no_run: Option<RunError>,
}

/// Fields whose place in a document differs from their place in [`Outcome`] and its measures.
#[derive(Deserialize)]
struct Apart {
    cpu_user_us: u64,
    cpu_system_us: u64,
    /// The reasons in words: for people, and for documents written before reasons had names.
    void: Vec<String>,
    fairness: Rows,
}

#[derive(Deserialize)]
struct Rows {
    #[serde(deserialize_with = "files")]
    files: Vec<FileRow>,
    #[serde(deserialize_with = "lengths")]
    lengths: Vec<LengthRow>,
}

/// The quantiles that are reported, by name.
const QUANTILES: [(f64, &str); 8] = [
    (0.5, "p50"),
    (0.75, "p75"),
    (0.9, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
    (1.0, "max"),
];

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let measures = &self.measures;
        let void: Vec<_> = self.void.iter().map(Void::to_string).collect();
        let named = |kind: ErrorKind| (kind.name(), measures.errors.get(kind));
        let errors: BTreeMap<_, _> = ErrorKind::ALL.into_iter().map(named).collect();
        let mut fields = to.serialize_map(None)?;
        fields.serialize_entry("format", FORMAT)?;
        fields.serialize_entry("version", &VERSION)?;
        fields.serialize_entry("setting", &self.setting)?;
        fields.serialize_entry("started_unix_us", &self.started_unix_us)?;
        fields.serialize_entry("window_us", &self.window_us)?;
        fields.serialize_entry("interval_us", &self.interval_us)?;
        fields.serialize_entry("cpu_user_us", &self.cpu_us.0)?;
        fields.serialize_entry("cpu_system_us", &self.cpu_us.1)?;
        fields.serialize_entry("run_delay_us", &self.run_delay_us)?;
        fields.serialize_entry("wake_ups", &self.wake_ups)?;
        fields.serialize_entry("others_us", &self.others_us)?;
        fields.serialize_entry("server_cpu", &self.server_cpu)?;
        fields.serialize_entry("interrupted", &self.interrupted)?;
        fields.serialize_entry("void", &void)?;
        fields.serialize_entry("void_reasons", &self.void)?;
        fields.serialize_entry("incomplete", &self.incomplete().collect::<Vec<_>>())?;
        fields.serialize_entry("first_bad", &self.first_bad)?;
        fields.serialize_entry("first_refused", &self.first_refused)?;
        fields.serialize_entry("figures", &Figures(self))?;
        fields.serialize_entry("counts", &measures.counts)?;
        fields.serialize_entry("errors", &errors)?;
        fields.serialize_entry("backlog", &measures.backlog)?;
        fields.serialize_entry("times", &measures.times)?;
        fields.serialize_entry("classes", &ClassText::all(&measures.classes))?;
        fields.serialize_entry("fairness", &Fairness(self))?;
        let replies = without_trailing_zeros(&measures.replies_per_session);
        fields.serialize_entry("replies_per_session", replies)?;
        fields.serialize_entry("series", &IntervalText::all(self))?;
        fields.end()
    }
}

/// The names of the corrected times that are mostly the generator's own lag.
pub(super) fn mostly_own_lag(outcome: &Outcome) -> Vec<&'static str> {
    let is_own = |(quantile, _): &(f64, &str)| outcome.is_mostly_own_lag(*quantile);
    QUANTILES.into_iter().filter(is_own).map(|(_, name)| name).collect()
}

/// Figures that are derived from the other fields.
struct Figures<'o>(&'o Outcome);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(outcome) = self;
        let server_run_delay = outcome.server_cpu.and_then(|had| had.run_delay_share());
        let mut fields = to.serialize_map(None)?;
        fields.serialize_entry("requests_due", &outcome.requests_due())?;
        fields.serialize_entry("asked_per_s", &outcome.asked_rate())?;
        fields.serialize_entry("offered_per_s", &outcome.offered_rate())?;
        fields.serialize_entry("throughput_per_s", &outcome.throughput())?;
        fields.serialize_entry("goodput_per_s", &outcome.goodput())?;
        fields.serialize_entry("served_share", &outcome.served_share())?;
        fields.serialize_entry("kept_up_share", &outcome.kept_up_share())?;
        fields.serialize_entry("error_share", &outcome.error_share())?;
        fields.serialize_entry("in_time_share", &outcome.in_time_share())?;
        fields.serialize_entry("run_delay_share", &outcome.run_delay_share())?;
        fields.serialize_entry("server_run_delay_share", &server_run_delay)?;
        fields.serialize_entry("mostly_own_lag", &mostly_own_lag(outcome))?;
        fields.serialize_entry("exit_code", &outcome.exit_code())?;
        fields.end()
    }
}

/// Corrected times of the replies of a class of files, if there were any.
#[derive(Serialize, Deserialize)]
struct ClassText {
    class: String,
    #[serde(flatten, serialize_with = "distribution", deserialize_with = "coarse")]
    times: Histogram<u64>,
}

impl ClassText {
    fn all(classes: &[Histogram<u64>]) -> Vec<Self> {
        let named = classes.iter().enumerate().filter(|(_, times)| !times.is_empty());
        let text = |(class, times): (_, &Histogram<u64>)| Self {
            class: file_class_name(class),
            times: times.clone(),
        };
        named.map(text).collect()
    }
}

/// How files and sessions of different kinds fared. The spread is in percentage points; null if no
/// kind of file was requested often enough.
struct Fairness<'o>(&'o Outcome);

impl Serialize for Fairness<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let spread = self.0.fairness_spread();
        let files = self.0.measures.files.iter().enumerate();
        let files = files.filter(|(_, row)| **row != FileRow::default());
        let lengths = self.0.measures.lengths.iter().enumerate();
        let lengths = lengths.filter(|(_, row)| **row != LengthRow::default());
        let mut fields = to.serialize_map(None)?;
        fields.serialize_entry("spread", &spread.map(|spread| spread.points))?;
        fields.serialize_entry("kinds_compared", &spread.map_or(0, |spread| spread.kinds))?;
        fields.serialize_entry("kinds_left_out", &spread.map_or(0, |spread| spread.left_out))?;
        fields.serialize_entry("files", &files.map(FileText::from_row).collect::<Vec<_>>())?;
        fields
            .serialize_entry("lengths", &lengths.map(LengthText::from_row).collect::<Vec<_>>())?;
        fields.end()
    }
}

#[derive(Serialize, Deserialize)]
struct FileText {
    kind: String,
    #[serde(skip_deserializing)]
    timeout_percent: f64,
    #[serde(skip_deserializing)]
    mean_ms: f64,
    #[serde(flatten)]
    row: FileRow,
}

impl FileText {
    fn from_row((kind, row): (usize, &FileRow)) -> Self {
        Self {
            kind: file_kind_name(kind),
            timeout_percent: row.timeout_percent(),
            mean_ms: row.mean_ms(),
            row: *row,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct LengthText {
    /// Requests in a session; the largest stands for longer ones too.
    length: usize,
    #[serde(skip_deserializing)]
    timeout_percent: f64,
    #[serde(flatten)]
    row: LengthRow,
}

impl LengthText {
    fn from_row((length, row): (usize, &LengthRow)) -> Self {
        Self { length, timeout_percent: row.timeout_percent(), row: *row }
    }
}

/// An interval, and when it begins.
#[derive(Serialize)]
struct IntervalText<'o> {
    start_s: f64,
    #[serde(flatten)]
    interval: &'o Interval,
}

impl<'o> IntervalText<'o> {
    fn all(outcome: &'o Outcome) -> Vec<Self> {
        let start_s = |index| outcome.interval_span_us(index).0 as f64 / 1e6;
        let series = outcome.measures.series.iter().enumerate();
        series.map(|(index, interval)| Self { start_s: start_s(index), interval }).collect()
    }
}

/// The written form of a histogram of microseconds: in HdrHistogram's V2 encoding, deflated, in
/// base64, preceded by figures derived from it.
#[derive(Deserialize)]
struct Packed {
    histogram: String,
}

/// Writes a histogram with its figures, all 0 if nothing was recorded.
pub(crate) fn distribution<S: Serializer>(
    times: &Histogram<u64>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(None)?;
    fields.serialize_entry("count", &times.len())?;
    fields.serialize_entry("min_ms", &(times.min() as f64 / 1e3))?;
    fields.serialize_entry("mean_ms", &(times.mean() / 1e3))?;
    fields.serialize_entry("sd_ms", &(times.stdev() / 1e3))?;
    serialize_rest(fields, times, &QUANTILES)
}

/// Writes the histogram of an interval, with fewer figures.
pub(crate) fn interval_times<S: Serializer>(
    times: &Histogram<u64>,
    to: S,
) -> Result<S::Ok, S::Error> {
    serialize_rest(to.serialize_map(None)?, times, &[(0.5, "p50"), (0.99, "p99"), (1.0, "max")])
}

fn serialize_rest<M: SerializeMap>(
    mut fields: M,
    times: &Histogram<u64>,
    quantiles: &[(f64, &str)],
) -> Result<M::Ok, M::Error> {
    for (quantile, name) in quantiles {
        let ms = times.value_at_quantile(*quantile) as f64 / 1e3;
        fields.serialize_entry(&format!("{name}_ms"), &ms)?;
    }
    fields.serialize_entry("histogram", &encode(times))?;
    fields.end()
}

/// Reads a histogram with the bounds of [`histogram`].
pub(crate) fn fine<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    decode(&Packed::deserialize(from)?.histogram, &histogram()).map_err(D::Error::custom)
}

/// Reads a histogram with the bounds of [`interval_histogram`].
pub(crate) fn coarse<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    decode(&Packed::deserialize(from)?.histogram, &interval_histogram()).map_err(D::Error::custom)
}

fn encode(times: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(times, &mut bytes)
        .expect("writing to memory does not fail, and no count is above 2^63");
    STANDARD.encode(bytes)
}

/// The histogram in `text`, which must have the bounds of `model`.
fn decode(text: &str, model: &Histogram<u64>) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|why| format!("a histogram is damaged: {why}"))?;
    let times: Histogram<u64> = serialization::Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|why| format!("a histogram is damaged: {why}"))?;
    let bounds = |times: &Histogram<u64>| (times.low(), times.high(), times.sigfig());
    if bounds(&times) != bounds(model) {
        let (low, high, digits) = bounds(&times);
        return Err(format!("a histogram from {low} to {high} at {digits} digits is not ours"));
    }
    Ok(times)
}

fn check_share(setting: &Setting) -> Result<(), String> {
    match setting.share.iter().find(|index| **index >= setting.generators) {
        Some(index) => Err(format!("share {index} of {} generators", setting.generators)),
        None => Ok(()),
    }
}

/// Reads counts of errors by name.
pub(crate) fn errors<'de, D: Deserializer<'de>>(from: D) -> Result<ErrorCounts, D::Error> {
    let mut counts = ErrorCounts::default();
    for (name, count) in BTreeMap::<String, u64>::deserialize(from)? {
        let unknown = || D::Error::custom(format_args!("there is no error `{name}`"));
        counts.set(ErrorKind::from_name(&name).ok_or_else(unknown)?, count);
    }
    Ok(counts)
}

fn files<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<FileRow>, D::Error> {
    let mut files = vec![FileRow::default(); FILE_KINDS];
    for FileText { kind, row, .. } in Vec::deserialize(from)? {
        let unknown = || D::Error::custom(format_args!("there is no kind of file `{kind}`"));
        files[file_kind_of_name(&kind).ok_or_else(unknown)?] = row;
    }
    Ok(files)
}

/// Reads the times of classes of files by name.
pub(crate) fn classes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Histogram<u64>>, D::Error> {
    let mut classes = vec![interval_histogram(); FILE_CLASSES];
    for ClassText { class, times } in Vec::deserialize(from)? {
        let index = (0..FILE_CLASSES).find(|index| file_class_name(*index) == class);
        let unknown = || D::Error::custom(format_args!("there is no class of files `{class}`"));
        classes[index.ok_or_else(unknown)?] = times;
    }
    Ok(classes)
}

fn lengths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<LengthRow>, D::Error> {
    let mut lengths = vec![LengthRow::default(); SESSION_LENGTH_MAX + 1];
    for LengthText { length, row, .. } in Vec::deserialize(from)? {
        let why = || format!("there is no row for sessions of {length} requests");
        *lengths.get_mut(length).ok_or_else(|| D::Error::custom(why()))? = row;
    }
    Ok(lengths)
}

/// Reads sessions by the number of their replies: rows of zeros at the end are not written.
pub(crate) fn replies<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let mut replies = Vec::deserialize(from)?;
    if replies.len() > SESSION_LENGTH_MAX + 1 {
        return Err(D::Error::custom("`replies_per_session` is too long"));
    }
    replies.resize(SESSION_LENGTH_MAX + 1, 0);
    Ok(replies)
}

fn without_trailing_zeros(counts: &[u64]) -> &[u64] {
    let len = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    &counts[..len]
}

#[cfg(test)]
mod tests;
