//! A key of the configuration: its name, the form of its value, and the setting it belongs to.
//!
//! One list of keys (in `schema.rs`) drives reading, `--set`, `ropewalk check` and the test of the
//! documentation, so a key cannot exist in one of them only.

use std::ops::RangeInclusive;

use command::near::did_you_mean;
use toml::de::DeTable;

use super::error::ConfigFault;
use super::schema::HOST_KEYS;
use super::value::{Fault, Unit, Value, show_number};

/// A key whose value is kept in a `T`.
pub(super) struct Key<T> {
    /// The name with its sections: `cache.policy`.
    pub(super) name: &'static str,
    pub(super) field: Field<T>,
}

/// How a value is read and printed. Numbers and switches give the place of the setting once; other
/// forms have a reader and a printer.
pub(super) enum Field<T> {
    Number {
        unit: Unit,
        range: RangeInclusive<u64>,
        place: fn(&mut T) -> &mut u64,
    },
    /// A number, or this word.
    NumberOr {
        word: &'static str,
        unit: Unit,
        range: RangeInclusive<u64>,
        place: fn(&mut T) -> &mut Option<u64>,
    },
    Switch(fn(&mut T) -> &mut bool),
    Text(fn(&mut T) -> &mut String),
    Other {
        read: fn(&mut T, &Value<'_>) -> Result<(), Fault>,
        show: fn(&T) -> String,
    },
}

impl<T: Clone> Key<T> {
    /// The name without its sections.
    pub(super) fn last_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Reads `value` into its setting in `target`.
    pub(super) fn read(&self, target: &mut T, value: &Value<'_>) -> Result<(), Fault> {
        let outcome = match &self.field {
            Field::Number { unit, range, place } => {
                value.number(*unit, range).map(|number| *place(target) = number)
            }
            Field::NumberOr { word, unit, range, place } => {
                value.number_or(word, *unit, range).map(|number| *place(target) = number)
            }
            Field::Switch(place) => value.switch().map(|on| *place(target) = on),
            Field::Text(place) => value.text().map(|text| *place(target) = text.into()),
            Field::Other { read, .. } => read(target, value),
        };
        outcome.map_err(|fault| self.named(fault))
    }

    /// The value as it would be written in a file.
    pub(super) fn show(&self, target: &T) -> String {
        let mut copy = target.clone();
        match &self.field {
            Field::Number { unit, place, .. } => show_number(*unit, *place(&mut copy)),
            Field::NumberOr { word, unit, place, .. } => place(&mut copy)
                .map_or_else(|| format!("{word:?}"), |number| show_number(*unit, number)),
            Field::Switch(place) => place(&mut copy).to_string(),
            Field::Text(place) => quote(place(&mut copy)),
            Field::Other { show, .. } => show(target),
        }
    }

    /// Adds this key to the fault of a wrong value, unless the fault has a key already: the
    /// innermost key counts.
    fn named(&self, mut fault: Fault) -> Fault {
        if let ConfigFault::Value { key, .. } = &mut fault.fault
            && key.is_empty()
        {
            *key = self.name.into();
        }
        fault
    }
}

/// Reads a table key by key; `seen` is called with each key that was read. The first fault in the
/// order of the text is returned, because it is often the cause of the others.
pub(super) fn read_table<T: Clone>(
    table: &DeTable<'_>,
    section: &str,
    keys: &[Key<T>],
    target: &mut T,
    seen: &mut dyn FnMut(&str, &Value<'_>),
) -> Result<(), Fault> {
    let mut first: Option<Fault> = None;
    for (name, value) in table {
        let value = Value::new(value);
        let full = join(section, name.get_ref());
        let outcome = if let Some(key) = keys.iter().find(|key| key.name == full) {
            seen(&full, &value);
            key.read(target, &value)
        } else if keys.iter().any(|key| is_below(key.name, &full)) {
            read_section(&value, &full, keys, target, seen)
        } else {
            let hint = hint(section, name.get_ref(), &value, keys);
            let fault = ConfigFault::UnknownKey { key: name.get_ref().to_string(), hint };
            Err(Fault { span: name.span(), fault })
        };
        let earlier =
            |fault: &Fault| first.as_ref().is_none_or(|f| fault.span.start < f.span.start);
        if let Some(fault) = outcome.err().filter(earlier) {
            first = Some(fault);
        }
    }
    first.map_or(Ok(()), Err)
}

/// Reads a list of tables that are written as `[[section]]`, each of which must have the keys named
/// in `required`.
pub(super) fn read_rows<T: Clone>(
    value: &Value<'_>,
    section: &str,
    keys: &[Key<T>],
    required: &[&'static str],
    new: fn() -> T,
) -> Result<Vec<T>, Fault> {
    let hint = || format!(": write [[{section}]] with {}", listed(required));
    if !value.is_list() {
        return Err(value.must_be_with_hint("a list", hint()));
    }
    value.list(|row| {
        let table = row.table();
        let table = table.ok_or_else(|| row.must_be_with_hint("a list of tables", hint()))?;
        let missing = required.iter().find(|name| !table.contains_key(**name));
        if let Some(name) = missing {
            return Err(row.fault(ConfigFault::Missing(name)));
        }
        let mut target = new();
        read_table(table, "", keys, &mut target, &mut |_, _| ())?;
        Ok(target)
    })
}

/// A table on one line, as an item of a list of tables.
pub(super) fn show_row<T: Clone>(keys: &[Key<T>], row: &T) -> String {
    let parts = keys.iter().map(|key| format!("{} = {}", key.name, key.show(row)));
    format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
}

/// A list as it is written in TOML.
pub(super) fn show_list<I: IntoIterator<Item = String>>(items: I) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// A TOML basic string (TOML 1.0, "String").
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn read_section<T: Clone>(
    value: &Value<'_>,
    section: &str,
    keys: &[Key<T>],
    target: &mut T,
    seen: &mut dyn FnMut(&str, &Value<'_>),
) -> Result<(), Fault> {
    match value.table() {
        Some(table) => read_table(table, section, keys, target, seen),
        None => Err(value.fault(ConfigFault::Section(section.into()))),
    }
}

/// Keys that were renamed and have other values now: old name, new name, and a hint.
const RENAMED: &[(&str, &str, &str)] = &[(
    "socket",
    "steering",
    ": \"cpu\" is socket.listeners = \"reuseport-cpu\" now, \"none\" the default",
)];

/// What to write in place of a key of other servers, or of a key that belongs elsewhere.
fn foreign(name: &str, value: &Value<'_>) -> Option<String> {
    let hint = match name {
        "port" => {
            let port = value.bare().unwrap_or_else(|| "8080".into());
            format!(": write listen = [{port:?}] at the top")
        }
        "tls" | "ssl" | "https" => ": there is no TLS here, put a proxy in front".into(),
        "server" => ": put `listen` at the top, and `root` under [[host]]".into(),
        _ if HOST_KEYS.iter().any(|key| key.name == name) => ": it belongs under [[host]]".into(),
        _ => return None,
    };
    Some(hint)
}

/// The key that this one was renamed to; else what to write in place of a key of other servers;
/// else the nearest name in this section; failing that, the same name in another section, or all
/// names.
fn hint<T: Clone>(section: &str, name: &str, value: &Value<'_>, keys: &[Key<T>]) -> String {
    let renamed = RENAMED.iter().find(|(old, key, _)| (*old, *key) == (section, name));
    if let Some((_, _, now)) = renamed {
        return (*now).into();
    }
    if let Some(hint) = foreign(name, value).filter(|_| section.is_empty()) {
        return hint;
    }
    let prefix = join(section, "");
    let here = keys.iter().filter_map(|key| key.name.strip_prefix(&prefix));
    let here: Vec<&str> = here.map(|rest| rest.split('.').next().unwrap_or(rest)).collect();
    let near = did_you_mean(name, here.iter().copied());
    if !near.is_empty() {
        return near;
    }
    match keys.iter().find(|key| key.last_name() == name) {
        Some(key) => format!(" (did you mean {:?}?)", key.name),
        None if section.is_empty() => String::new(),
        None => format!(": [{section}] has {}", here.join(", ")),
    }
}

/// Words in a sentence: `path, name and value`.
fn listed(words: &[&str]) -> String {
    match words {
        [some @ .., last] if !some.is_empty() => format!("{} and {last}", some.join(", ")),
        _ => words.concat(),
    }
}

pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.into() } else { format!("{section}.{name}") }
}

fn is_below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}
