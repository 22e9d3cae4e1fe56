//! Separate tables: a paper's own, and every number that its text states, each beside the simulated
//! ones.

use page::chart::Table;
use page::document::Section;
use page::number::plain;

use super::data::{Paper, Row, Stated};
use crate::simulate_command::measured::{Runs, Scales, Value};

/// The paper's own table; none if it has no table.
pub(super) fn paper_table(paper: &Paper, runs: &Runs) -> Result<Option<Section>, String> {
    let Some(own) = &paper.table else { return Ok(None) };
    let mut table = Table::new(&[
        "Machine",
        "GSP, paper",
        "GSP, ours",
        "Deviation",
        "Bus, paper",
        "Bus, ours",
        "Deviation",
        "Scales to, paper",
        "Scales to, ours",
        "GSP there, paper",
        "GSP there, ours",
        "Deviation",
    ]);
    table.rows = own.rows.iter().map(|one| row(paper, runs, one)).collect::<Result<_, _>>()?;
    Ok(Some(Section { id: own.id.clone(), title: own.title.clone(), table, folded: false }))
}

fn row(paper: &Paper, runs: &Runs, row: &Row) -> Result<Vec<String>, String> {
    let spec = paper.machine(&row.machine)?;
    let ours = runs.get(&spec);
    let scales = runs.scales(&spec);
    let shown = |value: Option<Value>| value.map_or_else(absent, Value::show);
    let (gsp, bus) = (ours.map(|one| one.gsp), ours.map(|one| one.bus_percent));
    let there = scales.map(|found| Value { mean: found.gsp(), half: 0.0 });
    Ok(vec![
        spec.describe(),
        plain(row.gsp),
        shown(gsp),
        deviation(gsp, row.gsp),
        format!("{} %", plain(row.bus)),
        bus.map_or_else(absent, |value| format!("{} %", value.show())),
        deviation(bus, row.bus),
        row.scales_to.to_string(),
        scales.map_or_else(absent, Scales::show),
        format!("~{}", plain(row.gsp_there)),
        shown(there),
        deviation(there, row.gsp_there),
    ])
}

fn absent() -> String {
    "not simulated".into()
}

/// The deviation of the simulated value from the paper's, in percent of the paper's.
pub(super) fn deviation(ours: Option<Value>, paper: f64) -> String {
    let percent = ours.map(|value| ((value.mean / paper - 1.0) * 100.0).round());
    match percent {
        None => String::new(),
        // Never "-0 %".
        Some(0.0) => "0 %".into(),
        Some(percent) => format!("{percent:+.0} %"),
    }
}

/// The numbers stated in the paper's text; none if it states none.
pub(super) fn stated(paper: &Paper, runs: &Runs) -> Result<Option<Section>, String> {
    if paper.stated.is_empty() {
        return Ok(None);
    }
    let mut table =
        Table::new(&["Where it stands", "Machine", "What", "Paper", "Ours", "Deviation"]);
    table.rows =
        paper.stated.iter().map(|one| stated_row(paper, runs, one)).collect::<Result<_, _>>()?;
    let title = "Numbers in the paper's text and captions".into();
    Ok(Some(Section { id: "stated".into(), title, table, folded: false }))
}

fn stated_row(paper: &Paper, runs: &Runs, one: &Stated) -> Result<Vec<String>, String> {
    let spec = paper.machine(&one.machine)?;
    let ours = one.what.evaluate(runs, &spec);
    let machine = if one.what.is_of_kind() { spec.kind() } else { spec.describe() };
    let shown = one.what.words(runs, &spec);
    let shown = shown.unwrap_or_else(|| ours.map_or_else(absent, Value::show));
    let deviation = deviation(ours, one.value);
    Ok(vec![one.place.clone(), machine, one.what.name(), plain(one.value), shown, deviation])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_of_the_papers_number() {
        let of = |mean| deviation(Some(Value { mean, half: 0.0 }), 5.0);
        assert_eq!([of(5.5), of(4.0), of(4.99), of(5.01)], ["+10 %", "-20 %", "0 %", "0 %"]);
        assert_eq!(deviation(None, 5.0), "");
    }
}
