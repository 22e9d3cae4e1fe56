//! The report of a study of the cache by itself, in the forms of any report but with other tables.
//! All functions are pure.

mod claims;
mod figures;
mod findings;
mod measure;
mod summary;
mod tables;

use page::document::Section;

use super::document::{self, Document};
use super::summary::spreads;
use super::{csv, number};
use crate::cache_study::Part;
use crate::record::Opened;
use crate::void::in_words;
use measure::Measure;
pub(crate) use summary::Summary;

/// Makes the whole report.
pub(crate) fn document(opened: &Opened, summary: &Summary) -> Document {
    let section = |id: String, title: String, table, folded| Section { id, title, table, folded };
    let summaries = Part::ALL.map(|part| {
        section(
            anchor("summary", part),
            part.title().into(),
            tables::part_table(summary, part),
            false,
        )
    });
    let mut sections: Vec<Section> = Part::ALL
        .map(|part| {
            let title = format!("{}, each against {}", part.title(), part.stores()[0]);
            section(anchor("against", part), title, tables::against(summary, part), true)
        })
        .into();
    let environment = super::tables::environment(opened);
    sections.push(section("environment".into(), "Machine".into(), environment, true));
    let is_filled = |section: &Section| !section.table.rows.is_empty();
    sections.retain(is_filled);
    Document {
        title: document::title(&opened.header),
        preamble: preamble(opened, summary),
        facts: findings::facts(opened, summary),
        matrices: Vec::new(),
        findings: findings::findings(opened, summary),
        summaries: summaries.into_iter().filter(is_filled).collect(),
        figures: figures::figures(summary),
        sections,
        texts: vec![("The definition".into(), opened.header.definition.clone())],
    }
}

fn anchor(kind: &str, part: Part) -> String {
    format!("{kind}-{}", part.title().to_lowercase().replace(' ', "-"))
}

fn preamble(opened: &Opened, summary: &Summary) -> Vec<String> {
    let header = &opened.header;
    let mut lines = vec![format!(
        "A study of the cache by itself, without a server, begun {}; {} measurements of {} cells, \
         {} asked for of each.",
        number::moment(header.started_unix_us),
        opened.cache.len(),
        summary.rows.len(),
        header.repetitions
    )];
    lines.extend(document::question_lines(header));
    lines.extend(header.workloads.iter().map(|workload| format!("{}.", workload.about)));
    lines.push(format!(
        "Medians over blocks with {}. Times of a lookup or a load are by the clock; \
         a request's CPU time is the mean over all threads, and includes the load if it missed.",
        spreads(summary.rows.iter().map(|row| row.blocks.len()), summary.confidence)
    ));
    lines
}

/// Makes a CSV with a line for each measurement. Units are in the heads, and nothing is rounded.
pub(crate) fn csv_runs(opened: &Opened) -> String {
    let mut heads = tables::CELL_HEADS.map(str::to_owned).to_vec();
    heads.extend(["block".into(), "void".into()]);
    heads.extend(Measure::ALL.iter().map(|measure| measure.key().to_owned()));
    let lines = opened.cache.iter().map(|run| {
        let values = Measure::ALL.iter().map(|measure| {
            measure.value(&run.numbers).map_or_else(String::new, |value| value.to_string())
        });
        let head = tables::cell_fields(&run.cell)
            .into_iter()
            .chain([run.block.to_string(), in_words(&run.void)]);
        csv::line(head.chain(values))
    });
    std::iter::once(csv::line(heads.into_iter())).chain(lines).collect()
}

/// Makes a CSV with a line for each cell: medians and the ends of their intervals.
pub(crate) fn csv_points(summary: &Summary) -> String {
    let mut heads = tables::CELL_HEADS.map(str::to_owned).to_vec();
    heads.push("blocks".into());
    for measure in Measure::ALL {
        let key = measure.key();
        heads.extend([key.to_owned(), format!("{key}_low"), format!("{key}_high")]);
    }
    let lines = summary.rows.iter().map(|row| {
        let values = Measure::ALL.iter().flat_map(|&measure| {
            summary.estimate(row, measure).map_or_else(Default::default, |estimate| {
                [estimate.median, estimate.interval.low, estimate.interval.high]
                    .map(|value| value.to_string())
            })
        });
        let head = tables::cell_fields(&row.cell).into_iter().chain([row.blocks.len().to_string()]);
        csv::line(head.chain(values))
    });
    std::iter::once(csv::line(heads.into_iter())).chain(lines).collect()
}
