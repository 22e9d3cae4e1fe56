//! `ropewalk tune`: what was typed becomes a plan, and what was found becomes files. How it is
//! searched is `lab`'s business.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab::record::{Described, Folder, Header, Kind, Opened, Server};
use lab::search::{
    Candidate, Contest, Context, Dimension, Grid, Method, Plan, Progress, Recorder, Stop, Tuned,
    WARM_UPS, Workbench, check_conditions, render, setting_of, surface, tune, tuning,
};
use lab::study::minutes;
use lab::warm_up::{run_s, warm_up_s};
use lab::workload::{Workload, digest};
use lab::{Environment, Installed, Launch, ServerSpec, Setting, Values, listed_cpus};
use load::find_limit::{Conditions, Judged};
use load::interrupt::Interrupt;
use load::units::parse_duration;

use crate::lab_options::{Lab, LabOptions, WorkloadOptions, open_records};
use crate::{Failure, print};

pub(crate) const TUNE_HELP: &str = "\
What is best is what bears the highest rate under the conditions: the share of what is offered that
is served, errors, how alike kinds of file fare, and quantiles of the response times named.
Without --knob every knob varies over its whole grid (`ropewalk peers` lists them); a grid that the
budget does not allow is sampled. --resume goes on with what Ctrl-C, a kill or a power cut has left
(docs/tune.md).

Exit status: 0 the best is known, 1 it could not be done, 2 wrong usage, 4 it was interrupted or no
run could be made any more, and it can be resumed.

Examples:
  ropewalk tune nginx --workload zipf --budget 20m
  ropewalk tune ropewalk:fibers --knob engine.knobs.stack_kib --knob cache.policy=lru,s3-fifo
  ropewalk tune nginx --log access.log --root /srv/www --condition p99=50ms -o tuned --resume";

/// The status of a search that can be gone on with.
const UNFINISHED: u8 = 4;

/// How closely a limit is found in each block; the blocks average it.
const GAP: f64 = 0.04;

/// Where the first search begins, requests a second.
const FIRST_PER_S: f64 = 500.0;

/// More configurations than this are no grid that anybody could try.
const GRID_MAX: usize = 5000;

/// Where a server of the winning configuration would listen.
const PORT: u16 = 8080;

/// The only domain.
const HERE: &str = "here";

#[derive(Args)]
pub(crate) struct TuneArguments {
    #[arg(value_name = "SERVER", help = "NAME[/SETTING][,KNOB=VALUE...]: what is not varied")]
    server: String,
    #[command(flatten)]
    workload: WorkloadOptions,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "20m")]
    budget: String,
    /// Every configuration equally often, or few runs for many and many for few
    #[arg(long, value_enum, value_name = "METHOD", default_value = "halving")]
    method: TypedMethod,
    /// A knob to vary, over its grid or these values; may be repeated [default: all]
    #[arg(long, value_name = "NAME[=V1,V2...]")]
    knob: Vec<String>,
    /// What must hold: p99=50ms, served=99%, errors=0.1%, spread=2%; may be repeated
    #[arg(long, value_name = "CONDITION")]
    condition: Vec<String>,
    /// Length of the window of a run
    #[arg(long, value_name = "TIME", default_value = "2s")]
    window: String,
    /// With which the best is to be right
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    confidence: f64,
    /// A difference that does not matter
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,
    /// Seeds the order and the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where records and results go [default: tune-SERVER, in the current folder]
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a search that was interrupted
    #[arg(long)]
    resume: bool,
    /// Only say what would be done, and how long it takes
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    lab: LabOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedMethod {
    /// Every combination, three times
    Grid,
    /// A third is kept, and measured more often
    Halving,
}

/// What was typed, as numbers.
struct Typed {
    conditions: Conditions,
    window_s: f64,
    budget_s: f64,
}

/// What is tuned, for what.
struct Subject<'a> {
    lab: &'a Lab,
    installed: Installed,
    base: Setting,
    workload: Workload,
    launch: Launch,
}

pub(crate) fn execute(arguments: &TuneArguments) -> Result<(), Failure> {
    let typed = arguments.typed()?;
    let server: ServerSpec = arguments.server.parse().map_err(Failure::Usage)?;
    let spec = arguments.workload.spec("zipf", &[&server])?;
    let lab = arguments.lab.open()?;
    let (installed, base) = lab.find(&server)?;
    let plan = arguments.plan(&typed, (&installed, &base), lab.server_cpus.len())?;
    let workload = lab.bench.tools.prepare(&spec).map_err(Failure::Operation)?;
    let launch = lab.launch(&workload);
    let subject = Subject { lab: &lab, installed, base, workload, launch };
    print(&introduction(&plan, &typed, &subject))?;
    if arguments.dry_run {
        return Ok(());
    }
    let header = subject.header(&plan, &arguments.definition(&plan, &typed, &subject));
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(&header.name));
    let (folder, opened) = open_records(&path, &header, arguments.resume)?;
    let versions = [(subject.installed.peer.name.clone(), subject.installed.version.clone())];
    folder.add_environment(&Environment::record(versions.into())).map_err(Failure::Operation)?;
    match subject.search(&plan, &typed, &folder, &opened) {
        Ok(tuned) => conclude(&tuned, &plan, &subject, &folder),
        Err(Stop::Failed(why)) => Err(Failure::Operation(why)),
        Err(Stop::Unable(why)) => {
            server::report(&why);
            Err(Failure::Reported(UNFINISHED))
        }
        Err(Stop::Interrupted) => {
            let path = folder.path().display();
            print(&format!("Interrupted. Go on with the same options and --resume -o {path}\n"))?;
            Err(Failure::Reported(UNFINISHED))
        }
    }
}

/// A configuration as in a named setting in what is varied, and as in the base in all else; none
/// if it was typed which values of a knob are tried, and the setting has another.
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

/// Adds the base's value to those of a knob's grid, in its place by size; instead of the one that
/// means the same. `{workers}` stands for a number that is no secret.
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

impl TuneArguments {
    fn typed(&self) -> Result<Typed, Failure> {
        let explain = |option: &str, why: String| Failure::Usage(format!("{option}: {why}"));
        let seconds = |option: &str, text: &str| {
            let us = parse_duration(text).map_err(|why| explain(option, why))?;
            Ok::<f64, Failure>(us as f64 / 1e6)
        };
        let conditions = match self.condition.join(",").as_str() {
            "" => Conditions::default(),
            text => text.parse().map_err(|why| explain("--condition", why))?,
        };
        check_conditions(&conditions).map_err(|why| explain("--condition", why))?;
        let window_s = seconds("--window", &self.window)?;
        if !(0.05..=600.0).contains(&window_s) {
            return Err(explain("--window", "from 50ms to 10m".into()));
        }
        if !(50.0..100.0).contains(&self.confidence) {
            return Err(explain("--confidence", "from 50, and below 100".into()));
        }
        if !(0.0..100.0).contains(&self.margin) {
            return Err(explain("--margin", "from 0, and below 100".into()));
        }
        let budget_s = seconds("--budget", &self.budget)?;
        Ok(Typed { conditions, window_s, budget_s })
    }

    fn plan(
        &self,
        typed: &Typed,
        (installed, base): (&Installed, &Setting),
        workers: usize,
    ) -> Result<Plan, Failure> {
        let peer = &installed.peer;
        let mut dimensions = self.dimensions(installed)?;
        let candidate = Candidate { name: base.name.clone(), knobs: peer.knob_values(base) };
        for dimension in dimensions.iter_mut().filter(|one| !self.has_values(&one.name)) {
            add_own(&mut dimension.values, &candidate.knobs[&dimension.name], workers);
        }
        let wanted = peer.settings.iter().filter_map(|setting| {
            let setting = peer.knob_values(setting);
            wanted(&candidate.knobs, setting, &dimensions, |knob| self.has_values(knob))
        });
        let wanted = wanted.collect();
        let grid = Grid::new(candidate, dimensions, wanted);
        if grid.size() < 2 {
            return Err(self.nothing_to_vary(installed));
        }
        let method = match self.method {
            TypedMethod::Grid => Method::Grid,
            TypedMethod::Halving => Method::Halving,
        };
        if method == Method::Grid && grid.size() > GRID_MAX {
            return Err(Failure::Usage(format!(
                "--method grid: {} configurations are too many: name fewer knobs or values with \
                 --knob, or take --method halving",
                grid.size()
            )));
        }
        let plan = Plan {
            method,
            grid,
            run_s: run_s(typed.window_s, WARM_UPS),
            budget_s: Some(typed.budget_s),
            confidence: self.confidence / 100.0,
            margin: self.margin / 100.0,
            first_per_s: FIRST_PER_S,
            seed: self.seed,
        };
        self.fits(&plan, typed)?;
        Ok(plan)
    }

    /// Whether the budget is enough: a grid is measured as a whole or not at all, and halving looks
    /// at a few at the least.
    fn fits(&self, plan: &Plan, typed: &Typed) -> Result<(), Failure> {
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
        if needed_s <= typed.budget_s {
            return Ok(());
        }
        let needed = match needed_s.ceil() {
            seconds if seconds < 120.0 => format!("{seconds}s"),
            seconds => format!("{}m", (seconds / 60.0).ceil()),
        };
        Err(Failure::Usage(format!("{why}: {or} --budget {needed}")))
    }

    /// Whether it was typed which values of a knob are tried: no others are.
    fn has_values(&self, knob: &str) -> bool {
        let typed = self.knob.iter().filter_map(|text| text.split_once('='));
        typed.into_iter().any(|(name, _)| name == knob)
    }

    /// The knobs that are varied: those that were typed, or all that have several values.
    fn dimensions(&self, installed: &Installed) -> Result<Vec<Dimension>, Failure> {
        let knobs = &installed.peer.knobs;
        if self.knob.is_empty() {
            let all = knobs.iter().filter(|(_, knob)| knob.is_tuned());
            let all: Vec<Dimension> =
                all.map(|(name, knob)| dimension(name, knob.grid())).collect();
            return if all.is_empty() { Err(self.nothing_to_vary(installed)) } else { Ok(all) };
        }
        let mut dimensions: Vec<Dimension> = Vec::new();
        for text in &self.knob {
            let explain = |why: &str| Failure::Usage(format!("--knob {text}: {why}"));
            let (name, values) = match text.split_once('=') {
                Some((name, values)) => (name, Some(values)),
                None => (text.as_str(), None),
            };
            let Some(knob) = knobs.get(name) else {
                let names: Vec<&str> = knobs.keys().map(String::as_str).collect();
                return Err(explain(&format!(
                    "there is no such knob; there are {}",
                    names.join(", ")
                )));
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

    fn nothing_to_vary(&self, installed: &Installed) -> Failure {
        let name = &installed.peer.name;
        Failure::Usage(format!(
            "{name}: there is nothing to choose from; name several values: --knob NAME=V1,V2"
        ))
    }

    /// Everything that decides which runs are made, so that a search is resumed as it was begun.
    fn definition(&self, plan: &Plan, typed: &Typed, subject: &Subject<'_>) -> String {
        let method = match plan.method {
            Method::Grid => "grid",
            Method::Halving => "halving",
        };
        let mut text = format!(
            "server = {:?}\nversion = {:?}\nconfiguration = {:?}\n\
             workload = {:?}\nserver_cpus = {:?}\nclient_cpus = {:?}\n\
             method = {method:?}\nconditions = {:?}\nwindow_s = {:?}\n\
             budget_s = {:?}\nconfidence = {:?}\nmargin = {:?}\nseed = {}\n\
             lag_bound = {:?}\n\n[knobs]\n",
            self.server,
            subject.installed.version,
            subject.fingerprint(),
            subject.workload.described.about,
            subject.lab.server_cpus,
            subject.lab.bench.seats[0].cpus,
            typed.conditions.to_string(),
            typed.window_s,
            typed.budget_s,
            plan.confidence,
            plan.margin,
            plan.seed,
            subject.lab.bench.lag_bound.as_deref().unwrap_or_default(),
        );
        for Dimension { name, values } in plan.grid.dimensions() {
            text += &format!("{name:?} = {values:?}\n");
        }
        text
    }
}

fn dimension(name: &str, values: Vec<String>) -> Dimension {
    Dimension { name: name.to_owned(), values }
}

impl Subject<'_> {
    /// What the server is started with, but for what is varied; the same for the same files,
    /// command, environment and values of knobs.
    fn fingerprint(&self) -> String {
        let peer = &self.installed.peer;
        let settings: Vec<Values> =
            peer.settings.iter().map(|setting| peer.knob_values(setting)).collect();
        let base = peer.knob_values(&self.base);
        digest(format!("{:?}", (&peer.files, &peer.start, base, settings)))
    }

    fn header(&self, plan: &Plan, definition: &str) -> Header {
        let peer = &self.installed.peer;
        let server = Server {
            name: peer.name.clone(),
            description: peer.description.clone(),
            version: self.installed.version.clone(),
            ..Server::default()
        };
        let cpus = self.launch.cpus.len() as f64;
        let domain = Described {
            name: HERE.into(),
            about: format!("CPUs {}", listed_cpus(&self.launch.cpus)),
            numbers: BTreeMap::from([("cpus".to_owned(), cpus)]),
        };
        let workload = &self.workload.described;
        Header {
            kind: Kind::Tune,
            name: format!("tune-{}", peer.name.replace([':', '/'], "-")),
            title: format!("The best configuration of {} for {}", peer.name, workload.name),
            question: "Which configuration bears the highest rate?".into(),
            definition: definition.to_owned(),
            servers: vec![server],
            workloads: vec![workload.clone()],
            domains: vec![domain],
            confidence: plan.confidence,
            estimated_s: plan.expected_s(),
            budget_s: plan.budget_s,
            seed: plan.seed,
            started_unix_us: lab::unix_us(),
            ..Header::default()
        }
    }

    fn search(
        &self,
        plan: &Plan,
        typed: &Typed,
        folder: &Folder,
        opened: &Opened,
    ) -> Result<Tuned, Stop> {
        let mut interrupt = Interrupt::new().map_err(Stop::Failed)?;
        let workbench = Workbench {
            bench: &self.lab.bench,
            workload: &self.workload,
            installed: &self.installed,
            launch: self.launch.clone(),
            window_s: typed.window_s,
            latency_target_us: typed.conditions.quantiles.first().map(|&(_, bound_us)| bound_us),
            is_interrupted: &mut || interrupt.came(),
        };
        let context = Context {
            server: self.installed.peer.name.clone(),
            workload: self.workload.described.name.clone(),
            domain: HERE.into(),
            warm_up_s: warm_up_s(typed.window_s),
            window_s: typed.window_s,
        };
        let mut recorder = Recorder::new(folder, opened, context, workbench);
        let mut watch = teller(opened.runs.len());
        let settings = (GAP, plan.seed);
        let conditions = typed.conditions.clone();
        tune(&mut Contest::new(&mut recorder, &mut watch, conditions, settings), plan)
    }
}

/// Tells how it goes on, a line for each run that was not on record; on a terminal in one place.
fn teller(recorded: usize) -> impl FnMut(&Progress<'_>) {
    let is_terminal = std::io::stderr().is_terminal();
    move |progress| {
        if progress.runs as usize <= recorded {
            return;
        }
        let judged = match progress.judged {
            Judged::Held => "held",
            Judged::Broke => "broke",
            Judged::Void => "void",
        };
        let best = progress
            .best
            .map_or(String::new(), |(name, rate)| format!("; best so far {name}: {rate:.0}/s"));
        let line = format!(
            "run {}, {}, about {} left: {} at {:.0}/s {judged}{best}",
            progress.runs,
            progress.stage,
            // There is a next run, or else nobody will mind.
            minutes(progress.left_s.max(1.0)),
            progress.candidate,
            progress.rate,
        );
        let line = if is_terminal { format!("\r\x1b[K{line}") } else { format!("{line}\n") };
        // Whoever cannot be told need not be.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// What is about to happen, and how long it takes.
fn introduction(plan: &Plan, typed: &Typed, subject: &Subject<'_>) -> String {
    let Subject { lab, installed, base, workload, .. } = subject;
    let described = &workload.described;
    let method = match plan.method {
        Method::Grid => "all of them",
        Method::Halving => "halving",
    };
    let knobs = plan.grid.dimensions().iter();
    let knobs: Vec<String> =
        knobs.map(|knob| format!("{} ({})", knob.name, knob.values.len())).collect();
    format!(
        "{} {}, from {} on; {}: {}\nServer on CPU {}, clients on {}\nKnobs: {}\n\
         {} configurations, {} of them to begin with; {method}; windows of {} s\n\
         Conditions: {}\nAbout {}, at most {}\n",
        installed.peer.name,
        installed.version,
        base.name,
        described.name,
        described.about,
        listed_cpus(&lab.server_cpus),
        listed_cpus(&lab.bench.seats[0].cpus),
        knobs.join(", "),
        plan.grid.size(),
        plan.candidates().len(),
        typed.window_s,
        typed.conditions,
        minutes(plan.expected_s()),
        minutes(typed.budget_s),
    )
}

fn conclude(
    tuned: &Tuned,
    plan: &Plan,
    subject: &Subject<'_>,
    folder: &Folder,
) -> Result<(), Failure> {
    if std::io::stderr().is_terminal() {
        let _ = std::io::stderr().write_all(b"\r\x1b[K"); // as above
    }
    let knobs: Vec<String> = plan.grid.dimensions().iter().map(|knob| knob.name.clone()).collect();
    let text = render(tuned, plan.confidence, plan.margin);
    folder.add_tuning(&tuning(tuned)).map_err(Failure::Operation)?;
    let write = |name: &str, text: &str| folder.write_whole(name, text);
    write("surface.csv", &surface(tuned, &knobs, plan.confidence)).map_err(Failure::Operation)?;
    write("result.txt", &text).map_err(Failure::Operation)?;
    let winner = folder.path().join("winner");
    let files = subject.winner(&tuned.candidates[tuned.winner], &winner)?;
    print(&text)?;
    let path = folder.path().display();
    print(&format!("Records and surface.csv in {path}; the winner in {}\n", files.join(", ")))
}

impl Subject<'_> {
    /// Writes the winner's configuration as it was filled in, and the command that starts it.
    fn winner(&self, candidate: &Candidate, folder: &Path) -> Result<Vec<String>, Failure> {
        let explain =
            |why: std::io::Error| Failure::Operation(format!("{}: {why}", folder.display()));
        fs::create_dir_all(folder).map_err(explain)?;
        let place = fs::canonicalize(folder).map_err(explain)?;
        let setting = setting_of(candidate);
        let (mut files, command) =
            lab::configuration(&self.installed, &setting, &self.launch, (PORT, &place))
                .map_err(Failure::Operation)?;
        if let Some(more) = files.get("ropewalk.toml") {
            let text = lab::configuration_file(&command, &candidate.knobs, more)
                .map_err(Failure::Operation)?;
            files.insert("ropewalk.toml".into(), text);
        }
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

/// In quotes, if a shell would not take it as it is.
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

    /// The values that were typed are all that are tried; where none were, named settings may have
    /// others than the grid.
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
