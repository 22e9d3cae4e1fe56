//! Arbitrary bytes as a memory trace: opening and reading never panic, and an error has its place.
//! The input is decoded as a payload behind the checksums, too: what can be decoded survives being
//! encoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_trace::{Reader, fuzzing};

fuzz_target!(|input: &[u8]| {
    fuzzing::payloads(input);
    let reader = match Reader::from_bytes(input.to_vec()) {
        Ok(reader) => reader,
        Err(error) => return assert!(error.offset.is_some(), "{error}"),
    };
    let mut block = Vec::new();
    for process in reader.processes() {
        let mut stream = reader.stream(process.id).expect("the reader has named it");
        while stream.next_block(&mut block).unwrap_or(true) {}
    }
});
