//! CSV for programs: a line for each run, or a line for each point. Units are in the heads; nothing
//! is rounded. The format is RFC 4180, with line feeds.

use super::measure::Measure;
use super::summary::{Summary, number_of, offered};
use crate::record::{Figures, Offered, Opened};
use crate::void::in_words;

/// The column that names the measures that are mostly the generator's own lag.
const OWN_LAG: &str = "mostly_own_lag";

/// Renders a line for each run, void ones included.
pub(crate) fn runs(opened: &Opened) -> String {
    let mut heads = vec![
        "number",
        "server",
        "setting",
        "workload",
        "testbed",
        "load",
        "offered",
        "block",
        "attempt",
        "purpose",
        "void",
        "requests_due",
        "offered_per_s",
        "failed_by_kind",
    ];
    heads.extend(Measure::every().map(Measure::key));
    heads.push(OWN_LAG);
    let mut text = line(heads.into_iter().map(str::to_owned));
    for run in &opened.runs {
        let point = &run.point;
        let cpus = number_of(&opened.header.testbeds, &point.testbed, "cpus");
        let figures = run.figures.as_ref();
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let head = [
            run.number.to_string(),
            point.server.clone(),
            point.setting.clone(),
            point.workload.clone(),
            point.testbed.clone(),
            form(matches!(point.offered, Offered::Connections(_))).to_owned(),
            offered(point).to_string(),
            run.block.to_string(),
            run.attempt.to_string(),
            run.purpose.to_string(),
            in_words(&run.void),
            number(figures.map(|figures| figures.requests_due as f64)),
            number(figures.map(|figures| figures.offered_per_s)),
            figures.map_or_else(String::new, failed_by_kind),
        ];
        let values = Measure::every().map(|measure| number(measure.value(run, cpus)));
        let is_own = |measure: &Measure| measure.is_mostly_own_lag(run);
        let own = keys(Measure::every().filter(is_own));
        text.push_str(&line(head.into_iter().chain(values).chain([own])));
    }
    text
}

fn keys(measures: impl Iterator<Item = Measure>) -> String {
    measures.map(Measure::key).collect::<Vec<_>>().join(" ")
}

/// Joins the failures by kind: `timeout_waiting 3; reset 1`.
fn failed_by_kind(figures: &Figures) -> String {
    let kinds = figures.errors.iter().map(|(kind, count)| format!("{kind} {count}"));
    kinds.collect::<Vec<_>>().join("; ")
}

/// Renders a line for each point: medians and the ends of their intervals.
pub(crate) fn points(summary: &Summary) -> String {
    let mut heads: Vec<String> =
        ["server", "setting", "workload", "testbed", "load", "offered", "purpose", "blocks"]
            .map(str::to_owned)
            .to_vec();
    for measure in Measure::every() {
        let key = measure.key();
        heads.extend([key.to_owned(), format!("{key}_low"), format!("{key}_high")]);
    }
    heads.push(OWN_LAG.to_owned());
    let mut text = line(heads.into_iter());
    for panel in &summary.panels {
        for series in &panel.series {
            for point in series.points.iter().chain(&series.trials) {
                let head = [
                    series.server.clone(),
                    series.setting.clone(),
                    panel.workload.clone(),
                    panel.testbed.clone(),
                    form(panel.closed).to_owned(),
                    point.offered.to_string(),
                    point.purpose.to_string(),
                    point.blocks.len().to_string(),
                ];
                let values = Measure::every().flat_map(|measure| {
                    point.estimates.get(&measure).map_or_else(Default::default, |estimate| {
                        [estimate.median, estimate.interval.low, estimate.interval.high]
                            .map(|value| value.to_string())
                    })
                });
                let own = keys(point.mostly_own_lag.iter().copied());
                text.push_str(&line(head.into_iter().chain(values).chain([own])));
            }
        }
    }
    text
}

fn form(closed: bool) -> &'static str {
    if closed { "connections" } else { "requests_per_s" }
}

/// Joins fields by commas, and quotes those that need it.
pub(crate) fn line(fields: impl Iterator<Item = String>) -> String {
    let mut text = fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(",");
    text.push('\n');
    text
}

fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_quotes_has_them() {
        let fields = ["a", "b,c", "d\"e", "f\ng"].map(str::to_owned);
        assert_eq!(line(fields.into_iter()), "a,\"b,c\",\"d\"\"e\",\"f\ng\"\n");
    }
}
