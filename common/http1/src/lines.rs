//! The field lines of a head (RFC 9112, section 5), read alike in requests and responses: where
//! their parts are, and whether they have the bytes that they may have. What a field means is not
//! decided here.

use crate::bytes::{find, find_no_field_value, find_no_token, is_name, list, trim};

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

    /// Whether the line is written as others are: name, colon, a space, value, and the usual end.
    #[inline]
    fn is_usual(&self, bytes: &[u8]) -> bool {
        self.value_start == self.name_end + 2
            && self.end == self.value_end + 2
            && bytes[self.name_end + 1] == b' '
            && bytes[self.value_end] == b'\r'
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
    // Mostly there is one space before the value, and none after it.
    let mut value_start = name_end + 1 + usize::from(bytes.get(name_end + 1) == Some(&b' '));
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

/// A field that is for one hop by its definition (RFC 9110, section 7.6.1); framing included, which
/// each recipient makes anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HopField {
    Connection,
    ContentLength,
    TransferEncoding,
    /// One that decides neither about the end of a message nor about the connection.
    Other,
}

impl HopField {
    #[inline]
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        let is = |other: &[u8]| is_name(name, other);
        let is_other = match name.len() {
            2 => is(b"te"),
            7 => is(b"trailer") || is(b"upgrade"),
            10 if is(b"connection") => return Some(Self::Connection),
            10 => is(b"keep-alive"),
            14 if is(b"content-length") => return Some(Self::ContentLength),
            16 => is(b"proxy-connection"),
            17 if is(b"transfer-encoding") => return Some(Self::TransferEncoding),
            18 => is(b"proxy-authenticate"),
            19 => is(b"proxy-authorization"),
            _ => false,
        };
        is_other.then_some(Self::Other)
    }
}

/// Whether a field is not for the next recipient by its definition (RFC 9110, section 7.6.1).
#[inline]
pub fn is_for_one_hop(name: &[u8]) -> bool {
    HopField::from_name(name).is_some()
}

/// The names and values of the fields of a head or a trailer that was parsed, in the order of its
/// lines and as they were sent, but for white space around the values.
#[derive(Debug, Clone)]
pub struct Lines<'b> {
    rest: &'b [u8],
}

/// The fields of a trailer, whose lines
/// [`BodySkipper::read_with_trailer`](crate::BodySkipper::read_with_trailer) has gathered.
pub fn trailer_lines(lines: &[u8]) -> Lines<'_> {
    Lines::new(lines)
}

impl<'b> Lines<'b> {
    /// Lines that were read before, without the blank one.
    pub(crate) fn new(rest: &'b [u8]) -> Self {
        Self { rest }
    }

    /// The lines that follow, as they were sent.
    #[inline]
    pub fn as_bytes(&self) -> &'b [u8] {
        self.rest
    }

    /// The name and the value of the next field, and its line with the line's end, which may be a
    /// line feed alone. The line was checked before: only its parts are looked for.
    #[inline]
    pub fn next_line(&mut self) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        let is_field = |bytes| matches!(read_line(bytes, 0), Ok(Line::Field(_)));
        debug_assert!(self.rest.is_empty() || is_field(self.rest), "the lines were not checked");
        let (name, after_name) = self.rest.split_at(find(b':', self.rest)?);
        let value_and_end = &after_name[1..];
        let len = find(b'\n', value_and_end)?;
        let value = value_and_end[..len].strip_suffix(b"\r").unwrap_or(&value_and_end[..len]);
        let line;
        (line, self.rest) = self.rest.split_at(name.len() + len + 2); // with colon and line feed
        Some((name, trim(value), line))
    }
}

impl<'b> Iterator for Lines<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().map(|(name, value, _)| (name, value))
    }
}

/// The most runs that are remembered. Few heads have more.
const RUNS: usize = 4;

/// Lines of a head that may be passed on as they are, in runs of those that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: [(u32, u32); RUNS],
    count: usize,
    /// The last run, which may go on.
    last: (usize, usize),
    /// Whether no other line is to be passed on.
    is_all: bool,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self { runs: [(0, 0); RUNS], count: 0, last: (0, 0), is_all: true }
    }

    /// Adds a line that is to be passed on, after those before it.
    #[inline]
    pub(crate) fn add(&mut self, line: &FieldLine, bytes: &[u8]) {
        self.is_all &= line.is_usual(bytes);
        if self.last.1 != line.start {
            self.end();
            self.last.0 = line.start;
        }
        self.last.1 = line.end;
    }

    /// Ends the last run.
    #[inline]
    pub(crate) fn end(&mut self) {
        let (start, end) = self.last;
        if start == end {
            return;
        }
        match self.runs.get_mut(self.count) {
            Some(run) => {
                *run = (start as u32, end as u32); // a head is far shorter than 4 GiB
                self.count += 1;
            }
            None => self.is_all = false,
        }
    }

    /// The lines of all runs; none if there are others.
    pub(crate) fn lines<'b>(&self, bytes: &'b [u8]) -> Option<impl Iterator<Item = &'b [u8]>> {
        let run = |(start, end): &(u32, u32)| bytes.get(*start as usize..*end as usize);
        self.is_all.then(|| self.runs[..self.count].iter().filter_map(run))
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
            if let Ok(fields) = &fields {
                let again: Vec<_> = Lines::new(&bytes).take(fields.len()).collect();
                assert_eq!(again, *fields, "{}", bytes.escape_ascii());
            }
            whole += usize::from(fields.is_ok_and(|fields| fields.len() > 1));
        }
        assert!(whole > 100, "{whole} heads of several lines were compared");
    }
}
