//! Sample outcomes for tests, and the comparison with golden files.

use std::path::Path;

use statistics::Generator;

use crate::backlog::{Backlog, STEPS};
use crate::error_kind::ErrorKind;
use crate::measures::{Counts, FileRow, Interval, LengthRow, Measures};
use crate::outcome::{Arrivals, Outcome, ServerCpu, Setting};
use crate::void::Void;

/// A run without any event.
pub(crate) fn empty() -> Outcome {
    Outcome {
        setting: Setting::default(),
        window_us: 1_000_000,
        started_unix_us: 1_767_225_600_000_000,
        interval_us: 1_000_000,
        cpu_us: (0, 0),
        run_delay_us: None,
        wake_ups: 0,
        others_us: None,
        server_cpu: None,
        measures: Measures::default(),
        void: Vec::new(),
        first_bad: None,
        first_refused: None,
        interrupted: false,
    }
}

/// A partly-open run of twelve seconds with events of all kinds.
pub(crate) fn run() -> Outcome {
    let mut outcome = empty();
    outcome.setting = setting();
    outcome.window_us = 12_000_000;
    outcome.cpu_us = (1_500_000, 4_500_000);
    (outcome.run_delay_us, outcome.others_us) = (Some(800_000), Some(500_000));
    outcome.server_cpu =
        Some(ServerCpu { run_delay_us: Some(100_000), others_us: 600_000, used_us: 5_400_000 });
    outcome.measures.counts = counts();
    record(&mut outcome.measures);
    outcome.measures.backlog = backlog();
    outcome.measures.errors.set(ErrorKind::Refused, 10);
    outcome.measures.errors.set(ErrorKind::TimeoutWaiting, 150);
    outcome.measures.errors.set(ErrorKind::BadStatus, 40);
    files(&mut outcome.measures);
    outcome.measures.series = (0..12).map(interval).collect();
    outcome
}

/// The outcome of [`run`], but it says nothing about the server: the generator was late and out of
/// ports.
pub(crate) fn void() -> Outcome {
    let mut outcome = run();
    outcome.measures.errors.set(ErrorKind::OutOfPorts, 2_000);
    outcome.measures.times.lag.record_n(12_000, 2_000).expect("the sample is whole");
    outcome.void = vec![
        Void::Late { p99_us: 12_000, bound_us: 1_000 },
        Void::Failed { kind: ErrorKind::OutOfPorts, times: 2_000 },
    ];
    outcome.server_cpu =
        Some(ServerCpu { run_delay_us: Some(3_600_000), others_us: 9_000_000, used_us: 1_200_000 });
    outcome.void.push(Void::ServerStarved { waited_percent: 75, bound_percent: 50 });
    outcome.setting.generators = 3;
    outcome.setting.share = vec![0, 2];
    outcome.interrupted = true;
    outcome.first_refused = Some("/a from 127.0.0.1:8080: more than 100 fields".into());
    outcome.measures.counts.surplus_replies = 3;
    outcome.first_bad = Some("/dir00000/class0_1 at byte 12: expected 0x41, got 0x42".into());
    outcome
}

/// A random outcome, determined by `seed`, of generator `index` of `of`.
pub(crate) fn random(seed: u64, index: u32, of: u32) -> Outcome {
    let mut random = Generator::new(seed);
    let mut outcome = empty();
    outcome.setting = Setting { share: vec![index], generators: of, ..setting() };
    outcome.setting.command = format!("with a \"quote\" and a line\nfeed {seed}");
    outcome.cpu_us = (random.next_u64() >> 20, random.next_u64() >> 20);
    outcome.run_delay_us = Some(random.next_u64() >> 20);
    outcome.wake_ups = random.next_u64() >> 20;
    outcome.others_us = Some(random.next_u64() >> 20);
    outcome.server_cpu = (random.below(3) > 0).then(|| ServerCpu {
        run_delay_us: (random.below(3) > 0).then(|| random.next_u64() >> 20),
        others_us: random.next_u64() >> 20,
        used_us: random.next_u64() >> 20,
    });
    outcome.interrupted = random.below(2) == 1;
    let measures = &mut outcome.measures;
    measures.counts.requests = random.next_u64() >> 8;
    measures.counts.status[random.below(6)] = random.next_u64() >> 8;
    for kind in ErrorKind::ALL {
        measures.errors.set(kind, random.below(3) as u64);
    }
    for value in [&mut measures.times.corrected, &mut measures.times.lag] {
        for _ in 0..random.below(40) {
            let magnitude = random.below(34);
            value.saturating_record_n(random.next_u64() >> (63 - magnitude), 1 << magnitude);
        }
    }
    measures.files[random.below(38)].time_us = random.next_u64() >> 8;
    let class = &mut measures.classes[random.below(6)];
    class.saturating_record_n(1 + random.below(1_000_000) as u64, 3);
    measures.lengths[random.below(65)].sessions = random.next_u64() >> 8;
    measures.replies_per_session[random.below(65)] = random.next_u64() >> 8;
    measures.backlog.begin = random.below(9) as u64;
    measures.backlog.asked = (0..STEPS).map(|_| random.below(9) as u64).collect();
    measures.series = (0..random.below(4) as u64).map(interval).collect();
    outcome
}

fn setting() -> Setting {
    Setting {
        command: "ropewalk load http://127.0.0.1:8080/ --log requests.log --rate 600".into(),
        targets: vec!["http://127.0.0.1:8080/".into()],
        arrivals: Arrivals::Poisson,
        rate: "600".into(),
        connections: None,
        idle: 0,
        connection_use: "session".into(),
        verify: "length".into(),
        timeout_us: 10_000_000,
        connect_timeout_us: 3_000_000,
        latency_target_us: Some(50_000),
        duration_us: Some(12_000_000),
        lag_bound_us: Some(1_000),
        run_delay_bound: 0.5,
        seed: 7,
        log: Some("requests.log".into()),
        log_beyond_get: false,
        digest: "85944171f73967e8".into(),
        share: vec![0],
        generators: 1,
        starts_apart_us: 0,
        threads: 2,
        descriptors_max: 20_000,
    }
}

fn counts() -> Counts {
    Counts {
        sessions_due: 7_200,
        sessions_started: 7_190,
        sessions_completed: 6_980,
        sessions_failed: 200,
        sessions_unfinished: 10,
        requests: 43_200,
        replies: 43_000,
        replies_in_window: 42_990,
        body_bytes_in_window: 645_000_000,
        sessions_under_way_begin: 20,
        sessions_under_way_end: 30,
        replies_in_time: 42_500,
        requests_abandoned: 800,
        requests_overdue: 0,
        status: [0, 0, 43_000, 0, 40, 0],
        surplus_replies: 0,
        bytes_sent: 4_320_050,
        head_bytes: 8_608_000,
        body_bytes: 645_000_000,
        framing_bytes: 430_000,
        connections_tried: 7_200,
        connections: 7_190,
        connections_open_max: 412,
        connection_time_us: 3_595_000_000,
        idle_connections: 0,
        idle_closed: 0,
    }
}

/// 44,500 requests asked, of which 100 are not settled at the end of the window, as at its begin.
fn backlog() -> Backlog {
    let steps = vec![89; STEPS];
    Backlog { begin: 100, asked: steps.clone(), settled: steps }
}

/// Records times. Values below 2048 us are exact in a histogram of three digits, larger ones are
/// not.
fn record(measures: &mut Measures) {
    let times = &mut measures.times;
    for (value_us, count) in [(900, 40_000), (1_800, 2_500), (48_000, 400), (2_000_000, 100)] {
        times.corrected.record_n(value_us, count).expect("the sample is whole");
        times.uncorrected.record_n(value_us.min(400_000), count).expect("the sample is whole");
        times.first_byte.record_n(value_us.min(400_000) / 2, count).expect("the sample is whole");
    }
    times.connect.record_n(120, 7_190).expect("the sample is whole");
    times.lag.record_n(30, 42_000).expect("the sample is whole");
    times.lag.record_n(700, 700).expect("the sample is whole");
    for (value_us, count) in [(250_400, 3_595), (750_400, 3_595)] {
        times.connection.record_n(value_us, count).expect("the sample is whole");
    }
    times.session.record_n(520_000, 6_980).expect("the sample is whole");
    times.session_failed.record_n(10_040_000, 200).expect("the sample is whole");
}

fn files(measures: &mut Measures) {
    let row = |requests, timeouts, bytes: u64| FileRow {
        requests,
        replies: requests - timeouts,
        timeouts,
        truncated: timeouts / 10,
        bytes_asked: requests * bytes,
        bytes_got: (requests - timeouts) * bytes,
        time_us: (requests - timeouts) * (1_000 + bytes / 100),
    };
    measures.files[4] = row(20_000, 20, 512);
    measures.files[13] = row(20_000, 30, 5_120);
    measures.files[22] = row(3_000, 60, 51_200);
    measures.files[31] = row(190, 40, 512_000);
    measures.files[35] = row(10, 0, 921_600);
    measures.classes[0].record_n(900, 19_980).expect("the sample is whole");
    measures.classes[3].record_n(48_000, 150).expect("the sample is whole");
    measures.lengths[1] = LengthRow {
        sessions: 2_000,
        completed: 1_990,
        timeouts: 6,
        requests: 2_000,
        replies: 1_990,
        bytes_got: 30_000_000,
    };
    measures.lengths[10] = LengthRow {
        sessions: 5_190,
        completed: 4_990,
        timeouts: 144,
        requests: 41_200,
        replies: 41_010,
        bytes_got: 615_000_000,
    };
    measures.replies_per_session[0] = 10;
    measures.replies_per_session[1] = 1_990;
    measures.replies_per_session[4] = 190;
    measures.replies_per_session[10] = 4_990;
}

fn interval(index: u64) -> Interval {
    let mut interval = Interval {
        sessions_due: 600,
        sessions_completed: 580 + index % 3,
        requests: 3_600,
        replies: 3_580 + index,
        errors: 15 + index % 2,
        body_bytes: 53_750_000,
        in_flight: 20 + index,
        connections: 300 + index,
        ..Interval::default()
    };
    // In the third interval the server answers nothing.
    if index == 2 {
        interval.replies = 0;
    } else {
        interval.times.record_n(900, 3_500).expect("the sample is whole");
        interval.times.record_n(2_000_000, 80 + index).expect("the sample is whole");
    }
    interval
}

/// Compares `text` with the file `golden/<name>`. Run the tests with `UPDATE_GOLDEN=1` to write the
/// current text into the file, and read the difference before you commit it.
pub(crate) fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("the sample is whole"))
            .expect("the sample is whole");
        std::fs::write(&path, text).expect("the sample is whole");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let first = text.lines().zip(expected.lines()).position(|(now, golden)| now != golden);
    let line = first.unwrap_or(text.lines().count().min(expected.lines().count()));
    assert!(
        text == expected,
        "{name} differs from line {} on: UPDATE_GOLDEN=1 rewrites it\n  golden: {:?}\n  now: {:?}",
        line + 1,
        expected.lines().nth(line).unwrap_or_default(),
        text.lines().nth(line).unwrap_or_default(),
    );
}
