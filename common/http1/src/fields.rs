//! The field lines of a head (RFC 9112, section 5): the few fields that this server uses are picked
//! out in one pass, all others are checked and skipped. Values are not interpreted here unless they
//! decide where the message ends or whether the connection goes on.

use crate::{
    Expectation, FIELDS_MAX, HeadError, HeadLimits, Lines,
    bytes::{is_name, is_token, list, trim},
    lines::{Line, LineError, Options, read_line},
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
    pub(crate) options: Options,
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
            0 => Values { name, first: self.first(name), lines: Lines::new(&[]) },
            _ => Values { name, first: None, lines: self.lines() },
        }
    }

    /// All fields, as they were sent.
    pub(crate) fn lines(&self) -> Lines<'b> {
        Lines::new(self.lines)
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

impl<'b> Fields<'b> {
    /// Parses field lines up to and including the blank line into these fields, which must be
    /// empty. Returns the number of bytes they take; `None` if the blank line has not arrived.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &'b [u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        self.picked.lines = bytes;
        let (mut at, mut count, mut has_bare_end) = (0, 0, false);
        // What a field means counts only if the lines of all fields are sound.
        let mut outcome = Ok(());
        loop {
            match read_line(bytes, at).map_err(translate)? {
                Line::Partial => return Ok(None),
                Line::Field(_) if count == FIELDS_MAX => return Err(HeadError::TooManyFields),
                Line::Field(line) => {
                    count += 1;
                    has_bare_end |= bytes[line.end - 2] != b'\r';
                    if outcome.is_ok() {
                        outcome = self.put(line.name(bytes), line.value(bytes));
                    }
                    at = line.end;
                }
                Line::Blank(_) if count > limits.fields_max => {
                    return Err(HeadError::TooManyFields);
                }
                // RFC 9112, section 2.2 allows a line feed alone as a line end, but this server
                // does not accept it.
                Line::Blank(len) if has_bare_end || len == 1 => {
                    return Err(HeadError::BareLineFeed);
                }
                Line::Blank(len) => {
                    self.picked.lines = &bytes[..at];
                    return outcome.map(|()| Some(at + len));
                }
            }
        }
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
            10 if is(b"connection") => {
                self.options.take(value);
                return Ok(());
            }
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
fn translate(error: LineError) -> HeadError {
    match error {
        LineError::Name => HeadError::FieldName,
        LineError::Value => HeadError::FieldValue,
    }
}
