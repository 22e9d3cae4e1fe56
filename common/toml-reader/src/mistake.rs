//! What is wrong with a value, and on which line of a text it stands.

use std::fmt;

use command::near::did_you_mean;
use serde::de;
use toml::de::{DeTable, DeValue};

/// What is wrong with a value, and where in the table that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The way to the value, the last step first.
    steps: Vec<Step>,
    fault: Fault,
}

/// One step on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a table, to the value of a key.
    Key(String),
    /// Into a list, to an item, counted from 0.
    Item(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    UnknownWord {
        word: String,
        known: &'static [&'static str],
    },
    MissingKey(&'static str),
    /// A key or an item, beside all that is read of its table or list.
    LeftOver(&'static str),
    Other(String),
}

impl Mistake {
    /// This key or item, to which it leads, is not read.
    pub(crate) fn left_over(what: &'static str) -> Self {
        Fault::LeftOver(what).into()
    }

    /// This mistake as one of the value that contains its value, after a step.
    #[must_use]
    pub fn below(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// `line 3: `, or nothing if the text has no such value. The table that was read is at the top
    /// of the text, or parts of it are in one of these `places`, each a way of keys, which come
    /// first.
    pub fn line_prefix(&self, text: &str, places: &[&[&str]]) -> String {
        let line = places.iter().copied().chain([&[][..]]).find_map(|at| self.line_in(text, at));
        line.map_or_else(String::new, |line| format!("line {line}: "))
    }

    fn line_in(&self, text: &str, place: &[&str]) -> Option<usize> {
        let whole = DeTable::parse(text).ok()?;
        let mut table = whole.get_ref();
        for key in place {
            table = entry(table, key)?.1.as_table()?;
        }
        let (mut at, mut value): (Option<usize>, Option<&DeValue<'_>>) = (None, None);
        for step in self.steps.iter().rev() {
            let (start, inner) = match (step, value) {
                (Step::Key(key), None) => entry(table, key)?,
                (Step::Key(key), Some(DeValue::Table(table))) => entry(table, key)?,
                (Step::Item(index), Some(DeValue::Array(items))) => {
                    let item = items.get(*index)?;
                    (item.span().start, item.get_ref())
                }
                _ => return None,
            };
            (at, value) = (Some(start), Some(inner));
        }
        Some(line_at(text, at?))
    }

    /// The key whose value it is about.
    fn key(&self) -> &str {
        let key = self.steps.iter().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Item(_) => None,
        });
        key.unwrap_or("it")
    }
}

/// Where the key stands in the text, and its value.
fn entry<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<(usize, &'t DeValue<'i>)> {
    let found = table.iter().find(|(name, _)| name.get_ref() == key);
    found.map(|(name, value)| (name.span().start, value.get_ref()))
}

/// The number of the line with this byte.
pub(crate) fn line_at(text: &str, start: usize) -> usize {
    text.bytes().take(start).filter(|&byte| byte == b'\n').count() + 1
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::UnknownKey { key, known } => {
                write!(f, "unknown key {key:?}{}", did_you_mean(key, known.iter().copied()))
            }
            Fault::UnknownWord { word, known } => {
                let near = did_you_mean(word, known.iter().copied());
                write!(f, "{} must be one of {}, not {word:?}{near}", self.key(), known.join(", "))
            }
            Fault::LeftOver(what) => {
                let step = self.steps.first().map(Step::to_string).unwrap_or_default();
                write!(f, "{what} {step} is one too many")
            }
            Fault::MissingKey(key) => write!(f, "the key {key:?} is missing"),
            Fault::Other(why) => f.write_str(why),
        }
    }
}

/// The key in quotes, or the number of the item from 1.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "{key:?}"),
            Self::Item(index) => write!(f, "{}", index + 1),
        }
    }
}

impl std::error::Error for Mistake {}

impl From<Fault> for Mistake {
    fn from(fault: Fault) -> Self {
        Self { steps: Vec::new(), fault }
    }
}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Fault::Other(why.to_string()).into()
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Fault::UnknownKey { key: key.to_owned(), known }.into()
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Fault::UnknownWord { word: word.to_owned(), known }.into()
    }

    fn missing_field(key: &'static str) -> Self {
        Fault::MissingKey(key).into()
    }
}
