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

/// What the values of a knob from 0 on are called, where they have names: the knob's name first.
const CHOICES: &[(&str, &[&str])] = &[
    ("events", &["epoll", "epoll-level", "poll", "select"]),
    ("kind", &["threads", "processes"]),
    ("descriptors", &["private", "shared"]),
];

impl Knob {
    /// What the values from 0 on are called; only these names are typed then. Empty for a number.
    #[must_use]
    pub fn choices(&self) -> &'static [&'static str] {
        let found = CHOICES.iter().find(|(name, _)| *name == self.name);
        found.map_or(&[], |(_, choices)| choices)
    }

    /// A value as it is typed.
    #[must_use]
    pub fn show(&self, value: u64) -> String {
        let name = usize::try_from(value).ok().and_then(|index| self.choices().get(index));
        name.map_or_else(|| value.to_string(), ToString::to_string)
    }

    /// What may be typed, in words.
    #[must_use]
    pub fn range(&self) -> String {
        match self.choices().split_last() {
            None => format!("{} to {}", self.min, self.max),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
        }
    }
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

    /// Sets a knob that takes numbers.
    ///
    /// # Errors
    /// One line: there is no such knob, it takes names, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let (knob, current) = self.find(name)?;
        if !knob.choices().is_empty() {
            return Err(format!("{name} = {value} is not {}", knob.range()));
        }
        if !(knob.min..=knob.max).contains(&value) {
            return Err(format!("{name} = {value} is not in {}..={}", knob.min, knob.max));
        }
        *current = value;
        Ok(())
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

    /// The value of a knob that counts workers, of which 0 means one for each CPU.
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
