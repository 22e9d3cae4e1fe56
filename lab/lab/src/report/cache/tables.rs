//! The tables of a study of the cache.

use super::measure::Measure;
use super::number;
use super::summary::{Row, Summary};
use crate::cache_study::{Cell, Part};
use page::chart::Table;

/// The names, for programs, of the fields that distinguish cells.
pub(super) const CELL_HEADS: [&str; 7] =
    ["part", "store", "keys", "cached_percent", "alpha", "threads", "value_bytes"];

/// The values, for programs, of the fields that distinguish a cell: one for each of [`CELL_HEADS`].
pub(super) fn cell_fields(cell: &Cell) -> [String; 7] {
    [
        cell.part.title().to_owned(),
        cell.store.to_string(),
        cell.keys.to_string(),
        cell.cached_percent.to_string(),
        cell.alpha.to_string(),
        cell.threads.to_string(),
        cell.value_bytes.to_string(),
    ]
}

/// A factor that may vary within a part: its head, and its value.
type Varied = (&'static str, fn(&Cell) -> f64);

const VARIED: [Varied; 5] = [
    ("keys", |cell| cell.keys as f64),
    ("bytes", |cell| f64::from(cell.value_bytes)),
    ("cached, %", |cell| cell.cached_percent),
    ("alpha", |cell| cell.alpha),
    ("threads", |cell| f64::from(cell.threads)),
];

/// The factors that vary in these cells.
fn varied(rows: &[&Row]) -> Vec<Varied> {
    let first = rows.first().map(|row| &row.cell);
    let varies = |of: fn(&Cell) -> f64| {
        rows.iter().any(|row| first.is_some_and(|first| of(&row.cell) != of(first)))
    };
    VARIED.into_iter().filter(|(_, of)| varies(*of)).collect()
}

/// Makes the table of all cells of a part, with their results.
pub(super) fn part_table(summary: &Summary, part: Part) -> Table {
    let rows: Vec<&Row> = summary.rows_of_part(part).collect();
    let (varied, measures) = (varied(&rows), Measure::in_table_of(part));
    let mut table = table(&varied, measures.iter().map(|measure| measure.title().to_owned()));
    table.rows.extend(rows.iter().map(|row| {
        let values = measures.iter().map(|&measure| {
            let estimate = summary.estimate(row, measure);
            estimate.map_or_else(String::new, |found| number::estimate(&found, number::figure))
        });
        head(row, &varied).chain(values).collect()
    }));
    table
}

/// Makes the table of the ratios to the first store, with the intervals of the paired ratios.
pub(super) fn against(summary: &Summary, part: Part) -> Table {
    let first = part.stores()[0];
    let rows: Vec<&Row> =
        summary.rows_of_part(part).filter(|row| row.cell.store != first).collect();
    let (varied, measures) = (varied(&rows), Measure::compared(part));
    let mut table = table(&varied, measures.iter().map(|one| format!("{}, times", one.title())));
    for row in rows {
        let ratios: Vec<String> = measures
            .iter()
            .map(|&measure| {
                let ratio = summary.against_first(row, measure);
                ratio.map_or_else(String::new, |found| number::estimate(&found, number::ratio))
            })
            .collect();
        if ratios.iter().any(|ratio| !ratio.is_empty()) {
            table.rows.push(head(row, &varied).chain(ratios).collect());
        }
    }
    table
}

fn table(varied: &[Varied], measures: impl Iterator<Item = String>) -> Table {
    let mut table = Table::new(&["Store"]);
    table.heads.extend(varied.iter().map(|(head, _)| (*head).to_owned()));
    table.heads.extend(measures);
    table
}

fn head<'a>(row: &'a Row, varied: &'a [Varied]) -> impl Iterator<Item = String> + 'a {
    let conditions = varied.iter().map(|(_, of)| number::plain(of(&row.cell)));
    std::iter::once(row.cell.store.to_string()).chain(conditions)
}
