//! The figures of a study of the cache, Figures A.3 and A.4 among them.

use page::chart::{Axis, Chart, Curve, Dot, Drawing, Figure, Form, Table};

use super::measure::Measure;
use super::number;
use super::summary::{Row, Summary};
use crate::cache_study::{Cell, Design, Part};

/// The quantity on the horizontal axis of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Cached,
    Alpha,
    Threads,
    Bytes,
    Keys,
}

struct Kind {
    id: &'static str,
    title: &'static str,
    part: Part,
    measure: Measure,
    over: Over,
}

const fn kind(
    id: &'static str,
    title: &'static str,
    part: Part,
    measure: Measure,
    over: Over,
) -> Kind {
    Kind { id, title, part, measure, over }
}

const KINDS: [Kind; 13] = [
    kind("a3-get", "Lists: get (A.3 a)", Part::Lists, Measure::GetMedian, Over::Cached),
    kind("a3-set", "Lists: set (A.3 b)", Part::Lists, Measure::SetMedian, Over::Cached),
    kind("a3-evict", "Lists: evict (A.3 b)", Part::Lists, Measure::EvictMedian, Over::Cached),
    kind("a4-request", "Lists: request (A.4)", Part::Lists, Measure::RequestMedian, Over::Alpha),
    kind("a4-cpu", "Lists: CPU of a request (A.4)", Part::Lists, Measure::Cpu, Over::Alpha),
    kind("lists-threads", "Lists: CPU by threads", Part::Lists, Measure::Cpu, Over::Threads),
    kind("locks-cpu", "Locks: CPU of a request", Part::Locks, Measure::Cpu, Over::Threads),
    kind("locks-rate", "Locks: throughput", Part::Locks, Measure::Rate, Over::Threads),
    kind("copies", "Copies: CPU of a request", Part::Copies, Measure::Cpu, Over::Bytes),
    kind("levels", "Levels: CPU of a request", Part::Levels, Measure::Cpu, Over::Keys),
    kind("hits-alpha", "Policies: hits by alpha", Part::Policies, Measure::Hits, Over::Alpha),
    kind("hits-cached", "Policies: hits by size", Part::Policies, Measure::Hits, Over::Cached),
    kind("hits-crawler", "Hits beside a crawler", Part::Crawler, Measure::Hits, Over::Cached),
];

/// Makes the figures for which there are data.
pub(super) fn figures(summary: &Summary) -> Vec<Figure> {
    let Some(design) = &summary.design else { return Vec::new() };
    KINDS.iter().filter_map(|kind| figure(summary, design, kind)).collect()
}

fn figure(summary: &Summary, design: &Design, kind: &Kind) -> Option<Figure> {
    let stores = kind.part.stores();
    let mut curves: Vec<Curve> = stores
        .iter()
        .enumerate()
        .map(|(style, store)| {
            let rows = summary.rows_of_part(kind.part).filter(|row| row.cell.store == *store);
            let rows = rows.filter(|row| is_on(&row.cell, kind.over, design));
            let mut dots: Vec<Dot> = rows.filter_map(|row| dot(summary, row, kind)).collect();
            dots.sort_by(|a, b| a.x.total_cmp(&b.x));
            Curve { label: store.to_string(), form: Form::Measured, style, dots }
        })
        .collect();
    curves.retain(|curve| curve.dots.len() > 1);
    if curves.is_empty() {
        return None;
    }
    let table = table(&curves, kind.over);
    let x = match kind.over {
        Over::Bytes | Over::Keys => Axis::log(kind.over.label()),
        _ => Axis::linear(kind.over.label()),
    };
    let chart = Chart { x, y: Axis::linear(kind.measure.title()), curves };
    Some(Figure {
        id: kind.id.into(),
        title: kind.title.into(),
        about: about(kind, design),
        drawing: Drawing::Lines(chart),
        table,
    })
}

/// Whether all factors of a cell but that of the horizontal axis have the values used elsewhere.
fn is_on(cell: &Cell, over: Over, design: &Design) -> bool {
    let varies = |own| over == own;
    let few = matches!(cell.part, Part::Copies | Part::Levels);
    let all_cached = few || cell.part == Part::Locks;
    (varies(Over::Alpha) || cell.part == Part::Levels || cell.alpha == design.alpha)
        && (varies(Over::Cached) || all_cached || cell.cached_percent == design.cached)
        && (varies(Over::Threads)
            || matches!(cell.part, Part::Levels | Part::Crawler)
            || cell.threads == design.threads[0])
}

fn dot(summary: &Summary, row: &Row, kind: &Kind) -> Option<Dot> {
    let estimate = summary.estimate(row, kind.measure)?;
    let (low, high) = (estimate.interval.low, estimate.interval.high);
    Some(Dot { x: kind.over.value(&row.cell), y: estimate.median, low, high })
}

fn about(kind: &Kind, design: &Design) -> String {
    let mut held = Vec::new();
    if !matches!(kind.part, Part::Levels) && kind.over != Over::Alpha {
        held.push(format!("alpha {}", design.alpha));
    }
    match kind.part {
        Part::Lists | Part::Policies | Part::Crawler if kind.over != Over::Cached => {
            held.push(format!("{} % of the keys cached", design.cached));
        }
        Part::Locks | Part::Copies | Part::Levels => held.push("all keys cached".into()),
        _ => {}
    }
    if kind.over != Over::Threads {
        let threads =
            if matches!(kind.part, Part::Levels | Part::Crawler) { 1 } else { design.threads[0] };
        held.push(format!("threads: {threads}"));
    }
    format!("{}. Points are medians over blocks, bands their intervals.", held.join(", "))
}

impl Over {
    fn label(self) -> &'static str {
        match self {
            Self::Cached => "keys cached, %",
            Self::Alpha => "Zipf's alpha",
            Self::Threads => "threads",
            Self::Bytes => "bytes of a value",
            Self::Keys => "keys",
        }
    }

    fn value(self, cell: &Cell) -> f64 {
        match self {
            Self::Cached => cell.cached_percent,
            Self::Alpha => cell.alpha,
            Self::Threads => f64::from(cell.threads),
            Self::Bytes => f64::from(cell.value_bytes),
            Self::Keys => cell.keys as f64,
        }
    }
}

fn table(curves: &[Curve], over: Over) -> Table {
    let mut places: Vec<f64> =
        curves.iter().flat_map(|curve| curve.dots.iter().map(|dot| dot.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut table = Table::new(&[over.label()]);
    table.heads.extend(curves.iter().map(|curve| curve.label.clone()));
    table.rows.extend(places.into_iter().map(|place| {
        let cells = curves.iter().map(|curve| {
            let dot = curve.dots.iter().find(|dot| dot.x == place);
            dot.map_or_else(String::new, |dot| {
                number::interval(dot.y, dot.low, dot.high, number::figure)
            })
        });
        std::iter::once(number::plain(place)).chain(cells).collect()
    }));
    table
}
