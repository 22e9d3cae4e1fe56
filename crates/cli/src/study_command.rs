//! `ropewalk study`: an experiment, from its file to a folder of records. How it is run is `lab`'s
//! business.

mod of_cache;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::domain::{Accessed, Domain, Topology};
use lab::record::{Ceiling, Described, Folder, Header, Kind, Offered, Planned, Server, Skipped};
use lab::search::unable;
use lab::study::{
    Definition, End, Entrant, Experiment, Stage, Study, Tally, Watch, ceiling, estimate_s, minutes,
    reckoned_ceiling_s, reckoned_run_s,
};
use lab::trial::{Bench, Trial};
use lab::workload::Workload;
use lab::{Environment, Found, Launch, ServerSpec, SettingsInside};
use load::interrupt::Interrupt;
use load::units::parse_duration;
use page::number::counted;

use crate::lab_options::{Lab, LabOptions, open_records};
use crate::{Failure, print};

pub(crate) const STUDY_HELP: &str = "\
An experiment is a TOML file: servers, workloads, domains (CPUs, memory, network), how much is
offered, how often; or what is varied of the cache by itself (docs/study.md). Its records go into a
folder, a line for each run as soon as it is made; whatever ends the study, --resume goes on with
it. `ropewalk report FOLDER` shows them.

Exit status: 0 all that can be was measured, 1 nothing could be, 2 wrong usage, 4 the budget is
spent or the study was interrupted, and it can be resumed.

Examples:
  ropewalk study experiments/radhakrishnan-2019-fig-3-18-zipf-4gb.toml
  ropewalk study my.toml --size paper --budget 4h -o results
  ropewalk study my.toml -o results --resume";

/// The status of a study that can be gone on with.
const UNFINISHED: u8 = 4;

/// Why a ceiling is left out.
const NO_TIME: &str = "the budget does not hold that and a run";

#[derive(Args)]
pub(crate) struct StudyArguments {
    /// The experiment
    #[arg(value_name = "FILE")]
    experiment: PathBuf,
    /// One of the file's sizes, such as paper
    #[arg(long, value_name = "NAME")]
    size: Option<String>,
    /// How long it may take; time goes to the points whose intervals are widest
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Search the most that each server bears, in place of the rates of the file
    #[arg(long)]
    mat: bool,
    /// Where the records go [default: the experiment's name, in the current folder]
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a study that was interrupted
    #[arg(long)]
    resume: bool,
    /// Only say what would be done, and how long it takes
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    lab: LabOptions,
}

pub(crate) fn study(arguments: &StudyArguments) -> Result<(), Failure> {
    let experiment = Experiment::read(&arguments.experiment, arguments.size.as_deref());
    match experiment.map_err(Failure::Usage)? {
        Experiment::Servers(definition) => of_servers(arguments, *definition),
        Experiment::Cache(definition) => of_cache::study(arguments, *definition),
    }
}

fn of_servers(arguments: &StudyArguments, mut definition: Definition) -> Result<(), Failure> {
    if let Some(option) = arguments.lab.cpus_typed() {
        return Err(Failure::Usage(format!(
            "{option}: a study's domains say who gets which CPUs: put `cpus` and `client_cpus` \
             under [[domains]] in {}; `taskset` bounds what they are taken from",
            arguments.experiment.display()
        )));
    }
    arguments.change(&mut definition)?;
    check_budget(definition.budget_s, reckoned_run_s(&definition), "shorten `window`")?;
    let mut lab = arguments.lab.open()?;
    match &lab.bench.lag_bound {
        Some(typed) => definition.bound_lag(typed),
        None => lab.bench.lag_bound.clone_from(&definition.lag_bound),
    }
    match arguments.lab.interference_bound()? {
        Some(share) => definition.bound_interference(share),
        None => lab.bench.interference_bound = definition.interference_bound,
    }
    let (entrants, mut skipped) = entrants(&lab, &definition)?;
    let machine = Topology::here();
    skip_domains(&mut definition.domains, &mut skipped, |domain| domain.fits(&machine));
    skipped.extend(unfit(&entrants, &definition.domains));
    print(&introduction(&definition, &entrants, &skipped))?;
    if arguments.dry_run {
        return Ok(());
    }
    if definition.domains.is_empty() {
        return Err(no_domain());
    }
    if cells(&definition, &entrants) == 0 {
        return Err(Failure::Operation("none of the servers can run here".into()));
    }
    let mut stage = stage(&lab, &definition, entrants)?;
    let told = skipped.len();
    let inside = skip_what_cannot_be_entered(&mut stage, &mut skipped)?;
    print(&skipped[told..].iter().map(told_of).collect::<String>())?;
    if stage.domains.is_empty() {
        return Err(no_domain());
    }
    let path = arguments.folder(&definition.name);
    let (folder, opened) = open_records(&path, &header(&lab, &stage, skipped), arguments.resume)?;
    let environment = environment(&stage).with_domains(inside);
    folder.add_environment(&environment).map_err(Failure::Operation)?;
    let mut watch = Terminal { interrupt: Interrupt::new().map_err(Failure::Operation)? };
    let began_us = os::clock::now();
    measure_ceilings(&lab, &stage, &folder, &opened.ceilings, began_us, &mut watch)?;
    let mut study = Study::new(&stage, &folder, opened, began_us, watch);
    let end = study.run().map_err(|why| stopped(&why))?;
    conclude(end, study.tally(), &path)
}

impl StudyArguments {
    /// Puts what was typed in the place of what the file says.
    fn change(&self, definition: &mut Definition) -> Result<(), Failure> {
        definition.budget_s = self.budget_s()?.or(definition.budget_s);
        if self.mat {
            definition.search_limits().map_err(Failure::Usage)?;
        }
        if definition.domains.is_empty() {
            definition.domains = vec![Domain { name: "here".into(), ..Domain::default() }];
        }
        Ok(())
    }

    fn budget_s(&self) -> Result<Option<f64>, Failure> {
        let Some(budget) = &self.budget else { return Ok(None) };
        let budget_us = parse_duration(budget)
            .map_err(|why| Failure::Usage(format!("--budget {budget}: {why}")))?;
        Ok(Some(budget_us as f64 / 1e6))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| PathBuf::from(name))
    }
}

/// A budget in which not one run fits would be spent at once, however often it is given; `or` is
/// what else would help.
fn check_budget(budget_s: Option<f64>, run_s: f64, or: &str) -> Result<(), Failure> {
    let shown = |seconds: f64| match seconds {
        s if s < 1.0 => format!("{:.3} ms", 1000.0 * s),
        s => minutes(s),
    };
    match budget_s {
        Some(budget_s) if budget_s < run_s => Err(Failure::Usage(format!(
            "a budget of {}: a run of this study alone is reckoned to take {}: give more \
             (--budget), or {or}",
            shown(budget_s),
            shown(run_s)
        ))),
        _ => Ok(()),
    }
}

fn no_domain() -> Failure {
    Failure::Operation("none of the domains can be had here".into())
}

/// Takes out the domains that cannot be had here. What is missing is known before anything is
/// measured, and not from runs that are all void.
fn skip_domains(
    domains: &mut Vec<Domain>,
    skipped: &mut Vec<Skipped>,
    mut can_be_had: impl FnMut(&Domain) -> Result<(), String>,
) {
    domains.retain(|domain| match can_be_had(domain) {
        Ok(()) => true,
        Err(reason) => {
            let server = format!("domain {}", domain.name);
            skipped.push(Skipped { server, reason, command: String::new() });
            false
        }
    });
}

/// Takes out the domains that cannot be had with the files of each workload. What the settings of
/// the kernel are inside of the others.
fn skip_what_cannot_be_entered(
    stage: &mut Stage<'_>,
    skipped: &mut Vec<Skipped>,
) -> Result<SettingsInside, Failure> {
    let mut inside = SettingsInside::new();
    let mut left = Ok(());
    let Stage { domains, workloads, accessed, machine, .. } = stage;
    skip_domains(domains, skipped, |domain| {
        for (workload, files) in workloads.iter().zip(accessed.iter()) {
            let name = &workload.described.name;
            let entered = domain.enter(machine, files).map_err(|why| match workloads.len() {
                1 => why,
                _ => format!("with workload {name}: {why}"),
            })?;
            inside.entry(domain.name.clone()).or_insert_with(|| lab::settings_inside(&entered));
            left = entered.leave().and(left.clone());
        }
        Ok(())
    });
    left.map(|()| inside).map_err(Failure::Operation)
}

/// The servers that can run here, and those that cannot.
fn entrants(lab: &Lab, definition: &Definition) -> Result<(Vec<Entrant>, Vec<Skipped>), Failure> {
    definition.check_servers(&lab.peers).map_err(Failure::Usage)?;
    let (mut entrants, mut skipped) = (Vec::new(), Vec::new());
    for spec in &definition.servers {
        let mut found = lab.look(spec)?;
        skipped.extend(found.skipped.drain(..).map(|one| Skipped {
            server: spec.to_string(),
            reason: one.reason,
            command: one.command,
        }));
        for installed in found.installed {
            let setting = spec.setting(&installed.peer).map_err(Failure::Usage)?;
            entrants.push(Entrant { installed, setting });
        }
    }
    Ok((entrants, skipped))
}

/// The servers that take no part in a domain, although both are here.
fn unfit(entrants: &[Entrant], domains: &[Domain]) -> Vec<Skipped> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for domain in domains {
        for entrant in entrants {
            let Err(reason) = entrant.fits(domain) else { continue };
            let server = format!("{} in domain {}", entrant.installed.peer.name, domain.name);
            // It is the same with each of its settings.
            if skipped.last().is_none_or(|last| last.server != server) {
                skipped.push(Skipped { server, reason, command: String::new() });
            }
        }
    }
    skipped
}

/// How many there are of servers with a workload in a domain.
fn cells(definition: &Definition, entrants: &[Entrant]) -> usize {
    let in_domain = |domain| entrants.iter().filter(|one| one.fits(domain).is_ok()).count();
    definition.domains.iter().map(in_domain).sum::<usize>() * definition.workloads.len()
}

fn stage<'a>(
    lab: &'a Lab,
    definition: &'a Definition,
    entrants: Vec<Entrant>,
) -> Result<Stage<'a>, Failure> {
    let tools = &lab.bench.tools;
    let mut workloads = Vec::new();
    let mut accessed = Vec::new();
    for spec in &definition.workloads {
        let workload = tools.prepare(spec).map_err(Failure::Operation)?;
        check_load(&workload, definition, &lab.bench)?;
        let files = Accessed::of_requests(&workload.root, workload.popularity());
        let bounds_memory = definition.domains.iter().any(|domain| domain.memory.is_some());
        if files.missing() > 0 && bounds_memory {
            return Err(Failure::Operation(format!(
                "workload {}: {} of the paths that its log asks for are no files, and so it is not \
                 known how much `memory` they need",
                spec.name,
                files.missing()
            )));
        }
        accessed.push(files);
        workloads.push(workload);
    }
    Ok(Stage {
        definition,
        bench: &lab.bench,
        surroundings: &lab.surroundings,
        entrants,
        workloads,
        domains: definition.domains.clone(),
        accessed,
        machine: Topology::here(),
    })
}

/// Whether a workload's `load` can be told to generators: else every run would be void.
fn check_load(workload: &Workload, definition: &Definition, bench: &Bench) -> Result<(), Failure> {
    let trial = Trial {
        workload,
        offered: Offered::RequestsPerS(1.0),
        window_s: definition.window_s,
        seed: definition.seed,
        latency_target_us: definition.latency_target_us,
        verify_bytes: definition.verify_bytes,
        is_even: false,
    };
    let seats = definition.domains.iter().map(Domain::seats).max().unwrap_or(1);
    trial.check(bench, seats).map_err(Failure::Usage)
}

fn header(lab: &Lab, stage: &Stage<'_>, skipped: Vec<Skipped>) -> Header {
    let definition = stage.definition;
    Header {
        kind: Kind::Study,
        name: definition.name.clone(),
        title: definition.title.clone(),
        source: definition.source.clone(),
        question: definition.question.clone(),
        expected: definition.expected.clone(),
        definition: definition.text.clone(),
        servers: servers(lab, stage),
        skipped,
        workloads: stage.workloads.iter().map(|workload| workload.described.clone()).collect(),
        domains: stage.domains.iter().map(|domain| described(domain, stage)).collect(),
        planned: planned(stage),
        repetitions: definition.repetitions,
        confidence: definition.confidence,
        estimated_s: estimate_s(definition, stage.cells().len()),
        budget_s: definition.budget_s,
        seed: definition.seed,
        floor: definition.floor.clone().unwrap_or_default(),
        started_unix_us: lab::unix_us(),
        ..Header::default()
    }
}

fn planned(stage: &Stage<'_>) -> Vec<Planned> {
    let point = |cell| stage.point(cell, Offered::default());
    stage.cells().into_iter().map(|cell| point(cell).into()).collect()
}

/// Who takes part, with the configuration of each setting in each domain in which it differs.
fn servers(lab: &Lab, stage: &Stage<'_>) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for Entrant { installed, setting } in &stage.entrants {
        let name = &installed.peer.name;
        let index = servers.iter().position(|server| server.name == *name).unwrap_or_else(|| {
            servers.push(Server {
                name: name.clone(),
                description: installed.peer.description.clone(),
                version: installed.version.clone(),
                ..Server::default()
            });
            servers.len() - 1
        });
        let mut last = String::new();
        for domain in &stage.domains {
            let copies = domain.replicas.unwrap_or(1).max(1);
            let launch = Launch {
                workers: domain.server_cpus(&stage.machine) / copies,
                affinity: domain.affinity,
                ..lab.launch(&stage.workloads[0])
            };
            let text = lab::configuration_text(installed, setting, &launch);
            if text != last {
                let key = match last.is_empty() {
                    true => setting.name.clone(),
                    false => format!("{} ({})", setting.name, domain.name),
                };
                servers[index].configurations.insert(key, text.clone());
                last = text;
            }
        }
    }
    servers
}

fn described(domain: &Domain, stage: &Stage<'_>) -> Described {
    let mut numbers = BTreeMap::from([("cpus".into(), domain.server_cpus(&stage.machine) as f64)]);
    numbers.extend(domain.client_cpus.map(|cpus| ("client_cpus".into(), cpus as f64)));
    Described { name: domain.name.clone(), about: domain.about(), numbers }
}

fn environment(stage: &Stage<'_>) -> Environment {
    let versions = stage
        .entrants
        .iter()
        .map(|Entrant { installed, .. }| (installed.peer.name.clone(), installed.version.clone()));
    Environment::record(versions.collect())
}

/// The ceiling of each domain of which it is not known yet, where the floor is there to find it and
/// the budget holds it and a run. Whoever interrupts it is asked again by the study itself.
fn measure_ceilings(
    lab: &Lab,
    stage: &Stage<'_>,
    folder: &Folder,
    known: &[(String, Ceiling)],
    began_us: u64,
    watch: &mut Terminal,
) -> Result<(), Failure> {
    let run_s = reckoned_run_s(stage.definition);
    let budget_s = stage.definition.budget_s;
    let spent_s = || (os::clock::now() - began_us) as f64 / 1e6;
    let holds = |seconds: f64| budget_s.is_none_or(|budget| spent_s() + seconds <= budget);
    let missing = without_ceiling(&stage.domains, known);
    if missing.is_empty() {
        return Ok(());
    }
    let needed_s = reckoned_ceiling_s(stage.definition) + run_s;
    // Looking for the floor may take seconds, too: it may have to be built.
    if !holds(needed_s) {
        return print(&format!("The path's ceiling is not known: {NO_TIME}\n"));
    }
    let floor: ServerSpec = "floor".parse().map_err(Failure::Operation)?;
    let Found { installed, skipped } = lab.look(&floor)?;
    for one in &skipped {
        print(&format!("The path's ceiling is not known: {}; {}\n", one.reason, one.command))?;
    }
    for installed in installed {
        let setting = floor.setting(&installed.peer).map_err(Failure::Operation)?;
        let floor = Entrant { installed, setting };
        for &index in &missing {
            if watch.is_interrupted() {
                return Ok(());
            }
            let name = &stage.domains[index].name;
            if !holds(needed_s) {
                print(&format!("{name}: its ceiling is not known: {NO_TIME}\n"))?;
                continue;
            }
            // Each of its runs, and one of the study.
            let mut ends = || watch.is_interrupted() || !holds(2.0 * run_s);
            let found = ceiling(stage, &floor, index, &mut ends).map_err(|why| stopped(&why))?;
            match found {
                Ok(found) => {
                    let added = folder.add_ceiling(name, found);
                    added.map_err(|why| stopped(&unable(&why)))?;
                }
                Err(_) if watch.is_interrupted() => return Ok(()),
                Err(_) if !holds(2.0 * run_s) => {
                    print(&format!("{name}: its ceiling is not known: {NO_TIME}\n"))?;
                }
                Err(why) => print(&format!("{name}: its ceiling is not known: {why}\n"))?,
            }
        }
    }
    Ok(())
}

/// The indices of those whose ceiling nobody has measured: all, or, where a study was ended in
/// between, the later ones.
fn without_ceiling(domains: &[Domain], known: &[(String, Ceiling)]) -> Vec<usize> {
    let is_known = |domain: &Domain| known.iter().any(|(name, _)| *name == domain.name);
    (0..domains.len()).filter(|&index| !is_known(&domains[index])).collect()
}

/// What is about to happen, and how long it takes.
fn introduction(definition: &Definition, entrants: &[Entrant], skipped: &[Skipped]) -> String {
    let mut text = format!("{}\n", definition.title);
    if !definition.source.is_empty() {
        text += &format!("after {}\n", definition.source);
    }
    text += &format!(
        "{}, {}, {}, {}: about {}\n",
        counted(entrants.len(), "server"),
        counted(definition.workloads.len(), "workload"),
        counted(definition.domains.len(), "domain"),
        counted(definition.repetitions as usize, "repetition"),
        minutes(estimate_s(definition, cells(definition, entrants))),
    );
    text + &skipped.iter().map(told_of).collect::<String>()
}

fn told_of(skipped: &Skipped) -> String {
    let Skipped { server, reason, command } = skipped;
    match command.as_str() {
        "" => format!("skipped {server}: {reason}\n"),
        command => format!("skipped {server}: {reason}; {command}\n"),
    }
}

/// Runs can no longer be made, or written down: those that there are remain, and it can go on.
fn stopped(why: &str) -> Failure {
    server::report(why);
    Failure::Reported(UNFINISHED)
}

fn conclude(end: End, tally: Tally, path: &Path) -> Result<(), Failure> {
    let path = path.display();
    let Tally { wanted, unknown } = tally;
    let (line, status) = match end {
        End::Complete if unknown > 0 && unknown == wanted => {
            (format!("Nothing could be measured: ropewalk report {path} says why"), 1)
        }
        End::Complete if unknown > 0 => (
            format!(
                "{} of {wanted} are measured, the others could not be: ropewalk report {path}",
                wanted - unknown
            ),
            0,
        ),
        End::Complete => (format!("All is measured: ropewalk report {path}"), 0),
        End::BudgetSpent => {
            (format!("The budget is spent. ropewalk report {path} shows what there is"), UNFINISHED)
        }
        End::Interrupted => (format!("Interrupted. Go on with --resume -o {path}"), UNFINISHED),
    };
    print(&format!("{line}\n"))?;
    if status == 0 { Ok(()) } else { Err(Failure::Reported(status)) }
}

/// Progress goes to standard error, a line for each run.
struct Terminal {
    interrupt: Interrupt,
}

impl Watch for Terminal {
    fn tell(&mut self, line: &str) {
        // Whoever cannot be told need not be.
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.came()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceilings_that_are_missing_are_measured() {
        let domains = ["a", "b", "c"].map(|name| Domain { name: name.into(), ..Domain::default() });
        let check = |known: &[&str], expected: &[usize]| {
            let known = known.iter().map(|&name| (name.to_owned(), Ceiling::default()));
            assert_eq!(without_ceiling(&domains, &known.collect::<Vec<_>>()), expected);
        };
        check(&[], &[0, 1, 2]);
        check(&["a"], &[1, 2]);
        check(&["c", "a", "b"], &[]);
    }
}
