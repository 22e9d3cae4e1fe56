//! What the rule chooses, and each of its lines.

use super::*;
use crate::config::ListenerMode;
use crate::modes;
use crate::partitions::Partition;

const FACTS: Facts = Facts {
    cpus: 4,
    nodes: 1,
    wanted: None,
    site: SiteSize { bytes: 10_000_000, files: 100, is_complete: true },
    memory_bytes: 8_000_000_000,
    can_probe: true,
    sendfile: None,
};

const LARGE: Facts = Facts { site: SiteSize { bytes: 4_000_000_001, ..FACTS.site }, ..FACTS };

const LARGE_UNPROBED: Facts = Facts { can_probe: false, ..LARGE };

/// The rule's choice and its reasons, as a server of one partition says them.
fn choose(facts: Facts, listeners: ListenerMode) -> (Choice, [String; 3]) {
    let choice = Choice::new(facts);
    let mut settings = Settings::default();
    settings.socket.listeners = listeners;
    let wanted = choice.sendfile.or(facts.sendfile);
    settings.socket.sendfile = wanted.map_or(SendfileChoice::Auto, SendfileChoice::Mode);
    let spec = engines::find(choice.engine).unwrap();
    let partitions = [Partition { cpus: (0..facts.width()).collect(), width: facts.width() }];
    let layout = Layout::new(&settings, spec, &spec.default_knobs(), &partitions);
    let sendfile = modes::sendfile(settings.socket.sendfile, spec, &layout).unwrap();
    let reasons = choice.reasons(&settings, &layout, sendfile, false);
    (choice, reasons)
}

fn check(facts: Facts, engine: &str, reasons: [&str; 3]) {
    let (choice, lines) = choose(facts, ListenerMode::Auto);
    assert_eq!((choice.engine, choice.partitions_by), (engine, Some(Division::Count)));
    assert_eq!(lines, reasons);
}

const ONE_MEMORY: &str = "4 CPUs at one memory: one partition, whose cache all share";

#[test]
fn files_in_memory() {
    check(
        FACTS,
        "event-loop-per-core",
        [
            ONE_MEMORY,
            "10 MB of files fit in 8000 MB of memory: a loop on each CPU shares nothing",
            "a listener for each worker; files are sent without asking whether they are in memory",
        ],
    );
    check(
        Facts { cpus: 1, ..FACTS },
        "event-loop",
        [
            "1 CPU: one partition",
            "10 MB of files fit in 8000 MB of memory: one loop is enough",
            "one listener; files are sent without asking whether they are in memory",
        ],
    );
    // What the kernel can tell of files does not matter then.
    let (choice, _) = choose(Facts { can_probe: false, ..FACTS }, ListenerMode::Auto);
    assert_eq!(choice.engine, "event-loop-per-core");
}

#[test]
fn a_large_machine_is_divided() {
    let (choice, reasons) = choose(Facts { nodes: 2, ..FACTS }, ListenerMode::Auto);
    assert_eq!(choice.partitions_by, Some(Division::Node));
    assert_eq!(reasons[0], "2 memory nodes: a partition for each, whose cache is near");
}

#[test]
fn partitions_that_are_configured_stay() {
    let facts = Facts { nodes: 2, wanted: Some((4, 1)), ..FACTS };
    let (choice, reasons) = choose(facts, ListenerMode::Auto);
    assert_eq!((choice.engine, choice.partitions_by), ("event-loop", None));
    assert_eq!(reasons[0], "4 partitions, as configured");
}

/// The loops with helpers have one listener for all of them.
#[test]
fn files_that_may_not_fit() {
    let files = "one listener for 4 workers: an arrival wakes one; files that are not in memory \
                 are fetched first";
    let check = |site, expected| {
        check(Facts { site, ..FACTS }, "event-loop-helpers", [ONE_MEMORY, expected, files]);
    };
    let uncounted = |bytes, files| SiteSize { bytes, files, is_complete: false };
    check(
        LARGE.site,
        "4001 MB of files may not fit in 8000 MB of memory: helpers wait for the disk",
    );
    check(
        uncounted(90_000 * 4_001, 90_000),
        "more than 90000 files of 4001 bytes on average, 1000000 of which may not fit in 8000 MB \
         of memory: helpers wait for the disk",
    );
    check(
        uncounted(1, 999),
        "more than 999 files, not counted further, may not fit in 8000 MB of memory: helpers wait \
         for the disk",
    );
    check(
        uncounted(LARGE.site.bytes, 100),
        "more than 4001 MB of files may not fit in 8000 MB of memory: helpers wait for the disk",
    );
}

/// However many there are: small files are no reason for another engine.
#[test]
fn small_files_that_could_not_all_be_counted() {
    let check = |bytes, expected| {
        let site = SiteSize { bytes, files: 90_000, is_complete: false };
        let (choice, reasons) = choose(Facts { site, ..FACTS }, ListenerMode::Auto);
        assert_eq!((choice.engine, &*reasons[1]), ("event-loop-per-core", expected));
    };
    check(
        0,
        "more than 90000 files of 0 bytes on average, 1000000 of which fit in 8000 MB of memory: \
         a loop on each CPU shares nothing",
    );
    check(
        90_000 * 4_000,
        "more than 90000 files of 4000 bytes on average, 1000000 of which fit in 8000 MB of \
         memory: a loop on each CPU shares nothing",
    );
}

/// Without a probe helpers would have to fetch everything: threads send instead, and may wait.
#[test]
fn where_the_kernel_cannot_tell_what_is_in_memory_threads_wait() {
    check(
        LARGE_UNPROBED,
        "thread-pool",
        [
            ONE_MEMORY,
            "4001 MB of files may not fit in 8000 MB of memory: threads of a pool wait for the disk",
            "one listener; this file system cannot say what is in memory, so files are sent \
             without asking",
        ],
    );
    // A slow reader shall have no thread, though blocking sends are that engine's usual way.
    let (choice, _) = choose(LARGE_UNPROBED, ListenerMode::Auto);
    assert_eq!(choice.sendfile, Some(SendfileMode::NonBlocking));
}

#[test]
fn a_sendfile_mode_that_is_configured_stays_and_has_an_engine_that_can() {
    let check = |facts: Facts, mode, engine: &str, why: &str, files: &str| {
        let facts = Facts { sendfile: Some(mode), ..facts };
        let (choice, reasons) = choose(facts, ListenerMode::Auto);
        assert_eq!((choice.engine, choice.sendfile), (engine, None));
        assert!(reasons[1].ends_with(&format!(": {why}")), "{}", reasons[1]);
        assert!(reasons[2].ends_with(&format!("; {files} (as configured)")), "{}", reasons[2]);
    };
    use SendfileMode::{Blocking, NonBlocking, Probe};
    let unasked = "files are sent without asking whether they are in memory";
    let loops = "a loop on each CPU shares nothing";
    check(FACTS, NonBlocking, "event-loop-per-core", loops, unasked);
    for facts in [LARGE, LARGE_UNPROBED] {
        let why = "threads of a pool wait for the disk";
        check(facts, NonBlocking, "thread-pool", why, unasked);
    }
    for facts in [FACTS, LARGE, LARGE_UNPROBED] {
        let files = "one call sends a whole file, and waits for its reader";
        check(facts, Blocking, "thread-pool", "sends that block have a thread each", files);
    }
    let why = "helpers wait for what a probe does not find";
    let files = "files that are not in memory are fetched first";
    check(FACTS, Probe, "event-loop-helpers", why, files);
    let files = "this file system cannot say what is in memory: helpers fetch all larger files";
    check(LARGE_UNPROBED, Probe, "event-loop-helpers", why, files);
}

#[test]
fn listeners_that_are_configured_are_said_to_be() {
    let check = |facts, mode, expected: &str| {
        let (_, reasons) = choose(facts, mode);
        let start = format!("{expected} (as configured); ");
        assert!(reasons[2].starts_with(&start), "{}", reasons[2]);
    };
    use ListenerMode::{Exclusive, ReusePort, ReusePortCpu, Shared};
    check(FACTS, Shared, "one listener for 4 workers: an arrival wakes all");
    check(FACTS, Exclusive, "one listener for 4 workers: an arrival wakes one");
    check(FACTS, ReusePort, "a listener for each worker");
    check(FACTS, ReusePortCpu, "a listener for each worker, dealt by CPU");
    check(LARGE, Shared, "one listener for 4 workers: an arrival wakes all");
    check(Facts { cpus: 1, ..FACTS }, Shared, "one listener");
}
