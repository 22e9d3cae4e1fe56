//! The tables of a report that belong to no figure. All functions are pure; texts are not escaped.

use serde_json::Value;
use statistics::{Estimate, Interval};

use super::chart::Table;
use super::comparison::Comparison;
use super::figures::cell;
use super::measure::Measure;
use super::number;
use super::summary::{Found, Measured, Panel, Series, offered};
use crate::record::{Offered, Opened, Purpose, Search, Skipped};
use crate::void::in_words;

/// Makes the table of the highest throughput of each series, its cost, and its distance from the
/// floor. Without a search for peaks (`of_peaks` is false) the throughput is that at the offered
/// load.
pub(crate) fn summary(panel: &Panel, confidence: f64, of_peaks: bool) -> Table {
    let throughput = match of_peaks {
        true => "Highest throughput, requests/s",
        false => "Served, requests/s",
    };
    let mut table = Table::new(&[
        "Server",
        throughput,
        &format!("at {}", panel.unit()),
        "of the floor's",
        "CPU, us/request",
        "times the floor's",
        "Memory",
        "p99, ms",
        "Failed",
        "Fairness spread, points",
    ]);
    let floor = panel.floor();
    let mut ranked: Vec<&Series> = panel.series.iter().collect();
    let peak = |series: &Series| series.peak().map_or(-1.0, |peak| peak.per_s);
    ranked.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    for series in ranked {
        let (mut per_s, at) = peak_cells(series);
        let point = series.at_peak();
        if let (false, Some(point)) = (of_peaks, point) {
            per_s = cell(point, Measure::Throughput);
        }
        let of = |measure| point.map_or_else(String::new, |point| cell(point, measure));
        table.rows.push(vec![
            series.name.clone(),
            per_s,
            at,
            floor.map_or_else(String::new, |floor| by_floor(series, floor, confidence)),
            of(Measure::CpuPerRequest),
            floor
                .and_then(|floor| cpu_by_floor(series, floor, confidence))
                .map_or_else(String::new, |ratio| number::estimate(&ratio, number::ratio)),
            of(Measure::Memory),
            of(Measure::P99),
            of(Measure::ErrorShare),
            of(Measure::Spread),
        ]);
    }
    without_empty_columns(&table)
}

fn peak_cells(series: &Series) -> (String, String) {
    let Some(peak) = series.peak() else {
        return (without_peak(series).into(), String::new());
    };
    let how = if peak.found == Found::Searched { " (MAT)" } else { "" };
    (format!("{}{how}", peak.shown()), number::plain(peak.offered))
}

/// The reason why a series has no peak.
fn without_peak(series: &Series) -> &'static str {
    let is_for_limit = |trial: &Measured| trial.purpose.utilisation().is_none();
    match &*series.trials {
        _ if !series.searches.is_empty() => "no rate held",
        [] => "no valid run",
        trials if trials.iter().any(is_for_limit) => "no search ended",
        // Searches for the rate of a utilisation find no highest rate.
        _ => "trials only",
    }
}

/// Formats the ratio to the floor. It is a bound if one of the two peaks may be higher, and unknown
/// if both may.
fn by_floor(series: &Series, floor: &Series, confidence: f64) -> String {
    let is_bound = |series: &Series| series.peak().is_some_and(|peak| peak.found.is_lower_bound());
    let sign = match (is_bound(series), is_bound(floor)) {
        (true, true) => return String::new(),
        (true, false) => "≥ ",
        (false, true) => "≤ ",
        (false, false) => "",
    };
    let pair = Comparison::compare_peaks(series, floor, confidence);
    pair.map_or_else(String::new, |pair| format!("{sign}{}", pair.shown()))
}

/// The ratio of the processor time to the floor's: at the same point, block by block, if both have
/// it; else that of the medians at the peak of each, which has no interval.
pub(crate) fn cpu_by_floor(series: &Series, floor: &Series, confidence: f64) -> Option<Estimate> {
    let point = series.at_peak()?;
    let other = floor.point_at(point.offered).or_else(|| floor.at_peak())?;
    if let Some((ratio, _)) = point.ratio(other, Measure::CpuPerRequest, confidence) {
        return Some(ratio);
    }
    let cost = |point: &Measured| point.median(Measure::CpuPerRequest);
    let median = cost(point)? / cost(other).filter(|cost| *cost > 0.0)?;
    Some(Estimate { median, interval: Interval { low: median, high: median } })
}

fn without_empty_columns(table: &Table) -> Table {
    let filled = |column: &usize| table.rows.iter().any(|row| !row[*column].is_empty());
    let kept: Vec<usize> = (0..table.heads.len()).filter(filled).collect();
    let chosen = |row: &Vec<String>| kept.iter().map(|&column| row[column].clone()).collect();
    Table { heads: chosen(&table.heads), rows: table.rows.iter().map(chosen).collect() }
}

/// Makes the table of all points, with all measures of clients and server.
pub(crate) fn points(panel: &Panel) -> Table {
    let mut table = Table::new(&["Server", &format!("Offered {}", panel.unit()), "Blocks"]);
    table.heads.extend(Measure::ALL.iter().map(|measure| measure.head().to_owned()));
    for series in &panel.series {
        for point in series.points.iter().chain(&series.trials) {
            table.rows.push(point_row(series, point));
        }
    }
    without_empty_columns(&table)
}

fn point_row(series: &Series, point: &Measured) -> Vec<String> {
    let name = match &point.purpose {
        Purpose::Point => series.name.clone(),
        purpose => format!("{} ({purpose})", series.name),
    };
    let head = [name, number::plain(point.offered), point.blocks.len().to_string()];
    head.into_iter().chain(Measure::ALL.iter().map(|&measure| cell(point, measure))).collect()
}

/// Makes the table of all points, with the observations beside the clients.
pub(crate) fn observed_points(panel: &Panel) -> Table {
    let mut table = observed_table(&["Server", &format!("Offered {}", panel.unit())]);
    for series in &panel.series {
        for point in series.curve() {
            let head = [series.name.clone(), number::plain(point.offered)];
            table.rows.push(observed_row(head, point));
        }
    }
    without_empty_columns(&table)
}

/// Makes the table of the observations of each series at its highest throughput, in all panels: so
/// the effects of more processors or less memory stand in one column.
pub(crate) fn observed_peaks(panels: &[Panel]) -> Table {
    let mut table = observed_table(&["Server", "Where", "Offered"]);
    for panel in panels {
        for series in &panel.series {
            let Some(point) = series.at_peak() else { continue };
            let offered = format!("{} {}", number::plain(point.offered), panel.unit());
            let head = [series.name.clone(), panel.title(), offered];
            table.rows.push(observed_row(head, point));
        }
    }
    without_empty_columns(&table)
}

fn observed_table(heads: &[&str]) -> Table {
    let mut table = Table::new(heads);
    table.heads.extend(Measure::OBSERVED.iter().map(|measure| measure.head().to_owned()));
    table
}

fn observed_row<const N: usize>(head: [String; N], point: &Measured) -> Vec<String> {
    head.into_iter().chain(Measure::OBSERVED.iter().map(|&measure| cell(point, measure))).collect()
}

/// Makes the table of void runs, which say nothing about a server.
pub(crate) fn voided(opened: &Opened) -> Table {
    let mut table = Table::new(&["Run", "Server", "Point", "Offered", "Block", "Attempt", "Why"]);
    for run in opened.runs.iter().filter(|run| !run.void.is_empty()) {
        let point = &run.point;
        let unit = match point.offered {
            Offered::RequestsPerS(_) => "requests/s",
            Offered::Connections(_) => "connections",
        };
        table.rows.push(vec![
            run.number.to_string(),
            [&*point.server, &*point.setting].join(" ").trim().to_owned(),
            [&*point.workload, &*point.testbed].join(", "),
            format!("{} {unit}", number::plain(offered(point))),
            run.block.to_string(),
            run.attempt.to_string(),
            in_words(&run.void),
        ]);
    }
    table
}

/// Makes the table of servers and testbeds that took no part.
pub(crate) fn skipped(opened: &Opened) -> Table {
    let mut table = Table::new(&["What", "Why", "Fix"]);
    for skipped in &opened.header.skipped {
        let Skipped { what, reason, command } = skipped;
        table.rows.push(vec![what.to_string(), reason.clone(), command.clone()]);
    }
    table
}

/// Makes the table of the results of searches.
pub(crate) fn searches(opened: &Opened) -> Table {
    let mut table = Table::new(&[
        "Server",
        "Point",
        "Conditions",
        "Held, requests/s",
        "Broke at",
        "What broke",
        "Throughput at the held rate",
    ]);
    for search in &opened.searches {
        let throughputs: Vec<String> =
            search.throughputs_per_s.iter().map(|value| number::figure(*value)).collect();
        let (held, broke) = match (search.held_per_s, search.broke_per_s.map(number::figure)) {
            (0.0, broke) => ("none".into(), broke.unwrap_or_default()),
            (held, broke) => (number::figure(held), broke.unwrap_or("nothing broke".into())),
        };
        table.rows.push(vec![
            [&*search.server, &*search.setting].join(" ").trim().to_owned(),
            [&*search.workload, &*search.testbed].join(", "),
            search.conditions.clone(),
            held,
            broke,
            what_broke(search),
            throughputs.join(", "),
        ]);
    }
    table
}

/// The reasons why a search ended: what broke, or what kept the search from finding that.
fn what_broke(search: &Search) -> String {
    let mut reasons = search.broken.clone();
    if search.generator_bound {
        reasons.push("the generator was saturated".into());
    } else if search.held_per_s == 0.0 && reasons.is_empty() {
        reasons.push(search.reason().into());
    }
    reasons.join("; ")
}

/// Makes the table of the machine: a row for each value, a column for each time the study was begun
/// or resumed.
pub(crate) fn environment(opened: &Opened) -> Table {
    let mut table = Table::new(&["What"]);
    let flat: Vec<Vec<(String, String)>> = opened.environments.iter().map(flattened).collect();
    table.heads.extend((0..flat.len()).map(|n| match n {
        0 => "When begun".to_owned(),
        n => format!("Resumed {n}"),
    }));
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in flat.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let values = flat.iter().map(|values| {
            let value = values.iter().find(|(known, _)| known == name);
            value.map(|(_, value)| value.clone()).unwrap_or_default()
        });
        table.rows.push([name.clone()].into_iter().chain(values).collect());
    }
    table
}

fn flattened(value: &Value) -> Vec<(String, String)> {
    let mut flat = Vec::new();
    flatten(String::new(), value, &mut flat);
    flat
}

fn flatten(name: String, value: &Value, flat: &mut Vec<(String, String)>) {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(below(key), value, flat));
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let numbered = items.iter().zip(1..);
            numbered.for_each(|(value, n): (_, usize)| flatten(below(&n.to_string()), value, flat));
        }
        Value::Array(items) => {
            flat.push((name, items.iter().map(text).collect::<Vec<_>>().join(", ")));
        }
        value => flat.push((name, text(value))),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        value => value.to_string(),
    }
}

/// Makes the table of the servers that took part.
pub(crate) fn servers(opened: &Opened) -> Table {
    let mut table = Table::new(&["Server", "Version", "What it is"]);
    for server in &opened.header.servers {
        let floor = if server.name == opened.header.floor { " (the floor)" } else { "" };
        table.rows.push(vec![
            format!("{}{floor}", server.name),
            server.versions(),
            server.description.clone(),
        ]);
    }
    table
}

/// Makes the table of workloads, testbeds, and the limit of the path between the hosts.
pub(crate) fn described(opened: &Opened) -> Table {
    let mut table = Table::new(&["Name", "What it is", "Numbers"]);
    let header = &opened.header;
    for one in header.workloads.iter().chain(&header.testbeds) {
        let mut numbers: Vec<String> = one
            .numbers
            .iter()
            .map(|(name, value)| format!("{name} {}", number::plain(*value)))
            .collect();
        if let Some((_, ceiling)) = opened.ceilings.iter().rfind(|(name, _)| *name == one.name) {
            numbers.push(format!(
                "path's limit {} requests/s, {} MB/s",
                number::figure(ceiling.requests_per_s),
                number::figure(ceiling.bytes_per_s / 1e6)
            ));
        }
        table.rows.push(vec![one.name.clone(), one.about.clone(), numbers.join("; ")]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_without_a_peak_says_what_is_missing() {
        let check = |purposes: &[Purpose], expected: &str| {
            let trial =
                |purpose: &Purpose| Measured { purpose: purpose.clone(), ..Measured::default() };
            let trials = purposes.iter().map(trial).collect();
            assert_eq!(peak_cells(&Series { trials, ..Series::default() }).0, expected);
        };
        check(&[], "no valid run");
        check(&[Purpose::Rung(1)], "no search ended");
        check(&[0.5, 0.8].map(Purpose::Utilisation), "trials only");
        let searches = vec![Search::default()];
        let searched = Series { searches, ..Series::default() };
        assert_eq!(peak_cells(&searched).0, "no rate held");
    }

    #[test]
    fn a_search_says_what_it_found_or_why_it_found_nothing() {
        let check = |search: Search, expected: [&str; 3]| {
            let opened = Opened { searches: vec![search], ..Opened::default() };
            assert_eq!(searches(&opened).rows[0][3..6], expected);
        };
        let broken = |why: &str| vec![why.to_owned()];
        let none = Search::default;
        check(Search { broken: broken("no such file"), ..none() }, ["none", "", "no such file"]);
        check(none(), ["none", "", "every run was void"]);
        let broke = Search { broke_per_s: Some(1.0), broken: broken("served"), ..none() };
        check(broke, ["none", "1", "served"]);
        let bound = Search { held_per_s: 200.0, generator_bound: true, ..none() };
        check(bound, ["200", "nothing broke", "the generator was saturated"]);
        check(Search { held_per_s: 200.0, ..none() }, ["200", "nothing broke", ""]);
    }
}
