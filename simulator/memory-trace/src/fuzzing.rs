//! For the fuzz target: the decoders without the checksums in front of them, which no fuzzer
//! guesses. This is not a public interface.

use crate::description::{decode_header, decode_process, encode_header, encode_process};
use crate::{encoding, index};

/// Decodes bytes as a payload of every kind; what can be decoded must survive being encoded.
pub fn payloads(input: &[u8]) {
    events(input);
    if let Ok(header) = decode_header(input) {
        assert_eq!(decode_header(&encode_header(&header)), Ok(header));
    }
    if let Ok(process) = decode_process(input) {
        assert_eq!(decode_process(&encode_process(&process)), Ok(process));
    }
    if let Ok(entries) = index::decode(input) {
        assert_eq!(index::decode(&index::encode(&entries)), Ok(entries));
    }
}

/// Decodes events, whose number is in the first byte.
fn events(input: &[u8]) {
    let Some((count, payload)) = input.split_first() else { return };
    let (count, mut decoded) = (usize::from(*count), Vec::new());
    if encoding::decode(payload, count, &mut decoded).is_err() {
        return;
    }
    assert_eq!(decoded.len(), count);
    let (mut encoded, mut again) = (Vec::new(), Vec::new());
    encoding::encode(&decoded, &mut encoded);
    assert_eq!(encoding::decode(&encoded, count, &mut again), Ok(()));
    assert_eq!(again, decoded);
}
