//! Tuning surfaces: the effect of a server's knobs, as a curve for one knob, a heat map for two,
//! and for more a heat map for each choice of the others. And scaling: the effect of more
//! processors. All functions are pure.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::{
    Axis, Chart, Curve, Dot, Drawing, Figure, Form, Heat, HeatCell, Ranked, RankedBar, Table,
};
use super::comparison::{place, refusal};
use super::figures::Styles;
use super::findings::listed_at_most;
use super::number;
use super::summary::{Panel, Peak, Series, Summary, peak_spreads};
use crate::record::Header;
use crate::study::Definition;
use crate::testbed::Testbed;

/// The most small figures: more would not be read; the others are in the table.
const SMALL_MAX: usize = 12;
/// The most items of a list in a sentence.
const LISTED_MAX: usize = 8;

/// Makes the tuning surfaces of a panel: one for each server that ran with several settings.
pub(crate) fn tuning_figures(panel: &Panel, index: usize, share: f64) -> Vec<Figure> {
    let servers: BTreeSet<&str> = panel.series.iter().map(|series| &*series.server).collect();
    let surface = |(number, server): (usize, &str)| {
        let own: Vec<&Series> = panel.series.iter().filter(|s| s.server == server).collect();
        surface(panel, &own, &format!("surface-{index}-{number}"), share)
    };
    servers.into_iter().enumerate().flat_map(surface).collect()
}

/// A measured setting.
struct Cell<'s> {
    series: &'s Series,
    peak: Peak,
    /// The reason why the setting is not the best, however high its peak.
    refused: Option<&'static str>,
    is_best: bool,
}

fn surface(panel: &Panel, series: &[&Series], id: &str, share: f64) -> Vec<Figure> {
    let cells = cells(panel, series);
    let mut knobs: Vec<(String, Vec<String>)> = levels(&cells, panel.cpus);
    knobs.retain(|(_, levels)| levels.len() > 1);
    if cells.len() < 2 || knobs.is_empty() {
        return Vec::new();
    }
    // The knobs with the most levels become the axes.
    knobs.sort_by_key(|(_, levels)| std::cmp::Reverse(levels.len()));
    let table = table(&cells, &knobs);
    let about = about(&cells, &knobs, share);
    let title = format!("{}: {}", series[0].server, panel.title());
    let drawn = match &knobs[..] {
        [knob] => vec![(String::new(), over_one_knob(&cells, knob))],
        _ => heats(&cells, &knobs),
    };
    let (drawn, more) = highest(drawn);
    let last = drawn.len().saturating_sub(1);
    let figures = drawn.into_iter().enumerate().map(|(number, (facet, drawing))| {
        let suffix = if facet.is_empty() { String::new() } else { format!(", {facet}") };
        Figure {
            id: format!("{id}-{number}"),
            title: format!("Tuning of {title}{suffix}"),
            about: format!("{about}{more}"),
            drawing,
            // The whole table stands once, below the last figure.
            table: if number == last { table.clone() } else { Table::default() },
        }
    });
    figures.collect()
}

/// Selects at most [`SMALL_MAX`] small figures, in their order, and returns the sentence on the
/// others. The figure with the star is among them, even if its setting has not the highest peak.
fn highest(drawn: Vec<(String, Drawing)>) -> (Vec<(String, Drawing)>, String) {
    let left_out = drawn.len().saturating_sub(SMALL_MAX);
    if left_out == 0 {
        return (drawn, String::new());
    }
    let rank = |(_, drawing): &(String, Drawing)| {
        let Drawing::Heat(heat) = drawing else { return (false, 0.0) };
        let cells = || heat.cells.iter().flatten().flatten();
        (cells().any(|cell| cell.best), cells().map(|cell| cell.value).fold(0.0, f64::max))
    };
    let mut ranked: Vec<(usize, (String, Drawing))> = drawn.into_iter().enumerate().collect();
    ranked.sort_by(|(_, a), (_, b)| {
        let (a, b) = (rank(a), rank(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    ranked.truncate(SMALL_MAX);
    ranked.sort_by_key(|(place, _)| *place);
    let more = format!(
        " The {SMALL_MAX} small figures with the highest peaks are drawn, the star's among them; \
         {left_out} more are in the table."
    );
    (ranked.into_iter().map(|(_, one)| one).collect(), more)
}

/// Whether the best setting is in a figure.
pub(crate) fn has_star(figure: &Figure) -> bool {
    let Drawing::Heat(heat) = &figure.drawing else { return false };
    heat.cells.iter().flatten().flatten().any(|cell| cell.best)
}

/// The text below a surface. A curve has no place for the sign of lower bounds that cells have, so
/// the text names these settings.
fn about(cells: &[Cell<'_>], knobs: &[(String, Vec<String>)], share: f64) -> String {
    let bounds: Vec<&Cell<'_>> =
        cells.iter().filter(|cell| cell.peak.found.is_lower_bound()).collect();
    if let [(knob, values)] = knobs {
        let is_bound =
            |value: &&String| bounds.iter().any(|cell| cell.series.knobs.get(knob) == Some(*value));
        let named = values.iter().filter(is_bound);
        let named = named.map(|value| format!("{knob} = {}", shown(value)));
        let more = may_be_higher(&named.collect::<Vec<_>>());
        let drawn = match values.iter().all(|value| value.parse::<f64>().is_ok()) {
            true => "Bands",
            false => "The best has a star. Lines",
        };
        let spread = peak_spreads(cells.iter().map(|cell| cell.series), share);
        return format!("The highest throughput of each setting. {drawn} are {spread}.{more}");
    }
    let sign = match bounds[..] {
        [] => "",
        _ => " ≥ marks a peak that was not seen and may be higher.",
    };
    format!("The highest throughput of each setting; darker is more, the best has a star.{sign}")
}

fn may_be_higher(named: &[String]) -> String {
    match named {
        [] => String::new(),
        _ => {
            let named = listed_at_most(named, LISTED_MAX);
            format!(" These peaks were not seen and may be higher: {named}.")
        }
    }
}

/// Returns the settings that have a peak, in the order of the records.
fn cells<'s>(panel: &Panel, series: &[&'s Series]) -> Vec<Cell<'s>> {
    let cells = series.iter().filter_map(|series| {
        let (peak, refused) = (series.peak()?, refusal(series, panel));
        Some(Cell { series, peak, refused, is_best: false })
    });
    let mut cells: Vec<Cell<'_>> = cells.collect();
    let able = cells.iter_mut().filter(|cell| cell.refused.is_none());
    let best = able.min_by(|a, b| {
        let places = place(a.series, panel).cmp(&place(b.series, panel));
        places.then(b.peak.per_s.total_cmp(&a.peak.per_s))
    });
    best.into_iter().for_each(|best| best.is_best = true);
    cells
}

/// Returns the values of each knob, independent of the order of the runs: numbers by size, and
/// words after them. `{workers}` stands for the number of processors.
fn levels(cells: &[Cell<'_>], cpus: Option<f64>) -> Vec<(String, Vec<String>)> {
    let workers = cpus.map_or_else(|| "{workers}".to_owned(), |cpus| cpus.to_string());
    let mut knobs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (knob, value) in cells.iter().flat_map(|cell| &cell.series.knobs) {
        let values = knobs.entry(knob).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let number =
        |value: &String| value.replace("{workers}", &workers).parse().unwrap_or(f64::INFINITY);
    for values in knobs.values_mut() {
        values.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
    }
    knobs.into_iter().map(|(knob, values)| (knob.to_owned(), values)).collect()
}

/// Draws a curve over numbers, and bars beside words, between which there is nothing.
fn over_one_knob(cells: &[Cell<'_>], knob: &(String, Vec<String>)) -> Drawing {
    let numbers: Option<Vec<f64>> = knob.1.iter().map(|value| value.parse().ok()).collect();
    match numbers {
        Some(numbers) => Drawing::Lines(line(cells, &knob.0, &numbers)),
        None => Drawing::Ranked(bars(cells, knob)),
    }
}

fn bars(cells: &[Cell<'_>], (knob, values): &(String, Vec<String>)) -> Ranked {
    let bar = |value: &String| {
        let cell = cells.iter().find(|cell| cell.series.knobs.get(knob) == Some(value))?;
        let star = if cell.is_best { " ★" } else { "" };
        Some(RankedBar {
            name: format!("{knob} = {}", shown(value)),
            style: 0,
            value: cell.peak.per_s,
            low: cell.peak.low,
            high: cell.peak.high,
            text: format!("{}{star}", cell.peak.shown()),
        })
    };
    let bars = values.iter().filter_map(bar).collect();
    Ranked { label: "good replies/s".into(), mark: None, groups: vec![(String::new(), bars)] }
}

fn line(cells: &[Cell<'_>], knob: &String, numbers: &[f64]) -> Chart {
    let mut dots: Vec<Dot> = cells
        .iter()
        .filter_map(|cell| {
            let Peak { per_s, low, high, .. } = cell.peak;
            let x = cell.series.knobs.get(knob)?.parse().ok()?;
            Some(Dot { x, y: per_s, low, high })
        })
        .collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    // For a wide range of values only a logarithmic axis shows the small ones.
    let log = numbers[0] > 0.0 && numbers[numbers.len() - 1] / numbers[0] > 50.0;
    let x = if log { Axis::log(knob) } else { Axis::linear(knob) };
    let curve = Curve { label: "highest throughput".into(), form: Form::Measured, style: 0, dots };
    Chart { x, y: Axis::linear("good replies/s"), curves: vec![curve] }
}

/// Formats the value of a knob, so that an empty one is not overlooked.
fn shown(value: &str) -> String {
    if value.is_empty() { "(empty)".to_owned() } else { value.to_owned() }
}

/// Makes a heat map for each choice of the knobs after the first two.
fn heats(cells: &[Cell<'_>], knobs: &[(String, Vec<String>)]) -> Vec<(String, Drawing)> {
    let ((x, columns), (y, rows), others) = (&knobs[0], &knobs[1], &knobs[2..]);
    let low = cells.iter().map(|cell| cell.peak.per_s).fold(f64::INFINITY, f64::min);
    let high = cells.iter().map(|cell| cell.peak.per_s).fold(0.0, f64::max);
    let mut facets: BTreeMap<Vec<usize>, Heat> = BTreeMap::new();
    for cell in cells {
        let knob = |name: &str| cell.series.knobs.get(name);
        let index = |name: &str, values: &[String]| {
            values.iter().position(|value| Some(value) == knob(name))
        };
        let (Some(column), Some(row)) = (index(x, columns), index(y, rows)) else { continue };
        let facet = others.iter().map(|(name, values)| index(name, values).unwrap_or(usize::MAX));
        let heat = facets.entry(facet.collect()).or_insert_with(|| Heat {
            x_label: x.clone(),
            y_label: y.clone(),
            value_label: "good replies/s".into(),
            columns: columns.iter().map(|value| shown(value)).collect(),
            rows: rows.iter().map(|value| shown(value)).collect(),
            cells: vec![vec![None; columns.len()]; rows.len()],
            range: (low, high),
        });
        heat.cells[row][column] = Some(heat_cell(cell));
    }
    let named = facets.into_iter().map(|(facet, heat)| {
        let parts = others.iter().zip(&facet).map(|((name, values), index)| {
            format!("{name} = {}", values.get(*index).map_or("?".into(), |value| shown(value)))
        });
        (parts.collect::<Vec<_>>().join(", "), Drawing::Heat(heat))
    });
    named.collect()
}

fn heat_cell(cell: &Cell<'_>) -> HeatCell {
    let knobs = cell.series.knobs.iter();
    let knobs = knobs.map(|(name, value)| format!("{name} = {}", shown(value)));
    HeatCell {
        value: cell.peak.per_s,
        text: format!("{}{}", cell.peak.found.sign(), number::figure(cell.peak.per_s)),
        about: format!(
            "{}: {} good replies/s{}",
            knobs.collect::<Vec<_>>().join(", "),
            cell.peak.shown(),
            refusal_suffix(cell.refused)
        ),
        best: cell.is_best,
    }
}

fn table(cells: &[Cell<'_>], knobs: &[(String, Vec<String>)]) -> Table {
    let mut table = Table::new(&["Setting"]);
    table.heads.extend(knobs.iter().map(|(name, _)| name.clone()));
    table.heads.push("Good replies/s".into());
    let mut ranked: Vec<&Cell<'_>> = cells.iter().collect();
    ranked.sort_by(|a, b| b.peak.per_s.total_cmp(&a.peak.per_s));
    ranked.sort_by_key(|cell| (!cell.is_best, cell.refused.is_some()));
    for cell in ranked {
        let mut row = vec![cell.series.setting.clone()];
        let values = knobs.iter().map(|(name, _)| cell.series.knobs.get(name).cloned());
        row.extend(values.map(Option::unwrap_or_default));
        row.push(format!("{}{}", cell.peak.shown(), refusal_suffix(cell.refused)));
        table.rows.push(row);
    }
    table
}

fn refusal_suffix(refused: Option<&str>) -> String {
    refused.map_or_else(String::new, |why| format!(" ({why})"))
}

/// A workload, whether its load is closed, and the testbed without its number of processors.
type Family = (String, bool, String);

/// Makes the figures of throughput against the number of processors, for each workload and for
/// testbeds that differ only in that number.
pub(crate) fn scaling(summary: &Summary, header: &Header, styles: &Styles) -> Vec<Figure> {
    let beside_cpus = beside_cpus(header);
    let mut groups: BTreeMap<Family, Vec<(f64, &Panel)>> = BTreeMap::new();
    for panel in &summary.panels {
        let testbed = header.testbeds.iter().find(|testbed| testbed.name == panel.testbed);
        let Some(testbed) = testbed else { continue };
        let Some(cpus) = testbed.numbers.get("cpus").copied() else { continue };
        let Some(others) = beside_cpus.get(&testbed.name) else { continue };
        let key = (panel.workload.clone(), panel.closed, others.clone());
        groups.entry(key).or_default().push((cpus, panel));
    }
    let figure = |(index, ((workload, _, others), mut panels)): (usize, (_, Vec<_>))| {
        panels.sort_by(|(a, _): &(f64, &Panel), (b, _)| a.total_cmp(b));
        panels.dedup_by(|(a, _), (b, _)| a == b);
        let others: String = others;
        scaling_figure(index, &workload, &others, &panels, styles)
    };
    groups.into_iter().enumerate().filter_map(figure).collect()
}

/// The descriptions of a study's testbeds, by name, without the number of processors.
fn beside_cpus(header: &Header) -> BTreeMap<String, String> {
    let definition = Definition::parse(&header.name, &header.definition, None);
    let testbeds = definition.map(|definition| definition.testbeds).unwrap_or_default();
    let about = |testbed: &Testbed| Testbed { cpus: None, ..testbed.clone() }.about();
    testbeds.iter().map(|testbed| (testbed.name.clone(), about(testbed))).collect()
}

fn scaling_figure(
    index: usize,
    workload: &String,
    others: &str,
    panels: &[(f64, &Panel)],
    styles: &Styles,
) -> Option<Figure> {
    let names = with_peaks(panels);
    if panels.len() < 2 || names.is_empty() {
        return None;
    }
    let curve = |name: &&str| {
        let dots = peaks(panels, name).map(|(cpus, peak)| {
            let Peak { per_s, low, high, .. } = peak;
            Dot { x: cpus, y: per_s, low, high }
        });
        let (label, style) = ((*name).to_owned(), styles.style(name));
        Curve { label, form: Form::Measured, style, dots: dots.collect() }
    };
    let mut curves: Vec<Curve> = names.iter().map(curve).collect();
    let top = curves.iter().flat_map(|c| &c.dots).map(|dot| dot.high).fold(0.0, f64::max);
    curves.extend(linear(&names, panels, top));
    let (bounds, limits) = (bounds(&names, panels), limits(panels, top, &mut curves));
    let among = if others.is_empty() { String::new() } else { format!(" ({others})") };
    Some(Figure {
        id: format!("scaling-{index}"),
        title: format!("Scaling: {workload}"),
        about: format!(
            "The highest throughput against the number of processors the server was given{among}.\
             {bounds} {limits}"
        ),
        drawing: Drawing::Lines(Chart {
            x: Axis::linear("CPUs"),
            y: Axis::linear("good replies/s"),
            curves,
        }),
        table: scaling_table(&names, panels),
    })
}

/// The names of the series that have a peak in any panel, in the order of the records.
fn with_peaks<'p>(panels: &[(f64, &'p Panel)]) -> Vec<&'p str> {
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|(_, panel)| &panel.series) {
        if !names.contains(&&*series.name) && series.peak().is_some() {
            names.push(&series.name);
        }
    }
    names
}

/// The peaks of a series, with the numbers of processors.
fn peaks<'p>(panels: &'p [(f64, &Panel)], name: &'p str) -> impl Iterator<Item = (f64, Peak)> + 'p {
    panels.iter().filter_map(move |(cpus, panel)| {
        let series = panel.series.iter().find(|series| series.name == name)?;
        Some((*cpus, series.peak()?))
    })
}

/// The line of linear scaling from the highest throughput per processor of any server on its fewest
/// processors. The label tells if one of these peaks may be higher, for then another server may be
/// the best.
fn linear(names: &[&str], panels: &[(f64, &Panel)], top: f64) -> Option<Curve> {
    let first = || names.iter().filter_map(|name| peaks(panels, name).next());
    let each = first().map(|(cpus, peak)| peak.per_s / cpus).max_by(f64::total_cmp)?;
    let is_seen = first().all(|(_, peak)| !peak.found.is_lower_bound());
    let ideal = panels.iter().map(|(cpus, _)| Dot::exact(*cpus, each * cpus));
    let dots = ideal.filter(|dot| dot.y <= top * 1.3).collect();
    let label = if is_seen { "linear from the best" } else { "linear from the best seen" };
    Some(Curve { label: label.into(), form: Form::Reference, style: 0, dots })
}

/// The sentence that names the dots that are lower bounds.
fn bounds(names: &[&str], panels: &[(f64, &Panel)]) -> String {
    let named = names.iter().filter_map(|name| {
        let bounds = peaks(panels, name).filter(|(_, peak)| peak.found.is_lower_bound());
        let cpus: Vec<f64> = bounds.map(|(cpus, _)| cpus).collect();
        (!cpus.is_empty()).then(|| format!("{name} with {}", cpus_listed(&cpus)))
    });
    may_be_higher(&named.collect::<Vec<_>>())
}

/// Formats numbers of processors: `1 CPU`, `1 and 2 CPUs`.
fn cpus_listed(counts: &[f64]) -> String {
    let listed: Vec<String> = counts.iter().map(|count| number::plain(*count)).collect();
    let noun = if counts == [1.0] { "CPU" } else { "CPUs" };
    format!("{} {noun}", listed_at_most(&listed, LISTED_MAX))
}

/// Draws the path's own limit where it is known, and returns the sentence on it. A limit that would
/// flatten the curves is only given in the sentence, and no line is drawn across such a place.
fn limits(panels: &[(f64, &Panel)], top: f64, curves: &mut Vec<Curve>) -> String {
    let known = panels.iter().filter_map(|(cpus, panel)| Some((*cpus, panel.limit_per_s?)));
    let known: Vec<(f64, f64)> = known.collect();
    if known.is_empty() {
        return "The path's own limit was not measured.".into();
    }
    let is_near = |(_, limit): &(f64, f64)| *limit <= 2.0 * top;
    let runs = known.chunk_by(|a, b| is_near(a) == is_near(b));
    let longest = runs.filter(|run| is_near(&run[0])).max_by_key(|run| run.len());
    let near = longest.unwrap_or_default();
    if near.len() > 1 {
        let label = format!("network limit {}/s", range(near));
        let dots = near.iter().map(|&(cpus, limit)| Dot::exact(cpus, limit)).collect();
        curves.push(Curve { label, form: Form::Reference, style: 0, dots });
    }
    let only = |of: &[(f64, f64)]| {
        let cpus: Vec<f64> = of.iter().map(|(cpus, _)| *cpus).collect();
        format!("for {} only", cpus_listed(&cpus))
    };
    let measured = match known.len() == panels.len() {
        true => String::new(),
        false => format!(" (measured {})", only(&known)),
    };
    let drawn = match near.len() {
        0 => ", above this figure".into(),
        1 => ", which is not drawn".into(),
        count if count == known.len() => String::new(),
        _ => format!(", drawn {}", only(near)),
    };
    format!("The path between the hosts ends at {} requests/s{measured}{drawn}.", range(&known))
}

/// Formats the range from the lowest limit to the highest; one figure if they look the same.
fn range(limits: &[(f64, f64)]) -> String {
    let limits = || limits.iter().map(|(_, limit)| *limit);
    let low = number::figure(limits().fold(f64::INFINITY, f64::min));
    let high = number::figure(limits().fold(0.0, f64::max));
    if low == high { low } else { format!("{low} to {high}") }
}

fn scaling_table(names: &[&str], panels: &[(f64, &Panel)]) -> Table {
    let mut table = Table::new(&["CPUs"]);
    table.heads.extend(names.iter().map(|name| (*name).to_owned()));
    for panel in panels {
        let cells = names.iter().map(|name| {
            let peak = peaks(std::slice::from_ref(panel), name).next();
            peak.map_or_else(String::new, |(_, peak)| peak.shown())
        });
        table.rows.push([number::plain(panel.0)].into_iter().chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RaceOutcome, Rival, Search, Tuning};

    /// Low limits are drawn where the servers are seen against them; high limits, and single ones
    /// that make no line, are only given in words.
    #[test]
    fn a_limit_is_drawn_or_given_in_words() {
        let check = |limits: &[Option<f64>], drawn: usize, expected: &str| {
            let panels =
                limits.iter().map(|&limit_per_s| Panel { limit_per_s, ..Panel::default() });
            let panels: Vec<Panel> = panels.collect();
            let panels: Vec<_> = (1..).map(f64::from).zip(&panels).collect();
            let mut curves = Vec::new();
            let told = super::limits(&panels, 1000.0, &mut curves);
            assert_eq!(told.trim_start_matches("The path between the hosts ends at "), expected);
            assert_eq!(curves.iter().map(|curve| curve.dots.len()).sum::<usize>(), drawn);
            assert!(curves.iter().all(|curve| curve.form == Form::Reference));
        };
        let (low, high) = (Some(1100.0), Some(9000.0));
        check(&[None, None], 0, "The path's own limit was not measured.");
        check(&[low, low], 2, "1,100 requests/s.");
        check(&[low, Some(1500.0)], 2, "1,100 to 1,500 requests/s.");
        check(&[high, high], 0, "9,000 requests/s, above this figure.");
        let only = "requests/s (measured for 2 CPUs only)";
        check(&[None, high], 0, &format!("9,000 {only}, above this figure."));
        check(&[None, low], 0, &format!("1,100 {only}, which is not drawn."));
        check(&[low, None, low], 2, "1,100 requests/s (measured for 1 and 3 CPUs only).");
        let both = "1,100 to 9,000 requests/s,";
        check(&[low, high], 0, &format!("{both} which is not drawn."));
        check(&[low, high, low], 0, &format!("{both} which is not drawn."));
        check(&[low, high, low, low], 2, &format!("{both} drawn for 3 and 4 CPUs only."));
    }

    /// A series with `count` searches of equal outcome; the values of its knobs `a`, `b` and so on
    /// are the characters of the setting's name.
    fn searched(server: &str, setting: &str, rate: f64, broke: Option<f64>, count: u32) -> Series {
        let search = Search { held_per_s: rate, broke_per_s: broke, ..Search::default() };
        let knobs = ["a", "b", "c", "d", "e", "f"].into_iter().zip(setting.chars());
        Series {
            name: server.into(),
            server: server.into(),
            setting: setting.into(),
            knobs: knobs.map(|(knob, value)| (knob.to_owned(), value.to_string())).collect(),
            limits: (1..=count).map(|block| (block, rate)).collect(),
            bounds: (1..=count).filter(|_| broke.is_none()).collect(),
            searches: vec![search; count as usize],
            ..Series::default()
        }
    }

    /// The winner has the star, though another setting with more searches sustained more.
    #[test]
    fn the_star_is_where_the_tuning_says() {
        let setting = |name, rate, count| searched("s", name, rate, Some(rate), count);
        let series =
            vec![setting("11", 100.0, 20), setting("12", 98.0, 5), setting("22", 120.0, 1)];
        let rivals = vec![Rival { setting: "11".into(), outcome: RaceOutcome::Better }];
        let tuning = Some(Tuning { winner: "12".into(), rivals });
        let figures = tuning_figures(&Panel { series, tuning, ..Panel::default() }, 0, 0.95);
        let rows = figures[0].table.rows.iter().map(|row| format!("{} {}", row[0], row[3]));
        assert_eq!(rows.collect::<Vec<_>>(), ["12 98.0", "11 100", "22 120 (given up)"]);
        let Drawing::Heat(heat) = &figures[0].drawing else { panic!("two knobs") };
        let cells = heat.cells.iter().flatten().flatten();
        let starred = cells.filter(|cell| cell.best).map(|cell| &*cell.text);
        assert_eq!(starred.collect::<Vec<_>>(), ["98.0"]);
    }

    /// Of many small figures those with the highest peaks are drawn, and the winner's.
    #[test]
    fn the_best_small_figures_are_drawn_in_their_order() {
        let names = (0..16).flat_map(|n| ["11", "22"].map(|axes| (n, format!("{axes}{n:04b}"))));
        let settings = names.map(|(n, name)| {
            let rate = 100.0 + f64::from(n);
            searched("s", &name, rate, Some(rate), 1)
        });
        let tuning = Some(Tuning { winner: "110000".into(), rivals: Vec::new() });
        let panel = Panel { series: settings.collect(), tuning, ..Panel::default() };
        let figures = tuning_figures(&panel, 0, 0.95);
        let drawn = figures.iter().map(|figure| {
            let facet = figure.title.split_once(", ").expect("a facet").1;
            facet.replace(|c: char| !c.is_ascii_digit(), "")
        });
        let expected = std::iter::once(0).chain(5..16).map(|n| format!("{n:04b}"));
        assert_eq!(drawn.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let more = " The 12 small figures with the highest peaks are drawn, the star's among \
                    them; 4 more are in the table.";
        assert!(figures[0].about.ends_with(more), "{}", figures[0].about);
        assert_eq!(figures[11].table.rows.len(), 32);
    }

    /// A line would suggest values between its points, so words have bars.
    #[test]
    fn values_that_are_words_have_bars_under_their_names() {
        let setting = |value: &str| {
            let knobs = [("events".to_owned(), value.to_owned())].into();
            Series { knobs, ..searched("s", value, 100.0, Some(100.0), 1) }
        };
        let figures = |values: [&str; 2]| {
            let series = values.map(setting).into();
            tuning_figures(&Panel { series, ..Panel::default() }, 0, 0.95)
        };
        let drawn = |values: [&str; 2]| {
            let mut figures = figures(values);
            match figures.remove(0).drawing {
                Drawing::Lines(chart) => {
                    let places = chart.curves[0].dots.iter().map(|dot| dot.x.to_string());
                    format!(
                        "curve over {}: {}",
                        chart.x.label,
                        places.collect::<Vec<_>>().join(" ")
                    )
                }
                Drawing::Ranked(ranked) => {
                    let bars = ranked.groups.iter().flat_map(|(_, bars)| bars);
                    bars.map(|bar| format!("{}; ", bar.name)).collect()
                }
                other => panic!("{other:?}"),
            }
        };
        let about = "The highest throughput of each setting. The best has a star. Lines are \
                     brackets of single searches.";
        assert_eq!(figures(["a", "b"])[0].about, about);
        assert_eq!(drawn(["poll", ""]), "events = (empty); events = poll; ");
        assert_eq!(drawn(["16", "4"]), "curve over events: 4 16");
    }

    /// A value may be empty, but a title does not end in a sign.
    #[test]
    fn a_value_that_is_empty_is_seen() {
        let setting = |name: &str, c: &str| {
            let series = searched("s", name, 100.0, Some(100.0), 1);
            let more = [("c".to_owned(), c.to_owned())];
            Series { knobs: series.knobs.into_iter().chain(more).collect(), ..series }
        };
        let series = vec![setting("11", ""), setting("22", "x"), setting("33", "")];
        let figures = tuning_figures(&Panel { series, ..Panel::default() }, 0, 0.95);
        let titles: Vec<&str> = figures.iter().map(|figure| &*figure.title).collect();
        assert!(
            titles[0].ends_with(", c = (empty)") && titles[1].ends_with(", c = x"),
            "{titles:?}"
        );
        let Drawing::Heat(heat) = &figures[0].drawing else { panic!("three knobs") };
        let cells = heat.cells.iter().flatten().flatten();
        assert!(cells.clone().all(|cell| cell.about.contains(", c = (empty): ")), "{heat:?}");
        assert_eq!(cells.count(), 2);
    }

    /// The order of the runs is randomised, that of an axis is not.
    #[test]
    fn levels_stand_by_size_and_words_after_them() {
        let setting = |(a, b): (&str, &str)| {
            let knobs = [("a", a), ("b", b)].map(|(knob, value)| (knob.into(), value.into()));
            Series { knobs: knobs.into(), ..searched("s", "", 100.0, Some(100.0), 1) }
        };
        let levels =
            [("16", "on"), ("off", "on"), ("{workers}", "off"), ("auto", "on"), ("2", "on")];
        let series = levels.into_iter().map(setting).collect();
        let panel = Panel { series, cpus: Some(4.0), ..Panel::default() };
        let Drawing::Heat(heat) = &tuning_figures(&panel, 0, 0.95)[0].drawing else {
            panic!("two knobs")
        };
        assert_eq!(heat.columns, ["2", "{workers}", "16", "auto", "off"]);
        assert_eq!(heat.rows, ["off", "on"]);
    }

    /// Lower bounds have a sign in heat maps and tables, and are named in words below a curve.
    #[test]
    fn settings_whose_peak_may_be_higher_are_marked() {
        let panel = |second| Panel {
            series: vec![
                searched("s", "11", 100.0, None, 1),
                searched("s", second, 98.0, Some(98.0), 1),
            ],
            ..Panel::default()
        };
        let heats = tuning_figures(&panel("22"), 0, 0.95);
        let Drawing::Heat(heat) = &heats[0].drawing else { panic!("two knobs") };
        let cells = heat.cells.iter().flatten().flatten();
        let shown = cells.map(|cell| (&*cell.text, &*cell.about));
        let first = ("≥ 100", "a = 1, b = 1: ≥ 100 good replies/s");
        let second = ("98.0", "a = 2, b = 2: 98.0 good replies/s");
        assert_eq!(shown.collect::<Vec<_>>(), [first, second]);
        assert!(heats[0].about.contains("≥ marks a peak"), "{}", heats[0].about);
        let rows = heats[0].table.rows.iter().map(|row| &*row[3]);
        assert_eq!(rows.collect::<Vec<_>>(), ["≥ 100", "98.0"]);

        let lines = tuning_figures(&panel("21"), 0, 0.95);
        let about = "The highest throughput of each setting. Bands are brackets of single \
                     searches. These peaks were not seen and may be \
                     higher: a = 1.";
        assert_eq!(lines[0].about, about);
    }

    #[test]
    fn testbeds_of_a_family_differ_in_their_processors_only() {
        let definition = "title = 't'\nservers = ['nginx']\nworkloads = ['1KB']\nrepetitions = 1\n\
             window = '1s'\noffered = { mat = true }\n\
             [[testbeds]]\nname = 'one'\ncpus = 1\n[[testbeds]]\nname = 'two'\ncpus = 2\n\
             [[testbeds]]\nname = 'other'\ncpus = 2\nclient_cpus = 1\n";
        let header = Header { definition: definition.into(), ..Header::default() };
        let found = beside_cpus(&header);
        assert_eq!(found["one"], found["two"]);
        assert_ne!(found["other"], found["one"]);
        assert!(beside_cpus(&Header::default()).is_empty(), "nothing is known of them");
    }

    #[test]
    fn numbers_of_cpus_whose_peak_may_be_higher_are_marked() {
        let styles = Styles::new(&Summary::default());
        let check = |broke: [Option<f64>; 2], row: &str, more: &str, label: &str| {
            let panels = [1000.0, 1900.0].map(|rate| Panel {
                series: ["x", "y"]
                    .into_iter()
                    .zip(broke)
                    .map(|(server, broke)| searched(server, "", rate, broke.map(|_| rate), 1))
                    .collect(),
                ..Panel::default()
            });
            let panels = [(1.0, &panels[0]), (2.0, &panels[1])];
            let figure = scaling_figure(0, &"w".to_owned(), "", &panels, &styles).unwrap();
            assert_eq!(figure.table.rows[1].join(" "), row);
            let about = "The highest throughput against the number of processors the server was \
                         given.";
            let limit = "The path's own limit was not measured.";
            assert_eq!(figure.about, format!("{about}{more} {limit}"));
            let Drawing::Lines(chart) = &figure.drawing else { panic!("curves") };
            assert_eq!(chart.curves.last().unwrap().label, label);
        };
        check([Some(1.0); 2], "2 1,900 1,900", "", "linear from the best");
        let more = " These peaks were not seen and may be higher: y with 1 and 2 CPUs.";
        check([Some(1.0), None], "2 1,900 ≥ 1,900", more, "linear from the best seen");
    }
}
