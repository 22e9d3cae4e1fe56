//! A study of the cache by itself: no server, no load, the same options, records and end.

use std::collections::BTreeMap;

use lab::Environment;
use lab::cache_study::{Definition, Study, clock_ns, estimate_s, reckoned_one_s};
use lab::record::{Described, Header, Kind};
use lab::study::{Tally, minutes};
use load::interrupt::Interrupt;

use super::{StudyArguments, Terminal, check_budget, conclude};
use crate::lab_options::open_records;
use crate::{Failure, print};

pub(super) fn study(arguments: &StudyArguments, mut definition: Definition) -> Result<(), Failure> {
    let typed = arguments.mat.then_some("--mat").or_else(|| arguments.lab.first_typed());
    if let Some(option) = typed {
        let file = arguments.experiment.display();
        return Err(Failure::Usage(format!("{option}: {file} has no servers to do that with")));
    }
    definition.budget_s = arguments.budget_s()?.or(definition.budget_s);
    check_budget(definition.budget_s, reckoned_one_s(&definition), "fewer `requests`")?;
    let cells = definition.design.cells().len();
    let (repetitions, estimated_s) = (definition.repetitions, estimate_s(&definition));
    let after = match definition.source.as_str() {
        "" => String::new(),
        source => format!("after {source}\n"),
    };
    print(&format!(
        "{}\n{after}{cells} cells, {repetitions} repetitions: about {}\n",
        definition.title,
        minutes(estimated_s)
    ))?;
    if arguments.dry_run {
        return Ok(());
    }
    let path = arguments.folder(&definition.name);
    let header = header(&definition, estimated_s);
    let (folder, opened) = open_records(&path, &header, arguments.resume)?;
    let environment = Environment::record(BTreeMap::new());
    folder.add_environment(&environment).map_err(Failure::Operation)?;
    let watch = Terminal { interrupt: Interrupt::new().map_err(Failure::Operation)? };
    let mut study = Study::new(&definition, &folder, &opened.cache, watch);
    conclude(study.run().map_err(Failure::Operation)?, Tally::default(), &path)
}

fn header(definition: &Definition, estimated_s: f64) -> Header {
    let clock_ns = clock_ns();
    let (keys, requests) = (definition.design.keys, definition.design.requests);
    Header {
        kind: Kind::Cache,
        name: definition.name.clone(),
        title: definition.title.clone(),
        source: definition.source.clone(),
        question: definition.question.clone(),
        expected: definition.expected.clone(),
        definition: definition.text.clone(),
        workloads: vec![Described {
            name: "zipf".into(),
            about: format!(
                "{keys} keys, {requests} requests by Zipf's law in each measurement; reading the \
                 clock takes {clock_ns:.0} ns, which every time of a lookup or a load includes"
            ),
            numbers: BTreeMap::from([
                ("keys".into(), keys as f64),
                ("requests".into(), requests as f64),
                ("clock_ns".into(), clock_ns),
            ]),
        }],
        repetitions: definition.repetitions,
        confidence: definition.confidence,
        estimated_s,
        budget_s: definition.budget_s,
        seed: definition.seed,
        started_unix_us: lab::unix_us(),
        ..Header::default()
    }
}
