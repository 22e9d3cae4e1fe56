//! httperf's session log (`--wsesslog`), read and written, without httperf's limits.
//!
//! A line is a request: `URI [method=NAME] [think=SECONDS] [contents='…']`. One that begins with
//! white space belongs to the burst of the line before it; a line of white space only ends the
//! session; a line with `#` in column 1 is a comment. The think time, on any line of a burst,
//! follows the whole burst. `contents` may be quoted with either quote; `\n`, `\r`, `\t` have their
//! usual meaning, a backslash before anything else stands for that character, and one at the end of
//! a line for a line feed, after which the contents continue on the next line.
//!
//! Every meaningful log that httperf reads has the same meaning here. Things that httperf accepts
//! but that must be mistakes are errors here: a negative think time, letters after a number or a
//! method, a quote left open. A carriage return before the end of a line is white space.
//!
//! The University of Waterloo's `size=BYTES` (of the reply) is read; its `timeout=` and its
//! `session …` lines are counted and ignored. Ropewalk's own additions are comments to httperf: `#@
//! start=SECONDS` before a session is its start, `#@ reply_bytes=N` before a request is the length
//! that the body of its reply should have, `#@ seen_bytes=N` the length that it once had, which is
//! not checked.

mod contents;
mod reader;
mod split;
mod write;

use std::fmt;

use super::RequestLog;
pub use write::{WriteError, write};

/// The methods that httperf knows.
const METHODS: [&str; 9] =
    ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "PROPFIND", "REPORT", "TRACE"];

/// What is wrong with a log, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct LogError {
    /// The line, from 1.
    pub line: u64,
    /// The byte in the line, from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
}

/// Things in a log that have no meaning here, and how often they occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// `session port=… server=… ssl=…` lines.
    pub session_lines: u64,
    /// `timeout=…` of single requests.
    pub timeouts: u64,
    /// `#@` comments with an unknown directive.
    pub directives: u64,
    /// Different URIs that do not begin with a slash. They are kept as they are.
    pub uris_without_slash: u64,
}

impl Notes {
    fn add(&mut self, other: &Self) {
        self.session_lines += other.session_lines;
        self.timeouts += other.timeouts;
        self.directives += other.directives;
        self.uris_without_slash += other.uris_without_slash;
    }
}

/// The notes, one line for each; nothing if there are none.
impl fmt::Display for Notes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let notes = [
            (self.session_lines, "`session` lines ignored"),
            (self.timeouts, "`timeout=` arguments ignored"),
            (self.directives, "unknown `#@` lines ignored"),
            (self.uris_without_slash, "different URIs without a slash at the front"),
        ];
        for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(out, "{count} {what}")?;
        }
        Ok(())
    }
}

/// Reads a log. `default_think_us` is the pause after a burst without a think time.
///
/// # Errors
/// The first faulty line.
pub fn read(bytes: &[u8], default_think_us: u64) -> Result<RequestLog, LogError> {
    Ok(read_with_notes(bytes, default_think_us, 1)?.0)
}

/// Reads a log with up to `threads` threads; the result is that of [`read`]. `default_think_us` is
/// the pause after a burst without a think time.
///
/// # Errors
/// The first faulty line.
pub fn read_parallel(
    bytes: &[u8],
    default_think_us: u64,
    threads: usize,
) -> Result<RequestLog, LogError> {
    Ok(read_with_notes(bytes, default_think_us, threads)?.0)
}

/// Reads a log with up to `threads` threads, as [`read_parallel`] does, and notes what was ignored.
///
/// # Errors
/// The first faulty line.
pub fn read_with_notes(
    bytes: &[u8],
    default_think_us: u64,
    threads: usize,
) -> Result<(RequestLog, Notes), LogError> {
    // An error needs its line number, which a part does not know: errors are rare, so read again.
    let (builder, mut notes) = match split::read_parts(bytes, default_think_us, threads) {
        Some(read) => read,
        None => reader::read(bytes, default_think_us)?,
    };
    let log = builder.finish().expect("the reader has looked for the builder's errors");
    let relative = log.templates().iter().filter(|template| !template.uri.starts_with(b"/"));
    notes.uris_without_slash = relative.count() as u64;
    Ok((log, notes))
}

/// The white space of the C locale, which ends what httperf reads with `%s`.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Whether `bytes` may stand behind `method=`: one that httperf knows or another in capitals, but
/// not one whose beginning httperf would take for a method it knows.
fn is_method(bytes: &[u8]) -> bool {
    let begins = |known: &&str| bytes.starts_with(known.as_bytes()) && bytes.len() > known.len();
    let capitals = bytes.iter().all(u8::is_ascii_uppercase);
    capitals && !bytes.is_empty() && !METHODS.iter().any(begins)
}

#[cfg(test)]
mod tests;
