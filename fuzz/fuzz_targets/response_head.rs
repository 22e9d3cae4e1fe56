//! Arbitrary bytes as the head of a response: what is accepted is what `httparse` reads, and lines
//! that are passed on together are those of the fields that are not for one hop. The first byte of
//! the input chooses where the bytes are cut.

#![no_main]

use http1::{ResponseHead, is_for_one_hop, parse_response_head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((cut, bytes)) = input.split_first() else { return };
    for to_head in [false, true] {
        // A separate allocation, so that the sanitizer detects a byte that is read too far.
        let bytes = bytes.to_vec().into_boxed_slice();
        let Ok(Some(head)) = parse_response_head(&bytes, to_head) else { continue };
        check(&head, &bytes);
        let begun = &bytes[..head.len * usize::from(*cut) / 256];
        assert_eq!(parse_response_head(begun, to_head), Ok(None), "a part is no head");
    }
});

fn check(head: &ResponseHead, bytes: &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut plain = httparse::Response::new(&mut fields);
    assert_eq!(plain.parse(bytes), Ok(httparse::Status::Complete(head.len)));
    assert_eq!(plain.code, Some(head.status));
    let mut lines = head.lines(bytes);
    let mut whole = Vec::new();
    for field in plain.headers.iter() {
        let (name, value, line) = lines.next_line().expect("as many fields");
        assert_eq!((name, value), (field.name.as_bytes(), field.value));
        assert!(line.starts_with(name) && line[name.len()] == b':' && line.ends_with(b"\n"));
        let trimmed = line[name.len() + 1..].trim_ascii();
        assert_eq!(trimmed, value, "{line:?}");
        whole.extend_from_slice(line);
    }
    assert_eq!(lines.next_line(), None);
    if let Some(lines) = head.passed_on(bytes) {
        let fields = plain.headers.iter().map(|field| (field.name.as_bytes(), field.value));
        let fields = fields.filter(|(name, _)| !is_for_one_hop(name));
        let written = fields.map(|(name, value)| [name, b": ", value, b"\r\n"].concat());
        assert_eq!(lines.collect::<Vec<_>>().concat(), written.collect::<Vec<_>>().concat());
    }
    // The lines are all that is between the status line and the blank one.
    let status_line_len = 1 + bytes.iter().position(|byte| *byte == b'\n').expect("a line");
    let rest = &bytes[status_line_len..head.len];
    assert!(rest.starts_with(&whole) && matches!(&rest[whole.len()..], b"\r\n" | b"\n"));
}
