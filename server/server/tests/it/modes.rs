//! Settings that apply to all engines: which workers have listeners, how files are sent, which
//! workers share a cache.

use std::time::Duration;

use server::Server;
use server::config::{ListenerMode, SendfileChoice};
use testkit::at_a_time;

use crate::conformance::{run_variant, run_with};
use crate::freshness::changes_are_noticed;
use crate::harness::{config, site, start};
use crate::overload::limits_hold;
use crate::serving::get;
use crate::stopping::{cuts_off, stops_gracefully};

/// The least number of cases in all profiles.
const CASES_MIN: usize = 320;

/// Runs the whole suite: conformance, cache, limits, stopping.
fn holds(engine: &str, set: &[&str]) {
    let ran = run_variant(engine, set);
    assert!(ran > CASES_MIN, "only {ran} cases ran");
    let name = format!("engine.name={engine}");
    let set = [&[name.as_str()], set].concat();
    changes_are_noticed(&set);
    limits_hold(&set);
    stops_gracefully(&set);
    cuts_off(&set);
}

/// An engine under test and its settings.
type Variant = (&'static str, Vec<String>);

/// Runs the suite for the variants whose engines are under test, several at a time.
fn all_hold(variants: &[Variant]) {
    let is_under_test = |it: &&Variant| crate::engines().iter().any(|spec| spec.name == it.0);
    let variants: Vec<&Variant> = variants.iter().filter(is_under_test).collect();
    at_a_time(AT_A_TIME, &variants, |(engine, set)| {
        holds(engine, &set.iter().map(String::as_str).collect::<Vec<_>>());
    });
}

/// Most of the suite is waiting: for timeouts, and for timestamps to settle.
const AT_A_TIME: usize = 12;

#[test]
fn the_whole_suite_holds_in_every_listener_mode() {
    let variants_in = |mode: &&str| -> [Variant; 2] {
        let mode = format!("socket.listeners={mode}");
        let two = vec![mode.clone(), "engine.processes=2".into()];
        [("event-loop-per-core", vec![mode]), ("event-loop-shared-listener", two)]
    };
    all_hold(
        &["shared", "exclusive", "reuseport"].iter().flat_map(variants_in).collect::<Vec<_>>(),
    );
}

/// Steering needs the CPUs from 0 on, which a container may not have.
#[test]
fn the_whole_suite_holds_where_connections_are_dealt_by_cpu() {
    let cpus = os::affinity::allowed_cpus();
    let fits = cpus.iter().copied().eq(0..cpus.len())
        && std::thread::available_parallelism().map_or(0, Into::into) == cpus.len();
    let set = "socket.listeners=reuseport-cpu";
    if !fits {
        let directory = site();
        let error = Server::start(&config(&directory, &[set])).err().unwrap().to_string();
        assert!(error.contains("needs an engine with a listener for each worker"), "{error}");
        return;
    }
    let engines = ["event-loop-per-core", "event-loop-copies"];
    all_hold(&engines.map(|engine| (engine, vec![set.into()])));
}

/// With knobs under which the mode is in use: an engine without helpers does not probe whether a
/// send would have to wait for the disk.
#[test]
fn the_whole_suite_holds_in_every_way_to_send_files() {
    let variants = [
        ("event-loop-per-core", "nonblocking", None),
        ("event-loop-helpers", "nonblocking", None),
        ("threads", "blocking", None),
        ("staged", "blocking", None),
        ("event-loop-helpers", "probe", None),
        ("rings", "probe", Some("helpers=2")),
        ("fibers", "probe", Some("blocking_threads=2")),
        ("tasks", "probe", Some("blocking_threads=2")),
        ("event-loop-per-core", "off", None),
        ("threads-direct", "off", None),
    ];
    let variants = variants.map(|(engine, mode, knob)| {
        let knob = knob.map(|knob| format!("engine.knobs.{knob}"));
        let mode = format!("socket.sendfile={mode}");
        let files = "cache.small_body_bytes_max=0".to_owned();
        (engine, [mode, files].into_iter().chain(knob).collect())
    });
    all_hold(&variants);
}

#[test]
fn every_way_to_send_files_conforms_or_is_refused() {
    crate::for_each_engine(|spec| {
        for (word, mode) in [
            ("nonblocking", engines::SendfileMode::NonBlocking),
            ("blocking", engines::SendfileMode::Blocking),
            ("probe", engines::SendfileMode::Probe),
            ("off", engines::SendfileMode::Off),
        ] {
            let set = format!("socket.sendfile={word}");
            if spec.sendfile.contains(&mode) {
                let set = [set.as_str(), "cache.small_body_bytes_max=0"];
                let ran = run_with(spec.name, &set, |profile| profile == "default");
                assert!(ran > 200, "only {ran} cases ran");
                continue;
            }
            let directory = site();
            let name = format!("engine.name={}", spec.name);
            let error =
                Server::start(&config(&directory, &[&name, &set])).err().unwrap().to_string();
            let expected = format!("--set {set}: {} cannot send files by {word:?} (", spec.name);
            assert!(error.starts_with(&expected), "{error}");
        }
    });
}

#[test]
fn caches_may_be_of_workers_partitions_or_processes() {
    for scope in ["worker", "partition", "process"] {
        let directory = site();
        let scope = format!("cache.scope={scope}");
        // An entry that is checked again counts as missed.
        let set = ["engine.knobs.workers=2", "cache.revalidate_ms=never", &scope];
        let server = start(&directory, &[&["engine.name=event-loop-per-core"], &set[..]].concat());
        for _ in 0..20 {
            assert!(get(&server, "/").ends_with("<h1>Rope</h1>"), "{scope}");
        }
        let misses: u64 = server.counters().iter().map(|c| c.cache_misses.get()).sum();
        let expected = if scope.ends_with("worker") { 2 } else { 1 };
        assert!(misses <= expected, "{scope}: {misses} misses");
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    }
}

#[test]
fn each_partition_may_have_its_own_addresses() {
    let directory = site();
    let cpus = os::affinity::allowed_cpus();
    if cpus.len() < 2 {
        return;
    }
    let set = ["partitions.count=2", "engine.name=event-loop"];
    let lists = "partitions.listen=[[\"127.0.0.1:0\"], [\"127.0.0.1:0\", \"127.0.0.1:0\"]]";
    let server = start(&directory, &[set[0], set[1], lists]);
    assert_eq!(server.addresses().len(), 3);
    for (address, of) in server.addresses().iter().zip([0, 1, 1]) {
        let before = server.counters()[of].connections_accepted.get();
        drop(std::net::TcpStream::connect(address).map(|mut stream| {
            std::io::Write::write_all(&mut stream, b"GET / HTTP/1.0\r\n\r\n").unwrap();
            std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
        }));
        assert_eq!(server.counters()[of].connections_accepted.get(), before + 1, "{address}");
    }
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
    let one = "partitions.listen=[[\"127.0.0.1:0\"]]";
    let error = Server::start(&config(&directory, &[set[0], one])).err().unwrap().to_string();
    let expected = "1 lists of addresses for 2 partitions: give each partition one";
    assert_eq!(error, format!("--set {one}: {expected}"));
}

#[test]
fn interrupts_follow_cpus_and_addresses_that_are_named() {
    let directory = site();
    let set = "partitions.set_irq_affinity=true";
    let check = |more: &str, expected: &str| {
        let error = Server::start(&config(&directory, &[set, more])).err().unwrap().to_string();
        assert_eq!(error, format!("--set {set}: {expected}"));
    };
    let named = "workers are not pinned here: name the CPUs of each partition (partitions.cpus)";
    check("partitions.pin=never", named);
    let cpus = os::affinity::allowed_cpus();
    if let [first, second, ..] = cpus[..] {
        let own = "interrupts follow addresses: give each partition its own (partitions.listen)";
        check(&format!("partitions.cpus=[\"{first}\", \"{second}\"]"), own);
    }
    let server = start(&directory, &[set, &format!("partitions.cpus=[\"{}\"]", cpus[0])]);
    let lines = server.explanations();
    let expected = "interrupts: lo has none: each CPU receives what it sends";
    assert_eq!(
        lines.iter().filter(|line| !line.starts_with("auto: ")).collect::<Vec<_>>(),
        [expected]
    );
    assert!(server.status().iter().any(|line| line == expected));
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn the_old_name_of_a_key_says_what_became_of_it() {
    let directory = site();
    let arguments = server::config::Arguments {
        directory: Some(directory.path().join("site")),
        set: vec!["socket.steering=cpu".into()],
        ..Default::default()
    };
    let error = crate::under_test::load(&arguments).unwrap_err();
    assert!(error.contains("socket.listeners = \"reuseport-cpu\""), "{error}");
    let config = config(&directory, &["socket.listeners=shared", "socket.sendfile=probe"]);
    assert_eq!(config.settings.socket.listeners, ListenerMode::Shared);
    let probe = SendfileChoice::Mode(engines::SendfileMode::Probe);
    assert_eq!(config.settings.socket.sendfile, probe);
}
