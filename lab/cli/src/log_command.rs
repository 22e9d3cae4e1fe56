//! `ropewalk log`: generates, describes and imports request logs.
//!
//! The crate `workload` defines and makes logs; this module reads options and writes files.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;
use std::thread::available_parallelism;

use command::compressed::decompressor;
use command::near::{none_of, unread};
use command::numbers::whole;
use command::units::parse_duration;
use command::{DASH, Failure, ProgressLine, print, whole_file};
use lab::workload::{LogOptions, MixOptions};
use workload::ParseError;
use workload::describe::{describe, guess_target};
use workload::distribution::Distribution;
use workload::fileset::{CLASSES, DIRECTORIES_MAX, FileSet};
use workload::generate::{Extent, GenerateError, generate, prime};
use workload::mix::Mix;
use workload::model::{Files, MODEL_PRESETS, Model, ModelPreset, Pages};
use workload::request_log::RequestLog;
use workload::request_log::access_log::{Format, ImportOptions, import};
use workload::request_log::wsesslog::{self, WriteError};

use crate::log_arguments::{
    DescribeArguments, GenerateArguments, ImportArguments, LogCommand, PrimeArguments,
};

/// The model of a log, and the seed, if no option names them.
const PRESET: &str = "geneves";
const SEED: u64 = 1;
/// How far a generated log may be from its distribution, if no option sets its length.
const WITHIN: f64 = 0.1;
/// The largest exponent: with a larger one all requests would go to the first directory.
const ALPHA_MAX: f64 = 20.0;
/// Seconds before embedded objects for a preset without pages: SURGE's mean, as in the papers.
const ACTIVE_THINK: Distribution = Distribution::constant(0.343);
/// The largest weight of a class.
const WEIGHT_MAX: f64 = 1e9;
/// The beginning of the first line of a generated log's head.
const MADE_BY: &str = "ropewalk log generate ";
/// The beginning of the line of a log's head that has its mix, in JSON.
const MIX: &str = "mix ";

/// The formats of logs that are imported, by what is typed for them; `None` is any format.
const FORMATS: [(&str, Option<Format>); 4] = [
    ("auto", None),
    ("common", Some(Format::Common)),
    ("combined", Some(Format::Combined)),
    ("json", Some(Format::Json)),
];

pub(crate) fn execute(command: LogCommand) -> Result<(), Failure> {
    match command {
        LogCommand::Generate(arguments) => generate_log(&arguments),
        LogCommand::Prime(arguments) => prime_log(&arguments),
        LogCommand::Describe(arguments) => describe_log(&arguments),
        LogCommand::Import(arguments) => import_log(&arguments),
    }
}

fn generate_log(arguments: &GenerateArguments) -> Result<(), Failure> {
    let GenerateArguments { options, output } = arguments;
    let model = model(options)?;
    let (extent, extent_typed) = extent(options)?;
    let seed = options.seed.as_deref().map(|typed| parse_whole("--seed", typed, 0, u64::MAX));
    let seed = seed.unwrap_or(Ok(SEED))?;
    let log = ProgressLine::during("generating the log", || generate(&model, extent, seed));
    let log = log.map_err(cannot_generate)?;
    let target = match &model.files {
        Files::Spec(mix) => Some(mix),
        Files::Single(_) => None,
    };
    let head = format!(
        "{MADE_BY}{model} {extent_typed} --seed {seed}\n{}\n{}",
        expectations(&model),
        describe(&log, target)
    );
    write_log(&log, &head, target, output)
}

/// The model's expected values for the numbers that follow in the description.
fn expectations(model: &Model) -> String {
    let Model { lengths, think, pages, .. } = model;
    let mut line = format!("model: mean session length {:.2}", lengths.mean());
    line += &format!(", mean pause between pages {:.3} s", think.mean());
    if let Some(Pages { embedded, active_think }) = pages {
        line += &format!(
            ", {:.2} objects in a page after {:.3} s",
            embedded.mean_of_counts(),
            active_think.mean()
        );
    }
    line
}

fn prime_log(arguments: &PrimeArguments) -> Result<(), Failure> {
    let PrimeArguments { directories, single, prefix, output } = arguments;
    let set = match (directories, single) {
        (Some(directories), _) => FileSet::directories(u64::from(directory_count(directories)?)),
        (None, Some(bytes)) => FileSet::singles(&[single_bytes(bytes)?]),
        (None, None) => FileSet::singles(&[]), // clap requires one of the two
    };
    let set = set.map_err(|why| Failure::Usage(why.to_string()))?;
    let log = prime(&set, &mounted_at(prefix)?).map_err(cannot_generate)?;
    let head = format!("every file once\n{}", describe(&log, None));
    write_log(&log, &head, None, output)
}

fn describe_log(arguments: &DescribeArguments) -> Result<(), Failure> {
    let bytes = read(&arguments.file)?;
    let threads = available_parallelism().map_or(1, usize::from);
    let reading = || wsesslog::read_parallel(&bytes, 0, threads);
    let log = ProgressLine::during("reading the log", reading)
        .map_err(|why| Failure::Usage(format!("{}: {why}", arguments.file.display())))?;
    let target = target(&arguments.mix, &bytes, &log)?;
    let description = describe(&log, target.as_ref());
    if arguments.json { print(&description.to_json()) } else { print(&description.to_string()) }
}

fn import_log(arguments: &ImportArguments) -> Result<(), Failure> {
    let ImportArguments { file, format, session_gap, think_max, .. } = arguments;
    let mut options = ImportOptions {
        session_gap_us: duration("--session-gap", session_gap)?,
        bursts: arguments.bursts,
        good_only: arguments.good_only,
        ..ImportOptions::default()
    };
    if let Some(think_max) = think_max {
        options.think_us_max = duration("--think-max", think_max)?.min(options.think_us_max);
    }
    let wanted = wanted_format(format)?;
    let bytes = read(file)?;
    let name = file.display();
    if let Some(program) = decompressor(&bytes) {
        return Err(compressed(program, file));
    }
    let imported = ProgressLine::during("reading the log", || import(&bytes, &options));
    let (log, report) = imported.map_err(|why| Failure::Usage(format!("{name}: {why}")))?;
    match report.format {
        Some(found) if wanted.is_some_and(|wanted| wanted != found) => {
            Err(Failure::Usage(format!("--format {format}: {name} is {found}")))
        }
        _ if log.requests() == 0 => Err(Failure::Usage(format!(
            "{name}: nothing to replay: {}",
            report.to_string().trim_end().replace('\n', "; ")
        ))),
        _ => {
            let target = guess_target(&log);
            let description = describe(&log, target.as_ref());
            let head = format!("ropewalk log import {name}\n{report}{description}");
            write_log(&log, &head, None, &arguments.output)
        }
    }
}

/// The message for a compressed log: a pipe that decompresses it without overwriting a file.
fn compressed(program: &str, file: &Path) -> Failure {
    let name = file.display();
    let (read, named) = match file.as_os_str() == DASH {
        true => ("standard input".into(), "FILE".into()),
        false => (name.to_string(), name.to_string()),
    };
    Failure::Usage(format!(
        "{read}: compressed: unpack it on the way: \
         {program} {named} | ropewalk log import - --output users.log"
    ))
}

/// The format that the log must have; `None` for any format.
fn wanted_format(typed: &str) -> Result<Option<Format>, Failure> {
    let known = FORMATS.iter().find(|(name, _)| *name == typed);
    known.map(|(_, format)| *format).ok_or_else(|| {
        Failure::Usage(none_of("--format", typed, FORMATS.iter().map(|(name, _)| *name)))
    })
}

/// The mix to compare with: typed, or from the head of the file, or guessed.
fn target(typed: &MixOptions, bytes: &[u8], log: &RequestLog) -> Result<Option<Mix>, Failure> {
    let start = mix_in_head(bytes).or_else(|| guess_target(log));
    let is_typed = typed.directories.is_some() || typed.alpha.is_some() || typed.classes.is_some();
    match start {
        Some(start) => override_mix(&start, typed).map(Some),
        None if is_typed => override_mix(&Mix::spec99(1), typed).map(Some),
        None => Ok(None),
    }
}

/// The mix in the head of a generated log.
fn mix_in_head(bytes: &[u8]) -> Option<Mix> {
    let line = |start: &str| {
        let lines = bytes.split(|&byte| byte == b'\n');
        let mut head = lines.map_while(|line| str::from_utf8(line).ok()?.strip_prefix("# "));
        head.find_map(|line| line.strip_prefix(start))
    };
    match line(MIX) {
        Some(json) => serde_json::from_str(json).ok().filter(is_possible),
        None => mix_in_command(line(MADE_BY)?),
    }
}

/// The mix in the options of a command: the heads of earlier versions have no other.
fn mix_in_command(line: &str) -> Option<Mix> {
    let words: Vec<&str> = line.split(' ').collect();
    let value = |flag: &str| {
        let position = words.iter().position(|word| *word == flag)?;
        words.get(position + 1).map(|word| (*word).to_owned())
    };
    let typed = MixOptions {
        directories: Some(value("--directories")?),
        alpha: value("--alpha"),
        classes: value("--classes"),
    };
    override_mix(&Mix::spec99(1), &typed).ok()
}

fn model(options: &LogOptions) -> Result<Model, Failure> {
    let LogOptions { single, lengths, think, pages, active_think, .. } = options;
    let mut model = preset(options.preset.as_deref().unwrap_or(PRESET))?.model();
    model.prefix = mounted_at(options.prefix.as_deref().unwrap_or("/"))?;
    if let Files::Spec(mix) = &mut model.files {
        *mix = Mix { deck: options.deck, ..override_mix(mix, &options.mix)? };
    }
    if let Some(bytes) = single {
        model.files = Files::Single(single_bytes(bytes)?);
    }
    if let Some(lengths) = lengths {
        model.lengths = parsed("--lengths", lengths)?;
    }
    if let Some(think) = think {
        model.think = parsed("--think", think)?;
    }
    let preset_active = model.pages.map_or(ACTIVE_THINK, |pages| pages.active_think);
    match pages.as_deref() {
        Some("none") => model.pages = None,
        Some(embedded) => {
            model.pages = Some(Pages::new(parsed("--pages", embedded)?, preset_active));
        }
        None => {}
    }
    match (active_think, &mut model.pages) {
        (Some(typed), Some(pages)) => pages.active_think = parsed("--active-think", typed)?,
        (Some(_), None) => {
            let why =
                "--active-think: it precedes embedded objects, and there are none: add --pages";
            return Err(Failure::Usage(why.into()));
        }
        (None, _) => {}
    }
    Ok(model)
}

fn preset(name: &str) -> Result<&'static ModelPreset, Failure> {
    ModelPreset::find(name).ok_or_else(|| {
        Failure::Usage(none_of("--preset", name, MODEL_PRESETS.iter().map(|preset| preset.name)))
    })
}

fn override_mix(mix: &Mix, typed: &MixOptions) -> Result<Mix, Failure> {
    let mut mix = mix.clone();
    if let Some(directories) = &typed.directories {
        mix.directories = directory_count(directories)?;
    }
    if let Some(alpha) = &typed.alpha {
        mix.alpha = number("--alpha", alpha, 0.0, ALPHA_MAX)?;
    }
    if let Some(classes) = &typed.classes {
        mix.classes = class_weights(classes)?;
    }
    Ok(mix)
}

/// Whether a mix could have been typed.
fn is_possible(mix: &Mix) -> bool {
    let Mix { directories, alpha, classes, .. } = mix;
    (1..=DIRECTORIES_MAX).contains(directories)
        && (0.0..=ALPHA_MAX).contains(alpha)
        && classes.iter().all(|weight| (0.0..=WEIGHT_MAX).contains(weight))
        && classes.iter().any(|&weight| weight > 0.0)
}

fn class_weights(typed: &str) -> Result<[f64; CLASSES], Failure> {
    let weights: Vec<f64> = typed
        .split(',')
        .map(|weight| number("--classes", weight, 0.0, WEIGHT_MAX))
        .collect::<Result<_, _>>()?;
    match <[f64; CLASSES]>::try_from(weights) {
        Ok(weights) if weights.iter().any(|&weight| weight > 0.0) => Ok(weights),
        _ => Err(Failure::Usage(format!(
            "--classes {typed}: write the weights of the four classes, not all 0: \
             0.35,0.5,0.14,0.01"
        ))),
    }
}

fn extent(options: &LogOptions) -> Result<(Extent, String), Failure> {
    let LogOptions { sessions, requests, within, .. } = options;
    let count = |flag, typed| parse_whole(flag, typed, 1, u64::from(u32::MAX));
    let extent = match (sessions, requests, within) {
        (Some(sessions), ..) => Extent::Sessions(count("--sessions", sessions)?),
        (_, Some(requests), _) => Extent::Requests(count("--requests", requests)?),
        (.., Some(within)) => Extent::Within(number("--within", within, 0.001, 1.0)?),
        _ => Extent::Within(WITHIN),
    };
    let typed = match extent {
        Extent::Sessions(count) => format!("--sessions {count}"),
        Extent::Requests(count) => format!("--requests {count}"),
        Extent::Within(part) => format!("--within {part}"),
    };
    Ok((extent, typed))
}

/// The prefix of every URI, without a slash at its end.
fn mounted_at(typed: &str) -> Result<String, Failure> {
    let prefix = typed.trim_end_matches('/');
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if prefix.is_empty() || prefix.starts_with('/') && prefix.bytes().all(plain) {
        return Ok(prefix.to_owned());
    }
    let why = "write a path that begins with a slash, in the form that URIs have";
    Err(Failure::Usage(format!("--prefix {typed:?}: {why}")))
}

fn directory_count(typed: &str) -> Result<u32, Failure> {
    let count = parse_whole("--directories", typed, 1, u64::from(DIRECTORIES_MAX))?;
    Ok(count as u32) // at most DIRECTORIES_MAX
}

fn single_bytes(typed: &str) -> Result<u64, Failure> {
    parse_whole("--single", typed, 0, workload::fileset::SINGLE_BYTES_MAX)
}

fn parse_whole(flag: &str, typed: &str, min: u64, max: u64) -> Result<u64, Failure> {
    let explain = |why: String| Failure::Usage(format!("{flag} {typed}: {why}"));
    whole(min..=max)(typed).map_err(explain)
}

fn number(flag: &str, typed: &str, min: f64, max: f64) -> Result<f64, Failure> {
    match typed.parse::<f64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(Failure::Usage(format!("{flag} {typed}: write a number from {min} to {max}"))),
    }
}

fn duration(flag: &str, typed: &str) -> Result<u64, Failure> {
    parse_duration(typed).map_err(|why| Failure::Usage(format!("{flag} {typed}: {why}")))
}

fn parsed<T: FromStr<Err = ParseError>>(flag: &str, typed: &str) -> Result<T, Failure> {
    typed.parse().map_err(|why| Failure::Usage(format!("{flag} {why}")))
}

fn cannot_generate(why: GenerateError) -> Failure {
    Failure::Usage(format!("no such log: {why}"))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == DASH {
        io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        fs::read(path).map(|read| bytes = read)
    };
    match read {
        Ok(()) => Ok(bytes),
        Err(why) => Err(unread(path, &why, "a log")),
    }
}

/// Writes a log with its head and its mix, and prints the head on standard output unless the log
/// goes there.
fn write_log(
    log: &RequestLog,
    head: &str,
    mix: Option<&Mix>,
    output: &Path,
) -> Result<(), Failure> {
    let mix = mix.map(|mix| serde_json::to_string(mix).expect("it is a table of numbers"));
    let mix = mix.map(|json| format!("\n{MIX}{json}")).unwrap_or_default();
    let comments = format!("{}{mix}", head.trim_end());
    if output.as_os_str() == DASH {
        let mut out = io::stdout().lock();
        let written = wsesslog::write(log, &mut out, &comments);
        return match written.and_then(|()| Ok(out.flush()?)) {
            // A reader that closes the pipe early (`| head`) is no failure.
            Err(WriteError::Io(why)) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(why) => Err(Failure::Operation(format!("cannot print: {why}"))),
            Ok(()) => Ok(()),
        };
    }
    whole_file::write(output, |file| wsesslog::write(log, file, &comments))
        .map_err(|why| Failure::Operation(format!("cannot write {}: {why}", output.display())))?;
    print(&format!("{}: {head}", output.display()))
}
