//! Response times as distributions, of all files and by class: the raw histograms of a point's
//! runs, added up bucket by bucket, which is exact, and the curves that are drawn of them.
//!
//! Reads the outcome files of the folder; files that cannot be read are reported and left out.

use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use load::measures::{FILE_CLASSES, histogram, interval_histogram};
use load::outcome::file_class_name;

use super::chart::{Axis, Chart, Curve, Dot, Drawing, Figure, Form, Table};
use super::figures::{Styles, left_out_sentence, shown};
use super::number;
use super::summary::{Measured, Panel, Series};

/// The number of points of a curve: enough for the eye.
const POINTS: usize = 160;
const SHARES: [(&str, f64); 9] = [
    ("10 %", 0.1),
    ("25 %", 0.25),
    ("50 %", 0.5),
    ("75 %", 0.75),
    ("90 %", 0.9),
    ("95 %", 0.95),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("99.99 %", 0.9999),
];

/// The contents of one pair of figures: the series and their runs.
struct Group<'s> {
    /// The end of the title, which gives the rate.
    at: String,
    /// Whether classes of files have figures of their own: they do where the rates were chosen to
    /// compare response times.
    by_class: bool,
    /// The number of series that are not drawn.
    left_out: usize,
    members: Vec<(String, usize, &'s Measured)>,
}

/// Makes the distributions of a panel: at a rate that all servers sustain, and at rates that were
/// fixed by other means. Files that cannot be read are added to `damage`.
pub(crate) fn time_figures(
    folder: &Path,
    panel: &Panel,
    index: usize,
    styles: &Styles,
    damage: &mut Vec<String>,
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (number, group) in groups(panel, styles).into_iter().enumerate() {
        let mut merged = Vec::new();
        for (label, style, point) in group.members {
            let times = merge(folder, point, damage);
            if !times.all.is_empty() {
                merged.push(Merged { label, style, times });
            }
        }
        if !merged.is_empty() {
            let title = format!("{}, {}", panel.title(), group.at);
            let id = format!("{index}-{number}");
            let mut own: Vec<Figure> = pair(&merged, &title, &id).into();
            if group.by_class {
                own.extend(class_figures(&merged, &title, &id));
            }
            let told = left_out_sentence(group.left_out, "left out");
            own.iter_mut().for_each(|figure| figure.about.push_str(&told));
            figures.extend(own);
        }
    }
    figures
}

fn groups<'s>(panel: &'s Panel, styles: &Styles) -> Vec<Group<'s>> {
    let sought = shares_sought(panel);
    if !sought.is_empty() {
        return sought.into_iter().map(|share| equally_busy(panel, styles, share)).collect();
    }
    let named = |series: &'s Series, point: Option<&'s Measured>| {
        point.map(|point| (series.name.clone(), point)).into_iter().collect()
    };
    if let Some(offered) = common(panel) {
        let at = format!("at {} {}", number::plain(offered), panel.unit());
        return vec![group(panel, styles, at, |series| named(series, series.point_at(offered)))];
    }
    if panel.series.iter().all(|series| series.points.is_empty()) {
        let at = "each close to the highest rate it held".to_owned();
        return vec![group(panel, styles, at, |series| named(series, series.held.as_ref()))];
    }
    Vec::new() // no two series were measured at the same rate
}

/// Makes a group of the labels and points that `of` returns for each series that is drawn.
fn group<'s>(
    panel: &'s Panel,
    styles: &Styles,
    at: String,
    of: impl Fn(&'s Series) -> Vec<(String, &'s Measured)>,
) -> Group<'s> {
    let (drawn, _) = shown(panel);
    let is_drawn = |series: &&Series| drawn.iter().any(|one| one.name == series.name);
    let others = panel.series.iter().filter(|series| !is_drawn(series));
    let left_out = others.filter(|series| !of(series).is_empty()).count();
    let members = drawn.into_iter().flat_map(|series| {
        let style = styles.style(&series.name);
        of(series).into_iter().map(move |(label, point)| (label, style, point))
    });
    Group { at, by_class: false, left_out, members: members.collect() }
}

/// The utilisations for which rates were searched.
fn shares_sought(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let mut shares: Vec<f64> = points.filter_map(|point| point.sought).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    shares
}

/// Makes a group with each series at its own rate that leads to the utilisation `share`.
fn equally_busy<'s>(panel: &'s Panel, styles: &Styles, share: f64) -> Group<'s> {
    let at = format!("each at its own rate, {}", panel.gauge.busy(share));
    let group = group(panel, styles, at, |series| {
        let points = series.points.iter().filter(|point| point.sought == Some(share));
        let name =
            |point: &Measured| format!("{} at {}", series.name, number::figure(point.offered));
        points.map(|point| (name(point), point)).collect()
    });
    Group { by_class: true, ..group }
}

/// The highest rate at which all series were measured and kept up; if there is none, the lowest at
/// which most were measured; none if no two series were measured at the same rate.
fn common(panel: &Panel) -> Option<f64> {
    let with_points: Vec<_> =
        panel.series.iter().filter(|series| !series.points.is_empty()).collect();
    let mut offered: Vec<f64> =
        with_points.iter().flat_map(|series| series.points.iter().map(|p| p.offered)).collect();
    offered.sort_by(f64::total_cmp);
    offered.dedup();
    let by_all = |rate: &&f64| {
        with_points
            .iter()
            .all(|series| series.point_at(**rate).is_some_and(|p| panel.closed || p.kept_up()))
    };
    let measured = |rate: f64| with_points.iter().filter(|s| s.point_at(rate).is_some()).count();
    let most = offered.iter().map(|rate| measured(*rate)).max()?;
    if most < 2 && with_points.len() > 1 {
        return None;
    }
    offered
        .iter()
        .rev()
        .find(by_all)
        .or_else(|| offered.iter().find(|rate| measured(**rate) == most))
        .copied()
}

/// Response times, corrected for coordinated omission.
struct Times {
    all: Histogram<u64>,
    /// The times by class of file; most are empty.
    classes: Vec<Histogram<u64>>,
}

/// The response times of a curve.
struct Merged {
    label: String,
    style: usize,
    times: Times,
}

impl Times {
    /// The classes that have replies, if there are several.
    fn several(&self) -> Vec<usize> {
        let filled = |class: &usize| !self.classes[*class].is_empty();
        let classes: Vec<usize> = (0..FILE_CLASSES).filter(filled).collect();
        if classes.len() > 1 { classes } else { Vec::new() }
    }
}

/// Adds up the times of all runs of a point.
fn merge(folder: &Path, point: &Measured, damage: &mut Vec<String>) -> Times {
    let mut sum = Times { all: histogram(), classes: vec![interval_histogram(); FILE_CLASSES] };
    for name in &point.outcome_files {
        match read(folder, name) {
            Ok(times) => {
                let classes = sum.classes.iter_mut().zip(times.classes);
                let mut pairs = classes.chain([(&mut sum.all, times.all)]);
                let added = pairs.try_for_each(|(sum, times)| sum.add(times));
                added.expect("all histograms of outcomes have the bounds of `histogram`");
            }
            Err(why) => damage.push(format!("{name}: {why}; its response times are left out")),
        }
    }
    sum
}

fn read(folder: &Path, name: &str) -> Result<Times, String> {
    if Path::new(name).is_absolute() || name.split('/').any(|part| part == "..") {
        return Err("not a file of this directory".into());
    }
    let text = fs::read_to_string(folder.join(name)).map_err(|why| why.to_string())?;
    let measures = load::report::json::parse(&text)?.measures;
    Ok(Times { all: measures.times.corrected, classes: measures.classes })
}

const ABOUT: &str = "Of all replies of the runs that count, from when a request should have been \
                     sent; histograms are added exactly.";

/// Makes the figure of the distribution, and that of its complement on a logarithmic axis, which
/// shows the tail.
fn pair(merged: &[Merged], title: &str, id: &str) -> [Figure; 2] {
    let all: Vec<&Histogram<u64>> = merged.iter().map(|one| &one.times.all).collect();
    let tail = Chart {
        x: Axis::log("response time, ms"),
        y: Axis::log("share of replies beyond"),
        curves: curves(merged, &all, true),
    };
    let figure = |kind: &str, name: &str, more: &str, chart| Figure {
        id: format!("{kind}-{id}"),
        title: format!("{name}: {title}"),
        about: format!("{ABOUT}{more}"),
        drawing: Drawing::Lines(chart),
        table: table(merged),
    };
    [
        figure("cdf", "Response times", "", within(merged, &all)),
        figure("ccdf", "Slow replies", " Both axes are logarithmic: this is the tail.", tail),
    ]
}

/// Makes the figure of the distribution of each class of files, if there are several.
fn class_figures(merged: &[Merged], title: &str, id: &str) -> Vec<Figure> {
    let is_there = |class: &usize| merged.iter().any(|one| one.times.several().contains(class));
    let figure = |class: usize| {
        let times: Vec<&Histogram<u64>> =
            merged.iter().map(|one| &one.times.classes[class]).collect();
        let name = file_class_name(class);
        Figure {
            id: format!("cdf-{id}-{name}"),
            title: format!("Response times of {name}: {title}"),
            about: ABOUT.to_owned(),
            drawing: Drawing::Lines(within(merged, &times)),
            table: class_table(merged, class),
        }
    };
    (0..FILE_CLASSES).filter(is_there).map(figure).collect()
}

fn within(merged: &[Merged], times: &[&Histogram<u64>]) -> Chart {
    Chart {
        x: Axis::log("response time, ms"),
        y: Axis { range: Some((0.0, 1.0)), ..Axis::linear("share of replies within") },
        curves: curves(merged, times, false),
    }
}

fn curves(merged: &[Merged], times: &[&Histogram<u64>], complement: bool) -> Vec<Curve> {
    let pairs = merged.iter().zip(times).filter(|(_, own)| !own.is_empty());
    let curve = |(one, own): (&Merged, &&Histogram<u64>)| Curve {
        label: one.label.clone(),
        form: Form::Dense,
        style: one.style,
        dots: dots(own, times, complement),
    };
    pairs.map(curve).collect()
}

/// The points of a curve, at the same times, in milliseconds, for all curves of a figure.
fn dots(times: &Histogram<u64>, all: &[&Histogram<u64>], complement: bool) -> Vec<Dot> {
    let filled = || all.iter().filter(|times| !times.is_empty());
    let low = filled().map(|times| times.min()).min().unwrap_or(1).max(1) as f64;
    let high = filled().map(|times| times.max()).max().unwrap_or(1) as f64;
    let (low, high) = (low.ln(), high.max(low * 1.01).ln());
    let total = times.len() as f64;
    let at = |n: usize| (low + (high - low) * n as f64 / (POINTS - 1) as f64).exp();
    let dots = counts_within(times, (0..POINTS).map(at)).map(|(us, count)| {
        let within = count as f64 / total;
        Dot::exact(us / 1e3, if complement { 1.0 - within } else { within })
    });
    // Less than half a reply is a rounding error.
    dots.filter(|dot| !complement || dot.y * total > 0.5).collect()
}

/// Counts the replies within each of `times_us`, which are ascending.
fn counts_within(
    times: &Histogram<u64>,
    times_us: impl Iterator<Item = f64>,
) -> impl Iterator<Item = (f64, u64)> {
    let mut buckets = times.iter_recorded().peekable();
    let mut count = 0;
    times_us.map(move |us| {
        let begins_within = |bucket: &IterationValue<u64>| {
            times.lowest_equivalent(bucket.value_iterated_to()) <= us.ceil() as u64
        };
        while let Some(bucket) = buckets.next_if(begins_within) {
            count += bucket.count_since_last_iteration();
        }
        (us, count)
    })
}

/// Makes a table with a row for each server, and below it one for each class of files, if there are
/// several.
fn table(merged: &[Merged]) -> Table {
    let mut table = Table { heads: heads(), rows: Vec::new() };
    for Merged { label, times, .. } in merged {
        table.rows.push(row(label.clone(), &times.all));
        for class in times.several() {
            let name = format!("{label}, {}", file_class_name(class));
            table.rows.push(row(name, &times.classes[class]));
        }
    }
    table
}

/// Makes a table with a row for each server that served files of the class.
fn class_table(merged: &[Merged], class: usize) -> Table {
    let rows = merged.iter().map(|one| (one.label.clone(), &one.times.classes[class]));
    let rows = rows.filter(|(_, times)| !times.is_empty()).map(|(label, times)| row(label, times));
    Table { heads: heads(), rows: rows.collect() }
}

fn heads() -> Vec<String> {
    let shares = SHARES.iter().map(|(name, _)| *name);
    ["Times in ms", "Replies", "Mean"]
        .into_iter()
        .chain(shares)
        .chain(["Largest"])
        .map(str::to_owned)
        .collect()
}

fn row(name: String, times: &Histogram<u64>) -> Vec<String> {
    let ms = |us: f64| number::figure(us / 1e3);
    let mut row = vec![name, number::plain(times.len() as f64), ms(times.mean())];
    row.extend(SHARES.iter().map(|(_, part)| ms(times.value_at_quantile(*part) as f64)));
    row.push(ms(times.max() as f64));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::CURVES_MAX;

    #[test]
    fn replies_within_rising_times_are_counted() {
        let mut times = histogram();
        let mut generator = statistics::Generator::new(7);
        for _ in 0..2_000 {
            times.record(1 << generator.below(30)).expect("below an hour");
            times.record(generator.below(90_000) as u64).expect("below an hour");
        }
        let at = |n: i32| 1.3_f64.powi(n);
        let counted: Vec<_> = counts_within(&times, (0..80).map(at)).collect();
        let asked = (0..80).map(|n| (at(n), times.count_between(0, at(n).ceil() as u64)));
        assert_eq!(counted, asked.collect::<Vec<_>>());
        assert_eq!(counted[79].1, times.len());
    }

    /// The count includes only series that were measured at the rate.
    #[test]
    fn series_that_are_left_out_are_counted() {
        let panel = |sought: Option<f64>| {
            let series = (0..CURVES_MAX + 3).map(|n| {
                let point = Measured { offered: 100.0, sought, ..Measured::default() };
                let points = if n == 0 { Vec::new() } else { vec![point] };
                Series { name: n.to_string(), points, ..Series::default() }
            });
            Panel { series: series.collect(), ..Panel::default() }
        };
        for sought in [None, Some(0.8)] {
            let panel = panel(sought);
            let groups = groups(&panel, &Styles::new(&Default::default()));
            assert_eq!((groups.len(), groups[0].by_class), (1, sought.is_some()));
            assert_eq!((groups[0].members.len(), groups[0].left_out), (CURVES_MAX - 1, 3));
        }
    }
}
