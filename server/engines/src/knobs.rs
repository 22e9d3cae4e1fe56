//! Knobs: the settings of an engine, each with its range, its default and its meaning.

use std::ops::RangeInclusive;

/// One setting of an engine.
#[derive(Debug, PartialEq, Eq)]
pub struct Knob {
    /// The name in a configuration and on the command line.
    pub name: &'static str,
    /// The effect of the knob, in one line.
    pub about: &'static str,
    /// The values that the knob may have.
    pub values: Values,
    /// The value where none is configured; for a knob that takes names, the index of the name.
    pub default: u64,
}

/// The type of a knob, and its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A number.
    Numbers {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of these names, which stand for the numbers from 0 on.
    Names(&'static [&'static str]),
}

impl Knob {
    /// A knob that takes a number.
    pub(crate) const fn number(
        name: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Self {
        let values = Values::Numbers { min: *range.start(), max: *range.end() };
        Self { name, about: "", values, default }
    }

    /// A knob that is 0 or 1.
    pub(crate) const fn switch(name: &'static str, default: u64) -> Self {
        Self::number(name, 0..=1, default)
    }

    /// A knob that takes one of these names, by default the first.
    pub(crate) const fn choice(name: &'static str, names: &'static [&'static str]) -> Self {
        Self { name, about: "", values: Values::Names(names), default: 0 }
    }

    /// Adds the description of the knob's effect, in one line.
    pub(crate) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// The names of the values from 0 on, for a knob that takes names; empty for a number.
    #[must_use]
    pub fn choices(&self) -> &'static [&'static str] {
        match self.values {
            Values::Numbers { .. } => &[],
            Values::Names(names) => names,
        }
    }

    /// A value in the notation of a configuration.
    #[must_use]
    pub fn show(&self, value: u64) -> String {
        let name = usize::try_from(value).ok().and_then(|index| self.choices().get(index));
        name.map_or_else(|| value.to_string(), ToString::to_string)
    }

    /// The values that may be configured, in words.
    #[must_use]
    pub fn range(&self) -> String {
        match self.values {
            Values::Numbers { min, max } => format!("{min} to {max}"),
            Values::Names([others @ .., last]) => format!("{} or {last}", others.join(", ")),
            Values::Names([]) => "nothing".into(),
        }
    }
}

/// A value for each knob of one engine.
#[derive(Clone, Debug)]
pub struct KnobValues(Vec<(&'static Knob, u64)>);

impl KnobValues {
    /// The knobs, each at its default.
    pub(crate) fn defaults(knobs: &'static [Knob]) -> Self {
        Self(knobs.iter().map(|knob| (knob, knob.default)).collect())
    }

    /// Sets a knob that takes numbers.
    ///
    /// # Errors
    /// One line: there is no such knob, it takes names, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let (knob, current) = self.find(name)?;
        match knob.values {
            Values::Names(_) => Err(format!("{name} = {value} is not {}", knob.range())),
            Values::Numbers { min, max } if !(min..=max).contains(&value) => {
                Err(format!("{name} = {value} is not a number from {min} to {max}"))
            }
            Values::Numbers { .. } => {
                *current = value;
                Ok(())
            }
        }
    }

    /// Sets a knob that takes names.
    ///
    /// # Errors
    /// One line: there is no such knob, it takes numbers, or it has no value of that name.
    pub fn choose(&mut self, name: &str, choice: &str) -> Result<(), String> {
        let (knob, current) = self.find(name)?;
        let found = knob.choices().iter().position(|one| *one == choice);
        let found = found.ok_or_else(|| format!("{name} = {choice:?} is not {}", knob.range()))?;
        *current = found as u64;
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<&mut (&'static Knob, u64), String> {
        let names: Vec<&str> = self.0.iter().map(|(knob, _)| knob.name).collect();
        let found = self.0.iter_mut().find(|(knob, _)| knob.name == name);
        found.ok_or_else(|| format!("no knob {name:?}: this engine has {}", names.join(", ")))
    }

    /// The value of a knob.
    ///
    /// # Panics
    /// If the engine has no such knob: an engine reads only the knobs of its own row.
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

    /// The value of a knob that counts workers, where 0 means one for each CPU.
    #[must_use]
    pub(crate) fn workers(&self, name: &str, cpus: usize) -> usize {
        match self.get_usize(name) {
            0 => cpus.max(1),
            workers => workers,
        }
    }

    /// All knobs and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Knob, u64)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: Knob = Knob::number("kind", 2..=9, 2);
    const NAMES: Knob = Knob::choice("kind", &["ring", "queue", "stack"]);

    /// The range of a knob is that of its own row, whatever another engine's knob of that name has.
    #[test]
    fn the_row_of_a_knob_has_its_type() {
        let mut number = KnobValues(vec![(&NUMBER, NUMBER.default)]);
        number.set("kind", 9).unwrap();
        assert_eq!(number.get("kind"), 9);
        assert_eq!(number.set("kind", 1).unwrap_err(), "kind = 1 is not a number from 2 to 9");
        assert_eq!(number.choose("kind", "ring").unwrap_err(), "kind = \"ring\" is not 2 to 9");
        let mut names = KnobValues(vec![(&NAMES, 1)]);
        assert_eq!(NAMES.show(names.get("kind")), "queue");
        names.choose("kind", "stack").unwrap();
        assert_eq!(names.get("kind"), 2);
        assert_eq!(names.set("kind", 1).unwrap_err(), "kind = 1 is not ring, queue or stack");
        let wrong = names.choose("kind", "threads").unwrap_err();
        assert_eq!(wrong, "kind = \"threads\" is not ring, queue or stack");
    }

    #[test]
    fn every_default_is_in_its_range() {
        for knob in crate::ENGINES.iter().flat_map(|spec| spec.knobs) {
            let is_in_range = match knob.values {
                Values::Numbers { min, max } => (min..=max).contains(&knob.default),
                Values::Names(names) => knob.default < names.len() as u64,
            };
            assert!(is_in_range, "{knob:?}");
        }
    }
}
