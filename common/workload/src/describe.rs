//! The description of a request log: sessions, pauses, bytes, the working-set curve, and how far it
//! is from the mix that it should follow.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::fileset::File;
use crate::fit::{Counts, Fit};
use crate::mix::Mix;
use crate::request_log::{RequestLog, Template};
use crate::working_set::{SHARES, WorkingSet, working_sets};

const US_PER_S: f64 = 1e6;
const MIB: f64 = 1_048_576.0;

/// The description of a request log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of requests of all sessions.
    pub requests: u64,
    /// Requests per session.
    pub session_length: Spread,
    /// Requests per burst.
    pub burst_length: Spread,
    /// The pauses other than 0, in seconds; pauses at the end of a session do not count.
    pub think_s: Spread,
    /// From the start of the first session to that of the last, in seconds, if the log has starts.
    pub starts_span_s: Option<f64>,
    /// The bytes of the replies.
    pub bytes: Bytes,
    /// The most popular files that together get 50, 90, 95 and 99 % of the requests, among files of
    /// known length.
    pub working_set: Vec<WorkingSet>,
    /// How the requests fit the mix of a SPECweb99 set, if there is one to compare with.
    pub fit: Option<Fit>,
}

/// A summary of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many numbers there are.
    pub count: u64,
    /// Their mean; 0 if there are none.
    pub mean: f64,
    /// The largest; 0 if there are none.
    pub max: f64,
}

/// The bytes of the replies, headers not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bytes {
    /// Requests whose reply's length is known: from the name of the file or from the log.
    pub requests_of_known_length: u64,
    /// The mean length of these replies; those to HEAD have none.
    pub mean: f64,
    /// How many requests are HEAD.
    pub head_requests: u64,
    /// The number of different URIs.
    pub files: u64,
    /// The number of different URIs whose length is known.
    pub files_of_known_length: u64,
    /// The sum of these lengths.
    pub files_bytes: u64,
}

/// Describes `log`; `target` is the mix that it should follow.
#[must_use]
pub fn describe(log: &RequestLog, target: Option<&Mix>) -> Description {
    let popularity = popularity(log);
    let files = files(log, &popularity);
    let known: Vec<(RequestedFile, u64)> =
        files.values().filter_map(|file| Some((*file, file.bytes?))).collect();
    let last = log.sessions().checked_sub(1);
    Description {
        sessions: log.sessions() as u64,
        requests: log.requests() as u64,
        session_length: (0..log.sessions()).map(|i| log.session(i).len() as f64).collect(),
        burst_length: burst_lengths(log).collect(),
        think_s: pauses_s(log).collect(),
        starts_span_s: last.and_then(|last| log.start_us(last)).map(|us| us as f64 / US_PER_S),
        bytes: Bytes::from_lengths(&files, &known),
        working_set: working_sets(
            known.iter().map(|&(file, bytes)| (file.requests as f64, bytes)).collect(),
            &SHARES,
        ),
        fit: target.and_then(|mix| fit(log, &popularity, mix)),
    }
}

/// The bytes of the replies, given a function that returns the length of each URI.
#[must_use]
pub fn bytes_with_lengths(log: &RequestLog, length: impl Fn(&[u8]) -> Option<u64>) -> Bytes {
    let files = files(log, &popularity(log));
    let known = files.iter().filter_map(|(uri, file)| Some((*file, length(uri)?)));
    Bytes::from_lengths(&files, &known.collect::<Vec<_>>())
}

/// The SPECweb99 mix to compare `log` with by default: the classes' published shares, alpha 1, and
/// as many directories as its names need. `None` if it has no such names.
#[must_use]
pub fn guess_target(log: &RequestLog) -> Option<Mix> {
    let last = log.templates().iter().filter_map(|template| match located(template)? {
        File::Spec { directory, .. } => Some(directory),
        File::Single { .. } => None,
    });
    last.max().map(|last| Mix::spec99(last + 1))
}

/// How often each template is requested.
fn popularity(log: &RequestLog) -> Vec<u64> {
    let mut counts = vec![0; log.templates().len()];
    for index in 0..log.sessions() {
        for request in log.session(index) {
            counts[request.template()] += 1;
        }
    }
    counts
}

/// What is known of a requested file.
#[derive(Clone, Copy, Debug, Default)]
struct RequestedFile {
    requests: u64,
    /// The number of HEAD requests among them.
    head_requests: u64,
    bytes: Option<u64>,
}

/// The requests by URI: templates of one URI (other methods, other bodies) are one file.
fn files<'l>(log: &'l RequestLog, popularity: &[u64]) -> HashMap<&'l [u8], RequestedFile> {
    let mut files: HashMap<&[u8], RequestedFile> = HashMap::with_capacity(log.templates().len());
    for (template, &requests) in log.templates().iter().zip(popularity) {
        let file = files.entry(&template.uri).or_default();
        file.requests += requests;
        file.head_requests += if &*template.method == "HEAD" { requests } else { 0 };
        let named = located(template).map(|file| file.bytes());
        // An access log may have several lengths for one URI (304, a range): the longest is right.
        file.bytes = file.bytes.max(named.or(template.reply_bytes).or(template.seen_bytes));
    }
    files
}

/// The file of a file set that a template names.
fn located(template: &Template) -> Option<File> {
    let path = template.uri.split(|&byte| byte == b'?').next()?;
    File::locate(path)
}

fn burst_lengths(log: &RequestLog) -> impl Iterator<Item = f64> + '_ {
    (0..log.sessions()).flat_map(|index| {
        let bursts = log.session(index).chunk_by(|_, next| next.joins());
        bursts.map(|burst| burst.len() as f64)
    })
}

fn pauses_s(log: &RequestLog) -> impl Iterator<Item = f64> + '_ {
    log.pauses_us().filter(|&us| us > 0).map(|us| us as f64 / US_PER_S)
}

fn fit(log: &RequestLog, popularity: &[u64], mix: &Mix) -> Option<Fit> {
    let mut counts = Counts::new(mix.directories);
    for (template, &requests) in log.templates().iter().zip(popularity) {
        if let Some(file) = located(template) {
            counts.add(file, requests);
        }
    }
    counts.fit(mix)
}

impl Bytes {
    fn from_lengths(files: &HashMap<&[u8], RequestedFile>, known: &[(RequestedFile, u64)]) -> Self {
        let requests: u64 = known.iter().map(|(file, _)| file.requests).sum();
        let with_body = |file: &RequestedFile| (file.requests - file.head_requests) as f64;
        let total: f64 = known.iter().map(|(file, bytes)| with_body(file) * *bytes as f64).sum();
        Self {
            requests_of_known_length: requests,
            mean: if requests > 0 { total / requests as f64 } else { 0.0 },
            head_requests: files.values().map(|file| file.head_requests).sum(),
            files: files.len() as u64,
            files_of_known_length: known.len() as u64,
            files_bytes: known.iter().fold(0, |sum: u64, file| sum.saturating_add(file.1)),
        }
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<T: IntoIterator<Item = f64>>(numbers: T) -> Self {
        let (mut count, mut sum, mut max) = (0_u64, 0.0, 0.0_f64);
        for number in numbers {
            count += 1;
            sum += number;
            max = max.max(number);
        }
        Self { count, mean: if count > 0 { sum / count as f64 } else { 0.0 }, max }
    }
}

impl Description {
    /// The description as JSON, with a line feed at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("numbers and names: nothing that JSON cannot hold") + "\n"
    }
}

/// The description for people, a line for each fact.
impl fmt::Display for Description {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, requests, session_length, burst_length, think_s, bytes, .. } = self;
        let heads = match bytes.head_requests {
            0 => String::new(),
            heads => format!(", {heads} of them HEAD"),
        };
        writeln!(out, "{sessions} sessions, {requests} requests{heads}")?;
        let Spread { mean, max, .. } = session_length;
        writeln!(out, "session length: mean {mean:.2}, longest {max}")?;
        if burst_length.max > 1.0 {
            let Spread { count, mean, max } = burst_length;
            writeln!(out, "bursts: {count}, mean length {mean:.2}, longest {max}")?;
        }
        match think_s {
            Spread { count: 0, .. } => writeln!(out, "pauses: none")?,
            Spread { count, mean, max } => {
                writeln!(out, "pauses: {count}, mean {mean:.3} s, longest {max:.3} s")?;
            }
        }
        if let Some(span) = self.starts_span_s {
            writeln!(out, "sessions start over {span:.1} s")?;
        }
        write_bytes(out, bytes, *requests)?;
        for WorkingSet { share, files, bytes } in &self.working_set {
            let (percent, mib) = (share * 100.0, *bytes as f64 / MIB);
            writeln!(out, "{percent:.0} % of requests: {files} files, {mib:.1} MiB")?;
        }
        self.fit.as_ref().map_or(Ok(()), |fit| fit.fmt(out))
    }
}

fn write_bytes(out: &mut fmt::Formatter<'_>, bytes: &Bytes, requests: u64) -> fmt::Result {
    let Bytes { requests_of_known_length: known, mean, files, files_of_known_length, .. } = *bytes;
    if known == 0 {
        return writeln!(out, "replies: no length is known; {files} different files");
    }
    write!(out, "replies: mean {mean:.0} bytes")?;
    if known < requests {
        write!(out, " (known of {known} requests)")?;
    }
    let mib = bytes.files_bytes as f64 / MIB;
    write!(out, "; {files} different files, {mib:.1} MiB")?;
    if files_of_known_length < files {
        write!(out, " in the {files_of_known_length} of known length")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests;
