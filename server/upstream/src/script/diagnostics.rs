//! What an application writes to standard error: it is always read, because a process that cannot
//! write waits, and it goes to operators line by line. Clients get nothing of it.

use std::fmt;

/// Bytes of standard error that are reported of a request. What comes after them is read and
/// dropped.
const REPORTED_BYTES_MAX: usize = 64 * 1024;

/// A line is reported in pieces of so many bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Standard error of one request.
#[derive(Clone)]
pub struct Diagnostics {
    name: Box<str>,
    target: Box<[u8]>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// How many bytes may still be reported.
    left: usize,
}

impl Diagnostics {
    /// Of a request for `target` to the application with this name.
    #[must_use]
    pub fn new(name: &str, target: &[u8]) -> Self {
        let (line, left) = (Vec::new(), REPORTED_BYTES_MAX);
        Self { name: name.into(), target: target.into(), line, left }
    }

    /// Takes bytes, and reports the lines that are whole.
    pub fn take(&mut self, bytes: &[u8], mut report: impl FnMut(&Diagnostic<'_>)) {
        let bytes = &bytes[..bytes.len().min(self.left)];
        self.left -= bytes.len();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            for piece in piece.chunks(LINE_BYTES_MAX) {
                self.line.extend_from_slice(piece);
                if piece.ends_with(b"\n") || self.line.len() >= LINE_BYTES_MAX {
                    self.report(&mut report);
                }
            }
        }
        if self.left == 0 {
            self.report(report);
        }
    }

    /// The request is over, with a status of the application, of which 0 says that all is well.
    pub fn end(&mut self, status: u32, mut report: impl FnMut(&Diagnostic<'_>)) {
        self.report(&mut report);
        if status != 0 {
            self.report_line(&format!("it ended with status {status}"), report);
        }
    }

    /// Reports a line that is not the application's, but about it.
    pub fn report_line(&self, line: &str, mut report: impl FnMut(&Diagnostic<'_>)) {
        report(&Diagnostic { name: &self.name, target: &self.target, line: line.as_bytes() });
    }

    fn report(&mut self, mut report: impl FnMut(&Diagnostic<'_>)) {
        let line = self.line.trim_ascii_end();
        if !line.is_empty() {
            report(&Diagnostic { name: &self.name, target: &self.target, line });
        }
        self.line.clear();
    }
}

/// A line that an application has written to standard error.
#[derive(Clone, Copy, Debug)]
pub struct Diagnostic<'d> {
    /// The name of the application.
    pub name: &'d str,
    /// The target of the request.
    pub target: &'d [u8],
    /// The line, without its end.
    pub line: &'d [u8],
}

impl fmt::Display for Diagnostic<'_> {
    /// One line, whatever bytes it has: control characters are escaped.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.name)?;
        put_plain(out, self.target)?;
        out.write_str(": ")?;
        put_plain(out, self.line)
    }
}

fn put_plain(out: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    String::from_utf8_lossy(bytes).chars().try_for_each(|c| match c.is_control() {
        true => write!(out, "{}", c.escape_default()),
        false => write!(out, "{c}"),
    })
}
