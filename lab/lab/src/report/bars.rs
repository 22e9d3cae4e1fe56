//! Figures of what has names and no order, as bars: servers at their highest throughput or at the
//! one load that they got, and the two of a comparison against each other. All functions are pure.

use page::chart::{Drawing, Figure, Ranked, RankedBar, Table};
use statistics::Estimate;

use super::comparison::{common_load, no_peak_was_seen, ranked};
use super::figures::{Styles, append_limit, cell};
use super::findings::{by_measure, common};
use super::measure::Measure;
use super::summary::{Panel, Series, Summary, peak_spreads, spreads};
use crate::record::{Header, Kind};

/// The most bars of a figure, which are as many as a screen or two can show.
const BARS_MAX: usize = 40;

/// The most bars of a panel; more are in the table only.
const DRAWN_MAX: usize = 32;

/// The most letters of a name in the label below bars; the title has longer ones.
const LABEL_LETTERS_MAX: usize = 30;

/// A bar and its row of the table.
type Row = (RankedBar, Vec<String>);
/// The bars of a panel.
type Group<'p> = (&'p Panel, Vec<Row>);

/// Makes the figures over servers, of all workloads and testbeds.
pub(crate) fn overview(header: &Header, summary: &Summary, styles: &Styles) -> Vec<Figure> {
    let of = |measure, value: fn(&Series, &Panel) -> Option<(Estimate, String)>| {
        let groups =
            summary.panels.iter().map(|panel| (panel, rows(panel, styles, measure, value)));
        let groups: Vec<_> = groups.filter(|(_, rows)| !rows.is_empty()).collect();
        groups
            .chunk_by(fits())
            .enumerate()
            .map(move |(n, groups)| {
                figure(groups, (measure, n), summary.confidence, header.together)
            })
            .collect::<Vec<_>>()
    };
    let has_curves = |panel: &Panel| panel.series.iter().any(|series| series.points.len() > 1);
    let is_sought = |panel: &Panel| {
        let points = panel.series.iter().flat_map(|series| &series.points);
        points.into_iter().any(|point| point.sought.is_some())
    };
    let are_curves = summary.panels.iter().all(has_curves);
    match header.kind {
        // Rates that make servers equally busy are no peaks.
        _ if summary.panels.iter().any(is_sought) => Vec::new(),
        Kind::Compare => ratios(summary).into_iter().collect(),
        Kind::Study if header.together => of(Measure::CpuPerRequest, cost_together),
        // Curves show it, if there is only one figure of them.
        Kind::Study if summary.panels.len() > 1 || !are_curves => {
            let throughput = of(Measure::Throughput, peak);
            throughput.into_iter().chain(of(Measure::CpuPerRequest, cost_at_peak)).collect()
        }
        Kind::Study | Kind::Tune | Kind::Cache => Vec::new(),
    }
}

/// Whether the group after another one fits into the same figure.
fn fits() -> impl FnMut(&Group<'_>, &Group<'_>) -> bool {
    let mut count = 0;
    move |(_, before), (_, after)| {
        count += before.len();
        let fits = count + after.len() <= BARS_MAX;
        if !fits {
            count = 0;
        }
        fits
    }
}

fn peak(series: &Series, panel: &Panel) -> Option<(Estimate, String)> {
    // Where all kept up, what they served is what was offered, and the peak of none.
    if no_peak_was_seen(&ranked(panel)) {
        return None;
    }
    let peak = series.peak()?;
    let interval = statistics::Interval { low: peak.low, high: peak.high };
    Some((Estimate { median: peak.per_s, interval }, peak.shown()))
}

fn cost_at_peak(series: &Series, _: &Panel) -> Option<(Estimate, String)> {
    let point = series.at_peak()?;
    let measure = Measure::CpuPerRequest;
    Some((*point.estimates.get(&measure)?, cell(point, measure)))
}

fn cost_together(series: &Series, panel: &Panel) -> Option<(Estimate, String)> {
    let point = series.point_at(common_load(panel)?)?;
    let measure = Measure::CpuPerRequest;
    Some((*point.estimates.get(&measure)?, cell(point, measure)))
}

/// The bars of a panel, the best first.
fn rows(
    panel: &Panel,
    styles: &Styles,
    measure: Measure,
    value: fn(&Series, &Panel) -> Option<(Estimate, String)>,
) -> Vec<Row> {
    let row = |series: &Series| {
        let (estimate, text) = value(series, panel)?;
        let bar = RankedBar {
            name: series.name.clone(),
            style: styles.style(&series.name),
            value: estimate.median,
            low: estimate.interval.low,
            high: estimate.interval.high,
            text: text.clone(),
        };
        Some((bar, vec![panel.title(), series.name.clone(), text]))
    };
    let mut rows: Vec<Row> = panel.series.iter().filter_map(row).collect();
    rows.sort_by(|(a, _), (b, _)| match measure {
        Measure::Throughput => b.value.total_cmp(&a.value),
        _ => a.value.total_cmp(&b.value),
    });
    rows
}

fn figure(
    groups: &[Group<'_>],
    (measure, number): (Measure, usize),
    share: f64,
    together: bool,
) -> Figure {
    let [id, title, label, about] = texts(measure, together);
    let left_out = groups.iter().map(|(_, rows)| rows.len().saturating_sub(DRAWN_MAX));
    let more = match left_out.sum() {
        0_usize => String::new(),
        count => format!(" {count} more are in the table."),
    };
    let mut table = Table::new(&["Where", "Server", label]);
    table.rows = groups.iter().flat_map(|(_, rows)| rows).map(|(_, row)| row.clone()).collect();
    let bars = |rows: &Vec<Row>| rows.iter().take(DRAWN_MAX).map(|(bar, _)| bar.clone()).collect();
    let titles: Vec<String> = groups.iter().map(|(panel, _)| panel.title()).collect();
    let of = match &titles[..] {
        [one] => format!(": {one}"),
        [first, .., last] if number > 0 => format!(": {first} to {last}"),
        _ => String::new(),
    };
    let series = groups.iter().flat_map(|(panel, _)| &panel.series);
    let lines = match measure {
        Measure::Throughput => peak_spreads(series, share),
        _ => spreads(series.map(Series::blocks_of_peak), share),
    };
    let mut figure = Figure {
        id: format!("{id}-{number}"),
        title: format!("{title}{of}"),
        about: format!("{about} Lines are {lines}.{more}"),
        drawing: Drawing::Ranked(Ranked {
            label: label.into(),
            mark: None,
            groups: match groups {
                [(_, rows)] => vec![(String::new(), bars(rows))],
                _ => groups.iter().map(|(panel, rows)| (panel.title(), bars(rows))).collect(),
            },
        }),
        table,
    };
    if let ([(panel, _)], Measure::Throughput) = (groups, measure) {
        append_limit(panel, &mut figure);
    }
    figure
}

/// The id, the title, the label and the text of a figure.
fn texts(measure: Measure, together: bool) -> [&'static str; 4] {
    match measure {
        Measure::Throughput => [
            "peaks",
            "Highest throughput",
            "good replies/s",
            "The highest throughput of each server, or the bracket of its one search; ≥ marks \
             a peak that was not seen and may be higher.",
        ],
        _ => [
            "costs",
            "CPU time per request",
            "CPU, us per request",
            match together {
                true => {
                    "Processor time for each request served, under the same load. Lower is \
                     better."
                }
                false => {
                    "Processor time for each request served at the highest throughput that was \
                     seen. Lower is better."
                }
            },
        ],
    }
}

/// The figure of a comparison: each measure of the first server divided by that of the second.
fn ratios(summary: &Summary) -> Option<Figure> {
    let mut groups = Vec::new();
    let mut table = Table::new(&["Where", "Measure", "Times"]);
    let (mut names, mut pairs) = (None, Vec::new());
    for panel in &summary.panels {
        let others = panel.series.iter().filter(|one| Some(&one.name) != panel.floor.as_ref());
        let [first, second, ..] = others.collect::<Vec<_>>()[..] else { continue };
        let Some((own, others)) = common(first, second) else { continue };
        let mut bars = Vec::new();
        for compared in by_measure(panel, (first, own), (second, others), summary.confidence) {
            let (name, pair) = (compared.name, compared.pair);
            pairs.extend(pair.pairs);
            table.rows.push(vec![panel.title(), name.clone(), pair.shown()]);
            bars.push(RankedBar {
                name,
                style: compared.index,
                value: pair.ratio.median,
                low: pair.ratio.interval.low,
                high: pair.ratio.interval.high,
                text: pair.shown(),
            });
        }
        if bars.is_empty() {
            continue;
        }
        names = names.or_else(|| Some((first.name.clone(), second.name.clone())));
        groups.push((panel.title(), bars));
    }
    if let [(name, _)] = &mut groups[..] {
        name.clear();
    }
    let (first, second) = names?;
    Some(Figure {
        id: "ratios".into(),
        title: format!("{first} against {second}"),
        about: format!(
            "What {first} has divided by what {second} has, at the same load; the dashed line is \
             1, where both are equal. More is better of throughput, less of all else. Lines are \
             {}.",
            spreads(pairs.into_iter(), summary.confidence)
        ),
        drawing: Drawing::Ranked(Ranked {
            label: match second.chars().count() {
                ..=LABEL_LETTERS_MAX => format!("times {second}'s"),
                _ => "times the second's".into(),
            },
            mark: Some((1.0, "equal".into())),
            groups,
        }),
        table,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Offered, Opened, Point, Purpose, Run, Search};

    fn opened(header: Header, servers: &[&str], workloads: &[&str], offered: &[Offered]) -> Opened {
        let mut runs = Vec::new();
        for (n, server) in servers.iter().enumerate() {
            for workload in workloads {
                for offered in offered {
                    let point = Point {
                        server: (*server).to_owned(),
                        workload: (*workload).to_owned(),
                        offered: *offered,
                        ..Point::default()
                    };
                    let throughput_per_s = 100.0 + n as f64;
                    let figures = Some(Figures { throughput_per_s, ..Figures::default() });
                    let observed = [("cpu_us_per_request".to_owned(), 9.0)].into();
                    runs.push(Run { point, figures, observed, ..Run::default() });
                }
            }
        }
        Opened { header, runs, ..Opened::default() }
    }

    fn made(opened: &Opened) -> Vec<Figure> {
        let summary = Summary::new(opened);
        overview(&opened.header, &summary, &Styles::new(&summary))
    }

    fn bars(figure: &Figure) -> Vec<String> {
        let Drawing::Ranked(ranked) = &figure.drawing else { panic!("bars") };
        ranked.groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.name.clone()).collect()
    }

    #[test]
    fn servers_without_rates_are_bars_and_the_best_is_first() {
        let closed = [Offered::Connections(64)];
        let figures = made(&opened(Header::default(), &["one", "two"], &["w"], &closed));
        let ids: Vec<&str> = figures.iter().map(|figure| &*figure.id).collect();
        assert_eq!(ids, ["peaks-0", "costs-0"]);
        assert_eq!(bars(&figures[0]), ["two", "one"]);
        assert!(figures[0].about.contains(" Lines are whole ranges."), "{}", figures[0].about);
        let rates = [100.0, 200.0].map(Offered::RequestsPerS);
        let swept = made(&opened(Header::default(), &["one", "two"], &["w"], &rates));
        assert!(swept.is_empty(), "one panel of curves needs no bars");
        let several = made(&opened(Header::default(), &["one", "two"], &["w", "x"], &rates));
        assert_eq!(bars(&several[0]).len(), 4);
        let together = Header { together: true, ..Header::default() };
        let shared = made(&opened(together, &["one", "two"], &["w"], &closed));
        assert_eq!(shared.len(), 1, "of a shared CPU only costs are compared");
        assert_eq!(shared[0].id, "costs-0");
    }

    #[test]
    fn lines_of_single_searches_are_brackets() {
        let rates = [Offered::RequestsPerS(100.0)];
        let mut opened = opened(Header::default(), &["one", "two"], &["w"], &rates);
        let purpose = Purpose::Limit { block: 0 };
        opened.runs.iter_mut().for_each(|run| run.purpose = purpose.clone());
        let search = |server: &str| Search {
            server: server.into(),
            workload: "w".into(),
            purpose: purpose.clone(),
            held_per_s: 100.0,
            broke_per_s: Some(104.0),
            ..Search::default()
        };
        opened.searches = ["one", "two"].map(search).to_vec();
        let figures = made(&opened);
        let about = &figures[0].about;
        assert!(about.contains(" Lines are brackets of single searches."), "{about}");
        assert!(figures[1].about.ends_with(" Lines are whole ranges."), "{}", figures[1].about);
    }

    #[test]
    fn many_bars_are_several_figures() {
        let servers: Vec<String> = (0..15).map(|n| format!("server {n}")).collect();
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        let closed = [Offered::Connections(64)];
        let figures =
            made(&opened(Header::default(), &servers, &["a", "b", "c", "d", "e"], &closed));
        let counts: Vec<usize> = figures.iter().map(|figure| bars(figure).len()).collect();
        assert_eq!(counts, [30, 30, 15, 30, 30, 15]);
        assert_eq!(figures[1].title, "Highest throughput: c, closed to d, closed");
    }

    /// The common rate of a comparison is no peak of either.
    #[test]
    fn a_comparison_is_bars_about_1() {
        let header = Header { kind: Kind::Compare, ..Header::default() };
        let rate = [Offered::RequestsPerS(100.0)];
        let figures = made(&opened(header, &["one", "two"], &["w"], &rate));
        let [figure] = &figures[..] else { panic!("one figure") };
        assert_eq!(bars(figure), ["throughput", "CPU time per request"]);
        let Drawing::Ranked(ranked) = &figure.drawing else { panic!("bars") };
        assert_eq!(ranked.mark.as_ref().map(|(value, _)| *value), Some(1.0));
    }

    #[test]
    fn a_rate_that_all_keep_up_with_is_no_highest_throughput() {
        let rate = [Offered::RequestsPerS(100.0)];
        let mut opened = opened(Header::default(), &["one", "two"], &["w", "x"], &rate);
        for figures in opened.runs.iter_mut().filter_map(|run| run.figures.as_mut()) {
            (figures.kept_up_share, figures.served_share) = (1.0, 1.0);
        }
        let ids = |opened: &Opened| -> Vec<String> {
            made(opened).into_iter().map(|figure| figure.id).collect()
        };
        assert_eq!(ids(&opened), ["costs-0"]);
        opened.header.kind = Kind::Compare;
        assert_eq!(bars(&made(&opened)[0]), ["CPU time per request"; 2]);
    }

    #[test]
    fn a_comparison_without_a_block_in_common_has_no_bars() {
        let header = Header { kind: Kind::Compare, ..Header::default() };
        let closed = [Offered::Connections(64)];
        let mut opened = opened(header, &["one", "two"], &["w"], &closed);
        opened.runs[1].block = 1;
        assert!(made(&opened).is_empty());
    }

    /// The label is one line below the bars, and names of settings are long.
    #[test]
    fn the_label_of_a_comparison_is_short() {
        let label = |second: &str| {
            let header = Header { kind: Kind::Compare, ..Header::default() };
            let closed = [Offered::Connections(64)];
            let figures = made(&opened(header, &["one", second], &["w"], &closed));
            let Drawing::Ranked(ranked) = &figures[0].drawing else { panic!("bars") };
            ranked.label.clone()
        };
        assert_eq!(label("two"), "times two's");
        assert_eq!(label(&"m".repeat(80)), "times the second's");
    }
}
