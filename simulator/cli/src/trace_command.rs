//! `ropewalk trace`: records, imports and describes memory traces.
//!
//! The crate `memory-trace` defines the format, imports and counts; this module reads options,
//! opens files, and prints results.

mod record;
mod tables;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use command::compressed::decompressor;
use command::near::{none_of, unread};
use command::numbers::whole;
use command::{DASH, Failure, ProgressLine, notify, print, whole_file};
use memory_trace::{FORMS, Fault, Foreign, Form, Header, Imported, Reader, TraceError, Writer};

use record::{RECORD_EXAMPLES, RECORD_HELP, RecordArguments};

/// What to name in place of a file that cannot be read.
const TRACE: &str = "a trace of `ropewalk trace`";
const FOREIGN_TRACE: &str = "the trace of another program";

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Record the memory references of a command and of all processes it starts
    #[command(after_help = RECORD_EXAMPLES, after_long_help = RECORD_HELP)]
    #[command(arg_required_else_help = true)]
    Record(RecordArguments),
    /// Describe a trace: processes, code, data, writes, sharing, system calls
    #[command(after_help = INFO_EXAMPLES, after_long_help = INFO_HELP)]
    Info(InfoArguments),
    /// Convert a trace from another format: lackey, din, drmemtrace
    #[command(after_help = IMPORT_EXAMPLES, after_long_help = IMPORT_HELP)]
    Import(ImportArguments),
}

pub(crate) const TRACE_EXAMPLES: &str = "\
Examples:
  ropewalk trace record --out ls.trace -- ls -aR /usr/share
  ropewalk trace info ls.trace";

pub(crate) const TRACE_HELP: &str = "\
A trace has every instruction fetch, load and store of some processes, and
their system calls. docs/simulator/trace.md describes it.

Exit status:
  0  success
  1  it could not be done, or the trace is not whole
  2  wrong usage, or a file that is no trace

Examples:
  ropewalk trace record --out ls.trace -- ls -aR /usr/share
  ropewalk trace info ls.trace
  ropewalk trace import ls.lackey --output ls.trace";

const INFO_EXAMPLES: &str = "\
Examples:
  ropewalk trace info apache.trace
  ropewalk trace info --block 128 --json apache.trace";

const INFO_HELP: &str = "\
The tables are those of Foglia, Giorgi and Prete (2001); docs/simulator/trace.md
says what is counted how. Percentages are of all references. If the trace is not
whole, what there is is described, and one line says where it ends and why.

Exit status:
  0  success
  1  the trace is not whole
  2  wrong usage, or a file that is no trace

Examples:
  ropewalk trace info apache.trace
  ropewalk trace info --block 128 --json apache.trace";

const IMPORT_EXAMPLES: &str = "\
Examples:
  ropewalk trace import ls.lackey --output ls.trace";

const IMPORT_HELP: &str = "\
Formats:
  lackey      text of valgrind --tool=lackey --trace-mem=yes; no system calls,
              one process
  din         text of Dinero, a label and an address in each line
  drmemtrace  records of 12 bytes of DynamoRIO, decompressed

Exit status:
  0  success
  1  the trace is not of its format, or cannot be written
  2  wrong usage, no such file, or the format is not recognised

Examples:
  valgrind --tool=lackey --trace-mem=yes --log-file=ls.lackey ls -aR /usr/share
  ropewalk trace import ls.lackey --output ls.trace
  zcat app.gz | ropewalk trace import - --format drmemtrace -o app.trace
  ropewalk trace info ls.trace";

#[derive(Args)]
pub(crate) struct InfoArguments {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The size of a block: a power of two from 4 to 4096
    #[arg(long, value_name = "BYTES", default_value = "32")]
    block: u64,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct ImportArguments {
    /// The foreign trace; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format, if it cannot be recognised by its beginning: lackey, din, drmemtrace or auto
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: String,
    /// The command that was traced, if the trace does not name it
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
    /// The number of the process, if the trace gives none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0..=u32::MAX))]
    process: u32,
    /// How many bytes each reference has in a din trace, which does not give sizes
    #[arg(long, value_name = "BYTES", default_value_t = 4, value_parser = whole(0..=u16::MAX))]
    din_bytes: u16,
    /// Where to write the trace
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn execute(command: TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Record(arguments) => record::execute(&arguments),
        TraceCommand::Info(arguments) => info(&arguments),
        TraceCommand::Import(arguments) => import(&arguments),
    }
}

fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let block = arguments.block;
    if !block.is_power_of_two() || !(4..=memory_trace::PAGE_BYTES).contains(&block) {
        let why = format!("--block {block}: must be a power of two from 4 to 4096");
        return Err(Failure::Usage(why));
    }
    let reader = open_trace(&arguments.file)?;
    let found = ProgressLine::during("reading the trace", || memory_trace::tables(&reader, block));
    let found = found.map_err(|why| operation(&why))?;
    let text = if arguments.json { tables::json } else { tables::show };
    print(&text(&reader, &found))?;
    reader.damage().map_or(Ok(()), |damage| Err(Failure::Operation(damage.to_string())))
}

/// Opens a trace that was typed.
pub(crate) fn open_trace(path: &Path) -> Result<Reader, Failure> {
    Reader::open(path).map_err(|why| match &why.fault {
        Fault::Io(why) => unread(path, why, TRACE),
        Fault::Foreign => Failure::Usage(why.to_string()),
        _ => operation(&why),
    })
}

fn operation(why: &TraceError) -> Failure {
    Failure::Operation(why.to_string())
}

fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let mut from = open(&arguments.file)?;
    let form = form(arguments, &mut from)?;
    let command = arguments.command.clone();
    let (name, _) = FORMS.iter().find(|(_, known)| *known == form).expect("the table has all");
    let header = Header {
        recorder: format!("import {name}"),
        command: command.clone().unwrap_or_default(),
        notes: vec![("imported from".into(), arguments.file.display().to_string())],
    };
    let path = arguments.file.clone();
    let (process, din_bytes) = (arguments.process, arguments.din_bytes);
    let foreign = Foreign { path, form, process, command, din_bytes };
    let mut outcome = None;
    let written = ProgressLine::during("importing the trace", || {
        whole_file::write(&arguments.output, |sink| -> Result<(), Broken> {
            let mut writer = Writer::new(sink, &header)?.named(&arguments.output);
            let imported = memory_trace::import(from, &foreign, &mut writer)?;
            outcome = Some((imported, writer.finish()?.bytes));
            Ok(())
        })
    });
    written.map_err(|why| match why {
        Broken::File(why) => {
            Failure::Operation(format!("{}: cannot be written: {why}", arguments.output.display()))
        }
        Broken::Trace(why) => operation(&why),
    })?;
    let (imported, bytes) = outcome.expect("what has been written has an outcome");
    notify(&summary(&imported, bytes, form));
    Ok(())
}

/// Why no trace was written.
enum Broken {
    File(io::Error),
    Trace(TraceError),
}

impl From<io::Error> for Broken {
    fn from(why: io::Error) -> Self {
        Self::File(why)
    }
}

impl From<TraceError> for Broken {
    fn from(why: TraceError) -> Self {
        Self::Trace(why)
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path == Path::new(DASH) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|why| unread(path, &why, FOREIGN_TRACE))?;
    Ok(Box::new(BufReader::with_capacity(1 << 18, file)))
}

fn form(arguments: &ImportArguments, from: &mut Box<dyn BufRead>) -> Result<Form, Failure> {
    let path = arguments.file.display();
    let wrong = |why| unread(&arguments.file, &why, FOREIGN_TRACE);
    let start = from.fill_buf().map_err(wrong)?;
    if let Some(program) = decompressor(start) {
        return Err(Failure::Usage(format!(
            "{path}: compressed: {program} {path} | ropewalk trace import - ..."
        )));
    }
    if arguments.format == "auto" {
        let unclear = "neither lackey, din nor drmemtrace by its beginning: name it with --format";
        return Form::guess(start).ok_or_else(|| Failure::Usage(format!("{path}: {unclear}")));
    }
    let known = FORMS.iter().find(|(name, _)| *name == arguments.format);
    known.map(|(_, form)| *form).ok_or_else(|| {
        let names = FORMS.iter().map(|(name, _)| *name).chain(["auto"]);
        Failure::Usage(none_of("--format", &arguments.format, names))
    })
}

fn summary(imported: &Imported, bytes: u64, form: Form) -> String {
    let references = imported.references;
    let each = bytes as f64 / references.max(1) as f64;
    let skipped = match imported.first_skipped {
        None => String::new(),
        Some(first) => {
            let (what, place) = if form == Form::Drmemtrace {
                ("records", format!("byte {first}"))
            } else {
                ("lines", format!("line {first}"))
            };
            format!("; {} {what} left out, the first at {place}", imported.skipped)
        }
    };
    format!("{references} references, {bytes} bytes, {each:.3} for each{skipped}")
}
