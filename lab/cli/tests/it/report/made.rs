//! Folders of records as the lab would write them, from a simulated queue: servers of a known
//! capacity, noise of a known size, and everything else that a report can show.

use std::collections::BTreeMap;
use std::path::Path;

use lab::Values;
use lab::record::{
    Absent, Ceiling, Described, Figures, Folder, Header, Kind, Offered, Point, Purpose, Run,
    Search, Server, Skipped,
};
use load::backlog::Backlog;
use load::error_kind::ErrorCounts;
use load::measures::{
    Counts, FILE_CLASSES, FILE_KINDS, FileRow, LengthRow, Measures, SESSION_LENGTH_MAX, Times,
    histogram, interval_histogram,
};
use load::outcome::{Outcome, Setting};

/// A small seeded generator of numbers between 0 and 1 (SplitMix64).
pub(super) struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random number about 1, within `size`.
    fn about(&mut self, size: f64) -> f64 {
        1.0 + size * (self.unit() + self.unit() - 1.0)
    }
}

/// A simulated server.
#[derive(Clone, Copy)]
pub(super) struct Pretended {
    pub(super) name: &'static str,
    /// The requests per second that it can serve.
    pub(super) capacity: f64,
    pub(super) cpu_us: f64,
    /// The part of its capacity that it loses per part offered beyond the capacity.
    pub(super) collapse: f64,
}

pub(super) const SERVERS: [Pretended; 4] = [
    Pretended { name: "floor", capacity: 26_000.0, cpu_us: 31.0, collapse: 0.0 },
    Pretended { name: "event-loop", capacity: 21_000.0, cpu_us: 42.0, collapse: 0.02 },
    Pretended { name: "nginx", capacity: 18_000.0, cpu_us: 55.0, collapse: 0.1 },
    Pretended { name: "apache-<prefork>", capacity: 9_000.0, cpu_us: 130.0, collapse: 0.6 },
];

pub(super) const WINDOW_S: f64 = 10.0;

/// The definition of the experiment, as far as a report reads it.
const DEFINITION: &str = r#"
title = "zipf"
servers = ["floor"]
workloads = ["zipf"]
repetitions = 1
window = "10s"
testbeds = [{ name = "1 CPU", cpus = 1 }, { name = "2 CPU", cpus = 2 }, { name = "4 CPU", cpus = 4 }]
offered = { mat = true }
"#;

/// A folder of records that is being filled.
pub(super) struct Maker {
    folder: Folder,
    noise: Noise,
    number: u64,
    /// When the runs that are added begin. Those of servers that are loaded together begin at once.
    started_unix_us: u64,
}

pub(super) fn header(kind: Kind, repetitions: u32) -> Header {
    let numbers = |pairs: &[(&str, f64)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let testbed = |cpus: f64| Described {
        name: format!("{cpus} CPU"),
        about: format!("cpus {cpus}"),
        numbers: numbers(&[("cpus", cpus)]),
    };
    let server = |server: &Pretended| Server {
        name: server.name.into(),
        description: "events, one loop per core".into(),
        version: "1.2.3".into(),
        configurations: BTreeMap::from([("default".into(), "listen 80; # <&>".into())]),
        ..Server::default()
    };
    Header {
        kind,
        name: "zipf".into(),
        title: "All servers, Zipf in memory & beyond".into(),
        source: "Radhakrishnan 2019, figure 4.2".into(),
        question: "Which server does most on one core, and what becomes of it beyond?".into(),
        expected: "µServer and WatPipe serve most, Apache least.".into(),
        definition: DEFINITION.into(),
        servers: SERVERS.iter().map(server).collect(),
        skipped: vec![Skipped {
            what: Absent::Server { server: "yaws".into() },
            reason: "not installed".into(),
            command: "apt-get install yaws".into(),
        }],
        workloads: vec![Described {
            name: "zipf".into(),
            about: "SPECweb99's files, Zipf with alpha 1".into(),
            numbers: numbers(&[("files", 24_480.0), ("mean_body_bytes", 14_000.0)]),
        }],
        testbeds: vec![testbed(1.0), testbed(2.0), testbed(4.0)],
        repetitions,
        confidence: 0.95,
        estimated_s: 3600.0,
        floor: "floor".into(),
        started_unix_us: 1_795_341_357_000_000,
        ..Header::default()
    }
}

impl Maker {
    pub(super) fn new(path: &Path, header: &Header) -> Self {
        let folder = Folder::create(path, header).unwrap();
        Self { folder, noise: Noise(7), number: 0, started_unix_us: 0 }
    }

    /// Writes two environments, and ceilings for all testbeds.
    pub(super) fn surroundings(&self) {
        for kernel in ["6.1.0", "6.1.1"] {
            let environment = serde_json::json!({
                "kernel": kernel, "cpu": { "model": "<Xeon>", "cores": 4 },
                "sysctl": { "net.core.somaxconn": 4096 }, "recorded_at_s": kernel,
            });
            self.folder.add_environment(&environment).unwrap();
        }
        for (testbed, requests_per_s) in [("1 CPU", 33_000.0), ("2 CPU", 60_000.0)] {
            self.folder.add_ceiling(testbed, Ceiling { bytes_per_s: 2e9, requests_per_s }).unwrap();
        }
    }

    /// Adds one run of a server, with the results of a queue with one server.
    pub(super) fn run(&mut self, server: &Pretended, point: Point, block: u32, purpose: Purpose) {
        let capacity = server.capacity * self.noise.about(0.03);
        let offered = match point.offered {
            Offered::RequestsPerS(rate) => rate,
            // Clients that wait for their replies have as many as the server can give.
            Offered::Connections(_) => capacity,
        };
        let over = (offered / capacity - 1.0).max(0.0);
        let throughput = offered.min(capacity * (1.0 - server.collapse * over).max(0.2));
        let used = (throughput / capacity).min(0.995);
        let mean_us = 2.0 * server.cpu_us / (1.0 - used) * (1.0 + 30.0 * over);
        let outcome = self.outcome(throughput, offered, mean_us);
        let mut figures = Figures::from_outcome(&outcome);
        figures.offered_per_s = offered;
        figures.throughput_per_s = throughput;
        figures.kept_up_share = (throughput / offered).min(1.0);
        figures.served_share = 1.0 - over.min(0.5) * 0.6;
        figures.error_share = over.min(0.5) * 0.6;
        figures.spread_points = Some(over.min(0.5));
        let cpu_us = server.cpu_us * self.noise.about(0.04);
        self.number += 1;
        let run = Run {
            number: self.number,
            point,
            block,
            purpose,
            started_unix_us: self.started_unix_us,
            warm_up_s: 2.0,
            window_s: WINDOW_S,
            figures: Some(figures),
            observed: BTreeMap::from([
                ("cpu_us_per_request".into(), cpu_us),
                ("cpu_utilisation".into(), (cpu_us * throughput / 1e6).min(1.0)),
                ("proportional_bytes".into(), server.cpu_us * 100_000.0),
                ("elapsed_us".into(), WINDOW_S * 1e6),
                ("system_calls".into(), 3.0 * throughput * WINDOW_S),
                ("block_read_bytes".into(), over * 1e6 * WINDOW_S),
            ]),
            not_available: vec!["hardware counters: no PMU in this virtual machine".into()],
            ..Run::default()
        };
        self.folder.add_run(&run, Some(&load::report::json::write(&outcome))).unwrap();
    }

    pub(super) fn void_run(&mut self, point: Point, reason: &str) {
        self.number += 1;
        let (number, void) = (self.number, vec![lab::Void::Other(reason.into())]);
        let run = Run { number, point, void, attempt: 0, ..Run::default() };
        self.folder.add_run(&run, None).unwrap();
    }

    pub(super) fn search(&self, search: &Search) {
        self.folder.add_search(search).unwrap();
    }

    /// Makes an outcome with exponential response times of this mean.
    fn outcome(&mut self, throughput: f64, offered: f64, mean_us: f64) -> Outcome {
        let mut corrected = histogram();
        for _ in 0..2000 {
            let us = -mean_us * (1.0 - self.noise.unit()).ln();
            corrected.record((us as u64).max(1)).unwrap();
        }
        // There are two classes of files; the second is four times as slow.
        let mut classes = vec![interval_histogram(); FILE_CLASSES];
        for (class, factor) in [(0, 0.5), (1, 2.0)] {
            for step in 1..=100_u32 {
                let us = mean_us * factor * f64::from(step) / 50.0;
                classes[class].record((us as u64).max(1)).unwrap();
            }
        }
        let empty = histogram;
        let times = Times {
            corrected,
            uncorrected: empty(),
            first_byte: empty(),
            connect: empty(),
            connection: empty(),
            lag: empty(),
            session: empty(),
            session_failed: empty(),
        };
        let replies = (throughput * WINDOW_S) as u64;
        let requests = (offered * WINDOW_S) as u64;
        let counts = Counts { requests, replies, replies_in_window: replies, ..Counts::default() };
        Outcome {
            setting: Setting::default(),
            window_us: (WINDOW_S * 1e6) as u64,
            started_unix_us: 0,
            interval_us: 1_000_000,
            cpu_us: (0, 0),
            run_delay_us: None,
            wake_ups: 0,
            others_us: None,
            server_cpu: None,
            measures: Measures {
                counts,
                errors: ErrorCounts::default(),
                backlog: Backlog::default(),
                times,
                files: vec![FileRow::default(); FILE_KINDS],
                classes,
                lengths: vec![LengthRow::default(); SESSION_LENGTH_MAX + 1],
                replies_per_session: vec![0; SESSION_LENGTH_MAX + 1],
                series: Vec::new(),
            },
            void: Vec::new(),
            first_bad: None,
            first_refused: None,
            interrupted: false,
        }
    }
}

pub(super) fn point(server: &str, testbed: &str, rate: f64) -> Point {
    Point {
        server: server.into(),
        setting: "default".into(),
        knobs: Values::new(),
        workload: "zipf".into(),
        testbed: testbed.into(),
        offered: Offered::RequestsPerS(rate),
    }
}

/// Testbeds, each with the factor by which a server's capacity is larger in it.
pub(super) const TESTBEDS: [(&str, f64); 3] = [("1 CPU", 1.0), ("2 CPU", 1.8), ("4 CPU", 3.1)];

/// Makes a study with curves of four servers, and everything that can be missing.
pub(super) fn study(path: &Path, blocks: u32, testbeds: &[(&str, f64)]) {
    let mut maker = Maker::new(path, &header(Kind::Study, blocks));
    maker.surroundings();
    for &(testbed, factor) in testbeds {
        for block in 0..blocks {
            for rate in [4_000.0, 8_000.0, 12_000.0, 16_000.0, 20_000.0, 24_000.0, 28_000.0] {
                for server in SERVERS {
                    let server = Pretended { capacity: server.capacity * factor, ..server };
                    maker.run(
                        &server,
                        point(server.name, testbed, rate * factor),
                        block,
                        Purpose::Point,
                    );
                }
            }
        }
    }
    let late = "the generator was late: 99th percentile of its lag 12.3 ms, bound 10 ms";
    maker.void_run(point("nginx", "1 CPU", 8_000.0), late);
    maker.void_run(point("nginx", "1 CPU", 32_000.0), "<b>reads from disk</b>");
}

/// Makes a tuning of a server with three knobs, of which the best setting is known.
pub(super) fn tuning(path: &Path) {
    let mut maker = Maker::new(path, &header(Kind::Tune, 6));
    maker.surroundings();
    for block in 0..6 {
        for workers in [1.0, 2.0, 4.0, 8.0_f64] {
            for (backlog, gain) in [("128", 0.8), ("1024", 1.0), ("4096", 0.97)] {
                for (sendfile, loss) in [("on", 1.0), ("off", 0.7)] {
                    let capacity =
                        18_000.0 * gain * loss * (1.0 - 0.2 * (workers.log2() - 1.0).abs());
                    let server = Pretended { capacity, ..SERVERS[2] };
                    let point = Point {
                        setting: format!("w{workers} b{backlog} {sendfile}"),
                        knobs: Values::from([
                            ("workers".into(), workers.to_string()),
                            ("backlog".into(), backlog.into()),
                            ("sendfile".into(), sendfile.into()),
                        ]),
                        ..point("nginx", "1 CPU", 30_000.0)
                    };
                    maker.run(&server, point, block, Purpose::Point);
                }
            }
        }
    }
}

/// Makes a tuning of a server with one knob.
pub(super) fn one_knob(path: &Path) {
    let mut maker = Maker::new(path, &header(Kind::Tune, 6));
    for block in 0..6 {
        for workers in [1.0, 2.0, 4.0, 8.0_f64] {
            let capacity = 18_000.0 * (1.0 - 0.2 * (workers.log2() - 1.0).abs());
            let point = Point {
                setting: format!("w{workers}"),
                knobs: Values::from([("workers".into(), workers.to_string())]),
                ..point("nginx", "1 CPU", 30_000.0)
            };
            maker.run(&Pretended { capacity, ..SERVERS[2] }, point, block, Purpose::Point);
        }
    }
}

/// Makes a tuning of a server with one knob whose values are words.
pub(super) fn words(path: &Path) {
    let mut maker = Maker::new(path, &header(Kind::Tune, 6));
    for block in 0..6 {
        for (events, gain) in [("epoll", 1.0), ("epoll-level", 0.97), ("poll", 0.9), ("", 0.8)] {
            let point = Point {
                setting: format!("events {events}"),
                knobs: Values::from([("engine.knobs.events".into(), events.into())]),
                ..point("nginx", "1 CPU", 30_000.0)
            };
            let server = Pretended { capacity: 18_000.0 * gain, ..SERVERS[2] };
            maker.run(&server, point, block, Purpose::Point);
        }
    }
}

/// Makes a study of many servers with long names, at two rates in one testbed and one in another.
pub(super) fn crowd(path: &Path) {
    const NAMES: [&str; 19] = [
        "nginx",
        "nginx sendfile-nopush,worker_processes=16",
        "ropewalk:event-loop-per-core default",
        "ropewalk:event-loop-per-core default,cache.small_body_bytes_max=1048576",
        "ropewalk:event-loop-shared-listener default,more=partitions.count=2",
        "ropewalk:event-loop-shared-cache default,engine.knobs.processes=4",
        "ropewalk:event-loop-helpers default,engine.knobs.helpers=16,socket.sendfile=probe",
        "ropewalk:staged default,engine.knobs.read_threads=1,engine.knobs.write_threads=16",
        "ropewalk:staged default,engine.processes={workers}",
        "ropewalk:fibers default,engine.knobs.spawn_on_demand=0,engine.knobs.prespawned=16250",
        "ropewalk:threads",
        "ropewalk:thread-pool",
        "apache-event processes=64,threads=64",
        "lighttpd writev,max_connections=16384",
        "h2o",
        "caddy rare-collection",
        "gofasthttp small-buffers,gomaxprocs=4,max_conns=60000",
        "yaws large-cache",
        "static-web-server",
    ];
    let mut maker = Maker::new(path, &header(Kind::Study, 2));
    for block in 0..2 {
        for (n, name) in NAMES.into_iter().enumerate() {
            let capacity = 1_234_567.0 / (1.0 + n as f64 / 4.0);
            let server = Pretended { name, capacity, ..SERVERS[2] };
            for rate in [400_000.0, 1_300_000.0] {
                maker.run(&server, point(name, "1 CPU", rate), block, Purpose::Point);
            }
            maker.run(&server, point(name, "2 CPU", 1_300_000.0), block, Purpose::Point);
        }
    }
}

/// Makes a comparison of two servers that keep up, of which one needs less processor time.
pub(super) fn comparison(path: &Path, blocks: u32) {
    let mut header = header(Kind::Compare, blocks);
    header.servers.retain(|server| ["event-loop", "nginx"].contains(&&*server.name));
    header.floor = String::new();
    let mut maker = Maker::new(path, &header);
    for block in 0..blocks {
        for server in &SERVERS[1..3] {
            maker.run(server, point(server.name, "1 CPU", 8_000.0), block, Purpose::CommonRate);
        }
    }
}

/// Makes a study whose servers share their windows, as those of the README's picture do.
pub(super) fn together(path: &Path) {
    let mut header = header(Kind::Study, 6);
    header.together = true;
    header.floor = String::new();
    let workload = |name: &str| Described { name: name.into(), ..header.workloads[0].clone() };
    header.workloads = ["1k", "10k"].map(workload).into();
    let mut maker = Maker::new(path, &header);
    maker.surroundings();
    for block in 0..6 {
        for (workload, factor) in [("1k", 1.0), ("10k", 0.6)] {
            maker.started_unix_us += 1_000_000;
            for server in &SERVERS[1..] {
                let server = Pretended {
                    capacity: server.capacity * factor,
                    cpu_us: server.cpu_us / factor,
                    ..*server
                };
                let offered = Offered::Connections(64);
                let workload = workload.into();
                let point = Point { workload, offered, ..point(server.name, "1 CPU", 0.0) };
                maker.run(&server, point, block, Purpose::Point);
            }
        }
    }
}

/// Makes a study with searches in place of sweeps, one in each block.
pub(super) fn searched(path: &Path, blocks: u32) {
    let mut maker = Maker::new(path, &header(Kind::Study, blocks));
    maker.surroundings();
    for block in 0..blocks {
        for server in SERVERS {
            let purpose = Purpose::Limit { block };
            let held = server.capacity * maker.noise.about(0.04);
            for rate in [0.5, 0.97, 1.06] {
                maker.run(
                    &server,
                    point(server.name, "1 CPU", held * rate),
                    block,
                    purpose.clone(),
                );
            }
            maker.search(&Search {
                purpose,
                block,
                server: server.name.into(),
                setting: "default".into(),
                workload: "zipf".into(),
                testbed: "1 CPU".into(),
                conditions: "served=0.99 errors=0.001".into(),
                held_per_s: held * 0.97,
                broke_per_s: Some(held * 1.02),
                broken: vec!["served 0.971 < 0.99".into()],
                throughputs_per_s: vec![held * 0.97],
                generator_bound: false,
            });
        }
    }
}

/// Makes a study at rates that make all servers equally busy; for one server one rate was not
/// found.
pub(super) fn utilisations(path: &Path, servers: &[Pretended]) {
    let mut maker = Maker::new(path, &header(Kind::Study, 2));
    for (nth, server) in servers.iter().enumerate() {
        for share in [0.5, 0.8] {
            if (nth, share) == (1, 0.5) {
                continue;
            }
            let point = || point(server.name, "1 CPU", server.capacity * share);
            maker.run(server, point(), 0, Purpose::Utilisation(share));
            for block in 0..2 {
                maker.run(server, point(), block, Purpose::Point);
            }
        }
    }
}
