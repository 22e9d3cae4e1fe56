//! The measurements of a study of the cache, collected by cell.

use std::collections::BTreeMap;

use statistics::{Estimate, median_estimate, paired_ratio};

use super::measure::Measure;
use crate::cache_study::{Cell, Claim, Definition, Design, Numbers, Part, Store};
use crate::record::Opened;

/// The cells in the order of their design.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) rows: Vec<Row>,
    pub(crate) confidence: f64,
    /// The design of the study; none if the header's definition cannot be parsed.
    pub(crate) design: Option<Design>,
    /// What the source found.
    pub(crate) claims: Vec<Claim>,
}

/// A cell, and its results in each block.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cell: Cell,
    pub(crate) blocks: BTreeMap<u32, Numbers>,
}

impl Summary {
    pub(crate) fn new(opened: &Opened) -> Self {
        let header = &opened.header;
        let definition = Definition::parse(&header.name, &header.definition, None).ok();
        let (design, claims) =
            definition.map(|definition| (definition.design, definition.claims)).unzip();
        let mut rows: Vec<Row> = Vec::new();
        for cell in design.iter().flat_map(Design::cells) {
            rows.push(Row { cell, blocks: BTreeMap::new() });
        }
        for run in opened.cache.iter().filter(|run| run.void.is_empty()) {
            let index = rows.iter().position(|row| row.cell == run.cell).unwrap_or_else(|| {
                rows.push(Row { cell: run.cell.clone(), blocks: BTreeMap::new() });
                rows.len() - 1
            });
            rows[index].blocks.insert(run.block, run.numbers.clone());
        }
        rows.retain(|row| !row.blocks.is_empty());
        let claims = claims.unwrap_or_default();
        Self { rows, confidence: header.confidence, design, claims }
    }

    pub(crate) fn rows_of_part(&self, part: Part) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.cell.part == part)
    }

    /// The median of a measure over the blocks of a row; none if it was not measured.
    pub(crate) fn estimate(&self, row: &Row, measure: Measure) -> Option<Estimate> {
        let values: Vec<f64> =
            row.blocks.values().filter_map(|numbers| measure.value(numbers)).collect();
        median_estimate(&values, self.confidence)
    }

    /// The row of the part's first store under the same conditions; none if `row` is that row.
    pub(crate) fn first_of(&self, row: &Row) -> Option<&Row> {
        self.in_store(row, row.cell.part.stores()[0])
    }

    fn in_store(&self, row: &Row, store: Store) -> Option<&Row> {
        let other = Cell { store, ..row.cell.clone() };
        self.rows.iter().find(|row| row.cell == other).filter(|_| other != row.cell)
    }

    /// The ratio to the part's first store, block by block; none for the first store itself.
    pub(crate) fn against_first(&self, row: &Row, measure: Measure) -> Option<Estimate> {
        self.against(row, row.cell.part.stores()[0], measure, self.confidence)
    }

    /// The ratio to another store under the same conditions, block by block; none for that store
    /// itself.
    pub(crate) fn against(
        &self,
        row: &Row,
        store: Store,
        measure: Measure,
        confidence: f64,
    ) -> Option<Estimate> {
        let first = self.in_store(row, store)?;
        let pairs = row.blocks.iter().filter_map(|(block, numbers)| {
            Some((measure.value(numbers)?, measure.value(first.blocks.get(block)?)?))
        });
        let (own, others): (Vec<f64>, Vec<f64>) = pairs.unzip();
        paired_ratio(&own, &others, confidence)
    }
}
