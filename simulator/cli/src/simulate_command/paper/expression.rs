//! The language of findings: sums of measured values, tests of sums, and sentences with them.
//! docs/simulator/simulate.md describes it.
//!
//! A sum's terms are measured independently: a number computed from several rates of the same seed
//! is a quantity. Texts are not parsed in advance: to check a text, evaluate it for a run without
//! machines, which goes through all of it.

use page::number;

use super::data::Paper;
use super::quantity::Quantity;
use super::verdict::Verdict;
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

/// What the values say of a test.
#[derive(Debug, PartialEq)]
pub(super) struct Tested {
    pub(super) verdict: Verdict,
    /// What leaves the test open where it is not decided.
    pub(super) doubt: &'static str,
    /// For a test of steps, the steps at which it does not hold.
    pub(super) steps: String,
}

/// The doubt of a comparison that holds in neither direction.
const TIE: &str = "a tie";
/// The doubt of a difference whose interval reaches from below a bound to beyond it.
const ACROSS: &str = "the intervals leave it open";

/// What stands in a sentence in place of a value whose machines were not simulated.
const ABSENT: &str = "not simulated";

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
        let (verdict, doubt) = if let Some((kind, cpus)) = text.split_once(" reaches ") {
            (self.reaches(kind, cpus)?, TIE)
        } else if let Some((more, less)) = text.split_once(" > ") {
            let values = self.sum(more)?.zip(self.sum(less)?);
            (values.map(|(more, less)| compare(more, less)), TIE)
        } else if let Some((one, rest)) = text.split_once(" within ")
            && let Some((percent, other)) = rest.split_once(" % of ")
        {
            let (values, percent) = (self.sum(one)?.zip(self.sum(other)?), number(percent)?);
            (values.map(|(one, other)| about_as_many(one, other, percent)), ACROSS)
        } else {
            return Err(format!("{text:?} tests nothing: write A > B or A within N % of B"));
        };
        Ok(verdict.map(|verdict| Tested { verdict, doubt, steps: String::new() }))
    }

    /// Tests that along each chain the value never falls, and is higher at the end than at the
    /// beginning; the steps are where it does not rise. A value that falls contradicts the test,
    /// whether other chains were simulated or not. `downwards` tests the reverse.
    fn rises(&self, of: &str, chains: &str, downwards: bool) -> Found<Tested> {
        let of: Quantity = of.to_owned().try_into()?;
        let mut exceptions = Vec::new();
        let mut all = true;
        for name in chains.split(", ") {
            for chain in &self.paper.chain(name)?.specs {
                let mut chain = chain.clone();
                if downwards {
                    chain.reverse();
                }
                let values = chain.iter().map(|spec| of.evaluate(self.runs, spec));
                match values.collect::<Option<Vec<Value>>>() {
                    Some(values) => exceptions.extend(find_exceptions(&chain, &values)),
                    None => all = false,
                }
            }
        }
        let falls = exceptions.iter().any(|one| one.falls);
        let verdict = Verdict::new(exceptions.is_empty(), falls);
        let steps = match exceptions.is_empty() {
            true => "at each step".into(),
            false => {
                let steps: Vec<String> = exceptions.into_iter().map(|one| one.step).collect();
                format!("not from {}", steps.join("; "))
            }
        };
        Ok((all || falls).then_some(Tested { verdict, doubt: TIE, steps }))
    }

    /// Tests that a kind of machine scales to `cpus` processors. Not known where fewer were
    /// simulated, unless the scaling ends earlier.
    fn reaches(&self, kind: &str, cpus: &str) -> Found<Verdict> {
        let needed = number(cpus)?;
        let scales = self.scales(kind)?;
        Ok(scales.and_then(|scales| match f64::from(scales.cpus()) >= needed {
            true => Some(Verdict::Confirmed),
            false => matches!(scales, Scales::To(..)).then_some(Verdict::Contradicted),
        }))
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
    pub(super) fn sentence(&self, text: &str, steps: &str) -> Result<String, String> {
        let pieces: Vec<&str> = text.split(['{', '}']).collect();
        if pieces.len().is_multiple_of(2) {
            return Err(format!("{text:?}: a brace is missing"));
        }
        let mut told = String::new();
        for (number, piece) in pieces.into_iter().enumerate() {
            match (number % 2, piece) {
                (0, piece) => told += piece,
                (_, "where") => told += steps,
                (_, piece) => told += self.shown(piece)?.as_deref().unwrap_or(ABSENT),
            }
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

/// A step of a chain, or a whole chain, over which the value does not rise.
struct Exception {
    step: String,
    /// Whether the value falls, by more than the intervals explain.
    falls: bool,
}

/// The steps of a chain at which the value falls, and the whole chain if the value does not rise
/// over it.
fn find_exceptions(chain: &[Spec], values: &[Value]) -> Vec<Exception> {
    let step = |from: &Spec, to: &Spec| match from.cache() == to.cache() {
        false => format!("{} to {}", from.cache(), to.cache()),
        true => format!("{} to {}", from.describe(), to.describe()),
    };
    let steps = chain.windows(2).zip(values.windows(2));
    let falling = steps.filter(|(_, pair)| pair[0].exceeds(pair[1]));
    let mut exceptions: Vec<Exception> = falling
        .map(|(specs, _)| Exception { step: step(&specs[0], &specs[1]), falls: true })
        .collect();
    let last = values.len() - 1;
    let whole = format!("{} as a whole", step(&chain[0], &chain[last]));
    match compare(values[last], values[0]) {
        Verdict::Confirmed => {}
        Verdict::Contradicted => exceptions.push(Exception { step: whole, falls: true }),
        Verdict::NotDecided => {
            exceptions.push(Exception { step: format!("{whole} ({TIE})"), falls: false });
        }
    }
    exceptions
}

/// The verdict on a value that is said to be more than another.
fn compare(more: Value, less: Value) -> Verdict {
    Verdict::new(more.exceeds(less), less.exceeds(more))
}

/// The verdict on two values that are said to be within `percent` of each other. It is decided if
/// the whole interval of their difference is on one side of that bound.
fn about_as_many(one: Value, other: Value, percent: f64) -> Verdict {
    let apart = one.less(other);
    let [least, most] = [-apart.half, apart.half].map(|half| (apart.mean.abs() + half) * 100.0);
    let bound = percent * f64::max(one.mean.abs(), other.mean.abs());
    Verdict::new(most <= bound, least > bound)
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
small = { base = \"one\", block = 32 }
middle = { base = \"one\", block = 64 }
[chains.up]
base = \"one\"
along = { cpus = [1, 2, 4] }
[chains.end]
base = \"one\"
along = { cpus = [2, 4] }
[chains.blocks]
base = \"one\"
along = { block = [32, 64, 128] }
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
            // A little less at each step, which only shows over the whole.
            ("small", 1.4, 0.25),
            ("middle", 1.2, 0.25),
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
    fn tests_are_decided_beyond_the_intervals_or_not_or_cannot_be_made() {
        const CONFIRMED: Option<Verdict> = Some(Verdict::Confirmed);
        const CONTRADICTED: Option<Verdict> = Some(Verdict::Contradicted);
        const NOT_DECIDED: Option<Verdict> = Some(Verdict::NotDecided);
        with_names(|names| {
            for (text, expected) in [
                ("gsp(two) > gsp(one)", CONFIRMED),
                ("gsp(one) > gsp(two)", CONTRADICTED),
                ("gsp(four) > gsp(two)", NOT_DECIDED),
                ("gsp(two) > gsp(four)", NOT_DECIDED),
                ("1.5 > gsp(one)", CONFIRMED),
                ("gsp(one) > 1.5", CONTRADICTED),
                // Values without intervals that are equal, or look it.
                ("gsp(one) > gsp(wide)", NOT_DECIDED),
                ("gsp(one) > 0.999", NOT_DECIDED),
                ("scales_to(four) > scales_to(two)", NOT_DECIDED),
                ("gsp(absent) > 1", None),
                ("gsp(one) within 10 % of 1.05", CONFIRMED),
                ("gsp(one) within 1 % of 1.05", CONTRADICTED),
                ("gsp(two) within 10 % of gsp(two)", NOT_DECIDED),
                // 1.8 ±0.3 is at least 0.5 more than 1, which is 28 % of 1.8, and at most 1.1.
                ("gsp(two) within 27 % of 1", CONTRADICTED),
                ("gsp(two) within 28 % of 1", NOT_DECIDED),
                ("gsp(two) within 62 % of 1", CONFIRMED),
                ("-1 within 10 % of -1", CONFIRMED),
                ("gsp(absent) within 10 % of 1", None),
                ("scales_to(four) reaches 2", CONFIRMED),
                ("scales_to(four) reaches 3", CONTRADICTED),
                ("scales_to(wide) reaches 2", CONFIRMED),
                ("scales_to(wide) reaches 3", None),
                ("gsp rises along up", CONFIRMED),
                ("gsp falls along up", CONTRADICTED),
                ("gsp rises along blocks", CONTRADICTED),
                ("gsp falls along blocks", CONFIRMED),
                ("gsp rises along end", NOT_DECIDED),
                ("gsp falls along end", NOT_DECIDED),
                ("gsp rises along up, end", NOT_DECIDED),
                ("gsp falls along end, up", CONTRADICTED),
                ("gsp rises along up, further", None),
                // What was simulated decides against it, whatever the rest would say.
                ("gsp falls along up, further", CONTRADICTED),
            ] {
                let found = names.test(text).expect(text);
                assert_eq!(found.map(|tested| tested.verdict), expected, "{text}");
            }
        });
    }

    #[test]
    fn steps_at_which_a_value_does_not_rise_are_named() {
        let kind = "1M/2, 128 bytes, random, MESI";
        let check = |names: Names<'_>, text: &str, expected: &str| {
            let tested = names.test(text).expect("right").expect("all are there");
            assert_eq!(tested.steps, expected, "{text}");
        };
        with_names(|names| {
            check(names, "gsp rises along up", "at each step");
            let whole = format!("4 CPUs, {kind} to 1 CPUs, {kind} as a whole");
            let step = format!("2 CPUs, {kind} to 1 CPUs, {kind}");
            check(names, "gsp falls along up", &format!("not from {step}; {whole}"));
            let tie = format!("not from 2 CPUs, {kind} to 4 CPUs, {kind} as a whole (a tie)");
            check(names, "gsp rises along end", &tie);
        });
    }

    #[test]
    fn sentences_are_filled_in() {
        with_names(|names| {
            let text = "to {scales_to(one)}, {gain} more {where}{kernel}; {scaling(one)}";
            let expected = "to 2, 0.8 ±0.3 more at once; the kernel's references are drawn, not \
                            traced; to 2 processors, GSP 1.8 there";
            assert_eq!(names.sentence(text, "at once"), Ok(expected.into()));
            assert_eq!(names.sentence("{later} more", ""), Ok("not simulated more".into()));
        });
    }

    #[test]
    fn texts_without_a_meaning_are_reported() {
        with_names(|names| {
            for (text, expected) in [
                ("gsp(one)", "\"gsp(one)\" tests nothing: write A > B"),
                ("gsp(three) > 1", "no machine \"three\"; there is absent, four, middle, one"),
                ("power(one) > 1", "no quantity \"power\""),
                ("gsp(one, two) > 1", "no machine \"one, two\""),
                ("half > 1", "no sum \"half\"; there is gain"),
                ("itself > 1", "\"itself\": write QUANTITY(MACHINE) in a sum that has a name"),
                ("x * gsp(one) > 1", "\"x\" is no number"),
                ("scales_to(one) reaches far", "\"far\" is no number"),
                ("gsp(one) reaches 3", "\"gsp(one)\": write scales_to(MACHINE)"),
                ("gsp rises along down", "no chain \"down\"; there is blocks, end, further, up"),
            ] {
                assert!(names.test(text).expect_err(text).starts_with(expected), "{text}");
            }
            assert!(names.sentence("{gain", "").expect_err("open").contains("a brace is missing"));
        });
    }
}
