//! Where a setting comes from: a line of the file, a flag, or nowhere (a default).

use std::collections::BTreeMap;

use super::error::{ConfigError, ConfigFault, Place};
use super::value::Fault;

/// A text that settings are read from, and its name in messages.
pub(super) struct Source<'t> {
    pub(super) text: &'t str,
    pub(super) name: String,
    /// Whether messages give a line and column; in a flag there is nothing to search.
    pub(super) has_lines: bool,
}

impl Source<'_> {
    pub(super) fn place(&self, offset: usize) -> Place {
        let position = self.has_lines.then(|| position(self.text, offset));
        Place { source: self.name.clone(), position }
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

/// Line and column of a byte, both from 1; a column is a character.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let check = |offset, expected| assert_eq!(position("ab\nä b\n", offset), expected);
        check(0, (1, 1));
        check(2, (1, 3));
        check(3, (2, 1));
        check(6, (2, 3));
        check(99, (3, 1));
    }
}
