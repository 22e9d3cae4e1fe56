//! Good answers pass; each kind of wrong answer is noticed, and the report says what is wrong.

use std::time::Duration;

use testkit::runner::{self, Report};
use testkit::{Client, Delivery, Suite};

use crate::fake_server::{KIND, Script, Then, response};

/// The case that all faults are tried with; `more` holds further lines of it.
fn suite(expect: &str, more: &str) -> Suite {
    let case = format!(
        "[[case]]\nname = 'notes'\nrfc = '9110 §15.3.1'\n\
         request = \"GET /notes.txt HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n\"\n\
         expect = [{expect}]\n{more}"
    );
    Suite::parse("[default]\nconfig = ''", &[("made", &case)]).expect("the case is right")
}

const EXPECT: &str = "{ status = 200, headers = { Content-Type = 'text/plain; charset=utf-8' }, body = { file = 'notes.txt' } }";

fn run(script: Script, suite: &Suite, delivery: Delivery<'_>) -> Report {
    run_within(Duration::from_secs(20), script, suite, delivery)
}

fn run_within(timeout: Duration, script: Script, suite: &Suite, delivery: Delivery<'_>) -> Report {
    let client = Client { address: script.start(), timeout };
    runner::run(suite, &suite.profiles["default"], &client, true, delivery)
}

/// Runs the case against `script` and expects `complaint` in the report; no complaint if it is
/// empty.
#[track_caller]
fn check(script: Script, more: &str, complaint: &str) {
    let suite = suite(EXPECT, more);
    let is_expected = |report: &Report| {
        report.failures.is_empty() == complaint.is_empty() && report.to_string().contains(complaint)
    };
    // Some scripts let the client wait in vain: for a short time, unless the machine is busy.
    let soon = run_within(Duration::from_millis(500), script.clone(), &suite, Delivery::Whole);
    let report = if is_expected(&soon) { soon } else { run(script, &suite, Delivery::Whole) };
    let text = report.to_string();
    assert_eq!(report.failures.is_empty(), complaint.is_empty(), "{text}");
    assert!(text.contains(complaint), "no {complaint:?} in: {text}");
    if !complaint.is_empty() {
        assert!(text.contains("made/notes (RFC 9110 §15.3.1"), "{text}");
    }
}

const NOTES: &str = "Some notes.\n";
const CLOSES: &str = "closes = true";

fn closing() -> Vec<u8> {
    response(200, &format!("{KIND}Connection: close\r\n"), NOTES)
}

#[test]
fn good_answers_pass_however_they_are_asked_for() {
    for delivery in [Delivery::Whole, Delivery::ByteAtATime, Delivery::SplitAt(&[3, 20])] {
        let report = run(Script::good(), &suite(EXPECT, ""), delivery);
        report.assert_passed("a good server");
        assert_eq!(report.ran, 1);
    }
    check(Script::answering(closing()).then(Then::Close), CLOSES, "");
    check(Script::good().then(Then::Close), "closes = 'unannounced'", "");
}

#[test]
fn wrong_answers() {
    let answer =
        |status, fields: &str, body: &str| Script::answering(response(status, fields, body));
    check(answer(404, KIND, NOTES), "", "expected status 200, got 404");
    check(answer(200, "X-Content-Type-Options: nosniff\r\n", NOTES), "", "expected Content-Type");
    check(answer(200, "Content-Type: text/plain; charset=utf-8\r\n", NOTES), "", "nosniff");
    check(answer(200, KIND, "Some n0tes.\n"), "", "they part at 6");
    check(answer(200, KIND, "Some notes"), "", "expected a body of 12 bytes, got 10");
    check(answer(200, &format!("{KIND}ETag: x\r\n"), NOTES), "", "§8.8.3");
    check(
        answer(200, &format!("{KIND}Connection: close\r\n"), NOTES),
        "",
        "the connection should stay",
    );
    check(Script::answering(b"200 OK\r\n\r\n".to_vec()), "", "no status line");
    let undated = format!("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n{KIND}\r\n{NOTES}");
    check(Script::answering(undated.into_bytes()), "", "§6.6.1");
}

#[test]
fn wrong_numbers_of_bytes_and_responses() {
    let good = response(200, KIND, NOTES);
    let twice = [&good[..], &good].concat();
    let extra = [&good[..], b"!"].concat();
    check(Script::answering(twice.clone()), "", "no answer in step");
    check(Script::answering(extra.clone()), "", "no status line");
    check(Script::answering(good[..good.len() - 1].to_vec()), "", "no status line");
    let short = good[..good.len() - 1].to_vec();
    check(Script::answering(short).then(Then::Close), CLOSES, "cut short");
    check(
        Script::answering([&closing()[..], b"!"].concat()).then(Then::Close),
        CLOSES,
        "no status",
    );
    check(
        Script::answering(twice).then(Then::Close),
        CLOSES,
        "expected 1 responses, got [200, 200]",
    );
    check(Script::answering(Vec::new()).then(Then::Close), CLOSES, "expected 1 responses, got []");
}

#[test]
fn wrong_ends() {
    check(Script::good().then(Then::Close), "", "no answer in step");
    check(Script::good().then(Then::Hang), "", "did not close");
    check(Script::answering(closing()).then(Then::Hang), CLOSES, "did not close");
    check(Script::good().then(Then::Close), CLOSES, "does not say Connection: close");
    let wrong_probe = Script { probe_answer: response(404, KIND, ""), ..Script::good() };
    check(wrong_probe, "", "the next request on the connection got 404");
}

#[test]
fn a_server_that_is_not_there() {
    let client = Client { address: ([127, 0, 0, 1], 1).into(), timeout: Duration::from_secs(1) };
    let suite = suite(EXPECT, "");
    let report = runner::run(&suite, &suite.profiles["default"], &client, true, Delivery::Whole);
    assert!(report.to_string().contains("cannot connect"), "{report}");
}

#[test]
fn field_and_body_rules_can_fail() {
    let check = |rule: &str, passes: bool| {
        let expect = format!("{{ status = 200, {rule} }}");
        let report = run(Script::good(), &suite(&expect, ""), Delivery::Whole);
        assert_eq!(report.failures.is_empty(), passes, "{rule}: {report}");
    };
    check("headers = { ETag = { absent = true } }", true);
    check("headers = { Date = { absent = true } }", false);
    check("headers = { date = { present = true } }", true);
    check("headers = { ETag = { present = true } }", false);
    check("headers = { Content-Type = { contains = 'charset' } }", true);
    check("headers = { Content-Type = { contains = 'html' } }", false);
    check("headers = { Content-Type = { starts = 'text/' } }", true);
    check("headers = { Content-Type = { starts = 'plain' } }", false);
    check("headers = { Content-Length = { not = '13' } }", true);
    check("headers = { Content-Length = { not = '12' } }", false);
    check("headers = { X-Content-Type-Options = { lists = 'NoSniff' } }", true);
    check("headers = { X-Content-Type-Options = { lists = 'sniff' } }", false);
    check("headers = { X-Content-Type-Options = { set = ['nosniff'] } }", true);
    check("headers = { X-Content-Type-Options = { set = ['nosniff', 'x'] } }", false);
    check("body = 'Some notes.\\n'", false);
    check("body = \"Some notes.\\n\"", true);
    check("body = { len = 12 }", true);
    check("body = { len = 11 }", false);
    check("body = { empty = true }", false);
    check("body = { contains = ['Some', 'notes'], lacks = ['none'] }", true);
    check("body = { contains = ['Some', 'none'] }", false);
    check("body = { lacks = ['notes'] }", false);
    check("body = { file = 'notes.txt', offset = 0, len = 4 }", false);
    check("body = { file = 'notes.txt', parts = [[0, 1]] }", false);
}
