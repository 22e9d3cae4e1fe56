//! A study of the cache by itself: no server, no load, the same options, records and end.

use std::collections::BTreeMap;

use command::estimate::minutes;
use command::{Failure, print};
use lab::cache_study::{self, Definition, Study, estimate_s};
use lab::{Environment, SourceTree};

use super::arguments::StudyArguments;
use super::end::{Terminal, conclude};
use super::missed_text;
use crate::lab_options::open_records;

pub(super) fn study(arguments: &StudyArguments, mut definition: Definition) -> Result<(), Failure> {
    let typed = arguments.mat.then_some("--mat").or_else(|| arguments.lab.first_typed());
    if let Some(option) = typed {
        let file = arguments.experiment.display();
        return Err(Failure::Usage(format!("{option}: {file} has no servers to do that with")));
    }
    definition.budget_s = arguments.budget_s()?.or(definition.budget_s);
    if let Some(repetitions) = arguments.repetitions {
        definition.repeat(repetitions);
    }
    definition.check_budget()?;
    print(&introduction(&definition))?;
    if arguments.dry_run {
        return Ok(());
    }
    let program = cache_study::program(&SourceTree::find(true)).map_err(Failure::Operation)?;
    let path = arguments.folder(&definition.name);
    let environment = Environment::record(BTreeMap::new());
    let (folder, opened) =
        open_records(&path, &definition.header(), &environment, arguments.resume)?;
    let mut study = Study::new(&definition, &program, &folder, &opened.cache, Terminal::new()?);
    let end = study.run()?;
    let tally = study.tally();
    // The progress line goes before the end is printed.
    drop(study);
    conclude(end, tally, &path)
}

/// Describes what is about to happen, and how long it takes.
fn introduction(definition: &Definition) -> String {
    let after = match definition.source.as_str() {
        "" => String::new(),
        source => format!("after {source}\n"),
    };
    let missed = missed_text(definition.repetitions_missed(), |repetitions| {
        minutes(estimate_s(&Definition { repetitions, ..definition.clone() }))
    });
    format!(
        "{}\n{after}{} cells, {} repetitions: about {}\n{missed}",
        definition.title,
        definition.design.cells().len(),
        definition.repetitions,
        minutes(estimate_s(definition))
    )
}
