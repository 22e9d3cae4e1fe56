//! Finding the end of a body (RFC 9112, sections 6 and 7.1), and in it the data and the trailer, if
//! they are needed. The data is never inspected; the framing around it is checked strictly, because
//! a chunk whose end two implementations see in different places is a smuggled request.

use crate::{
    BodyError, BodyFraming,
    bytes::{is_field_value, is_token},
};

/// The most bytes of extensions after one chunk size. No software is known to use them.
pub const EXTENSION_BYTES_MAX: u16 = 256;
/// The most bytes of a trailer, line ends included.
pub const TRAILER_BYTES_MAX: u16 = 4096;
/// The most field lines of a trailer: as many as a head has by default.
pub const TRAILER_FIELDS_MAX: u8 = 100;
/// The most digits of a chunk size: more would not fit a `u64`.
const SIZE_DIGITS_MAX: u8 = 16;

/// Counts a body down to its end, wherever reads cut it.
///
/// Call [`skip`](Self::skip) with the bytes that have arrived until [`is_done`](Self::is_done).
/// After an error the connection has to be closed.
#[derive(Debug, Clone)]
pub struct BodySkipper {
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Done,
    /// Plain bytes of a body with a length.
    Length(u64),
    /// The digits of a chunk size.
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
        bytes: u16,
        part: Extension,
    },
    /// The line end of a size, after its carriage return.
    SizeEnd(u64),
    /// Bytes of a chunk that have not arrived, at least one.
    Data(u64),
    /// The line end after the data of a chunk.
    DataCarriageReturn,
    DataLineFeed,
    Trailer {
        bytes: u16,
        fields: u8,
        part: Trailer,
    },
}

/// The position in `;name=value` or `;name="value"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    BeforeSemicolon,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    Escaped,
    AfterQuoted,
}

/// The position in a line of the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trailer {
    LineStart,
    Name,
    Value,
    LineFeed,
    LastLineFeed,
    End,
}

impl BodySkipper {
    /// Creates a skipper for a body that has not begun.
    pub fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Size { size: 0, digits: 0 },
        };
        Self { state }
    }

    /// Whether the body is over.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Returns how many of `bytes` belong to the body: fewer than all of them only if it is over.
    ///
    /// # Errors
    ///
    /// The chunked coding is broken; the connection has to be closed.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_done() {
            taken += self.skip_run(&bytes[taken..])?;
        }
        Ok(taken)
    }

    /// Takes the framing at the front of `bytes`, then the run of data after it, as far as both are
    /// there. Returns how many bytes were taken and which of them are data, perhaps none.
    ///
    /// # Errors
    ///
    /// The chunked coding is broken; the connection has to be closed.
    pub fn read<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, &'b [u8]), BodyError> {
        self.read_noting(bytes, |_, _| {})
    }

    /// As [`Self::read`], and appends what it takes of the trailer to `trailer`: its field lines,
    /// which [`trailer_lines`](crate::trailer_lines) takes apart when the body is over. They are at
    /// most [`TRAILER_BYTES_MAX`] bytes; nothing is appended of a body that has none.
    ///
    /// # Errors
    ///
    /// The chunked coding is broken; the connection has to be closed.
    pub fn read_with_trailer<'b>(
        &mut self,
        bytes: &'b [u8],
        trailer: &mut Vec<u8>,
    ) -> Result<(usize, &'b [u8]), BodyError> {
        self.read_noting(bytes, |state, byte| {
            if state.is_in_field_line() {
                trailer.push(byte);
            }
        })
    }

    /// Reads, and passes each byte of framing on with the state after it.
    #[inline]
    fn read_noting<'b>(
        &mut self,
        bytes: &'b [u8],
        mut note: impl FnMut(State, u8),
    ) -> Result<(usize, &'b [u8]), BodyError> {
        let mut framing = 0;
        while framing < bytes.len() && !self.is_done() && !self.is_in_data() {
            let byte = bytes[framing];
            framing += self.skip_run(&bytes[framing..])?;
            note(self.state, byte);
        }
        if framing == bytes.len() || self.is_done() {
            return Ok((framing, &[]));
        }
        let data = self.skip_run(&bytes[framing..])?;
        Ok((framing + data, &bytes[framing..framing + data]))
    }

    /// The number of bytes from here on that are certainly data.
    pub fn data_ahead(&self) -> u64 {
        match self.state {
            State::Length(left) | State::Data(left) => left,
            _ => 0,
        }
    }

    /// Counts `bytes` bytes of data that were received without being inspected.
    ///
    /// # Panics
    ///
    /// If they are more than [`Self::data_ahead`].
    pub fn advance(&mut self, bytes: u64) {
        assert!(bytes <= self.data_ahead());
        match &mut self.state {
            State::Length(left) | State::Data(left) if *left > bytes => *left -= bytes,
            State::Length(_) => self.state = State::Done,
            State::Data(_) => self.state = State::DataCarriageReturn,
            _ => {}
        }
    }

    fn is_in_data(&self) -> bool {
        matches!(self.state, State::Length(_) | State::Data(_))
    }

    /// Takes a run of data, or one byte of framing. `bytes` is not empty.
    fn skip_run(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        match self.state {
            State::Length(left) => {
                let (run, left) = count_down(left, bytes.len());
                self.state = if left == 0 { State::Done } else { State::Length(left) };
                Ok(run)
            }
            State::Data(left) => {
                let (run, left) = count_down(left, bytes.len());
                self.state = if left == 0 { State::DataCarriageReturn } else { State::Data(left) };
                Ok(run)
            }
            state => {
                self.state = state.after(bytes[0])?;
                Ok(1)
            }
        }
    }
}

/// How many of `left` bytes `available` cover, and how many remain.
fn count_down(left: u64, available: usize) -> (usize, u64) {
    let run = usize::try_from(left).map_or(available, |left| left.min(available));
    (run, left - run as u64)
}

impl State {
    /// Returns the state after one byte of framing.
    fn after(self, byte: u8) -> Result<Self, BodyError> {
        match (self, byte) {
            (Self::Size { size, digits }, _) => after_size(size, digits, byte),
            (Self::Extension { size, bytes, part }, _) => after_extension(size, bytes, part, byte),
            (Self::SizeEnd(0), b'\n') => {
                Ok(Self::Trailer { bytes: 0, fields: 0, part: Trailer::LineStart })
            }
            (Self::SizeEnd(size), b'\n') => Ok(Self::Data(size)),
            (Self::SizeEnd(_), _) => Err(BodyError::ChunkSize),
            (Self::DataCarriageReturn, b'\r') => Ok(Self::DataLineFeed),
            (Self::DataLineFeed, b'\n') => Ok(Self::Size { size: 0, digits: 0 }),
            (Self::Trailer { bytes, fields, part }, _) => after_trailer(bytes, fields, part, byte),
            _ => Err(BodyError::ChunkEnd),
        }
    }

    /// Whether the byte before belongs to a field line of the trailer; its line end included.
    fn is_in_field_line(self) -> bool {
        match self {
            Self::Trailer { bytes, part: Trailer::LineStart, .. } => bytes > 0,
            Self::Trailer { part: Trailer::Name | Trailer::Value | Trailer::LineFeed, .. } => true,
            _ => false,
        }
    }
}

fn after_size(size: u64, digits: u8, byte: u8) -> Result<State, BodyError> {
    if let Some(digit) = (byte as char).to_digit(16) {
        // At most 16 digits are taken, so no bit is shifted out.
        return match digits < SIZE_DIGITS_MAX {
            true => Ok(State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }),
            false => Err(BodyError::ChunkSize),
        };
    }
    match byte {
        b'\r' if digits > 0 => Ok(State::SizeEnd(size)),
        b';' if digits > 0 => Ok(State::Extension { size, bytes: 1, part: Extension::BeforeName }),
        b' ' | b'\t' if digits > 0 => {
            Ok(State::Extension { size, bytes: 1, part: Extension::BeforeSemicolon })
        }
        _ => Err(BodyError::ChunkSize),
    }
}

fn after_extension(size: u64, bytes: u16, part: Extension, byte: u8) -> Result<State, BodyError> {
    if byte == b'\r' && part.may_end() {
        return Ok(State::SizeEnd(size));
    }
    if bytes == EXTENSION_BYTES_MAX {
        return Err(BodyError::ExtensionTooLong);
    }
    let part = part.after(byte).ok_or(BodyError::Extension)?;
    Ok(State::Extension { size, bytes: bytes + 1, part })
}

fn after_trailer(bytes: u16, fields: u8, part: Trailer, byte: u8) -> Result<State, BodyError> {
    if bytes == TRAILER_BYTES_MAX {
        return Err(BodyError::TrailerTooLong);
    }
    let begins_line = part == Trailer::LineStart && byte != b'\r';
    if begins_line && fields == TRAILER_FIELDS_MAX {
        return Err(BodyError::TooManyTrailers);
    }
    match part.after(byte).ok_or(BodyError::Trailer)? {
        Trailer::End => Ok(State::Done),
        part => {
            Ok(State::Trailer { bytes: bytes + 1, fields: fields + u8::from(begins_line), part })
        }
    }
}

impl Extension {
    /// Returns the position after `byte`, by the grammar of RFC 9112, section 7.1.1.
    fn after(self, byte: u8) -> Option<Self> {
        let space = byte == b' ' || byte == b'\t';
        match (self, byte) {
            (Self::Quoted, b'"') => Some(Self::AfterQuoted),
            (Self::Quoted, b'\\') => Some(Self::Escaped),
            (Self::Quoted | Self::Escaped, _) => is_field_value(byte).then_some(Self::Quoted),
            (Self::BeforeName, _) if is_token(byte) => Some(Self::Name),
            (Self::BeforeValue, _) if is_token(byte) => Some(Self::Value),
            (Self::BeforeValue, b'"') => Some(Self::Quoted),
            (Self::Name | Self::Value, _) if is_token(byte) => Some(self),
            (Self::Name | Self::AfterName, b'=') => Some(Self::BeforeValue),
            (Self::BeforeName | Self::BeforeValue, _) => space.then_some(self),
            (_, b';') => Some(Self::BeforeName),
            (Self::Name | Self::AfterName, _) => space.then_some(Self::AfterName),
            (Self::Value | Self::AfterQuoted | Self::BeforeSemicolon, _) => {
                space.then_some(Self::BeforeSemicolon)
            }
        }
    }

    /// Whether the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Value | Self::AfterQuoted)
    }
}

impl Trailer {
    /// Returns the position after `byte`, by the grammar of field lines of RFC 9112, section 5,
    /// without folding.
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::LineStart, b'\r') => Some(Self::LastLineFeed),
            (Self::LineStart | Self::Name, _) if is_token(byte) => Some(Self::Name),
            (Self::Name, b':') => Some(Self::Value),
            (Self::Value, b'\r') => Some(Self::LineFeed),
            (Self::Value, _) if is_field_value(byte) => Some(Self::Value),
            (Self::LineFeed, b'\n') => Some(Self::LineStart),
            (Self::LastLineFeed, b'\n') => Some(Self::End),
            _ => None,
        }
    }
}
