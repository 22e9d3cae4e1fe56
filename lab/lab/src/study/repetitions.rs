//! How often each point is measured: as the command says in place of the file, and how often it
//! takes for claims to be decided.

use statistics::values_min;

use super::definition::Definition;
use crate::cache_study;
use crate::record::ClaimMeasure;

impl Definition {
    /// Measures each point this often, in place of what the file says.
    pub fn repeat(&mut self, repetitions: u32) {
        self.repetitions = repetitions;
        self.set_in_text("repetitions", repetitions.into());
    }

    /// The fewest repetitions with which the claims can be decided; none if there are as many, or
    /// if no claim is of pairs.
    pub fn repetitions_missed(&self) -> Option<u32> {
        // A spread is of each server by itself.
        let is_of_pairs = self.claims.iter().any(|claim| claim.measure != ClaimMeasure::Spread);
        missed(is_of_pairs, self.repetitions, self.confidence)
    }
}

impl cache_study::Definition {
    /// Measures each cell this often, in place of what the file says.
    pub fn repeat(&mut self, repetitions: u32) {
        self.repetitions = repetitions;
        set_in_text(&mut self.text, "repetitions", repetitions.into());
    }

    /// The fewest repetitions with which the claims can be decided; none if there are as many, or
    /// no claims.
    pub fn repetitions_missed(&self) -> Option<u32> {
        missed(!self.claims.is_empty(), self.repetitions, self.confidence)
    }
}

/// Sets a key in the text of an experiment. The text says all that is measured, wherever it was
/// said: a study is resumed only with the same text.
pub(super) fn set_in_text(text: &mut String, key: &str, value: toml::Value) {
    let mut table: toml::Table = text.parse().expect("`parse` wrote it");
    table.insert(key.to_owned(), value);
    *text = toml::to_string(&table).expect("it was a table before");
}

/// A claim is decided by intervals, which fewer pairs of runs do not support.
fn missed(is_of_pairs: bool, repetitions: u32, confidence: f64) -> Option<u32> {
    let least = u32::try_from(values_min(confidence)).unwrap_or(u32::MAX);
    (is_of_pairs && repetitions < least).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVERS: &str = "
title = 't'
servers = ['nginx', 'h2o']
repetitions = 3
window = '500ms'
offered = { mat = true }
workloads = ['zipf']
";

    const CACHE: &str = "
title = 't'
repetitions = 3
cache = { keys = 4096, requests = 1000, alpha = 1.0, alphas = [1.0], cached = 10, \
                         cached_percents = [10], threads = [1] }
";

    const CLAIM: &str = "[[claims]]\ntext = 'c'\nservers = ['nginx']";

    fn servers(more: &str, claim: &str) -> Definition {
        let text = format!("{more}\n{SERVERS}{claim}");
        Definition::parse("x", &text, None).expect("it is right")
    }

    #[test]
    fn claims_of_pairs_take_as_many_repetitions_as_an_interval_does() {
        let check = |more: &str, claim: &str, expected: Option<u32>| {
            assert_eq!(servers(more, claim).repetitions_missed(), expected, "{more} {claim}");
        };
        check("", "", None);
        check("", CLAIM, Some(6));
        check("confidence = 0.99", CLAIM, Some(8));
        check("confidence = 0.7", CLAIM, None);
        check("", "[[claims]]\ntext = 'c'\nmeasure = 'fairness spread'", None);
        let mut definition = servers("", CLAIM);
        definition.repeat(6);
        assert_eq!(definition.repetitions_missed(), None);
    }

    #[test]
    fn repetitions_that_are_typed_stand_in_the_text() {
        let mut definition = servers("", CLAIM);
        definition.repeat(7);
        let again = Definition::parse("x", &definition.text, None).expect("it is whole");
        assert_eq!((again.repetitions, &again.claims), (7, &definition.claims));
        let mut definition = cache_study::Definition::parse("x", CACHE, None).expect("it is right");
        definition.repeat(7);
        let again = cache_study::Definition::parse("x", &definition.text, None).expect("whole");
        assert_eq!((again.repetitions, again.design), (7, definition.design));
    }
}
