//! A recording from its first process to the trace: start, wait, stop, convert.

use crate::convert::{Plan, Window, convert};
use crate::error::RecordingError;
use crate::live;
use crate::printed::Printed;
use crate::recipe::{Recipe, Step};
use crate::recorder::{Ready, Recorder};
use crate::scratch::Scratch;
use crate::selection::Keep;
use crate::summary::Summary;
use memory_trace::Header;
use os::epoll::Interest;
use os::poll::PollSet;
use os::signals::{self, Signal, SignalDescriptor, restore_in_child};
use std::collections::{HashMap, HashSet};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// The interval, in milliseconds, at which running processes are checked.
const LOOK_MS: u32 = 200;
/// How long a command has to end after it was asked to: under Valgrind everything takes fifty times
/// as long, and each program that it still starts takes a second of an idle CPU. A second Ctrl-C
/// cuts this short.
const END_WITHIN_MS: u64 = 60_000;
/// How long other processes may outlive the command without being noted.
const FOLLOW_WITHIN_MS: u64 = 3_000;
/// How long processes that outlived the command have to end.
const REST_WITHIN_MS: u64 = 5_000;
/// Signals that follow the first one within this time are the same request: timeout(1) sends one to
/// this process and one to its process group.
const SAME_REQUEST_US: u64 = 500_000;
/// A process that uses less processor time than this between two checks waits for something.
const IDLE_TICKS: u64 = 1;
/// The number of checks that must find all other processes idle before reaching the limit ends the
/// recording.
const IDLE_LOOKS: u32 = 5;

/// What to record, and where to write it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The recorder that runs the command.
    pub recorder: Recorder,
    /// The path of the trace.
    pub out: PathBuf,
    /// The maximum number of references of each process; 0: all.
    pub references_max: u64,
    /// The number of references left out at the beginning of each process.
    pub skip: u64,
    /// After this time the command is asked to end; 0: never.
    pub time_us: u64,
    /// The folder for the raw records, eight bytes each.
    pub scratch: PathBuf,
    /// What `{ropewalk}` stands for in a recipe, or why it is not there: what to install.
    pub ropewalk: Result<PathBuf, String>,
}

/// Records a command from its start to its end.
///
/// # Errors
/// What is missing or went wrong. There is no trace then.
pub fn record(options: &Options, command: &[String]) -> Result<Summary, RecordingError> {
    let mut session = Session::begin(options)?;
    session.start("the command", command, None)?;
    session.watch()?;
    session.finish(&command.join(" "), Vec::new(), &[])
}

/// Runs the steps of a recipe, and records the commands that it traces.
///
/// # Errors
/// What is missing or went wrong, a step that failed, or a signal that came before the last step
/// was done. There is no trace then, and all processes that were started are ended.
pub fn record_recipe(options: &Options, recipe: &Recipe) -> Result<Summary, RecordingError> {
    let mut session = Session::begin(options)?;
    session.printed = Some(Printed::new(&options.out, session.scratch.path()));
    if let Err(why) = session.run_steps(recipe) {
        return Err(session.failure(why));
    }
    let notes = vec![("recipe".to_owned(), recipe.name.clone())];
    session.finish(&format!("recipe {}", recipe.name), notes, &recipe.keep)
}

/// A recorded command, and its name in messages.
struct Started {
    name: String,
    child: Child,
}

/// Everything that runs during a recording.
struct Session {
    recorder: Ready,
    options: Options,
    signals: SignalDescriptor,
    scratch: Scratch,
    /// The output of a recipe's commands; a typed command prints to this program's own outputs.
    printed: Option<Printed>,
    children: Vec<Started>,
    begun_us: u64,
    interrupted: bool,
    /// When the last signal came that asked to end.
    asked_us: Option<u64>,
    notes: Vec<String>,
}

impl Session {
    fn begin(options: &Options) -> Result<Self, RecordingError> {
        let recorder = options.recorder.ready()?;
        let wanted: Vec<Signal> = signals::endings().chain([Signal::Child]).collect();
        let signals = SignalDescriptor::new(&wanted).map_err(|why| format!("signals: {why}"))?;
        Ok(Self {
            recorder,
            options: options.clone(),
            signals,
            scratch: Scratch::below(&options.scratch)?,
            printed: None,
            children: Vec::new(),
            begun_us: os::clock::now(),
            interrupted: false,
            asked_us: None,
            notes: Vec::new(),
        })
    }

    /// Runs the steps of a recipe.
    fn run_steps(&mut self, recipe: &Recipe) -> Result<(), RecordingError> {
        let folder = self.scratch.path().join("work");
        let places = recipe.prepare(&folder, &self.options.ropewalk)?;
        for step in &recipe.steps {
            match step {
                Step::Run(run) => self.run(&places.fill_all(&run.run), &folder)?,
                Step::Trace(trace) => {
                    let typed = places.fill_all(&trace.trace);
                    let name = in_a_line(&typed);
                    self.start(&name, &typed, Some(&folder))?;
                    let until = places.fill(&trace.until);
                    self.wait_until(&name, &until)?;
                }
                Step::Stop(wanted) if wanted.stop => self.stop(Self::recorded)?,
                Step::Stop(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the processes that a failed recipe has started, as gently as after a success: killed
    /// processes leave files behind. The output until then may tell more.
    fn failure(&mut self, why: RecordingError) -> RecordingError {
        // The first failure is the one to report, and processes that are left are killed in the
        // end.
        let _ = self.stop(Self::live);
        let Some(printed) = &self.printed else { return why };
        let printed = match printed.gather() {
            Ok(()) => format!("all that was printed: {}", printed.log().display()),
            Err(lost) => lost,
        };
        RecordingError::Recipe { why: Box::new(why), printed }
    }

    /// Starts a command under the recorder.
    fn start(&mut self, name: &str, typed: &[String], folder: Option<&Path>) -> Result<(), String> {
        let mut command =
            self.recorder.command(self.scratch.path(), self.window(), typed, folder)?;
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        self.take_what_is_printed(&mut command, typed)?;
        if self.printed.is_some() || !std::io::stdin().is_terminal() {
            // Apache's prefork ends by a signal to its whole process group, which must not be this
            // process's. A command that reads from a terminal has to be in the group that owns the
            // terminal.
            command.process_group(0);
        }
        restore_in_child(&mut command);
        let child = command.spawn().map_err(|why| {
            let recorder = self.recorder.program();
            format!("cannot start {recorder}: {why}")
        })?;
        self.children.push(Started { name: name.to_owned(), child });
        Ok(())
    }

    fn window(&self) -> Window {
        Window { skip: self.options.skip, references_max: self.options.references_max }
    }

    /// Runs a command to its end, not recorded. After a signal it is left to be ended with the
    /// others.
    fn run(&mut self, typed: &[String], folder: &Path) -> Result<(), RecordingError> {
        let (program, arguments) =
            typed.split_first().ok_or_else(|| "an empty command".to_owned())?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        self.take_what_is_printed(&mut command, typed)?;
        restore_in_child(&mut command);
        let mut child = command.spawn().map_err(|why| format!("cannot start {program}: {why}"))?;
        let name = in_a_line(typed);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|why| format!("{name}: {why}"))? {
                break status;
            }
            self.wait(LOOK_MS);
            if self.interrupted {
                self.children.push(Started { name, child });
                return Err(RecordingError::Interrupted);
            }
        };
        if status.success() {
            return Ok(());
        }
        Err(format!("{name}: {status}: {}", self.last_line()).into())
    }

    fn take_what_is_printed(&mut self, by: &mut Command, typed: &[String]) -> Result<(), String> {
        self.printed.as_mut().map_or(Ok(()), |printed| printed.take(by, typed))
    }

    fn last_line(&self) -> String {
        self.printed.as_ref().map(Printed::last_line).unwrap_or_default()
    }

    /// Waits until the command started last is ready: an address takes connections, or a file
    /// exists.
    fn wait_until(&mut self, name: &str, until: &str) -> Result<(), RecordingError> {
        const READY_WITHIN_US: u64 = 120_000_000;
        let begun_us = os::clock::now();
        let file = |path: &str| Path::new(path).exists();
        let ready =
            || std::net::TcpStream::connect(until).is_ok() || until.starts_with('/') && file(until);
        while !until.is_empty() && !ready() {
            self.wait(LOOK_MS);
            if let Some(status) = self.ended_early() {
                let last = self.last_line();
                let why = format!("{name}: it ended before it was ready: {status}: {last}");
                return Err(why.into());
            }
            if self.interrupted {
                return Err(RecordingError::Interrupted);
            }
            if os::clock::now() - begun_us > READY_WITHIN_US {
                let why = format!("{name}: it is not ready in two minutes: nothing at {until}");
                return Err(why.into());
            }
        }
        Ok(())
    }

    fn ended_early(&mut self) -> Option<ExitStatus> {
        self.children.last_mut()?.child.try_wait().ok()?
    }

    /// Waits until the command ends, the time is over, the limit of references is reached, or
    /// Ctrl-C.
    fn watch(&mut self) -> Result<(), String> {
        let mut idle = Idle::default();
        while !self.children_have_ended()? {
            let time_us = os::clock::now() - self.begun_us;
            if self.interrupted || self.options.time_us > 0 && time_us > self.options.time_us {
                break;
            }
            if self.options.references_max > 0 && idle.limit_reached(self.scratch.path()) {
                break;
            }
            self.wait(LOOK_MS);
        }
        self.stop(Self::live)
    }

    /// Waits for a signal, this long at most, and records it.
    fn wait(&mut self, timeout_ms: u32) {
        let mut set = PollSet::new();
        let mut events = Vec::new();
        // An error here only shortens the wait.
        let _ = set.add(self.signals.as_fd(), Interest::READ, 0);
        let _ = set.wait(&mut events, 1, Some(timeout_ms));
        self.read_signals();
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.read() {
            let now = os::clock::now();
            let same = |asked_us: u64| now.saturating_sub(asked_us) < SAME_REQUEST_US;
            if signal != Signal::Child && !self.asked_us.is_some_and(same) {
                self.interrupted = true;
                self.asked_us = Some(now);
            }
        }
    }

    fn children_have_ended(&mut self) -> Result<bool, String> {
        let mut all = true;
        for Started { child, .. } in &mut self.children {
            let status =
                child.try_wait().map_err(|why| format!("waiting for the command: {why}"))?;
            all &= status.is_some();
        }
        Ok(all)
    }

    /// Asks the commands to end, then the remaining processes of `group`, and kills those that
    /// stay.
    fn stop(&mut self, group: fn(&Self) -> Vec<u32>) -> Result<(), String> {
        // A second Ctrl-C cuts this short.
        self.interrupted = false;
        if !self.children_have_ended()? {
            let ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
            let children = self.children.iter_mut().map(|started| &mut started.child);
            let alive = children.filter_map(|child| (!ended(child)).then(|| child.id()));
            signals::send("TERM", &alive.collect::<Vec<_>>());
            self.wait_for(END_WITHIN_MS, Self::children_have_ended)?;
        }
        // Processes that end with the commands may need a moment longer.
        self.wait_for(FOLLOW_WITHIN_MS, |session| Ok(group(session).is_empty()))?;
        for (name, what) in [("TERM", "asked to end"), ("KILL", "killed")] {
            let live = group(self);
            if live.is_empty() {
                break;
            }
            let count = live.len();
            let outlived = if self.printed.is_some() { "what was started" } else { "the command" };
            self.notes.push(format!("{count} processes outlived {outlived} and were {what}"));
            signals::send(name, &live);
            self.wait_for(REST_WITHIN_MS, |session| Ok(group(session).is_empty()))?;
        }
        self.note_how_children_ended()
    }

    /// The processes that are recorded at this moment.
    fn recorded(&self) -> Vec<u32> {
        live::recording_into(self.scratch.path()).into_iter().collect()
    }

    /// The processes that are recorded at this moment, and those that the steps of a recipe have
    /// left running.
    fn live(&self) -> Vec<u32> {
        let folder = self.scratch.path();
        let all: HashSet<u32> =
            live::recording_into(folder).into_iter().chain(live::working_in(folder)).collect();
        all.into_iter().collect()
    }

    fn wait_for(
        &mut self,
        within_ms: u64,
        done: impl Fn(&mut Self) -> Result<bool, String>,
    ) -> Result<(), String> {
        let begun_us = os::clock::now();
        while !done(self)? && !self.interrupted && os::clock::now() - begun_us < within_ms * 1000 {
            self.wait(LOOK_MS.min(within_ms as u32 / 4));
        }
        Ok(())
    }

    /// Waits for the children, which have ended or been killed, and forgets them. A failure is
    /// noted.
    fn note_how_children_ended(&mut self) -> Result<(), String> {
        for Started { name, mut child } in std::mem::take(&mut self.children) {
            let status = child.wait().map_err(|why| format!("waiting for the command: {why}"))?;
            if !status.success() {
                self.notes.push(format!("{name} ended with {status}"));
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        command: &str,
        mut header_notes: Vec<(String, String)>,
        keep: &[Keep],
    ) -> Result<Summary, RecordingError> {
        self.stop(Self::live)?;
        self.notes.extend(self.printed.as_ref().map(|printed| match printed.gather() {
            Ok(()) => format!("what the commands printed is in {}", printed.log().display()),
            Err(lost) => lost,
        }));
        let recording_us = os::clock::now() - self.begun_us;
        let options = self.options.clone();
        header_notes.push(("skipped references of each process".into(), options.skip.to_string()));
        header_notes.push(("references at most".into(), options.references_max.to_string()));
        let header = Header {
            recorder: self.recorder.name().to_owned(),
            command: command.to_owned(),
            notes: header_notes,
        };
        let plan = Plan { header: &header, window: self.window(), keep };
        let folder = self.scratch.path().to_owned();
        self.interrupted = false;
        let converted = convert(&folder, &options.out, &plan, &mut || {
            self.read_signals();
            self.interrupted
        });
        // A partial trace would be mistaken for the beginning of a whole one.
        let mut summary = converted.inspect_err(|_| drop(std::fs::remove_file(&options.out)))?;
        summary.recording_us = recording_us;
        summary.notes.append(&mut self.notes);
        if summary.processes.is_empty() {
            return Err(format!("nothing was recorded: {}", summary.notes.join("; ")).into());
        }
        Ok(summary)
    }

    /// Ends all processes that were started, after an error.
    fn end_all(&mut self) {
        signals::send("KILL", &self.live());
        for Started { child, .. } in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// A command as messages show it; a script among its arguments may have many lines.
fn in_a_line(typed: &[String]) -> String {
    let words = typed.iter().flat_map(|argument| argument.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

/// A check of whether any process still does something that is recorded.
#[derive(Default)]
struct Idle {
    ticks: HashMap<u32, u64>,
    looks: u32,
}

impl Idle {
    /// Whether some process has reached its limit, and all others are waiting and have been for a
    /// while: a supervisor, say, will never reach its limit.
    fn limit_reached(&mut self, folder: &Path) -> bool {
        let live = live::recording_into(folder);
        let done = live::at_their_limit(folder, &live);
        let others: HashMap<u32, u64> =
            live.difference(&done).map(|pid| (*pid, live::cpu_ticks(*pid))).collect();
        let used = |(pid, ticks): (&u32, &u64)| {
            ticks.saturating_sub(self.ticks.get(pid).copied().unwrap_or(0))
        };
        let idle = !done.is_empty() && others.iter().all(|other| used(other) <= IDLE_TICKS);
        self.looks = if idle { self.looks + 1 } else { 0 };
        self.ticks = others;
        // If no process is left that could be idle there is nothing to wait for.
        self.looks > 0 && (self.ticks.is_empty() || self.looks >= IDLE_LOOKS)
    }
}
