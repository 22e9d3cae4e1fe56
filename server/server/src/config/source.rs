//! Where a setting comes from: a line of the file, a flag, or nowhere (a default).

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::error::{ConfigError, ConfigFault, Place};
use super::value::Fault;

/// A text that settings are read from, and its name in messages.
pub(super) struct Source<'t> {
    pub(super) text: &'t str,
    pub(super) name: String,
    /// Whether messages give a line and column; in a flag there is nothing to search.
    has_lines: bool,
    /// Where lines end, once it is asked for: a text has many settings, each with its place.
    line_ends: OnceCell<Vec<usize>>,
}

impl<'t> Source<'t> {
    pub(super) fn file(text: &'t str, name: String) -> Self {
        Self { text, name, has_lines: true, line_ends: OnceCell::new() }
    }

    pub(super) fn flag(text: &'t str, name: &str) -> Self {
        Self { text, name: name.into(), has_lines: false, line_ends: OnceCell::new() }
    }

    pub(super) fn place(&self, offset: usize) -> Place {
        let position = self.has_lines.then(|| self.position(offset));
        Place { source: self.name.clone(), position }
    }

    /// Line and column of a byte, both from 1; a column is a character.
    fn position(&self, offset: usize) -> (usize, usize) {
        let find_ends = || self.text.match_indices('\n').map(|(at, _)| at).collect();
        let line_ends = self.line_ends.get_or_init(find_ends);
        let offset = self.text.floor_char_boundary(offset);
        let lines_before = line_ends.partition_point(|end| *end < offset);
        let line_start = lines_before.checked_sub(1).map_or(0, |last| line_ends[last] + 1);
        (lines_before + 1, self.text[line_start..offset].chars().count() + 1)
    }

    pub(super) fn explain(&self, fault: Fault) -> ConfigError {
        ConfigError::at_place(self.place(fault.span.start), fault.fault)
    }
}

/// The places of all settings that are not defaults, by the key's full name. An item of a list has
/// its number, from 0, as its name: the keys of hosts begin with `host.` and the number of the
/// host.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins(BTreeMap<String, Place>);

impl Origins {
    pub(super) fn set(&mut self, key: &str, place: Place) {
        self.0.insert(key.into(), place);
    }

    pub(super) fn get(&self, key: &str) -> Option<&Place> {
        self.0.get(key)
    }

    /// Puts a fault at the place of `key`, if it has one.
    pub(super) fn explain(&self, key: &str, fault: ConfigFault) -> ConfigError {
        ConfigError { place: self.get(key).cloned(), fault: Box::new(fault) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let source = Source::file("ab\nä b\n", String::new());
        let check = |offset, expected| assert_eq!(source.position(offset), expected);
        check(0, (1, 1));
        check(2, (1, 3));
        check(3, (2, 1));
        check(6, (2, 3));
        check(99, (3, 1));
    }
}
