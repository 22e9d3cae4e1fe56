//! The writer. httperf reads its output; the reader of this module reads back an equal log.

use std::io::{self, Write};

use super::{contents, is_method, is_space};
use crate::request_log::{Request, RequestLog, Template};

/// The number of bytes written to the file at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Why a log was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format cannot express a request.
    #[error(
        "request {} of session {} cannot be written in httperf's format: {reason}",
        .request + 1,
        .session + 1
    )]
    Inexpressible {
        /// The session, from 0.
        session: usize,
        /// The request in it, from 0.
        request: usize,
        /// The reason, in words.
        reason: String,
    },
}

/// Writes `log`, with the lines of `header_comments` as comments in front.
///
/// Reading it back gives an equal log if every template is used and they are in the order of first
/// use, as after reading or pushing; in any case the sessions make the same requests.
///
/// # Errors
/// The system's error, or the first request that the format cannot express: one whose URI is empty,
/// contains white space or control characters, or begins with `#`; one whose method is not all
/// capitals, or a longer form of one that httperf knows; one with a NUL in its body, where httperf
/// would end it.
pub fn write(
    log: &RequestLog,
    out: &mut impl Write,
    header_comments: &str,
) -> Result<(), WriteError> {
    let mut piece = Vec::with_capacity(2 * PIECE_BYTES);
    for line in header_comments.lines() {
        writeln!(piece, "# {line}")?;
    }
    let reasons: Vec<_> = log.templates().iter().map(inexpressible).collect();
    for session in 0..log.sessions() {
        if session > 0 {
            piece.push(b'\n');
        }
        if let Some(start_us) = log.start_us(session) {
            writeln!(piece, "#@ start={}.{:06}", start_us / 1_000_000, start_us % 1_000_000)?;
        }
        let requests = log.session(session);
        for (index, request) in requests.iter().enumerate() {
            if let Some(reason) = &reasons[request.template()] {
                let reason = reason.clone();
                return Err(WriteError::Inexpressible { session, request: index, reason });
            }
            let ends_burst = requests.get(index + 1).is_none_or(|next| !next.joins());
            line(&mut piece, &log.templates()[request.template()], *request, ends_burst)?;
        }
        if piece.len() >= PIECE_BYTES {
            out.write_all(&piece)?;
            piece.clear();
        }
    }
    out.write_all(&piece)?;
    Ok(out.flush()?)
}

/// Writes one request. The pause is always written: a reader's default may be any.
fn line(
    out: &mut Vec<u8>,
    template: &Template,
    request: Request,
    ends_burst: bool,
) -> io::Result<()> {
    if let Some(bytes) = template.reply_bytes {
        writeln!(out, "#@ reply_bytes={bytes}")?;
    } else if let Some(bytes) = template.seen_bytes {
        writeln!(out, "#@ seen_bytes={bytes}")?;
    }
    if request.joins() {
        out.push(b'\t');
    }
    out.extend_from_slice(&template.uri);
    if &*template.method != "GET" {
        write!(out, " method={}", template.method)?;
    }
    if !template.body.is_empty() {
        out.extend_from_slice(b" contents=");
        contents::quote(&template.body, out);
    }
    if ends_burst {
        think(out, request.pause_us())?;
    }
    out.push(b'\n');
    Ok(())
}

/// Writes ` think=SECONDS`, without trailing zeros.
fn think(out: &mut Vec<u8>, pause_us: u64) -> io::Result<()> {
    write!(out, " think={}", pause_us / 1_000_000)?;
    let mut fraction = pause_us % 1_000_000;
    let mut digits = 6;
    while fraction != 0 && fraction.is_multiple_of(10) {
        fraction /= 10;
        digits -= 1;
    }
    if fraction != 0 { write!(out, ".{fraction:0digits$}") } else { Ok(()) }
}

/// Why the format cannot express `template`, if it cannot.
fn inexpressible(template: &Template) -> Option<String> {
    let uri = &template.uri;
    let shown = || format!("the URI `{}`", uri.escape_ascii());
    if uri.is_empty() {
        Some("the URI is empty".into())
    } else if uri.iter().any(|&byte| is_space(byte)) {
        Some(format!("{} holds white space", shown()))
    } else if uri.iter().any(u8::is_ascii_control) {
        Some(format!("{} holds a control character", shown()))
    } else if uri.starts_with(b"#") {
        Some(format!("{} begins with #, as comments do", shown()))
    } else if !is_method(template.method.as_bytes()) {
        Some(format!("the method `{}` is no known one", template.method.escape_debug()))
    } else if template.body.contains(&0) {
        Some(format!("the body of {} holds a NUL", shown()))
    } else {
        None
    }
}
