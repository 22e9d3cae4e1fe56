//! The cost of making and checking the content of files, which is paid for every byte of every
//! verified reply. `cargo bench -p fileset`; with `cargo test` a few rounds, to check that it runs.

use std::hint::black_box;

use os::clock;
use workload::fileset::File;

/// The lengths of one reply of each class, and of a large one.
const LENGTHS: [usize; 6] = [102, 614, 5120, 51_200, 512_000, 921_600];

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let bytes_total = if measured { 4 << 30 } else { 1 << 20 };
    println!("{:>8}  {:>10}  {:>10}  {:>12}", "bytes", "fill GB/s", "check GB/s", "check at 13");
    for len in LENGTHS {
        let rounds = bytes_total / len;
        let content = File::Single { bytes: len as u64 }.content();
        let mut bytes = vec![0; len];
        let fill = rate(rounds * len, || {
            (0..rounds).for_each(|_| black_box(content).fill(0, black_box(&mut bytes)));
        });
        let check = rate(rounds * len, || {
            (0..rounds)
                .for_each(|_| assert!(black_box(content).check(0, black_box(&bytes)).is_ok()));
        });
        content.fill(13, &mut bytes);
        let unaligned = rate(rounds * len, || {
            (0..rounds)
                .for_each(|_| assert!(black_box(content).check(13, black_box(&bytes)).is_ok()));
        });
        println!("{len:>8}  {fill:>10.2}  {check:>10.2}  {unaligned:>12.2}");
    }
    let located = rate(1_000_000_000, || {
        for _ in 0..1_000_000 {
            let file = File::locate(black_box(b"/specweb99/file_set/dir00679/class3_8"));
            black_box(file.expect("a file's path").content());
        }
    });
    println!("finding a file by its path and seeding its content: {:.0} ns", 1000.0 / located);
}

/// Gigabytes a second of processor time, which other programs on the machine disturb least.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    let start = clock::cpu_time_thread();
    work();
    bytes as f64 / (clock::cpu_time_thread() - start).as_nanos().max(1) as f64
}
