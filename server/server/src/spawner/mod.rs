//! The spawner: the process that starts CGI programs for all workers, which need no right to start
//! anything themselves.
//!
//! It is this program, started by exec before the server has listeners or threads that serve, as
//! worker processes and helper processes are, and not by fork alone: it has nothing of the server
//! in its memory or its descriptors, and is small, so that programs start quickly. Workers send it
//! a message for each program, with one end of a pair of sockets, on a socket that they share and
//! that keeps messages apart. If the spawner dies the server ends what it has left, and starts
//! another at the same socket, in which the requests wait meanwhile.

mod folders;
mod groups;
mod process;
mod running;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use os::socket::Readiness;
use upstream::{START_BYTES_MAX, StartPrograms};

use crate::config::{Config, ErrorLogging, Settings, WorkerProgram};
use crate::report;

use folders::{FolderSettings, folders};
use groups::Groups;

pub(crate) use process::run;

/// The first argument of a spawner; worker processes have their place number there.
pub(crate) const NAME: &str = "spawner";

/// The spawner of a server.
pub(crate) struct Spawner {
    program: WorkerProgram,
    configuration: OwnedFd,
    /// The end that workers send at.
    sender: OwnedFd,
    /// The end at which the spawner receives, kept for the next one; none when there will be none.
    receiver: Option<OwnedFd>,
    groups_file: OwnedFd,
    groups: Groups,
    child: Child,
}

/// All that a spawner goes by. Workers name a program by the place of its host in the list, and the
/// host says where it is looked for: a spawner does not fit another site.
#[derive(PartialEq, Eq)]
pub(crate) struct SpawnerSettings {
    folders: Vec<FolderSettings>,
    /// None if there is to be no spawner.
    errors: Option<ErrorLogging>,
}

impl SpawnerSettings {
    pub(crate) fn of(settings: &Settings) -> Self {
        let errors = is_needed(settings).then_some(settings.log.errors);
        Self { folders: folders(&settings.hosts).collect(), errors }
    }
}

/// Whether a route leads to CGI programs.
pub(crate) fn is_needed(settings: &Settings) -> bool {
    folders(&settings.hosts).next().is_some()
}

/// Checks that the directories are there that are named: that of the root may be made later.
///
/// # Errors
/// The first that is not there, with its name.
pub(crate) fn check_folders(settings: &Settings) -> io::Result<()> {
    let settings = folders(&settings.hosts).map(|it| it.setting);
    for folder in settings.filter(|it| !it.as_os_str().is_empty()) {
        let why = match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => io::ErrorKind::NotADirectory.into(),
            Err(why) => why,
        };
        return Err(io::Error::new(why.kind(), format!("{folder:?}: {why}")));
    }
    Ok(())
}

/// The function by which workers have programs started.
pub(crate) fn starter(sender: OwnedFd) -> StartPrograms {
    Arc::new(move |message| {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?; // and not the end that the program has
        os::passing::send_with(sender.as_fd(), message, Some(theirs.as_fd()))?;
        Ok(ours.into())
    })
}

impl Spawner {
    /// Starts the spawner; none if no route leads to programs.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(config: &Config) -> io::Result<Option<Self>> {
        if !is_needed(&config.settings) {
            return Ok(None);
        }
        let configuration = os::shared_memory::create_text(&config.show())?;
        let (receiver, sender) = os::passing::message_pair(START_BYTES_MAX)?;
        let program = config.worker_program.clone();
        let (groups_file, groups) = Groups::create()?;
        let child = start(&program, [&receiver, &configuration, &groups_file])?;
        let receiver = Some(receiver);
        Ok(Some(Self { program, configuration, sender, receiver, groups_file, groups, child }))
    }

    /// A copy of the end that workers send at.
    pub(crate) fn sender(&self) -> io::Result<OwnedFd> {
        self.sender.try_clone()
    }

    /// Starts another if this one has died. Called about once a second, it does so no more often.
    pub(crate) fn replace_if_ended(&mut self) {
        let Some(receiver) = &self.receiver else { return };
        let Ok(Some(status)) = self.child.try_wait() else { return };
        report(&format!(
            "the spawner of CGI programs (pid {}) has died: {status}; another is started",
            self.child.id()
        ));
        self.groups.kill_all();
        match start(&self.program, [receiver, &self.configuration, &self.groups_file]) {
            Ok(child) => self.child = child,
            Err(why) => report(&format!("the spawner of CGI programs cannot be started: {why}")),
        }
    }

    /// Has all programs end, and then the spawner.
    pub(crate) fn begin_to_end(&mut self) {
        self.receiver = None; // so that only the spawner has it
        // Whatever process has copies of this end: the spawner gets the end of what is sent.
        let _ = os::socket::shutdown_write(self.sender.as_fd());
    }

    /// Whether all programs have ended, and the spawner.
    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(0)
    }

    fn ends_within(&self, ms: u64) -> bool {
        // It closes its end by ending.
        matches!(os::socket::wait_ready(self.sender.as_fd(), Readiness::Readable, ms), Ok(true))
    }

    /// Has all programs end, and waits for that, but not beyond `until_us`.
    pub(crate) fn end(mut self, until_us: u64) {
        self.begin_to_end();
        match self.ends_within(until_us.saturating_sub(os::clock::now()).div_ceil(1000)) {
            true => {
                let _ = self.child.wait();
            }
            false => {
                report("CGI programs still run after SIGKILL: the server ends without them");
                let _ = self.child.kill();
            }
        }
    }
}

fn start(program: &WorkerProgram, passed: [&OwnedFd; 3]) -> io::Result<Child> {
    let passed = passed.into_iter().map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>()?;
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).arg(NAME);
    command.args(passed.iter().map(|descriptor| descriptor.as_raw_fd().to_string()));
    // Ctrl-C is for the server; the socket closes when the server ends.
    command.process_group(0).stdin(Stdio::null());
    os::inheritance::pass_on(&mut command, passed);
    command.spawn()
}
