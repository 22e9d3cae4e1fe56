//! What a run or a search was made for. Decisions are made by the variant, which records hold by
//! name; earlier versions wrote its text.

use super::Search;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What a run, or a search, was made for.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A point that was to be measured.
    #[default]
    Point,
    /// The most that a server of a study sustains.
    Limit {
        /// The number of this repetition of the search, from 0.
        block: u32,
    },
    /// The rate at which a server uses this part of its CPUs, 0 to 1.
    Utilisation(f64),
    /// A comparison with all its clients.
    Saturation,
    /// A comparison at one rate that both sustain.
    CommonRate,
    /// A tuning's first look, from far away.
    Level,
    /// All configurations of a grid, equally often.
    Grid,
    /// The configurations of a halving that are left, from 1.
    Rung(u32),
    /// The best configurations, until one is found better.
    Race,
    /// The neighbours of the winner, in rounds from 1.
    Neighbours(u32),
    /// The best of these against the winner, in rounds from 1.
    Challenge(u32),
    /// A last look at the winner.
    Confirmation,
    /// A purpose of which only the text is known.
    Other(String),
}

impl Purpose {
    /// The utilisation whose rate is looked for; none if the purpose is another.
    pub fn utilisation(&self) -> Option<f64> {
        match self {
            Self::Utilisation(share) => Some(*share),
            _ => None,
        }
    }

    /// Reads the purpose of a record, also where it is a text, as earlier versions wrote it.
    ///
    /// # Errors
    /// When it is neither a purpose nor a text.
    pub(super) fn from_record<'de, D: Deserializer<'de>>(record: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Recorded {
            Purpose(Purpose),
            Words(String),
        }
        Ok(match Recorded::deserialize(record)? {
            Recorded::Purpose(purpose) => purpose,
            Recorded::Words(words) => Self::from_words(words),
        })
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point => Ok(()),
            Self::Limit { block } => write!(out, "limit, block {}", u64::from(*block) + 1),
            Self::Utilisation(share) => write!(out, "rate for utilisation {share}"),
            Self::Saturation => out.write_str("saturation"),
            Self::CommonRate => out.write_str("common rate"),
            Self::Level => out.write_str("level"),
            Self::Grid => out.write_str("grid"),
            Self::Rung(rung) => write!(out, "rung {rung}"),
            Self::Race => out.write_str("race"),
            Self::Neighbours(round) => write!(out, "neighbours {round}"),
            Self::Challenge(round) => write!(out, "challenge {round}"),
            Self::Confirmation => out.write_str("confirmation"),
            Self::Other(words) => out.write_str(words),
        }
    }
}

impl Purpose {
    /// The purpose with this text, as earlier versions wrote it.
    fn from_words(words: String) -> Self {
        let number = words.rsplit(' ').next().unwrap_or_default();
        let plain = [
            Self::Point,
            Self::Saturation,
            Self::CommonRate,
            Self::Level,
            Self::Grid,
            Self::Race,
            Self::Confirmation,
        ];
        let share = number.parse().ok().filter(|share: &f64| share.is_finite());
        let counted = number.parse::<u32>().ok().map(|count| {
            let block = count.saturating_sub(1);
            let limit = Self::Limit { block };
            [limit, Self::Rung(count), Self::Neighbours(count), Self::Challenge(count)]
        });
        let numbered = counted.into_iter().flatten().chain(share.map(Self::Utilisation));
        let mut known = plain.into_iter().chain(numbered);
        known.find(|one| one.to_string() == words).unwrap_or(Self::Other(words))
    }
}

/// A search as records hold it: searches of earlier versions have no field for their block.
#[derive(Deserialize)]
pub(super) struct SearchLine {
    block: Option<u32>,
    #[serde(flatten)]
    search: Search,
}

impl From<SearchLine> for Search {
    fn from(SearchLine { block, search }: SearchLine) -> Self {
        let (purpose, block) = match block {
            Some(block) => (search.purpose, block),
            None => with_block(search.purpose),
        };
        Self { purpose, block, ..search }
    }
}

/// Splits off the block that earlier versions wrote behind a purpose: `race 3` was the text for
/// runs of block 3 whose purpose is `race`.
fn with_block(purpose: Purpose) -> (Purpose, u32) {
    match purpose {
        Purpose::Limit { block } => (purpose, block),
        Purpose::Other(words) => {
            let split = words.rsplit_once(' ');
            let split =
                split.and_then(|(runs, block)| Some((runs.to_owned(), block.parse().ok()?)));
            split.map_or((Purpose::Other(words), 0), |(runs, block)| {
                (Purpose::from_words(runs), block)
            })
        }
        known => (known, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;

    fn read_run(purpose: &str) -> Option<Purpose> {
        let run: Run = serde_json::from_str(&format!("{{\"purpose\":{purpose}}}")).ok()?;
        Some(run.purpose)
    }

    #[test]
    fn purposes_are_read_as_they_were_written() {
        let check = |purpose: Purpose, expected: &str| {
            let text = serde_json::to_string(&purpose).expect("it is JSON");
            assert_eq!(text, expected);
            assert_eq!(read_run(&text), Some(purpose));
        };
        check(Purpose::Point, "\"point\"");
        check(Purpose::Limit { block: 11 }, r#"{"limit":{"block":11}}"#);
        check(Purpose::Utilisation(0.8), r#"{"utilisation":0.8}"#);
        check(Purpose::Saturation, "\"saturation\"");
        check(Purpose::CommonRate, "\"common_rate\"");
        check(Purpose::Level, "\"level\"");
        check(Purpose::Grid, "\"grid\"");
        check(Purpose::Rung(2), r#"{"rung":2}"#);
        check(Purpose::Race, "\"race\"");
        check(Purpose::Neighbours(1), r#"{"neighbours":1}"#);
        check(Purpose::Challenge(5), r#"{"challenge":5}"#);
        check(Purpose::Confirmation, "\"confirmation\"");
        check(Purpose::Other("MAT".into()), r#"{"other":"MAT"}"#);
        assert_eq!(read_run("3"), None);
    }

    #[test]
    fn earlier_versions_wrote_a_text() {
        let check = |purpose: Purpose, words: &str| {
            assert_eq!(purpose.to_string(), words);
            assert_eq!(read_run(&format!("{words:?}")), Some(purpose));
        };
        check(Purpose::Point, "");
        check(Purpose::Limit { block: 0 }, "limit, block 1");
        check(Purpose::Limit { block: 11 }, "limit, block 12");
        check(Purpose::Utilisation(0.8), "rate for utilisation 0.8");
        check(Purpose::Utilisation(1.0), "rate for utilisation 1");
        check(Purpose::Saturation, "saturation");
        check(Purpose::CommonRate, "common rate");
        check(Purpose::Level, "level");
        check(Purpose::Grid, "grid");
        check(Purpose::Rung(2), "rung 2");
        check(Purpose::Race, "race");
        check(Purpose::Neighbours(1), "neighbours 1");
        check(Purpose::Challenge(5), "challenge 5");
        check(Purpose::Confirmation, "confirmation");
    }

    #[test]
    fn words_that_are_none_of_ours_stay_as_they_are() {
        let check = |words: &str| {
            assert_eq!(read_run(&format!("{words:?}")), Some(Purpose::Other(words.to_owned())));
        };
        check("MAT");
        check("race 3");
        check("limit, block 0");
        check("limit, block 01");
        check("rung");
        check("rate for utilisation NaN");
        check("rate for utilisation 0.80");
        check(" ");
    }

    fn read(line: &str) -> (Purpose, u32) {
        let search = Search::from(serde_json::from_str::<SearchLine>(line).expect("it is whole"));
        assert_eq!(search.held_per_s, 7.5);
        (search.purpose, search.block)
    }

    #[test]
    fn a_search_is_read_as_it_was_written() {
        let (purpose, block, held_per_s) = (Purpose::Race, 3, 7.5);
        let written = Search { purpose, block, held_per_s, ..Search::default() };
        let line = serde_json::to_string(&written).expect("it is JSON");
        assert!(line.starts_with(r#"{"purpose":"race","block":3,"#), "{line}");
        assert_eq!(read(&line), (Purpose::Race, 3));
    }

    #[test]
    fn earlier_versions_wrote_the_block_behind_the_purpose() {
        let check = |words: &str, expected: (Purpose, u32)| {
            assert_eq!(read(&format!(r#"{{"purpose":"{words}","held_per_s":7.5}}"#)), expected);
        };
        check("race 3", (Purpose::Race, 3));
        check("rung 1 2", (Purpose::Rung(1), 2));
        check("neighbours 1 14", (Purpose::Neighbours(1), 14));
        check("limit, block 4", (Purpose::Limit { block: 3 }, 3));
        check("halving 5", (Purpose::Other("halving".into()), 5));
        check("MAT", (Purpose::Other("MAT".into()), 0));
    }
}
