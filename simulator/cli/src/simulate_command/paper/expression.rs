//! The language of findings: sums of measured values, tests of sums, and sentences with them.
//! docs/simulator/simulate.md describes it.
//!
//! A sum's terms are measured independently: a number computed from several rates of the same seed
//! is a quantity. Texts are not parsed in advance: to check a text, evaluate it for a run without
//! machines, which goes through all of it.

use page::number;

use super::data::Paper;
use super::quantity::Quantity;
use crate::simulate_command::measured::{Runs, Scales, Value};
use crate::simulate_command::spec::Spec;

/// The context that gives the names in a text their values.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    paper: &'a Paper,
    runs: &'a Runs,
    /// Whether a sum is being evaluated. A sum may not use other sums, so that evaluation ends.
    in_sum: bool,
}

/// The result of an evaluation: none where its machines were not simulated, an error where the text
/// has no meaning.
pub(super) type Found<T> = Result<Option<T>, String>;

/// Whether a test holds, and for a test of steps, the steps at which it does not.
#[derive(Debug, PartialEq)]
pub(super) struct Tested {
    pub(super) holds: bool,
    pub(super) steps: String,
}

impl<'a> Names<'a> {
    pub(super) fn new(paper: &'a Paper, runs: &'a Runs) -> Self {
        Self { paper, runs, in_sum: false }
    }

    /// Evaluates a test: `SUM > SUM`, `SUM within N % of SUM`, `scales_to(MACHINE) reaches N`, and
    /// `QUANTITY rises along CHAIN, CHAIN` or `falls`.
    pub(super) fn test(&self, text: &str) -> Found<Tested> {
        if let Some((of, chains)) = text.split_once(" rises along ") {
            return self.rises(of, chains, false);
        }
        if let Some((of, chains)) = text.split_once(" falls along ") {
            return self.rises(of, chains, true);
        }
        let holds = if let Some((kind, cpus)) = text.split_once(" reaches ") {
            self.reaches(kind, cpus)?
        } else if let Some((more, less)) = text.split_once(" > ") {
            self.sum(more)?.zip(self.sum(less)?).map(|(more, less)| more.exceeds(less))
        } else if let Some((one, rest)) = text.split_once(" within ")
            && let Some((percent, other)) = rest.split_once(" % of ")
        {
            let (values, percent) = (self.sum(one)?.zip(self.sum(other)?), number(percent)?);
            values.map(|(one, other)| about_as_many(one, other, percent))
        } else {
            return Err(format!("{text:?} tests nothing: write A > B or A within N % of B"));
        };
        Ok(holds.map(|holds| Tested { holds, steps: String::new() }))
    }

    /// Tests that along each chain the value never falls, and is higher at the end than at the
    /// beginning; the steps are where it falls. `downwards` tests the reverse.
    fn rises(&self, of: &str, chains: &str, downwards: bool) -> Found<Tested> {
        let of: Quantity = of.to_owned().try_into()?;
        let mut falls = Vec::new();
        let mut all = true;
        for name in chains.split(", ") {
            for chain in &self.paper.chain(name)?.specs {
                let mut chain = chain.clone();
                if downwards {
                    chain.reverse();
                }
                let values = chain.iter().map(|spec| of.evaluate(self.runs, spec));
                match values.collect::<Option<Vec<Value>>>() {
                    Some(values) => falls.extend(find_falls(&chain, &values)),
                    None => all = false,
                }
            }
        }
        let steps = match falls.is_empty() {
            true => "at each step".into(),
            false => format!("not from {}", falls.join("; ")),
        };
        Ok(all.then_some(Tested { holds: falls.is_empty(), steps }))
    }

    /// Tests that a kind of machine scales to `cpus` processors. Not known where fewer were
    /// simulated, unless the scaling ends earlier.
    fn reaches(&self, kind: &str, cpus: &str) -> Found<bool> {
        let needed = number(cpus)?;
        let scales = self.scales(kind)?;
        let far = |scales: Scales| f64::from(scales.cpus()) >= needed;
        Ok(scales.filter(|scales| far(*scales) || matches!(scales, Scales::To(..))).map(far))
    }

    /// Evaluates a sum: `TERM + TERM - TERM`.
    pub(super) fn sum(&self, text: &str) -> Found<Value> {
        let sign = |(sign, factor): (&str, f64)| Some((text.rfind(sign)?, factor));
        let signs = [(" + ", -1.0), (" - ", 1.0)].into_iter().filter_map(sign);
        let Some((at, factor)) = signs.max_by_key(|(at, _)| *at) else { return self.term(text) };
        let (sum, term) = (self.sum(&text[..at])?, self.term(&text[at + 3..])?);
        Ok(sum.zip(term).map(|(sum, term)| sum.less(term.times(factor))))
    }

    /// Evaluates a term: `NUMBER`, `NUMBER * VALUE`, or `VALUE`.
    fn term(&self, text: &str) -> Found<Value> {
        match text.split_once(" * ") {
            Some((factor, value)) => {
                let factor = number(factor)?;
                Ok(self.value(value)?.map(|value| value.times(factor)))
            }
            None => match text.parse() {
                Ok(number) => Ok(Some(Value::exactly(number))),
                Err(_) => self.value(text),
            },
        }
    }

    /// Evaluates a value: `QUANTITY(MACHINE)`, `spread QUANTITY(MACHINE, MACHINE)`, or the name of
    /// a sum.
    fn value(&self, text: &str) -> Found<Value> {
        let Some((of, machines)) = applied(text) else {
            return match self.in_sum {
                true => Err(format!("{text:?}: write QUANTITY(MACHINE) in a sum that has a name")),
                false => Self { in_sum: true, ..*self }.sum(self.paper.sum(text)?),
            };
        };
        let (of, machines) = match of.strip_prefix("spread ") {
            Some(of) => (of, machines.split(", ").collect()),
            None => (of, vec![machines]),
        };
        let of: Quantity = of.to_owned().try_into()?;
        let specs = machines.into_iter().map(|name| self.paper.machine(name));
        let specs: Vec<Spec> = specs.collect::<Result<_, _>>()?;
        let values = specs.iter().map(|spec| of.evaluate(self.runs, spec));
        Ok(values.collect::<Option<_>>().map(spread))
    }

    /// The scalability in `scales_to(MACHINE)` or `scaling(MACHINE)`.
    fn scales(&self, text: &str) -> Found<Scales> {
        match applied(text) {
            Some(("scales_to" | "scaling", kind)) => {
                Ok(self.runs.scales(&self.paper.machine(kind)?))
            }
            _ => Err(format!("{text:?}: write scales_to(MACHINE)")),
        }
    }

    /// Fills in a sentence: each part in braces is replaced by its value, and `{where}` by `steps`.
    pub(super) fn sentence(&self, text: &str, steps: &str) -> Found<String> {
        let pieces: Vec<&str> = text.split(['{', '}']).collect();
        if pieces.len().is_multiple_of(2) {
            return Err(format!("{text:?}: a brace is missing"));
        }
        let mut told = Some(String::new());
        for (number, piece) in pieces.into_iter().enumerate() {
            let piece = match (number % 2, piece) {
                (0, piece) => Some(piece.into()),
                (_, "where") => Some(steps.into()),
                (_, piece) => self.shown(piece)?,
            };
            told = told.zip(piece).map(|(told, piece)| told + &piece);
        }
        Ok(told)
    }

    fn shown(&self, text: &str) -> Found<String> {
        Ok(match applied(text) {
            None if text == "kernel" => Some(drawn(self.runs).into()),
            Some(("scales_to", _)) => self.scales(text)?.map(Scales::show),
            Some(("scaling", _)) => self.scales(text)?.map(scaling),
            _ => self.sum(text)?.map(shown),
        })
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// The texts before the parentheses and within them.
fn applied(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix(')')?.split_once('(')
}

/// The steps of a chain at which the value falls, and the whole chain if the value does not rise
/// over it.
fn find_falls(chain: &[Spec], values: &[Value]) -> Vec<String> {
    let step = |from: &Spec, to: &Spec| match from.cache() == to.cache() {
        false => format!("{} to {}", from.cache(), to.cache()),
        true => format!("{} to {}", from.describe(), to.describe()),
    };
    let steps = chain.windows(2).zip(values.windows(2));
    let mut falls: Vec<String> = steps
        .filter(|(_, pair)| pair[0].exceeds(pair[1]))
        .map(|(specs, _)| step(&specs[0], &specs[1]))
        .collect();
    let last = values.len() - 1;
    if !values[last].exceeds(values[0]) {
        falls.push(format!("{} as a whole", step(&chain[0], &chain[last])));
    }
    falls
}

/// Whether two values are within `percent` of each other, including their intervals.
fn about_as_many(one: Value, other: Value, percent: f64) -> bool {
    let apart = one.less(other);
    (apart.mean.abs() + apart.half) * 100.0 <= percent * f64::max(one.mean, other.mean)
}

/// The difference between the lowest and the highest of several values; a single value is returned
/// unchanged.
fn spread(mut values: Vec<Value>) -> Value {
    values.sort_by(|one, other| one.mean.total_cmp(&other.mean));
    match values[..] {
        [one] => one,
        _ => values[values.len() - 1].less(values[0]),
    }
}

/// The words that follow every number about the kernel, whose references are drawn and not traced.
fn drawn(runs: &Runs) -> &'static str {
    match runs.kernel {
        true => "; the kernel's references are drawn, not traced",
        false => "; no kernel was simulated",
    }
}

fn scaling(scales: Scales) -> String {
    let gsp = number::figure(scales.gsp());
    match scales {
        Scales::To(cpus, _) => format!("to {cpus} processors, GSP {gsp} there"),
        Scales::Beyond(cpus, _) => {
            format!("beyond {cpus} processors, the most simulated; GSP {gsp} there")
        }
    }
}

/// Formats a mean with as many digits as it needs, and half of its interval if it has one.
fn shown(value: Value) -> String {
    let mean = number::figure(value.mean);
    match value.half > 0.0 {
        true => format!("{mean} ±{}", number::figure(value.half)),
        false => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_command::measured::Measured;

    const PAPER: &str = "\
title = \"Made up\"
[machines]
one = { cpus = 1, cache = \"1M/2\" }
two = { base = \"one\", cpus = 2 }
four = { base = \"one\", cpus = 4 }
absent = { base = \"one\", cpus = 8 }
wide = { base = \"one\", block = 256 }
wide-two = { base = \"wide\", cpus = 2 }
[chains.up]
base = \"one\"
along = { cpus = [1, 2, 4] }
[chains.further]
base = \"one\"
along = { cpus = [1, 2, 4, 8] }
[sums]
gain = \"gsp(two) - gsp(one)\"
later = \"gsp(absent) - gsp(one)\"
itself = \"gsp(one) + itself\"
";

    /// Runs with GSP of 1, 1.8 and 2.0, which scale to 2; with wide blocks they scale beyond the
    /// simulated numbers.
    fn with_names(check: impl Fn(Names<'_>)) {
        let paper = Paper::parse(PAPER).expect("right");
        let mut runs = Runs { seeds: 2, kernel: true, ..Runs::default() };
        for (name, mean, half) in [
            ("one", 1.0, 0.0),
            ("two", 1.8, 0.3),
            ("four", 2.0, 0.4),
            ("wide", 1.0, 0.0),
            ("wide-two", 2.0, 0.0),
        ] {
            let one = Measured { gsp: Value { mean, half }, ..Measured::default() };
            runs.by_spec.insert(paper.machine(name).expect(name), one);
        }
        check(Names::new(&paper, &runs));
    }

    #[test]
    fn sums_are_of_independent_values() {
        with_names(|names| {
            for (text, mean, half) in [
                ("2", 2.0, 0.0),
                ("gsp(two)", 1.8, 0.3),
                ("gsp(four) - gsp(two)", 0.2, 0.5),
                ("gsp(four) + gsp(two) - 1", 2.8, 0.5),
                ("4 - gsp(one) - gsp(one)", 2.0, 0.0),
                ("0.5 * gsp(four) - 2 * gain", -0.6, 0.2f64.hypot(0.6)),
                ("spread gsp(four, one, two)", 1.0, 0.4),
                ("scales_to(four)", 2.0, 0.0),
            ] {
                let found = names.sum(text).expect(text).expect(text);
                assert!((found.mean - mean).abs() < 1e-9, "{text}: {found:?}");
                assert!((found.half - half).abs() < 1e-9, "{text}: {found:?}");
            }
            for text in ["gsp(absent)", "later", "2 - 2 * later", "spread gsp(one, absent)"] {
                assert_eq!(names.sum(text), Ok(None), "{text}");
            }
        });
    }

    #[test]
    fn tests_hold_or_not_or_cannot_be_made() {
        with_names(|names| {
            for (text, expected) in [
                ("gsp(two) > gsp(one)", Some(true)),
                ("gsp(four) > gsp(two)", Some(false)),
                ("1.5 > gsp(one)", Some(true)),
                ("gsp(absent) > 1", None),
                ("gsp(one) within 10 % of 1.05", Some(true)),
                ("gsp(one) within 1 % of 1.05", Some(false)),
                ("gsp(two) within 10 % of gsp(two)", Some(false)),
                ("scales_to(four) reaches 2", Some(true)),
                ("scales_to(four) reaches 3", Some(false)),
                ("scales_to(wide) reaches 2", Some(true)),
                ("scales_to(wide) reaches 3", None),
                ("gsp rises along up", Some(true)),
                ("gsp falls along up", Some(false)),
                ("gsp rises along up, further", None),
            ] {
                let found = names.test(text).expect(text);
                assert_eq!(found.map(|tested| tested.holds), expected, "{text}");
            }
            let tested = names.test("gsp falls along up").expect("right").expect("all are there");
            let kind = "1M/2, 128 bytes, random, MESI";
            let whole = format!("4 CPUs, {kind} to 1 CPUs, {kind} as a whole");
            assert_eq!(tested.steps, format!("not from 2 CPUs, {kind} to 1 CPUs, {kind}; {whole}"));
        });
    }

    #[test]
    fn sentences_are_filled_in() {
        with_names(|names| {
            let text = "to {scales_to(one)}, {gain} more {where}{kernel}; {scaling(one)}";
            let expected = "to 2, 0.8 ±0.3 more at once; the kernel's references are drawn, not \
                            traced; to 2 processors, GSP 1.8 there";
            assert_eq!(names.sentence(text, "at once"), Ok(Some(expected.into())));
            assert_eq!(names.sentence("{later}", ""), Ok(None));
        });
    }

    #[test]
    fn texts_without_a_meaning_are_reported() {
        with_names(|names| {
            for (text, expected) in [
                ("gsp(one)", "\"gsp(one)\" tests nothing: write A > B"),
                ("gsp(three) > 1", "no machine \"three\"; there is absent, four, one, two, wide"),
                ("power(one) > 1", "no quantity \"power\""),
                ("gsp(one, two) > 1", "no machine \"one, two\""),
                ("half > 1", "no sum \"half\"; there is gain"),
                ("itself > 1", "\"itself\": write QUANTITY(MACHINE) in a sum that has a name"),
                ("x * gsp(one) > 1", "\"x\" is no number"),
                ("scales_to(one) reaches far", "\"far\" is no number"),
                ("gsp(one) reaches 3", "\"gsp(one)\": write scales_to(MACHINE)"),
                ("gsp rises along down", "no chain \"down\"; there is further, up"),
            ] {
                assert!(names.test(text).expect_err(text).starts_with(expected), "{text}");
            }
            assert!(names.sentence("{gain", "").expect_err("open").contains("a brace is missing"));
        });
    }
}
