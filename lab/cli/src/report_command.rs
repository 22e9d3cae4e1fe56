//! `ropewalk report`: what was measured, as a page, as text, or as numbers for other programs.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use command::{Failure, notify, print, whole_file};
use lab::Error;
use lab::report::Report;

pub(crate) const REPORT_EXAMPLES: &str = "\
Examples:
  ropewalk report results/zipf                 writes results/zipf/report.html
  ropewalk report results/zipf -o zipf.md      words and tables as Markdown";

pub(crate) const REPORT_HELP: &str = "\
The page needs no network and no other file. docs/lab/report.md describes it.

Exit status:
  0  the report is written
  1  it cannot be written, or the records are damaged or cannot be read
  2  wrong usage, or no records are in the directory that this program reads

Examples:
  ropewalk report results/zipf                 writes results/zipf/report.html
  ropewalk report results/zipf -o zipf.md      words and tables as Markdown
  ropewalk report results/zipf --format csv -o -    a line for each run
  ropewalk report results/zipf -o zipf.png     all figures (needs Chromium)";

#[derive(Args)]
pub(crate) struct ReportArguments {
    /// The directory that `study`, `tune` or `compare` wrote, finished or not
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to write to, - for standard output [default: report.* in the directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The form [default: by the end of the output's name, else html]
    #[arg(long, value_name = "FORM")]
    format: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One self-contained page
    Html,
    /// Words and tables
    Markdown,
    /// A line for each run
    Csv,
    /// A line for each point: medians and intervals
    CsvPoints,
    /// All figures on one sheet
    Svg,
    /// All figures on one sheet, as a picture
    Png,
}

impl Form {
    fn from_extension(ending: &OsStr) -> Option<Self> {
        match ending.to_str()? {
            "html" | "htm" => Some(Self::Html),
            "md" | "markdown" => Some(Self::Markdown),
            "csv" => Some(Self::Csv),
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Html => "report.html",
            Self::Markdown => "report.md",
            Self::Csv => "report-runs.csv",
            Self::CsvPoints => "report-points.csv",
            Self::Svg => "report.svg",
            Self::Png => "report.png",
        }
    }
}

impl ReportArguments {
    /// The form that was typed, else that of the output's name.
    fn form(&self) -> Result<Form, String> {
        let ending = self.output.as_deref().and_then(Path::extension);
        match (self.format, ending) {
            (Some(form), _) => Ok(form),
            (None, None) => Ok(Form::Html),
            (None, Some(ending)) => Form::from_extension(ending).ok_or_else(|| {
                format!(
                    "-o: no report ends in .{}: name it .html, .md, .csv, .svg or .png, or say \
                     which it is with --format",
                    ending.display()
                )
            }),
        }
    }
}

/// Writes the report and prints where it is.
pub(crate) fn execute(arguments: &ReportArguments) -> Result<(), Failure> {
    let form = arguments.form().map_err(Failure::Usage)?;
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => arguments.folder.join(form.file_name()),
    };
    let to_stdout = path == Path::new("-");
    if to_stdout && form == Form::Png {
        return Err(Failure::Usage("-o -: a PNG needs a file".into()));
    }
    let report = Report::read(&arguments.folder).map_err(Error::from)?;
    report.notice().into_iter().for_each(notify);
    let text = match form {
        Form::Html => report.html(),
        Form::Markdown => report.markdown(),
        Form::Csv => report.csv_runs(),
        Form::CsvPoints => report.csv_points(),
        Form::Svg => report.svg(),
        Form::Png => {
            report.png(&path).map_err(Failure::Operation)?;
            return written(&path);
        }
    };
    if to_stdout {
        return print(&text);
    }
    whole_file::write(&path, |file| file.write_all(text.as_bytes()))
        .map_err(|why: io::Error| Failure::Operation(format!("{}: {why}", path.display())))?;
    written(&path)
}

fn written(path: &Path) -> Result<(), Failure> {
    print(&format!("written: {}\n", path.display()))
}
