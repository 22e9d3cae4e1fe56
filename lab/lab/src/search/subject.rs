//! What is tuned and for what: from what was typed to the plan of a search, and from its result to
//! files. How the search is done is in `tune`.

use super::blocks::{Blocks, Progress};
use super::grid::{Dimension, Grid};
use super::recorder::{Context, Recorder};
use super::results::{conclude, surface, tuning};
use super::tune::{Method, Plan, Tuned, tune};
use super::workbench::{WARM_UPS, Workbench, setting_of};
use super::{Candidate, Stop};
use crate::conclusion::Conclusion;
use crate::environment::Environment;
use crate::error::Error;
use crate::former_names::with_former_placeholders;
use crate::install::Installed;
use crate::lab::Lab;
use crate::process::listed_cpus;
use crate::record::{Described, Folder, Header, Kind, Opened, Server};
use crate::ropewalk::configuration_file;
use crate::server::{Launch, configuration};
use crate::server_description::{FormerKnob, Setting};
use crate::server_spec::ServerSpec;
use crate::template::Values;
use crate::trial::LoadSetup;
use crate::warm_up::{run_s, warm_up_s};
use crate::workload::{Workload, WorkloadSpec, digest};
use command::near::hint_and_names;
use load::find_limit::Conditions;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How closely a limit is found in each block; the blocks average it.
const GAP: f64 = 0.04;

/// Where the first search begins, requests a second.
const FIRST_PER_S: f64 = 500.0;

/// A grid with more configurations than this takes too long to try.
const GRID_MAX: usize = 5000;

/// The files that a search leaves beside its records.
const SURFACE: &str = "surface.csv";
const RESULT: &str = "result.txt";
const WINNER: &str = "winner";

/// The port at which a server of the winning configuration would listen.
const PORT: u16 = 8080;

/// The only testbed.
const HERE: &str = "here";

/// A search as it was typed.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The knobs to vary: `NAME` over its grid, `NAME=V1,V2` over these values; none: all.
    pub knobs: Vec<String>,
    /// The method of the search.
    pub method: Method,
    /// The time it may take, as it was typed.
    pub budget: String,
    /// The time it may take, in seconds.
    pub budget_s: f64,
    /// Seconds of a window.
    pub window_s: f64,
    /// The confidence with which the best is to be right, 0 to 1.
    pub confidence: f64,
    /// A difference that does not matter, 0 to 1.
    pub margin: f64,
    /// Seeds every choice.
    pub seed: u64,
}

/// The server that is tuned, and its load.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The server, as it was typed.
    pub typed: String,
    /// The setup that loads it.
    pub load_setup: &'a LoadSetup,
    /// The server.
    pub installed: Installed,
    /// The setting from which everything that is not varied is taken.
    pub base: Setting,
    /// The workload.
    pub workload: Workload,
    /// How it is started.
    pub launch: Launch,
    /// The conditions that must hold.
    pub conditions: Conditions,
    /// Seconds of a window.
    pub window_s: f64,
}

/// What was written down of the result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The result, in words.
    pub conclusion: Conclusion,
    /// The files of the configuration that is ahead.
    pub winner: Vec<String>,
}

impl Wanted {
    /// Makes the plan for a server, which was `typed` and read, under a workload, which is made.
    ///
    /// # Errors
    /// When the server is absent, the plan makes no sense, or the workload cannot be made.
    pub fn prepare<'a>(
        &self,
        lab: &'a Lab,
        (typed, server): (&str, &ServerSpec),
        workload: &WorkloadSpec,
        conditions: Conditions,
    ) -> Result<(Plan, Subject<'a>), Error> {
        let (installed, base) = lab.find(server)?;
        let plan = self.plan((&installed, &base), lab.server_cpus.len()).map_err(Error::Usage)?;
        let workload = lab.load_setup.tools.prepare(workload)?;
        let subject = Subject {
            typed: typed.to_owned(),
            load_setup: &lab.load_setup,
            installed,
            base,
            launch: lab.launch(&workload),
            workload,
            conditions,
            window_s: self.window_s,
        };
        Ok((plan, subject))
    }

    /// The plan for a server in a setting, which serves with this many workers.
    ///
    /// # Errors
    /// The part of the plan that makes no sense, or does not fit the budget, in a line.
    fn plan(
        &self,
        (installed, base): (&Installed, &Setting),
        workers: usize,
    ) -> Result<Plan, String> {
        let description = &installed.description;
        let mut dimensions = self.dimensions(installed)?;
        let candidate = Candidate { name: base.name.clone(), knobs: description.knob_values(base) };
        for dimension in dimensions.iter_mut().filter(|one| !self.has_values(installed, &one.name))
        {
            add_own(&mut dimension.values, &candidate.knobs[&dimension.name], workers);
        }
        let wanted = description.settings.iter().filter_map(|setting| {
            let setting = description.knob_values(setting);
            wanted(&candidate.knobs, setting, &dimensions, |knob| self.has_values(installed, knob))
        });
        let wanted = wanted.collect();
        let grid = Grid::new(candidate, dimensions, wanted);
        if grid.size() < 2 {
            return Err(self.nothing_to_vary(installed));
        }
        let method = self.method;
        if method == Method::Grid && grid.size() > GRID_MAX {
            return Err(format!(
                "--method grid: {} configurations are too many: name fewer knobs or values with \
                 --knob, or take --method halving",
                grid.size()
            ));
        }
        let plan = Plan {
            method,
            grid,
            run_s: run_s(self.window_s, WARM_UPS),
            budget_s: Some(self.budget_s),
            confidence: self.confidence,
            margin: self.margin,
            first_per_s: FIRST_PER_S,
            seed: self.seed,
        };
        self.fits(&plan)?;
        Ok(plan)
    }

    /// Checks that the budget is enough: a grid is measured as a whole or not at all, and halving
    /// measures a few candidates at the least.
    fn fits(&self, plan: &Plan) -> Result<(), String> {
        let (size, budget) = (plan.grid.size(), &self.budget);
        let (needed_s, why, or) = match plan.method {
            Method::Grid => (
                plan.needed_s(),
                format!("--method grid: {size} configurations take longer than --budget {budget}"),
                "name fewer knobs or values with --knob, or take --method halving or",
            ),
            Method::Halving => (
                plan.least_s(),
                format!(
                    "--budget {budget}: a first look at {} configurations takes longer",
                    plan.least()
                ),
                "take a shorter --window, or",
            ),
        };
        if needed_s <= self.budget_s {
            return Ok(());
        }
        let needed = match needed_s.ceil() {
            seconds if seconds < 120.0 => format!("{seconds}s"),
            seconds => format!("{}m", (seconds / 60.0).ceil()),
        };
        Err(format!("{why}: {or} --budget {needed}"))
    }

    /// Whether the values of a knob to be tried were typed: no others are tried.
    fn has_values(&self, installed: &Installed, knob: &str) -> bool {
        self.typed(installed).any(|(_, name, values)| name == knob && values.is_some())
    }

    /// The knobs that were typed: the text, the knob's name of today, the values that follow it.
    fn typed<'a>(
        &'a self,
        installed: &'a Installed,
    ) -> impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)> {
        self.knobs.iter().map(|text| {
            let (name, values) = match text.split_once('=') {
                Some((name, values)) => (name, Some(values)),
                None => (text.as_str(), None),
            };
            let name = match installed.description.former_knobs.get(name) {
                Some(FormerKnob::Called(now)) => now,
                _ => name,
            };
            (text.as_str(), name, values)
        })
    }

    /// The knobs that are varied: those that were typed, or all that have several values.
    fn dimensions(&self, installed: &Installed) -> Result<Vec<Dimension>, String> {
        let knobs = &installed.description.knobs;
        if self.knobs.is_empty() {
            let all = knobs.iter().filter(|(_, knob)| knob.is_tuned());
            let all: Vec<Dimension> =
                all.map(|(name, knob)| dimension(name, knob.grid())).collect();
            return if all.is_empty() { Err(self.nothing_to_vary(installed)) } else { Ok(all) };
        }
        let mut dimensions: Vec<Dimension> = Vec::new();
        for (text, name, values) in self.typed(installed) {
            let explain = |why: &str| format!("--knob {text}: {why}");
            let Some(knob) = knobs.get(name) else {
                let (near, names) = hint_and_names(name, knobs.keys().map(String::as_str));
                return Err(explain(&format!("there is no such knob{near}; there are {names}")));
            };
            if dimensions.iter().any(|known| known.name == name) {
                return Err(explain("it was named before"));
            }
            let values = match values {
                None => knob.grid(),
                Some(values) => values.split(',').map(|value| value.trim().to_owned()).collect(),
            };
            if let Some(wrong) = values.iter().find(|value| !knob.allows(value)) {
                return Err(explain(&format!("it cannot be {wrong:?}: {}", knob.allowed())));
            }
            let is_twice = |(at, value): &(usize, &String)| values[..*at].contains(value);
            if let Some((_, twice)) = values.iter().enumerate().find(is_twice) {
                return Err(explain(&format!("{twice:?} is named twice")));
            }
            dimensions.push(dimension(name, values));
        }
        Ok(dimensions)
    }

    fn nothing_to_vary(&self, installed: &Installed) -> String {
        let name = &installed.description.name;
        format!("{name}: there is nothing to choose from; name several values: --knob NAME=V1,V2")
    }
}

/// A configuration as in a named setting in what is varied, and as in the base in all else; none if
/// the values of a knob to be tried were typed, and the setting has another value.
fn wanted(
    base: &Values,
    setting: Values,
    dimensions: &[Dimension],
    has_values: impl Fn(&str) -> bool,
) -> Option<Values> {
    let mut knobs = base.clone();
    for (name, value) in setting {
        let Some(varied) = dimensions.iter().find(|one| one.name == name) else { continue };
        if has_values(&name) && !varied.values.contains(&value) {
            return None;
        }
        knobs.insert(name, value);
    }
    Some(knobs)
}

/// Adds the base's value to those of a knob's grid, in its place by size; in place of the value
/// that means the same, if there is one: `{workers}` stands for a number that is known here.
fn add_own(values: &mut Vec<String>, own: &str, workers: usize) {
    if values.iter().any(|value| value == own) {
        return;
    }
    let number = |text: &str| text.replace("{workers}", &workers.to_string()).parse::<i64>().ok();
    let size = number(own);
    let not_less = values.iter().position(|value| size.is_some() && number(value) >= size);
    match not_less {
        Some(at) if number(&values[at]) == size => values[at] = own.to_owned(),
        at => values.insert(at.unwrap_or(values.len()), own.to_owned()),
    }
}

fn dimension(name: &str, values: Vec<String>) -> Dimension {
    Dimension { name: name.to_owned(), values }
}

impl Subject<'_> {
    /// A digest of what the server is started with, except for what is varied; equal for equal
    /// files, command, environment and values of knobs.
    fn fingerprint(&self) -> String {
        let description = &self.installed.description;
        let settings: Vec<Values> =
            description.settings.iter().map(|setting| description.knob_values(setting)).collect();
        let base = description.knob_values(&self.base);
        let text = format!("{:?}", (&description.files, &description.start, base, settings));
        digest(with_former_placeholders(text))
    }

    /// The header of the folder.
    pub fn header(&self, plan: &Plan) -> Header {
        let description = &self.installed.description;
        let server = Server {
            name: description.name.clone(),
            description: description.description.clone(),
            version: self.installed.version.clone(),
            program: description.recorded_program(),
            ..Server::default()
        };
        let cpus = self.launch.cpus.len() as f64;
        let testbed = Described {
            name: HERE.into(),
            about: format!("CPUs {}", listed_cpus(&self.launch.cpus)),
            numbers: BTreeMap::from([("cpus".to_owned(), cpus)]),
        };
        let workload = &self.workload.described;
        Header {
            kind: Kind::Tune,
            name: format!("tune-{}", description.name.replace([':', '/'], "-")),
            title: format!("The best configuration of {} for {}", description.name, workload.name),
            question: "Which configuration sustains the highest rate?".into(),
            definition: self.definition(plan),
            servers: vec![server],
            workloads: vec![workload.clone()],
            testbeds: vec![testbed],
            confidence: plan.confidence,
            estimated_s: plan.expected_s(),
            budget_s: plan.budget_s,
            seed: plan.seed,
            started_unix_us: crate::unix_us(),
            ..Header::default()
        }
    }

    /// The machine, and the server's version.
    pub fn environment(&self) -> Environment {
        let version = (self.installed.description.name.clone(), self.installed.version.clone());
        Environment::record([version].into())
    }

    /// Finds the best of the plan, going on with what the folder holds. `watch` is called after
    /// each run, `is_interrupted` before each.
    ///
    /// # Errors
    /// When the search was interrupted, or no candidate sustains any rate.
    pub fn search(
        &self,
        plan: &Plan,
        (folder, opened): (&Folder, &Opened),
        watch: &mut dyn FnMut(&Progress<'_>),
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Tuned, Stop> {
        let workbench = Workbench {
            load_setup: self.load_setup,
            workload: &self.workload,
            installed: &self.installed,
            launch: self.launch.clone(),
            window_s: self.window_s,
            latency_target_us: self.conditions.quantiles.first().map(|&(_, bound_us)| bound_us),
            is_interrupted,
        };
        let context = Context {
            server: self.installed.description.name.clone(),
            workload: self.workload.described.name.clone(),
            testbed: HERE.into(),
            warm_up_s: warm_up_s(self.window_s),
            window_s: self.window_s,
        };
        let mut recorder = Recorder::new(folder, opened, context, workbench);
        let settings = (GAP, plan.seed);
        let conditions = self.conditions.clone();
        tune(&mut Blocks::new(&mut recorder, watch, conditions, settings), plan)
    }

    /// Everything that decides which runs are made, so that a search is resumed as it was begun.
    fn definition(&self, plan: &Plan) -> String {
        let method = match plan.method {
            Method::Grid => "grid",
            Method::Halving => "halving",
        };
        let mut text = format!(
            "server = {:?}\nversion = {:?}\nconfiguration = {:?}\n\
             workload = {:?}\nserver_cpus = {:?}\nclient_cpus = {:?}\n\
             method = {method:?}\nconditions = {:?}\nwindow_s = {:?}\n\
             budget_s = {:?}\nconfidence = {:?}\nmargin = {:?}\nseed = {}\n\
             lag_bound = {:?}\ninterference_bound = {:?}\n\n[knobs]\n",
            self.typed,
            self.installed.version,
            self.fingerprint(),
            self.workload.described.about,
            self.launch.cpus,
            self.load_setup.generators[0].cpus,
            self.conditions.to_string(),
            self.window_s,
            plan.budget_s.unwrap_or(f64::INFINITY),
            plan.confidence,
            plan.margin,
            plan.seed,
            self.load_setup.lag_bound.as_deref().unwrap_or_default(),
            self.load_setup.interference_bound,
        );
        for Dimension { name, values } in plan.grid.dimensions() {
            text += &format!("{name:?} = {values:?}\n");
        }
        text
    }

    /// Writes the result: among the records, as a table, in words, and as the files of the
    /// configuration that is ahead.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, tuned: &Tuned, plan: &Plan, folder: &Folder) -> Result<Written, Error> {
        let knobs = plan.grid.dimensions().iter().map(|knob| knob.name.clone());
        let table = surface(tuned, &knobs.collect::<Vec<_>>(), plan.confidence);
        let conclusion = conclude(tuned, plan.confidence, plan.margin);
        let written = folder
            .add_tuning(&tuning(tuned))
            .and_then(|()| folder.write_whole(SURFACE, &table))
            .and_then(|()| folder.write_whole(RESULT, &conclusion.to_string()))
            .and_then(|()| {
                let place = folder.path().join(WINNER);
                self.winner(&tuned.candidates[tuned.winner], &place)
            });
        let winner = written.map_err(Error::Failed)?;
        Ok(Written { conclusion, winner })
    }

    /// Writes the winner's configuration as it was filled in, and the command that starts it;
    /// returns the names of the files.
    fn winner(&self, candidate: &Candidate, folder: &Path) -> Result<Vec<String>, String> {
        let explain = |why: std::io::Error| format!("{}: {why}", folder.display());
        fs::create_dir_all(folder).map_err(explain)?;
        let place = fs::canonicalize(folder).map_err(explain)?;
        let setting = setting_of(candidate);
        let (installed, launch) = (&self.installed, &self.launch);
        let (mut files, command) = configuration(installed, &setting, launch, (PORT, &place))?;
        files.extend(configuration_file(installed, &setting, launch, (PORT, &place))?);
        let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
        files.insert("command.txt".into(), format!("{}\n", words.join(" ")));
        let mut written = Vec::new();
        for (name, text) in files {
            let path = folder.join(&name);
            fs::write(&path, text).map_err(explain)?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

/// Quotes a word, if a shell would otherwise change it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: &[(&str, &str)]) -> Values {
        of.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Values that were typed are the only ones tried; where none were typed, named settings may
    /// have values outside of the grid.
    #[test]
    fn settings_with_values_that_were_not_typed_are_left_out() {
        let base = values(&[("sendfile", "on"), ("workers", "1"), ("nodelay", "off")]);
        let varied = |name: &str, values: &[&str]| Dimension {
            name: name.into(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let varied = [varied("sendfile", &["on"]), varied("workers", &["1", "2"])];
        let has_values = |knob: &str| knob == "sendfile";
        let check = |setting: &[(&str, &str)], expected: Option<&[(&str, &str)]>| {
            let found = wanted(&base, values(setting), &varied, has_values);
            assert_eq!(found, expected.map(values), "{setting:?}");
        };
        check(&[("sendfile", "off"), ("workers", "2")], None);
        let mine = [("sendfile", "on"), ("workers", "8"), ("nodelay", "off")];
        check(&[("sendfile", "on"), ("workers", "8"), ("nodelay", "on")], Some(&mine));
    }

    #[test]
    fn the_grid_of_a_knob_has_the_value_of_the_base() {
        let check = |own: &str, workers: usize, expected: &[&str]| {
            let mut values = ["1", "4", "16"].map(str::to_owned).to_vec();
            add_own(&mut values, own, workers);
            assert_eq!(values, expected, "{own} {workers}");
        };
        check("4", 2, &["1", "4", "16"]);
        check("{workers}", 4, &["1", "{workers}", "16"]);
        check("{workers}", 6, &["1", "4", "{workers}", "16"]);
        check("{workers}", 32, &["1", "4", "16", "{workers}"]);
        check("0", 1, &["0", "1", "4", "16"]);
        check("auto", 4, &["1", "4", "16", "auto"]);
    }
}
