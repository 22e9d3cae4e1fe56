//! Request paths: from the bytes of a target to the canonical form that is used for matching,
//! logging and opening. This is only the lexical protection against leaving the root: the file is
//! also opened beneath a root descriptor.
//!
//! A path is decoded exactly once, and its dot segments are resolved after that; decoding twice was
//! the cause of CVE-2021-42013. Nothing here looks at the file system.

use std::fmt;

/// Why a path has no canonical form. All of these are errors of the client (400).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// The path does not start with a slash.
    Relative,
    /// A `%` without two hexadecimal digits after it.
    MalformedPercent,
    /// NUL, another control byte or DEL, raw or percent-encoded.
    ControlByte,
    /// `%2f`: a slash that is no separator names no file, and if it were taken for a separator, two
    /// programs could read the path differently.
    EncodedSlash,
    /// A raw byte that clients must encode and that other software interprets differently: space,
    /// `\`, `?`, `#`.
    RawDelimiter,
    /// `..` leads out of the root.
    AboveRoot,
}

impl PathError {
    /// The reason in a few words, for an error page or a log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Relative => "path does not start with a slash",
            Self::MalformedPercent => "malformed percent-encoding in path",
            Self::ControlByte => "control byte in path",
            Self::EncodedSlash => "encoded slash in path",
            Self::RawDelimiter => "unencoded space, backslash, question mark or hash in path",
            Self::AboveRoot => "path leads above the root",
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for PathError {}

/// Returns the canonical form of the path of an origin-form target (without its query): decoded
/// once, repeated slashes merged, `.` and `..` resolved, a trailing slash kept. A trailing `/.` or
/// `/..` names a directory and becomes a trailing slash.
///
/// The result starts with a slash and has no control byte, no empty segment and no dot segment. It
/// is bytes, not text, because Linux file names are. Raw bytes from 80 to ff are kept, and so are
/// the printable ones that RFC 3986 excludes but clients send (`"<>[]^` and the like).
///
/// A path that is already canonical is returned unchanged; any other is written to `scratch`.
pub fn canonicalise<'a>(path: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], PathError> {
    canonical(path, scratch, EncodedSlash::Refused)
}

/// Returns the canonical form of a path that an application gets as it was sent, to be matched with
/// its routes. A `%2f`, which [`canonicalise`] refuses, stays as `%2F` in its segment: many
/// applications put a whole path into one segment.
pub fn canonicalise_for_application<'a>(
    path: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], PathError> {
    canonical(path, scratch, EncodedSlash::Kept)
}

/// What becomes of `%2f`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EncodedSlash {
    Refused,
    Kept,
}

fn canonical<'a>(
    path: &'a [u8],
    scratch: &'a mut Vec<u8>,
    slash: EncodedSlash,
) -> Result<&'a [u8], PathError> {
    if path.first() != Some(&b'/') {
        return Err(PathError::Relative);
    }
    if is_plain(path) {
        return Ok(path);
    }
    scratch.clear();
    resolve(path, scratch, slash)?;
    Ok(scratch)
}

/// The segments of a canonical path, without slashes; none for the root. A trailing slash adds
/// no segment.
pub fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty())
}

/// Whether any segment of a canonical path starts with a dot. `/.well-known/` is not hidden
/// (RFC 8615), but hidden names below it are.
pub fn is_hidden(path: &[u8]) -> bool {
    segments(path)
        .enumerate()
        .any(|(index, name)| name[0] == b'.' && !(index == 0 && name == b".well-known"))
}

/// Whether a request can lead to a file of that name: no path contains a control byte.
pub fn is_requestable(name: &[u8]) -> bool {
    !name.iter().any(u8::is_ascii_control)
}

/// The last segment of a canonical path; empty for a path with a trailing slash.
pub fn file_name(path: &[u8]) -> &[u8] {
    let start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    &path[start..]
}

/// The text after the last dot of the file name. A leading dot starts a hidden name, not an
/// extension, and a name that ends with a dot has none.
pub fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = file_name(path);
    let dot = memchr::memrchr(b'.', name)?;
    (dot > 0 && dot + 1 < name.len()).then(|| &name[dot + 1..])
}

/// Appends a path to `out` in the form that a Location field can carry: percent-encoded, and
/// always with exactly one leading slash, since `//host` would lead to another site
/// (RUSTSEC-2022-0072).
pub fn encode_for_location(path: &[u8], out: &mut Vec<u8>) {
    let leading = path.iter().take_while(|&&byte| byte == b'/').count();
    out.push(b'/');
    encode(&path[leading..], UNUSUAL, out);
}

/// Appends a name percent-encoded, so that it can be used in any part of an address, in quotes and
/// in HTML: only the unreserved characters of RFC 3986 section 2.3 are kept.
pub(crate) fn encode_name(name: &[u8], out: &mut Vec<u8>) {
    encode(name, SLASH | RESERVED | UNUSUAL, out);
}

/// Appends `bytes`, with percent-encoding for those of one of `classes`.
fn encode(bytes: &[u8], classes: u8, out: &mut Vec<u8>) {
    let is_kept = |byte: u8| CLASS[usize::from(byte)] & classes == 0;
    replace_bytes(bytes, out, is_kept, encode_byte);
}

/// Appends `bytes`, with `replace` for those that are not kept. Whole runs are copied: most names
/// need no escaping.
pub(crate) fn replace_bytes(
    bytes: &[u8],
    out: &mut Vec<u8>,
    is_kept: impl Fn(u8) -> bool,
    replace: impl Fn(u8, &mut Vec<u8>),
) {
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|&byte| !is_kept(byte)) {
        out.extend_from_slice(&rest[..end]);
        replace(rest[end], out);
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends `%` and two upper-case digits (RFC 3986 section 2.1).
fn encode_byte(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS[usize::from(nibble & 15)];
    out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]);
}

/// The class of the slash.
const SLASH: u8 = 1;
/// The class of every `pchar` with a meaning in some part of an address.
const RESERVED: u8 = 2;
/// The class of bytes that are neither a slash nor a `pchar` standing for itself (RFC 3986 section
/// 3.3).
const UNUSUAL: u8 = 4;

const CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [UNUSUAL; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = class(byte as u8);
        byte += 1;
    }
    classes
}

const fn class(ascii: u8) -> u8 {
    match ascii {
        b'/' => SLASH,
        b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => 0,
        b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'@' => RESERVED,
        _ => UNUSUAL,
    }
}

/// Whether a path that starts with a slash is canonical as it is. Nearly every request for a static
/// file needs only this check, so it reads blocks that the compiler turns into vector code.
fn is_plain(path: &[u8]) -> bool {
    match path.len() {
        17.. => !any_block::<16>(path),
        9.. => !any_block::<8>(path),
        _ => !path.windows(2).any(|pair| needs_work(pair[0], pair[1])),
    }
}

/// Whether any byte but the first needs work; `N < path.len()`. The last block overlaps the one
/// before it, which costs less than handling a remainder.
fn any_block<const N: usize>(path: &[u8]) -> bool {
    let (previous, bytes) = (&path[..path.len() - 1], &path[1..]);
    let blocks = previous.as_chunks::<N>().0.iter().zip(bytes.as_chunks::<N>().0);
    let last = previous.last_chunk::<N>().zip(bytes.last_chunk::<N>());
    blocks.chain(last).any(|(previous, bytes)| {
        let pairs = previous.iter().zip(bytes);
        pairs.fold(false, |found, (&previous, &byte)| found | needs_work(previous, byte))
    })
}

/// Whether a byte has to be decoded or rejected, or may begin a dot segment or an empty one. There
/// are no short-circuits: branches would cost more than the comparisons.
fn needs_work(previous: u8, byte: u8) -> bool {
    let is_special = (byte <= b' ')
        | (byte == b'%')
        | (byte == b'#')
        | (byte == b'?')
        | (byte == b'\\')
        | (byte == 0x7f);
    is_special | ((previous == b'/') & ((byte == b'/') | (byte == b'.')))
}

/// Writes the canonical form. Between segments `out` is empty or ends with a whole segment, so that
/// `..` cuts at the last slash.
fn resolve(path: &[u8], out: &mut Vec<u8>, slash: EncodedSlash) -> Result<(), PathError> {
    let mut is_directory = false;
    for segment in path[1..].split(|&byte| byte == b'/') {
        let start = out.len();
        out.push(b'/');
        decode(segment, out, slash)?;
        is_directory = matches!(&out[start..], b"/" | b"/." | b"/..");
        match &out[start..] {
            b"/" | b"/." => out.truncate(start),
            b"/.." => {
                out.truncate(start);
                let parent = memchr::memrchr(b'/', out).ok_or(PathError::AboveRoot)?;
                out.truncate(parent);
            }
            _ => {}
        }
    }
    if is_directory {
        out.push(b'/');
    }
    Ok(())
}

/// Appends one segment, percent-decoded.
fn decode(segment: &[u8], out: &mut Vec<u8>, slash: EncodedSlash) -> Result<(), PathError> {
    let mut rest = segment;
    while let Some((&byte, tail)) = rest.split_first() {
        let decoded = if byte == b'%' { decode_escape(tail)? } else { raw(byte)? };
        match decoded {
            b'/' if slash == EncodedSlash::Kept => out.extend_from_slice(b"%2F"),
            b'/' => return Err(PathError::EncodedSlash),
            _ if decoded.is_ascii_control() => return Err(PathError::ControlByte),
            _ => out.push(decoded),
        }
        rest = if byte == b'%' { &tail[2..] } else { tail };
    }
    Ok(())
}

/// The byte that two hexadecimal digits stand for.
fn decode_escape(tail: &[u8]) -> Result<u8, PathError> {
    let digit = |index: usize| {
        let digit = tail.get(index).and_then(|&byte| char::from(byte).to_digit(16));
        digit.ok_or(PathError::MalformedPercent)
    };
    Ok((digit(0)? << 4 | digit(1)?) as u8)
}

/// Accepts a raw byte unless it is a delimiter.
fn raw(byte: u8) -> Result<u8, PathError> {
    match byte {
        b' ' | b'\\' | b'?' | b'#' => Err(PathError::RawDelimiter),
        _ => Ok(byte),
    }
}

#[cfg(test)]
mod tests;
