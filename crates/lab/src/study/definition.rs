//! An experiment as its file says it: servers, workloads, domains, how much is offered, how often.
//!
//! Nothing is read or run here. The format is documented in `docs/study.md`.

use super::sizes::sized;
use crate::domain::Domain;
use crate::server_spec::ServerSpec;
use crate::toml_error;
use crate::workload::WorkloadSpec;
use load::find_limit::Conditions;
use load::units::parse_duration;
use serde::Deserialize;

/// Points of a range are apart by equal factors; so many are enough for any figure.
const STEPS_MAX: u32 = 100;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Short: its file's name without `.toml`.
    pub name: String,
    /// For people.
    pub title: String,
    /// The paper and its figure or table.
    pub source: String,
    /// What is to be learned.
    pub question: String,
    /// What the source found.
    pub expected: String,
    /// Who takes part.
    pub servers: Vec<ServerSpec>,
    /// The bottom line, if it takes part: a server that does the least that any can.
    pub floor: Option<String>,
    /// What is asked for.
    pub workloads: Vec<WorkloadSpec>,
    /// Where servers run.
    pub domains: Vec<Domain>,
    /// How much is asked.
    pub offered: OfferedPlan,
    /// How often each point is measured.
    pub repetitions: u32,
    /// Seconds of a window.
    pub window_s: f64,
    /// Under which conditions a rate counts as borne.
    pub conditions: Conditions,
    /// Replies within so many microseconds are goodput.
    pub latency_target_us: Option<u64>,
    /// Whether every byte of every reply is looked at.
    pub verify_bytes: bool,
    /// Whether the servers' system calls are counted, which costs each of them a little.
    pub system_calls: bool,
    /// How late a generator may be before a run is void, as one types it; none: as `ropewalk load`
    /// has it.
    pub lag_bound: Option<String>,
    /// Seconds that the study may take.
    pub budget_s: Option<f64>,
    /// Of intervals.
    pub confidence: f64,
    /// Seeds order and arrivals.
    pub seed: u64,
    /// The text that was read, with the size's changes in place.
    pub text: String,
}

/// How much is asked of servers.
#[derive(Clone, Debug, PartialEq)]
pub enum OfferedPlan {
    /// Requests a second, each of them.
    Rates(Vec<f64>),
    /// So many clients that wait for their replies, each of them.
    Connections(Vec<u64>),
    /// As much as each server bears under the conditions: the maximum achievable throughput.
    Mat,
    /// The rates at which servers use so much of their processors, 0 to 1, each of them.
    Utilisations(Vec<f64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    expected: String,
    servers: Vec<String>,
    floor: Option<String>,
    workloads: Vec<WrittenWorkload>,
    #[serde(default)]
    domains: Vec<Domain>,
    offered: WrittenOffered,
    repetitions: u32,
    window: String,
    #[serde(default)]
    conditions: Option<String>,
    latency_target: Option<String>,
    #[serde(default)]
    verify_bytes: bool,
    #[serde(default)]
    system_calls: bool,
    lag_bound: Option<String>,
    budget: Option<String>,
    confidence: Option<f64>,
    seed: Option<u64>,
}

/// A preset's name, or the whole of it.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenWorkload {
    Preset(String),
    Spec(Box<WorkloadSpec>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOffered {
    rates: Option<Vec<f64>>,
    from: Option<f64>,
    to: Option<f64>,
    steps: Option<u32>,
    connections: Option<Vec<u64>>,
    mat: Option<bool>,
    utilisations: Option<Vec<f64>>,
}

impl Definition {
    /// Reads the text of an experiment.
    ///
    /// # Errors
    /// What is wrong, in a line.
    pub fn parse(name: &str, text: &str, size: Option<&str>) -> Result<Self, String> {
        let table = sized(text, size)?;
        let sized = toml::to_string(&table).map_err(|why| why.to_string())?;
        let written: Written = table.try_into().map_err(|why| toml_error::message(&why))?;
        let mut definition = Self::of(written)?;
        name.clone_into(&mut definition.name);
        definition.text = sized;
        definition.check()?;
        Ok(definition)
    }

    /// Searches the most that each server bears, in place of what the file offers.
    pub fn search_limits(&mut self) {
        self.offered = OfferedPlan::Mat;
        let mat = toml::Table::from_iter([("mat".to_owned(), toml::Value::Boolean(true))]);
        self.note("offered", toml::Value::Table(mat));
    }

    /// Takes runs for void whose generator is later than this, in place of what the file says.
    pub fn bound_lag(&mut self, bound: &str) {
        self.lag_bound = Some(bound.to_owned());
        self.note("lag_bound", bound.into());
    }

    /// What is measured stands in the text, however it was said: whoever goes on with a study must
    /// say the same.
    fn note(&mut self, key: &str, value: toml::Value) {
        let mut table: toml::Table = self.text.parse().expect("`parse` wrote it");
        table.insert(key.to_owned(), value);
        self.text = toml::to_string(&table).expect("it was a table before");
    }

    /// What it is called in messages, what it asks and where it is from.
    fn of(written: Written) -> Result<Self, String> {
        let seconds = |what: &str, typed: &str| {
            parse_duration(typed).map(|us| us as f64 / 1e6).map_err(|why| format!("{what}: {why}"))
        };
        let target = written.latency_target.as_deref();
        let target = target.map(|typed| seconds("latency_target", typed)).transpose()?;
        let budget = written.budget.as_deref().map(|typed| seconds("budget", typed)).transpose()?;
        written.lag_bound.as_deref().map(|typed| seconds("lag_bound", typed)).transpose()?;
        let workloads = written.workloads.into_iter().map(|workload| match workload {
            WrittenWorkload::Spec(spec) => Ok(*spec),
            WrittenWorkload::Preset(name) => {
                WorkloadSpec::preset(&name).ok_or(format!("no workload is called {name}"))
            }
        });
        Ok(Self {
            name: String::new(),
            title: written.title,
            source: written.source,
            question: written.question,
            expected: written.expected,
            servers: written.servers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
            floor: written.floor,
            workloads: workloads.collect::<Result<_, _>>()?,
            domains: written.domains,
            offered: written.offered.plan()?,
            repetitions: written.repetitions,
            window_s: seconds("window", &written.window)?,
            conditions: written
                .conditions
                .map_or_else(|| Ok(Conditions::default()), |typed| typed.parse())
                .map_err(|why| format!("conditions: {why}"))?,
            latency_target_us: target.map(|seconds| (seconds * 1e6) as u64),
            verify_bytes: written.verify_bytes,
            system_calls: written.system_calls,
            lag_bound: written.lag_bound,
            budget_s: budget,
            confidence: written.confidence.unwrap_or(0.95),
            seed: written.seed.unwrap_or(1),
            text: String::new(),
        })
    }

    fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(what.to_owned());
        match self {
            one if one.title.is_empty() => return wrong("title: say what it is"),
            one if one.servers.is_empty() => return wrong("servers: name at least one"),
            one if one.workloads.is_empty() => return wrong("workloads: name at least one"),
            one if one.repetitions == 0 => return wrong("repetitions: at least 1"),
            one if !(0.05..=3600.0).contains(&one.window_s) => {
                return wrong("window: 50 milliseconds to an hour");
            }
            one if !(0.5..1.0).contains(&one.confidence) => {
                return wrong("confidence: from 0.5, and below 1");
            }
            _ => {}
        }
        self.workloads.iter().try_for_each(WorkloadSpec::check)?;
        for domain in &self.domains {
            domain.check().map_err(|why| format!("domain {}: {why}", domain.name))?;
        }
        unique("workload", self.workloads.iter().map(|workload| workload.name.as_str()))?;
        unique("domain", self.domains.iter().map(|domain| domain.name.as_str()))?;
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        unique("server", servers.iter().map(String::as_str))
    }
}

impl WrittenOffered {
    fn plan(self) -> Result<OfferedPlan, String> {
        let one = "offered: say one of rates, from / to / steps, connections, mat, utilisations";
        let range = (self.from, self.to, self.steps);
        match (self.rates, range, self.connections, self.mat, self.utilisations) {
            (Some(rates), (None, None, None), None, None, None) => {
                positive("rates", &rates)?;
                Ok(OfferedPlan::Rates(rates))
            }
            (None, (Some(from), Some(to), Some(steps)), None, None, None) => {
                positive("from", &[from])?;
                if to <= from || !(2..=STEPS_MAX).contains(&steps) {
                    return Err(format!("offered: from < to, in 2 to {STEPS_MAX} steps"));
                }
                let factor = (to / from).powf(1.0 / f64::from(steps - 1));
                let rates = (0..steps).map(|step| (from * factor.powi(step as i32)).round());
                Ok(OfferedPlan::Rates(rates.collect()))
            }
            (None, (None, None, None), Some(connections), None, None) => {
                let rates: Vec<f64> = connections.iter().map(|&count| count as f64).collect();
                positive("connections", &rates)?;
                Ok(OfferedPlan::Connections(connections))
            }
            (None, (None, None, None), None, Some(true), None) => Ok(OfferedPlan::Mat),
            (None, (None, None, None), None, None, Some(shares)) => {
                positive("utilisations", &shares)?;
                if shares.iter().any(|&share| share > 0.95) {
                    return Err("offered: utilisations up to 0.95; above is no rest".into());
                }
                Ok(OfferedPlan::Utilisations(shares))
            }
            _ => Err(one.into()),
        }
    }
}

fn positive(what: &str, values: &[f64]) -> Result<(), String> {
    match values.iter().find(|&&value| !(value > 0.0 && value.is_finite())) {
        Some(value) => Err(format!("offered: {what}: {value} is not above 0")),
        None if values.is_empty() => Err(format!("offered: {what}: it is empty")),
        None => Ok(()),
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(format!("there are two {what}s called {name:?}"));
        }
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
title = "t"
servers = ["nginx", "floor"]
repetitions = 3
window = "500ms"
conditions = "p99=50ms"
[offered]
from = 1000
to = 8000
steps = 4
[[workloads]]
name = "w"
root = "/r"
log_file = "/l"
[[domains]]
name = "one"
cpus = 1
[sizes.paper]
repetitions = 10
workloads = ["zipf"]
[sizes.paper.offered]
connections = [64, 1000]
"#;

    fn parse(text: &str, size: Option<&str>) -> Result<Definition, String> {
        Definition::parse("x", text, size)
    }

    #[test]
    fn a_range_is_divided_by_equal_factors() {
        let definition = parse(TEXT, None).expect("it is right");
        let rates = vec![1000.0, 2000.0, 4000.0, 8000.0];
        assert_eq!(definition.offered, OfferedPlan::Rates(rates));
        assert_eq!((definition.window_s, definition.repetitions), (0.5, 3));
        assert_eq!(definition.domains[0].cpus, Some(1));
    }

    #[test]
    fn a_size_replaces_what_it_names() {
        let definition = parse(TEXT, Some("paper")).expect("it is right");
        assert_eq!(definition.offered, OfferedPlan::Connections(vec![64, 1000]));
        assert_eq!((definition.repetitions, definition.workloads[0].name.as_str()), (10, "zipf"));
        assert_eq!(definition.window_s, 0.5);
        let why = parse(TEXT, Some("tiny")).expect_err("there is none");
        assert_eq!(why, "no size tiny; it has paper");
        // What was run can be read again from what the folder keeps.
        let again = parse(&definition.text, None).expect("it is whole");
        assert_eq!(again.offered, definition.offered);
    }

    #[test]
    fn what_is_typed_beside_the_file_stands_in_the_text() {
        let mut definition = parse(TEXT, None).expect("it is right");
        let before = definition.text.clone();
        definition.search_limits();
        definition.bound_lag("60s");
        assert_ne!(definition.text, before);
        let again = parse(&definition.text, None).expect("it is whole");
        assert_eq!((again.offered, again.lag_bound.as_deref()), (OfferedPlan::Mat, Some("60s")));
        assert_eq!((again.repetitions, again.domains.len()), (3, 1), "the rest is as it was");
        assert_eq!(again.text, definition.text);
    }

    #[test]
    fn mistakes_are_told_in_a_line() {
        let cases = [
            ("title = \"t\"", "titel = \"t\"", "unknown field `titel`"),
            ("repetitions = 3", "repetitions = 0", "repetitions: at least 1"),
            ("window = \"500ms\"", "window = \"500\"", "window: "),
            ("repetitions = 3", "repetitions = 3\nlag_bound = \"9\"", "lag_bound: "),
            ("steps = 4", "steps = 1", "from < to, in 2 to 100 steps"),
            ("steps = 4", "rates = [1]", "say one of rates, from / to / steps"),
            ("from = 1000", "from = 0", "offered: from: 0 is not above 0"),
            ("\"nginx\", \"floor\"", "\"nginx\", \"nginx\"", "two servers called \"nginx\""),
            ("\"nginx\", \"floor\"", "", "servers: name at least one"),
            ("conditions = \"p99=50ms\"", "conditions = \"p99\"", "conditions: "),
            ("root = \"/r\"", "", "workload w: say `files` or `root`"),
            ("cpus = 1", "cpus = 0", "domain one: "),
            ("title = \"t\"", "title = ", "line 2: "),
        ];
        for (from, to, expected) in cases {
            assert!(TEXT.contains(from), "{from}");
            let why = parse(&TEXT.replacen(from, to, 1), None).expect_err(to);
            assert!(why.contains(expected) && !why.contains('\n'), "{to}: {why}");
        }
    }
}
