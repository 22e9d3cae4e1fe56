//! What takes no part in a study, and why. What that is the variant says; the words of earlier
//! records are read here and nowhere else.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A server or a domain that takes no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which.
    #[serde(flatten)]
    pub what: Absent,
    /// Why not.
    pub reason: String,
    /// The command that mends it; empty if there is none.
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
    /// A domain, and so all servers in it.
    Domain {
        /// The domain's name.
        domain: String,
    },
    /// A server in one of the domains.
    ServerIn {
        /// The server's name.
        server: String,
        /// The domain's name.
        domain: String,
    },
}

impl fmt::Display for Absent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { server } => out.write_str(server),
            Self::Domain { domain } => write!(out, "domain {domain}"),
            Self::ServerIn { server, domain } => write!(out, "{server} in domain {domain}"),
        }
    }
}

/// The fields that say what is absent.
#[derive(Deserialize)]
struct Line {
    server: Option<String>,
    domain: Option<String>,
}

impl TryFrom<Line> for Absent {
    type Error = &'static str;

    fn try_from(line: Line) -> Result<Self, Self::Error> {
        match (line.server, line.domain) {
            (Some(server), Some(domain)) => Ok(Self::ServerIn { server, domain }),
            (None, Some(domain)) => Ok(Self::Domain { domain }),
            (Some(words), None) => Ok(of_words(words)),
            (None, None) => Err("neither a server nor a domain is named"),
        }
    }
}

/// Earlier versions wrote the words of all three into the field of the server.
fn of_words(words: String) -> Absent {
    if let Some(domain) = words.strip_prefix("domain ") {
        return Absent::Domain { domain: domain.into() };
    }
    match words.split_once(" in domain ") {
        Some((server, domain)) => Absent::ServerIn { server: server.into(), domain: domain.into() },
        None => Absent::Server { server: words },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [(Absent, &'static str, &'static str); 3] {
        let (server, domain) = (|| "h2o".to_owned(), || "1 CPU".to_owned());
        [
            (Absent::Server { server: server() }, "h2o", r#""server":"h2o""#),
            (Absent::Domain { domain: domain() }, "domain 1 CPU", r#""domain":"1 CPU""#),
            (
                Absent::ServerIn { server: server(), domain: domain() },
                "h2o in domain 1 CPU",
                r#""server":"h2o","domain":"1 CPU""#,
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
            let text = format!(r#"{{"server":"{words}","reason":"why","command":""}}"#);
            let read: Skipped = serde_json::from_str(&text).expect("it was written once");
            assert_eq!(read.what, what);
        }
        let nothing = serde_json::from_str::<Skipped>(r#"{"reason":"why","command":""}"#);
        let why = nothing.expect_err("nothing is named").to_string();
        assert!(why.starts_with("neither a server nor a domain is named"), "{why}");
    }
}
