//! The report of a folder of records: the measurements in figures, tables and words, as one page,
//! Markdown, CSV or a picture.
//!
//! [`Report::read`] summarises the records; every form is a pure function of a `Report`. Nothing is
//! measured here, and the validity of runs is not judged again.

mod bars;
mod cache;
mod comparison;
mod csv;
mod distributions;
mod document;
mod facts;
mod figures;
mod findings;
mod html;
#[cfg(test)]
mod made_runs;
mod markdown;
mod measure;
mod pairs;
mod png;
mod servers;
mod summary;
mod surfaces;
mod tables;

use std::path::Path;

use document::Document;
use page::{chart, number, svg};
use summary::Summary;

use crate::record::{Folder, FolderError, Kind, Opened};

/// A report on a folder of records.
#[derive(Debug)]
pub struct Report {
    records: Records,
    document: Document,
}

/// The data of a report.
#[derive(Debug)]
enum Records {
    Servers(Opened, Summary),
    Cache(Opened, cache::Summary),
}

impl Report {
    /// Reads a folder, which may still be written to.
    ///
    /// # Errors
    /// When it holds no records, or they are damaged in their middle.
    pub fn read(folder: &Path) -> Result<Self, FolderError> {
        let mut opened = Folder::read(folder)?;
        if opened.header.kind == Kind::Cache {
            let summary = cache::Summary::new(&opened);
            let document = cache::document(&opened, &summary);
            return Ok(Self { records: Records::Cache(opened, summary), document });
        }
        let summary = Summary::new(&opened);
        let figures = servers::figures(folder, &mut opened, &summary);
        let document = servers::document(&opened, &summary, figures);
        Ok(Self { records: Records::Servers(opened, summary), document })
    }

    /// A line on former names in the records, if there are any.
    pub fn notice(&self) -> Option<&str> {
        let (Records::Servers(opened, _) | Records::Cache(opened, _)) = &self.records;
        opened.notice.as_deref()
    }

    /// What the figures support, a sentence or two each, in the order of the page.
    #[must_use]
    pub fn conclusions(&self) -> Vec<&str> {
        let findings = self.document.findings.iter();
        let supported = findings.filter(|one| one.head <= findings::Head::Supported);
        supported.map(|one| one.text.as_str()).collect()
    }

    /// Renders one page that needs no other files.
    #[must_use]
    pub fn html(&self) -> String {
        html::render(&self.document)
    }

    /// Renders words and tables as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::render(&self.document)
    }

    /// Renders a CSV with a line for each run.
    #[must_use]
    pub fn csv_runs(&self) -> String {
        match &self.records {
            Records::Servers(opened, _) => csv::runs(opened),
            Records::Cache(opened, _) => cache::csv_runs(opened),
        }
    }

    /// Renders a CSV with a line for each point: medians and intervals.
    #[must_use]
    pub fn csv_points(&self) -> String {
        match &self.records {
            Records::Servers(_, summary) => csv::points(summary),
            Records::Cache(_, summary) => cache::csv_points(summary),
        }
    }

    /// Renders all figures on one sheet.
    #[must_use]
    pub fn svg(&self) -> String {
        self.sheet().0
    }

    /// Writes the sheet of all figures as a picture; needs Chromium.
    ///
    /// # Errors
    /// When there is no figure or no Chromium, or it fails.
    pub fn png(&self, path: &Path) -> Result<(), String> {
        if self.document.figures.is_empty() {
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
        let verdict =
            self.document.findings.iter().filter(|one| one.head == findings::Head::Verdict);
        let lines: Vec<String> = verdict.map(|one| one.text.clone()).collect();
        svg::sheet(&self.document.title, &lines, &self.document.figures, 7000.0)
    }
}
