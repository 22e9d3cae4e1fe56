//! Bodies to skip: a table of chunked bodies, and a naive model under random cuts.

use http1::{
    BodyError, BodyFraming, BodySkipper, EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX,
    TRAILER_FIELDS_MAX, trailer_lines,
};
use proptest::prelude::*;

/// How many bytes a chunked body takes; `None` if it is longer than `input`.
type Outcome = Result<Option<usize>, BodyError>;

fn skip(framing: BodyFraming, pieces: &[&[u8]]) -> Outcome {
    let mut skipper = BodySkipper::new(framing);
    let mut total = 0;
    for piece in pieces {
        let taken = skipper.skip(piece)?;
        total += taken;
        assert!(taken == piece.len() || skipper.is_done(), "took {taken} of {}", piece.len());
    }
    Ok(skipper.is_done().then_some(total))
}

/// Checks the body in one piece, in bytes, and cut once at every place.
fn check(input: &str, expected: Outcome) {
    let bytes = input.as_bytes();
    assert_eq!(skip(BodyFraming::Chunked, &[bytes]), expected, "{input:?}");
    let singles: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(skip(BodyFraming::Chunked, &singles), expected, "{input:?} in bytes");
    for cut in 0..bytes.len() {
        let (front, back) = bytes.split_at(cut);
        assert_eq!(skip(BodyFraming::Chunked, &[front, back]), expected, "{input:?} at {cut}");
    }
}

fn accept(input: &str) {
    check(input, Ok(Some(input.len())));
    check(&format!("{input}GET /"), Ok(Some(input.len())));
    check(&input[..input.len() - 1], Ok(None));
}

/// RFC 9112, section 7.1.
#[test]
fn chunked_bodies() {
    accept("0\r\n\r\n");
    accept("0000000000000000\r\n\r\n");
    accept("5\r\nhello\r\n0\r\n\r\n");
    accept("5\r\n\r\n\r\n\n\r\n0\r\n\r\n");
    accept("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n");
    accept("0;a\r\n\r\n");
    accept("0;a=b\r\n\r\n");
    accept("0;a=\"b;\\\"\r\n\r\n".replace("\\\"\r", "\\\"\"\r").as_str());
    accept("0 ;\ta = b\t; c\r\n\r\n");
    accept("0;a=\"\"\r\n\r\n");
    accept("0;a;b;c=\"d\" ;e\r\n\r\n");
    accept("1;a\r\nx\r\n0\r\nX: y\r\n\r\n");
    accept("0\r\nX:\r\nY: \u{e9}\t\r\n\r\n");
}

#[test]
fn broken_chunk_sizes() {
    for input in [
        "\r\n",
        "\n",
        "g\r\n",
        "0x5\r\n",
        "+5\r\n",
        "-5\r\n",
        " 5\r\n",
        "5\n",
        "5\r5",
        "5\r\r\n",
        "5,5\r\n",
        "00000000000000005\r\n",
        "10000000000000000\r\n",
        "5.\r\n",
        ";a\r\n",
        "\u{e9}",
        "0\r\r",
        "0\n",
    ] {
        check(input, Err(BodyError::ChunkSize));
    }
}

#[test]
fn broken_extensions() {
    for input in [
        "5 \r\n",
        "5\t\n",
        "5;\r\n",
        "5;;",
        "5;a\n",
        "5;a=\r\n",
        "5;a=b=",
        "5;a b",
        "5;=b",
        "5;a=\"\r",
        "5;a=\"\n",
        "5;a=\"b\"c",
        "5;a=\"b\" c",
        "5;a=b c",
        "5;a=\"\\\r",
        "5;a\0",
        "5;a \r\n",
        "5;a=b \r",
        "5;a=\u{e9}",
        "5 a",
        "5 5\r\n",
    ] {
        check(input, Err(BodyError::Extension));
    }
}

#[test]
fn broken_data_and_trailers() {
    for input in ["1\r\nxy", "1\r\nx\n", "1\r\nx\rx", "1\r\nx0\r\n\r\n"] {
        check(input, Err(BodyError::ChunkEnd));
    }
    for input in [
        "0\r\n\n",
        "0\r\n\rx",
        "0\r\nX\r\n",
        "0\r\n: y",
        "0\r\nX : y",
        "0\r\n X: y",
        "0\r\nX: y\n",
        "0\r\nX: y\rz",
        "0\r\nX: y\r\n z",
        "0\r\nX: \0",
        "0\r\nX: \u{7f}",
        "0\r\nGET / HTTP/1.1\r\n",
    ] {
        check(input, Err(BodyError::Trailer));
    }
}

#[test]
fn limits() {
    let extension = |bytes: u16| format!("0;{}\r\n\r\n", "a".repeat(usize::from(bytes) - 1));
    accept(&extension(EXTENSION_BYTES_MAX));
    check(&extension(EXTENSION_BYTES_MAX + 1), Err(BodyError::ExtensionTooLong));
    let trailer = |bytes: u16| format!("0\r\nX:{}\r\n\r\n", "a".repeat(usize::from(bytes) - 6));
    let trailers = [trailer(TRAILER_BYTES_MAX), trailer(TRAILER_BYTES_MAX + 1)];
    let outcomes = trailers.map(|body| skip(BodyFraming::Chunked, &[body.as_bytes()]));
    let len = usize::from(TRAILER_BYTES_MAX) + 3;
    assert_eq!(outcomes, [Ok(Some(len)), Err(BodyError::TrailerTooLong)]);
    let trailers = |fields: u8| format!("0\r\n{}\r\n", "X:\r\n".repeat(fields.into()));
    accept(&trailers(TRAILER_FIELDS_MAX));
    check(&trailers(TRAILER_FIELDS_MAX + 1), Err(BodyError::TooManyTrailers));
}

#[test]
fn plain_bodies() {
    assert_eq!(skip(BodyFraming::None, &[b"abc"]), Ok(Some(0)));
    assert_eq!(skip(BodyFraming::Length(0), &[b"abc"]), Ok(Some(0)));
    assert_eq!(skip(BodyFraming::Length(2), &[b"abc"]), Ok(Some(2)));
    assert_eq!(skip(BodyFraming::Length(4), &[b"abc", b"def"]), Ok(Some(4)));
    assert_eq!(skip(BodyFraming::Length(7), &[b"abc", b"def"]), Ok(None));
    assert_eq!(skip(BodyFraming::Length(u64::MAX), &[b"abc"]), Ok(None));
}

#[test]
fn the_largest_chunk_is_counted_and_not_added() {
    assert_eq!(skip(BodyFraming::Chunked, &[b"ffffffffffffffff\r\nabc", b"def"]), Ok(None));
}

#[test]
fn a_skipper_is_small() {
    assert!(size_of::<BodySkipper>() <= 32);
}

/// The length of a chunked body that is parsed at once, with the library's number parser; the model
/// that the skipper is compared with.
fn model(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line_end = at + body[at..].windows(2).position(|pair| pair == b"\r\n")?;
        let line = str::from_utf8(&body[at..line_end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?, 16).ok()?;
        at = line_end + 2;
        if size == 0 {
            break;
        }
        at += size;
        if body.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
    let end = body[at - 2..].windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(at + 2 + end)
}

prop_compose! {
    fn chunk()(
        data in prop::collection::vec(any::<u8>(), 1..40),
        extension in "(;[a-z]{1,3}(=[a-z]{1,3})?){0,2}",
        zeros in "0{0,5}",
    ) -> Vec<u8> {
        let mut chunk = format!("{zeros}{:x}{extension}\r\n", data.len()).into_bytes();
        chunk.extend(data);
        chunk.extend(b"\r\n");
        chunk
    }
}

prop_compose! {
    fn body()(
        chunks in prop::collection::vec(chunk(), 0..6),
        trailer in "([A-Z]{1,4}: [ -~]{0,9}\r\n){0,3}",
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) -> Vec<u8> {
        [&chunks.concat(), &b"0\r\n"[..], trailer.as_bytes(), b"\r\n", &rest].concat()
    }
}

fn pieces(body: &[u8], cut: usize) -> Vec<&[u8]> {
    let (front, back) = body.split_at(cut.min(body.len()));
    front.chunks(3).chain(back.chunks(7)).collect()
}

proptest! {
    #[test]
    fn a_valid_body_ends_where_the_model_says(body in body(), cut in 0..300_usize) {
        let expected = model(&body);
        prop_assert!(expected.is_some());
        prop_assert_eq!(skip(BodyFraming::Chunked, &[&body]), Ok(expected));
        prop_assert_eq!(skip(BodyFraming::Chunked, &pieces(&body, cut)), Ok(expected));
    }

    #[test]
    fn a_damaged_body_ends_the_same_wherever_it_is_cut(
        mut body in body(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in 0..300_usize,
    ) {
        let place = place.index(body.len());
        body[place] = byte;
        let whole = skip(BodyFraming::Chunked, &[&body]);
        prop_assert_eq!(skip(BodyFraming::Chunked, &pieces(&body, cut)), whole);
    }
}

/// The data, the trailer and what follows the body, read in pieces of this size.
fn parts(coded: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>, &[u8]) {
    let mut body = BodySkipper::new(BodyFraming::Chunked);
    let mut unaware = body.clone();
    let (mut data, mut trailer, mut position) = (Vec::new(), Vec::new(), 0);
    while !body.is_done() {
        let end = coded.len().min(position + piece);
        let (taken, run) = body.read_with_trailer(&coded[position..end], &mut trailer).unwrap();
        assert_eq!(unaware.read(&coded[position..end]).unwrap(), (taken, run));
        data.extend_from_slice(run);
        position += taken;
    }
    (data, trailer, &coded[position..])
}

#[test]
fn data_and_trailer_come_out_whichever_way_they_are_cut() {
    let coded = b"5;a=b\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nT: x \r\nu:\r\n\r\nnext";
    for piece in 1..=coded.len() {
        let (data, trailer, next) = parts(coded, piece);
        assert_eq!(
            (&*data, &*trailer, next),
            (&b"hello world"[..], &b"T: x \r\nu:\r\n"[..], &b"next"[..])
        );
        let lines: Vec<_> = trailer_lines(&trailer).collect();
        assert_eq!(lines, [(&b"T"[..], &b"x"[..]), (b"u", b"")]);
    }
    assert_eq!(parts(b"1\r\na\r\n0\r\n\r\n", 1), (b"a".to_vec(), Vec::new(), &b""[..]));
}

#[test]
fn data_may_be_passed_unseen() {
    let mut body = BodySkipper::new(BodyFraming::Chunked);
    assert_eq!(body.data_ahead(), 0);
    assert_eq!(body.read(b"5\r\n").unwrap(), (3, &[][..]));
    assert_eq!(body.data_ahead(), 5);
    body.advance(2);
    assert_eq!(body.data_ahead(), 3);
    body.advance(3);
    assert_eq!(body.read(b"\r\n0\r\n\r\n").unwrap(), (7, &[][..]));
    assert!(body.is_done());
}
