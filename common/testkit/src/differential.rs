//! Sends each case to several servers: in which cases does one of them differ from all others, and
//! is the difference explained?
//!
//! The other servers are not judges. They show where this server's reading of the RFCs deserves a
//! second look; what settles it is an explanation with a section, and an explanation that is no
//! longer needed is as wrong as a missing one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::case::Case;
use crate::client::{Client, End};
use crate::request;
use crate::response::{self, Framing, Response};
use crate::template::Prepared;

/// A server that takes part.
#[derive(Clone, Debug)]
pub struct Participant {
    /// The name in reports.
    pub name: String,
    /// The client that talks to the server.
    pub client: Client,
}

/// One response, reduced to what can be compared between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// FNV-1a of the body.
    pub body_hash: u64,
    /// How the body ended.
    pub framing: Framing,
}

/// How one server reacted to one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The server answered.
    Answered {
        /// The responses, without that to the probe.
        answers: Vec<Answer>,
        /// Whether the connection served another request afterwards.
        stays: bool,
    },
    /// The server's bytes are not HTTP/1.1, or it could not be reached.
    Failed(String),
}

impl Observation {
    /// Whether two servers reacted alike to a case: equal statuses, the same end of the connection,
    /// and the same bytes where there was a file to send. Error pages may differ between servers,
    /// and so may the boundaries of multipart bodies.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let (
            Self::Answered { answers: mine, stays: my_stay },
            Self::Answered { answers: theirs, stays: their_stay },
        ) = (self, other)
        else {
            return false;
        };
        my_stay == their_stay
            && mine.len() == theirs.len()
            && mine.iter().zip(theirs).all(|(one, other)| {
                one.status == other.status
                    && (one.status != 200 || one.body_hash == other.body_hash)
            })
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason) => write!(formatter, "failed: {reason}"),
            Self::Answered { answers, stays } => {
                for answer in answers {
                    let hash = answer.body_hash as u16;
                    write!(formatter, "{} {:?} {hash:04x}, ", answer.status, answer.framing)?;
                }
                formatter.write_str(if *stays { "open" } else { "closed" })
            }
        }
    }
}

/// A case and how every server reacted to it; the first participant is the one under test.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// The section that the case is about.
    pub rfc: String,
    /// The name and the observation of each participant, in their order.
    pub observations: Vec<(String, Observation)>,
}

impl Row {
    /// Whether no other participant agrees with the first one.
    pub fn stands_alone(&self) -> bool {
        let Some(((_, first), others)) = self.observations.split_first() else { return false };
        !others.is_empty() && !others.iter().any(|(_, other)| first.agrees_with(other))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.case, self.rfc)?;
        let mut lines = self.observations.iter();
        lines.try_for_each(|(name, seen)| write!(formatter, "\n  {name:<12} {seen}"))
    }
}

/// After this silence a server is taken to have sent everything that it will send.
const SILENCE: Duration = Duration::from_millis(500);

/// Sends all `cases` to all participants; `host` is the host name in the probe and in queries.
pub fn compare(participants: &[Participant], cases: &[&Case], host: &str) -> Vec<Row> {
    let row = |case: &&Case| {
        let seen = |server: &Participant| (server.name.clone(), observe(server, case, host));
        Row {
            case: case.name.clone(),
            rfc: case.rfc.clone(),
            observations: participants.iter().map(seen).collect(),
        }
    };
    cases.iter().map(row).collect()
}

fn observe(server: &Participant, case: &Case, host: &str) -> Observation {
    let client = &server.client;
    let prepared = Prepared::new(case, host, &mut |query| client.etag(host, query));
    let outcome = prepared.and_then(|prepared| {
        let count = case.expect.len();
        let transcript = client
            .observe(&prepared.request, count, SILENCE, &prepared.probe)
            .map_err(|error| error.to_string())?;
        let heads = request::heads(&prepared.request);
        let over = transcript.end != End::TimedOut;
        response::parse_responses(&transcript.bytes, &heads, over)
            .map_err(|error| error.to_string())
    });
    match outcome {
        Ok(parsed) => observation(parsed.responses),
        Err(reason) => Observation::Failed(reason),
    }
}

/// Separates the probe's response, known by its body, from those to the case.
fn observation(mut responses: Vec<Response>) -> Observation {
    let probe = crate::document_root::contents(crate::template::PROBE_FILE);
    let stays = responses.last().is_some_and(|last| Some(last.body.as_slice()) == probe);
    if stays {
        responses.pop();
    }
    let answer = |response: &Response| Answer {
        status: response.status,
        body_hash: hash(&response.body),
        framing: response.framing,
    };
    Observation::Answered { answers: responses.iter().map(answer).collect(), stays }
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Why the server is right to differ from all others in a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The section that decides the case: `9110 §14.2`.
    pub rfc: String,
    /// What the section says, and what other servers do instead, in a sentence.
    pub because: String,
}

/// Explanations by case name.
pub type Explanations = BTreeMap<String, Explanation>;

/// Reads the explanations that are built in.
///
/// # Errors
/// What is wrong with the file.
pub fn explanations() -> Result<Explanations, String> {
    toml::from_str(include_str!("../cases/explanations.toml")).map_err(|error| error.to_string())
}

/// Compares the cases in which the server stands alone with their explanations.
///
/// # Errors
/// Each such case without an explanation, and each explanation without such a case.
pub fn verify(rows: &[Row], explanations: &Explanations) -> Result<(), Vec<String>> {
    let alone: BTreeMap<_, _> =
        rows.iter().filter(|row| row.stands_alone()).map(|row| (&row.case, row)).collect();
    let unexplained = alone
        .values()
        .filter(|row| !explanations.contains_key(&row.case))
        .map(|row| format!("stands alone without an explanation: {row}"));
    let unused = explanations
        .keys()
        .filter(|name| !alone.contains_key(name))
        .map(|name| format!("explained, but does not stand alone: {name}"));
    let hollow = explanations
        .iter()
        .filter(|(_, explanation)| explanation.rfc.is_empty() || explanation.because.is_empty())
        .map(|(name, _)| format!("explained without words: {name}"));
    let problems: Vec<_> = unexplained.chain(unused).chain(hollow).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: u16, body_hash: u64, stays: bool) -> Observation {
        let answers = vec![Answer { status, body_hash, framing: Framing::Length }];
        Observation::Answered { answers, stays }
    }

    fn row(case: &str, observations: &[Observation]) -> Row {
        let observations = observations.iter().map(|o| (String::from("x"), o.clone())).collect();
        Row { case: case.into(), rfc: "9110 §1".into(), observations }
    }

    #[test]
    fn standing_alone() {
        let check = |observations: &[Observation], expected| {
            assert_eq!(row("a", observations).stands_alone(), expected, "{observations:?}");
        };
        check(&[seen(200, 1, true)], false);
        check(&[seen(200, 1, true), seen(404, 1, true), seen(200, 1, true)], false);
        check(&[seen(200, 1, true), seen(404, 1, true)], true);
        check(&[seen(200, 1, true), seen(200, 2, true)], true);
        check(&[seen(404, 1, true), seen(404, 2, true)], false);
        check(&[seen(404, 1, true), seen(404, 1, false)], true);
        check(&[seen(404, 1, true), Observation::Failed("x".into())], true);
    }

    #[test]
    fn explanations_are_needed_and_used() {
        let explanation = Explanation { rfc: "9110 §1".into(), because: "so".into() };
        let known = |name: &str| Explanations::from([(name.to_owned(), explanation.clone())]);
        let alone = [row("a", &[seen(200, 1, true), seen(404, 1, true)])];
        let agreed = [row("a", &[seen(200, 1, true), seen(200, 1, true)])];
        assert!(verify(&alone, &known("a")).is_ok());
        assert!(verify(&agreed, &Explanations::new()).is_ok());
        assert!(verify(&alone, &Explanations::new()).is_err());
        assert!(verify(&agreed, &known("a")).is_err());
        assert_eq!(verify(&alone, &known("b")).map_err(|problems| problems.len()), Err(2));
    }

    #[test]
    fn the_built_in_explanations_name_cases() {
        let suite = crate::Suite::load().expect("the built-in cases are right");
        for name in explanations().expect("the file is right").keys() {
            assert!(suite.cases.iter().any(|case| case.name == *name), "{name}");
        }
    }
}
