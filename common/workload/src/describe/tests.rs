//! Descriptions of logs made by hand and of generated ones.

use super::*;
use crate::generate::{Extent, generate};
use crate::model::ModelPreset;

fn get(uri: &str) -> Template {
    Template::get(uri.as_bytes())
}

/// Two sessions: a page with two objects and another page; one request.
fn by_hand() -> RequestLog {
    let mut builder = RequestLog::builder();
    builder.push(get("/set/dir00000/class1_0"), false, 343_000);
    builder.push(get("/set/dir00001/class0_0"), false, 0);
    builder.push(Template { reply_bytes: Some(500), ..get("/other") }, true, 3_000_000);
    builder.push(get("/set/dir00000/class1_0?again"), false, 9_000_000);
    builder.end_session();
    builder.push(get("/unknown"), false, 0);
    builder.finish().unwrap()
}

#[test]
fn a_log_made_by_hand() {
    let found = describe(&by_hand(), None);
    assert_eq!((found.sessions, found.requests), (2, 5));
    assert_eq!(found.session_length, Spread { count: 2, mean: 2.5, max: 4.0 });
    assert_eq!(found.burst_length, Spread { count: 4, mean: 1.25, max: 2.0 });
    // The pause at the end of a session does not count.
    assert_eq!(found.think_s, Spread { count: 2, mean: 1.6715, max: 3.0 });
    assert_eq!(
        found.bytes,
        Bytes {
            requests_of_known_length: 4,
            mean: f64::from(1024 + 102 + 500 + 1024) / 4.0,
            head_requests: 0,
            files: 5,
            files_of_known_length: 4,
            files_bytes: 1024 + 102 + 500 + 1024,
        }
    );
    assert_eq!((found.starts_span_s, &found.fit), (None, &None));
    let text = found.to_string();
    for line in [
        "2 sessions, 5 requests",
        "session length: mean 2.50, longest 4",
        "bursts: 4, mean length 1.25, longest 2",
        "pauses: 2, mean 1.671 s, longest 3.000 s",
        "replies: mean 662 bytes (known of 4 requests); 5 different files, 0.0 MiB in the 4 of \
         known length",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn replies_to_head_have_no_body() {
    let mut builder = RequestLog::builder();
    builder.push(Template { reply_bytes: Some(600), ..get("/a") }, false, 0);
    for _ in 0..2 {
        builder.push(Template { method: "HEAD".into(), ..get("/a") }, false, 0);
    }
    let log = builder.finish().unwrap();
    let found = describe(&log, None);
    assert_eq!((found.bytes.mean, found.bytes.head_requests), (200.0, 2));
    assert_eq!((found.bytes.files, found.bytes.files_bytes), (1, 600));
    assert!(found.to_string().starts_with("1 sessions, 3 requests, 2 of them HEAD\n"), "{found}");
    assert_eq!(bytes_with_lengths(&log, |_| Some(900)).mean, 300.0);
}

#[test]
fn the_target_is_guessed_from_the_names() {
    assert_eq!(guess_target(&by_hand()), Some(Mix::spec99(2)));
    let mut builder = RequestLog::builder();
    builder.push(get("/index.html"), false, 0);
    assert_eq!(guess_target(&builder.finish().unwrap()), None);
}

#[test]
fn an_empty_log() {
    let found = describe(&RequestLog::default(), Some(&Mix::spec99(3)));
    assert_eq!((found.sessions, found.fit, found.working_set.len()), (0, None, 0));
}

#[test]
fn starts_and_several_lengths_of_one_uri() {
    let mut builder = RequestLog::builder();
    for (start, bytes) in [(0, Some(5)), (2_500_000, Some(900)), (4_000_000, None)] {
        builder.start_us(start);
        builder.push(Template { reply_bytes: bytes, ..get("/a") }, false, 0);
        builder.end_session();
    }
    let found = describe(&builder.finish().unwrap(), None);
    assert_eq!(found.starts_span_s, Some(4.0));
    assert_eq!((found.bytes.files, found.bytes.files_bytes, found.bytes.mean), (1, 900, 900.0));
    let mut builder = RequestLog::builder();
    builder.push(Template { seen_bytes: Some(70), ..get("/a") }, false, 0);
    builder.end_session();
    assert_eq!(describe(&builder.finish().unwrap(), None).bytes.files_bytes, 70);
}

/// Expected by computation from the model: 20,600 files and 1,530 MiB after a million requests.
#[test]
fn a_generated_log_touches_what_the_model_says() {
    let model = ModelPreset::find("geneves").unwrap().model();
    let log = generate(&model, Extent::Requests(1_000_000), 1).unwrap();
    let found = describe(&log, Some(&Mix::spec99(680)));
    assert!((20_400..20_800).contains(&found.bytes.files), "{found}");
    let mib = found.bytes.files_bytes as f64 / MIB;
    assert!((1_490.0..1_570.0).contains(&mib), "{found}");
    assert!((found.bytes.mean / 14_727.0 - 1.0).abs() < 0.02, "{found}");
    assert_eq!(found.bytes.files_of_known_length, found.bytes.files);
    let tenth = |set: &WorkingSet| set.bytes as f64 / MIB;
    assert!((3.3..4.1).contains(&tenth(&found.working_set[0])), "{found}");
    assert!((92.0..100.0).contains(&tenth(&found.working_set[1])), "{found}");
    let fit = found.fit.as_ref().expect("a target");
    for agreement in [&fit.classes, &fit.files, &fit.per_directory] {
        assert!(agreement.p_value.is_some_and(|p| p > 0.001), "{found}");
    }
}

#[test]
fn json_can_be_read_back() {
    let json = describe(&by_hand(), Some(&Mix::spec99(2))).to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["requests"], 5);
    assert_eq!(value["session_length"]["mean"], 2.5);
    assert_eq!(value["fit"]["requests"], 3);
    assert!(json.ends_with("}\n"));
}
