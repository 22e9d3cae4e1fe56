//! Arbitrary bytes as httperf's session log: reading never panics, an error lies within the log,
//! and the log that was read comes back when it is written, if the format can express it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::request_log::wsesslog::{WriteError, read, write};

fuzz_target!(|input: &[u8]| {
    let log = match read(input, 7) {
        Ok(log) => log,
        Err(error) => {
            let lines = input.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
            assert!((1..=lines).contains(&error.line), "{error}");
            return;
        }
    };
    let sessions = 0..log.sessions();
    assert_eq!(sessions.map(|index| log.session(index).len()).sum::<usize>(), log.requests());
    let mut text = Vec::new();
    match write(&log, &mut text, "a comment") {
        Ok(()) => assert_eq!(read(&text, 9), Ok(log), "{}", text.escape_ascii()),
        Err(WriteError::Inexpressible { session, request, .. }) => {
            assert!(request < log.session(session).len());
        }
        Err(WriteError::Io(error)) => panic!("memory does not fail: {error}"),
    }
});
