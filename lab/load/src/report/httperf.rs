//! The text that httperf 0.9 prints, field for field, so that programs that read httperf's output
//! can read this one. It has that tool's peculiarities and limits: means and no percentiles. Where
//! a figure is not exactly httperf's, the function that writes the line says so. Kept on purpose:
//!
//! * The average reply rate is the mean of samples of five seconds, and 0 in a shorter run, which
//!   says `0 samples`. The lowest and highest rates of sessions are of these samples, too.
//! * Sizes are divided as whole numbers, so their decimal is always 0.
//! * `Net I/O` counts in units of 1,024 bytes but of 10^6 bits, and leaves out footers.
//! * The median of connection times is the middle of a bin of a millisecond, and never above 100 s.

use std::fmt::Write as _;

use crate::error_kind::ErrorKind;
use crate::measures::{Counts, Interval};
use crate::outcome::{Outcome, Setting};

/// Length of one of httperf's samples.
const SAMPLE_US: u64 = 5_000_000;
/// The end of httperf's histogram of connection times, in bins of a millisecond.
const MEDIAN_BINS: u64 = 100_000;

/// Writes `outcome` as httperf would. The lines about sessions are written only if a log was
/// replayed.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let mut text = command(&outcome.setting, outcome.measures.counts.sessions_due);
    connections(&mut text, outcome);
    requests(&mut text, outcome);
    replies(&mut text, outcome);
    resources(&mut text, outcome);
    errors(&mut text, outcome);
    if outcome.setting.log.is_some() {
        sessions(&mut text, outcome);
    }
    text
}

/// The httperf command that comes closest; readers take the server and the rate from it. It names
/// only options that mean something here, and the first target if there are several. A rate that
/// changes is passed on as it was typed, which httperf would not understand.
fn command(setting: &Setting, sessions: u64) -> String {
    let timeout_s = setting.timeout_us as f64 / 1e6;
    let client = setting.share.first().copied().unwrap_or(0);
    let clients = setting.generators.max(1);
    let url = setting.targets.first().map_or("", String::as_str);
    let (server, port, uri) = parts(url);
    let mut text = format!(
        "httperf --timeout={timeout_s} --client={client}/{clients} --server={server} \
         --port={port} --uri={uri}"
    );
    if !setting.rate.is_empty() {
        text.push_str(" --rate=");
        text.push_str(&setting.rate);
    }
    // Writing to a string does not fail; this holds for the whole file.
    let _ = match &setting.log {
        Some(log) => writeln!(text, " --wsesslog={sessions},0.000,{log}"),
        None => writeln!(text, " --num-conns={sessions} --num-calls=1"),
    };
    text
}

/// Server, port and path of a URL.
fn parts(url: &str) -> (&str, &str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (server, port) = match authority.rsplit_once(':') {
        // Colons within brackets belong to the address.
        Some((server, port)) if !port.ends_with(']') => (server, port),
        _ => (authority, "80"),
    };
    (server, port, if path.is_empty() { "/" } else { path })
}

/// * The burst of connects is not measured: 1, or 0 if there was no connection.
/// * The duration is that of the measured window, not until the last reply.
/// * The standard deviation, lowest and highest lifetime come from the histogram, within a
///   thousandth.
fn connections(text: &mut String, outcome: &Outcome) {
    let (counts, times) = (&outcome.measures.counts, &outcome.measures.times);
    let burst = u64::from(counts.connections_tried > 0);
    let _ = writeln!(text, "Maximum connect burst length: {burst}\n");
    let _ = writeln!(
        text,
        "Total: connections {} requests {} replies {} test-duration {:.3} s\n",
        counts.connections_tried,
        counts.requests,
        replies_total(counts),
        outcome.window_s()
    );
    let _ = writeln!(
        text,
        "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
        outcome.per_second(counts.connections_tried),
        ms_each(outcome, counts.connections_tried),
        counts.connections_open_max
    );
    let lifetimes = times.connection.len();
    let _ = writeln!(
        text,
        "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
        times.connection.min() as f64 / 1e3,
        ratio(counts.connection_time_us, lifetimes) / 1e3,
        times.connection.max() as f64 / 1e3,
        median_ms(outcome),
        times.connection.stdev() / 1e3 * sample_correction(lifetimes)
    );
    let _ = writeln!(text, "Connection time [ms]: connect {:.1}", times.connect.mean() / 1e3);
    let length = ratio(replies_total(counts), lifetimes);
    let _ = writeln!(text, "Connection length [replies/conn]: {length:.3}\n");
}

fn median_ms(outcome: &Outcome) -> f64 {
    let times = &outcome.measures.times.connection;
    let bin = times.value_at_quantile(0.5) / 1_000;
    if times.is_empty() || bin >= MEDIAN_BINS { 0.0 } else { bin as f64 + 0.5 }
}

/// The factor from the deviation of all values to the deviation of a sample, which httperf prints.
fn sample_correction(count: u64) -> f64 {
    if count < 2 { 0.0 } else { (count as f64 / (count - 1) as f64).sqrt() }
}

/// Requests count as soon as they are issued; httperf counts them once they are handed over.
fn requests(text: &mut String, outcome: &Outcome) {
    let counts = &outcome.measures.counts;
    let _ = writeln!(
        text,
        "Request rate: {:.1} req/s ({:.1} ms/req)",
        outcome.per_second(counts.requests),
        ms_each(outcome, counts.requests)
    );
    let size = whole_ratio(counts.bytes_sent, counts.requests);
    let _ = writeln!(text, "Request size [B]: {size:.1}\n");
}

/// * Samples of reply rates count good replies, in the intervals of the series that make up five
///   seconds; httperf counts every reply, by its own clock.
/// * Transfer times are the mean whole time less the mean time of the first byte, of good replies.
/// * Footers include the framing of chunks; httperf's are trailers only.
/// * Replies with an invalid status (`0xx`) are in none of the figures, as in httperf.
fn replies(text: &mut String, outcome: &Outcome) {
    let (counts, times) = (&outcome.measures.counts, &outcome.measures.times);
    let samples = Samples::collect(outcome, |interval| interval.replies);
    let _ = writeln!(
        text,
        "Reply rate [replies/s]: min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)",
        samples.min, samples.mean, samples.max, samples.deviation, samples.count
    );
    let first_byte_ms = times.first_byte.mean() / 1e3;
    let transfer_ms = (times.uncorrected.mean() / 1e3 - first_byte_ms).max(0.0);
    let _ =
        writeln!(text, "Reply time [ms]: response {first_byte_ms:.1} transfer {transfer_ms:.1}");
    let size = |bytes| whole_ratio(bytes, replies_total(counts));
    let (head, body) = (size(counts.head_bytes), size(counts.body_bytes));
    let foot = size(counts.framing_bytes);
    let all = head + body + foot;
    let _ = writeln!(
        text,
        "Reply size [B]: header {head:.1} content {body:.1} footer {foot:.1} (total {all:.1})"
    );
    let [_, informational, good, redirected, client, server] = counts.status;
    let _ = writeln!(
        text,
        "Reply status: 1xx={informational} 2xx={good} 3xx={redirected} 4xx={client} 5xx={server}\n"
    );
}

/// CPU time is that of the whole run, warm-up included.
fn resources(text: &mut String, outcome: &Outcome) {
    let counts = &outcome.measures.counts;
    let (user_s, system_s) = (outcome.cpu_us.0 as f64 / 1e6, outcome.cpu_us.1 as f64 / 1e6);
    let share = |cpu_s: f64| 100.0 * cpu_s / outcome.window_s().max(1e-6);
    let _ = writeln!(
        text,
        "CPU time [s]: user {user_s:.2} system {system_s:.2} (user {:.1}% system {:.1}% total \
         {:.1}%)",
        share(user_s),
        share(system_s),
        share(user_s + system_s)
    );
    let bytes =
        (counts.bytes_sent.saturating_add(counts.head_bytes)).saturating_add(counts.body_bytes);
    let bytes_per_s = outcome.per_second(bytes);
    let _ = writeln!(
        text,
        "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n",
        bytes_per_s / 1024.0,
        bytes_per_s * 8e-6
    );
}

/// * `client-timo`: the timeouts of all four phases.
/// * `socket-timo`: 0. A timeout of the system comes after the generator's, or is `unreachable`.
/// * `connreset`: also a connection that ended before or within a reply. httperf takes a body cut
///   short for a whole one.
/// * `fd-unavail`: no descriptor left, of the process or of the system; so `ftab-full` is 0.
/// * `addrunavail`: no local port left. httperf, which knows the field, counts it as `other`.
/// * `other`: also errors for which httperf does not check: wrong lengths, wrong bytes, replies
///   that are no HTTP. Its manual says to discard a run in which it is not 0.
/// * A wrong status is no error to httperf: it is in the line of statuses. So the total is the
///   number of errors without wrong statuses.
fn errors(text: &mut String, outcome: &Outcome) {
    let errors = &outcome.measures.errors;
    let sum = |kinds: &[ErrorKind]| {
        kinds.iter().fold(0_u64, |sum, kind| sum.saturating_add(errors.get(*kind)))
    };
    let timeouts: Vec<_> = ErrorKind::ALL.into_iter().filter(|kind| kind.is_timeout()).collect();
    let timeouts = sum(&timeouts);
    let refused = errors.get(ErrorKind::Refused);
    let reset = sum(&[ErrorKind::Reset, ErrorKind::ClosedEarly, ErrorKind::ShortBody]);
    let descriptors = errors.get(ErrorKind::OutOfDescriptors);
    let ports = errors.get(ErrorKind::OutOfPorts);
    let other = sum(&[
        ErrorKind::Unreachable,
        ErrorKind::BadLength,
        ErrorKind::BadBytes,
        ErrorKind::BadReply,
        ErrorKind::Other,
    ]);
    let total = errors.total().saturating_sub(errors.get(ErrorKind::BadStatus));
    let _ = writeln!(
        text,
        "Errors: total {total} client-timo {timeouts} socket-timo 0 connrefused {refused} \
         connreset {reset}\n\
         Errors: fd-unavail {descriptors} addrunavail {ports} ftab-full 0 other {other}"
    );
}

/// * Connections for each session: all connections divided by all sessions that ended. httperf
///   leaves out the connections of failed sessions.
/// * Sessions with more replies than `SESSION_LENGTH_MAX` are in the histogram's last place.
fn sessions(text: &mut String, outcome: &Outcome) {
    let (counts, times) = (&outcome.measures.counts, &outcome.measures.times);
    let ended = counts.sessions_completed.saturating_add(counts.sessions_failed);
    let samples = Samples::collect(outcome, |interval| interval.sessions_completed);
    let _ = writeln!(
        text,
        "\nSession rate [sess/s]: min {:.2} avg {:.2} max {:.2} stddev {:.2} ({}/{ended})",
        samples.min,
        outcome.per_second(counts.sessions_completed),
        samples.max,
        samples.deviation,
        counts.sessions_completed
    );
    let connections = ratio(counts.connections, ended);
    let _ = writeln!(text, "Session: avg {connections:.2} connections/session");
    let _ = writeln!(text, "Session lifetime [s]: {:.1}", times.session.mean() / 1e6);
    let _ = writeln!(text, "Session failtime [s]: {:.1}", times.session_failed.mean() / 1e6);
    let lengths = &outcome.measures.replies_per_session;
    let longest = lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
    text.push_str("Session length histogram:");
    for count in lengths.iter().take(longest + 1) {
        let _ = write!(text, " {count}");
    }
    text.push('\n');
}

/// The rates of samples of five seconds.
#[derive(Default)]
struct Samples {
    count: usize,
    min: f64,
    mean: f64,
    max: f64,
    deviation: f64,
}

impl Samples {
    /// Collects the samples of the number that `counted` returns. Only whole samples within the
    /// window count; where intervals do not make up five seconds, as many are joined as come
    /// closest.
    fn collect(outcome: &Outcome, counted: fn(&Interval) -> u64) -> Self {
        let interval_us = outcome.interval_us.max(1);
        let intervals = ((SAMPLE_US + interval_us / 2) / interval_us).max(1) as usize;
        let seconds = intervals as f64 * interval_us as f64 / 1e6;
        let whole = (outcome.window_us / interval_us) as usize;
        let series = &outcome.measures.series;
        let within = &series[..whole.min(series.len())];
        let sum = |sample: &[Interval]| sample.iter().map(counted).sum::<u64>() as f64;
        let rates: Vec<f64> =
            within.chunks_exact(intervals).map(|sample| sum(sample) / seconds).collect();
        if rates.is_empty() {
            return Self::default();
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let squares = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        Self {
            count: rates.len(),
            min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            mean,
            max: rates.iter().copied().fold(0.0, f64::max),
            deviation: (squares / (rates.len() - 1).max(1) as f64).sqrt(),
        }
    }
}

/// Replies with a status from 1xx to 5xx.
fn replies_total(counts: &Counts) -> u64 {
    counts.replies_of_any_status() - counts.status[0]
}

/// Milliseconds of the window for each of `count`.
fn ms_each(outcome: &Outcome, count: u64) -> f64 {
    ratio(outcome.window_us, count) / 1e3
}

fn ratio(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

fn whole_ratio(sum: u64, count: u64) -> f64 {
    sum.checked_div(count).unwrap_or(0) as f64
}

#[cfg(test)]
mod tests;
