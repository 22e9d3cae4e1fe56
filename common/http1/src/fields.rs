//! The field lines of a head (RFC 9112, section 5): the few fields that this server uses are picked
//! out in one pass, all others are checked and skipped. Values are not interpreted here unless they
//! decide where the message ends or whether the connection goes on.

use httparse::{EMPTY_HEADER, Status};

use crate::{
    Expectation, FIELDS_MAX, HeadError, HeadLimits,
    bytes::{find, is_name, is_token, list, trim},
};

/// The request fields whose values are picked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldName {
    /// `If-Match`
    IfMatch,
    /// `If-None-Match`
    IfNoneMatch,
    /// `If-Modified-Since`
    IfModifiedSince,
    /// `If-Unmodified-Since`
    IfUnmodifiedSince,
    /// `If-Range`
    IfRange,
    /// `Range`
    Range,
    /// `Accept-Encoding`
    AcceptEncoding,
    /// `Accept`
    Accept,
    /// `User-Agent`
    UserAgent,
    /// `Referer`
    Referer,
    /// `Sec-Fetch-Mode`
    SecFetchMode,
}

impl FieldName {
    const COUNT: usize = 11;

    /// The name as it is usually written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IfMatch => "If-Match",
            Self::IfNoneMatch => "If-None-Match",
            Self::IfModifiedSince => "If-Modified-Since",
            Self::IfUnmodifiedSince => "If-Unmodified-Since",
            Self::IfRange => "If-Range",
            Self::Range => "Range",
            Self::AcceptEncoding => "Accept-Encoding",
            Self::Accept => "Accept",
            Self::UserAgent => "User-Agent",
            Self::Referer => "Referer",
            Self::SecFetchMode => "Sec-Fetch-Mode",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The fields that make a request conditional (RFC 9110, section 13.1).
const CONDITIONS: u16 = FieldName::IfMatch.bit()
    | FieldName::IfNoneMatch.bit()
    | FieldName::IfModifiedSince.bit()
    | FieldName::IfUnmodifiedSince.bit()
    | FieldName::IfRange.bit();

/// The fields of one head, as far as they are used.
#[derive(Debug, Default)]
pub(crate) struct Fields<'b> {
    pub(crate) picked: Picked<'b>,
    pub(crate) host: Option<&'b [u8]>,
    pub(crate) content_length: Option<u64>,
    pub(crate) codings: Codings,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) names_fields: bool,
    pub(crate) expectation: Expectation,
}

/// The transfer codings of a message, from all lines of `Transfer-Encoding` together (RFC 9112,
/// section 6.1).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Codings {
    /// Whether `chunked` is the last of them, so that the end of the message can be found.
    pub(crate) is_chunked: bool,
    /// Whether there is an unknown coding before it, or in its place.
    pub(crate) has_unknown: bool,
}

impl Codings {
    /// Whether there is any coding.
    pub(crate) fn is_any(self) -> bool {
        self.is_chunked || self.has_unknown
    }

    /// Adds the members of one line. No coding may follow `chunked`, which has no parameters; the
    /// parameters of other codings are not checked.
    fn add(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for coding in value.split(|&byte| byte == b',').map(trim) {
            let (name, parameters) = match coding.iter().position(|&byte| byte == b';') {
                Some(end) => (trim(&coding[..end]), true),
                None => (coding, false),
            };
            let is_chunked = name.eq_ignore_ascii_case(b"chunked");
            let is_sound = !name.is_empty() && name.iter().all(|&byte| is_token(byte));
            if !is_sound || self.is_chunked || (is_chunked && parameters) {
                return Err(HeadError::TransferEncoding);
            }
            self.is_chunked = is_chunked;
            self.has_unknown |= !is_chunked;
        }
        Ok(())
    }
}

/// The values of the [`FieldName`]s, and the field lines they were found in. Places need half the
/// memory of slices, and a head is moved several times on its way to the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Picked<'b> {
    lines: &'b [u8],
    first: [Place; FieldName::COUNT],
    present: u16,
    repeated: u16,
}

/// The place of a value in the lines.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    start: u32,
    len: u32,
}

impl<'b> Picked<'b> {
    pub(crate) fn first(&self, name: FieldName) -> Option<&'b [u8]> {
        if self.present & name.bit() == 0 {
            return None;
        }
        let Place { start, len } = self.first[name as usize];
        Some(&self.lines[start as usize..][..len as usize])
    }

    /// The value of the field's only line.
    pub(crate) fn only(&self, name: FieldName) -> Option<&'b [u8]> {
        self.first(name).filter(|_| self.repeated & name.bit() == 0)
    }

    pub(crate) fn values(&self, name: FieldName) -> Values<'b> {
        // The lines are only searched again in the rare case that there are several values.
        match self.repeated & name.bit() {
            0 => Values { name, first: self.first(name), lines: Lines { rest: &[], places: &[] } },
            _ => Values { name, first: None, lines: self.lines() },
        }
    }

    /// All fields, as they were sent.
    pub(crate) fn lines(&self) -> Lines<'b> {
        Lines { rest: self.lines, places: &[] }
    }

    pub(crate) fn has_conditions(&self) -> bool {
        self.present & CONDITIONS != 0
    }

    fn put(&mut self, name: FieldName, value: &'b [u8]) {
        let bit = name.bit();
        if self.present & bit != 0 {
            self.repeated |= bit;
            return;
        }
        self.present |= bit;
        // A value is a part of the lines, and a head is far shorter than 4 GiB.
        let start = value.as_ptr().addr() - self.lines.as_ptr().addr();
        self.first[name as usize] = Place { start: start as u32, len: value.len() as u32 };
    }
}

/// The values of one field, a line each, in the order of the lines.
#[derive(Debug, Clone)]
pub struct Values<'b> {
    name: FieldName,
    first: Option<&'b [u8]>,
    lines: Lines<'b>,
}

impl<'b> Iterator for Values<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        if let Some(value) = self.first.take() {
            return Some(value);
        }
        let name = self.name.as_str().as_bytes();
        self.lines.find(|(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The names and values of the fields of a head or a trailer that was parsed, in the order of their
/// lines and as they were sent, but for white space around the values.
#[derive(Debug, Clone)]
pub struct Lines<'b> {
    rest: &'b [u8],
    /// The places of the first lines, as far as they are known.
    places: &'b [LinePlace],
}

/// The fields of a trailer, whose lines
/// [`BodySkipper::read_with_trailer`](crate::BodySkipper::read_with_trailer) has gathered.
pub fn trailer_lines(lines: &[u8]) -> Lines<'_> {
    Lines { rest: lines, places: &[] }
}

impl<'b> Lines<'b> {
    /// The name and the value of the next field, and its line with the line's end, which may be a
    /// line feed alone.
    #[inline]
    pub fn next_line(&mut self) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        let Some((place, others)) = self.places.split_first() else { return self.search_line() };
        self.places = others;
        let (line, rest) = self.rest.split_at_checked(place.len.into())?;
        self.rest = rest;
        let value = line.get(place.value_start.into()..place.value_end.into())?;
        Some((line.get(..place.name_len.into())?, value, line))
    }

    fn search_line(&mut self) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        // The lines were checked before: each ends in a line feed, and all but the last have a
        // colon.
        let end = find(b'\n', self.rest)?;
        let (whole, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        let line = &whole[..end];
        let colon = find(b':', line)?;
        let value = line.strip_suffix(b"\r").unwrap_or(line).get(colon + 1..)?;
        Some((&line[..colon], trim(value), whole))
    }
}

impl<'b> Iterator for Lines<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().map(|(name, value, _)| (name, value))
    }
}

/// The parts of a line, counted from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LinePlace {
    name_len: u16,
    value_start: u16,
    value_end: u16,
    /// The length of the line with its end.
    len: u16,
}

/// How many places are remembered. Most heads have fewer fields.
const PLACES: usize = 16;

/// Where the first lines of a head are, which was parsed: so that who goes through them need not
/// search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    count: usize,
    places: [LinePlace; PLACES],
}

impl Places {
    /// The places of these fields, whose lines end with a blank one.
    #[inline]
    pub(crate) fn of(fields: &[httparse::Header<'_>], lines: &[u8]) -> Self {
        let mut places = Self { count: 0, places: [LinePlace::default(); PLACES] };
        let base = lines.as_ptr().addr();
        let blank = if lines.ends_with(b"\n\r\n") { 2 } else { 1 };
        for (index, field) in fields.iter().take(PLACES).enumerate() {
            let start = field.name.as_ptr().addr();
            let end = fields
                .get(index + 1)
                .map_or(base + lines.len() - blank, |next| next.name.as_ptr().addr());
            let value_start = field.value.as_ptr().addr() - start;
            // The line after one that is too long is searched for.
            let Ok(len) = u16::try_from(end - start) else { break };
            places.places[index] = LinePlace {
                name_len: field.name.len() as u16, // parts of a line are shorter than it
                value_start: value_start as u16,
                value_end: (value_start + field.value.len()) as u16,
                len,
            };
            places.count += 1;
        }
        places
    }

    /// The lines, which are those that the places were made of.
    pub(crate) fn lines<'b>(&'b self, lines: &'b [u8]) -> Lines<'b> {
        Lines { rest: lines, places: self.places.get(..self.count).unwrap_or_default() }
    }
}

/// The largest head that is first parsed with room for [`FEW`] fields.
const FEW_BYTES: usize = 192;
/// Enough for the heads of benchmarks and scripts. Clearing the array is part of the cost.
const FEW: usize = 8;
/// Enough for a browser's head.
const USUAL: usize = 24;

impl<'b> Fields<'b> {
    /// Parses field lines up to and including the blank line into these fields, which must be
    /// empty. Returns the number of bytes they take; `None` if the blank line has not arrived.
    pub(crate) fn read(
        &mut self,
        bytes: &'b [u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let tried = match bytes.len() {
            ..=FEW_BYTES => self.read_some::<FEW>(bytes, limits),
            _ => self.read_some::<USUAL>(bytes, limits),
        };
        match tried {
            Err(HeadError::TooManyFields) => self.read_many(bytes, limits),
            other => other,
        }
    }

    #[cold]
    #[inline(never)]
    fn read_many(
        &mut self,
        bytes: &'b [u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        self.read_some::<FIELDS_MAX>(bytes, limits)
    }

    fn read_some<const N: usize>(
        &mut self,
        bytes: &'b [u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let mut headers = [EMPTY_HEADER; N];
        match httparse::parse_headers(bytes, &mut headers) {
            Ok(Status::Complete((_, headers))) if headers.len() > limits.fields_max => {
                Err(HeadError::TooManyFields)
            }
            Ok(Status::Complete((len, headers))) => {
                self.collect(&bytes[..len], headers).map(|()| Some(len))
            }
            Ok(Status::Partial) => Ok(None),
            Err(error) => Err(translate(error)),
        }
    }

    fn collect(
        &mut self,
        lines: &'b [u8],
        headers: &[httparse::Header<'b>],
    ) -> Result<(), HeadError> {
        check_line_ends(lines, headers)?;
        self.picked.lines = lines;
        headers.iter().try_for_each(|header| self.put(header.name.as_bytes(), header.value))
    }

    /// Stores the value of one line, if it is used. The length of the name distinguishes most
    /// names, so that an unknown field costs one jump and at most two comparisons.
    fn put(&mut self, name: &[u8], value: &'b [u8]) -> Result<(), HeadError> {
        let is = |known: &[u8]| is_name(name, known);
        let picked = match name.len() {
            4 if is(b"host") => return self.put_host(value),
            5 if is(b"range") => FieldName::Range,
            6 if is(b"accept") => FieldName::Accept,
            6 if is(b"expect") => return self.put_expect(value),
            7 if is(b"referer") => FieldName::Referer,
            8 if is(b"if-match") => FieldName::IfMatch,
            8 if is(b"if-range") => FieldName::IfRange,
            10 if is(b"user-agent") => FieldName::UserAgent,
            10 if is(b"connection") => return self.put_connection(value),
            13 if is(b"if-none-match") => FieldName::IfNoneMatch,
            14 if is(b"sec-fetch-mode") => FieldName::SecFetchMode,
            14 if is(b"content-length") => return self.put_content_length(value),
            15 if is(b"accept-encoding") => FieldName::AcceptEncoding,
            17 if is(b"if-modified-since") => FieldName::IfModifiedSince,
            17 if is(b"transfer-encoding") => return self.codings.add(value),
            19 if is(b"if-unmodified-since") => FieldName::IfUnmodifiedSince,
            _ => return Ok(()),
        };
        self.picked.put(picked, value);
        Ok(())
    }

    fn put_host(&mut self, value: &'b [u8]) -> Result<(), HeadError> {
        match self.host.replace(value) {
            None => Ok(()),
            Some(_) => Err(HeadError::HostRepeated),
        }
    }

    fn put_connection(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for option in list(value) {
            match option {
                _ if option.eq_ignore_ascii_case(b"close") => self.close = true,
                _ if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
                _ => self.names_fields = true,
            }
        }
        Ok(())
    }

    fn put_expect(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for expectation in list(value) {
            let known = expectation.eq_ignore_ascii_case(b"100-continue");
            self.expectation = match self.expectation {
                Expectation::None | Expectation::Continue if known => Expectation::Continue,
                _ => Expectation::Unknown,
            };
        }
        Ok(())
    }

    /// Stores the length. RFC 9110, section 8.6 lets a recipient accept a list of equal numbers;
    /// this one does not.
    fn put_content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let length = decimal(value).ok_or(HeadError::ContentLength)?;
        match self.content_length.replace(length) {
            None => Ok(()),
            Some(_) => Err(HeadError::ContentLengthRepeated),
        }
    }
}

/// Checks that all lines end with CRLF. `httparse` accepts a bare line feed as a line end; RFC
/// 9112, section 2.2 allows that, but this server does not accept it. Every line begins where a
/// name begins, so two bytes before each name, and before and in the blank line, there must be a
/// carriage return.
fn check_line_ends(lines: &[u8], headers: &[httparse::Header<'_>]) -> Result<(), HeadError> {
    let starts = headers.iter().skip(1).map(|header| header.name.as_ptr().addr());
    let ends = starts.map(|start| start - lines.as_ptr().addr());
    let blank = if headers.is_empty() { lines == b"\r\n" } else { lines.ends_with(b"\r\n\r\n") };
    let bare = ends.fold(!blank, |bare, end| bare | (lines[end - 2] != b'\r'));
    if bare { Err(HeadError::BareLineFeed) } else { Ok(()) }
}

/// Parses a number of decimal digits that fits; no sign, no space, no list.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cold]
fn translate(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::HeaderName => HeadError::FieldName,
        _ => HeadError::FieldValue,
    }
}
