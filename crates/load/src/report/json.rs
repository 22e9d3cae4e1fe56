//! An outcome as one JSON document, and back. Nothing is lost: the histograms themselves are in it,
//! so that outcomes that were written can be merged exactly. Times that end in `_us` are whole
//! microseconds as they were measured; those that end in `_ms` are derived, and are not read back.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::backlog::Backlog;
use crate::error_kind::{ErrorCounts, ErrorKind};
use crate::measures::{
    Counts, FILE_CLASSES, FILE_KINDS, FileRow, Interval, LengthRow, Measures, SESSION_LENGTH_MAX,
    Times, histogram, interval_histogram,
};
use crate::outcome::{
    Outcome, ServerCpu, Setting, file_class_name, file_kind_name, file_kind_of_name,
};
use crate::void::Void;

/// What `format` says in every document.
pub const FORMAT: &str = "ropewalk-load";
/// The version that is written. It grows when what a reader relies on changes its meaning or goes;
/// fields may be added without. In version 1 `setting.lag_bound_us` was a number always, and the
/// reasons of a void run were words alone.
pub const VERSION: u32 = 2;

/// Writes `outcome`, indented, with a line feed at its end.
#[must_use]
pub fn write(outcome: &Outcome) -> String {
    let mut text = serde_json::to_string_pretty(&Document::of(outcome))
        .expect("structs of numbers and strings with string keys are JSON");
    text.push('\n');
    text
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// One line: not JSON, not an outcome, of a later version, or damaged.
pub fn parse(text: &str) -> Result<Outcome, String> {
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
    let document: Document = serde_json::from_str(text).map_err(|why| why.to_string())?;
    document.into_outcome()
}

/// What is looked at before anything else.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Document {
    format: String,
    version: u32,
    setting: Setting,
    started_unix_us: u64,
    window_us: u64,
    interval_us: u64,
    cpu_user_us: u64,
    cpu_system_us: u64,
    #[serde(default)]
    run_delay_us: Option<u64>,
    #[serde(default)]
    wake_ups: u64,
    #[serde(default)]
    others_us: Option<u64>,
    #[serde(default)]
    server_cpu: Option<ServerCpu>,
    interrupted: bool,
    /// For people; and where it was written before the next was.
    void: Vec<String>,
    #[serde(default)]
    void_reasons: Vec<Void>,
    #[serde(skip_deserializing)]
    incomplete: Vec<String>,
    first_bad: Option<String>,
    #[serde(default)]
    first_refused: Option<String>,
    #[serde(skip_deserializing)]
    figures: Figures,
    counts: Counts,
    errors: BTreeMap<String, u64>,
    /// Absent in what was written before it was counted.
    #[serde(default)]
    backlog: Backlog,
    times: TimesText,
    /// Absent in what was written before classes were apart.
    #[serde(default)]
    classes: Vec<ClassText>,
    fairness: Fairness,
    replies_per_session: Vec<u64>,
    series: Vec<IntervalText>,
}

/// Derived from the rest.
#[derive(Default, Serialize)]
struct Figures {
    requests_due: u64,
    asked_per_s: Option<f64>,
    offered_per_s: f64,
    throughput_per_s: f64,
    goodput_per_s: f64,
    served_share: f64,
    kept_up_share: f64,
    error_share: f64,
    in_time_share: f64,
    run_delay_share: Option<f64>,
    server_run_delay_share: Option<f64>,
    mostly_own_lag: Vec<&'static str>,
    exit_code: u8,
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

/// One field for each of [`Times`].
#[derive(Serialize, Deserialize)]
struct TimesText {
    corrected: Distribution,
    uncorrected: Distribution,
    first_byte: Distribution,
    connect: Distribution,
    connection: Distribution,
    lag: Distribution,
    session: Distribution,
    session_failed: Distribution,
}

/// Corrected times of the replies of a class of files, if there were any.
#[derive(Serialize, Deserialize)]
struct ClassText {
    class: String,
    #[serde(flatten)]
    times: Distribution,
}

/// All 0 if nothing was recorded.
#[derive(Serialize, Deserialize)]
struct Distribution {
    #[serde(skip_deserializing)]
    count: u64,
    #[serde(skip_deserializing)]
    min_ms: f64,
    #[serde(skip_deserializing)]
    mean_ms: f64,
    #[serde(skip_deserializing)]
    sd_ms: f64,
    #[serde(skip_deserializing)]
    p50_ms: f64,
    #[serde(skip_deserializing)]
    p75_ms: f64,
    #[serde(skip_deserializing)]
    p90_ms: f64,
    #[serde(skip_deserializing)]
    p95_ms: f64,
    #[serde(skip_deserializing)]
    p99_ms: f64,
    #[serde(skip_deserializing, rename = "p99.9_ms")]
    p99_9_ms: f64,
    #[serde(skip_deserializing, rename = "p99.99_ms")]
    p99_99_ms: f64,
    #[serde(skip_deserializing)]
    max_ms: f64,
    /// HdrHistogram's V2 encoding of microseconds, deflated, in base64.
    histogram: String,
}

#[derive(Serialize, Deserialize)]
struct Fairness {
    /// In percentage points; null if no kind of file was asked for often enough.
    #[serde(skip_deserializing)]
    spread: Option<f64>,
    #[serde(skip_deserializing)]
    kinds_compared: usize,
    #[serde(skip_deserializing)]
    kinds_left_out: usize,
    files: Vec<FileText>,
    lengths: Vec<LengthText>,
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

#[derive(Serialize, Deserialize)]
struct LengthText {
    /// Requests in a session; the largest stands for longer ones too.
    length: usize,
    #[serde(skip_deserializing)]
    timeout_percent: f64,
    #[serde(flatten)]
    row: LengthRow,
}

#[derive(Serialize, Deserialize)]
struct IntervalText {
    #[serde(skip_deserializing)]
    start_s: f64,
    sessions_due: u64,
    sessions_completed: u64,
    requests: u64,
    replies: u64,
    errors: u64,
    body_bytes: u64,
    in_flight: u64,
    connections: u64,
    #[serde(skip_deserializing)]
    p50_ms: f64,
    #[serde(skip_deserializing)]
    p99_ms: f64,
    #[serde(skip_deserializing)]
    max_ms: f64,
    histogram: String,
}

impl Document {
    fn of(outcome: &Outcome) -> Self {
        let measures = &outcome.measures;
        let named = |kind: ErrorKind| (kind.name().to_owned(), measures.errors.get(kind));
        Self {
            format: FORMAT.into(),
            version: VERSION,
            setting: outcome.setting.clone(),
            started_unix_us: outcome.started_unix_us,
            window_us: outcome.window_us,
            interval_us: outcome.interval_us,
            cpu_user_us: outcome.cpu_us.0,
            cpu_system_us: outcome.cpu_us.1,
            run_delay_us: outcome.run_delay_us,
            wake_ups: outcome.wake_ups,
            others_us: outcome.others_us,
            server_cpu: outcome.server_cpu,
            interrupted: outcome.interrupted,
            void: outcome.void.iter().map(Void::to_string).collect(),
            void_reasons: outcome.void.clone(),
            incomplete: outcome.incomplete().collect(),
            first_bad: outcome.first_bad.clone(),
            first_refused: outcome.first_refused.clone(),
            figures: Figures::of(outcome),
            counts: measures.counts,
            errors: ErrorKind::ALL.into_iter().map(named).collect(),
            backlog: measures.backlog.clone(),
            times: TimesText::of(&measures.times),
            classes: ClassText::all(&measures.classes),
            fairness: Fairness::of(outcome),
            replies_per_session: without_trailing_zeros(&measures.replies_per_session),
            series: (measures.series.iter().enumerate())
                .map(|(index, interval)| {
                    IntervalText::of(outcome.interval_span_us(index).0, interval)
                })
                .collect(),
        }
    }

    fn into_outcome(self) -> Result<Outcome, String> {
        check_share(&self.setting)?;
        let void = match self.void_reasons {
            reasons if reasons.is_empty() => self.void.into_iter().map(Void::Other).collect(),
            reasons => reasons,
        };
        let mut replies_per_session = self.replies_per_session;
        if replies_per_session.len() > SESSION_LENGTH_MAX + 1 {
            return Err("`replies_per_session` is too long".into());
        }
        replies_per_session.resize(SESSION_LENGTH_MAX + 1, 0);
        let measures = Measures {
            counts: self.counts,
            errors: errors(&self.errors)?,
            backlog: self.backlog,
            times: self.times.into_times()?,
            classes: classes(&self.classes)?,
            files: files(&self.fairness.files)?,
            lengths: lengths(&self.fairness.lengths)?,
            replies_per_session,
            series: self.series.iter().map(IntervalText::interval).collect::<Result<_, _>>()?,
        };
        Ok(Outcome {
            setting: self.setting,
            window_us: self.window_us,
            started_unix_us: self.started_unix_us,
            interval_us: self.interval_us,
            cpu_us: (self.cpu_user_us, self.cpu_system_us),
            run_delay_us: self.run_delay_us,
            wake_ups: self.wake_ups,
            others_us: self.others_us,
            server_cpu: self.server_cpu,
            measures,
            void,
            first_bad: self.first_bad,
            first_refused: self.first_refused,
            interrupted: self.interrupted,
        })
    }
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        Self {
            requests_due: outcome.requests_due(),
            asked_per_s: outcome.asked_rate(),
            offered_per_s: outcome.offered_rate(),
            throughput_per_s: outcome.throughput(),
            goodput_per_s: outcome.goodput(),
            served_share: outcome.served_share(),
            kept_up_share: outcome.kept_up_share(),
            error_share: outcome.error_share(),
            in_time_share: outcome.in_time_share(),
            run_delay_share: outcome.run_delay_share(),
            server_run_delay_share: outcome.server_cpu.and_then(|had| had.run_delay_share()),
            mostly_own_lag: QUANTILES
                .into_iter()
                .filter(|(quantile, _)| outcome.is_mostly_own_lag(*quantile))
                .map(|(_, name)| name)
                .collect(),
            exit_code: outcome.exit_code(),
        }
    }
}

impl TimesText {
    fn of(times: &Times) -> Self {
        Self {
            corrected: Distribution::of(&times.corrected),
            uncorrected: Distribution::of(&times.uncorrected),
            first_byte: Distribution::of(&times.first_byte),
            connect: Distribution::of(&times.connect),
            connection: Distribution::of(&times.connection),
            lag: Distribution::of(&times.lag),
            session: Distribution::of(&times.session),
            session_failed: Distribution::of(&times.session_failed),
        }
    }

    fn into_times(self) -> Result<Times, String> {
        let decoded = |text: Distribution| decode(&text.histogram, &histogram());
        Ok(Times {
            corrected: decoded(self.corrected)?,
            uncorrected: decoded(self.uncorrected)?,
            first_byte: decoded(self.first_byte)?,
            connect: decoded(self.connect)?,
            connection: decoded(self.connection)?,
            lag: decoded(self.lag)?,
            session: decoded(self.session)?,
            session_failed: decoded(self.session_failed)?,
        })
    }
}

impl ClassText {
    fn all(classes: &[Histogram<u64>]) -> Vec<Self> {
        let named = classes.iter().enumerate().filter(|(_, times)| !times.is_empty());
        let text =
            |(class, times)| Self { class: file_class_name(class), times: Distribution::of(times) };
        named.map(text).collect()
    }
}

impl Distribution {
    fn of(times: &Histogram<u64>) -> Self {
        let ms = |quantile| quantile_ms(times, quantile);
        Self {
            count: times.len(),
            min_ms: times.min() as f64 / 1e3,
            mean_ms: times.mean() / 1e3,
            sd_ms: times.stdev() / 1e3,
            p50_ms: ms(0.5),
            p75_ms: ms(0.75),
            p90_ms: ms(0.9),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            p99_9_ms: ms(0.999),
            p99_99_ms: ms(0.9999),
            max_ms: times.max() as f64 / 1e3,
            histogram: encode(times),
        }
    }
}

impl Fairness {
    fn of(outcome: &Outcome) -> Self {
        let spread = outcome.fairness_spread();
        let files = outcome.measures.files.iter().enumerate();
        let lengths = outcome.measures.lengths.iter().enumerate();
        Self {
            spread: spread.map(|spread| spread.points),
            kinds_compared: spread.map_or(0, |spread| spread.kinds),
            kinds_left_out: spread.map_or(0, |spread| spread.left_out),
            files: files
                .filter(|(_, row)| **row != FileRow::default())
                .map(|(kind, row)| FileText {
                    kind: file_kind_name(kind),
                    timeout_percent: row.timeout_percent(),
                    mean_ms: row.mean_ms(),
                    row: *row,
                })
                .collect(),
            lengths: lengths
                .filter(|(_, row)| **row != LengthRow::default())
                .map(|(length, row)| LengthText {
                    length,
                    timeout_percent: row.timeout_percent(),
                    row: *row,
                })
                .collect(),
        }
    }
}

impl IntervalText {
    fn of(start_us: u64, interval: &Interval) -> Self {
        Self {
            start_s: start_us as f64 / 1e6,
            sessions_due: interval.sessions_due,
            sessions_completed: interval.sessions_completed,
            requests: interval.requests,
            replies: interval.replies,
            errors: interval.errors,
            body_bytes: interval.body_bytes,
            in_flight: interval.in_flight,
            connections: interval.connections,
            p50_ms: quantile_ms(&interval.times, 0.5),
            p99_ms: quantile_ms(&interval.times, 0.99),
            max_ms: interval.times.max() as f64 / 1e3,
            histogram: encode(&interval.times),
        }
    }

    fn interval(&self) -> Result<Interval, String> {
        Ok(Interval {
            sessions_due: self.sessions_due,
            sessions_completed: self.sessions_completed,
            requests: self.requests,
            replies: self.replies,
            errors: self.errors,
            body_bytes: self.body_bytes,
            in_flight: self.in_flight,
            connections: self.connections,
            times: decode(&self.histogram, &interval_histogram())?,
        })
    }
}

fn quantile_ms(times: &Histogram<u64>, quantile: f64) -> f64 {
    times.value_at_quantile(quantile) as f64 / 1e3
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
    let times: Histogram<u64> = Deserializer::new()
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

fn errors(named: &BTreeMap<String, u64>) -> Result<ErrorCounts, String> {
    let mut counts = ErrorCounts::default();
    for (name, count) in named {
        let kind = ErrorKind::of_name(name);
        counts.set(kind.ok_or_else(|| format!("there is no error `{name}`"))?, *count);
    }
    Ok(counts)
}

fn files(rows: &[FileText]) -> Result<Vec<FileRow>, String> {
    let mut files = vec![FileRow::default(); FILE_KINDS];
    for FileText { kind, row, .. } in rows {
        let index = file_kind_of_name(kind);
        files[index.ok_or_else(|| format!("there is no kind of file `{kind}`"))?] = *row;
    }
    Ok(files)
}

fn classes(rows: &[ClassText]) -> Result<Vec<Histogram<u64>>, String> {
    let mut classes = vec![interval_histogram(); FILE_CLASSES];
    for ClassText { class, times } in rows {
        let index = (0..FILE_CLASSES).find(|index| file_class_name(*index) == *class);
        classes[index.ok_or_else(|| format!("there is no class of files `{class}`"))?] =
            decode(&times.histogram, &interval_histogram())?;
    }
    Ok(classes)
}

fn lengths(rows: &[LengthText]) -> Result<Vec<LengthRow>, String> {
    let mut lengths = vec![LengthRow::default(); SESSION_LENGTH_MAX + 1];
    for LengthText { length, row, .. } in rows {
        let slot = lengths.get_mut(*length);
        *slot.ok_or_else(|| format!("there is no row for sessions of {length} requests"))? = *row;
    }
    Ok(lengths)
}

fn without_trailing_zeros(counts: &[u64]) -> Vec<u64> {
    let len = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    counts[..len].to_vec()
}

#[cfg(test)]
mod tests;
