//! What takes no part in a study, and why. The variant says what it is; the texts of earlier
//! records are read here and nowhere else.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A server or a testbed that takes no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// What takes no part.
    #[serde(flatten)]
    pub what: Absent,
    /// Why it does not.
    pub reason: String,
    /// The command that fixes it; empty if there is none.
    pub command: String,
}

/// What is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Line")]
pub enum Absent {
    /// A server, wherever it was to run.
    Server {
        /// The server as it was typed.
        server: String,
    },
    /// A testbed, and so all servers in it.
    Testbed {
        /// The testbed's name.
        testbed: String,
    },
    /// A server in one of the testbeds.
    ServerIn {
        /// The server's name.
        server: String,
        /// The testbed's name.
        testbed: String,
    },
}

impl fmt::Display for Absent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { server } => out.write_str(server),
            Self::Testbed { testbed } => write!(out, "testbed {testbed}"),
            Self::ServerIn { server, testbed } => write!(out, "{server} in testbed {testbed}"),
        }
    }
}

/// The fields that say what is absent.
#[derive(Deserialize)]
struct Line {
    server: Option<String>,
    #[serde(alias = "domain")]
    testbed: Option<String>,
}

impl TryFrom<Line> for Absent {
    type Error = &'static str;

    fn try_from(line: Line) -> Result<Self, Self::Error> {
        match (line.server, line.testbed) {
            (Some(server), Some(testbed)) => Ok(Self::ServerIn { server, testbed }),
            (None, Some(testbed)) => Ok(Self::Testbed { testbed }),
            (Some(words), None) => Ok(parse_words(words)),
            (None, None) => Err("neither a server nor a testbed is named"),
        }
    }
}

/// Earlier versions wrote the text of all three variants into the field of the server.
fn parse_words(words: String) -> Absent {
    if let Some(testbed) = words.strip_prefix("domain ") {
        return Absent::Testbed { testbed: testbed.into() };
    }
    match words.split_once(" in domain ") {
        Some((server, testbed)) => {
            Absent::ServerIn { server: server.into(), testbed: testbed.into() }
        }
        None => Absent::Server { server: words },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [(Absent, &'static str, &'static str); 3] {
        let (server, testbed) = (|| "h2o".to_owned(), || "1 CPU".to_owned());
        [
            (Absent::Server { server: server() }, "h2o", r#""server":"h2o""#),
            (Absent::Testbed { testbed: testbed() }, "testbed 1 CPU", r#""testbed":"1 CPU""#),
            (
                Absent::ServerIn { server: server(), testbed: testbed() },
                "h2o in testbed 1 CPU",
                r#""server":"h2o","testbed":"1 CPU""#,
            ),
        ]
    }

    #[test]
    fn what_is_absent_is_read_as_it_was_written() {
        for (what, words, fields) in all() {
            assert_eq!(what.to_string(), words);
            let skipped = Skipped { what, reason: "why".into(), command: String::new() };
            let text = serde_json::to_string(&skipped).expect("it is JSON");
            assert_eq!(text, format!(r#"{{{fields},"reason":"why","command":""}}"#));
            assert_eq!(serde_json::from_str::<Skipped>(&text).ok(), Some(skipped));
        }
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        for (what, words, _) in all() {
            let words = words.replace("testbed", "domain");
            let text = format!(r#"{{"server":"{words}","reason":"why","command":""}}"#);
            let read: Skipped = serde_json::from_str(&text).expect("it was written once");
            assert_eq!(read.what, what);
        }
        let named = r#"{"server":"h2o","domain":"1 CPU","reason":"why","command":""}"#;
        let read: Skipped = serde_json::from_str(named).expect("it was written before 0.1");
        assert_eq!(read.what.to_string(), "h2o in testbed 1 CPU");
        let nothing = serde_json::from_str::<Skipped>(r#"{"reason":"why","command":""}"#);
        let why = nothing.expect_err("nothing is named").to_string();
        assert!(why.starts_with("neither a server nor a testbed is named"), "{why}");
    }
}
