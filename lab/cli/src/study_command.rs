//! `ropewalk study`: an experiment, from its file to a folder of records. How it is run is the part
//! of `lab`.

mod arguments;
mod end;
mod of_cache;

use command::estimate::{minutes, minutes_between};
use command::{Failure, ProgressLine, notify, print};
use lab::record::Skipped;
use lab::study::{
    Definition, Experiment, Selection, Stage, Study, check_testbeds, estimated_run_s, estimates_s,
};
use lab::workload::Tools;
use page::number::counted;

use crate::lab_options::{open_records, print_builds, print_knob_notices};
pub(crate) use arguments::{STUDY_EXAMPLES, STUDY_HELP, StudyArguments};
use end::{Terminal, conclude};

pub(crate) fn study(arguments: &StudyArguments) -> Result<(), Failure> {
    let experiment = Experiment::read(&arguments.experiment, arguments.size.as_deref());
    match experiment? {
        Experiment::Servers(definition) => study_servers(arguments, *definition),
        Experiment::Cache(definition) => of_cache::study(arguments, *definition),
    }
}

fn study_servers(arguments: &StudyArguments, mut definition: Definition) -> Result<(), Failure> {
    for notice in &definition.notices {
        notify(&format!("{}: {notice}", arguments.experiment.display()));
    }
    if let Some(option) = arguments.lab.cpus_typed() {
        return Err(Failure::Usage(format!(
            "{option}: a study's testbeds assign the CPUs: put `cpus` and `client_cpus` \
             under [[testbeds]] in {}; `taskset` bounds what they are taken from",
            arguments.experiment.display()
        )));
    }
    definition.budget_s = arguments.budget_s()?.or(definition.budget_s);
    if let Some(repetitions) = arguments.repetitions {
        definition.repeat(repetitions);
    }
    if arguments.mat {
        definition.search_limits().map_err(Failure::Usage)?;
    }
    definition.check_budget(estimated_run_s(&definition))?;
    let mut lab = arguments.lab.open()?;
    definition.settle_bounds(&mut lab.load_setup, arguments.lab.interference_bound()?);
    definition.servers.iter().for_each(|typed| print_knob_notices(&lab, typed));
    print_builds(&lab, &definition.servers)?;
    let selection =
        ProgressLine::during("looking for the servers", || Selection::find(&lab, &mut definition))?;
    print(&introduction(&definition, &selection, &lab.load_setup.tools))?;
    if arguments.dry_run {
        return Ok(());
    }
    let mut stage =
        ProgressLine::during("preparing the workloads", || selection.stage(&lab, &definition))?;
    let (more, inside) = ProgressLine::during("trying the testbeds", || stage.try_testbeds())?;
    print(&more.iter().map(skipped_line).collect::<String>())?;
    check_testbeds(&stage.testbeds)?;
    definition.check_budget(stage.estimated_run_s())?;
    print(&pauses_text(&stage))?;
    let path = arguments.folder(&definition.name);
    let skipped = [selection.skipped, more].concat();
    let header = stage.header(&lab, skipped);
    let environment = stage.environment().with_testbeds(inside);
    let (folder, opened) = open_records(&path, &header, &environment, arguments.resume)?;
    let mut watch = Terminal::new()?;
    let began_us = os::clock::now();
    let mut unknown = String::new();
    let mut note = |line: &str| -> Result<(), Failure> {
        unknown += &format!("{line}\n");
        Ok(())
    };
    watch.show("measuring the ceilings of the testbeds");
    stage.measure_ceilings(&lab, &folder, &opened.ceilings, began_us, &mut watch, &mut note)?;
    watch.clear();
    print(&unknown)?;
    let mut study = Study::new(&stage, &folder, opened, began_us, watch);
    let end = study.run()?;
    let tally = study.tally();
    // The progress line goes before the end is printed.
    drop(study);
    conclude(end, tally, &path)
}

/// The least seconds that making files is said to take: less is within the estimate.
const MAKING_SAID_S: f64 = 5.0;

/// Describes what is about to happen, and how long it takes.
fn introduction(definition: &Definition, selection: &Selection, tools: &Tools) -> String {
    let cells = selection.cells(definition);
    let mut text = format!("{}\n", definition.title);
    if !definition.source.is_empty() {
        text += &format!("after {}\n", definition.source);
    }
    text += &format!(
        "{}, {}, {}, {}: about {}\n",
        counted(selection.participants.len(), "server"),
        counted(definition.workloads.len(), "workload"),
        counted(definition.testbeds.len(), "testbed"),
        counted(definition.repetitions as usize, "repetition"),
        minutes_between(estimates_s(definition, cells, estimated_run_s(definition))),
    );
    text += &missed_text(definition.repetitions_missed(), |repetitions| {
        let more = Definition { repetitions, ..definition.clone() };
        minutes_between(estimates_s(&more, cells, estimated_run_s(&more)))
    });
    let making_s = tools.making_s(&definition.workloads);
    if making_s >= MAKING_SAID_S {
        text += &format!("before that the files are made: about {}\n", minutes(making_s));
    }
    text + &selection.skipped.iter().map(skipped_line).collect::<String>()
}

/// That there are too few repetitions for the claims to be decided, and with which option there
/// are enough; `time` is how long that many take.
fn missed_text(missed: Option<u32>, time: impl Fn(u32) -> String) -> String {
    missed.map_or_else(String::new, |least| {
        format!(
            "too few repetitions for its claims to be decided: --repetitions {least}: about {}\n",
            time(least)
        )
    })
}

/// What pauses of sessions cost in time, and how long the study takes then.
fn pauses_text(stage: &Stage<'_>) -> String {
    let line = |(workload, seconds)| {
        format!(
            "workload {workload}: its sessions pause, so each run begins {seconds:.1} s before \
             its window\n"
        )
    };
    let lines: String = stage.fillings().map(line).collect();
    match lines.is_empty() {
        true => lines,
        false => format!("{lines}with that about {}\n", minutes_between(stage.estimates_s())),
    }
}

fn skipped_line(skipped: &Skipped) -> String {
    let Skipped { what, reason, command } = skipped;
    match command.as_str() {
        "" => format!("skipped {what}: {reason}\n"),
        command => format!("skipped {what}: {reason}; {command}\n"),
    }
}
