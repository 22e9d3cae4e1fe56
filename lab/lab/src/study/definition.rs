//! An experiment as its file says it: servers, workloads, testbeds, how much is offered, how often.
//!
//! Nothing is read or run here. The format is documented in `docs/lab/study.md`.

use super::claims::Claim;
use super::repetitions::set_in_text;
use super::sizes::{Origin, sized};
use super::{budget, claims};
use crate::error::Error;
use crate::former_names::rename_in_experiment;
use crate::observe::INTERFERENCE_MAX;
use crate::search::check_conditions;
use crate::server_description::ServerDescription;
use crate::server_spec::ServerSpec;
use crate::testbed::Testbed;
use crate::trial::LoadSetup;
use crate::workload::{LoadClient, PRESETS, WorkloadSpec};
use command::near::did_you_mean;
use command::units::{parse_duration, parse_share};
use load::find_limit::Conditions;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml_reader::Step;

/// Points of a range are apart by equal factors; this many are enough for any figure.
const STEPS_MAX: u32 = 100;

/// Rates that are equal to six decimals are one rate to any clock.
const DIGITS_MAX: i32 = 6;

/// The testbed of an experiment that names none: the machine as it is.
const HERE: &str = "here";

/// This many clients that wait for their replies show what a server can sustain at most.
pub(super) const SATURATING_CLIENTS: u64 = 64;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Short: its file's name without `.toml`.
    pub name: String,
    /// The title, for people.
    pub title: String,
    /// The paper and its figure or table.
    pub source: String,
    /// The question that the study answers.
    pub question: String,
    /// What the source found.
    pub expected: String,
    /// The claims among that, which the figures can decide.
    pub claims: Vec<Claim>,
    /// The servers that take part.
    pub servers: Vec<ServerSpec>,
    /// The server that does the least that any can do, if it takes part.
    pub floor: Option<String>,
    /// The workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// Where servers run; at least one.
    pub testbeds: Vec<Testbed>,
    /// How much is requested.
    pub offered: OfferedPlan,
    /// Whether servers are loaded together, within the same windows.
    pub together: bool,
    /// How often each point is measured.
    pub repetitions: u32,
    /// Seconds of a window.
    pub window_s: f64,
    /// Under which conditions a rate counts as sustained.
    pub conditions: Conditions,
    /// Replies within so many microseconds are goodput.
    pub latency_target_us: Option<u64>,
    /// Whether every byte of every reply is checked.
    pub verify_bytes: bool,
    /// Whether the servers' system calls are counted, which costs each of them a little.
    pub system_calls: bool,
    /// How late a generator may be before a run is void, as a user types it; none: the default of
    /// `ropewalk load`.
    pub lag_bound: Option<String>,
    /// How much of what a run needs others may have had before it is void, 0 to 1.
    pub interference_bound: f64,
    /// Seconds that the study may take.
    pub budget_s: Option<f64>,
    /// The confidence of intervals.
    pub confidence: f64,
    /// Seeds order and arrivals.
    pub seed: u64,
    /// The text that was read, with the size's changes in place.
    pub text: String,
    /// Former names in it, a line each.
    pub notices: Vec<String>,
}

/// How much is requested of servers.
#[derive(Clone, Debug, PartialEq)]
pub enum OfferedPlan {
    /// Requests a second, each of them.
    Rates(Vec<f64>),
    /// Numbers of clients that wait for their replies, each of them.
    Connections(Vec<u64>),
    /// As much as each server sustains under the conditions: the maximum achievable throughput.
    Mat,
    /// The rates at which servers use these parts of their processors, 0 to 1, each of them.
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
    claims: Option<toml::Value>,
    servers: Vec<String>,
    floor: Option<String>,
    workloads: Vec<toml::Value>,
    #[serde(default)]
    testbeds: Vec<toml::Value>,
    offered: WrittenOffered,
    #[serde(default)]
    together: bool,
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
    interference_bound: Option<String>,
    budget: Option<String>,
    confidence: Option<f64>,
    seed: Option<u64>,
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
        let mut table = toml_reader::table(text)?;
        let notices = rename_in_experiment(&mut table);
        let table = sized(table, size)?;
        let origin = Origin { text, size };
        let sized = toml::to_string(&table).map_err(|why| why.to_string())?;
        let written = toml_reader::read_value(table).map_err(|why| origin.explain(&why));
        let mut written: Written = written?;
        let claims = std::mem::take(&mut written.claims);
        let mut definition = Self::from_written(written, origin)?;
        definition.claims = claims::read(claims, &definition, origin)?;
        name.clone_into(&mut definition.name);
        definition.text = sized;
        definition.notices = notices;
        definition.check()?;
        Ok(definition)
    }

    /// Checks that these servers can be set as the definition says, and that no two servers are the
    /// same one.
    ///
    /// # Errors
    /// Which server cannot be set, or which two are the same, in a line.
    pub fn check_servers(&self, descriptions: &[ServerDescription]) -> Result<(), String> {
        let mut known: Vec<(&str, String, &ServerSpec)> = Vec::new();
        for spec in &self.servers {
            let named =
                |description: &&ServerDescription| Some(description.name.as_str()) == spec.name();
            let Some(description) = descriptions.iter().find(named) else { continue };
            let setting = spec.setting(description)?.name;
            let same =
                known.iter().find(|(name, of, _)| *name == description.name && *of == setting);
            if let Some((_, _, first)) = same {
                return Err(format!(
                    "servers: {spec} is the same as {first}: leave one of them out"
                ));
            }
            known.push((&description.name, setting, spec));
        }
        Ok(())
    }

    /// Checks that the budget holds a run of `run_s` seconds.
    ///
    /// # Errors
    /// When the budget would be spent at once, however often it is given.
    pub fn check_budget(&self, run_s: f64) -> Result<(), Error> {
        budget::check(self.budget_s, run_s, "shorten `window`")
    }

    /// Whether requests come at a rate, in all runs but those that saturate a server.
    pub fn is_open(&self) -> bool {
        !matches!(self.offered, OfferedPlan::Connections(_))
    }

    /// Settles when runs are void: what was typed, which is the bound of the load on lag and a
    /// share that others may have had, with its text, overrides what the file says.
    pub fn settle_bounds(
        &mut self,
        load_setup: &mut LoadSetup,
        interference_bound: Option<(f64, &str)>,
    ) {
        match &load_setup.lag_bound {
            Some(typed) => self.bound_lag(typed),
            None => load_setup.lag_bound.clone_from(&self.lag_bound),
        }
        match interference_bound {
            Some(typed) => self.bound_interference(typed),
            None => load_setup.interference_bound = self.interference_bound,
        }
    }

    /// Searches the most that each server sustains, in place of what the file offers.
    ///
    /// # Errors
    /// When a testbed has no room for that, in a line.
    pub fn search_limits(&mut self) -> Result<(), String> {
        self.offered = OfferedPlan::Mat;
        let mat = toml::Table::from_iter([("mat".to_owned(), toml::Value::Boolean(true))]);
        self.set_in_text("offered", toml::Value::Table(mat));
        self.check_clients()?;
        self.check_wrk()?;
        self.check_together()
    }

    /// Makes runs void whose generator is later than this, in place of what the file says.
    fn bound_lag(&mut self, bound: &str) {
        self.lag_bound = Some(bound.to_owned());
        self.set_in_text("lag_bound", bound.into());
    }

    /// Makes runs void that others disturbed more than this, in place of what the file says: a
    /// share, and as it was typed.
    fn bound_interference(&mut self, (share, typed): (f64, &str)) {
        self.interference_bound = share;
        self.set_in_text("interference_bound", typed.into());
    }

    /// Sets a key in the text.
    pub(super) fn set_in_text(&mut self, key: &str, value: toml::Value) {
        set_in_text(&mut self.text, key, value);
    }

    /// Reads what an experiment's file has, and checks it.
    fn from_written(written: Written, origin: Origin<'_>) -> Result<Self, String> {
        let seconds = |what: &str, typed: &str| {
            parse_duration(typed).map(|us| us as f64 / 1e6).map_err(|why| format!("{what}: {why}"))
        };
        let target = written.latency_target.as_deref();
        let target = target.map(|typed| seconds("latency_target", typed)).transpose()?;
        let budget = written.budget.as_deref().map(|typed| seconds("budget", typed)).transpose()?;
        written.lag_bound.as_deref().map(|typed| seconds("lag_bound", typed)).transpose()?;
        let testbed = |(index, value)| table_of("testbed", index, value, origin);
        let testbeds = written.testbeds.into_iter().enumerate().map(testbed);
        let mut testbeds = testbeds.collect::<Result<Vec<Testbed>, _>>()?;
        if testbeds.is_empty() {
            testbeds.push(Testbed { name: HERE.into(), ..Testbed::default() });
        }
        let servers: Result<_, Error> = written.servers.iter().map(|text| text.parse()).collect();
        Ok(Self {
            name: String::new(),
            title: written.title,
            source: written.source,
            question: written.question,
            expected: written.expected,
            claims: Vec::new(),
            servers: servers.map_err(|why| why.to_string())?,
            floor: written.floor,
            workloads: written
                .workloads
                .into_iter()
                .enumerate()
                .map(|(index, value)| workload_of(index, value, origin))
                .collect::<Result<_, _>>()?,
            testbeds,
            offered: written.offered.plan()?,
            together: written.together,
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
            interference_bound: written
                .interference_bound
                .map_or(Ok(INTERFERENCE_MAX), |typed| parse_share(&typed))
                .map_err(|why| format!("interference_bound: {why}"))?,
            budget_s: budget,
            confidence: written.confidence.unwrap_or(0.95),
            seed: written.seed.unwrap_or(1),
            text: String::new(),
            notices: Vec::new(),
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
        for testbed in &self.testbeds {
            testbed.check().map_err(|why| format!("testbed {}: {why}", testbed.name))?;
        }
        unique("workload", self.workloads.iter().map(|workload| workload.name.as_str()))?;
        unique("testbed", self.testbeds.iter().map(|testbed| testbed.name.as_str()))?;
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        unique("server", servers.iter().map(String::as_str))?;
        self.check_floor()?;
        self.check_clients()?;
        self.check_wrk()?;
        self.check_together()?;
        check_conditions(&self.conditions).map_err(|why| format!("conditions: {why}"))
    }

    /// Checks that a testbed has a client for each place where it is to have clients.
    fn check_clients(&self) -> Result<(), String> {
        let fewest = match &self.offered {
            OfferedPlan::Rates(_) => return Ok(()),
            OfferedPlan::Connections(counts) => counts.iter().copied().min().unwrap_or(0),
            OfferedPlan::Mat | OfferedPlan::Utilisations(_) => SATURATING_CLIENTS,
        };
        match self.testbeds.iter().find(|testbed| testbed.generators() as u64 > fewest) {
            Some(testbed) => Err(format!(
                "offered: {fewest} clients cannot be dealt to the {} subnets or replicas of \
                 testbed {}",
                testbed.generators(),
                testbed.name
            )),
            None => Ok(()),
        }
    }

    /// Checks that wrk, where it is the client, can do what is asked of it.
    fn check_wrk(&self) -> Result<(), String> {
        let by_wrk = |workload: &&WorkloadSpec| workload.client == LoadClient::Wrk;
        let Some(workload) = self.workloads.iter().find(by_wrk) else { return Ok(()) };
        let why = match self {
            one if one.is_open() => "wrk sends at no rate: say `connections` under [offered]",
            one if one.verify_bytes => "wrk checks no bytes: leave `verify_bytes` out",
            one if one.latency_target_us.is_some() => {
                "wrk is asked for no times: leave `latency_target` out"
            }
            one if one.testbeds.iter().any(Testbed::divides_clients) => {
                "wrk has no place in a network, or beside `replicas`: leave them out"
            }
            _ => return Ok(()),
        };
        Err(format!("workload {}: `client`: {why}", workload.name))
    }

    /// Checks that servers can be loaded together, if they are to be.
    fn check_together(&self) -> Result<(), String> {
        let is_bound = |testbed: &Testbed| testbed.memory.is_some() || testbed.divides_clients();
        let why = match self {
            one if !one.together => return Ok(()),
            one if !matches!(one.offered, OfferedPlan::Connections(_)) => {
                "each server gets as much as it serves: say `connections` under [offered]"
            }
            one if one.servers.len() < 2 => "name two servers at least",
            one if one.workloads.iter().any(|workload| workload.client == LoadClient::Wrk) => {
                "wrk loads one server: leave `client` out"
            }
            one if one.testbeds.iter().any(is_bound) => {
                "servers share no memory bound, network or `replicas`: leave them out"
            }
            _ => return Ok(()),
        };
        Err(format!("together: {why}"))
    }

    fn check_floor(&self) -> Result<(), String> {
        let Some(floor) = &self.floor else { return Ok(()) };
        let names: Vec<&str> = self.servers.iter().filter_map(ServerSpec::name).collect();
        match names.contains(&floor.as_str()) {
            true => Ok(()),
            false => Err(format!(
                "floor: {floor:?} is none of the servers: name one of {}",
                names.join(", ")
            )),
        }
    }
}

impl WrittenOffered {
    fn plan(self) -> Result<OfferedPlan, String> {
        let one = "offered: say one of rates, from / to / steps, connections, mat, utilisations";
        let range = (self.from, self.to, self.steps);
        match (self.rates, range, self.connections, self.mat, self.utilisations) {
            (Some(rates), (None, None, None), None, None, None) => {
                distinct("rates", &rates)?;
                Ok(OfferedPlan::Rates(rates))
            }
            (None, (Some(from), Some(to), Some(steps)), None, None, None) => {
                Ok(OfferedPlan::Rates(range_of(from, to, steps)?))
            }
            (None, (None, None, None), Some(connections), None, None) => {
                let counts: Vec<f64> = connections.iter().map(|&count| count as f64).collect();
                distinct("connections", &counts)?;
                Ok(OfferedPlan::Connections(connections))
            }
            (None, (None, None, None), None, Some(true), None) => Ok(OfferedPlan::Mat),
            (None, (None, None, None), None, None, Some(shares)) => {
                distinct("utilisations", &shares)?;
                if shares.iter().any(|&share| share > 0.95) {
                    return Err(
                        "offered: utilisations up to 0.95; above that too little is left".into()
                    );
                }
                Ok(OfferedPlan::Utilisations(shares))
            }
            _ => Err(one.into()),
        }
    }
}

/// Reads a workload: a preset's name, or the whole of it.
fn workload_of(
    index: usize,
    value: toml::Value,
    origin: Origin<'_>,
) -> Result<WorkloadSpec, String> {
    match value.as_str() {
        Some(name) => WorkloadSpec::preset(name).ok_or_else(|| {
            let near = did_you_mean(name, PRESETS.iter().map(|preset| preset.name));
            format!("no workload is called {name:?}{near}")
        }),
        None => table_of("workload", index, value, origin),
    }
}

/// Reads one of several tables. An error names the table, by its number if it has no name.
fn table_of<T: DeserializeOwned>(
    what: &str,
    index: usize,
    value: toml::Value,
    origin: Origin<'_>,
) -> Result<T, String> {
    let name = value.get("name").and_then(toml::Value::as_str).map(str::to_owned);
    let name = name.unwrap_or_else(|| format!("number {}", index + 1));
    toml_reader::read_value(value).map_err(|mistake| {
        let mistake = mistake.below(Step::Item(index)).below(Step::Key(format!("{what}s")));
        format!("{}{what} {name}: {mistake}", origin.line_prefix(&mistake))
    })
}

/// Rates that are apart by equal factors, as round as they can be and still differ.
fn range_of(from: f64, to: f64, steps: u32) -> Result<Vec<f64>, String> {
    positive("from", &[from])?;
    positive("to", &[to])?;
    if to <= from || !(2..=STEPS_MAX).contains(&steps) {
        return Err(format!("offered: from < to, in 2 to {STEPS_MAX} steps"));
    }
    let factor = (to / from).powf(1.0 / f64::from(steps - 1));
    let exact: Vec<f64> = (0..steps).map(|step| from * factor.powi(step as i32)).collect();
    let rounded = |digits| -> Vec<f64> {
        let scale = 10_f64.powi(digits);
        exact.iter().map(|rate| (rate * scale).round() / scale).collect()
    };
    let found = (0..=DIGITS_MAX).map(rounded).find(|rates| distinct("from", rates).is_ok());
    found.ok_or(format!("offered: from and to are too close for {steps} steps"))
}

/// Refuses equal values: a point is identified by what it is offered, so they would be one point.
fn distinct(what: &str, values: &[f64]) -> Result<(), String> {
    positive(what, values)?;
    let twice = (1..values.len()).find(|&at| values[..at].contains(&values[at]));
    twice.map_or(Ok(()), |at| {
        Err(format!("offered: {what}: {} is listed twice; once is enough", values[at]))
    })
}

fn positive(what: &str, values: &[f64]) -> Result<(), String> {
    match values.iter().find(|&&value| !(value > 0.0 && value.is_finite())) {
        Some(value) => Err(format!("offered: {what}: {value} is not above 0 and finite")),
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
[[testbeds]]
name = "one"
cpus = 1
[sizes.paper]
repetitions = 10
workloads = ["zipf"]
[sizes.paper.offered]
connections = [64, 1000]
"#;

    /// The rates that are offered.
    const RANGE: &str = "from = 1000\nto = 8000\nsteps = 4";

    fn parse(text: &str, size: Option<&str>) -> Result<Definition, String> {
        Definition::parse("x", text, size)
    }

    #[test]
    fn there_are_clients_for_each_place() {
        let check = |offered: &str, testbed: &str, expected: Result<(), &str>| {
            let text = TEXT.replace(RANGE, offered).replace("cpus = 1", testbed);
            let found = parse(&text, None).map(drop);
            assert_eq!(found, expected.map_err(str::to_owned), "{offered} {testbed}");
        };
        let replicas = "cpus = 2\nreplicas = 2";
        check("connections = [2, 8]", replicas, Ok(()));
        let why = "offered: 1 clients cannot be dealt to the 2 subnets or replicas of testbed one";
        check("connections = [8, 1]", replicas, Err(why));
        check("rates = [1]", replicas, Ok(()));
        let why =
            "offered: 64 clients cannot be dealt to the 65 subnets or replicas of testbed one";
        check("mat = true", "network = { subnets = 65 }", Err(why));
    }

    #[test]
    fn wrk_is_asked_for_no_more_than_it_can_do() {
        let check = |changes: &[(&str, &str)], expected: Result<(), &str>| {
            let by_wrk = "name = \"w\"\nclient = \"wrk\"\nload = \"--connection keep\"";
            let mut text = TEXT.replace("name = \"w\"", by_wrk).replace(RANGE, "connections = [8]");
            for (from, to) in changes {
                assert!(text.contains(from), "{from}");
                text = text.replacen(from, to, 1);
            }
            let expected = expected.map_err(|why| format!("workload w: {why}"));
            assert_eq!(parse(&text, None).map(drop), expected, "{changes:?}");
        };
        check(&[], Ok(()));
        check(&[("keep", "request")], Ok(()));
        let sessions = "`client`: wrk knows no sessions: say `--connection keep` or `request` in \
                        `load`";
        check(&[("--connection keep", "")], Err(sessions));
        let idle = "`client`: wrk has no --idle: leave it out of `load`";
        check(&[("keep", "keep --idle 8")], Err(idle));
        let rate = "`client`: wrk sends at no rate: say `connections` under [offered]";
        check(&[("connections = [8]", "rates = [8]")], Err(rate));
        check(&[("connections = [8]", "mat = true")], Err(rate));
        let bytes = "`client`: wrk checks no bytes: leave `verify_bytes` out";
        check(&[("repetitions = 3", "repetitions = 3\nverify_bytes = true")], Err(bytes));
        let target = "`client`: wrk is asked for no times: leave `latency_target` out";
        check(&[("repetitions = 3", "repetitions = 3\nlatency_target = '1s'")], Err(target));
        let network =
            "`client`: wrk has no place in a network, or beside `replicas`: leave them out";
        check(&[("cpus = 1", "network = { subnets = 1 }")], Err(network));
        check(&[("cpus = 1", "cpus = 2\nreplicas = 2")], Err(network));
    }

    #[test]
    fn servers_are_loaded_together_where_they_can_be() {
        let check = |changes: &[(&str, &str)], expected: Result<(), &str>| {
            let together = "repetitions = 3\ntogether = true";
            let mut text =
                TEXT.replace("repetitions = 3", together).replace(RANGE, "connections = [8]");
            for (from, to) in changes {
                assert!(text.contains(from), "{from}");
                text = text.replacen(from, to, 1);
            }
            let expected = expected.map_err(|why| format!("together: {why}"));
            assert_eq!(
                parse(&text, None).map(|read| {
                    assert!(read.together);
                }),
                expected,
                "{changes:?}"
            );
        };
        check(&[], Ok(()));
        let load = "each server gets as much as it serves: say `connections` under [offered]";
        check(&[("connections = [8]", "rates = [8]")], Err(load));
        check(&[("connections = [8]", "mat = true")], Err(load));
        let wrk = "wrk loads one server: leave `client` out";
        let by_wrk = "name = \"w\"\nclient = \"wrk\"\nload = \"--connection keep\"";
        check(&[("name = \"w\"", by_wrk)], Err(wrk));
        let shared = "servers share no memory bound, network or `replicas`: leave them out";
        for bound in ["network = { subnets = 1 }", "cpus = 2\nreplicas = 2"] {
            check(&[("cpus = 1", bound)], Err(shared));
        }
    }

    #[test]
    fn what_is_misspelt_in_a_table_is_named_with_it() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(TEXT.contains(from), "{from}");
            let why = parse(&TEXT.replace(from, to), None).expect_err(to);
            assert!(why.starts_with(expected) && !why.contains('\n'), "{why}");
        };
        check(
            "log_file = ",
            "log_fil = ",
            "line 14: workload w: unknown key \"log_fil\" (did you mean \"log_file\"?)",
        );
        check(
            "cpus = 1",
            "cpu = 1",
            "line 17: testbed one: unknown key \"cpu\" (did you mean \"cpus\"?)",
        );
        let client = "line 13: workload w: client must be one of ropewalk, wrk, not \"ab\"";
        check("root = ", "client = \"ab\"\nroot = ", client);
        let kernel = "kernel = { \"vm.swappiness\" = [1] }";
        check("cpus = 1", kernel, "line 17: testbed one: the value of a setting is a number");
        check(
            "name = \"one\"\ncpus = 1",
            "cpus = \"1\"",
            "line 16: testbed number 1: invalid type: string",
        );
    }

    #[test]
    fn a_range_is_divided_by_equal_factors() {
        let definition = parse(TEXT, None).expect("it is right");
        let rates = vec![1000.0, 2000.0, 4000.0, 8000.0];
        assert_eq!(definition.offered, OfferedPlan::Rates(rates));
        assert_eq!((definition.window_s, definition.repetitions), (0.5, 3));
        assert_eq!(definition.testbeds[0].cpus, Some(1));
    }

    #[test]
    fn the_rates_of_a_range_differ_and_are_round_if_they_can_be() {
        let check = |range: &str, expected: &[f64]| {
            let definition = parse(&TEXT.replace(RANGE, range), None).expect(range);
            assert_eq!(definition.offered, OfferedPlan::Rates(expected.to_vec()), "{range}");
        };
        check("from = 100\nto = 1000\nsteps = 4", &[100.0, 215.0, 464.0, 1000.0]);
        check("from = 1\nto = 4\nsteps = 5", &[1.0, 1.4, 2.0, 2.8, 4.0]);
        check("from = 0.4\nto = 40\nsteps = 3", &[0.4, 4.0, 40.0]);
        check("from = 0.01\nto = 0.02\nsteps = 2", &[0.01, 0.02]);
    }

    /// Equal points would be one point, and the second would never be measured.
    #[test]
    fn servers_that_are_the_same_under_two_names_are_refused() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        let descriptions = ["nginx", "floor"].map(|name| {
            ServerDescription::read(&folder.join(format!("{name}.toml"))).expect("it is shipped")
        });
        let check = |servers: &str, expected: Result<(), &str>| {
            let text = TEXT.replace("\"nginx\", \"floor\"", servers);
            let found = parse(&text, None).expect("it can be read").check_servers(&descriptions);
            assert_eq!(found, expected.map_err(str::to_owned), "{servers}");
        };
        let twice = "servers: nginx/sendfile is the same as nginx: leave one of them out";
        check(r#""nginx", "nginx/sendfile""#, Err(twice));
        let twice = "servers: nginx,sendfile=off is the same as nginx/sendfile,sendfile=off: leave \
                     one of them out";
        check(r#""nginx/sendfile,sendfile=off", "floor", "nginx,sendfile=off""#, Err(twice));
        check(r#""nginx", "nginx/buffers", "nginx,sendfile=off", "floor""#, Ok(()));
        let none = "nginx has no setting fast; it has sendfile, ";
        let text = TEXT.replace("\"nginx\"", "\"nginx/fast\"");
        let why =
            parse(&text, None).expect("readable").check_servers(&descriptions).expect_err("none");
        assert!(why.starts_with(none), "{why}");
    }

    #[test]
    fn a_size_replaces_what_it_names() {
        let definition = parse(TEXT, Some("paper")).expect("it is right");
        assert_eq!(definition.offered, OfferedPlan::Connections(vec![64, 1000]));
        assert_eq!((definition.repetitions, definition.workloads[0].name.as_str()), (10, "zipf"));
        assert_eq!(definition.window_s, 0.5);
        let why = parse(TEXT, Some("tiny")).expect_err("there is none");
        assert_eq!(why, "no size tiny; it has paper");
        let why = parse(TEXT, Some("papre")).expect_err("there is none");
        assert_eq!(why, "no size papre (did you mean \"paper\"?); it has paper");
        // The text in the folder says what was run.
        let again = parse(&definition.text, None).expect("it is whole");
        assert_eq!(again.offered, definition.offered);
    }

    /// A size cannot say that there is no floor, but it can leave it out.
    #[test]
    fn a_floor_goes_with_the_servers_that_a_size_replaces() {
        let text = TEXT.replace("repetitions = 3", "repetitions = 3\nfloor = \"floor\"");
        let check = |of_size: &str, expected: Result<Option<&str>, &str>| {
            let text = text.replace("[sizes.paper]", &format!("[sizes.paper]\n{of_size}"));
            let found = parse(&text, Some("paper")).map(|definition| definition.floor);
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected);
        };
        check("", Ok(Some("floor")));
        check("servers = [\"floor\", \"h2o\"]", Ok(Some("floor")));
        check("servers = [\"h2o\"]", Ok(None));
        let none = "floor: \"nginx\" is none of the servers: name one of h2o";
        check("servers = [\"h2o\"]\nfloor = \"nginx\"", Err(none));
    }

    #[test]
    fn what_is_typed_beside_the_file_stands_in_the_text() {
        let mut definition = parse(TEXT, None).expect("it is right");
        let before = definition.text.clone();
        definition.search_limits().expect("there is room");
        definition.bound_lag("60s");
        definition.bound_interference((0.2, "20%"));
        assert_ne!(definition.text, before);
        let again = parse(&definition.text, None).expect("it is whole");
        assert_eq!((again.offered, again.lag_bound.as_deref()), (OfferedPlan::Mat, Some("60s")));
        assert_eq!(again.interference_bound, 0.2);
        assert_eq!((again.repetitions, again.testbeds.len()), (3, 1), "the rest is as it was");
        assert_eq!(again.text, definition.text);
    }

    #[test]
    fn mistakes_are_told_in_a_line() {
        let cases = [
            (
                "title = \"t\"",
                "titel = \"t\"",
                "line 2: unknown key \"titel\" (did you mean \"title\"?)",
            ),
            ("repetitions = 3", "repetitions = 0", "repetitions: at least 1"),
            ("window = \"500ms\"", "window = \"500\"", "window: "),
            ("repetitions = 3", "repetitions = 3\nlag_bound = \"9\"", "lag_bound: "),
            (
                "repetitions = 3",
                "repetitions = 3\ninterference_bound = '5'",
                "interference_bound: give a share from 0% to 100%",
            ),
            ("steps = 4", "steps = 1", "from < to, in 2 to 100 steps"),
            ("steps = 4", "rates = [1]", "say one of rates, from / to / steps"),
            ("from = 1000", "from = 0", "offered: from: 0 is not above 0"),
            ("to = 8000", "to = inf", "offered: to: inf is not above 0 and finite"),
            ("to = 8000", "to = 1000.0000001", "offered: from and to are too close for 4 steps"),
            (RANGE, "rates = [100, 50, 100.0]", "offered: rates: 100 is listed twice; once is"),
            (RANGE, "connections = [64, 64]", "offered: connections: 64 is listed twice"),
            (RANGE, "utilisations = [0.5, 0.5]", "offered: utilisations: 0.5 is listed twice"),
            ("\"nginx\", \"floor\"", "\"nginx\", \"nginx\"", "two servers called \"nginx\""),
            ("\"nginx\", \"floor\"", "", "servers: name at least one"),
            ("conditions = \"p99=50ms\"", "conditions = \"p99\"", "conditions: "),
            ("p99=50ms", "p99.99=50ms", "conditions: p99.99: a run keeps only the percentiles p50"),
            (
                "repetitions = 3",
                "repetitions = 3\nfloor = \"flor\"",
                "floor: \"flor\" is none of the servers: name one of nginx, floor",
            ),
            ("root = \"/r\"", "", "workload w: say `files` or `root`"),
            ("cpus = 1", "cpus = 0", "testbed one: "),
            ("title = \"t\"", "title = ", "line 2: "),
        ];
        for (from, to, expected) in cases {
            assert!(TEXT.contains(from), "{from}");
            let why = parse(&TEXT.replacen(from, to, 1), None).expect_err(to);
            assert!(why.contains(expected) && !why.contains('\n'), "{to}: {why}");
        }
    }
}
