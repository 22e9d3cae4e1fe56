//! Where a setting comes from: a line of the file, a flag, or nowhere (a default).

use std::collections::BTreeMap;
use std::fmt;

use super::value::Fault;

/// A text that settings are read from, and what to call it in messages.
pub(super) struct Source<'t> {
    pub(super) text: &'t str,
    pub(super) name: String,
    /// Whether messages point at a line and column; in a flag there is nothing to search.
    pub(super) has_lines: bool,
}

impl Source<'_> {
    pub(super) fn origin(&self, offset: usize) -> Origin {
        let position = self.has_lines.then(|| position(self.text, offset));
        Origin { source: self.name.clone(), position }
    }

    /// `ropewalk.toml:12:5: what is wrong`.
    pub(super) fn explain(&self, fault: &Fault) -> String {
        format!("{}: {}", self.origin(fault.span.start), fault.message)
    }
}

/// The place of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    source: String,
    /// Line and column, both from 1.
    position: Option<(usize, usize)>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// The places of all settings that are not defaults, by the key's full name. The keys of hosts
/// begin with `host.` and the number of the host, from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    pub(super) fn set(&mut self, key: &str, origin: Origin) {
        self.0.insert(key.into(), origin);
    }

    pub(super) fn get(&self, key: &str) -> Option<&Origin> {
        self.0.get(key)
    }

    /// Prefixes `message` with the place of `key`, if it has one.
    pub(super) fn explain(&self, key: &str, message: &str) -> String {
        match self.get(key) {
            Some(origin) => format!("{origin}: {message}"),
            None => message.into(),
        }
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
