//! A server that runs: started in its own control group on its own port, stopped when dropped.

use crate::application::RunningApplication;
use crate::binding::{bind_processes, bind_threads};
use crate::group::Group;
use crate::http::{self, Connection, Response};
use crate::install::{self, Installed, SourceTree};
use crate::memory::{self, Memory};
use crate::port;
use crate::process;
use crate::server_description::{Application, ServerDescription, Setting, Workers};
use crate::template::{PLACES, Values};
use crate::testbed::{Affinity, Place};
use os::guard::Guard;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Why a server does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Something prevented the start; in a line.
    #[error("{0}")]
    NotStarted(String),
    /// The server was started, and cannot be used.
    #[error(
        "it does not serve ({}{what}): {printed}",
        if *.port_is_taken { "its port is taken; " } else { "" }
    )]
    DoesNotServe {
        /// What became of the server.
        what: String,
        /// Whether another process listens at the server's port.
        port_is_taken: bool,
        /// The end of what it printed.
        printed: String,
    },
}

/// For callers that only print the error.
impl From<StartError> for String {
    fn from(why: StartError) -> Self {
        why.to_string()
    }
}

/// How many ports a server is started with, one after the other, if each turns out to be taken: one
/// taken port is bad luck, and after several it is the server that ignores the port.
const PORTS_TRIED_MAX: usize = 3;

/// What most often causes a 403 where this process is root.
const MAY_NOT_READ: &str = ": most servers give up the rights of root: what they serve must be \
                            readable by all, and every folder above";

/// How a server is started, whichever it is.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Where the repository lies.
    pub source_tree: SourceTree,
    /// The folder to serve.
    pub root: PathBuf,
    /// An existing folder in which the server gets one of its own.
    pub scratch: PathBuf,
    /// How many threads or processes it is to serve with; usually as many as it has processors.
    pub workers: usize,
    /// The processors it may use; all that this process may use, if none is named.
    pub cpus: Vec<usize>,
    /// Bound on its memory and on the pages of files that it is the first to read; none: no bound.
    pub memory_bytes_max: Option<u64>,
    /// A path that exists, requested until the server answers.
    pub ready_path: String,
    /// The values of further placeholders; see `PLACES`.
    pub workload: Values,
    /// In which network and below which control groups it runs.
    pub place: Place,
    /// What its threads are bound to.
    pub affinity: Affinity,
}

/// A server that runs and answers.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    /// The network namespace from which it can be reached; ours if none.
    reachable_from: Option<PathBuf>,
    /// The address and the network namespace in which it was to listen; ours if none.
    listens_at: (Ipv4Addr, Option<PathBuf>),
    stop: crate::server_description::Stop,
    group: Group,
    child: Child,
    work_dir: PathBuf,
    /// What it hands requests on to, if it does.
    application: Option<RunningApplication>,
    /// What its workers are, if that is known, and the CPUs that they are dealt.
    workers: Option<Workers>,
    cpus: Vec<usize>,
    /// Ends the server if this process is killed.
    _guard: Guard,
}

impl RunningServer {
    /// Starts a server under one of its settings and waits until it serves; with another port, if
    /// another process has taken the one that was free.
    ///
    /// # Errors
    /// Why the server does not serve, with the end of what it printed.
    pub fn start(
        installed: &Installed,
        setting: &Setting,
        launch: &Launch,
    ) -> Result<Self, StartError> {
        let description = &installed.description;
        if launch.place.listen != Ipv4Addr::LOCALHOST && !description.takes_an_address() {
            let name = &description.name;
            let why =
                format!("{name} cannot be put into a network: its file does not use {{listen}}");
            return Err(StartError::NotStarted(why));
        }
        let start = || {
            let port = port::free(launch.place.listen, launch.place.network.as_deref());
            let port = port.map_err(StartError::NotStarted)?;
            Self::start_at(port, installed, setting, launch)
        };
        let mut outcome = start();
        for _ in 1..PORTS_TRIED_MAX {
            match outcome {
                Err(StartError::DoesNotServe { port_is_taken: true, .. }) => outcome = start(),
                _ => break,
            }
        }
        outcome
    }

    /// Starts a server under one of its settings at `port` and waits until it serves. No other port
    /// is tried if this one is taken.
    pub(crate) fn start_at(
        port: u16,
        installed: &Installed,
        setting: &Setting,
        launch: &Launch,
    ) -> Result<Self, StartError> {
        let description = &installed.description;
        // In addresses, as php-fpm has them, a colon is followed by a port.
        let work_dir = format!("{}-{port}", description.name.replace(':', "-"));
        let work_dir = launch.scratch.join(work_dir);
        let values = |launch: &Launch| {
            let values = values(description, setting, launch, port, &work_dir)?;
            prepare(description, &values, &work_dir)?;
            Ok(values)
        };
        let (values, application) = match &description.application {
            None => (values(launch).map_err(StartError::NotStarted)?, None),
            Some(application) => start_application(application, launch, &work_dir, values)?,
        };
        let begin =
            || begin(Part::server(description, &values, launch)?, &launch.place.prefix, &work_dir);
        let (group, mut child, guard) = begin().map_err(StartError::NotStarted)?;
        let place = &launch.place;
        let started_us = os::clock::now();
        release(&mut child);
        let address = SocketAddr::from((place.address, port));
        let mut server = Self {
            address,
            reachable_from: place.ask_from.clone(),
            listens_at: (place.listen, place.network.clone()),
            stop: description.stop.clone(),
            group,
            child,
            work_dir,
            application,
            workers: description.start.workers.clone(),
            cpus: launch.cpus.clone(),
            _guard: guard,
        };
        server.wait_until_ready(description.ready.within_ms, started_us, &launch.ready_path)?;
        Ok(server)
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The control group of its processes.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The control group of the application behind it, if there is one.
    pub(crate) fn application_group(&self) -> Option<&Group> {
        self.application.as_ref().map(RunningApplication::group)
    }

    /// The memory of its processes together.
    pub fn memory(&self) -> Memory {
        memory::used_by(&self.group.processes())
    }

    /// Binds each of its workers to a CPU of its own, in turn if it has more workers than CPUs.
    /// Workers that are started later are not bound, and which of its threads serve is known only
    /// when they have worked: so the caller binds them again after warming up.
    ///
    /// # Errors
    /// Why that cannot be done, in a line.
    pub fn bind_workers(&self) -> Result<(), String> {
        let workers = Workers::bindable(self.workers.as_ref())?;
        let bind = match workers {
            Workers::Processes => bind_processes,
            Workers::Threads => bind_threads,
            Workers::Bound | Workers::Unbindable(_) => return Ok(()),
        };
        if self.cpus.is_empty() {
            return Err("it has no CPUs".into());
        }
        bind(&self.group.processes(), self.child.id(), &self.cpus)
    }

    /// Stops the server and returns everything it has printed until its end.
    pub fn stop(mut self) -> String {
        self.end();
        self.printed()
    }

    /// The end of what it has printed so far, in one line; empty if it has printed nothing.
    pub(crate) fn last_output(&self) -> String {
        process::last_lines(&self.printed()).lines().collect::<Vec<_>>().join("; ")
    }

    fn wait_until_ready(
        &mut self,
        within_ms: u64,
        start: u64,
        path: &str,
    ) -> Result<(), StartError> {
        loop {
            let answer = self.request(path);
            let elapsed_us = os::clock::now() - start;
            match answer {
                Ok(response) if response.status == 200 => return Ok(()),
                Ok(response) => {
                    let is_refused = response.status == 403 && os::process::is_root();
                    let hint = if is_refused { MAY_NOT_READ } else { "" };
                    return Err(self.start_failure(&format!("{} at {path}{hint}", response.status)));
                }
                // The server has ended, whatever another process answers at its port.
                Err(_) if matches!(self.child.try_wait(), Ok(Some(_))) => {
                    return Err(self.start_failure("it ended"));
                }
                Err(why) if elapsed_us > within_ms * 1000 => {
                    return Err(self.start_failure(&why.to_string()));
                }
                Err(_) => thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    fn request(&self, path: &str) -> io::Result<Response> {
        let ask = || {
            http::connect(self.address)
                .and_then(|mut stream| http::get(&mut stream, path, Connection::Close))
        };
        match &self.reachable_from {
            Some(network) => system::namespaces::in_network(network, ask)?,
            None => ask(),
        }
    }

    /// Ends the server and describes the failure; whether another process has its port is known
    /// only then.
    fn start_failure(&mut self, what: &str) -> StartError {
        let printed = process::last_lines(&self.printed());
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
        self.group.kill();
        let (listen, network) = &self.listens_at;
        let port_is_taken = port::is_taken(self.address.port(), *listen, network.as_deref());
        StartError::DoesNotServe { what: what.to_owned(), port_is_taken, printed }
    }

    /// The processors that it may use; empty where it may use all.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    fn printed(&self) -> String {
        ["output.log", "error.log"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.work_dir.join(name)).ok())
            .collect()
    }

    /// Signals the server to stop, then kills what is left of its group. No caller could handle an
    /// error here, so errors are ignored.
    fn end(&mut self) {
        os::signals::send(&self.stop.signal, &[self.child.id()]);
        let begun_us = os::clock::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if os::clock::now() - begun_us > self.stop.within_ms * 1000 {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.group.kill();
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Once it has ended and been waited for, its number may belong to another process.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
        let _ = fs::remove_dir_all(&self.work_dir);
    }
}

/// The files of a server under one of its settings, by name, as filled in for a server in
/// `work_dir` that listens on `port`; and the command that starts it, by `env` if its file adds
/// variables to the environment.
///
/// # Errors
/// A placeholder without a value.
pub fn configuration(
    installed: &Installed,
    setting: &Setting,
    launch: &Launch,
    (port, work_dir): (u16, &Path),
) -> Result<(Values, Vec<String>), String> {
    let description = &installed.description;
    let values = values(description, setting, launch, port, work_dir)?;
    let files = description.files.iter().map(|file| {
        let text = install::fill(&file.text, &values)?;
        Ok((file.path.clone(), text))
    });
    let variables = environment(description, &values)?;
    let mut command: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !command.is_empty() {
        command.insert(0, "env".into());
    }
    command.extend(install::fill_all(&description.start.words(), &values)?);
    Ok((files.collect::<Result<_, String>>()?, command))
}

/// The variables that are added to a server's environment.
fn environment(description: &ServerDescription, values: &Values) -> Result<Values, String> {
    let filled =
        |(name, value): (&String, &String)| Ok((name.clone(), install::fill(value, values)?));
    description.start.environment.iter().map(filled).collect()
}

/// The command and the files of a server under one of its settings, for people: filled in as for a
/// start, but with a stand-in for its own port and folder.
pub fn configuration_text(installed: &Installed, setting: &Setting, launch: &Launch) -> String {
    let stand_ins = (8080, Path::new("/its/own/folder"));
    match configuration(installed, setting, launch, stand_ins) {
        Ok((files, command)) => {
            let files = files.iter().filter(|(_, text)| !text.trim().is_empty());
            let files = files.map(|(name, text)| format!("\n# {name}\n{}\n", text.trim_end()));
            command.join(" ") + "\n" + &files.collect::<String>()
        }
        Err(why) => why,
    }
}

/// The values of all placeholders for a server in `work_dir` that listens on `port`.
pub(crate) fn values(
    description: &ServerDescription,
    setting: &Setting,
    launch: &Launch,
    port: u16,
    work_dir: &Path,
) -> Result<Values, String> {
    // A placeholder without a value in this launch is empty, not an error.
    let mut values: Values = PLACES.map(|name| (name.to_owned(), String::new())).into();
    // A stand-in; a start chooses a port that is free.
    values.insert("application_port".into(), (u32::from(port) + 1).to_string());
    values.extend(launch.source_tree.values(description));
    values.extend(launch.workload.clone());
    values.insert("listen".into(), launch.place.listen.to_string());
    values.insert("port".into(), port.to_string());
    values.insert("root".into(), launch.root.display().to_string());
    values.insert("work_dir".into(), work_dir.display().to_string());
    values.insert("workers".into(), launch.workers.to_string());
    let pins = match launch.affinity {
        Affinity::None => "never",
        Affinity::Set => "auto",
        Affinity::Workers => "always",
    };
    values.insert("pins".into(), pins.into());
    let mut knobs = description.knob_values(setting);
    for value in knobs.values_mut() {
        *value = install::fill(value, &values)?;
    }
    values.extend(knobs);
    Ok(values)
}

/// Writes the configuration into a fresh working directory.
fn prepare(
    description: &ServerDescription,
    values: &Values,
    work_dir: &Path,
) -> Result<(), String> {
    let explain = |why| format!("{}: {why}", work_dir.display());
    fs::create_dir_all(work_dir).map_err(explain)?;
    for file in &description.files {
        let text = install::fill(&file.text, values)?;
        fs::write(work_dir.join(&file.path), text).map_err(explain)?;
    }
    Ok(())
}

/// Starts the application behind a server, at a port that is free, with the server's values of
/// placeholders, which know that port.
fn start_application(
    application: &Application,
    launch: &Launch,
    work_dir: &Path,
    values: impl FnOnce(&Launch) -> Result<Values, String>,
) -> Result<(Values, Option<RunningApplication>), StartError> {
    let network = launch.place.network.as_deref();
    let port = port::free(Ipv4Addr::LOCALHOST, network).map_err(StartError::NotStarted)?;
    let mut launch = launch.clone();
    launch.workload.insert("application_port".into(), port.to_string());
    let values = values(&launch).map_err(StartError::NotStarted)?;
    let started = RunningApplication::start(application, &values, &launch, (port, work_dir));
    let started = started.map_err(|printed| StartError::DoesNotServe {
        what: "the application behind it does not listen".into(),
        port_is_taken: port::is_taken(port, Ipv4Addr::LOCALHOST, network),
        printed,
    })?;
    Ok((values, Some(started)))
}

/// A process that is to be started: the server itself, or the application behind it.
pub(crate) struct Part {
    pub(crate) command: Vec<String>,
    pub(crate) environment: Values,
    /// The processors it may use; all that this process may use, if none is named.
    pub(crate) cpus: Vec<usize>,
    /// The group that it is to enter, which is empty yet.
    pub(crate) group: Group,
    /// The file in the working directory for what it prints.
    pub(crate) log: &'static str,
}

impl Part {
    fn server(
        description: &ServerDescription,
        values: &Values,
        launch: &Launch,
    ) -> Result<Self, String> {
        let mut group = Group::create_in(&launch.place.enclosing);
        if let Some(bytes) = launch.memory_bytes_max {
            group.limit_memory(bytes)?;
        }
        Ok(Self {
            command: install::fill_all(&description.start.words(), values)?,
            environment: environment(description, values)?,
            cpus: launch.cpus.clone(),
            group,
            log: "output.log",
        })
    }
}

/// Starts its first process, behind the words of `prefix`, and the guard that kills it and its group
/// if this process is killed. It becomes the server once it is released: see [`standing_by`].
pub(crate) fn begin(
    part: Part,
    prefix: &[String],
    work_dir: &Path,
) -> Result<(Group, Child, Guard), String> {
    let Part { command, environment, cpus, mut group, log } = part;
    let command = process::pinned(&cpus, &command);
    let log = work_dir.join(log);
    let log = File::create(&log).map_err(|why| format!("{}: {why}", log.display()))?;
    let error_log = log.try_clone().map_err(|why| why.to_string())?;
    let mut shell = standing_by(&group.entrances(), prefix.iter().chain(&command));
    shell.envs(environment).current_dir(work_dir).stdout(log).stderr(error_log);
    let child = shell.spawn().map_err(|why| format!("sh: {why}"))?;
    group.set_root(child.id());
    let guard = guard(&group, child.id()).map_err(|why| format!("sh: {why}"))?;
    Ok((group, child, guard))
}

/// The number of descriptors that a server may have open at least, where the machine allows it.
const DESCRIPTORS: &str = "65536";

/// A shell that enters control groups, waits for a word and then becomes the command: so not even
/// the server's first instruction runs outside of its groups, and if this process is killed before
/// a guard exists, the server never starts.
fn standing_by<'a>(entrances: &str, command: impl Iterator<Item = &'a String>) -> Command {
    // Servers that keep files open need more descriptors than files: all servers get this many, or
    // keep their limit if it is higher. Servers that set their own limit find the hard limit
    // unchanged; the soft limit is not raised to it for them, for some allocate a table as long as
    // their limit.
    const ENTER: &str = r#"
        for group in $1; do echo 0 > "$group" || exit; done
        if [ "$(ulimit -Sn)" != unlimited ] && [ "$(ulimit -Sn)" -lt "$2" ]; then
            ulimit -Sn "$2" 2> /dev/null || ulimit -n "$2" 2> /dev/null ||
                ulimit -Sn "$(ulimit -Hn)"
        fi
        shift 2
        read -r word || exit
        exec "$@" < /dev/null"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", ENTER, "sh", entrances, DESCRIPTORS]).args(command).stdin(Stdio::piped());
    // Apache's prefork ends by a signal to its whole process group, which must not be ours.
    shell.process_group(0);
    // This process may have blocked SIGINT to wait for Ctrl-C: the server must get the signal that
    // stops it.
    os::signals::restore_in_child(&mut shell);
    shell
}

/// Sends the word that a shell waits for before it becomes the server. A shell that does not read
/// it has ended, and what it printed says why.
pub(crate) fn release(shell: &mut Child) {
    let _ = shell.stdin.take().map(|mut word| word.write_all(b"\n"));
}

/// Makes a guard that kills the first process, its process group and the control group, and removes
/// the group.
fn guard(group: &Group, pid: u32) -> io::Result<Guard> {
    // The kernel lets go of the last process a moment after it is gone.
    const KILL: &str = r#"
        kill -s KILL -- "-$1" "$1"
        for attempt in $(seq 100); do
            kill -s KILL $(cat "$2/cgroup.procs")
            sleep 0.2
            rmdir "$2" && break
            test -d "$2" || break
        done
        rmdir "$3""#;
    let folder = group.folder().map_or("/nonexistent".as_ref(), Path::as_os_str);
    let memory = group.memory_folder().map_or("/nonexistent".as_ref(), Path::as_os_str);
    Guard::new(KILL, [pid.to_string().as_ref(), folder, memory])
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::*;

    /// A lab that is killed between the start of the shell and that of its guard leaves nothing.
    #[test]
    fn nothing_starts_before_it_is_told_to() {
        let name = format!("ropewalk-lab-standing-by-{}", std::process::id());
        let started = std::env::temp_dir().join(name);
        let command = ["touch".to_owned(), started.display().to_string()];
        let shell = || standing_by("", command.iter()).spawn().expect("there is a shell");

        let mut abandoned = shell();
        drop(abandoned.stdin.take()); // as the kernel does when we are killed
        assert!(!abandoned.wait().expect("it is our child").success());
        assert!(!started.exists());

        let mut told = shell();
        release(&mut told);
        assert!(told.wait().expect("it is our child").success());
        assert!(fs::remove_file(&started).is_ok());
    }

    /// How many descriptors a server may open, and may set as its limit, if it is to have a
    /// thousand and is started by a shell that sets `limits`.
    fn limits(limits: &str) -> String {
        let said = ["sh", "-c", "ulimit -Sn; ulimit -Hn"].map(str::to_owned);
        let shell = standing_by("", said.iter());
        let few = |word: &OsStr| {
            if word == DESCRIPTORS { OsString::from("1000") } else { word.to_owned() }
        };
        let mut limited = Command::new("sh");
        let script = format!("{limits} || exit; exec \"$@\"");
        limited.args(["-c", &script, "sh"]).arg(shell.get_program());
        limited.args(shell.get_args().map(few)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = limited.spawn().expect("there is a shell");
        release(&mut shell);
        let output = shell.wait_with_output().expect("it is our child");
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_server_may_open_no_less_than_before() {
        assert_eq!(limits("ulimit -Sn 500 && ulimit -Hn 1500"), "1000 1500");
        assert_eq!(limits("ulimit -Sn 1200 && ulimit -Hn 1500"), "1200 1500");
        // Root may raise both.
        let found = limits("ulimit -n 800");
        assert!(["800 800", "1000 1000"].contains(&found.as_str()), "{found}");
    }

    /// A server whose SIGTERM is blocked would have to be killed, and lose what it does at its end.
    #[test]
    fn a_server_receives_signals_that_are_blocked_here() {
        use os::signals::{Signal, SignalDescriptor};
        let blocked = thread::spawn(|| {
            let _deaf = SignalDescriptor::new(&[Signal::Terminate, Signal::Interrupt]);
            let command = ["grep", "SigBlk", "/proc/self/status"].map(str::to_owned);
            let mut shell = standing_by("", command.iter());
            let mut shell = shell.stdout(Stdio::piped()).spawn().expect("there is a shell");
            release(&mut shell);
            let output = shell.wait_with_output().expect("it is our child");
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        let blocked = blocked.join().expect("nothing failed in it");
        assert_eq!(blocked.split_whitespace().last(), Some("0000000000000000"), "{blocked}");
    }
}
