//! Arbitrary bytes as a chunked body: skipping never panics, and where the body ends, or whether it
//! is broken, does not depend on how the bytes are cut into reads. The first two bytes choose the
//! sizes of the reads.

#![no_main]

use http1::{BodyError, BodyFraming, BodySkipper};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((sizes, bytes)) = input.split_first_chunk::<2>() else { return };
    let whole = skip(bytes.chunks(bytes.len().max(1)));
    assert_eq!(skip(bytes.chunks(1)), whole, "a byte at a time");
    for size in sizes.map(|size| usize::from(size) + 1) {
        assert_eq!(skip(bytes.chunks(size)), whole, "in reads of {size}");
    }
    if let Ok(Some(taken)) = whole {
        assert!(bytes[..taken].ends_with(b"\r\n\r\n"), "a body ends in a blank line");
        assert_eq!(skip(std::iter::once(&bytes[..taken])), whole, "without what follows");
    }
});

/// The length of the body in bytes; `None` if it is not complete.
fn skip<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Result<Option<usize>, BodyError> {
    let mut skipper = BodySkipper::new(BodyFraming::Chunked);
    let mut total = 0;
    for piece in pieces {
        let taken = skipper.skip(piece)?;
        assert!(taken == piece.len() || skipper.is_done(), "{taken} of {}", piece.len());
        total += taken;
    }
    Ok(skipper.is_done().then_some(total))
}
