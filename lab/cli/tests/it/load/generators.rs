//! Several generators: together they send the requests that one would send, and their outcomes add
//! up to its outcome.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::{REPLAY, Scene, lengths, load, read_json, refuses};
use crate::{ropewalk, run};

/// Time for all generators to start, in seconds: at first, and where it was too short.
const AHEAD: [i64; 2] = [4, 30];

/// Runs two generators; returns the files with their outcomes.
fn run_two(scene: &Scene) -> [String; 2] {
    let found = AHEAD.into_iter().find_map(|ahead| run_two_in(scene, ahead));
    found.expect("both succeed if they have the time to start")
}

/// Runs two generators that start together in `ahead` seconds; none if one of them fails.
fn run_two_in(scene: &Scene, ahead: i64) -> Option<[String; 2]> {
    let at = (os::clock::unix_time().0 + ahead + 1).to_string();
    let (log, url) = (scene.path("sessions.log"), scene.server.url(""));
    let start = |number: usize| {
        let share = format!("{number}/2");
        let json = scene.path(&format!("share{number}.json"));
        let mut command = ropewalk(&["load", &url, "--log", &log, "--verify", "bytes", "--quiet"]);
        command.args(REPLAY).args(["--share", &share, "--start-at", &at, "--json", &json]);
        command.args(["--run-delay-bound", "100%"]);
        (command.stdin(Stdio::null()).spawn().unwrap(), json)
    };
    let ended = [start(1), start(2)].map(|(mut child, json)| (child.wait().unwrap(), json));
    ended.iter().all(|(status, _)| status.success()).then(|| ended.map(|(_, json)| json))
}

#[test]
fn two_generators_replay_a_log_as_one_does() {
    let scene = Scene::new();
    let [first, second] = run_two(&scene);
    let share = |path: &str| read_json(Path::new(path)).unwrap();
    let half = scene.log.sessions() / 2;
    for (index, part) in [share(&first), share(&second)].iter().enumerate() {
        assert_eq!(part["counts"]["sessions_due"], half);
        assert_eq!(part["setting"]["share"], Value::from(vec![index]));
    }

    let (_, _, one) = scene.replay(&["--verify", "bytes"]);
    let merged = scene.path("merged.json");
    let (status, out, error) = run(&["load", "merge", &second, &first, "--json", &merged]);
    assert_eq!((status, &*error), (0, ""), "{out}");
    let merged = share(&merged);
    let exact = ["sessions_due", "sessions_completed", "requests", "replies", "connections"];
    for name in exact.iter().chain(&["bytes_sent", "body_bytes", "status"]) {
        assert_eq!(merged["counts"][name], one["counts"][name], "{name}");
    }
    let requests = scene.log.requests();
    assert_eq!(merged["counts"]["requests"], requests);
    assert_eq!(merged["counts"]["body_bytes"], super::body_bytes(&scene.log));
    for name in ["corrected", "uncorrected", "first_byte"] {
        assert_eq!(merged["times"][name]["count"], requests, "{name}");
    }
    assert_eq!(merged["replies_per_session"], Value::from(lengths(&scene.log)));
    let kinds = |json: &Value| {
        let rows = json["fairness"]["files"].as_array().unwrap().iter();
        let row = |row: &Value| (row["kind"].clone(), row["bytes_got"].clone());
        rows.map(row).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&merged), kinds(&one));
    assert_eq!(merged["incomplete"], Value::from(Vec::<Value>::new()));
    assert!(out.contains("2 of 2 generators"), "{out}");
}

#[test]
fn shares_that_do_not_belong_together() {
    let scene = Scene::new();
    let [first, second] = run_two(&scene);
    let twice = ["merge", &first, &second, &first];
    refuses(2, &twice, &[&first, "both hold share 1 of 2"]);
    // An outcome of another run is refused.
    let url = scene.server.url("/dir00000/class0_1");
    let other = scene.path("other.json");
    let (_, _, json) = load(&scene.directory, &[&url, "--connections", "1", "--sessions", "3"]);
    std::fs::write(&other, json.to_string()).unwrap();
    refuses(2, &["merge", &first, &other], &[&first, &other]);
    // A missing share is reported.
    let (status, out, _) = run(&["load", "merge", &first]);
    assert_eq!(status, 0);
    assert!(out.contains("Incomplete: share 2 of 2 is missing"), "{out}");
}
