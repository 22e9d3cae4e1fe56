//! A paper in the form of its file: machines and chains of machines, the numbers stated of them,
//! figures and findings. docs/simulator/simulate.md describes the form.
//!
//! This module neither holds the results of a run nor evaluates the tests of findings, which
//! `expression.rs` does.

use std::collections::BTreeMap;

use clap::ValueEnum;
use coherence::{Machine, protocol::protocol};
use command::renamed;
use serde::Deserialize;
use toml::{Table, Value};

use super::quantity::Quantity;
use crate::simulate_command::lists::{CacheSize, Numbers, Scheduler};
use crate::simulate_command::spec::Spec;
use crate::simulate_command::varied::shown;

/// The contents of a paper, and how they are compared with a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::simulate_command) struct Paper {
    /// The title of its page.
    pub(in crate::simulate_command) title: String,
    /// Sentences about the paper at the top of the page.
    #[serde(default)]
    pub(in crate::simulate_command) about: Vec<String>,
    /// Further sentences for machines that have a value, by `KEY=VALUE`.
    #[serde(default)]
    pub(in crate::simulate_command) about_if: BTreeMap<String, String>,
    pub(super) machines: Machines,
    #[serde(default)]
    pub(super) chains: BTreeMap<String, Chain>,
    /// Kinds of machines whose scalability the paper states, and the numbers of processors with
    /// which each is simulated.
    #[serde(default)]
    scalability: Vec<(String, String)>,
    /// The parts of columns, with their names.
    #[serde(default)]
    parts: BTreeMap<String, Vec<(String, Quantity)>>,
    #[serde(default)]
    pub(super) figures: Vec<Drawn>,
    #[serde(default)]
    pub(super) stated: Vec<Stated>,
    pub(super) table: Option<Rows>,
    /// Named sums, for use in findings.
    #[serde(default)]
    sums: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) findings: Vec<Claim>,
    /// Former names in the file, a line each.
    #[serde(skip)]
    pub(in crate::simulate_command) notices: Vec<String>,
}

/// The paper's machines by name.
#[derive(Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Table>")]
pub(super) struct Machines(pub(super) BTreeMap<String, Spec>);

/// Machines that differ in one value along a curve, for each combination of other values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chain {
    base: String,
    #[serde(default)]
    each: Vec<BTreeMap<String, Vec<Value>>>,
    along: BTreeMap<String, Vec<Value>>,
    /// Names of the values along a curve; empty in the file: as the values are written.
    #[serde(default)]
    pub(super) names: Vec<String>,
    /// Names of the combinations; empty in the file: as the combinations are written.
    #[serde(default)]
    pub(super) labels: Vec<String>,
    /// The machines of each combination.
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
    /// The text between the names of a column's combination and of its value.
    pub(super) joined: Option<String>,
    pub(super) x: String,
    pub(super) y: String,
}

/// A number stated in the paper's text, with its place.
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

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) machine: String,
    pub(super) gsp: f64,
    /// The part of the time for which the bus is busy, in percent.
    pub(super) bus: f64,
    pub(super) scales_to: u32,
    /// The GSP at that number of processors, estimated.
    pub(super) gsp_there: f64,
}

/// A sentence of the paper, and the tests that confirm it, which `expression.rs` evaluates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) claim: String,
    pub(super) place: String,
    /// The tests, all of which must hold.
    pub(super) confirmed_if: Vec<String>,
    /// The sentence with the numbers that decide.
    pub(super) told: String,
    /// A sum, and the sentence to use if it is 0, in which case nothing is decided.
    pub(super) none: Option<(String, String)>,
}

impl Claim {
    /// Whether the sentence says that its numbers rest on the kernel's references.
    pub(super) fn rests_on_kernel(&self) -> bool {
        self.told.contains("{kernel}")
    }
}

impl Paper {
    /// Parses a paper's file. Names that the file uses are looked up only when they are needed.
    ///
    /// # Errors
    /// One line: why the text is no TOML, or not of this form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut table = toml_reader::table(text)?;
        let notices = rename_tests(&mut table);
        let read = toml_reader::read_value(table);
        let paper: Self = read.map_err(|why| why.line_prefix(text, &[]) + &why.to_string())?;
        let mut paper = Self { notices, ..paper };
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

    /// The kinds of machines whose scalability is determined, each with its numbers of processors.
    pub(super) fn scalings(&self) -> Result<Vec<(Spec, Vec<u32>)>, String> {
        let one = |(name, cpus): &(String, String)| {
            let Numbers(cpus) = cpus.parse().map_err(|why| format!("scalability: {why}"))?;
            Ok((self.machine(name)?, cpus))
        };
        self.scalability.iter().map(one).collect()
    }

    /// The paper's value of a quantity for a machine: from its text, else from its table.
    pub(super) fn stated_value(&self, spec: &Spec, of: &Quantity) -> Option<f64> {
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

/// Gives the tests of findings their name of today, and returns a notice if they had another: it
/// was changed in 0.1, and the former one is read until 0.2.
fn rename_tests(paper: &mut Table) -> Vec<String> {
    let [before, now] = ["shown_if", "confirmed_if"];
    let findings = paper.get_mut("findings").and_then(Value::as_array_mut).into_iter().flatten();
    let mut is_present = false;
    for finding in findings.filter_map(Value::as_table_mut) {
        if let (Some(tests), None) = (finding.get(before).cloned(), finding.get(now)) {
            finding.remove(before);
            finding.insert(now.into(), tests);
            is_present = true;
        }
    }
    is_present.then(|| renamed(before, now)).into_iter().collect()
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

/// A machine with all values of its bases; without a base it is the reference machine.
fn resolved(
    tables: &BTreeMap<String, Table>,
    name: &str,
    bases_max: usize,
) -> Result<Spec, String> {
    let table = named(tables, "machine", name)?;
    let mut spec = match table.get("base").map(shown) {
        None => Spec::from_machine(&Machine::default()).map_err(|why| why.to_string())?,
        Some(base) if bases_max > 0 => resolved(tables, &base, bases_max - 1)?,
        Some(_) => return Err("its bases never end: one is its own".into()),
    };
    for (key, value) in table.iter().filter(|(key, _)| *key != "base") {
        spec = with(spec, key, value)?;
    }
    Ok(spec)
}

/// Sets a value of the machine.
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
        fill_in_names(&mut self.names, names, "names")?;
        fill_in_names(
            &mut self.labels,
            begun.into_iter().map(|(label, _)| label).collect(),
            "labels",
        )
    }

    /// The key whose values differ along a curve, with these values.
    fn direction(&self) -> Result<(&str, &[Value]), String> {
        let mut all = self.along.iter();
        match (all.next(), all.next()) {
            (Some((key, values)), None) if !values.is_empty() => Ok((key, values)),
            _ => Err("along: give one key with a list of values".into()),
        }
    }

    /// Whether the values are drawn at the positions of numbers; otherwise they are drawn at equal
    /// distances.
    pub(super) fn is_to_scale(&self) -> bool {
        self.along.contains_key("cpus")
    }
}

/// Fills in the default names where the file gives none, and checks the number of names otherwise.
fn fill_in_names(
    given: &mut Vec<String>,
    otherwise: Vec<String>,
    what: &str,
) -> Result<(), String> {
    if given.is_empty() {
        *given = otherwise;
    } else if given.len() != otherwise.len() {
        let (has, needed) = (given.len(), otherwise.len());
        return Err(format!("{what}: there are {has}; give {needed}, or none"));
    }
    Ok(())
}
