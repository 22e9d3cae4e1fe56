//! The report of a folder of records: what was measured, in figures, tables and words, as one
//! page, Markdown, CSV or a picture.
//!
//! [`Report::read`] puts the records together; every form is a pure function of what it holds.
//! Nothing is measured here, and what a run was void for is not judged again.

mod comparison;
mod csv;
mod distributions;
mod figures;
mod findings;
mod html;
mod markdown;
mod measure;
mod png;
mod summary;
mod surfaces;
mod tables;

use std::path::Path;

use findings::Finding;
use page::chart::Figure;
use page::document::Section;
use page::{chart, number, svg};
use summary::Summary;

use crate::record::{Folder, Kind, Opened};

/// All that is shown.
#[derive(Debug)]
pub struct Report {
    opened: Opened,
    summary: Summary,
    findings: Vec<Finding>,
    figures: Vec<Figure>,
}

impl Report {
    /// Reads a folder, which may still be written to.
    ///
    /// # Errors
    /// When it holds no records, or they are damaged in their middle.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut opened = Folder::read(folder)?;
        let summary = Summary::of(&opened);
        let styles = figures::Styles::of(&summary);
        let mut figures = Vec::new();
        let tuning = opened.header.kind == Kind::Tune;
        let share = summary.confidence;
        for (index, panel) in summary.panels.iter().enumerate() {
            let surfaces = surfaces::of_panel(panel, index, share);
            let curves = figures::of_panel(panel, index, &styles, share);
            // What was asked for comes first.
            let mut own: Vec<Figure> = match tuning {
                true => surfaces.into_iter().chain(curves).collect(),
                false => curves.into_iter().chain(surfaces).collect(),
            };
            let damage = &mut opened.damage;
            own.extend(distributions::of_panel(folder, panel, index, &styles, damage));
            figures::tell_limit(panel, &mut own);
            figures.extend(own);
        }
        figures.extend(surfaces::scaling(&summary, &opened.header, &styles));
        let findings = findings::findings(&opened, &summary);
        Ok(Self { opened, summary, findings, figures })
    }

    /// One page that needs nothing else.
    #[must_use]
    pub fn html(&self) -> String {
        html::render(self)
    }

    /// Words and tables.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// A line for each run.
    #[must_use]
    pub fn csv_runs(&self) -> String {
        csv::runs(&self.opened)
    }

    /// A line for each point: medians and intervals.
    #[must_use]
    pub fn csv_points(&self) -> String {
        csv::points(&self.summary)
    }

    /// All figures on one sheet.
    #[must_use]
    pub fn svg(&self) -> String {
        self.sheet().0
    }

    /// Writes the sheet of all figures as a picture; needs Chromium.
    ///
    /// # Errors
    /// When there is no figure or no Chromium, or it fails.
    pub fn png(&self, path: &Path) -> Result<(), String> {
        if self.figures.is_empty() {
            return Err("there is no figure to make a PNG of: too few runs".into());
        }
        let (drawing, width, height) = self.sheet();
        // Textures end at 16,384 pixels.
        let scale = if f64::max(width, height) > 8000.0 { 1 } else { 2 };
        let absolute = std::path::absolute(path).map_err(|why| why.to_string())?;
        let svg = absolute.with_extension(format!("{}.partial.svg", std::process::id()));
        std::fs::write(&svg, drawing).map_err(|why| format!("{}: {why}", svg.display()))?;
        let made = png::photograph(&svg, (width, height), scale, &absolute);
        let _ = std::fs::remove_file(&svg);
        made
    }

    fn sheet(&self) -> (String, f64, f64) {
        svg::sheet(&self.title(), &self.figures, 7000.0)
    }

    fn title(&self) -> String {
        let header = &self.opened.header;
        if header.title.is_empty() { header.name.clone() } else { header.title.clone() }
    }

    /// What was asked, by whom, when, and how much of it there is.
    fn preamble(&self) -> Vec<String> {
        let header = &self.opened.header;
        let kind = match header.kind {
            Kind::Study => "study",
            Kind::Tune => "tuning",
            Kind::Compare => "comparison",
        };
        let void = self.opened.runs.iter().filter(|run| !run.void.is_empty()).count();
        let runs = self.opened.runs.len();
        let mut lines = vec![format!(
            "A {kind}, begun {}; {runs} runs, {void} of them void; {} asked for at each point.",
            number::moment(header.started_unix_us),
            header.repetitions
        )];
        let told = [
            ("After", &header.source),
            ("Question:", &header.question),
            ("Expected:", &header.expected),
        ];
        let told = told.into_iter().filter(|(_, text)| !text.is_empty());
        lines.extend(told.map(|(head, text)| format!("{head} {text}")));
        let seconds: f64 = self.opened.runs.iter().map(|run| run.warm_up_s + run.window_s).sum();
        lines.push(format!(
            "Under load for {}; estimated {}.{}",
            number::duration(seconds),
            number::duration(header.estimated_s),
            header.budget_s.map_or_else(String::new, |budget| {
                format!(" The budget was {}.", number::duration(budget))
            })
        ));
        lines
    }

    /// The tables that belong to no figure, the summaries first.
    fn tables(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        let share = self.summary.confidence;
        for (index, panel) in self.summary.panels.iter().enumerate() {
            let title = panel.title();
            let section = |id: &str, name: &str, table, folded| Section {
                id: format!("{id}-{index}"),
                title: format!("{name}: {title}"),
                table,
                folded,
            };
            if !panel.is_empty() {
                let table = tables::summary(panel, share);
                sections.push(section("summary", "Summary", table, false));
                sections.push(section("pairs", "Each pair", tables::all_pairs(panel, share), true));
                sections.push(section("points", "Each point", tables::points(panel), true));
                let table = tables::observed_points(panel);
                sections.push(section("observed", "Observed at each point", table, true));
            }
        }
        let opened = &self.opened;
        let section = |id: &str, title: &str, table, folded| Section {
            id: id.into(),
            title: title.into(),
            table,
            folded,
        };
        sections.push(section(
            "observed",
            "Observed at the highest throughput",
            tables::observed_peaks(&self.summary.panels),
            false,
        ));
        sections.push(section("searches", "Searches", tables::searches(opened), false));
        sections.push(section("void", "Void runs", tables::voided(opened), false));
        sections.push(section("skipped", "What took no part", tables::skipped(opened), false));
        sections.push(section("servers", "Servers", tables::servers(opened), false));
        sections.push(section("where", "Workloads and domains", tables::described(opened), false));
        sections.push(section("environment", "Environment", tables::environment(opened), true));
        sections.retain(|section| !section.table.rows.is_empty());
        sections
    }
}
