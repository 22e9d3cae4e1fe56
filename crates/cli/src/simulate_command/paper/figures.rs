//! The paper's figures from the run: each a drawing and a table, with what the paper states of it.
//!
//! Breakdowns are columns, everything else is curves. What the paper says of a point is a mark of
//! its own; nothing was read off its drawings.

use coherence::{Miss, Sharing};
use page::chart::{Axis, Bars, Chart, Curve, Dot, Drawing, Figure, Form, Table};
use page::number::{figure, plain};

use super::plan::{BLOCKS, CPUS, PROTOCOLS, SCHEDULERS, SIZES_KIB, WAYS, scalings};
use super::stated::{self, Quantity};
use super::tables::deviation;
use crate::simulate_command::lists::Scheduler;
use crate::simulate_command::measured::{Measured, Rates, Runs, Value};
use crate::simulate_command::spec::{Spec, size};

/// Looks of the paper's own points; no series of ours has them.
const PAPER_STYLE: usize = 6;

/// A figure's words.
struct Words {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    x: &'static str,
    y: &'static str,
}

/// A curve: its machines, each at its place.
struct Series {
    label: String,
    points: Vec<(f64, Spec)>,
}

/// What is shown of a machine.
type Of = fn(&Measured) -> Value;

/// A part of a breakdown, for 100 references.
type Part = (&'static str, fn(&Rates) -> f64);

pub(super) fn all(runs: &Runs) -> Vec<Figure> {
    let figures = [
        over_caches(runs, &FIGURE_1, |one| one.gsp, Quantity::Gsp),
        over_caches(runs, &FIGURE_2, |one| one.bus_percent, Quantity::Bus),
        columns(runs, &FIGURE_3, &caches(), &INVALIDATION_PARTS),
        columns(runs, &FIGURE_4, &caches(), &TRANSACTION_PARTS),
        over_blocks(runs, &BLOCKS_GSP, |one| one.gsp, Quantity::Gsp),
        over_blocks(runs, &BLOCKS_BUS, |one| one.bus_percent, Quantity::Bus),
        over_schedulers(runs),
        columns(runs, &FIGURE_6, &schedulers(), &MISS_PARTS),
        columns(runs, &FIGURE_7, &schedulers(), &TRANSACTION_PARTS),
        over_cpus(runs, &FIGURE_8, |one| one.gsp, Some(Quantity::Gsp)),
        over_cpus(runs, &FIGURE_9, |one| one.cpu_percent, None),
        over_cpus(runs, &FIGURE_10, |one| one.misses_of(Miss::is_invalidation), None),
        over_cpus(runs, &FIGURE_11, |one| one.misses_of(|_| true), None),
        over_cpus(runs, &FIGURE_11_TEXT, Measured::transactions, None),
        scalability(runs),
    ];
    figures.into_iter().flatten().collect()
}

const FIGURE_1: Words = Words {
    id: "figure-1",
    title: "Figure 1: GSP over cache size and ways",
    about: "4 processors, blocks of 32 bytes, random scheduling, MESI.",
    x: "cache size",
    y: "GSP",
};
const FIGURE_2: Words = Words {
    id: "figure-2",
    title: "Figure 2: bus utilisation over cache size and ways",
    y: "% of the time",
    ..FIGURE_1
};
const FIGURE_3: Words = Words {
    id: "figure-3",
    title: "Figure 3: invalidation misses over cache size and ways",
    x: "cache size / ways",
    y: "misses for 100 references",
    ..FIGURE_1
};
const FIGURE_4: Words = Words {
    id: "figure-4",
    title: "Figure 4: coherence transactions over cache size and ways",
    x: "cache size / ways",
    y: "transactions for 100 references",
    ..FIGURE_1
};
const BLOCKS_GSP: Words = Words {
    id: "blocks-gsp",
    title: "Section 5: GSP over block size",
    about: "8 processors, caches of 2 MB and 2 ways, random scheduling, MESI. The paper has no \
            figure of it.",
    x: "bytes of a block",
    y: "GSP",
};
const BLOCKS_BUS: Words = Words {
    id: "blocks-bus",
    title: "Section 5: bus utilisation over block size",
    y: "% of the time",
    ..BLOCKS_GSP
};
const FIGURE_5: Words = Words {
    id: "figure-5",
    title: "Figure 5: GSP over cache size, random scheduling and affinity",
    about: "8 processors, 2 ways, blocks of 128 bytes, MESI.",
    x: "cache size",
    y: "GSP",
};
const FIGURE_6: Words = Words {
    id: "figure-6",
    title: "Figure 6: misses over cache size, random scheduling and affinity",
    about: "8 processors, 2 ways, blocks of 128 bytes, MESI. The paper has two parts: after \
            invalidations, and all others.",
    x: "cache size, random scheduling (rnd) or affinity (aff)",
    y: "misses for 100 references",
};
const FIGURE_7: Words = Words {
    id: "figure-7",
    title: "Figure 7: coherence transactions over cache size, random scheduling and affinity",
    about: FIGURE_5.about,
    y: "transactions for 100 references",
    ..FIGURE_6
};
const FIGURE_8: Words = Words {
    id: "figure-8",
    title: "Figure 8: GSP over the number of processors",
    about: "Caches of 2 MB and 2 ways, blocks of 128 bytes.",
    x: "processors",
    y: "GSP",
};
const FIGURE_9: Words = Words {
    id: "figure-9",
    title: "Figure 9: processor utilisation over the number of processors",
    y: "% of the time",
    ..FIGURE_8
};
const FIGURE_10: Words = Words {
    id: "figure-10",
    title: "Figure 10: invalidation misses over the number of processors",
    y: "misses for 100 references",
    ..FIGURE_8
};
const FIGURE_11: Words = Words {
    id: "figure-11",
    title: "Figure 11: misses over the number of processors",
    about: "Caches of 2 MB and 2 ways, blocks of 128 bytes. This is what the paper's caption says; \
            its text speaks of coherence transactions, which are the next figure.",
    y: "misses for 100 references",
    ..FIGURE_8
};
const FIGURE_11_TEXT: Words = Words {
    id: "figure-11-text",
    title: "Figure 11, as the text has it: coherence transactions over the number of processors",
    y: "transactions for 100 references",
    ..FIGURE_8
};
const SCALABILITY: Words = Words {
    id: "scalability",
    title: "Table 5: GSP up to where the machine no longer scales",
    about: "A machine scales to the first number of processors at which one more adds less than \
            0.5 to GSP. The paper's points are its scalability points.",
    x: "processors",
    y: "GSP",
};

const INVALIDATION_PARTS: [Part; 5] = [
    ("kernel, false", |one| one.misses[Miss::InvalidationFalse as usize][1]),
    ("kernel, true", |one| one.misses[Miss::InvalidationTrue as usize][1]),
    ("user, false", |one| one.misses[Miss::InvalidationFalse as usize][0]),
    ("user, true", |one| one.misses[Miss::InvalidationTrue as usize][0]),
    ("passive", |one| one.misses[Miss::InvalidationPassive as usize].iter().sum()),
];
const TRANSACTION_PARTS: [Part; 6] = [
    ("kernel, false", |one| one.coherence[Sharing::False as usize][1]),
    ("kernel, true", |one| one.coherence[Sharing::True as usize][1]),
    ("user, false", |one| one.coherence[Sharing::False as usize][0]),
    ("user, true", |one| one.coherence[Sharing::True as usize][0]),
    ("passive", |one| one.coherence[Sharing::Passive as usize].iter().sum()),
    ("no copy was left", |one| one.coherence[Sharing::Alone as usize].iter().sum()),
];
const MISS_PARTS: [Part; 4] = [
    ("after invalidations", |one| one.misses_of(Miss::is_invalidation)),
    ("cold or first here", |one| one.misses_of(|c| matches!(c, Miss::Cold | Miss::FirstHere))),
    ("context switch or migration", |one| {
        one.misses_of(|class| matches!(class, Miss::ContextSwitch | Miss::Migrated))
    }),
    ("replaced", |one| {
        one.misses_of(|c| matches!(c, Miss::Replaced | Miss::Capacity | Miss::Conflict))
    }),
];

/// At equal distances on an axis.
fn in_a_row<T>(all: impl IntoIterator<Item = T>) -> Vec<(f64, T)> {
    (0..).map(f64::from).zip(all).collect()
}

/// The sizes of caches at equal distances.
fn sizes() -> Axis {
    let names = in_a_row(SIZES_KIB.map(size));
    Axis { names, range: Some((-0.3, 4.3)), ..Axis::linear("cache size") }
}

fn over_caches(runs: &Runs, words: &Words, of: Of, quantity: Quantity) -> Option<Figure> {
    let series = WAYS.map(|ways| {
        let specs = SIZES_KIB.map(|size_kib| Spec { size_kib, ways, ..Spec::FIRST });
        let label = format!("{ways} way{}", if ways == 1 { "" } else { "s" });
        Series { label, points: in_a_row(specs) }
    });
    lines(runs, words, sizes(), &series, of, Some(quantity))
}

/// The columns of Figures 3 and 4.
fn caches() -> Vec<(String, Spec)> {
    let all = SIZES_KIB.iter().flat_map(|kib| WAYS.map(|ways| (*kib, ways)));
    all.map(|(size_kib, ways)| {
        let spec = Spec { size_kib, ways, ..Spec::FIRST };
        (spec.cache(), spec)
    })
    .collect()
}

fn over_blocks(runs: &Runs, words: &Words, of: Of, quantity: Quantity) -> Option<Figure> {
    let specs = BLOCKS.map(|block_bytes| Spec { block_bytes, ..Spec::SECOND });
    let points = in_a_row(specs);
    let names = in_a_row(BLOCKS.map(|bytes| bytes.to_string()));
    let axis = Axis { names, range: Some((-0.3, 3.3)), ..Axis::linear(words.x) };
    let series = [Series { label: "8 CPUs".into(), points }];
    lines(runs, words, axis, &series, of, Some(quantity))
}

fn over_schedulers(runs: &Runs) -> Option<Figure> {
    let series = SCHEDULERS.map(|scheduler| {
        let specs = SIZES_KIB.map(|size_kib| Spec { size_kib, scheduler, ..Spec::SECOND });
        Series { label: scheduler.name().into(), points: in_a_row(specs) }
    });
    lines(runs, &FIGURE_5, sizes(), &series, |one| one.gsp, Some(Quantity::Gsp))
}

/// The columns of Figures 6 and 7.
fn schedulers() -> Vec<(String, Spec)> {
    let all = SIZES_KIB.iter().flat_map(|kib| SCHEDULERS.map(|scheduler| (*kib, scheduler)));
    all.map(|(size_kib, scheduler)| {
        let short = match scheduler {
            Scheduler::Random => "rnd",
            Scheduler::Affinity => "aff",
        };
        (format!("{} {short}", size(size_kib)), Spec { size_kib, scheduler, ..Spec::SECOND })
    })
    .collect()
}

fn over_cpus(runs: &Runs, words: &Words, of: Of, quantity: Option<Quantity>) -> Option<Figure> {
    let mut series = Vec::new();
    for protocol in PROTOCOLS {
        for scheduler in SCHEDULERS {
            let at = |cpus| (f64::from(cpus), Spec { cpus, scheduler, protocol, ..Spec::SECOND });
            let label = format!("{}, {}", protocol.to_uppercase(), scheduler.name());
            series.push(Series { label, points: CPUS.map(at).into() });
        }
    }
    let names = CPUS.map(|cpus| (f64::from(cpus), cpus.to_string())).into();
    let axis = Axis { names, range: Some((7.0, 17.0)), ..Axis::linear(words.x) };
    lines(runs, words, axis, &series, of, quantity)
}

fn scalability(runs: &Runs) -> Option<Figure> {
    let series: Vec<Series> = scalings()
        .iter()
        .map(|scaling| Series {
            label: scaling.spec.kind(),
            points: scaling
                .cpus()
                .map(|cpus| (f64::from(cpus), Spec { cpus, ..scaling.spec }))
                .collect(),
        })
        .collect();
    let axis = Axis::linear(SCALABILITY.x);
    let mut figure = lines(runs, &SCALABILITY, axis, &series, |one| one.gsp, None)?;
    if let Drawing::Lines(chart) = &mut figure.drawing {
        let paper = stated::ROWS.iter().enumerate().skip(1).map(|(index, row)| Curve {
            label: format!("paper, row {} of Table 5", index + 1),
            form: Form::Stated,
            style: PAPER_STYLE,
            dots: vec![Dot::exact(f64::from(row.scales_to), row.gsp_there)],
        });
        chart.curves.extend(paper);
    }
    Some(figure)
}

/// Curves, and what the paper states of their points; nothing if none was simulated.
fn lines(
    runs: &Runs,
    words: &Words,
    x: Axis,
    series: &[Series],
    of: Of,
    quantity: Option<Quantity>,
) -> Option<Figure> {
    let mut table = Table::new(&["Machine", "Ours", "Paper", "Deviation"]);
    let (mut curves, mut paper) = (Vec::new(), Vec::new());
    for (style, one) in series.iter().enumerate() {
        let (mut dots, mut told) = (Vec::new(), Vec::new());
        for (place, spec) in &one.points {
            let Some(value) = runs.get(spec).map(of) else { continue };
            dots.push(value.dot(*place));
            let known = quantity.and_then(|quantity| stated::value(spec, quantity));
            told.extend(known.map(|known| Dot::exact(*place, known)));
            table.rows.push(vec![
                spec.describe(),
                show(value),
                known.map_or_else(String::new, plain),
                known.map_or_else(String::new, |known| deviation(Some(value), known)),
            ]);
        }
        // Ours never have the looks of the paper's points.
        let style = if style < PAPER_STYLE { style } else { style + 1 };
        curves.push(Curve { label: one.label.clone(), form: Form::Measured, style, dots });
        let label = format!("paper, {}", one.label);
        paper.push(Curve { label, form: Form::Stated, style: PAPER_STYLE, dots: told });
    }
    curves.retain(|curve| !curve.dots.is_empty());
    if curves.is_empty() {
        return None;
    }
    curves.extend(paper.into_iter().filter(|curve| !curve.dots.is_empty()));
    let chart = Chart { x, y: Axis::linear(words.y), curves };
    Some(finished(words, Drawing::Lines(chart), table))
}

/// As many digits as a rate needs, or the mean with its interval.
fn show(value: Value) -> String {
    if value.half > 0.0 { value.show() } else { figure(value.mean) }
}

/// Columns of parts; nothing if none was simulated.
fn columns(
    runs: &Runs,
    words: &Words,
    machines: &[(String, Spec)],
    parts: &[Part],
) -> Option<Figure> {
    let mut table = Table::new(&["Machine"]);
    table.heads.extend(parts.iter().map(|(name, _)| (*name).to_owned()));
    table.heads.push("All".into());
    let mut columns = Vec::new();
    for (name, spec) in machines {
        let Some(one) = runs.get(spec) else { continue };
        let sizes: Vec<f64> = parts.iter().map(|(_, part)| one.rate(part).mean).collect();
        let numbers = sizes.iter().copied().chain([sizes.iter().sum()]).map(figure);
        table.rows.push([spec.describe()].into_iter().chain(numbers).collect());
        columns.push((name.clone(), sizes));
    }
    if columns.is_empty() {
        return None;
    }
    let parts = parts.iter().map(|(name, _)| (*name).to_owned()).collect();
    let bars = Bars { x_label: words.x.into(), y_label: words.y.into(), parts, columns };
    Some(finished(words, Drawing::Bars(bars), table))
}

fn finished(words: &Words, drawing: Drawing, table: Table) -> Figure {
    Figure {
        id: words.id.into(),
        title: words.title.into(),
        about: words.about.into(),
        drawing,
        table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_command::paper::Plan;

    fn planted(tasks: usize) -> Runs {
        let mut runs = Runs::default();
        for spec in Plan::of(tasks).expect("enough").specs {
            let gsp = Value::exactly(f64::from(spec.cpus) * 0.8);
            runs.by_spec.insert(spec, Measured { gsp, ..Measured::default() });
        }
        runs
    }

    fn ids(tasks: usize) -> Vec<String> {
        all(&planted(tasks)).into_iter().map(|figure| figure.id).collect()
    }

    #[test]
    fn every_figure_of_the_paper_is_there() {
        let ids = ids(28);
        for number in 1..=11 {
            assert!(ids.contains(&format!("figure-{number}")), "{number}: {ids:?}");
        }
        assert_eq!(ids.len(), 15);
    }

    #[test]
    fn figures_without_machines_are_not_drawn() {
        assert_eq!(ids(4), ["figure-1", "figure-2", "figure-3", "figure-4", "scalability"]);
    }

    #[test]
    fn the_papers_points_stand_beside_ours() {
        let figures = all(&planted(28));
        let rows = &figures[0].table.rows;
        let first = ["4 CPUs, 128K/1, 32 bytes, random, MESI", "3.2", "2.2", "+45 %"];
        assert_eq!(rows[0], first);
        let Drawing::Lines(chart) = &figures[0].drawing else { panic!("curves") };
        let labels: Vec<&str> = chart.curves.iter().map(|curve| &*curve.label).collect();
        let expected =
            ["1 way", "2 ways", "4 ways", "paper, 1 way", "paper, 2 ways", "paper, 4 ways"];
        assert_eq!(labels, expected);
    }
}
