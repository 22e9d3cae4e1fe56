//! A paper as its file has it: machines and chains of them, what is stated of them, figures and
//! findings. docs/simulator.md describes the form.
//!
//! What comes of a run is not here, and neither is what a finding's tests mean: see
//! `expression.rs`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use coherence::{Machine, protocol::protocol};
use serde::Deserialize;
use toml::{Table, Value};

use super::quantity::Quantity;
use crate::simulate_command::lists::{CacheSize, Numbers, Scheduler};
use crate::simulate_command::spec::Spec;
use crate::simulate_command::varied::shown;

/// What a paper says, and how it is put beside a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::simulate_command) struct Paper {
    /// What its page is called.
    pub(in crate::simulate_command) title: String,
    /// Said of it at the top of the page.
    #[serde(default)]
    pub(in crate::simulate_command) about: Vec<String>,
    /// Said as well where the machines have a value: by `KEY=VALUE`.
    #[serde(default)]
    pub(in crate::simulate_command) about_if: BTreeMap<String, String>,
    pub(super) machines: Machines,
    #[serde(default)]
    pub(super) chains: BTreeMap<String, Chain>,
    /// Kinds of machines whose scalability the paper tells, and with how many processors each is
    /// simulated.
    #[serde(default)]
    scalability: Vec<(String, String)>,
    /// Columns' parts, with their names.
    #[serde(default)]
    parts: BTreeMap<String, Vec<(String, Quantity)>>,
    #[serde(default)]
    pub(super) figures: Vec<Drawn>,
    #[serde(default)]
    pub(super) stated: Vec<Stated>,
    pub(super) table: Option<Rows>,
    /// Sums with names, for findings.
    #[serde(default)]
    sums: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) findings: Vec<Claim>,
}

/// Named machines.
#[derive(Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Table>")]
pub(super) struct Machines(pub(super) BTreeMap<String, Spec>);

/// Machines that differ in one value along a curve, for each combination of others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chain {
    base: String,
    #[serde(default)]
    each: Vec<BTreeMap<String, Vec<Value>>>,
    along: BTreeMap<String, Vec<Value>>,
    /// Of the values along a curve; as they are written where nothing is given.
    #[serde(default)]
    pub(super) names: Vec<String>,
    /// Of the combinations; as they are written where nothing is given.
    #[serde(default)]
    pub(super) labels: Vec<String>,
    /// By combination.
    #[serde(skip)]
    pub(super) specs: Vec<Vec<Spec>>,
}

/// A figure: curves of a quantity or columns of parts over a chain, or curves of scalability.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drawn {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) chain: Option<String>,
    pub(super) of: Option<Quantity>,
    pub(super) parts: Option<String>,
    /// Between the names of a column's combination and of its value.
    pub(super) joined: Option<String>,
    pub(super) x: String,
    pub(super) y: String,
}

/// A number of the text, with the place where it stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stated {
    pub(super) place: String,
    pub(super) machine: String,
    pub(super) what: Quantity,
    pub(super) value: f64,
}

/// A table of the paper: power, bus and scalability of machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

/// A row of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) machine: String,
    pub(super) gsp: f64,
    /// Percent of the time for which the bus is busy.
    pub(super) bus: f64,
    pub(super) scales_to: u32,
    /// Estimated.
    pub(super) gsp_there: f64,
}

/// A sentence of the paper's, and what shows it; see `expression.rs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) claim: String,
    pub(super) place: String,
    /// All of these tests hold.
    pub(super) shown_if: Vec<String>,
    /// The numbers that decide.
    pub(super) told: String,
    /// A sum, and what is told, and shows nothing, where it is 0.
    pub(super) none: Option<(String, String)>,
}

impl Paper {
    /// Whether what is named is there is found out where it is used.
    ///
    /// # Errors
    /// One line: the text is no TOML, or not of this form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut paper: Self = toml::from_str(text).map_err(|why| one_line(text, &why))?;
        for (name, chain) in &mut paper.chains {
            let base = named(&paper.machines.0, "machine", &chain.base);
            let resolved = base.and_then(|base| chain.resolve(*base));
            resolved.map_err(|why| format!("chain {name:?}: {why}"))?;
        }
        Ok(paper)
    }

    pub(super) fn machine(&self, name: &str) -> Result<Spec, String> {
        named(&self.machines.0, "machine", name).copied()
    }

    pub(super) fn chain(&self, name: &str) -> Result<&Chain, String> {
        named(&self.chains, "chain", name)
    }

    pub(super) fn parts(&self, name: &str) -> Result<&[(String, Quantity)], String> {
        named(&self.parts, "parts", name).map(Vec::as_slice)
    }

    pub(super) fn sum(&self, name: &str) -> Result<&str, String> {
        named(&self.sums, "sum", name).map(String::as_str)
    }

    /// The kinds of machines whose scalability is looked for, each with its numbers of processors.
    pub(super) fn scalings(&self) -> Result<Vec<(Spec, Vec<u32>)>, String> {
        let one = |(name, cpus): &(String, String)| {
            let Numbers(cpus) = cpus.parse().map_err(|why| format!("scalability: {why}"))?;
            Ok((self.machine(name)?, cpus))
        };
        self.scalability.iter().map(one).collect()
    }

    /// What the paper says of a machine: in its text, else in its table.
    pub(super) fn says(&self, spec: &Spec, of: &Quantity) -> Option<f64> {
        let is = |name: &str| self.machines.0.get(name) == Some(spec);
        let told = |one: &&Stated| is(&one.machine) && one.what.text == of.text;
        let row = || self.table.iter().flat_map(|table| &table.rows).find(|row| is(&row.machine));
        let of_row = || match &*of.text {
            "gsp" => row().map(|row| row.gsp),
            "bus" => row().map(|row| row.bus),
            _ => None,
        };
        self.stated.iter().find(told).map(|one| one.value).or_else(of_row)
    }
}

fn named<'a, T>(all: &'a BTreeMap<String, T>, kind: &str, name: &str) -> Result<&'a T, String> {
    all.get(name).ok_or_else(|| match all.keys().map(String::as_str).collect::<Vec<_>>() {
        known if known.is_empty() => format!("no {kind} {name:?}; there is none"),
        known => format!("no {kind} {name:?}; there is {}", known.join(", ")),
    })
}

/// What a reader of TOML has to say, without the picture it draws.
fn one_line(text: &str, why: &toml::de::Error) -> String {
    let what = why.message().lines().collect::<Vec<_>>().join(", ");
    match why.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {what}", before.matches('\n').count() + 1),
        None => what,
    }
}

impl TryFrom<BTreeMap<String, Table>> for Machines {
    type Error = String;

    fn try_from(tables: BTreeMap<String, Table>) -> Result<Self, String> {
        let one = |name: &String| {
            let spec = resolved(&tables, name, tables.len());
            Ok((name.clone(), spec.map_err(|why| format!("machine {name:?}: {why}"))?))
        };
        tables.keys().map(one).collect::<Result<_, String>>().map(Self)
    }
}

/// A machine with all that its bases say; without a base it is the reference machine.
fn resolved(
    tables: &BTreeMap<String, Table>,
    name: &str,
    bases_max: usize,
) -> Result<Spec, String> {
    let table = named(tables, "machine", name)?;
    let mut spec = match table.get("base").map(shown) {
        None => Spec::of(&Machine::default()).map_err(|why| why.to_string())?,
        Some(base) if bases_max > 0 => resolved(tables, &base, bases_max - 1)?,
        Some(_) => return Err("its bases never end: one is its own".into()),
    };
    for (key, value) in table.iter().filter(|(key, _)| *key != "base") {
        spec = with(spec, key, value)?;
    }
    Ok(spec)
}

/// The machine with another value.
fn with(mut spec: Spec, key: &str, value: &Value) -> Result<Spec, String> {
    let text = shown(value);
    let wrong = |why: &dyn std::fmt::Display| format!("{key} = {value}: {why}");
    match key {
        "cpus" => spec.cpus = text.parse().map_err(|why| wrong(&why))?,
        "ways" => spec.ways = text.parse().map_err(|why| wrong(&why))?,
        "block" => spec.block_bytes = text.parse().map_err(|why| wrong(&why))?,
        "cache" => {
            let cache: CacheSize = text.parse().map_err(|why: String| wrong(&why))?;
            spec.size_kib = cache.size_kib;
            spec.ways = cache.ways.unwrap_or(spec.ways);
        }
        "scheduler" => {
            spec.scheduler = Scheduler::from_str(&text, true).map_err(|why| wrong(&why))?;
        }
        "protocol" => {
            let known = protocol(&text.to_ascii_lowercase());
            spec.protocol = known.ok_or_else(|| wrong(&"no such protocol"))?.name;
        }
        _ => return Err(wrong(&"give base, cpus, cache, ways, block, scheduler or protocol")),
    }
    Ok(spec)
}

impl Chain {
    fn resolve(&mut self, base: Spec) -> Result<(), String> {
        let mut begun = vec![(String::new(), base)];
        for (key, values) in self.each.iter().flatten() {
            let mut further = Vec::new();
            for (label, spec) in &begun {
                for value in values {
                    let comma = if label.is_empty() { "" } else { ", " };
                    let label = format!("{label}{comma}{}", shown(value));
                    further.push((label, with(*spec, key, value)?));
                }
            }
            begun = further;
        }
        let (key, values) = self.direction()?;
        let along = |spec: Spec| values.iter().map(|value| with(spec, key, value)).collect();
        let specs = begun.iter().map(|(_, spec)| along(*spec)).collect::<Result<_, String>>()?;
        let names = values.iter().map(shown).collect();
        self.specs = specs;
        given_or(&mut self.names, names, "names")?;
        given_or(&mut self.labels, begun.into_iter().map(|(label, _)| label).collect(), "labels")
    }

    /// The value in which a curve's machines differ.
    fn direction(&self) -> Result<(&str, &[Value]), String> {
        let mut all = self.along.iter();
        match (all.next(), all.next()) {
            (Some((key, values)), None) if !values.is_empty() => Ok((key, values)),
            _ => Err("along: give one key with a list of values".into()),
        }
    }

    /// The values have the places of numbers; otherwise they stand at equal distances.
    pub(super) fn is_to_scale(&self) -> bool {
        self.along.contains_key("cpus")
    }
}

/// Names that were given, one for each of those that stand for themselves otherwise.
fn given_or(given: &mut Vec<String>, otherwise: Vec<String>, what: &str) -> Result<(), String> {
    if given.is_empty() {
        *given = otherwise;
    } else if given.len() != otherwise.len() {
        let (has, needed) = (given.len(), otherwise.len());
        return Err(format!("{what}: there are {has}; give {needed}, or none"));
    }
    Ok(())
}
