//! The report of servers: its figures and tables.

use std::path::Path;

use super::document::{self, Document};
use super::summary::{Panel, Summary};
use super::{bars, distributions, facts, figures, findings, number, pairs, surfaces, tables};
use crate::record::{Header, Kind, Opened, Run};
use page::chart::{Figure, Table};
use page::document::Section;

/// Makes all figures, panel by panel. Outcomes that cannot be read are noted as damage.
pub(crate) fn figures(folder: &Path, opened: &mut Opened, summary: &Summary) -> Vec<Figure> {
    let styles = figures::Styles::new(summary);
    let mut figures = bars::overview(&opened.header, summary, &styles);
    let tuning = opened.header.kind == Kind::Tune;
    let share = summary.confidence;
    for (index, panel) in summary.panels.iter().enumerate() {
        let mut surfaces = match is_of_study(&opened.header) {
            true => surfaces::tuning_figures(panel, index, share),
            false => Vec::new(),
        };
        let curves = figures::load_figures(panel, index, &styles, share);
        let damage = &mut opened.damage;
        let mut times = distributions::time_figures(folder, panel, index, &styles, damage);
        let others = surfaces.iter_mut().chain(&mut times);
        others.for_each(|figure| figures::append_limit(panel, figure));
        // The figures that the kind of study is made for come first, that with the star before all.
        if let Some(at) = surfaces.iter().position(surfaces::has_star) {
            surfaces[..=at].rotate_right(1);
        }
        match tuning {
            true => figures.extend(surfaces.into_iter().chain(curves)),
            false => figures.extend(curves.into_iter().chain(surfaces)),
        }
        figures.extend(times);
    }
    if is_of_study(&opened.header) {
        figures.extend(surfaces::scaling(summary, &opened.header, &styles));
    }
    figures
}

/// Makes the whole report.
pub(crate) fn document(opened: &Opened, summary: &Summary, figures: Vec<Figure>) -> Document {
    Document {
        title: document::title(&opened.header),
        preamble: preamble(opened),
        facts: facts::facts(opened, summary),
        matrices: pairs::matrices(&opened.header, summary),
        findings: findings::findings(opened, summary),
        summaries: summaries(opened, summary),
        figures,
        sections: sections(opened, summary),
        texts: texts(&opened.header),
    }
}

/// Makes the lines on the question, its source, the time of the study, and the amount of data.
fn preamble(opened: &Opened) -> Vec<String> {
    let header = &opened.header;
    let kind = match header.kind {
        Kind::Study | Kind::Cache => "study",
        Kind::Tune => "tuning",
        Kind::Compare => "comparison",
    };
    let void = opened.runs.iter().filter(|run| !run.void.is_empty()).count();
    let runs = opened.runs.len();
    // A tuning decides by itself how often it repeats a measurement.
    let asked = match header.repetitions {
        0 => String::new(),
        count => format!("; {count} asked for at each point"),
    };
    let mut lines: Vec<String> = document::question_lines(header).collect();
    lines.push(format!(
        "A {kind}, begun {}; {runs} runs, {void} of them void{asked}. Under load for {}; estimated \
         {}.{}",
        number::moment(header.started_unix_us),
        number::duration(seconds_under_load(opened)),
        number::duration(header.estimated_s),
        header.budget_s.map_or_else(String::new, |budget| {
            format!(" The budget was {}.", number::duration(budget))
        })
    ));
    lines
}

/// The time under load, in seconds. Servers that are loaded together warm up one after the other
/// and share a window.
fn seconds_under_load(opened: &Opened) -> f64 {
    // Runs whose server did not start have no figures.
    let loaded = opened.runs.iter().filter(|run| run.figures.is_some());
    let loaded: Vec<&Run> = loaded.collect();
    let windows = loaded.chunk_by(|one, next| {
        opened.header.together && one.started_unix_us == next.started_unix_us
    });
    let seconds =
        windows.map(|runs| runs[0].window_s + runs.iter().map(|run| run.warm_up_s).sum::<f64>());
    seconds.sum()
}

/// Makes a summary of each panel.
fn summaries(opened: &Opened, summary: &Summary) -> Vec<Section> {
    let panels = summary.panels.iter().enumerate().filter(|(_, panel)| !panel.is_empty());
    let sections = panels.map(|panel| {
        // Servers that share a CPU have no peaks either.
        let of_peaks = is_of_study(&opened.header) && !opened.header.together;
        let table = tables::summary(panel.1, summary.confidence, of_peaks);
        panel_section(panel, "summary", "Summary", table, false)
    });
    sections.filter(is_filled).collect()
}

/// Whether the records are those of a study. A comparison of two servers at one load has a verdict
/// instead: it does not search for the highest throughput of either.
fn is_of_study(header: &Header) -> bool {
    header.kind != Kind::Compare
}

fn is_filled(section: &Section) -> bool {
    !section.table.rows.is_empty()
}

fn panel_section(
    (index, panel): (usize, &Panel),
    id: &str,
    name: &str,
    table: Table,
    folded: bool,
) -> Section {
    let title = format!("{name}: {}", panel.title());
    Section { id: format!("{id}-{index}"), title, table, folded }
}

/// Makes the tables that belong to no figure, except the summaries of the panels.
fn sections(opened: &Opened, summary: &Summary) -> Vec<Section> {
    let mut sections = Vec::new();
    let is_of_study = is_of_study(&opened.header);
    for (index, panel) in summary.panels.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
        let panel_section =
            |id, name, table, folded| panel_section((index, panel), id, name, table, folded);
        sections.push(panel_section("points", "Each point", tables::points(panel), true));
        let observed = tables::observed_points(panel);
        sections.push(panel_section("observed", "Observed at each point", observed, is_of_study));
    }
    let section = |id: &str, title: &str, table, folded| Section {
        id: id.into(),
        title: title.into(),
        table,
        folded,
    };
    if is_of_study {
        let (title, table) = match opened.header.together {
            true => ("Observed together", tables::observed_peaks(&summary.panels)),
            false => {
                ("Observed at the highest throughput", tables::observed_peaks(&summary.panels))
            }
        };
        sections.push(section("observed", title, table, false));
    }
    sections.push(section("searches", "Searches", tables::searches(opened), true));
    sections.push(section("void", "Void runs", tables::voided(opened), true));
    sections.push(section("skipped", "What took no part", tables::skipped(opened), true));
    sections.push(section("servers", "Servers", tables::servers(opened), true));
    sections.push(section("where", "Workloads and testbeds", tables::described(opened), true));
    sections.push(section("environment", "Machine", tables::environment(opened), true));
    sections.retain(is_filled);
    sections
}

fn texts(header: &Header) -> Vec<(String, String)> {
    let configurations = header.servers.iter().flat_map(|server| {
        let files = server.configurations.iter();
        files.map(move |(setting, file)| (format!("{}, {setting}", server.name), file.clone()))
    });
    configurations
        .chain([("The definition".to_owned(), header.definition.clone())])
        .filter(|(_, contents)| !contents.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Offered, Point};

    /// A comparison at a rate that both settings sustain has no highest throughput, and no surface
    /// of it.
    #[test]
    fn a_comparison_has_no_highest_throughput() {
        let run = |setting: &str| Run {
            point: Point {
                server: "s".into(),
                setting: setting.into(),
                knobs: [("workers".to_owned(), setting.to_owned())].into(),
                offered: Offered::RequestsPerS(100.0),
                ..Point::default()
            },
            figures: Some(Figures {
                throughput_per_s: 100.0,
                kept_up_share: 1.0,
                served_share: 1.0,
                ..Figures::default()
            }),
            ..Run::default()
        };
        let titles = |kind| {
            let header = Header { kind, ..Header::default() };
            let runs = vec![run("1"), run("2")];
            let mut opened = Opened { header, runs, ..Opened::default() };
            let summary = Summary::new(&opened);
            let figures = figures(Path::new("/nowhere"), &mut opened, &summary);
            let figures = figures.into_iter().map(|figure| figure.title);
            let sections = sections(&opened, &summary).into_iter().map(|section| section.title);
            figures.chain(sections).collect::<Vec<_>>().join("\n")
        };
        let (study, comparison) = (titles(Kind::Study), titles(Kind::Compare));
        for title in ["Tuning of s: ", "Observed at the highest throughput"] {
            assert!(study.contains(title), "{study}");
            assert!(!comparison.contains(title), "{comparison}");
        }
        assert!(comparison.contains("Observed at each point"), "{comparison}");
    }

    #[test]
    fn repetitions_are_shown_only_where_they_were_requested() {
        let first = |repetitions| {
            let header = Header { kind: Kind::Tune, repetitions, ..Header::default() };
            preamble(&Opened { header, ..Opened::default() }).remove(0)
        };
        assert!(first(0).contains("; 0 runs, 0 of them void. Under"), "{}", first(0));
        assert!(first(6).contains(" void; 6 asked for at each point. Under"), "{}", first(6));
    }

    #[test]
    fn a_server_that_never_started_was_not_under_load() {
        let run = |figures| Run { figures, warm_up_s: 1.0, window_s: 2.0, ..Run::default() };
        let runs = vec![run(Some(Figures::default())), run(None)];
        let told = preamble(&Opened { runs, ..Opened::default() });
        let expected = format!(" Under load for {};", number::duration(3.0));
        assert!(told[0].contains(&expected), "{told:?}");
    }

    #[test]
    fn a_window_that_servers_share_counts_once() {
        let run = |started_unix_us| Run {
            figures: Some(Figures::default()),
            started_unix_us,
            warm_up_s: 1.0,
            window_s: 20.0,
            ..Run::default()
        };
        let told = |together| {
            let runs = [1, 1, 2, 2].map(run).into();
            let header = Header { together, ..Header::default() };
            preamble(&Opened { header, runs, ..Opened::default() }).remove(0)
        };
        let check = |together, seconds| {
            let expected = format!(" Under load for {};", number::duration(seconds));
            assert!(told(together).contains(&expected), "{}", told(together));
        };
        check(true, 44.0);
        check(false, 84.0);
    }
}
