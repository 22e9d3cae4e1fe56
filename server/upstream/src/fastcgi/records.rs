//! The records of FastCGI (specification 1.0, section 3.3): written whole, and read however they
//! are cut.

use std::fmt;

/// The only version there is.
const VERSION: u8 = 1;

/// The number of the request. A connection has one at a time: hardly any server takes more.
const REQUEST_ID: u16 = 1;

/// Bytes before the content of a record.
pub(crate) const HEADER_BYTES: usize = 8;

/// Bytes of the content of an `END_REQUEST`.
const END_BYTES: u16 = 8;

/// Bytes of content in a record that is written, at most: a multiple of eight, so that no padding
/// is needed after a full one.
pub(crate) const CONTENT_BYTES_MAX: usize = 0xfff8;

/// The types of records that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Begin = 1,
    Params = 4,
    Stdin = 5,
}

/// The types of records that are read; the others are skipped.
const END: u8 = 3;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// Why bytes are no records of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The version is not 1: the peer does not speak FastCGI.
    Version(u8),
    /// A record of a request that was not made.
    Request(u16),
    /// An `END_REQUEST` of another length.
    EndLength(u16),
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(out, "a FastCGI record of version {version}, not 1"),
            Self::Request(id) => write!(out, "a FastCGI record of request {id}, not 1"),
            Self::EndLength(len) => write!(out, "an END_REQUEST of {len} bytes, not 8"),
        }
    }
}

/// Writes a record.
pub(crate) fn put_record(out: &mut Vec<u8>, kind: Written, content: &[u8]) {
    debug_assert!(content.len() <= CONTENT_BYTES_MAX, "the caller cuts what is longer");
    let [high, low] = (content.len() as u16).to_be_bytes();
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    out.extend_from_slice(&[VERSION, kind as u8, id_high, id_low, high, low, 0, 0]);
    out.extend_from_slice(content);
}

/// Writes a stream, whole, and the empty record that ends it.
pub(crate) fn put_stream(out: &mut Vec<u8>, kind: Written, content: &[u8]) {
    content.chunks(CONTENT_BYTES_MAX).for_each(|piece| put_record(out, kind, piece));
    put_record(out, kind, b"");
}

/// A piece of what a server has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'b> {
    /// Nothing that concerns the request.
    Nothing,
    /// Bytes of the reply, at least one.
    Output(&'b [u8]),
    /// Bytes of standard error, at least one.
    Error(&'b [u8]),
    /// The request is over.
    End { status: u32, protocol_status: u8 },
}

/// Reads records, cut anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordReader {
    /// The header of the record under way, and then the content of an `END_REQUEST`.
    fixed: [u8; HEADER_BYTES],
    /// How many of its bytes have come.
    fixed_len: usize,
    /// The type of the record whose content or padding is to come; none if a header is.
    kind: Option<u8>,
    content_left: usize,
    padding_left: usize,
}

impl RecordReader {
    /// Reads from bytes, of which there is at least one. Returns how many were taken.
    pub(crate) fn read<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, Piece<'b>), RecordError> {
        match self.kind {
            None => {
                let taken = self.fill(bytes);
                if self.fixed_len == HEADER_BYTES {
                    self.take_header()?;
                }
                Ok((taken, Piece::Nothing))
            }
            Some(END) if self.content_left > 0 => {
                let taken = self.fill(bytes);
                self.content_left -= taken;
                Ok((taken, if self.content_left == 0 { self.take_end() } else { Piece::Nothing }))
            }
            Some(kind) if self.content_left > 0 => {
                let taken = self.content_left.min(bytes.len());
                self.content_left -= taken;
                self.end_record();
                let piece = match kind {
                    STDOUT => Piece::Output(&bytes[..taken]),
                    STDERR => Piece::Error(&bytes[..taken]),
                    _ => Piece::Nothing,
                };
                Ok((taken, piece))
            }
            Some(_) => {
                let taken = self.padding_left.min(bytes.len());
                self.padding_left -= taken;
                self.end_record();
                Ok((taken, Piece::Nothing))
            }
        }
    }

    /// Whether nothing of a record has come whose rest is to come.
    pub(crate) fn is_between(&self) -> bool {
        self.kind.is_none() && self.fixed_len == 0
    }

    fn fill(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(HEADER_BYTES - self.fixed_len);
        self.fixed[self.fixed_len..][..taken].copy_from_slice(&bytes[..taken]);
        self.fixed_len += taken;
        taken
    }

    fn take_header(&mut self) -> Result<(), RecordError> {
        let [version, kind, id_high, id_low, high, low, padding, _] = self.fixed;
        let id = u16::from_be_bytes([id_high, id_low]);
        let len = u16::from_be_bytes([high, low]);
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        // Records about the connection have the number 0: they are of types that are skipped.
        let is_known = matches!(kind, END | STDOUT | STDERR);
        if id != REQUEST_ID && (is_known || id != 0) {
            return Err(RecordError::Request(id));
        }
        if kind == END && len != END_BYTES {
            return Err(RecordError::EndLength(len));
        }
        self.fixed_len = 0;
        self.kind = Some(kind);
        (self.content_left, self.padding_left) = (len.into(), padding.into());
        self.end_record();
        Ok(())
    }

    fn take_end(&mut self) -> Piece<'static> {
        let [s0, s1, s2, s3, protocol_status, ..] = self.fixed;
        self.fixed_len = 0;
        self.end_record();
        Piece::End { status: u32::from_be_bytes([s0, s1, s2, s3]), protocol_status }
    }

    /// Goes on to the next record if nothing of this one is left.
    fn end_record(&mut self) {
        if self.content_left == 0 && self.padding_left == 0 {
            self.kind = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as a server sends it.
    fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let [high, low] = (content.len() as u16).to_be_bytes();
        let [id_high, id_low] = id.to_be_bytes();
        let mut bytes = vec![1, kind, id_high, id_low, high, low, padding, 0];
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len() + usize::from(padding), b'p');
        bytes
    }

    /// What records come to: both streams, and the ends.
    type Read = (String, String, Vec<(u32, u8)>);

    /// Reads records in pieces of a size.
    fn read(bytes: &[u8], size: usize) -> Result<Read, RecordError> {
        let mut reader = RecordReader::default();
        let (mut output, mut error, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for mut piece in bytes.chunks(size) {
            while !piece.is_empty() {
                let (taken, read) = reader.read(piece)?;
                assert!(taken > 0, "it goes on");
                match read {
                    Piece::Nothing => {}
                    Piece::Output(bytes) => output.extend_from_slice(bytes),
                    Piece::Error(bytes) => error.extend_from_slice(bytes),
                    Piece::End { status, protocol_status } => ends.push((status, protocol_status)),
                }
                piece = &piece[taken..];
            }
        }
        assert!(reader.is_between());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok((text(output), text(error), ends))
    }

    /// Padding of every record, both streams interleaved, empty records, unknown types.
    #[test]
    fn streams_are_read_across_any_cut() {
        let bytes = [
            record(6, 1, b"he", 0),
            record(7, 1, b"oh", 7),
            record(6, 1, b"llo", 255),
            record(10, 0, b"management", 6),
            record(11, 0, b"12345678", 0),
            record(99, 1, b"unknown", 1),
            record(7, 1, b" no", 1),
            record(7, 1, b"", 0),
            record(6, 1, b"", 3),
            record(3, 1, &[0, 0, 1, 2, 0, 9, 9, 9], 5),
        ]
        .concat();
        let expected = Ok(("hello".into(), "oh no".into(), vec![(258, 0)]));
        for size in 1..=bytes.len() {
            assert_eq!(read(&bytes, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_record_of_the_request_is_an_error() {
        assert_eq!(read(b"HTTP/1.1 400 ", 1), Err(RecordError::Version(b'H')));
        assert_eq!(read(&record(6, 2, b"x", 0), 3), Err(RecordError::Request(2)));
        assert_eq!(read(&record(6, 0, b"x", 0), 3), Err(RecordError::Request(0)));
        assert_eq!(read(&record(3, 513, &[0; 8], 0), 3), Err(RecordError::Request(513)));
        assert_eq!(read(&record(99, 2, b"", 0), 3), Err(RecordError::Request(2)));
        for len in [0, 7, 9] {
            let end = record(3, 1, &vec![0; len], 0);
            assert_eq!(read(&end, 3), Err(RecordError::EndLength(len as u16)));
        }
    }

    #[test]
    fn a_stream_is_cut_into_records_and_ends_with_an_empty_one() {
        for len in [0, 1, CONTENT_BYTES_MAX, CONTENT_BYTES_MAX + 1, 3 * CONTENT_BYTES_MAX] {
            let mut out = Vec::new();
            put_stream(&mut out, Written::Params, &vec![b'x'; len]);
            let (mut rest, mut total, mut is_ended) = (&*out, 0, false);
            while !rest.is_empty() {
                assert_eq!((rest[..4].to_vec(), is_ended), (vec![1, 4, 0, 1], false));
                let content = usize::from(u16::from_be_bytes([rest[4], rest[5]]));
                assert_eq!(rest[6..8], [0, 0], "no padding");
                (total, is_ended) = (total + content, content == 0);
                rest = &rest[HEADER_BYTES + content..];
            }
            assert_eq!((total, is_ended), (len, true));
        }
    }
}
