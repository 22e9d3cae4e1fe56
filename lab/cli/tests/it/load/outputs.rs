//! The forms in which an outcome is written: each can be read, they agree with one another, and
//! `load merge` writes them from the JSON unchanged.

use serde_json::Value;

use super::{REPLAY, Scene, lengths};
use crate::run;

/// The text that each option wrote.
struct Forms {
    json: Value,
    spectrum: String,
    series: String,
    interval_log: String,
    httperf: String,
}

const FORMS: [&str; 4] = ["--spectrum", "--series", "--interval-log", "--httperf"];

fn forms(scene: &Scene) -> Forms {
    let (log, url) = (scene.path("sessions.log"), scene.server.url(""));
    let files = FORMS.map(|form| scene.path(form.trim_start_matches('-')));
    let json = scene.path("whole.json");
    let mut arguments = vec!["load", &url, "--log", &log, "--interval", "100ms", "--json", &json];
    arguments.extend(["--run-delay-bound", "100%"]);
    arguments.extend(REPLAY);
    for (form, file) in FORMS.iter().zip(&files) {
        arguments.extend([form, &**file]);
    }
    let (status, out, error) = run(&arguments);
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("Run "), "{out}");
    let [spectrum, series, interval_log, httperf] =
        files.map(|file| std::fs::read_to_string(file).unwrap());
    let json = super::read_json(json.as_ref()).unwrap();
    Forms { json, spectrum, series, interval_log, httperf }
}

#[test]
fn all_forms_can_be_read_and_agree() {
    let scene = Scene::new();
    let forms = forms(&scene);
    let requests = scene.log.requests() as u64;
    assert_eq!(last_of_spectrum(&forms.spectrum), requests);
    check_series(&forms.series, &forms.json);
    check_interval_log(&forms.interval_log, &forms.series);
    let total = format!("requests {requests} replies {requests} test-duration ");
    assert!(forms.httperf.contains(&total), "{}", forms.httperf);
    let histogram = lengths(&scene.log).iter().map(|count| format!(" {count}")).collect::<String>();
    let histogram = format!("\nSession length histogram:{histogram}\n");
    assert!(forms.httperf.contains(&histogram), "{}", forms.httperf);

    // `load merge` writes equal forms from the JSON alone, each on standard output, with the
    // summary on standard error.
    let json = scene.path("whole.json");
    let texts = [&forms.spectrum, &forms.series, &forms.interval_log, &forms.httperf];
    for (form, text) in FORMS.iter().zip(texts) {
        let (status, out, error) = run(&["load", "merge", &json, form, "-"]);
        assert_eq!((status, &out), (0, text), "{form}");
        assert!(error.starts_with("Run "), "{form}: {error}");
    }
    let (_, out, _) = run(&["load", "merge", &json, "--json", "-"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), forms.json);
}

#[test]
fn forms_go_to_standard_output() {
    let scene = Scene::new();
    let url = scene.server.url("/dir00000/class0_1");
    let run = |form: &str| {
        let (status, out, error) = run(&[
            &["load", &url, "--connections", "2", "--sessions", "50", form, "-"][..],
            &["--run-delay-bound", "100%"],
        ]
        .concat());
        assert_eq!(status, 0, "{error}");
        assert!(error.contains("Requests      50 due: 50 served"), "{form}: {error}");
        out
    };
    assert_eq!(last_of_spectrum(&run("--spectrum")), 50);
    let httperf = run("--httperf");
    assert!(httperf.starts_with("httperf ") && httperf.contains("replies 50 "), "{httperf}");
    let json: Value = serde_json::from_str(&run("--json")).unwrap();
    assert_eq!(json["counts"]["replies"], 50);
    assert!(run("--series").starts_with("start_s,sessions_due,"));
    assert!(run("--interval-log").starts_with("#[Histogram log format version 1.3]\n"));
}

/// The disk may be full at the end, when the run has been made already.
#[test]
fn a_file_that_cannot_be_written_costs_none_of_the_others() {
    let scene = Scene::new();
    let url = scene.server.url("/dir00000/class0_1");
    let series = scene.path("series");
    let arguments = ["load", &url, "--sessions", "50", "--json", "/dev/full", "--series", &series];
    let (status, out, error) = run(&arguments);
    assert_eq!(status, 1, "{out}");
    assert!(error.contains("ropewalk: /dev/full: No space left"), "{error}");
    assert!(out.contains("Requests      50 due: 50 served"), "{out}");
    assert!(std::fs::read_to_string(series).unwrap().starts_with("start_s,"));
}

/// Checks that values, percentiles and counts ascend up to 100 %; returns the last count.
#[track_caller]
fn last_of_spectrum(text: &str) -> u64 {
    let mut lines = text.lines();
    let head = lines.next().unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(head, ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
    let is_row = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let numbers = |line: &str| {
        let numbers = line.split_whitespace().map(|number| number.parse::<f64>().unwrap());
        numbers.collect::<Vec<_>>()
    };
    let rows: Vec<Vec<f64>> = lines.filter(is_row).map(numbers).collect();
    for pair in rows.windows(2) {
        let ascends = (0..3).all(|column| pair[0][column] <= pair[1][column]);
        assert!(ascends, "{pair:?} in\n{text}");
    }
    let last = rows.last().unwrap();
    assert_eq!((last[1], last[3]), (1.0, f64::INFINITY), "{text}");
    assert!(text.contains("\n#[Mean    = "), "{text}");
    last[2] as u64
}

/// The CSV has a row for each interval of the JSON, and its rows add up to the totals.
#[track_caller]
fn check_series(text: &str, json: &Value) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == names.len()), "{text}");
    assert_eq!(rows.len(), json["series"].as_array().unwrap().len(), "{text}");
    let column = |name: &str| {
        let index = names.iter().position(|known| *known == name).unwrap();
        rows.iter().map(move |row| row[index])
    };
    let starts: Vec<&str> = column("start_s").collect();
    let expected: Vec<String> =
        (0..rows.len()).map(|at| format!("{:.3}", at as f64 / 10.0)).collect();
    assert_eq!(starts, expected);
    for name in ["sessions_due", "sessions_completed", "requests", "replies", "body_bytes"] {
        let sum: u64 = column(name).map(|number| number.parse::<u64>().unwrap()).sum();
        assert_eq!(json["counts"][name], sum, "{name} in\n{text}");
    }
    assert!(column("errors").all(|errors| errors == "0"), "{text}");
    assert_eq!(column("in_flight").next_back(), Some("0"), "{text}");
}

/// The log has a line for each row of the CSV with a reply, with the same largest value.
#[track_caller]
fn check_interval_log(text: &str, series: &str) {
    assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
    let base = text.lines().find(|line| line.starts_with("#[BaseTime: ")).unwrap();
    assert!(base.ends_with(" (seconds since epoch)]"), "{base}");
    let rows = text.lines().filter_map(|line| line.strip_prefix("Tag=corrected,"));
    let logged: Vec<(&str, &str)> = rows
        .map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            // This beginning in base64 is the cookie of the compressed V2 encoding.
            assert!(fields.len() == 4 && fields[3].starts_with("HISTFAAA"), "{row}");
            (fields[0], fields[2])
        })
        .collect();
    let shown: Vec<(&str, &str)> = series
        .lines()
        .skip(1)
        // The greatest time is followed by the names of those that are mostly lag.
        .map(|row| (row.split(',').next().unwrap(), row.rsplit(',').nth(1).unwrap()))
        .collect();
    assert_eq!(logged.len(), shown.len(), "{text}\n{series}");
    for (logged, shown) in logged.iter().zip(&shown).filter(|(_, shown)| !shown.1.is_empty()) {
        assert_eq!(logged, shown, "{text}\n{series}");
    }
}
