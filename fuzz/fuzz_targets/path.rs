//! Arbitrary bytes as a request path: the result is canonical, encodes to a safe Location, and is
//! the same again when its encoded form is parsed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use site::path::{canonicalise, encode_for_location};

fuzz_target!(|input: &[u8]| {
    let mut scratch = Vec::new();
    let Ok(canonical) = canonicalise(input, &mut scratch) else { return };
    check(canonical);
    let mut location = Vec::new();
    encode_for_location(canonical, &mut location);
    assert!(location.iter().all(u8::is_ascii_graphic));
    assert!(!location.starts_with(b"//"));
    let mut again = Vec::new();
    assert_eq!(canonicalise(&location, &mut again), Ok(canonical));
});

fn check(path: &[u8]) {
    assert!(path.starts_with(b"/"));
    assert!(!path.iter().any(u8::is_ascii_control));
    let inner = path.strip_suffix(b"/").unwrap_or(path);
    for segment in inner.split(|&byte| byte == b'/').skip(1) {
        assert!(![&b""[..], b".", b".."].contains(&segment), "{}", path.escape_ascii());
    }
}
