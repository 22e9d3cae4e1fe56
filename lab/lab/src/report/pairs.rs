//! Each server against each other: a matrix for each workload and testbed. All functions are pure.

use std::collections::BTreeSet;

use super::comparison::{Comparison, Verdict, by_cost, ranked};
use super::measure::Measure;
use super::number;
use super::summary::{Panel, Series, Summary, spreads};
use crate::record::{Header, Kind};
use page::matrix::{Cell, Matrix, Outcome};

/// The most rows of a matrix: settings of a tuning are many, and those after the best matter less.
const ROWS_MAX: usize = 20;

/// Makes the matrix of each panel in which several were measured. A comparison has two servers, and
/// says all of them in its verdict.
pub(crate) fn matrices(header: &Header, summary: &Summary) -> Vec<Matrix> {
    if header.kind == Kind::Compare {
        return Vec::new();
    }
    let panels = summary.panels.iter().enumerate();
    let made = panels.filter_map(|(index, panel)| {
        let (series, measure): (Vec<&Series>, _) = match header.together {
            true => {
                (by_cost(panel).into_iter().map(|(one, _)| one).collect(), Measure::CpuPerRequest)
            }
            false => (ranked(panel).into_iter().map(|(one, _)| one).collect(), Measure::Throughput),
        };
        matrix_of(panel, index, &series, (measure, summary.confidence))
    });
    made.collect()
}

fn matrix_of(
    panel: &Panel,
    index: usize,
    series: &[&Series],
    (measure, confidence): (Measure, f64),
) -> Option<Matrix> {
    let left_out = series.len().saturating_sub(ROWS_MAX);
    let series = &series[..series.len() - left_out];
    let compare = |first: &Series, second: &Series| match measure {
        Measure::Throughput => Comparison::compare_peaks(first, second, confidence),
        _ => Comparison::compare_costs(panel, (first, second), confidence),
    };
    let mut cells = vec![vec![None; series.len()]; series.len()];
    let mut pairs = BTreeSet::new();
    for (row, first) in series.iter().enumerate() {
        for (column, second) in series.iter().enumerate().skip(row + 1) {
            // To a server that served nothing there is no ratio, but from it.
            let back = || Some(compare(second, first)?.reversed());
            let Some(found) = compare(first, second).or_else(back) else { continue };
            pairs.insert(found.pairs);
            let outcome = outcome(&found, measure);
            cells[row][column] = Some(cell(&found, outcome));
            cells[column][row] = Some(cell(&found.reversed(), outcome.reversed()));
        }
    }
    let more = match left_out {
        0 => String::new(),
        _ => format!(" The {ROWS_MAX} best are shown; {left_out} more are in the table below."),
    };
    let what = match measure {
        Measure::Throughput => "Highest throughput",
        _ => "CPU time per request",
    };
    (!pairs.is_empty()).then(|| Matrix {
        id: format!("pairs-{index}"),
        title: panel.title(),
        about: format!(
            "{what}, the row's divided by the column's, with {}; {}.{more}",
            spreads(pairs.iter().copied().flatten(), confidence),
            counted(&pairs)
        ),
        names: series.iter().map(|one| one.name.clone()).collect(),
        cells,
    })
}

/// Says on how many pairs the ratios rest; none: on the brackets of single searches.
fn counted(pairs: &BTreeSet<Option<usize>>) -> String {
    let counts: Vec<usize> = pairs.iter().copied().flatten().collect();
    let (least, most) = (counts.first().copied(), counts.last().copied());
    let told = match (least, most) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most} pairs each"),
        (Some(count), _) => format!("{} each", number::counted(count, "pair")),
        _ => return "from the brackets of single searches".into(),
    };
    match pairs.contains(&None) {
        true => format!("{told}, or from the brackets of single searches"),
        false => told,
    }
}

/// What a ratio of the first series to the second says of the first.
fn outcome(found: &Comparison, measure: Measure) -> Outcome {
    let is_better = (found.ratio.median > 1.0) == (measure == Measure::Throughput);
    match (found.verdict, is_better) {
        (Verdict::Differ, true) => Outcome::Better,
        (Verdict::Differ, false) => Outcome::Worse,
        (Verdict::Indicated, true) => Outcome::SeemsBetter,
        (Verdict::Indicated, false) => Outcome::SeemsWorse,
        (Verdict::Tie, _) => Outcome::Tie,
        (Verdict::NotReached, _) => Outcome::Open,
    }
}

fn cell(found: &Comparison, outcome: Outcome) -> Cell {
    let Comparison { first, second, ratio, .. } = found;
    let shown = |value: f64| if value.is_finite() { number::ratio(value) } else { "-".into() };
    let [value, low, high] = [ratio.median, ratio.interval.low, ratio.interval.high].map(shown);
    let interval = match low == value && high == value {
        true => String::new(),
        false => format!("[{low}, {high}]"),
    };
    let about = format!("{first} to {second}: {value} {interval} times, {}", outcome.meaning());
    Cell { value, interval, outcome, about: about.replace("  ", " ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Opened, Run};
    use crate::report::made_runs::runs_on;

    fn runs(server: &str, throughputs: &[f64], cost_us: f64) -> Vec<Run> {
        runs_on("", server, throughputs, cost_us)
    }

    fn matrix(header: &Header, runs: &[Vec<Run>]) -> Matrix {
        let opened = Opened { header: header.clone(), runs: runs.concat(), ..Opened::default() };
        matrices(header, &Summary::new(&opened)).remove(0)
    }

    fn signs(matrix: &Matrix) -> Vec<String> {
        let of_row = |row: &Vec<Option<Cell>>| -> String {
            row.iter().map(|cell| cell.as_ref().map_or('·', |cell| cell.outcome.sign())).collect()
        };
        matrix.cells.iter().map(of_row).collect()
    }

    #[test]
    fn both_halves_say_the_same() {
        let fast = runs("fast", &[110.0, 112.0, 111.0, 113.0, 110.0, 112.0], 20.0);
        let slow = runs("slow", &[100.0, 101.0, 99.0, 100.0, 102.0, 100.0], 10.0);
        let near = runs("near", &[101.0, 100.0, 100.0, 99.0, 101.0, 101.0], 10.0);
        let found = matrix(&Header::default(), &[slow.clone(), near, fast.clone()]);
        assert_eq!(found.names, ["fast", "near", "slow"]);
        assert_eq!(signs(&found), ["·▲▲", "▼·=", "▼=·"]);
        let cell = |row: usize, column: usize| found.cells[row][column].clone().expect("compared");
        assert_eq!((cell(0, 2).value, cell(2, 0).value), ("1.11".into(), "0.90".into()));
        assert!(found.about.contains(" with 95 % intervals; 6 pairs each"), "{}", found.about);

        // Of servers that shared a CPU the cheaper one is better.
        let header = Header { together: true, ..Header::default() };
        let found = matrix(&header, &[fast, slow]);
        assert_eq!(
            (signs(&found), found.names[0].as_str()),
            (vec!["·▲".into(), "▼·".into()], "slow")
        );
    }

    #[test]
    fn too_few_pairs_only_seem() {
        let found = matrix(
            &Header::default(),
            &[runs("fast", &[110.0, 112.0, 111.0], 1.0), runs("slow", &[100.0; 3], 1.0)],
        );
        assert_eq!(signs(&found), ["·△", "▽·"]);
        assert!(found.about.contains(" with whole ranges; 3 pairs each."), "{}", found.about);
    }

    #[test]
    fn a_server_that_served_nothing_has_no_ratio() {
        let found = matrix(
            &Header::default(),
            &[runs("one", &[100.0; 6], 1.0), runs("none", &[0.0; 6], 1.0)],
        );
        let shown: Vec<&str> =
            found.cells.iter().flatten().flatten().map(|cell| &*cell.value).collect();
        assert_eq!(shown, ["-", "0"]);
        assert_eq!(signs(&found), ["·▲", "▼·"]);
    }

    #[test]
    fn the_floor_is_no_competitor() {
        let all = || ["floor", "one", "two"].map(|name| runs(name, &[100.0; 6], 1.0));
        let floor = "floor".to_owned();
        for together in [false, true] {
            let header = Header { floor: floor.clone(), together, ..Header::default() };
            assert_eq!(matrix(&header, &all()).names, ["one", "two"], "{together}");
        }
    }
}
