//! Dinero's text: in each line a label, an address, and possibly more, which is ignored.

use std::io::{BufRead, Write};

use super::Into;
use super::lines::{each, hexadecimal};
use crate::error::TraceError;
use crate::event::Event;

/// Imports a trace. Returns no command: din contains none.
pub(super) fn import<R: BufRead, W: Write>(
    from: R,
    into: &mut Into<'_, W>,
) -> Result<Option<String>, TraceError> {
    let process = into.foreign.process;
    let bytes = into.foreign.din_bytes;
    each(from, into, |into, number, line| match event(line, bytes) {
        Some(event) => into.event(process, &event),
        None if line.is_empty() => Ok(()),
        None => {
            into.skip(number);
            Ok(())
        }
    })?;
    Ok(None)
}

/// The reference in a line, if it is one: 3 is an escape, 4 a flush.
pub(super) fn event(line: &[u8], bytes: u16) -> Option<Event> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (label, address) = (words.next()?, hexadecimal(words.next()?)?);
    match label {
        b"0" => Some(Event::load(address, bytes)),
        b"1" => Some(Event::store(address, bytes)),
        b"2" => Some(Event::fetch(address, bytes)),
        _ => None,
    }
}
