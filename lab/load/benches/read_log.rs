//! The cost of reading a request log of 8,000,000 requests in httperf's format, the size of the
//! papers' logs: `cargo bench -p load --bench read_log`. `cargo test` reads a small log, to check
//! that the benchmark runs.

use std::io::Write;

use os::clock;
use statistics::Generator;
use workload::request_log::wsesslog;

/// The number of directories, of 36 files each.
const DIRECTORIES: usize = 942;
const REQUESTS_PER_SESSION: usize = 7;

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let requests = if measured { 8_000_000 } else { 7000 };
    let text = generate(requests);
    println!("{requests} requests, {} MB", text.len() / 1_000_000);
    for threads in [1, 1, 2, 4] {
        let (wall, cpu) = (clock::now(), clock::cpu_time_thread());
        let log = wsesslog::read_parallel(&text, 0, threads).expect("the log is as it should be");
        let wall_ms = (clock::now() - wall) / 1000;
        let cpu_ms = (clock::cpu_time_thread() - cpu).as_millis();
        assert_eq!(log.requests(), requests);
        let different = log.templates().len();
        println!("{threads} threads: {wall_ms} ms, CPU of the first {cpu_ms} ms, {different} URIs");
    }
}

/// Generates requests roughly as SPECweb99 does: directories by Zipf's law, classes by their mix,
/// all files of a class equally often.
fn generate(requests: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(requests * 48);
    let mut random = Generator::new(1);
    for request in 0..requests {
        if request % REQUESTS_PER_SESSION == 0 {
            text.push(b'\n');
        }
        let uniform = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let directory = (DIRECTORIES as f64).powf(uniform) as usize - 1;
        let percent = random.below(100);
        let class = [35, 85, 99].iter().filter(|&&end| percent >= end).count();
        let file = random.below(9);
        writeln!(text, "/file_set/dir{directory:05}/class{class}_{file} think=0.000000")
            .expect("writing to memory cannot fail");
    }
    text
}
