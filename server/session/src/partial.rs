//! Partial content: the heads of 206 responses, and the parts of multipart ones (RFC 9110 §15.3.7).

use file_cache::Hit;
use site::range::RangeSet;
use site::resource::{Entry, Variant};

use crate::exchange::{BodySource, Exchange, Parts, Then, variant_of};
use crate::response::start_head;
use crate::worker::Worker;

/// Writes the head of a 206 with one range (RFC 9110 §15.3.7.1).
pub(crate) fn partial_head(
    w: &Worker,
    exchange: &mut Exchange,
    variant: &Variant,
    start: u64,
    end: u64,
    connection: &[u8],
) {
    let range = format!("bytes {start}-{}/{}", end - 1, variant.len);
    let mut head = start_head(w, &mut exchange.out, 206);
    head.lines(&variant.fields(w.date()));
    head.field("Content-Range", range.as_bytes());
    head.content_length(end - start);
    head.lines(connection);
    head.finish();
}

/// Writes the head of a multipart/byteranges response, and its first part (RFC 9110 §15.3.7.2).
pub(crate) fn start_parts(
    w: &Worker,
    exchange: &mut Exchange,
    hit: &Hit<Entry>,
    index: usize,
    ranges: RangeSet,
    connection: &[u8],
) {
    let variant = variant_of(hit.value(), index);
    let boundary = boundary(hit.hash(), w.unix_us());
    let len: u64 = ranges
        .iter()
        .map(|r| part_head(&boundary, variant, r.start, r.end()).len() as u64 + r.len)
        .sum::<u64>()
        + closing_line(&boundary).len() as u64;
    let media_type = [b"multipart/byteranges; boundary=", boundary.as_slice()].concat();
    let mut head = start_head(w, &mut exchange.out, 206);
    head.field("Content-Type", &media_type);
    // The first field line is the type of the file, which is repeated in each part instead.
    let fields = variant.fields(w.date());
    let end = fields.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    head.lines(&fields[end..]);
    head.content_length(len);
    head.lines(connection);
    head.finish();
    let parts = Parts { entry: Hit::clone(hit), variant: index, ranges, next: 0, boundary };
    exchange.then = Then::Parts(Box::new(parts));
    next_part(exchange);
}

/// Appends the next part, or the closing line after the last.
pub(crate) fn next_part(exchange: &mut Exchange) {
    let Then::Parts(parts) = &mut exchange.then else { return };
    let Some(range) = parts.ranges.get(parts.next).copied() else {
        exchange.out.extend_from_slice(&closing_line(&parts.boundary));
        exchange.body = BodySource::None;
        exchange.then = Then::Finish;
        return;
    };
    let variant = variant_of(parts.entry.value(), parts.variant);
    let head = part_head(&parts.boundary, variant, range.start, range.end());
    exchange.out.extend_from_slice(&head);
    exchange.draft.body_bytes += head.len() as u64;
    exchange.body = BodySource::Variant {
        entry: Hit::clone(&parts.entry),
        variant: parts.variant,
        at: range.start,
        end: range.end(),
    };
    parts.next += 1;
}

fn part_head(boundary: &[u8; 24], variant: &Variant, start: u64, end: u64) -> Vec<u8> {
    let range = format!("Content-Range: bytes {start}-{}/{}\r\n\r\n", end - 1, variant.len);
    [
        b"\r\n--",
        boundary.as_slice(),
        b"\r\nContent-Type: ",
        variant.content_type.as_bytes(),
        b"\r\n",
        range.as_bytes(),
    ]
    .concat()
}

fn closing_line(boundary: &[u8; 24]) -> Vec<u8> {
    [b"\r\n--", boundary.as_slice(), b"--\r\n"].concat()
}

/// Makes a boundary that no author of a file can foresee: it depends on the cache's secret seed.
fn boundary(seeded_hash: u64, unix_us: u64) -> [u8; 24] {
    let mut text = [0; 24];
    let mixed = seeded_hash ^ unix_us.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let digits = format!("{mixed:016x}{:08x}", seeded_hash.rotate_left(17) as u32);
    text.copy_from_slice(digits.as_bytes());
    text
}
