//! The definition of an experiment with the cache, as its file gives it. The format is documented
//! in `docs/lab/study.md`.

use command::units::{parse_duration, parse_share};
use serde::Deserialize;

use super::claim::Claim;
use super::design::Design;
use super::run::estimated_one_s;
use crate::error::Error;
use crate::observe::INTERFERENCE_MAX;
use crate::study::budget;
use crate::study::sizes::{Origin, sized};

/// An experiment.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The name of its file without `.toml`.
    pub name: String,
    /// The title in reports.
    pub title: String,
    /// The paper and its figure or section.
    pub source: String,
    /// The question that it is to answer.
    pub question: String,
    /// The results of the source.
    pub expected: String,
    /// What of that can be judged by the numbers.
    pub claims: Vec<Claim>,
    /// The factors that are varied.
    pub design: Design,
    /// The number of measurements of each cell.
    pub repetitions: u32,
    /// How much of the CPUs others may have had during a measurement before it is void, 0 to 1.
    pub interference_bound: f64,
    /// The seconds that the study may take.
    pub budget_s: Option<f64>,
    /// The confidence of intervals.
    pub confidence: f64,
    /// The seed of the order and of the requests.
    pub seed: u64,
    /// The text that was read, with the changes of the size applied.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    expected: String,
    repetitions: u32,
    interference_bound: Option<String>,
    budget: Option<String>,
    confidence: Option<f64>,
    seed: Option<u64>,
    #[serde(default)]
    claims: Vec<Claim>,
    cache: Design,
}

impl Definition {
    /// Checks that the budget suffices for one measurement.
    ///
    /// # Errors
    /// When the budget would be spent before a measurement, however often it were renewed.
    pub fn check_budget(&self) -> Result<(), Error> {
        budget::check(self.budget_s, estimated_one_s(self), "fewer `requests`")
    }

    /// Parses the text of an experiment, in one of its sizes.
    ///
    /// # Errors
    /// What is wrong, in a line.
    pub fn parse(name: &str, text: &str, size: Option<&str>) -> Result<Self, String> {
        let origin = Origin { text, size };
        let table = sized(toml_reader::table(text)?, size)?;
        let sized = toml::to_string(&table).map_err(|why| why.to_string())?;
        let written = toml_reader::read_value(table).map_err(|why| origin.explain(&why));
        let written: Written = written?;
        let budget = written.budget.as_deref().map(parse_duration).transpose();
        let definition = Self {
            name: name.to_owned(),
            title: written.title,
            source: written.source,
            question: written.question,
            expected: written.expected,
            claims: written.claims,
            design: written.cache,
            repetitions: written.repetitions,
            interference_bound: written
                .interference_bound
                .map_or(Ok(INTERFERENCE_MAX), |typed| parse_share(&typed))
                .map_err(|why| format!("interference_bound: {why}"))?,
            budget_s: budget.map_err(|why| format!("budget: {why}"))?.map(|us| us as f64 / 1e6),
            confidence: written.confidence.unwrap_or(0.95),
            seed: written.seed.unwrap_or(1),
            text: sized,
        };
        definition.check()?;
        Ok(definition)
    }

    fn check(&self) -> Result<(), String> {
        match self {
            one if one.title.is_empty() => Err("title: say what it is".into()),
            one if one.repetitions == 0 => Err("repetitions: at least 1".into()),
            one if !(0.5..1.0).contains(&one.confidence) => {
                Err("confidence: from 0.5, and below 1".into())
            }
            one => {
                for (claim, number) in one.claims.iter().zip(1..) {
                    claim.check().map_err(|why| format!("claim number {number}: {why}"))?;
                }
                one.design.check().map_err(|why| format!("cache: {why}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
title = "t"
repetitions = 2
[cache]
keys = 4096
requests = 1000
alpha = 1.0
alphas = [0.5, 1.0]
cached = 10
cached_percents = [10, 100]
threads = [1, 2]
[sizes.paper.cache]
keys = 8192
"#;

    #[test]
    fn a_size_changes_what_it_names() {
        let here = Definition::parse("x", TEXT, None).expect("it is right");
        let paper = Definition::parse("x", TEXT, Some("paper")).expect("it is right");
        assert_eq!((here.design.keys, paper.design.keys), (4096, 8192));
        assert_eq!(paper.design.threads, [1, 2]);
        let again = Definition::parse("x", &paper.text, None).expect("it is whole");
        assert_eq!(again.design, paper.design);
    }

    #[test]
    fn mistakes_are_reported_in_a_line() {
        let cases = [
            ("title = \"t\"", "", "the key \"title\" is missing"),
            ("title = \"t\"", "title = \"\"", "title: say what it is"),
            ("repetitions = 2", "repetitions = 0", "repetitions: at least 1"),
            ("repetitions = 2", "repetitions = 2\nbudget = \"5\"", "budget: "),
            ("repetitions = 2", "repetitions = 2\nservers = []", "line 4: unknown key \"servers\""),
            ("keys = 4096", "keys = 5000", "cache: keys: a power of two"),
            (
                "[cache]",
                "[[claims]]\ntext = 't'\npart = 'locks'\nstores = ['clock']\nthan = 'hash'\n\
                 measure = 'cpu'\nat_least = 1\n[cache]",
                "claim number 1: hash of the name alone is no store of the part Locks",
            ),
            (
                "[cache]",
                "[[claims]]\ntext = 't'\npart = 'locks'\nstores = ['clock']\nthan = 'lru'\n\
                 measure = 'cpu'\nat_least = 0\n[cache]",
                "claim number 1: at_least: 0 is no ratio: give a number above 0",
            ),
            ("keys = 4096", "kys = 5000", "line 5: unknown key \"kys\" (did you mean \"keys\"?)"),
        ];
        for (from, to, expected) in cases {
            let text = TEXT.replacen(from, to, 1);
            let why = Definition::parse("x", &text, None).expect_err(to);
            assert!(why.contains(expected) && !why.contains('\n'), "{to}: {why}");
        }
    }
}
