//! Single values of a machine, as they are typed: `kernel.code_skew=1.6` is what a machine file
//! would say. What there is to set is the business of `coherence`.

use std::str::FromStr;

use coherence::Machine;
use toml::{Table, Value};

/// A key, its tables before it, and a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    typed: String,
    keys: Vec<String>,
    value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: write KEY=VALUE, as in kernel.code_skew=1.6");
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let keys: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        let value = value.trim();
        if keys.iter().any(String::is_empty) || value.is_empty() {
            return Err(wrong());
        }
        // What is no number and no truth value is a name, with quotes or without.
        let parsed = Value::from_str(value).ok();
        let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
        Ok(Self { typed: text.to_owned(), keys, value })
    }
}

impl Setting {
    /// The machine with that value, or one line that says why it cannot have it.
    pub(super) fn apply(&self, machine: &Machine) -> Result<Machine, String> {
        let why = |what: &str| format!("--set {}: {what}", self.typed);
        let text = machine.to_toml();
        let mut whole = text.parse::<Table>().expect("a machine's own file is TOML");
        let (last, tables) = self.keys.split_last().expect("a text has a first part");
        let mut table = &mut whole;
        for key in tables {
            let inner = table.get_mut(key).and_then(Value::as_table_mut);
            table = inner.ok_or_else(|| why("a machine has no such table"))?;
        }
        let Some(place) = table.get_mut(last).filter(|value| !value.is_table()) else {
            return Err(why("a machine has no such value; see --print-machine"));
        };
        *place = match (&*place, &self.value) {
            // Whole numbers may be typed for any number.
            (Value::Float(_), Value::Integer(whole)) => Value::Float(*whole as f64),
            _ => self.value.clone(),
        };
        let text = toml::to_string(&whole).expect("a changed value is still TOML");
        // The line belongs to no file that anybody has.
        Machine::from_toml(&text).map_err(|line| match line.split_once(": ") {
            Some((number, what)) if number.starts_with("line ") => why(what),
            _ => why(&line),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn set(text: &str) -> Result<Machine, String> {
        text.parse::<Setting>()?.apply(&Machine::default())
    }

    #[test]
    fn each_kind_of_value_can_be_set() {
        let machine = set("kernel.code_skew=2").expect("a whole number for a number");
        assert_eq!(machine.kernel.code_skew.to_bits(), 2f64.to_bits());
        assert_eq!(set("cpus=3").map(|one| one.cpus), Ok(3));
        assert_eq!(set("kernel.enabled=false").map(|one| one.kernel.enabled), Ok(false));
        let split = set("bus.memory_latency = split").expect("a name without quotes");
        assert_eq!(split.bus.memory_latency, coherence::MemoryLatency::Split);
        assert_eq!(set("bus.memory_latency=\"split\""), Ok(split));
    }

    #[test]
    fn mistakes_are_one_line_that_has_what_was_typed() {
        for wrong in ["", "code_skew", "=1", "kernel.=1", "kernel.code_skew="] {
            assert!(set(wrong).is_err_and(|why| why.contains("write KEY=VALUE")), "{wrong}");
        }
        for (wrong, what) in [
            ("kernel.skw=1", "no such value"),
            ("kernels.skew=1", "no such table"),
            ("kernel=1", "no such value"),
            ("kernel.code_skew=9", "give 0 to 4"),
            ("kernel.code_skew=high", "invalid type"),
            ("scheduler.policy=fair", "unknown variant"),
        ] {
            let why = set(wrong).expect_err(wrong);
            assert!(why.starts_with(&format!("--set {wrong}: ")), "{why}");
            assert!(why.contains(what) && !why.contains('\n'), "{why}");
        }
    }
}
