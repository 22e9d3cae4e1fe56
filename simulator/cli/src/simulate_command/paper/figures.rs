//! A paper's figures from the run: each is a drawing and a table, with the paper's stated values.
//!
//! Breakdowns are columns, everything else is curves. A value that the paper states for a point has
//! a mark of its own.

use page::chart::{Axis, Bars, Chart, Curve, Dot, Drawing, Figure, Form, Table};
use page::number::{figure, plain};

use super::data::{Chain, Drawn, Paper};
use super::quantity::Quantity;
use super::tables::deviation;
use crate::simulate_command::measured::{Runs, Value};
use crate::simulate_command::spec::Spec;

/// A curve: its machines, each with its position.
struct Series {
    label: String,
    points: Vec<(f64, Spec)>,
}

/// Returns the paper's value for a simulated point.
type PaperValue<'a> = &'a dyn Fn(&Spec) -> Option<f64>;

/// The figures of the paper for which at least one machine was simulated.
pub(super) fn all(paper: &Paper, runs: &Runs) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for words in &paper.figures {
        let made = match (&words.chain, &words.of, &words.parts) {
            (Some(chain), Some(of), None) => over_chain(paper, runs, words, chain, of),
            (Some(chain), None, Some(parts)) => columns(paper, runs, words, chain, parts),
            (None, Some(of), None) => scalability(paper, runs, words, of),
            _ => Err("give of, or a chain and parts".into()),
        };
        figures.extend(made.map_err(|why| format!("figure {:?}: {why}", words.id))?);
    }
    Ok(figures)
}

fn over_chain(
    paper: &Paper,
    runs: &Runs,
    words: &Drawn,
    chain: &str,
    of: &Quantity,
) -> Result<Option<Figure>, String> {
    let chain = paper.chain(chain)?;
    let places = places(chain);
    let one = |(label, specs): (&String, &Vec<Spec>)| Series {
        label: label.clone(),
        points: places.iter().copied().zip(specs.iter().copied()).collect(),
    };
    let series: Vec<Series> = chain.labels.iter().zip(&chain.specs).map(one).collect();
    let (first, last) = (places[0], places[places.len() - 1]);
    let margin = if chain.is_to_scale() { 1.0 } else { 0.3 };
    let range = Some((first - margin, last + margin));
    let names = places.iter().copied().zip(chain.names.iter().cloned()).collect();
    let axis = Axis { names, range, ..Axis::linear(&words.x) };
    Ok(lines(runs, words, axis, &series, of, &|spec| paper.stated_value(spec, of)))
}

/// The positions of the machines of each curve.
fn places(chain: &Chain) -> Vec<f64> {
    match chain.specs.first().filter(|_| chain.is_to_scale()) {
        Some(specs) => specs.iter().map(|spec| f64::from(spec.cpus)).collect(),
        None => (0..).map(f64::from).take(chain.names.len()).collect(),
    }
}

/// Draws the curves of scalability. A point that the next row of the paper's table repeats is drawn
/// once.
fn scalability(
    paper: &Paper,
    runs: &Runs,
    words: &Drawn,
    of: &Quantity,
) -> Result<Option<Figure>, String> {
    let one = |(spec, cpus): (Spec, Vec<u32>)| Series {
        label: spec.kind(),
        points: cpus.into_iter().map(|cpus| (f64::from(cpus), Spec { cpus, ..spec })).collect(),
    };
    let series: Vec<Series> = paper.scalings()?.into_iter().map(one).collect();
    let mut figure = lines(runs, words, Axis::linear(&words.x), &series, of, &|_| None);
    if let (Some(figure), Some(table)) = (&mut figure, &paper.table)
        && let Drawing::Lines(chart) = &mut figure.drawing
    {
        let points = table.rows.iter().map(|row| (f64::from(row.scales_to), row.gsp_there));
        let points: Vec<(f64, f64)> = points.collect();
        let own =
            points.iter().zip(1..).filter(|(point, number)| points.get(*number) != Some(point));
        chart.curves.extend(own.map(|((cpus, gsp), number)| Curve {
            label: format!("paper, row {number} of {}", table.title),
            form: Form::Stated,
            style: number - 1,
            dots: vec![Dot::exact(*cpus, *gsp)],
        }));
    }
    Ok(figure)
}

/// Draws curves with the paper's values for their points; none if no machine was simulated.
fn lines(
    runs: &Runs,
    words: &Drawn,
    x: Axis,
    series: &[Series],
    of: &Quantity,
    says: PaperValue<'_>,
) -> Option<Figure> {
    let mut table = Table::new(&["Machine", "Ours", "Paper", "Deviation"]);
    let (mut curves, mut paper) = (Vec::new(), Vec::new());
    for (style, one) in series.iter().enumerate() {
        let (mut dots, mut told) = (Vec::new(), Vec::new());
        for (place, spec) in &one.points {
            let Some(value) = of.evaluate(runs, spec) else { continue };
            dots.push(value.dot(*place));
            let known = says(spec);
            told.extend(known.map(|known| Dot::exact(*place, known)));
            table.rows.push(vec![
                spec.describe(),
                show(value),
                known.map_or_else(String::new, plain),
                known.map_or_else(String::new, |known| deviation(Some(value), known)),
            ]);
        }
        curves.push(Curve { label: one.label.clone(), form: Form::Measured, style, dots });
        let label = format!("paper, {}", one.label);
        paper.push(Curve { label, form: Form::Stated, style, dots: told });
    }
    curves.retain(|curve| !curve.dots.is_empty());
    if curves.is_empty() {
        return None;
    }
    curves.extend(paper.into_iter().filter(|curve| !curve.dots.is_empty()));
    let chart = Chart { x, y: Axis::linear(&words.y), curves };
    Some(finished(words, Drawing::Lines(chart), table))
}

/// Formats a rate with as many digits as it needs, or the mean with its interval.
fn show(value: Value) -> String {
    if value.half > 0.0 { value.show() } else { figure(value.mean) }
}

/// Draws columns of parts; none if no machine was simulated.
fn columns(
    paper: &Paper,
    runs: &Runs,
    words: &Drawn,
    chain: &str,
    parts: &str,
) -> Result<Option<Figure>, String> {
    let (chain, parts) = (paper.chain(chain)?, paper.parts(parts)?);
    let joined = words.joined.as_deref().unwrap_or(" ");
    let names: Vec<String> = parts.iter().map(|(name, _)| name.clone()).collect();
    let mut table = Table::new(&["Machine"]);
    table.heads.extend(names.iter().cloned().chain(["All".into()]));
    let mut columns = Vec::new();
    for (label, specs) in chain.labels.iter().zip(&chain.specs) {
        for (name, spec) in chain.names.iter().zip(specs) {
            let sizes = parts.iter().map(|(_, part)| Some(part.evaluate(runs, spec)?.mean));
            let Some(sizes) = sizes.collect::<Option<Vec<f64>>>() else { continue };
            let numbers = sizes.iter().copied().chain([sizes.iter().sum()]).map(figure);
            table.rows.push([spec.describe()].into_iter().chain(numbers).collect());
            columns.push((format!("{label}{joined}{name}"), sizes));
        }
    }
    if columns.is_empty() {
        return Ok(None);
    }
    let (x_label, y_label) = (words.x.clone(), words.y.clone());
    let bars = Bars { x_label, y_label, parts: names, columns };
    Ok(Some(finished(words, Drawing::Bars(bars), table)))
}

fn finished(words: &Drawn, drawing: Drawing, table: Table) -> Figure {
    let Drawn { id, title, about, .. } = words;
    Figure { id: id.clone(), title: title.clone(), about: about.clone(), drawing, table }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_command::measured::Measured;
    use crate::simulate_command::paper::{Plan, shipped};

    fn planted(tasks: usize) -> Runs {
        let mut runs = Runs::default();
        for spec in Plan::new(&shipped(), tasks).expect("enough").specs {
            let gsp = Value::exactly(f64::from(spec.cpus) * 0.8);
            runs.by_spec.insert(spec, Measured { gsp, ..Measured::default() });
        }
        runs
    }

    fn ids(tasks: usize) -> Vec<String> {
        all(&shipped(), &planted(tasks))
            .expect("right")
            .into_iter()
            .map(|figure| figure.id)
            .collect()
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
        let figures = all(&shipped(), &planted(28)).expect("right");
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
