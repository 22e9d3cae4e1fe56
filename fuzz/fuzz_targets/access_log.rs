//! Arbitrary bytes as an access log: importing never panics, every line is accounted for, and the
//! resulting log can be written as httperf's and read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::request_log::access_log::{ImportOptions, import};
use workload::request_log::wsesslog::{read, write};

fuzz_target!(|input: &[u8]| {
    let Some((choices, text)) = input.split_first() else { return };
    let options = ImportOptions {
        bursts: choices & 1 == 1,
        good_only: choices & 2 == 2,
        ..ImportOptions::default()
    };
    let (log, report) = import(text, &options).expect("it is small");
    let malformed: u64 = report.malformed.iter().map(|kind| kind.lines).sum();
    let other_methods: u64 = report.other_methods.iter().map(|(_, count)| count).sum();
    let left_out = malformed + other_methods + report.redirected + report.failed;
    assert_eq!(report.requests + left_out, report.lines);
    assert_eq!(log.requests() as u64, report.requests);
    assert_eq!(report.status.iter().sum::<u64>(), report.requests);
    let mut written = Vec::new();
    write(&log, &mut written, &report.to_string()).expect("every URI can be expressed");
    assert_eq!(read(&written, 9), Ok(log));
});
