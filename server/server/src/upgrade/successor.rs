//! The predecessor's side: it starts its successor, and gives it what it has.

use std::env;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use os::errors::Cause;
use os::passing;
use os::process::Identity;
use os::socket::{Readiness, wait_ready};
use session::Limits;

use super::{
    ALL_LISTENERS, FAILED, FORM, LISTENER, MESSAGE_BYTES_MAX, Message, READY, SETTING, VARIABLE,
    identity, left_ms, receive,
};
use crate::passage::{FarEnd, Passage};

/// How long a successor may take until it serves.
const READY_US: u64 = 10_000_000;

/// The pause after which a descriptor is passed again, of which too many are on their way.
const PAUSE_MS: u64 = 5;

/// A program that has come in the place of this one.
pub(crate) struct Successor {
    child: Child,
    socket: OwnedFd,
    takes_connections: bool,
    /// A copy of its own end of the socket.
    theirs: Option<OwnedFd>,
    /// What it serves, where and how.
    pub(crate) description: String,
}

/// Why a program has not come in the place of this one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What it has said, a line each.
    pub(crate) lines: Vec<String>,
    /// 2 after a mistake of the user, else 1.
    pub(crate) status: u8,
}

impl Refusal {
    fn new(line: String) -> Self {
        Self { lines: vec![line], status: 1 }
    }
}

/// The start of a successor, which can be cancelled from another thread.
#[derive(Default)]
pub(crate) struct Launch(Mutex<Stage>);

/// How far a start has come.
#[derive(Clone, Copy, Default)]
enum Stage {
    /// There is no process that could be ended.
    #[default]
    NoProcess,
    /// This one has been started, and not waited for.
    Process(u32),
    Cancelled,
}

impl Launch {
    /// Ends the process that was started, or will have been.
    pub(crate) fn cancel(&self) {
        let mut stage = self.stage();
        if let Stage::Process(process) = *stage {
            os::signals::send("KILL", &[process]);
        }
        *stage = Stage::Cancelled;
    }

    /// Notes the process.
    fn began(&self, child: &mut Child) {
        let mut stage = self.stage();
        match *stage {
            Stage::Cancelled => drop(child.kill()),
            _ => *stage = Stage::Process(child.id()),
        }
    }

    /// Notes that the process is waited for: afterwards another may have its number.
    fn is_waited_for(&self) {
        let mut stage = self.stage();
        if let Stage::Process(_) = *stage {
            *stage = Stage::NoProcess;
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Successor {
    /// Starts a program with the arguments of this one, and waits until it serves. `former` are the
    /// servers in whose place this one has come, and `settings` those of the machine that it is to
    /// put back.
    ///
    /// # Errors
    /// It does not serve in time. It has ended then.
    pub(crate) fn start(
        program: &Path,
        former: &[Identity],
        listeners: &[(String, OwnedFd)],
        settings: &[String],
        launch: &Launch,
    ) -> Result<Self, Refusal> {
        let failed = |why| Refusal::new(format!("cannot start {}: {why}", program.display()));
        let (ours, mut child, mut said) = spawn(program, former).map_err(failed)?;
        launch.began(&mut child);
        let until_us = os::clock::now() + READY_US;
        let answer = pass(ours.as_fd(), listeners, settings, until_us)
            .and_then(|()| receive(ours.as_fd(), until_us))
            .or_else(|why| match why.kind() {
                // It has ended before it has taken all.
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(None),
                _ => Err(why),
            });
        let (status, line) = match answer {
            Ok(Some(Message { kind: READY, text, descriptor })) => {
                let (sign, description) = text.split_first().unwrap_or((&b'-', &[]));
                return Ok(Self {
                    child,
                    socket: ours,
                    takes_connections: *sign == b'+',
                    theirs: descriptor,
                    description: String::from_utf8_lossy(description).into_owned(),
                });
            }
            Ok(Some(Message { kind: FAILED, text, .. })) => {
                let (digit, why) = text.split_first().unwrap_or((&b'1', &[]));
                let status = if *digit == b'2' { 2 } else { 1 };
                (status, String::from_utf8_lossy(why).into_owned())
            }
            Ok(None) => {
                // Its end is near, but its exit status may say more.
                let _ = wait_ready(said.as_fd(), Readiness::Readable, 1000);
                (1, String::new())
            }
            Err(why) if why.kind() == io::ErrorKind::TimedOut => {
                (1, format!("{} does not serve in time", program.display()))
            }
            _ => (1, format!("{} is no server that can follow this one", program.display())),
        };
        launch.is_waited_for();
        Err(refusal(&mut child, &mut said, line, status))
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Has it end as after SIGTERM: this server is to end, and was followed too late.
    pub(crate) fn end(self) {
        os::signals::send("TERM", &[self.process()]);
    }

    /// Begins to pass connections on, of which there are `open`; none if they are not taken. Those
    /// that come back have these `limits`.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn passage(
        self,
        open: Arc<AtomicUsize>,
        limits: Limits,
    ) -> io::Result<Option<Passage>> {
        if !self.takes_connections {
            return Ok(None);
        }
        // Without them all goes on, but nothing comes back.
        let both = self.theirs.zip(os::process::end_of(&self.child).ok());
        let far_end = both.map(|(socket, ended)| FarEnd { socket, ended, limits });
        Passage::start(vec![self.socket], far_end, open, || ()).map(Some)
    }
}

/// Starts the program. Returns this end of the socket, and what it says.
fn spawn(program: &Path, former: &[Identity]) -> io::Result<(OwnedFd, Child, PipeReader)> {
    let (theirs, ours) = passing::message_pair(16 * MESSAGE_BYTES_MAX)?;
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    let (said, says) = io::pipe()?;
    let mut command = Command::new(program);
    let numbers = [theirs.as_raw_fd(), errors.as_raw_fd()];
    let former: String = former.iter().map(|it| format!(" {}", it.number)).collect();
    let (own, identity) = (std::process::id(), identity(numbers[0])?);
    let given = format!("{FORM} {own} {} {identity} {}{former}", numbers[0], numbers[1]);
    command.args(env::args_os().skip(1)).env(VARIABLE, given).stderr(says);
    os::inheritance::pass_on(&mut command, vec![theirs, errors]);
    let child = command.spawn()?;
    Ok((ours, child, said))
}

/// Ends a process that has not come in the place of this one, and says why.
fn refusal(child: &mut Child, said: &mut PipeReader, line: String, status: u8) -> Refusal {
    let ended = match child.try_wait() {
        Ok(None) => {
            let _ = child.kill(); // it has just been there
            child.wait().ok()
        }
        ended => ended.ok().flatten(),
    };
    let mut text = String::new();
    // A process that it has started may still have the other end.
    if wait_ready(said.as_fd(), Readiness::Readable, 0).unwrap_or(false) {
        let mut bytes = vec![0; 16 * MESSAGE_BYTES_MAX];
        let count = said.read(&mut bytes).unwrap_or(0);
        text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    }
    let own = "ropewalk: ";
    let lines = text.lines().map(|line| line.strip_prefix(own).unwrap_or(line).to_owned());
    let mut lines: Vec<String> = lines.chain([line]).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        lines.push(format!("the new program has ended: {}", ended.unwrap_or_default()));
    }
    let is_mistake = ended.and_then(|ended| ended.code()) == Some(2);
    Refusal { lines, status: if is_mistake { 2 } else { status } }
}

fn pass(
    socket: BorrowedFd<'_>,
    listeners: &[(String, OwnedFd)],
    settings: &[String],
    until_us: u64,
) -> io::Result<()> {
    for (text, listener) in listeners {
        let message = [&[LISTENER], text.as_bytes()].concat();
        send(socket, &message, Some(listener.as_fd()), until_us)?;
    }
    for text in settings {
        send(socket, &[&[SETTING], text.as_bytes()].concat(), None, until_us)?;
    }
    send(socket, &[ALL_LISTENERS], None, until_us)
}

/// Sends a message, and waits for room.
fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    until_us: u64,
) -> io::Result<()> {
    loop {
        match passing::send_with(socket, message, descriptor) {
            Ok(_) => return Ok(()),
            Err(_) if os::clock::now() >= until_us => return Err(io::ErrorKind::TimedOut.into()),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                wait_ready(socket, Readiness::Writable, left_ms(until_us))?;
            }
            Err(why) if Cause::from_error(&why) == Cause::TooManyPassed => {
                // Nothing is to be read but the end.
                wait_ready(socket, Readiness::Readable, PAUSE_MS)?;
            }
            Err(why) => return Err(why),
        }
    }
}
