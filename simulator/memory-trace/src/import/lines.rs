//! Lines of a text, one at a time, and numbers in them.

use std::io::{BufRead, Read, Write};

use super::Into;
use crate::error::{Fault, TraceError};

/// The longest line. A longer one is not text, and is not read into memory.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// Calls `with` for each line, with its number from 1 and without its end.
pub(super) fn each<R: BufRead, W: Write>(
    mut from: R,
    into: &mut Into<'_, W>,
    mut with: impl FnMut(&mut Into<'_, W>, u64, &[u8]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let (mut line, mut number, mut offset) = (Vec::new(), 1, 0);
    loop {
        line.clear();
        let read = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        match read.map_err(|why| into.error(offset, Fault::Io(why)))? {
            0 => return Ok(()),
            bytes if bytes as u64 == LINE_BYTES_MAX => {
                let why = format!("line {number} has more than {LINE_BYTES_MAX} bytes: no text");
                return Err(into.error(offset, Fault::Import(why)));
            }
            bytes => offset += bytes as u64,
        }
        with(into, number, line.trim_ascii_end())?;
        number += 1;
    }
}

/// Parses a hexadecimal number, with or without `0x`.
pub(super) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    // `from_str_radix` would accept a sign.
    let plain = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Parses a decimal number.
pub(super) fn decimal(digits: &[u8]) -> Option<u16> {
    let plain = digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
}
