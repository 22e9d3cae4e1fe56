//! The body of a request: httperf's quotes and escapes.

use crate::request_log::escape::unescape;

/// The result of reading.
pub(super) enum Contents {
    /// The body, how many bytes of the log it took, and how many of these are line ends.
    Read { body: Vec<u8>, taken: usize, line_ends: u64 },
    /// The quote is still open where the line ends.
    Open,
    /// The log ends after a backslash.
    CutShort,
}

/// Reads the contents at the start of `bytes`, up to the white space that ends them.
pub(super) fn read(bytes: &[u8]) -> Contents {
    let mut body = Vec::new();
    let mut quote = None;
    let mut line_ends = 0;
    let mut position = 0;
    while let Some(&byte) = bytes.get(position) {
        match (byte, quote) {
            (b'\\', _) => {
                position += 1;
                let Some(&escaped) = bytes.get(position) else { return Contents::CutShort };
                line_ends += u64::from(escaped == b'\n');
                body.push(unescape(escaped));
            }
            (b'\n', Some(_)) => return Contents::Open,
            (b' ' | b'\t' | b'\r' | b'\n', None) => break,
            (b'"' | b'\'', None) => quote = Some(byte),
            (_, Some(open)) if open == byte => quote = None,
            _ => body.push(byte),
        }
        position += 1;
    }
    match quote {
        Some(_) => Contents::Open,
        None => Contents::Read { body, taken: position, line_ends },
    }
}

/// Appends `body` in a form that [`read()`] and httperf read back.
pub(super) fn quote(body: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in body {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            other => out.push(other),
        }
    }
    out.push(b'"');
}
