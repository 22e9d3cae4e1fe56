//! The figures of a panel, from the summary: curves over the offered load. Surfaces, scaling and
//! response times have modules of their own. All functions are pure.

use super::chart::{Axis, Chart, Curve, Dot, Drawing, Figure, Form, Table};
use super::measure::Measure;
use super::number::{self, Quantity};
use super::summary::{Measured, Panel, Series, Summary, spreads};
use statistics::Estimate;

/// The most curves in a figure: more cannot be told apart; the others are in the table.
pub(crate) const CURVES_MAX: usize = 16;

/// The sentences on the path's own limit: the rate, that it is drawn, or that it is unknown.
const LIMIT_AT: &str = "The path between the hosts ends at";
const LIMIT_IS_DRAWN: &str = "The path between the hosts ends at the network limit.";
const LIMIT_UNKNOWN: &str = "The path's own limit was not measured.";

/// Gives each series the same style in all figures.
pub(crate) struct Styles(Vec<String>);

impl Styles {
    pub(crate) fn new(summary: &Summary) -> Self {
        let mut names: Vec<String> = Vec::new();
        for series in summary.panels.iter().flat_map(|panel| &panel.series) {
            if !names.contains(&series.name) {
                names.push(series.name.clone());
            }
        }
        Self(names)
    }

    pub(crate) fn style(&self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or(0)
    }
}

/// A kind of figure over the offered load.
struct Kind {
    id: &'static str,
    title: &'static str,
    y: &'static str,
    about: &'static str,
    measure: Measure,
    /// The factor from the values to the unit of the label.
    factor: f64,
    log: bool,
    with_limit: bool,
}

const KINDS: [Kind; 8] = [
    Kind {
        id: "throughput",
        title: "Throughput",
        y: "good replies/s",
        about: "Good replies a second against what was offered.",
        measure: Measure::Throughput,
        factor: 1.0,
        log: false,
        with_limit: true,
    },
    Kind {
        id: "errors",
        title: "Failed requests",
        y: "% of the requests issued",
        about: "The part of the requests issued that failed: timeouts, refusals, wrong replies.",
        measure: Measure::ErrorShare,
        factor: 100.0,
        log: false,
        with_limit: false,
    },
    Kind {
        id: "timeouts",
        title: "Timeouts",
        y: "% of the requests due",
        about: "The part of the requests due whose clients gave up waiting.",
        measure: Measure::TimeoutShare,
        factor: 100.0,
        log: false,
        with_limit: false,
    },
    Kind {
        id: "cpu",
        title: "CPU time per request",
        y: "CPU, us per request",
        about: "Processor time of the server for each request it served. Lower is better.",
        measure: Measure::CpuPerRequest,
        factor: 1.0,
        log: false,
        with_limit: false,
    },
    Kind {
        id: "utilisation",
        title: "CPU utilisation",
        y: "% of the testbed's CPUs",
        about: "How much of the processors it was given the server used.",
        measure: Measure::Utilisation,
        factor: 100.0,
        log: false,
        with_limit: false,
    },
    Kind {
        id: "p99",
        title: "Response time, 99th percentile",
        y: "ms",
        about: "From when a request should have been sent; the axis is logarithmic.",
        measure: Measure::P99,
        factor: 1e-3,
        log: true,
        with_limit: false,
    },
    Kind {
        id: "disk",
        title: "Read from the disk",
        y: "MB/s",
        about: "What the servers had the disk read, beside what they found in memory.",
        measure: Measure::DiskBytes,
        factor: 1e-6,
        log: false,
        with_limit: false,
    },
    Kind {
        id: "cpi",
        title: "Cycles for each instruction",
        y: "cycles per instruction",
        about: "Of the servers' processors, the kernel's share included.",
        measure: Measure::CyclesPerInstruction,
        factor: 1.0,
        log: false,
        with_limit: false,
    },
];

/// Makes the figures of a panel over the offered load.
pub(crate) fn load_figures(
    panel: &Panel,
    index: usize,
    styles: &Styles,
    share: f64,
) -> Vec<Figure> {
    KINDS.iter().filter_map(|kind| figure(panel, index, kind, styles, share)).collect()
}

/// Appends the limit of the path between the hosts to the text of a figure that is not over the
/// offered load.
pub(crate) fn append_limit(panel: &Panel, figure: &mut Figure) {
    figure.about.push_str(&limit_sentence(panel));
}

fn limit_sentence(panel: &Panel) -> String {
    match panel.limit_per_s {
        Some(limit) => format!(" {LIMIT_AT} {} requests/s.", number::figure(limit)),
        None => format!(" {LIMIT_UNKNOWN}"),
    }
}

fn figure(panel: &Panel, index: usize, kind: &Kind, styles: &Styles, share: f64) -> Option<Figure> {
    let (shown, left_out) = shown(panel);
    let mut curves: Vec<Curve> =
        shown.iter().map(|series| curve(series, kind, styles.style(&series.name))).collect();
    curves.retain(|curve| !curve.dots.is_empty());
    if curves.is_empty() || curves.iter().all(|curve| curve.dots.len() < 2) {
        return None;
    }
    let is_nothing = curves.iter().all(|curve| curve.dots.iter().all(no_height));
    if matches!(kind.measure, Measure::DiskBytes | Measure::TimeoutShare) && is_nothing {
        return None;
    }
    let blocks = shown.iter().flat_map(|series| series.curve()).map(|point| point.blocks.len());
    let bands = spreads(blocks, share);
    let points = match shown.iter().any(|series| series.is_searched()) {
        true => format!(
            "Points are the trials of the searches; where several blocks tried the same rate, \
             their median. Bands are {bands}."
        ),
        false => format!("Points are medians over blocks, bands {bands}."),
    };
    let mut about = format!("{} {points}", kind.about);
    let mut y = if kind.log { Axis::log(kind.y) } else { Axis::linear(kind.y) };
    let limit = match kind.with_limit {
        true => with_limit(panel, &mut curves, &mut y),
        false => limit_across(panel, &mut curves, kind.log),
    };
    about.push_str(&limit);
    if kind.measure == Measure::ErrorShare && is_nothing {
        about.push_str(" Nothing failed.");
    }
    about.push_str(&left_out_sentence(left_out, "in the table"));
    if limit.is_empty() {
        about.push_str(&limit_sentence(panel));
    }
    let x = format!("offered {}", panel.unit());
    let chart = Chart { x: Axis::linear(&x), y, curves };
    Some(Figure {
        id: format!("{}-{index}", kind.id),
        title: format!("{}: {}", kind.title, panel.title()),
        about,
        drawing: Drawing::Lines(chart),
        table: table(panel, kind),
    })
}

/// The sentence on curves that are not drawn: their number, and where they are. Empty if there are
/// none.
pub(crate) fn left_out_sentence(count: usize, where_to: &str) -> String {
    match count {
        0 => String::new(),
        _ => format!(
            " The {CURVES_MAX} series with the highest peaks are drawn, {count} more are \
             {where_to}."
        ),
    }
}

fn no_height(dot: &Dot) -> bool {
    dot.high == 0.0
}

/// Returns the series of a panel that are drawn, and the number of those that are not.
pub(crate) fn shown(panel: &Panel) -> (Vec<&Series>, usize) {
    if panel.series.len() <= CURVES_MAX {
        return (panel.series.iter().collect(), 0);
    }
    let peak = |series: &&Series| series.peak().map_or(0.0, |peak| peak.per_s);
    let mut ranked: Vec<&Series> = panel.series.iter().collect();
    ranked.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    let best: Vec<&str> = ranked[..CURVES_MAX].iter().map(|series| &*series.name).collect();
    let drawn = panel.series.iter().filter(|series| best.contains(&&*series.name)).collect();
    (drawn, panel.series.len() - CURVES_MAX)
}

fn curve(series: &Series, kind: &Kind, style: usize) -> Curve {
    let dots = series.curve().into_iter().filter_map(|point| {
        let estimate = point.estimates.get(&kind.measure)?;
        Some(Dot {
            x: point.offered,
            y: estimate.median * kind.factor,
            low: estimate.interval.low * kind.factor,
            high: estimate.interval.high * kind.factor,
        })
    });
    Curve { label: series.name.clone(), form: Form::Measured, style, dots: dots.collect() }
}

/// Draws the line at which the whole offered load is served, and the path's own limit. A limit so
/// high that it would flatten the curves is not drawn; the returned sentence gives it instead.
fn with_limit(panel: &Panel, curves: &mut Vec<Curve>, y: &mut Axis) -> String {
    let dots = || curves.iter().flat_map(|curve| &curve.dots);
    let top = dots().map(|dot| dot.high).fold(0.0, f64::max);
    let (left, right) = dots()
        .fold((f64::INFINITY, 0.0_f64), |(left, right), dot| (left.min(dot.x), right.max(dot.x)));
    // An axis needs a length even where nothing was served.
    y.range = Some((0.0, if top > 0.0 { top * 1.08 } else { 1.0 }));
    // The line lies above the figure where less is served than the lowest offered load.
    let end = right.min(top * 1.08);
    let ideal = (!panel.closed && left < end).then(|| {
        let dots = vec![Dot::exact(left, left), Dot::exact(end, end)];
        Curve { style: 1, ..reference("all that is offered".into(), dots) }
    });
    let Some(limit) = panel.limit_per_s else {
        curves.extend(ideal);
        return format!(" {LIMIT_UNKNOWN}");
    };
    let told = limit_label(limit);
    let is_drawn = limit <= 2.0 * top;
    if is_drawn {
        y.range = Some((0.0, f64::max(limit, top) * 1.08));
        curves.push(reference(told, vec![Dot::exact(left, limit), Dot::exact(right, limit)]));
    }
    curves.extend(ideal);
    match is_drawn {
        true => format!(" {LIMIT_IS_DRAWN}"),
        false => {
            format!(" {LIMIT_AT} {} requests/s, above this figure.", number::figure(limit))
        }
    }
}

/// Draws the path's own limit where it is among the rates, or near: beyond it the figures say
/// nothing of the servers.
fn limit_across(panel: &Panel, curves: &mut Vec<Curve>, log: bool) -> String {
    let dots = || curves.iter().flat_map(|curve| &curve.dots);
    let right = dots().map(|dot| dot.x).fold(0.0, f64::max);
    let limit = panel.limit_per_s.filter(|limit| !panel.closed && *limit <= 1.25 * right);
    let Some(limit) = limit else { return String::new() };
    let top = dots().map(|dot| dot.high).fold(0.0, f64::max);
    let top = if top > 0.0 { top } else { 1.0 };
    let above = |value: &f64| !log || *value > 0.0;
    let foot = dots().map(|dot| dot.low).filter(above).fold(top, f64::min);
    // A curve has only one value at an x: the line leans by the smallest possible difference.
    let line = vec![Dot::exact(limit, foot), Dot::exact(limit.next_up(), top)];
    curves.push(reference(limit_label(limit), line));
    format!(" {LIMIT_IS_DRAWN}")
}

fn limit_label(limit: f64) -> String {
    format!("network limit {}/s", number::figure(limit))
}

fn reference(label: String, dots: Vec<Dot>) -> Curve {
    Curve { label, form: Form::Reference, dots, ..Curve::default() }
}

fn table(panel: &Panel, kind: &Kind) -> Table {
    let mut offered: Vec<f64> =
        panel.series.iter().flat_map(Series::curve).map(|point| point.offered).collect();
    offered.sort_by(f64::total_cmp);
    offered.dedup();
    let mut table = Table::new(&[&format!("Offered {}", panel.unit())]);
    table.heads.extend(panel.series.iter().map(|series| series.name.clone()));
    for rate in offered {
        let cells = panel.series.iter().map(|series| {
            let point = series.curve().into_iter().find(|point| point.offered == rate);
            point.map_or_else(String::new, |point| cell(point, kind.measure))
        });
        table.rows.push([number::plain(rate)].into_iter().chain(cells).collect());
    }
    if matches!(kind.measure, Measure::P99) {
        table.heads[0].push_str("; times in ms");
    }
    table
}

/// Formats a median with its interval; empty if it was not measured. A time that is mostly the
/// generator's own lag has a `*`.
pub(crate) fn cell(point: &Measured, measure: Measure) -> String {
    let Some(estimate) = point.estimates.get(&measure) else { return String::new() };
    with_interval(estimate, measure) + point.mark(measure)
}

/// Formats a median with its interval. The unit stands once, at the end.
fn with_interval(estimate: &Estimate, measure: Measure) -> String {
    let interval = estimate.interval;
    let [value, low, high] =
        [estimate.median, interval.low, interval.high].map(|value| measure.show(value));
    if low == value && high == value {
        return value.to_string();
    }
    if low.unit != value.unit || high.unit != value.unit {
        return format!("{value} [{low}, {high}]");
    }
    let number = format!("{} [{}, {}]", value.number, low.number, high.number);
    Quantity { number, ..value }.to_string()
}

#[cfg(test)]
mod tests {
    use statistics::Interval;

    use super::*;

    #[test]
    fn the_unit_of_an_interval_stands_once_where_it_is_one() {
        let check = |measure: Measure, [median, low, high]: [f64; 3], expected: &str| {
            let interval = Interval { low, high };
            assert_eq!(with_interval(&Estimate { median, interval }, measure), expected);
        };
        check(Measure::Memory, [2048.0, 1024.0, 4096.0], "2 [1, 4] KiB");
        check(Measure::Memory, [2048.0, 512.0, 4096.0], "2 KiB [512 B, 4 KiB]");
        check(Measure::ErrorShare, [0.5, 0.00001, 1.0], "50 [<0.01, 100] %");
        check(Measure::Throughput, [2000.0, 1000.0, 3000.0], "2,000 [1,000, 3,000]");
        check(Measure::Memory, [2048.0, 2048.0, 2048.0], "2 KiB");
    }

    #[test]
    fn an_axis_of_nothing_has_a_length() {
        let dots = [1000.0, 2000.0].map(|x| Dot::exact(x, 0.0)).to_vec();
        let mut curves = vec![Curve { dots, ..Curve::default() }];
        let mut y = Axis::linear("good replies/s");
        let panel = Panel { limit_per_s: Some(5000.0), ..Panel::default() };
        with_limit(&panel, &mut curves, &mut y);
        assert_eq!(y.range, Some((0.0, 1.0)));
    }

    #[test]
    fn all_that_is_offered_is_no_line_where_it_would_go_backwards() {
        let drawn = |served: f64| {
            let dots = [1000.0, 2000.0].map(|x| Dot::exact(x, served)).to_vec();
            let mut curves = vec![Curve { dots, ..Curve::default() }];
            with_limit(&Panel::default(), &mut curves, &mut Axis::linear("good replies/s"));
            curves.split_off(1).into_iter().flat_map(|line| line.dots).map(|dot| dot.x).collect()
        };
        let (low, high): (Vec<f64>, Vec<f64>) = (drawn(400.0), drawn(1500.0));
        assert!(low.is_empty(), "{low:?}");
        assert_eq!(high, [1000.0, 1500.0 * 1.08]);
    }

    /// Over rates the limit is a line across all curves; far beyond them, and over clients, there
    /// is no line.
    #[test]
    fn the_limit_is_drawn_across_where_the_rates_come_near_it() {
        let rising = [0.0, 3.0, 7.0];
        let check = |limit_per_s, closed, heights: [f64; 3], log, expected: Option<[f64; 2]>| {
            let panel = Panel { limit_per_s, closed, ..Panel::default() };
            let places = [1000.0, 4000.0, 8000.0].into_iter().zip(heights);
            let dots = places.map(|(x, y)| Dot::exact(x, y)).collect();
            let mut curves = vec![Curve { dots, ..Curve::default() }];
            let told = limit_across(&panel, &mut curves, log);
            assert_eq!(told.contains(LIMIT_AT), expected.is_some());
            let ends = curves.get(1).map(|line| [line.dots[0].y, line.dots[1].y]);
            assert_eq!(ends, expected, "{limit_per_s:?} {closed} {log}");
        };
        check(Some(5000.0), false, rising, false, Some([0.0, 7.0]));
        check(Some(5000.0), false, [0.0; 3], false, Some([0.0, 1.0])); // where nothing failed
        check(Some(10_000.0), false, rising, true, Some([3.0, 7.0]));
        check(Some(10_001.0), false, rising, false, None);
        check(Some(5000.0), true, rising, false, None);
        check(None, false, rising, false, None);
    }

    #[test]
    fn the_limit_is_given_below_other_figures() {
        let figure = |about: &str| Figure {
            id: String::new(),
            title: String::new(),
            about: about.into(),
            drawing: Drawing::Lines(Chart::default()),
            table: Table::default(),
        };
        for limit_per_s in [Some(5000.0), None] {
            let panel = Panel { limit_per_s, ..Panel::default() };
            let mut told = figure("CPU.");
            append_limit(&panel, &mut told);
            let expected = match limit_per_s {
                Some(_) => "CPU. The path between the hosts ends at 5,000 requests/s.",
                None => "CPU. The path's own limit was not measured.",
            };
            assert_eq!(told.about, expected);
        }
    }
}
