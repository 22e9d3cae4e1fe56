//! Tables that stand by themselves: Table 5, and every number that the paper states, each beside
//! ours.

use page::chart::Table;
use page::document::Section;
use page::number::plain;

use super::stated::{Quantity, ROWS, Row, STATED, Stated};
use crate::simulate_command::measured::{Runs, Scales, Value};

pub(super) fn table_5(runs: &Runs) -> Section {
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
    table.rows = ROWS.iter().map(|row| table_5_row(runs, row)).collect();
    Section { id: "table-5".into(), title: "Table 5".into(), table, folded: false }
}

fn table_5_row(runs: &Runs, row: &Row) -> Vec<String> {
    let ours = runs.get(&row.spec);
    let scales = runs.scales(&row.spec);
    let shown = |value: Option<Value>| value.map_or_else(absent, Value::show);
    let (gsp, bus) = (ours.map(|one| one.gsp), ours.map(|one| one.bus_percent));
    let there = scales.map(|found| Value { mean: found.gsp(), half: 0.0 });
    vec![
        row.spec.describe(),
        plain(row.gsp),
        shown(gsp),
        deviation(gsp, row.gsp),
        format!("{} %", plain(row.bus_percent)),
        bus.map_or_else(absent, |value| format!("{} %", value.show())),
        deviation(bus, row.bus_percent),
        row.scales_to.to_string(),
        scales.map_or_else(absent, Scales::show),
        format!("~{}", plain(row.gsp_there)),
        shown(there),
        deviation(there, row.gsp_there),
    ]
}

fn absent() -> String {
    "not simulated".into()
}

/// How far ours is from the paper's, in percent of the paper's.
pub(super) fn deviation(ours: Option<Value>, paper: f64) -> String {
    let percent = ours.map(|value| ((value.mean / paper - 1.0) * 100.0).round());
    match percent {
        None => String::new(),
        // Never "-0 %".
        Some(0.0) => "0 %".into(),
        Some(percent) => format!("{percent:+.0} %"),
    }
}

pub(super) fn stated(runs: &Runs) -> Section {
    let mut table =
        Table::new(&["Where it stands", "Machine", "What", "Paper", "Ours", "Deviation"]);
    table.rows = STATED.iter().map(|one| stated_row(runs, one)).collect();
    Section {
        id: "stated".into(),
        title: "Numbers in the paper's text and captions".into(),
        table,
        folded: false,
    }
}

fn stated_row(runs: &Runs, one: &Stated) -> Vec<String> {
    let ours = ours(runs, one);
    let machine = match one.quantity {
        Quantity::ScalesTo | Quantity::GspThere => one.spec.kind(),
        _ => one.spec.describe(),
    };
    let shown = match (one.quantity, runs.scales(&one.spec), ours) {
        (Quantity::ScalesTo, Some(scales), _) => scales.show(),
        (_, _, Some(value)) => value.show(),
        _ => absent(),
    };
    vec![
        one.place.into(),
        machine,
        one.quantity.name().into(),
        plain(one.value),
        shown,
        deviation(ours, one.value),
    ]
}

fn ours(runs: &Runs, one: &Stated) -> Option<Value> {
    let machine = runs.get(&one.spec);
    match one.quantity {
        Quantity::Gsp => machine.map(|one| one.gsp),
        Quantity::Bus => machine.map(|one| one.bus_percent),
        Quantity::CoherenceOfBus => machine.map(|one| one.rate(|seed| seed.coherence_of_bus)),
        Quantity::ScalesTo => {
            runs.scales(&one.spec).map(|found| Value::exactly(f64::from(found.cpus())))
        }
        Quantity::GspThere => runs.scales(&one.spec).map(|found| Value::exactly(found.gsp())),
    }
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
