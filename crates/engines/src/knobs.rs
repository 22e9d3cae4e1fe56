//! Knobs: what can be set on an engine, with its range, its default and its meaning.

use crate::EngineSpec;

/// One thing that can be set.
#[derive(Debug, PartialEq, Eq)]
pub struct Knob {
    /// The name that is typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// The value if nobody says otherwise.
    pub default: u64,
}

/// A value for each knob of one engine.
#[derive(Clone, Debug)]
pub struct KnobValues(Vec<(&'static Knob, u64)>);

impl KnobValues {
    /// The defaults of an engine.
    #[must_use]
    pub fn defaults(spec: &EngineSpec) -> Self {
        Self(spec.knobs.iter().map(|knob| (knob, knob.default)).collect())
    }

    /// Sets a knob.
    ///
    /// # Errors
    /// One line: there is no such knob, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let Some((knob, current)) = self.0.iter_mut().find(|(knob, _)| knob.name == name) else {
            let names: Vec<&str> = self.0.iter().map(|(knob, _)| knob.name).collect();
            return Err(format!("no knob {name:?}: this engine has {}", names.join(", ")));
        };
        if !(knob.min..=knob.max).contains(&value) {
            return Err(format!("{name} = {value} is not in {}..={}", knob.min, knob.max));
        }
        *current = value;
        Ok(())
    }

    /// The value of a knob.
    ///
    /// # Panics
    /// If the engine has no such knob: an engine asks only for those of its own row.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(knob, _)| knob.name == name);
        found.map(|(_, value)| *value).expect("the knob is in the engine's row")
    }

    /// The value of a knob that counts things in memory.
    #[must_use]
    pub fn get_usize(&self, name: &str) -> usize {
        usize::try_from(self.get(name)).unwrap_or(usize::MAX)
    }

    /// All knobs and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Knob, u64)> + '_ {
        self.0.iter().copied()
    }
}
