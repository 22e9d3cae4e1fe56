//! Why a run of the lab says nothing about the server. Decisions are made by the variant; its
//! `Display` is for people.

use crate::observe::Disturbed;
use page::number;
use serde::{Deserialize, Serialize};

/// The share of runs that are void, and made again, for which estimates of time leave room.
pub(crate) const VOID_ESTIMATED: f64 = 0.25;

/// A reason why a run is void.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Void {
    /// The load generator reported it.
    #[error("{0}")]
    Load(load::void::Void),
    /// Other processes used the CPUs of the trial.
    #[error(
        "interference: {}, more than the {} allowed",
        .disturbed.describe(*.share),
        number::percent(*.bound)
    )]
    Interference {
        /// What was disturbed.
        disturbed: Disturbed,
        /// The part that they took, 0 to 1.
        share: f64,
        /// What is allowed.
        bound: f64,
    },
    /// The server served something wrong: what, and how it differs.
    #[error("a wrong reply: {0}")]
    WrongReply(String),
    /// The server ended under the load.
    #[error("{}the server has ended", which_copy(*.copy, *.copies))]
    Ended {
        /// The number of the copy, from 1.
        copy: usize,
        /// How many copies the server has.
        copies: usize,
    },
    /// There was no load: the server did not start, or does not serve what it should.
    #[error("{0}")]
    NoLoad(String),
    /// There was no load, and the server is not to blame: the generator did not start, or did not
    /// do its part.
    #[error("the load generator: {0}")]
    Generator(String),
    /// Memory or disk were not as the testbed says.
    #[error("{0}")]
    Conditions(String),
    /// The run of a server that was loaded together with this one is void.
    #[error("a server beside it is void: {0}")]
    Beside(Neighbour),
    /// A reason of which only the text is known.
    #[serde(untagged)]
    #[error("{0}")]
    Other(String),
}

/// A server that was loaded together with another, and why its run is void.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{server}{}{why}", if .server.is_empty() { "" } else { ": " })]
#[serde(from = "WrittenNeighbour")]
pub struct Neighbour {
    /// Which server.
    pub server: String,
    /// Its first reason.
    pub why: Box<Void>,
}

/// A neighbour as it was written: at first as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenNeighbour {
    Now { server: String, why: Box<Void> },
    Before(String),
}

impl From<WrittenNeighbour> for Neighbour {
    fn from(written: WrittenNeighbour) -> Self {
        match written {
            WrittenNeighbour::Now { server, why } => Self { server, why },
            WrittenNeighbour::Before(words) => {
                Self { server: String::new(), why: Box::new(Void::Other(words)) }
            }
        }
    }
}

impl Void {
    /// Whether the server caused it under the load, and not something that happened beside it, as
    /// what a neighbour did.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::WrongReply(_) | Self::Ended { .. })
    }

    /// Whether other processes were the cause: the same run may come out well a moment later.
    pub fn is_interference(&self) -> bool {
        match self {
            Self::Interference { .. } => true,
            Self::Load(void) => void.is_interference(),
            Self::Beside(neighbour) => neighbour.why.is_interference(),
            _ => false,
        }
    }

    /// This reason without its numbers, and without what differs from run to run: reasons that are
    /// equal then are of one kind.
    pub(crate) fn kind(&self) -> Self {
        match self {
            Self::Load(void) => Self::Load(void.kind()),
            Self::Interference { disturbed, .. } => {
                Self::Interference { disturbed: *disturbed, share: 0.0, bound: 0.0 }
            }
            Self::WrongReply(_) => Self::WrongReply(String::new()),
            Self::Ended { .. } => Self::Ended { copy: 0, copies: 0 },
            Self::NoLoad(_) => Self::NoLoad(String::new()),
            Self::Generator(_) => Self::Generator(String::new()),
            Self::Conditions(_) => Self::Conditions(String::new()),
            Self::Beside(Neighbour { why, .. }) => {
                Self::Beside(Neighbour { server: String::new(), why: Box::new(why.kind()) })
            }
            Self::Other(words) => Self::Other(words.clone()),
        }
    }

    fn is_of_generator(&self) -> bool {
        match self {
            Self::Load(void) => void.is_of_generator(),
            Self::Beside(neighbour) => neighbour.why.is_of_generator(),
            _ => false,
        }
    }
}

/// Whether a run is void because the generator reached its limit. A generator that others kept from
/// its CPUs did not: it could not run.
pub(crate) fn generator_gave_out(void: &[Void]) -> bool {
    void.iter().any(Void::is_of_generator) && !void.iter().any(Void::is_interference)
}

/// All reasons in a line; empty if there are none.
pub(crate) fn in_words(void: &[Void]) -> String {
    void.iter().map(Void::to_string).collect::<Vec<_>>().join("; ")
}

/// The beginning of a sentence about one of several copies.
fn which_copy(copy: usize, copies: usize) -> String {
    if copies == 1 { String::new() } else { format!("copy {copy} of {copies} of ") }
}

#[cfg(test)]
impl From<&str> for Void {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::error_kind::ErrorKind;

    const LATE: Void = Void::Load(load::void::Void::Late { p99_us: 12_000, bound_us: 10_000 });

    fn disturbed() -> Void {
        Void::Interference { disturbed: Disturbed::Generator, share: 0.37, bound: 0.05 }
    }

    fn beside(why: Void) -> Void {
        Void::Beside(Neighbour { server: "b".into(), why: Box::new(why) })
    }

    #[test]
    fn reasons_are_read_as_they_were_written() {
        let check = |void: Void, words: &str| {
            let text = serde_json::to_string(&void).expect("it has names for keys");
            assert_eq!(serde_json::from_str::<Void>(&text).ok().as_ref(), Some(&void), "{text}");
            assert_eq!(void.to_string(), words);
        };
        check(
            LATE,
            "generator saturated: its own lag is 12.000 ms at the 99th percentile, more than the \
             10.000 ms allowed",
        );
        check(
            Void::Load(load::void::Void::NothingDue),
            "no request was due within the measured window",
        );
        check(
            disturbed(),
            "interference: other processes kept the load generator from running for 37 % of the \
             time, more than the 5 % allowed",
        );
        check(Void::WrongReply("/a at byte 3".into()), "a wrong reply: /a at byte 3");
        check(Void::Ended { copy: 1, copies: 1 }, "the server has ended");
        check(Void::Ended { copy: 2, copies: 3 }, "copy 2 of 3 of the server has ended");
        check(Void::NoLoad("it does not start".into()), "it does not start");
        check(Void::Generator("no CPU".into()), "the load generator: no CPU");
        check("what an earlier version wrote".into(), "what an earlier version wrote");
        check(beside(Void::NoLoad("it ended".into())), "a server beside it is void: b: it ended");
        let before: Void = serde_json::from_str(r#"{"beside":"b: it ended"}"#).expect("it is read");
        assert_eq!(before.to_string(), "a server beside it is void: b: it ended");
    }

    /// What was in the way of a neighbour was in the way of both; what it did itself was not.
    #[test]
    fn what_was_beside_it_keeps_its_reason() {
        assert!(beside(disturbed()).is_interference() && !beside(LATE).is_interference());
        assert!(generator_gave_out(&[beside(LATE)]) && !generator_gave_out(&[beside(disturbed())]));
        assert!(!beside(Void::WrongReply("/a".into())).is_fault());
        assert_eq!(beside(disturbed()).kind(), beside(disturbed().kind()).kind());
        assert_ne!(beside(disturbed()).kind(), beside(LATE).kind());
    }

    /// What was disturbed, and what a generator lacked, distinguish kinds: they are no numbers.
    #[test]
    fn reasons_that_differ_in_their_numbers_are_of_one_kind() {
        let check = |one: Void, other: Void, are_alike: bool| {
            assert_eq!(one.kind() == other.kind(), are_alike, "{one} | {other}");
        };
        let failed = |kind, times| Void::Load(load::void::Void::Failed { kind, times });
        check(LATE, Void::Load(load::void::Void::Late { p99_us: 5_000, bound_us: 4_000 }), true);
        check(LATE, Void::Load(load::void::Void::Overdue { requests: 3 }), false);
        check(failed(ErrorKind::OutOfPorts, 3), failed(ErrorKind::OutOfPorts, 4), true);
        check(failed(ErrorKind::OutOfPorts, 3), failed(ErrorKind::OutOfDescriptors, 3), false);
        let interference = |disturbed, share| Void::Interference { disturbed, share, bound: 0.05 };
        check(interference(Disturbed::Generator, 0.1), disturbed(), true);
        check(interference(Disturbed::Server, 0.37), disturbed(), false);
        check(Void::WrongReply("/a at byte 3".into()), Void::WrongReply("/b".into()), true);
        check(Void::Ended { copy: 1, copies: 3 }, Void::Ended { copy: 2, copies: 3 }, true);
        check(Void::NoLoad("one".into()), Void::Conditions("one".into()), false);
        check("late by 1 ms".into(), "late by 2 ms".into(), false);
    }

    /// A generator that others kept from its CPU says nothing about what generators can do.
    #[test]
    fn a_generator_that_was_disturbed_has_not_given_out() {
        assert!(generator_gave_out(&[LATE]));
        assert!(!generator_gave_out(&[LATE, disturbed()]));
        assert!(!generator_gave_out(&["read from the disk".into()]));
        assert!(!generator_gave_out(&[]));
    }
}
