//! The text of `valgrind --tool=lackey --trace-mem=yes`.
//!
//! The text does not name the process of a line, and has no system calls: it is imported as one
//! process.

use std::io::{BufRead, Write};

use super::Into;
use super::lines::{decimal, each, hexadecimal};
use crate::error::TraceError;
use crate::event::Event;

/// Imports a trace. Returns the command that the banner names.
pub(super) fn import<R: BufRead, W: Write>(
    from: R,
    into: &mut Into<'_, W>,
) -> Result<Option<String>, TraceError> {
    let mut command = None;
    let process = into.foreign.process;
    each(from, into, |into, number, line| {
        if let Some((first, second)) = events(line) {
            into.event(process, &first)?;
            return second.map_or(Ok(()), |second| into.event(process, &second));
        }
        if is_banner(line) {
            command = command.take().or_else(|| command_of(line));
        } else if !line.is_empty() {
            into.skip(number);
        }
        Ok(())
    })?;
    Ok(command)
}

/// The references in a line: one, or two if memory is modified.
pub(super) fn events(line: &[u8]) -> Option<(Event, Option<Event>)> {
    let (kind, rest) = line.split_at_checked(3)?;
    let comma = rest.iter().position(|byte| *byte == b',')?;
    let address = hexadecimal(&rest[..comma])?;
    let bytes = decimal(&rest[comma + 1..])?;
    match kind {
        b"I  " => Some((Event::fetch(address, bytes), None)),
        b" L " => Some((Event::load(address, bytes), None)),
        b" S " => Some((Event::store(address, bytes), None)),
        b" M " => Some((Event::load(address, bytes), Some(Event::store(address, bytes)))),
        _ => None,
    }
}

/// Whether a line is Valgrind's own message: `==1234== ...`.
pub(super) fn is_banner(line: &[u8]) -> bool {
    line.strip_prefix(b"==").is_some_and(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest[digits..].starts_with(b"==")
    })
}

fn command_of(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    text.split_once("== Command: ").map(|(_, command)| command.to_owned())
}
