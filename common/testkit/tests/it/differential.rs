//! The comparison of several servers, with servers whose answers are known.

use std::time::Duration;

use testkit::differential::{Participant, compare};
use testkit::{Client, Suite};

use crate::fake_server::{KIND, Script, Then, response};

fn participant(name: &str, script: Script) -> Participant {
    let client = Client { address: script.start(), timeout: Duration::from_secs(5) };
    Participant { name: name.into(), client }
}

#[test]
fn lone_stands_are_seen() {
    let suite = Suite::load().expect("the built-in cases are right");
    let case = suite.cases.iter().find(|case| case.name == "keep_alive_is_the_default");
    let cases = [case.expect("it is a case")];
    let good = || participant("good", Script::good());
    let other = participant("other", Script::answering(response(404, KIND, "")));
    let closing = participant("closing", Script::good().then(Then::Close));
    let noise = participant("noise", Script::answering(b"noise".to_vec()));
    let rows =
        compare(&[good(), other.clone(), closing.clone(), noise.clone()], &cases, "localhost");
    assert!(rows[0].stands_alone(), "{}", rows[0]);
    let rows = compare(&[good(), other.clone(), good()], &cases, "localhost");
    assert!(!rows[0].stands_alone(), "{}", rows[0]);
    let rows = compare(&[noise, other, closing, good()], &cases, "localhost");
    assert!(rows[0].stands_alone(), "{}", rows[0]);
    assert!(rows[0].to_string().contains("failed"), "{}", rows[0]);
}
