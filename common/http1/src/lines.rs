//! The field lines of a head (RFC 9112, section 5), read alike in requests and responses: where
//! their parts are, and whether they have the bytes that they may have. What a field means is not
//! decided here.

use crate::bytes::{find_no_field_value, find_no_token, is_name, list};

/// A line of a head, or the beginning of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Its end has not arrived.
    Partial,
    /// The blank line, of so many bytes.
    Blank(usize),
    /// A field.
    Field(FieldLine),
}

/// Where the parts of a field line are: `start < name_end < value_start <= value_end < end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldLine {
    pub(crate) start: usize,
    pub(crate) name_end: usize,
    pub(crate) value_start: usize,
    pub(crate) value_end: usize,
    /// After the line's end, which may be a line feed alone.
    pub(crate) end: usize,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineError {
    /// Before its colon there are other bytes than those of a token; or there is no colon.
    Name,
    /// A control byte in the value, or a carriage return without a line feed.
    Value,
}

impl FieldLine {
    /// The name, in the bytes that the line was read from.
    #[inline]
    pub(crate) fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..self.name_end]
    }

    /// The value, in the bytes that the line was read from.
    #[inline]
    pub(crate) fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.value_start..self.value_end]
    }
}

/// Reads the line that begins at `start`. White space around the value is no part of it.
#[inline(always)] // a call for each line would cost a tenth of reading it
pub(crate) fn read_line(bytes: &[u8], start: usize) -> Result<Line, LineError> {
    let Some(name_end) = find_no_token(bytes, start) else { return Ok(Line::Partial) };
    if name_end == start || bytes[name_end] != b':' {
        return read_blank(&bytes[start..]);
    }
    let is_white = |at: usize| matches!(bytes.get(at), Some(b' ' | b'\t'));
    let mut value_start = name_end + 1;
    while is_white(value_start) {
        value_start += 1;
    }
    let Some(mut value_end) = find_no_field_value(bytes, value_start) else {
        return Ok(Line::Partial);
    };
    let end = match (bytes[value_end], bytes.get(value_end + 1)) {
        (b'\r', Some(b'\n')) => value_end + 2,
        (b'\n', _) => value_end + 1,
        (b'\r', None) => return Ok(Line::Partial),
        _ => return Err(LineError::Value),
    };
    while value_end > value_start && is_white(value_end - 1) {
        value_end -= 1;
    }
    Ok(Line::Field(FieldLine { start, name_end, value_start, value_end, end }))
}

/// Reads a line that does not begin with a name and a colon.
#[inline]
fn read_blank(bytes: &[u8]) -> Result<Line, LineError> {
    match bytes {
        [b'\n', ..] => Ok(Line::Blank(1)),
        [b'\r', b'\n', ..] => Ok(Line::Blank(2)),
        [b'\r'] => Ok(Line::Partial),
        [b'\r', ..] => Err(LineError::Value),
        _ => Err(LineError::Name),
    }
}

/// What the options of `Connection` say (RFC 9110, section 7.6.1).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    /// Whether they name fields, which are for one hop then.
    pub(crate) names_fields: bool,
}

impl Options {
    /// Takes in the value of one line, which is mostly a single option.
    #[inline]
    pub(crate) fn take(&mut self, value: &[u8]) {
        match value {
            _ if is_name(value, b"keep-alive") => self.keep_alive = true,
            _ if is_name(value, b"close") => self.close = true,
            _ => self.take_list(value),
        }
    }

    #[inline(never)]
    fn take_list(&mut self, value: &[u8]) {
        for option in list(value) {
            match option {
                _ if is_name(option, b"close") => self.close = true,
                _ if is_name(option, b"keep-alive") => self.keep_alive = true,
                _ => self.names_fields = true,
            }
        }
    }
}

/// The names and values of the fields of a head that was parsed, in the order of its lines and as
/// they were sent, but for white space around the values.
#[derive(Debug, Clone)]
pub struct Lines<'b> {
    rest: &'b [u8],
    /// The places of the first lines, as far as they are known.
    places: &'b [LinePlace],
}

impl<'b> Lines<'b> {
    /// Lines that were read before, without the blank one.
    pub(crate) fn new(rest: &'b [u8]) -> Self {
        Self { rest, places: &[] }
    }

    /// The bytes of the lines that are left.
    #[inline]
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// The name and the value of the next field, and its line with the line's end, which may be a
    /// line feed alone.
    #[inline]
    pub fn next_line(&mut self) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        let (place, others) = match self.places {
            [place, others @ ..] if place.len > 0 => (*place, others),
            _ => return self.search_line(),
        };
        let (line, rest) = self.rest.split_at_checked(place.len.into())?;
        (self.rest, self.places) = (rest, others);
        let value = line.get(place.value_start.into()..place.value_end.into())?;
        Some((line.get(..place.name_len.into())?, value, line))
    }

    /// Reads the next line again, whose place is not known.
    #[inline(never)]
    fn search_line(&mut self) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        let bytes = self.rest;
        let Ok(Line::Field(line)) = read_line(bytes, 0) else { return None };
        self.rest = &bytes[line.end..];
        self.places = self.places.get(1..).unwrap_or_default();
        Some((line.name(bytes), line.value(bytes), &bytes[..line.end]))
    }
}

impl<'b> Iterator for Lines<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().map(|(name, value, _)| (name, value))
    }
}

/// The parts of a line, counted from its beginning; of a length of 0 if the line is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LinePlace {
    name_len: u16,
    value_start: u16,
    value_end: u16,
    /// The length of the line with its end.
    len: u16,
}

/// How many lines are remembered. Most heads have fewer fields.
const PLACES: usize = 16;

/// Where the first lines of a head are, which was parsed: so that who goes through them need not
/// search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The number of lines, of which there may be more than places.
    count: usize,
    places: [LinePlace; PLACES],
}

impl LinePlace {
    #[inline]
    fn of(line: &FieldLine) -> Self {
        let Ok(len) = u16::try_from(line.end - line.start) else { return Self::default() };
        Self {
            len,
            // Parts of a line are shorter than it.
            name_len: (line.name_end - line.start) as u16,
            value_start: (line.value_start - line.start) as u16,
            value_end: (line.value_end - line.start) as u16,
        }
    }
}

impl Places {
    /// Remembers where the next line is, if it is among the first.
    #[inline]
    pub(crate) fn remember(&mut self, line: &FieldLine) {
        if let Some(place) = self.places.get_mut(self.count) {
            *place = LinePlace::of(line);
        }
        self.count += 1;
    }

    /// The number of lines.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The lines, which are those that the places were made of, without the blank one.
    pub(crate) fn lines<'b>(&'b self, lines: &'b [u8]) -> Lines<'b> {
        Lines { rest: lines, places: &self.places[..self.count.min(PLACES)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<Line, LineError>) {
        assert_eq!(read_line(bytes, 0), expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn lines_and_the_blank_one() {
        let field = |name_end, value_start, value_end, end| {
            Ok(Line::Field(FieldLine { start: 0, name_end, value_start, value_end, end }))
        };
        check(b"Host: a\r\n", field(4, 6, 7, 9));
        check(b"Host:a\n\r\n", field(4, 5, 6, 7));
        check(
            b"a-long_name.of.many.bytes: and a value\tof many\xff \t \r\nb",
            field(25, 27, 47, 52),
        );
        check(b"a: \t \r\n", field(1, 5, 5, 7));
        check(b"a:\n", field(1, 2, 2, 3));
        check(b"\r\nb", Ok(Line::Blank(2)));
        check(b"\n\r", Ok(Line::Blank(1)));
        for part in [&b""[..], b"Ho", b"Host:", b"Host: ", b"Host: a", b"Host: a\r", b"\r"] {
            check(part, Ok(Line::Partial));
        }
    }

    #[test]
    fn what_is_no_line() {
        for bytes in [&b":a\r\n"[..], b" a: b\r\n", b"a b\r\n", b"a : b\r\n", b"a\r\n", b"\0"] {
            check(bytes, Err(LineError::Name));
        }
        for bytes in [&b"a: \0\r\n"[..], b"a: b\rc\r\n", b"a:\r\r\n", b"a: b\x7f\r\n", b"\rb"] {
            check(bytes, Err(LineError::Value));
        }
    }

    /// A name and a value.
    type Field<'b> = (&'b [u8], &'b [u8]);

    /// The fields up to the blank line, as [`read_line`] reads them.
    fn fields(bytes: &[u8]) -> Result<Vec<Field<'_>>, &'static str> {
        let (mut at, mut fields) = (0, Vec::new());
        loop {
            match read_line(bytes, at) {
                Ok(Line::Partial) => return Err("partial"),
                Ok(Line::Blank(_)) => return Ok(fields),
                Ok(Line::Field(line)) => {
                    fields.push((line.name(bytes), line.value(bytes)));
                    at = line.end;
                }
                Err(LineError::Name) => return Err("name"),
                Err(LineError::Value) => return Err("value"),
            }
        }
    }

    /// The fields up to the blank line, as another parser reads them.
    fn fields_of_another(bytes: &[u8]) -> Result<Vec<Field<'_>>, &'static str> {
        let mut fields = [httparse::EMPTY_HEADER; 12];
        match httparse::parse_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete((_, fields))) => {
                Ok(fields.iter().map(|field| (field.name.as_bytes(), field.value)).collect())
            }
            Ok(httparse::Status::Partial) => Err("partial"),
            Err(httparse::Error::HeaderName) => Err("name"),
            Err(_) => Err("value"),
        }
    }

    #[test]
    fn lines_are_what_another_parser_reads() {
        let pieces: [&[u8]; 14] = [
            b"a",
            b"Server",
            b"x-long-name-",
            b": ",
            b":",
            b" ",
            b"\t",
            b"\r",
            b"\r\n",
            b"\r\n",
            b"\n",
            b"v\x80_",
            b"\0",
            b"\x7f",
        ];
        let mut number = 1_u64;
        let mut whole = 0;
        for _ in 0..200_000 {
            let mut bytes = b"a: b".to_vec();
            for _ in 0..10 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.extend_from_slice(pieces[(number >> 33) as usize % pieces.len()]);
            }
            let fields = fields(&bytes);
            assert_eq!(fields, fields_of_another(&bytes), "{}", bytes.escape_ascii());
            whole += usize::from(fields.is_ok_and(|fields| fields.len() > 1));
        }
        assert!(whole > 100, "{whole} heads of several lines were compared");
    }
}
