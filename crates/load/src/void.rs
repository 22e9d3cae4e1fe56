//! Why a run says nothing about the server. What a program decides upon is the variant; what people
//! read is its `Display`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;

/// A reason why a run is void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Void {
    /// The generator's own lag exceeds what is allowed; in microseconds.
    Late {
        /// Its 99th percentile.
        p99_us: u64,
        /// What is allowed.
        bound_us: u64,
    },
    /// The generator itself failed requests: it had no port or no descriptor left.
    Failed {
        /// What it lacked.
        kind: ErrorKind,
        /// How often.
        times: u64,
    },
    /// No request was due within the measured window.
    NothingDue,
    /// A reason of which only the words are known.
    #[serde(untagged)]
    Other(String),
}

impl Void {
    /// Whether the generator gave out.
    #[must_use]
    pub fn is_of_generator(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Failed { .. })
    }
}

impl fmt::Display for Void {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1e3;
        match self {
            Self::Late { p99_us, bound_us } => write!(
                out,
                "generator saturated: its own lag is {:.3} ms at the 99th percentile, more than \
                 the {:.3} ms allowed",
                ms(*p99_us),
                ms(*bound_us)
            ),
            Self::Failed { kind, times } => {
                write!(out, "the generator itself failed: {kind}, {times} times")
            }
            Self::NothingDue => out.write_str("no request was due within the measured window"),
            Self::Other(words) => out.write_str(words),
        }
    }
}

impl From<&str> for Void {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}
