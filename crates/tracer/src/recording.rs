//! A recording from its first process to the trace: what is started, waited for, ended, converted.

use crate::convert::{Window, convert};
use crate::live;
use crate::recipe::{Recipe, Step};
use crate::scratch::Scratch;
use crate::selection::Keep;
use crate::summary::Summary;
use crate::tool::Tool;
use memory_trace::Header;
use os::epoll::Interest;
use os::poll::PollSet;
use os::signals::{Signal, SignalDescriptor, restore_in_child};
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// How often what runs is looked at.
const LOOK_MS: u32 = 200;
/// How long a command has to end after it was asked to: under Valgrind all takes fifty times as
/// long.
const END_WITHIN_MS: u64 = 20_000;
/// How long what it has left behind has.
const REST_WITHIN_MS: u64 = 5_000;
/// Who uses less processor time than this between two looks waits for something.
const IDLE_TICKS: u64 = 1;
/// So many looks must find all others idle before reaching the limit ends the recording.
const IDLE_LOOKS: u32 = 5;

/// What to record, and where to.
#[derive(Debug, Clone)]
pub struct Options {
    /// The trace.
    pub out: PathBuf,
    /// At most so many references of each process; 0: all.
    pub references_max: u64,
    /// The first references of each process that are left out.
    pub skip: u64,
    /// After this time the command is asked to end; 0: never.
    pub time_us: u64,
    /// Where the raw records go, eight bytes each.
    pub scratch: PathBuf,
}

/// Records a command from its start to its end.
///
/// # Errors
/// What is missing or went wrong, as one line. There is no trace then.
pub fn record(options: &Options, command: &[String]) -> Result<Summary, String> {
    let mut session = Session::begin(options)?;
    session.start(command, None)?;
    session.watch()?;
    session.finish(&command.join(" "), Vec::new(), &[])
}

/// Does what a recipe says, and records what it says is to be traced.
///
/// # Errors
/// The same, and a step that failed.
pub fn record_recipe(options: &Options, recipe: &Recipe) -> Result<Summary, String> {
    let mut session = Session::begin(options)?;
    let folder = session.scratch.path().join("work");
    let places = recipe.prepare(&folder)?;
    for step in &recipe.steps {
        match step {
            Step::Run(run) => session.run(&places.fill_all(&run.run), &folder)?,
            Step::Trace(trace) => {
                session.start(&places.fill_all(&trace.trace), Some(&folder))?;
                let until = places.fill(&trace.until);
                session.wait_until(&until)?;
            }
            Step::Stop(wanted) if wanted.stop => session.stop()?,
            Step::Stop(_) => {}
        }
    }
    let notes = vec![("recipe".to_owned(), recipe.name.clone())];
    session.finish(&format!("recipe {}", recipe.name), notes, &recipe.keep)
}

/// Everything that runs while records are made.
struct Session {
    tool: Tool,
    options: Options,
    signals: SignalDescriptor,
    scratch: Scratch,
    children: Vec<Child>,
    begun_us: u64,
    interrupted: bool,
    notes: Vec<String>,
}

impl Session {
    fn begin(options: &Options) -> Result<Self, String> {
        let tool = Tool::ready()?;
        let wanted = [Signal::Terminate, Signal::Interrupt, Signal::Hangup, Signal::Child];
        let signals = SignalDescriptor::new(&wanted).map_err(|why| format!("signals: {why}"))?;
        Ok(Self {
            tool,
            options: options.clone(),
            signals,
            scratch: Scratch::below(&options.scratch)?,
            children: Vec::new(),
            begun_us: os::clock::now(),
            interrupted: false,
            notes: Vec::new(),
        })
    }

    /// Starts a command under the recorder.
    fn start(&mut self, typed: &[String], folder: Option<&Path>) -> Result<(), String> {
        let Options { references_max, skip, .. } = self.options;
        let mut command = self.tool.command(self.scratch.path());
        command.arg(format!("--references-max={references_max}")).arg(format!("--skip={skip}"));
        command.arg("--").args(typed);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        restore_in_child(&mut command);
        let child = command.spawn().map_err(|why| format!("cannot start valgrind: {why}"))?;
        self.children.push(child);
        Ok(())
    }

    /// Runs a command to its end, not recorded.
    fn run(&mut self, typed: &[String], folder: &Path) -> Result<(), String> {
        let (program, arguments) = typed.split_first().ok_or("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).stdin(std::process::Stdio::null());
        restore_in_child(&mut command);
        let output = command.output().map_err(|why| format!("cannot start {program}: {why}"))?;
        self.look_at_signals();
        if self.interrupted {
            return Err("interrupted".to_owned());
        }
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing was said");
        Err(format!("{}: {}: {last}", typed.join(" "), output.status))
    }

    /// Waits until what was started last is ready: an address takes connections, or a file exists.
    fn wait_until(&mut self, until: &str) -> Result<(), String> {
        const READY_WITHIN_US: u64 = 120_000_000;
        let begun_us = os::clock::now();
        let file = |path: &str| Path::new(path).exists();
        let ready =
            || std::net::TcpStream::connect(until).is_ok() || until.starts_with('/') && file(until);
        while !until.is_empty() && !ready() {
            self.wait(LOOK_MS);
            if let Some(status) = self.ended_early() {
                return Err(format!("what is traced ended before it was ready: {status}"));
            }
            if self.interrupted || os::clock::now() - begun_us > READY_WITHIN_US {
                return Err(format!("what is traced is not ready: nothing at {until}"));
            }
        }
        Ok(())
    }

    fn ended_early(&mut self) -> Option<ExitStatus> {
        self.children.last_mut()?.try_wait().ok()?
    }

    /// Waits for the end of the command, of the time, of what may be recorded, or for Ctrl-C.
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
        self.stop()
    }

    /// Waits for a signal, this long at most, and takes note of it.
    fn wait(&mut self, timeout_ms: u32) {
        let mut set = PollSet::new();
        let mut events = Vec::new();
        // What goes wrong here makes the wait shorter, and nothing worse.
        let _ = set.add(self.signals.as_fd(), Interest::READ, 0);
        let _ = set.wait(&mut events, 1, Some(timeout_ms));
        self.look_at_signals();
    }

    fn look_at_signals(&mut self) {
        while let Some(signal) = self.signals.read() {
            self.interrupted |= signal != Signal::Child;
        }
    }

    fn children_have_ended(&mut self) -> Result<bool, String> {
        let mut all = true;
        for child in &mut self.children {
            let status =
                child.try_wait().map_err(|why| format!("waiting for the command: {why}"))?;
            all &= status.is_some();
        }
        Ok(all)
    }

    /// Asks what runs to end, then what is left, then leaves nothing alive.
    fn stop(&mut self) -> Result<(), String> {
        if !self.children_have_ended()? {
            let ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
            let alive = self.children.iter_mut().filter_map(|c| (!ended(c)).then(|| c.id()));
            live::signal("TERM", alive.collect::<Vec<_>>());
            // A second Ctrl-C cuts this short.
            self.interrupted = false;
            self.wait_for(END_WITHIN_MS, Self::children_have_ended)?;
        } else {
            self.wait_for(u64::from(LOOK_MS), |session| Ok(session.live().is_empty()))?;
        }
        for (name, what) in [("TERM", "asked to end"), ("KILL", "killed")] {
            let live = self.live();
            if live.is_empty() {
                break;
            }
            let count = live.len();
            self.notes.push(format!("{count} processes outlived the command and were {what}"));
            live::signal(name, live);
            self.wait_for(REST_WITHIN_MS, |session| Ok(session.live().is_empty()))?;
        }
        self.say_how_it_ended()
    }

    fn live(&self) -> HashSet<u32> {
        live::recording_into(self.scratch.path())
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

    /// Waits for the children, which have ended or been killed, and forgets them.
    fn say_how_it_ended(&mut self) -> Result<(), String> {
        for mut child in std::mem::take(&mut self.children) {
            let status = child.wait().map_err(|why| format!("waiting for the command: {why}"))?;
            if !status.success() {
                self.notes.push(format!("the command ended with {status}"));
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        command: &str,
        mut header_notes: Vec<(String, String)>,
        keep: &[Keep],
    ) -> Result<Summary, String> {
        self.stop()?;
        let recording_us = os::clock::now() - self.begun_us;
        let options = self.options.clone();
        header_notes.push(("skipped references of each process".into(), options.skip.to_string()));
        header_notes.push(("references at most".into(), options.references_max.to_string()));
        let header = Header {
            recorder: "ropewalk valgrind-tool 1".to_owned(),
            command: command.to_owned(),
            notes: header_notes,
        };
        let window = Window { skip: options.skip, references_max: options.references_max };
        let converted = convert(self.scratch.path(), &options.out, &header, window, keep);
        // Half a trace would be taken for a whole one's beginning.
        let mut summary = converted.inspect_err(|_| drop(std::fs::remove_file(&options.out)))?;
        summary.recording_us = recording_us;
        summary.notes.append(&mut self.notes);
        if summary.processes.is_empty() {
            return Err(format!("nothing was recorded: {}", summary.notes.join("; ")));
        }
        Ok(summary)
    }
}

impl Drop for Session {
    /// After an error: nothing that was started goes on.
    fn drop(&mut self) {
        live::signal("KILL", self.live());
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether anybody still does something that is recorded.
#[derive(Default)]
struct Idle {
    ticks: HashMap<u32, u64>,
    looks: u32,
}

impl Idle {
    /// Whether some process has reached its limit, and all others wait for something and have for
    /// a while: a supervisor will never reach any limit.
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
        // With nobody left who could be idle there is nothing to wait for.
        self.looks > 0 && (self.ticks.is_empty() || self.looks >= IDLE_LOOKS)
    }
}
