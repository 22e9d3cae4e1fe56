//! `ropewalk load`: runs the load, shows the progress and writes the results.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use command::estimate::minutes;
use command::{DASH, Emphasis, Failure, ProgressLine, notify, print, takes_stdout};
use load::find_limit::{Conditions, Limit, TRIALS_MIN, TRIALS_USUAL, Trial, Trials};
use load::interrupt::Interrupt;
use load::measures::Interval;
use load::milestone::Milestone;
use load::options::{Arrivals, Options, OptionsError, parse_start};
use load::outcome::Outcome;
use load::report;
use load::report::progress::Progress;
use load::run::{Watch, run};
use load::run_error::{Before, RunError};

use crate::load_arguments::{LoadArguments, LoadCommand, OutputArguments};

/// Executes the command; the exit status tells the result.
pub(crate) fn load(arguments: LoadArguments) -> Result<(), Failure> {
    if let Some(LoadCommand::Merge { files, output }) = arguments.command {
        output.check().map_err(Failure::Usage)?;
        let outcome = load::merge::merge_files(&files).map_err(|why| without_plan(why, &output))?;
        return show(&outcome, &output);
    }
    let (options, conditions, output) = arguments.into_options();
    output.check().map_err(Failure::Usage)?;
    let mut observer = Observer::new().map_err(Failure::Operation)?;
    if let Some(conditions) = conditions {
        let conditions = conditions.parse().map_err(|why: String| usage("--find-limit", &why))?;
        return find_limit(&options, &conditions, &output, &mut observer);
    }
    let (plan, setting) = options.resolve().map_err(|why| without_plan(why, &output))?;
    plan.notes.iter().for_each(|line| note(&format!("{line}\n")));
    if !output.quiet {
        observer.progress = Some(Progress::new(plan.interval_us, plan.duration_us));
    }
    let outcome = run(&plan, setting, &mut observer);
    drop(observer);
    match outcome {
        Ok(outcome) => show(&outcome, &output),
        Err(why) => Err(not_run(&why, output.json.as_deref())),
    }
}

/// Writes why there was no run where its outcome was to be, for programs, and tells it. The exit
/// status says whose fault it was.
fn not_run(why: &RunError, json: Option<&Path>) -> Failure {
    notify(&why.to_string());
    if let Some(Err(failure)) = json.map(|path| write(path, &report::json::write_error(why))) {
        return failure;
    }
    Failure::Reported(why.exit_code())
}

/// The failure of options that give no plan, or of files that give no outcome.
fn without_plan(why: OptionsError, output: &OutputArguments) -> Failure {
    match why {
        OptionsError::Typed(why) => Failure::Usage(why),
        OptionsError::System(why) => not_run(&RunError::System(why), output.json.as_deref()),
    }
}

fn usage(option: &str, why: &str) -> Failure {
    Failure::Usage(format!("{option}: {why}"))
}

/// Writes all reports asked for, the summary last, where a reader at a terminal sees it. If one
/// file cannot be written, all others are written all the same, because the run may have taken
/// hours.
fn show(outcome: &Outcome, output: &OutputArguments) -> Result<(), Failure> {
    type Form = (Option<PathBuf>, fn(&Outcome) -> String);
    let forms: [Form; 5] = [
        (output.json.clone(), report::json::write),
        (output.interval_log.clone(), report::interval_log::render),
        (output.spectrum.clone(), |outcome| {
            report::spectrum::render(&outcome.measures.times.corrected)
        }),
        (output.series.clone(), report::series::render),
        (output.httperf.clone(), report::httperf::render),
    ];
    let mut written = Ok(());
    for (path, form) in forms {
        if let Some(path) = path {
            written = written.and(write(&path, &form(outcome)));
        }
    }
    let show = |text: &str| {
        if output.is_on_stdout() {
            note(text);
            return Ok(());
        }
        print(text)
    };
    if output.fairness {
        show(&report::fairness::render(outcome))?;
    }
    if !output.quiet {
        let emphasis = match output.is_on_stdout() {
            true => Emphasis::of_stream(&io::stderr()),
            false => Emphasis::of_stream(&io::stdout()),
        };
        show(&report::summary::render(outcome, emphasis))?;
    }
    written?;
    match outcome.exit_code() {
        0 => Ok(()),
        status => Err(Failure::Reported(status)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path.as_os_str() == DASH {
        return print(text);
    }
    fs::write(path, text).map_err(|why| Failure::Operation(format!("{}: {why}", path.display())))
}

fn note(text: &str) {
    // A failure to write to standard error cannot be reported.
    let _ = io::stderr().write_all(text.as_bytes());
}

impl OutputArguments {
    /// The options for files with the files given.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("--json", &self.json),
            ("--interval-log", &self.interval_log),
            ("--spectrum", &self.spectrum),
            ("--series", &self.series),
            ("--httperf", &self.httperf),
        ];
        files.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }

    fn is_on_stdout(&self) -> bool {
        takes_stdout(self.files()) == Ok(true)
    }

    /// Checks before the run that the directory of each file exists, without touching the files.
    fn check(&self) -> Result<(), String> {
        takes_stdout(self.files())?;
        for (option, path) in self.files().filter(|(_, path)| path.as_os_str() != DASH) {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if path.is_dir() {
                return Err(format!("{option} {}: this is a directory", path.display()));
            }
            if parent.is_some_and(|parent| !parent.is_dir()) {
                return Err(format!("{option} {}: there is no such directory", path.display()));
            }
        }
        Ok(())
    }
}

/// Shows progress and receives Ctrl-C.
struct Observer {
    interrupt: Interrupt,
    progress: Option<Progress>,
    line: ProgressLine,
}

impl Observer {
    fn new() -> Result<Self, String> {
        let interrupt = Interrupt::new()?;
        Ok(Self { interrupt, progress: None, line: ProgressLine::new() })
    }
}

impl Watch for Observer {
    fn on_interval(&mut self, seconds: f64, interval: &Interval) {
        let Some(progress) = &mut self.progress else { return };
        self.line.print_line(&progress.line(seconds, interval));
    }

    fn wants_to_stop(&mut self) -> bool {
        self.interrupt.came()
    }

    fn on_ready(&mut self) -> Result<u64, RunError> {
        if print(&format!("{}\n", Milestone::Ready)).is_err() {
            return Err(RunError::NoStart(format!(
                "--start-at -: `{}` cannot be written to standard output",
                Milestone::Ready
            )));
        }
        let line = line_of_input(&mut self.interrupt)?;
        parse_start(String::from_utf8_lossy(&line).trim()).map_err(RunError::NoStart)
    }

    fn on_measured(&mut self) {
        // If the caller is gone, or Ctrl-C comes, the run ends at once.
        if print(&format!("{}\n", Milestone::Measured)).is_ok() {
            let _ = line_of_input(&mut self.interrupt);
        }
    }
}

/// Reads the first line of standard input, or fails if Ctrl-C comes before it.
fn line_of_input(interrupt: &mut Interrupt) -> Result<Vec<u8>, RunError> {
    let cannot_read = |why: io::Error| RunError::NoStart(format!("standard input: {why}"));
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        if interrupt.comes_before_input(input.as_fd()).map_err(cannot_read)? {
            return Err(RunError::Interrupted(Before::Start));
        }
        let bytes = input.fill_buf().map_err(cannot_read)?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if bytes.is_empty() || end.is_some() {
            return Ok(line);
        }
        let taken = bytes.len();
        input.consume(taken);
    }
}

fn find_limit(
    options: &Options,
    conditions: &Conditions,
    output: &OutputArguments,
    observer: &mut Observer,
) -> Result<(), Failure> {
    check_search(options, output)?;
    let trials = Trials::new(options).map_err(|why| without_plan(why, output))?;
    if !output.quiet {
        note(&announcement(conditions, trials.trial_s(), trials.has_first_rate()));
    }
    let mut seen = |trial: &Trial| {
        if !output.quiet {
            note(&report::limit::trial(trial));
        }
    };
    let limit = trials.find_limit(conditions, observer, &mut seen);
    let limit = limit.map_err(|why| not_run(&why, output.json.as_deref()))?;
    show_limit(&limit, conditions, output)
}

/// What is looked for, and how long that takes with trials of `trial_s` seconds. How far a rate
/// that the user chose is from the limit is not known.
fn announcement(conditions: &Conditions, trial_s: f64, has_rate: bool) -> String {
    let (about, trials) = match has_rate {
        true => ("at least", TRIALS_MIN),
        false => ("usually", TRIALS_USUAL),
    };
    let time = minutes(trials as f64 * trial_s);
    format!(
        "looking for the highest rate with {conditions}: {about} {trials} trials, about {time}\n"
    )
}

/// Refuses options for single runs, and options that set the rate, which the search does itself.
fn check_search(options: &Options, output: &OutputArguments) -> Result<(), Failure> {
    if options.clients.is_some() {
        let why = "--connections is for closed runs, the search makes open ones: leave one out";
        return Err(usage("--find-limit", why));
    }
    if options.sessions.is_some() {
        let why = "--sessions is for single runs: give the length of a trial with --duration";
        return Err(usage("--find-limit", why));
    }
    if options.arrivals == Some(Arrivals::Trace) {
        let why = "--arrivals trace has the log's own rate, and the search sets it: leave it out";
        return Err(usage("--find-limit", why));
    }
    let single = [
        ("--share", options.share.is_some()),
        ("--start-at", options.start_at.is_some()),
        ("--fairness", output.fairness),
    ];
    let typed = single.into_iter().filter(|(_, is_typed)| *is_typed).map(|(option, _)| option);
    let files = output.files().map(|(option, _)| option).filter(|option| *option != "--json");
    match typed.chain(files).next() {
        Some(option) => Err(usage("--find-limit", &format!("{option} is for single runs"))),
        None => Ok(()),
    }
}

fn show_limit(
    limit: &Limit,
    conditions: &Conditions,
    output: &OutputArguments,
) -> Result<(), Failure> {
    let json = output.json.as_ref();
    let written = json.map(|path| write(path, &report::limit::json(limit, conditions)));
    if !output.quiet {
        let text = report::limit::text(limit, conditions);
        if output.is_on_stdout() { note(&text) } else { print(&text)? }
    }
    written.unwrap_or(Ok(()))?;
    match limit.exit_code() {
        0 => Ok(()),
        status => Err(Failure::Reported(status)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: LoadArguments,
    }

    #[track_caller]
    fn check(typed: &[&str], expected: Option<&str>) {
        let line = [&["load", "http://127.0.0.1:1/", "--find-limit", "p99=1s"], typed].concat();
        let (options, _, output) = Line::parse_from(line).arguments.into_options();
        match (check_search(&options, &output), expected) {
            (Ok(()), None) => (),
            (Err(Failure::Usage(why)), Some(expected)) => {
                assert!(why.starts_with(&format!("--find-limit: {expected}")), "{why}");
                // The message must not name options that were not typed.
                assert!(!why.contains("--rate") && why.lines().count() == 1, "{why}");
            }
            _ => panic!("{typed:?}: {expected:?}"),
        }
    }

    /// Arguments generated from options are parsed to equal options.
    #[test]
    fn arguments_of_options_are_read_as_they_were() {
        let line = "http://a/ -c 5 --log l --host b --host c --header A:b \
                    --source 127.0.0.2,127.0.0.3 \
                    --arrivals poisson --speed 1.5 --duration 2s --warm-up 1s --sessions 8 \
                    --connection keep --idle 9 --timeout 3s --connect-timeout 4s --verify bytes \
                    --files f --latency-target 5ms --lag-bound 6ms --run-delay-bound 7% \
                    --interval 8s --threads 2 --cpus 0,1 --share 1/2 --start-at - --seed 16 \
                    --default-think 1s --think-max 2s --rate 5 --request-rate 6";
        let read = |words: &[String]| {
            let words = std::iter::once("load").chain(words.iter().map(String::as_str));
            let (options, ..) = Line::parse_from(words).arguments.into_options();
            Options { command: String::new(), ..options }
        };
        let typed = read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(Options::from_arguments(&typed.to_arguments()).as_ref(), Ok(&typed));
        assert_eq!(read(&typed.to_arguments()), typed);
        assert_eq!(read(&Options::default().to_arguments()), Options::default());
    }

    #[test]
    fn a_search_says_how_long_it_takes() {
        let check = |trial_s, has_rate, expected: &str| {
            let conditions = "p99=50ms".parse().expect("right");
            let said = announcement(&conditions, trial_s, has_rate);
            assert!(said.ends_with(&format!(": {expected}\n")), "{said}");
            assert!(said.starts_with("looking for the highest rate with p99=50ms"), "{said}");
        };
        check(6.5, false, "usually 15 trials, about 2 min");
        check(2.5, false, "usually 15 trials, about 38 s");
        check(1.1, true, "at least 12 trials, about 13 s");
    }

    #[test]
    fn options_that_a_search_refuses() {
        check(&["-c", "5"], Some("--connections is for closed runs"));
        check(&["--connections", "5"], Some("--connections is for closed runs"));
        check(&["--sessions", "5"], Some("--sessions is for single runs"));
        check(&["--arrivals", "trace"], Some("--arrivals trace has the log's own rate"));
        check(&["--arrivals", "poisson"], None);
        check(&["--share", "1/2"], Some("--share is for single runs"));
        check(&["--rate", "5", "--json", "-"], None);
    }
}
