//! Headers and processes as bytes: numbers and strings, one after the other.

use crate::process::{Header, Object, Process, Region, RegionKind, Symbol};
use crate::varint::{Cursor, Malformed, put, put_text};

/// The kinds in the order of their numbers in the file.
const KINDS: [RegionKind; 4] =
    [RegionKind::Private, RegionKind::Shared, RegionKind::File, RegionKind::CopyOnWrite];

pub(crate) fn encode_header(header: &Header) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, &header.recorder);
    put_text(&mut out, &header.command);
    put(&mut out, header.notes.len() as u64);
    for (name, value) in &header.notes {
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    out
}

pub(crate) fn decode_header(bytes: &[u8]) -> Result<Header, Malformed> {
    let from = &mut Cursor::new(bytes);
    let recorder = from.text()?;
    let command = from.text()?;
    let notes = list(from, |from| Ok((from.text()?, from.text()?)))?;
    whole(from)?;
    Ok(Header { recorder, command, notes })
}

pub(crate) fn encode_process(process: &Process) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, u64::from(process.id));
    put_option(&mut out, process.parent.as_ref(), |out, parent| put(out, u64::from(*parent)));
    put_text(&mut out, &process.command);
    put(&mut out, process.regions.len() as u64);
    for region in &process.regions {
        put_region(&mut out, region);
    }
    put(&mut out, process.symbols.len() as u64);
    let mut previous = 0;
    for symbol in &process.symbols {
        put_symbol(&mut out, symbol, previous);
        previous = symbol.start;
    }
    out
}

pub(crate) fn decode_process(bytes: &[u8]) -> Result<Process, Malformed> {
    let from = &mut Cursor::new(bytes);
    let id = from.small()?;
    let parent = option(from, Cursor::small)?;
    let command = from.text()?;
    let regions = list(from, region)?;
    let mut previous = 0;
    let symbols = list(from, |from| {
        let symbol = symbol(from, previous)?;
        previous = symbol.start;
        Ok(symbol)
    })?;
    whole(from)?;
    Ok(Process { id, parent, command, regions, symbols })
}

fn put_region(out: &mut Vec<u8>, region: &Region) {
    let kind = KINDS.iter().position(|kind| *kind == region.kind).expect("the table has all kinds");
    put(out, region.start);
    put(out, region.end.wrapping_sub(region.start));
    put(out, kind as u64);
    put_text(out, &region.name);
    put_option(out, region.object.as_ref(), |out, object| {
        put(out, object.device);
        put(out, object.inode);
        put(out, object.offset);
    });
}

fn region(from: &mut Cursor<'_>) -> Result<Region, Malformed> {
    let start = from.number()?;
    let end = start.wrapping_add(from.number()?);
    let kind = *KINDS.get(from.small::<usize>()?).ok_or(Malformed)?;
    let name = from.text()?;
    let object = option(from, |from| {
        Ok(Object { device: from.number()?, inode: from.number()?, offset: from.number()? })
    })?;
    Ok(Region { start, end, kind, name, object })
}

/// Appends a symbol. Symbols are mostly sorted, so that starts are small distances.
fn put_symbol(out: &mut Vec<u8>, symbol: &Symbol, previous: u64) {
    put(out, symbol.start.wrapping_sub(previous));
    put(out, symbol.end.wrapping_sub(symbol.start));
    put_text(out, &symbol.function);
    put_option(out, symbol.file.as_ref(), |out, file| put_text(out, file));
    put_option(out, symbol.line.as_ref(), |out, line| put(out, u64::from(*line)));
}

fn symbol(from: &mut Cursor<'_>, previous: u64) -> Result<Symbol, Malformed> {
    let start = previous.wrapping_add(from.number()?);
    let end = start.wrapping_add(from.number()?);
    let function = from.text()?;
    let file = option(from, Cursor::text)?;
    let line = option(from, Cursor::small)?;
    Ok(Symbol { start, end, function, file, line })
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn option<'b, T>(
    from: &mut Cursor<'b>,
    read: impl FnOnce(&mut Cursor<'b>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match from.byte()? {
        0 => Ok(None),
        1 => read(from).map(Some),
        _ => Err(Malformed),
    }
}

/// Reads a list. No memory is reserved by its length alone, which may be wrong.
fn list<'b, T>(
    from: &mut Cursor<'b>,
    mut read: impl FnMut(&mut Cursor<'b>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let length = from.number()?;
    (0..length).map(|_| read(from)).collect()
}

fn whole(from: &Cursor<'_>) -> Result<(), Malformed> {
    if from.is_at_end() { Ok(()) } else { Err(Malformed) }
}
