//! The reader: a pass over the bytes, without an allocation per line.

use std::str;

use super::contents::{self, Contents};
use super::{LogError, Notes, is_method, is_space};
use crate::request_log::decimal;
use crate::request_log::index::BATCH;
use crate::request_log::{Builder, RequestLog, Template};

/// The words of the University of Waterloo's line before a session.
const SESSION_WORDS: [&[u8]; 3] = [b"port=", b"server=", b"ssl="];

/// Reads all of `bytes`; the last session is ended.
pub(super) fn read(bytes: &[u8], default_think_us: u64) -> Result<(Builder, Notes), LogError> {
    let mut reader = Reader {
        bytes,
        position: 0,
        line_start: 0,
        line: 0,
        default_think_us,
        is_between_sessions: true,
        burst_pause_us: default_think_us,
        start_line: None,
        length: None,
        waiting: Vec::with_capacity(BATCH),
        builder: RequestLog::builder(),
        notes: Notes::default(),
    };
    while reader.position < bytes.len() {
        reader.line()?;
    }
    reader.end_session()?;
    reader.pass_waiting_on()?;
    Ok((reader.builder, reader.notes))
}

struct Reader<'b> {
    bytes: &'b [u8],
    /// The position of the next byte.
    position: usize,
    /// The start of the line under way, and its number.
    line_start: usize,
    line: u64,
    default_think_us: u64,
    is_between_sessions: bool,
    /// The pause after the burst under way, as far as it is known.
    burst_pause_us: u64,
    /// The line of a `#@ start=` whose session has not begun.
    start_line: Option<u64>,
    /// The length in a `#@ reply_bytes=` or `#@ seen_bytes=` whose request has not come, with its
    /// line.
    length: Option<(Length, u64)>,
    /// Requests that were read but not yet passed to the builder.
    waiting: Vec<Waiting<'b>>,
    builder: Builder,
    notes: Notes,
}

/// What the log has about the length of a reply.
#[derive(Clone, Copy)]
enum Length {
    Firm(u64),
    Seen(u64),
}

/// A plain GET.
struct Waiting<'b> {
    uri: &'b [u8],
    joins: bool,
    pause_us: u64,
    line: u64,
    /// The line that ended the session after the request.
    ended: Option<u64>,
}

/// The arguments behind a URI.
#[derive(Default)]
struct Arguments<'b> {
    method: Option<&'b str>,
    body: Vec<u8>,
    reply_bytes: Option<u64>,
}

impl<'b> Reader<'b> {
    /// Reads one line; more if contents go over several.
    #[inline]
    fn line(&mut self) -> Result<(), LogError> {
        self.line_start = self.position;
        self.line += 1;
        let first = self.bytes[self.position];
        if first == b'#' {
            return self.comment();
        }
        let leads = is_space(first);
        if leads && self.skip_space() {
            return self.end_session();
        }
        let uri = self.token()?;
        if self.is_between_sessions && uri == b"session" && self.session_line() {
            return Ok(());
        }
        if self.is_between_sessions || !leads {
            self.burst_pause_us = self.default_think_us;
        }
        let line = self.line;
        let is_plain = self.plain_rest();
        self.is_between_sessions = false;
        self.start_line = None;
        if !is_plain || self.length.is_some() {
            let arguments = if is_plain { Arguments::default() } else { self.arguments()? };
            return self.request(uri, leads, arguments);
        }
        let pause_us = self.burst_pause_us;
        self.waiting.push(Waiting { uri, joins: leads, pause_us, line, ended: None });
        if self.waiting.len() == BATCH { self.pass_waiting_on() } else { Ok(()) }
    }

    /// Passes the waiting requests to the builder.
    fn pass_waiting_on(&mut self) -> Result<(), LogError> {
        let mut uris = [&b""[..]; BATCH];
        for (uri, waiting) in uris.iter_mut().zip(&self.waiting) {
            *uri = waiting.uri;
        }
        let templates = self.builder.intern_gets(&uris[..self.waiting.len()]);
        for (waiting, template) in self.waiting.drain(..).zip(templates) {
            self.builder.push_known(template as usize, waiting.joins, waiting.pause_us);
            check(&self.builder, waiting.line)?;
            if let Some(line) = waiting.ended {
                self.builder.end_session();
                check(&self.builder, line)?;
            }
        }
        Ok(())
    }

    /// The rest of nearly all lines: nothing, or a think time in plain decimals.
    #[inline]
    fn plain_rest(&mut self) -> bool {
        let rest = &self.bytes[self.position..];
        if rest.first() == Some(&b'\n') {
            self.position += 1;
            return true;
        }
        let Some(number) = rest.strip_prefix(b" think=") else { return rest.is_empty() };
        let Some((pause_us, taken)) = decimal::leading_us(number) else { return false };
        if number.get(taken) != Some(&b'\n') {
            return false;
        }
        self.burst_pause_us = pause_us;
        self.position += b" think=".len() + taken + 1;
        true
    }

    /// A request that is more than a plain GET.
    fn request(
        &mut self,
        uri: &[u8],
        joins: bool,
        arguments: Arguments<'b>,
    ) -> Result<(), LogError> {
        self.pass_waiting_on()?;
        let (reply_bytes, seen_bytes) = match (arguments.reply_bytes, self.length.take()) {
            // What the line itself states takes precedence over the comment before it.
            (Some(bytes), _) | (None, Some((Length::Firm(bytes), _))) => (Some(bytes), None),
            (None, Some((Length::Seen(bytes), _))) => (None, Some(bytes)),
            (None, None) => (None, None),
        };
        let template = Template {
            method: arguments.method.unwrap_or("GET").into(),
            uri: uri.into(),
            body: arguments.body.into(),
            reply_bytes,
            seen_bytes,
        };
        self.builder.push(template, joins, self.burst_pause_us);
        check(&self.builder, self.line)
    }

    /// Reads to the end of the line.
    fn arguments(&mut self) -> Result<Arguments<'b>, LogError> {
        let mut arguments = Arguments::default();
        while !self.skip_space() {
            self.argument(&mut arguments)?;
        }
        Ok(arguments)
    }

    /// Reads the argument at the position.
    fn argument(&mut self, arguments: &mut Arguments<'b>) -> Result<(), LogError> {
        let start = self.position;
        let body = self.bytes[start..].strip_prefix(b"contents=");
        if body.and_then(<[u8]>::first).is_some_and(|&byte| !is_space(byte)) {
            arguments.body = self.contents(start + b"contents=".len())?;
            return Ok(());
        }
        let word = self.token()?;
        let parts = word.iter().position(|&byte| byte == b'=').map(|at| word.split_at(at + 1));
        let Some((name, value)) = parts.filter(|(_, value)| !value.is_empty()) else {
            return Err(self.unknown(word, start));
        };
        let value_start = start + name.len();
        match name {
            b"think=" => {
                let pause_us = decimal::us(value);
                self.burst_pause_us = pause_us.ok_or_else(|| {
                    self.error(value_start, format!("{} is no think time", shown(value)))
                })?;
            }
            b"method=" => arguments.method = Some(self.method(value, value_start)?),
            b"size=" => {
                let bytes = decimal::whole(value);
                let bytes = bytes.ok_or_else(|| {
                    self.error(value_start, format!("{} is no size", shown(value)))
                })?;
                arguments.reply_bytes = Some(bytes);
            }
            b"timeout=" => self.notes.timeouts += 1,
            _ => return Err(self.unknown(word, start)),
        }
        Ok(())
    }

    fn method(&self, value: &'b [u8], start: usize) -> Result<&'b str, LogError> {
        let method = str::from_utf8(value).ok().filter(|_| is_method(value));
        method.ok_or_else(|| self.error(start, format!("{} is no method", shown(value))))
    }

    fn contents(&mut self, start: usize) -> Result<Vec<u8>, LogError> {
        match contents::read(&self.bytes[start..]) {
            Contents::Read { body, taken, line_ends } => {
                self.position = start + taken;
                self.line += line_ends;
                if line_ends > 0 {
                    let before = &self.bytes[..self.position];
                    self.line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
                }
                Ok(body)
            }
            Contents::Open => Err(self.error(start, "the quote is not closed")),
            Contents::CutShort => Err(self.error(start, "the log ends after a backslash")),
        }
    }

    /// Reads a comment, or one of Ropewalk's own lines that look like one.
    fn comment(&mut self) -> Result<(), LogError> {
        let start = self.position;
        let rest = &self.bytes[start..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.position = (start + end + 1).min(self.bytes.len());
        let Some(said) = rest[..end].strip_prefix(b"#@") else { return Ok(()) };
        let said = said.trim_ascii();
        if let Some(value) = said.strip_prefix(b"start=") {
            return self.start(value, start);
        }
        let length = if let Some(value) = said.strip_prefix(b"reply_bytes=") {
            Length::Firm(self.byte_count(value, start)?)
        } else if let Some(value) = said.strip_prefix(b"seen_bytes=") {
            Length::Seen(self.byte_count(value, start)?)
        } else {
            self.notes.directives += 1;
            return Ok(());
        };
        self.length = Some((length, self.line));
        Ok(())
    }

    fn byte_count(&self, value: &[u8], position: usize) -> Result<u64, LogError> {
        let wrong = || self.error(position, format!("{} is no number of bytes", shown(value)));
        decimal::whole(value).ok_or_else(wrong)
    }

    fn start(&mut self, value: &[u8], position: usize) -> Result<(), LogError> {
        if !self.is_between_sessions {
            return Err(self.error(position, "start= stands within a session, not before it"));
        }
        let start_us = decimal::us(value)
            .ok_or_else(|| self.error(position, format!("{} is no start time", shown(value))))?;
        self.pass_waiting_on()?; // the builder means the session after the last it knows
        self.builder.start_us(start_us);
        self.start_line = Some(self.line);
        Ok(())
    }

    /// Ends the session, at a blank line or at the end of the log.
    fn end_session(&mut self) -> Result<(), LogError> {
        let unused = [(self.start_line, "session"), (self.length.map(|of| of.1), "request")];
        if let [(Some(line), what), ..] | [_, (Some(line), what)] = unused {
            let message = format!("no {what} follows this directive");
            return Err(LogError { line, column: 1, message });
        }
        self.is_between_sessions = true;
        if let Some(last) = self.waiting.last_mut() {
            last.ended.get_or_insert(self.line);
            return Ok(());
        }
        self.builder.end_session();
        check(&self.builder, self.line)
    }

    /// Skips the rest of a line that begins with `session`, if it is one of those before a session.
    fn session_line(&mut self) -> bool {
        let rest = &self.bytes[self.position..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let mut words = rest[..end].split(|&byte| is_space(byte)).filter(|w| !w.is_empty());
        let is_known = |word: &[u8]| SESSION_WORDS.iter().any(|known| word.starts_with(known));
        let is_session = words.clone().next().is_some() && words.all(is_known);
        if is_session {
            self.position = (self.position + end + 1).min(self.bytes.len());
            self.notes.session_lines += 1;
        }
        is_session
    }

    /// Skips white space; true if the line ends with it, which is then skipped, too.
    fn skip_space(&mut self) -> bool {
        while let Some(&byte) = self.bytes.get(self.position) {
            if !is_space(byte) {
                return false;
            }
            self.position += 1;
            if byte == b'\n' {
                return true;
            }
        }
        true
    }

    /// The bytes up to the next white space.
    #[inline]
    fn token(&mut self) -> Result<&'b [u8], LogError> {
        let bytes = self.bytes;
        let start = self.position;
        self.position = low_byte(bytes, start);
        match bytes.get(self.position) {
            Some(&byte) if !is_space(byte) => Err(self.control_character(byte)),
            _ => Ok(&bytes[start..self.position]),
        }
    }

    #[cold]
    fn control_character(&self, byte: u8) -> LogError {
        self.error(self.position, format!("a control character, {byte:#04x}"))
    }

    fn unknown(&self, word: &[u8], start: usize) -> LogError {
        let known = "method=, think=, contents=, size= or timeout=";
        self.error(start, format!("{} is not {known} with a value", shown(word)))
    }

    fn error(&self, position: usize, message: impl Into<String>) -> LogError {
        let column = (position - self.line_start) as u64 + 1;
        LogError { line: self.line, column, message: message.into() }
    }
}

/// Returns the builder's error, if there is one since `line`.
#[inline]
fn check(builder: &Builder, line: u64) -> Result<(), LogError> {
    match builder.error() {
        None => Ok(()),
        Some(error) => Err(LogError { line, column: 1, message: error.to_string() }),
    }
}

/// A piece of the log for a message.
fn shown(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 60;
    let dots = if bytes.len() > BYTES_MAX { "…" } else { "" };
    format!("`{}{dots}`", bytes[..bytes.len().min(BYTES_MAX)].escape_ascii())
}

/// The index of the first byte from `start` on that is at most a space, or the end. Eight at a
/// time: in each, the lowest byte whose subtraction of 0x21 borrows is found exactly, since only
/// bytes above it can be wrong.
#[inline]
fn low_byte(bytes: &[u8], start: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let mut position = start;
    while let Some(chunk) = bytes[position..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let low = word.wrapping_sub(ONES * 0x21) & !word & (ONES * 0x80);
        if low != 0 {
            return position + low.trailing_zeros() as usize / 8;
        }
        position += 8;
    }
    let rest = bytes[position..].iter().position(|&byte| byte <= b' ');
    rest.map_or(bytes.len(), |at| position + at)
}
