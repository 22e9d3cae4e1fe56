//! One place: a worker process, and the processes that replace it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::{CHANGE, CHANGED, FAILED, LEFT, READY};
use crate::config::WorkerProgram;

/// Everything that a worker process needs to start, except its listeners.
pub(crate) struct WorkerCommand {
    pub(crate) program: WorkerProgram,
    /// The machine as the server saw it when it started.
    pub(crate) machine: String,
    /// The effective configuration.
    pub(crate) configuration: OwnedFd,
    /// The file of the ledger.
    pub(crate) ledger: OwnedFd,
    /// The socket of the spawner, if a route leads to programs.
    pub(crate) spawner: Option<OwnedFd>,
}

/// A worker process that has been started.
pub(super) struct Process {
    child: Child,
    pub(super) control: UnixStream,
    /// Whether it has said that it accepts no more.
    has_left: bool,
    /// How many of the orders to leave that it was sent it has not said that it goes by.
    leaves_due: usize,
    /// How many of the changes that it was told of it has not said that it goes by.
    changes_due: usize,
    /// The reason that it has sent for its end.
    reason: Option<Vec<u8>>,
    /// Whether it has closed its end of the socket, or is not heard any more.
    pub(super) is_silent: bool,
    /// When its end was noticed.
    ended_at: Option<u64>,
}

/// How long processes that a worker process has forked may outlive it: they are killed with it, but
/// may wait for a disk.
const DESCENDANTS_TIMEOUT_US: u64 = 5_000_000;

/// How long a process may take to end after it has failed to start, before it is killed, in
/// milliseconds.
const END_TIMEOUT_MS: u64 = 5000;

/// The longest reason for the end of a process, and what is taken of its messages at a time.
const REASON_BYTES_MAX: usize = 4096;

impl WorkerCommand {
    /// Starts the worker process of a place with these sets of listeners. Log lines and reports are
    /// sent by `uplink`; by `passage` connections come and go.
    pub(super) fn start(
        &self,
        place: usize,
        uplink: &OwnedFd,
        passage: &OwnedFd,
        listeners: &[Vec<OwnedFd>],
    ) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut passed = vec![
            vec![OwnedFd::from(theirs)],
            vec![self.configuration.try_clone()?],
            vec![self.ledger.try_clone()?],
            vec![uplink.try_clone()?],
            vec![passage.try_clone()?],
        ];
        let spawner = self.spawner.iter().map(std::slice::from_ref);
        for set in spawner.chain(listeners.iter().map(Vec::as_slice)) {
            passed.push(set.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?);
        }
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments);
        command.arg(place.to_string()).arg(&self.machine);
        command.args(passed.iter().map(|descriptors| {
            let numbers = descriptors.iter().map(|it| it.as_raw_fd().to_string());
            numbers.collect::<Vec<_>>().join(",")
        }));
        // Ctrl-C is for the supervisor, which orders the worker processes to stop.
        command.process_group(0).stdin(Stdio::null());
        os::inheritance::pass_on(&mut command, passed.into_iter().flatten().collect());
        let child = command.spawn()?;
        ours.set_nonblocking(true)?;
        Ok(Process::new(child, ours))
    }
}

impl Process {
    fn new(child: Child, control: UnixStream) -> Self {
        let (has_left, leaves_due, changes_due) = (false, 0, 0);
        let (reason, is_silent, ended_at) = (None, false, None);
        Self { child, control, has_left, leaves_due, changes_due, reason, is_silent, ended_at }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process serves.
    pub(super) fn wait_ready(&mut self, timeout: Duration) -> Result<(), String> {
        let wait = |stream: &UnixStream| {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(timeout))
        };
        wait(&self.control).map_err(|why| why.to_string())?;
        let mut received = Vec::new();
        // `read` would fail if this process is stopped and continued meanwhile (signal(7)).
        match (&mut self.control).take(1).read_to_end(&mut received) {
            Ok(_) if received == [READY] => {
                self.control.set_nonblocking(true).map_err(|why| why.to_string())
            }
            Ok(_) => {
                let mut more = (&mut self.control).take(1 + REASON_BYTES_MAX as u64);
                let _ = more.read_to_end(&mut received); // else without a reason
                received.into_iter().for_each(|byte| self.take(byte));
                let status = os::process::end_within(&mut self.child, END_TIMEOUT_MS);
                Err(status.map_or_else(|why| why.to_string(), |status| self.reason(status)))
            }
            Err(why) => Err(format!("it does not say that it is ready: {why}")),
        }
    }

    pub(super) fn send(&mut self, order: u8) {
        // This fails only if the process has ended, which is noticed elsewhere.
        let _ = self.control.write(&[order]);
    }

    /// Has the process leave, by one of the orders for that.
    pub(super) fn leave(&mut self, order: u8) {
        self.leaves_due += 1;
        self.send(order);
    }

    /// Has the process go on by another configuration, whose text this is.
    pub(super) fn change(&mut self, text: &OwnedFd) {
        self.changes_due += 1;
        // As for an order.
        let _ = os::passing::send_with(self.control.as_fd(), &[CHANGE], Some(text.as_fd()));
    }

    /// Whether it goes by the last configuration that it was told of.
    pub(super) fn has_changed(&self) -> bool {
        self.changes_due == 0
    }

    /// Reads some of what the process has sent.
    pub(super) fn receive(&mut self) {
        if self.is_silent {
            return;
        }
        let mut buffer = [0; REASON_BYTES_MAX];
        match self.control.read(&mut buffer) {
            Ok(0) => self.is_silent = true,
            Ok(count) => buffer[..count].iter().for_each(|byte| self.take(*byte)),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_silent = true,
        }
    }

    /// Takes a byte that the process has sent. It is killed for one that is no message, or belongs
    /// to no reason that is of use.
    fn take(&mut self, byte: u8) {
        match &mut self.reason {
            _ if self.is_silent => return,
            Some(reason) if reason.len() < REASON_BYTES_MAX => return reason.push(byte),
            Some(_) => {}
            None => match byte {
                READY => return,
                LEFT => {
                    self.has_left = true;
                    return self.leaves_due = self.leaves_due.saturating_sub(1);
                }
                CHANGED if self.changes_due > 0 => return self.changes_due -= 1,
                FAILED => return self.reason = Some(Vec::new()),
                _ => self.reason = Some(b"it has sent what is no message".into()),
            },
        }
        self.is_silent = true;
        self.kill();
    }

    /// Whether it has said that it accepts no more, and knows from the last order to leave whether
    /// its connections are taken.
    pub(super) fn has_left(&self) -> bool {
        self.has_left && self.leaves_due == 0
    }

    /// The exit status, once the process and all processes that it forked have ended: those count
    /// in the same cells, and hold its end of the socket.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.receive();
        let now = os::clock::now();
        let ended_at = *self.ended_at.get_or_insert(now);
        (self.is_silent || now >= ended_at + DESCENDANTS_TIMEOUT_US).then_some(status)
    }

    /// The reason that the process sent before it ended.
    pub(super) fn failure_reason(&self) -> Option<String> {
        let reason = self.reason.as_deref()?;
        Some(String::from_utf8_lossy(reason).into_owned())
    }

    /// Why the process ended: the reason that it sent, or its status.
    pub(super) fn reason(&self, status: ExitStatus) -> String {
        self.failure_reason().unwrap_or_else(|| match status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("ended with status {}", status.code().unwrap_or_default()),
        })
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill(); // it fails if the process has ended already
    }

    /// Kills the process, and waits for its end.
    pub(super) fn kill_and_wait(mut self) {
        self.kill();
        let _ = self.child.wait(); // it is a child of this process
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Checks what is known of a process that has sent this, and whether it was killed for it.
    fn check(sent: &[u8], has_left: bool, reason: Option<&str>, is_killed: bool) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let mut process = Process::new(child, ours);
        let bytes = sent.to_vec();
        // Who has said too much is not heard to the end.
        let sends = thread::spawn(move || drop(theirs.write_all(&bytes)));
        testkit::wait_until(|| {
            process.receive();
            process.is_silent
        });
        let mut ends = || process.child.try_wait().unwrap().is_some();
        let was_killed = if is_killed { testkit::comes_true(ends) } else { ends() };
        let said = (process.has_left(), process.failure_reason());
        process.kill_and_wait();
        sends.join().unwrap();
        let start = sent[..sent.len().min(20)].escape_ascii();
        assert_eq!(
            (said.0, said.1.as_deref(), was_killed),
            (has_left, reason, is_killed),
            "{start}"
        );
    }

    #[test]
    fn what_a_process_says_is_taken_up_to_a_bound() {
        check(&[READY, LEFT, LEFT], true, None, false);
        check(&[&[READY, LEFT, FAILED], &b"no disk"[..]].concat(), true, Some("no disk"), false);
        check(&[READY, b'?', LEFT], false, Some("it has sent what is no message"), true);
        check(&[READY, CHANGED], false, Some("it has sent what is no message"), true);
        let much = vec![b'x'; 1 << 20];
        let longest = String::from_utf8(much[..REASON_BYTES_MAX].to_vec()).unwrap();
        check(&[&[FAILED], &much[..]].concat(), false, Some(&longest), true);
    }

    #[test]
    fn a_process_has_left_when_it_goes_by_the_last_order_to_leave() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let mut process = Process::new(child, ours);
        let mut has_left = Vec::new();
        for is_order in [true, false, true, true, false, false] {
            match is_order {
                true => process.leave(b'o'),
                false => theirs.write_all(&[LEFT]).unwrap(),
            }
            process.receive();
            has_left.push(process.has_left());
        }
        process.kill_and_wait();
        assert_eq!(has_left, [false, true, false, false, false, true]);
    }

    #[test]
    fn a_process_that_says_more_and_more_holds_nobody_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(&[LEFT; 50_000]).unwrap();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let mut process = Process::new(child, ours);
        process.receive();
        let left = (&process.control).read(&mut [0]).map_err(|why| why.kind());
        process.kill_and_wait();
        assert_eq!(left, Ok(1), "some is taken another time");
    }
}
