//! A server's knobs: what can be varied, which values are allowed, and in which steps a tuner tries
//! them.
//!
//! A knob has named values, or numbers within a range, or free text. Nothing is tried here.

use crate::template::{self, check_value};
use serde::Deserialize;

/// A grid with more values than this is a mistake in a server's file: it takes too long to try.
const GRID_MAX: usize = 64;

/// One thing that can be varied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// What it does.
    pub about: String,
    /// Its value where a setting says nothing. It may hold a placeholder, as `{workers}`.
    pub default: String,
    /// The values it may take, where they have names; otherwise empty.
    #[serde(default)]
    pub values: Vec<String>,
    /// The smallest number it may be, where it is one.
    pub from: Option<u64>,
    /// The largest number it may be.
    pub to: Option<u64>,
    /// How far apart the numbers are that are worth trying.
    pub step: Option<u64>,
    /// In place of `step`: by which factor they differ.
    pub factor: Option<u64>,
    /// `false`: a tuner varies it only if it is named. Knobs that make a server faster by doing
    /// less are such: responses that are stale, lack something, or end connections.
    pub tuned: Option<bool>,
}

/// The numbers that a knob may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
    scale: Scale,
}

/// How one number of a grid leads to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Step(u64),
    Factor(u64),
}

impl Knob {
    /// The values worth trying, in order: the named values; or the numbers from the smallest in
    /// steps or by a factor, the largest always among them; or the default alone, where the file
    /// has neither. A grid by a factor that begins at 0 goes on at 1.
    pub fn grid(&self) -> Vec<String> {
        match self.range() {
            Ok(Some(range)) => range.numbers().map(|number| number.to_string()).collect(),
            _ if self.values.is_empty() => vec![self.default.clone()],
            _ => self.values.clone(),
        }
    }

    /// Whether a tuner varies this knob where no knobs are named.
    pub fn is_tuned(&self) -> bool {
        self.tuned != Some(false) && self.grid().len() > 1
    }

    /// Whether a setting may turn the knob to `value`, which need not be of the grid. A value with
    /// a placeholder is known only at the start of a server, if the placeholder has a value.
    pub fn allows(&self, value: &str) -> bool {
        if template::names(value).next().is_some() {
            return check_value(value).is_ok();
        }
        match self.range() {
            Ok(Some(Range { from, to, .. })) => {
                value.parse().is_ok_and(|number| (from..=to).contains(&number))
            }
            _ => self.values.is_empty() || self.values.iter().any(|one| one == value),
        }
    }

    /// The values that the knob may have, in words, for an error.
    pub fn allowed(&self) -> String {
        match self.range() {
            Ok(Some(Range { from, to, .. })) => format!("{from} to {to}"),
            _ => self.values.join(", "),
        }
    }

    /// Checks what the file says of the knob.
    pub(crate) fn check(&self) -> Result<(), String> {
        let range = self.range()?;
        if range.is_some() && !self.values.is_empty() {
            return Err("it has both values and a range: keep one".into());
        }
        if let Some(twice) = duplicate(&self.values) {
            return Err(format!("it has the value {twice:?} twice"));
        }
        if range.is_some_and(|range| range.numbers().take(GRID_MAX + 1).count() > GRID_MAX) {
            return Err(format!("more than {GRID_MAX} steps: make them larger, or use a factor"));
        }
        if !self.allows(&self.default) {
            return Err(format!("its default {:?} is not among {}", self.default, self.allowed()));
        }
        Ok(())
    }

    fn range(&self) -> Result<Option<Range>, String> {
        let scale = match (self.step, self.factor) {
            (Some(0), None) => return Err("a step is at least 1".into()),
            (None, Some(0 | 1)) => return Err("a factor is at least 2".into()),
            (Some(step), None) => Some(Scale::Step(step)),
            (None, Some(factor)) => Some(Scale::Factor(factor)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("it has both a step and a factor: keep one".into()),
        };
        match (self.from, self.to, scale) {
            (None, None, None) => Ok(None),
            (Some(from), Some(to), Some(_)) if from > to => {
                Err(format!("its range ends at {to}, before it begins at {from}"))
            }
            (Some(from), Some(to), Some(scale)) => Ok(Some(Range { from, to, scale })),
            _ => Err("a range needs from, to, and step or factor".into()),
        }
    }
}

impl Range {
    fn numbers(self) -> impl Iterator<Item = u64> {
        let Self { from, to, .. } = self;
        let next = move |number: &u64| match *number {
            number if number == to => None,
            number => Some(self.after(number).min(to)),
        };
        std::iter::successors(Some(from), next)
    }

    fn after(self, number: u64) -> u64 {
        match self.scale {
            Scale::Step(step) => number.saturating_add(step),
            Scale::Factor(_) if number == 0 => 1,
            Scale::Factor(factor) => number.saturating_mul(factor),
        }
    }
}

fn duplicate(values: &[String]) -> Option<&String> {
    values.iter().enumerate().find(|(at, one)| values[..*at].contains(one)).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(text: &str) -> Knob {
        toml::from_str(&format!("about = \"a\"\n{text}")).expect("it is a knob")
    }

    #[track_caller]
    fn check_grid(text: &str, expected: &[&str]) {
        let knob = knob(text);
        assert_eq!(knob.check(), Ok(()));
        assert_eq!(knob.grid(), expected);
    }

    #[test]
    fn grids_are_named_or_numbered() {
        check_grid("default = 'on'\nvalues = ['on', 'off']", &["on", "off"]);
        check_grid("default = 'anything'", &["anything"]);
        check_grid("default = '4'\nfrom = 0\nto = 8\nstep = 4", &["0", "4", "8"]);
        check_grid("default = '4'\nfrom = 1\nto = 10\nstep = 4", &["1", "5", "9", "10"]);
        check_grid("default = '3'\nfrom = 1\nto = 9\nfactor = 2", &["1", "2", "4", "8", "9"]);
        check_grid("default = '0'\nfrom = 0\nto = 16\nfactor = 4", &["0", "1", "4", "16"]);
        check_grid("default = '7'\nfrom = 7\nto = 7\nstep = 1", &["7"]);
        let largest = "default = '{workers}'\nfrom = 1\nto = 9223372036854775807\nfactor = 1048576";
        assert_eq!(knob(largest).grid().len(), 5);
    }

    #[test]
    fn what_is_allowed_need_not_be_of_the_grid() {
        let knob = knob("default = '{workers}'\nfrom = 1\nto = 64\nfactor = 2");
        assert!(knob.allows("3") && knob.allows("{workers}"));
        assert!(!knob.allows("0") && !knob.allows("65") && !knob.allows("on"));
        assert!(!knob.allows("{worker}"), "nothing stands for that");
    }

    #[test]
    fn mistakes_are_named() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(knob(text).check(), Err(expected.to_owned()));
        }
        let range = "a range needs from, to, and step or factor";
        check("default = '1'\nfrom = 1", range);
        check("default = '1'\nstep = 1", range);
        check("default = '1'\nfrom = 1\nto = 2", range);
        check("default = '1'\nfrom = 1\nto = 2\nstep = 0", "a step is at least 1");
        check("default = '1'\nfrom = 1\nto = 2\nfactor = 1", "a factor is at least 2");
        let both = "it has both a step and a factor: keep one";
        check("default = '1'\nfrom = 1\nto = 2\nfactor = 2\nstep = 1", both);
        let backwards = "its range ends at 1, before it begins at 2";
        check("default = '1'\nfrom = 2\nto = 1\nstep = 1", backwards);
        let both = "it has both values and a range: keep one";
        check("default = '1'\nvalues = ['1']\nfrom = 1\nto = 2\nstep = 1", both);
        check("default = 'a'\nvalues = ['a', 'b', 'a']", "it has the value \"a\" twice");
        check("default = 'c'\nvalues = ['a', 'b']", "its default \"c\" is not among a, b");
        let outside = "its default \"3\" is not among 1 to 2";
        check("default = '3'\nfrom = 1\nto = 2\nstep = 1", outside);
        let many = "more than 64 steps: make them larger, or use a factor";
        check("default = '3'\nfrom = 1\nto = 65\nstep = 1", many);
    }
}
