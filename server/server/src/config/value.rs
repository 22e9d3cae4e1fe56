//! One TOML value and its place: typed reading with errors that say what is allowed.
//!
//! This module knows forms (a number of bytes, one of these words), not keys: `schema.rs` says
//! which key has which form.

use std::ops::{Range, RangeInclusive};

use command::near::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigFault;

/// What is wrong, and which bytes of the text are at fault.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) fault: ConfigFault,
}

/// A value with its place in the text.
#[derive(Clone)]
pub(super) struct Value<'t> {
    pub(super) span: Range<usize>,
    value: &'t DeValue<'t>,
}

/// What a number counts; this decides how it may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Things; or a time, whose unit is in the name of the key.
    Plain,
    /// Bytes: `65536` or `"64 KiB"`.
    Bytes,
}

impl<'t> Value<'t> {
    pub(super) fn new(spanned: &'t Spanned<DeValue<'t>>) -> Self {
        Self { span: spanned.span(), value: spanned.get_ref() }
    }

    pub(super) fn table(&self) -> Option<&'t DeTable<'t>> {
        match self.value {
            DeValue::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Result<&'t str, Fault> {
        match self.value {
            DeValue::String(text) => Ok(text),
            _ => {
                let quoted = self.integer().map(|number| format!(": write {number:?}"));
                Err(self.must_be_with_hint("a string", quoted.unwrap_or_default()))
            }
        }
    }

    /// A whole number as it was written.
    fn integer(&self) -> Option<String> {
        match self.value {
            DeValue::Integer(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The value without quotes, if it is a text or a whole number.
    pub(super) fn bare(&self) -> Option<String> {
        self.text().map(String::from).ok().or_else(|| self.integer())
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    pub(super) fn switch(&self) -> Result<bool, Fault> {
        match self.value {
            DeValue::Boolean(on) => Ok(*on),
            _ => Err(self.must_be("true or false")),
        }
    }

    pub(super) fn number(&self, unit: Unit, range: &RangeInclusive<u64>) -> Result<u64, Fault> {
        let number = match self.value {
            DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix()).ok(),
            DeValue::String(text) if unit == Unit::Bytes => parse_bytes(text),
            _ => None,
        };
        match number {
            Some(number) if range.contains(&number) => Ok(number),
            _ => Err(self.must_be(&show_range(unit, range))),
        }
    }

    /// Reads a number, or a word that stands for none.
    pub(super) fn number_or(
        &self,
        word: &str,
        unit: Unit,
        range: &RangeInclusive<u64>,
    ) -> Result<Option<u64>, Fault> {
        if matches!(self.value, DeValue::String(text) if text == word) {
            return Ok(None);
        }
        let also = |_| self.must_be(&format!("{}, or {word:?}", show_range(unit, range)));
        self.number(unit, range).map(Some).map_err(also)
    }

    /// Reads one of these words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Fault> {
        let text = match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        };
        let words = || choices.iter().map(|(word, _)| *word);
        let found = choices.iter().find(|(word, _)| Some(*word) == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let hint = text.map_or_else(String::new, |text| did_you_mean(text, words()));
            self.must_be_with_hint(&show_words(words()), hint)
        })
    }

    /// Reads a list; `read` converts each item.
    pub(super) fn list<T>(
        &self,
        read: impl FnMut(Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        match self.value {
            DeValue::Array(items) => items.iter().map(Value::new).map(read).collect(),
            _ => {
                let listed = self.bare().map(|item| format!(": write [{item:?}]"));
                Err(self.must_be_with_hint("a list", listed.unwrap_or_default()))
            }
        }
    }

    /// Reads a table that maps free names to values.
    pub(super) fn map<K: Ord, T>(
        &self,
        mut read: impl FnMut(&'t str, Self) -> Result<(K, T), Fault>,
    ) -> Result<std::collections::BTreeMap<K, T>, Fault> {
        let table = self.table().ok_or_else(|| self.must_be("a table"))?;
        table.iter().map(|(name, value)| read(name.get_ref(), Value::new(value))).collect()
    }

    /// A fault "must be this, not that" without a key: the code that reads the key adds its name.
    pub(super) fn must_be(&self, allowed: &str) -> Fault {
        self.must_be_with_hint(allowed, String::new())
    }

    /// A fault as [`Value::must_be`] makes it, with a hint that follows at once: it begins with a
    /// space or a colon.
    pub(super) fn must_be_with_hint(&self, allowed: &str, hint: String) -> Fault {
        let (key, found) = (String::new(), self.describe());
        self.fault(ConfigFault::Value { key, allowed: allowed.into(), found, hint })
    }

    pub(super) fn fault(&self, fault: ConfigFault) -> Fault {
        Fault { span: self.span.clone(), fault }
    }

    fn describe(&self) -> String {
        match self.value {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(on) => on.to_string(),
            DeValue::Datetime(date) => date.to_string(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        }
    }
}

/// Formats a number as it is written in a configuration file.
pub(super) fn show_number(unit: Unit, number: u64) -> String {
    if unit == Unit::Plain || number == 0 {
        return number.to_string();
    }
    let divides = |(_, size): &&(&str, u64)| number.is_multiple_of(*size);
    match SIZES.iter().rev().find(divides) {
        Some((name, size)) => format!("\"{} {name}\"", number / size),
        None => number.to_string(),
    }
}

const SIZES: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads `64 KiB`, `64KiB` or `65536`.
fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let size = match unit.trim_start_matches(' ') {
        "" | "B" => 1,
        unit => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(size)
}

fn show_range(unit: Unit, range: &RangeInclusive<u64>) -> String {
    let bare = |number| show_number(unit, number).replace('"', "");
    let (first, last) = (bare(*range.start()), bare(*range.end()));
    match unit {
        Unit::Plain => format!("a number from {first} to {last}"),
        Unit::Bytes => format!("a size from {first} to {last} (65536 or \"64 KiB\")"),
    }
}

fn show_words<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let quoted: Vec<String> = words.map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text, expected| assert_eq!(parse_bytes(text), expected, "{text}");
        check("65536", Some(65536));
        check("64 KiB", Some(65536));
        check("64KiB", Some(65536));
        check("2 GiB", Some(2 << 30));
        check("7 B", Some(7));
        check("", None);
        check("KiB", None);
        check("64 KB", None);
        check("64 kib", None);
        check("-1", None);
        check("99999999999999999999", None);
        check("18446744073709551615 GiB", None);
    }

    #[test]
    fn a_shown_size_reads_back() {
        for number in [0, 1, 1000, 1024, 65536, 65537, 1 << 20, 3 << 30] {
            let shown = show_number(Unit::Bytes, number);
            assert_eq!(parse_bytes(shown.trim_matches('"')), Some(number), "{shown}");
        }
    }
}
