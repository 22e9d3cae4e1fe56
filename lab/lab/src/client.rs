//! Load generators as processes: started on one processor, ended in time, and measured for what
//! they used. The program that measures the cache is started and asked in the same way.
//!
//! The processor time is that of the process itself, from the kernel's account of children that
//! have been waited for; so it is right only while one thread of this process waits for children at
//! a time.

use crate::process;
use load::milestone::Milestone;
use os::socket::{Readiness, wait_ready};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// How often it is looked whether a generator has ended: rarely enough not to disturb it.
const LOOK: Duration = Duration::from_millis(20);

/// The longest line that is read; those of the programs that are asked have some hundred bytes.
const LINE_BYTES_MAX: usize = 1 << 16;

/// A generator that runs; killed when dropped.
#[derive(Debug)]
pub struct Client {
    child: Child,
    program: String,
}

/// A generator that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Everything it printed, to either stream.
    pub output: String,
    /// How it ended.
    pub status: ExitStatus,
    /// The processor time it used, from its start to its end, in user and in system mode; 0 where
    /// its end came too early.
    pub cpu: Duration,
}

/// Why a generator did not do what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It ended before.
    #[error("{}", .0.failure_reason())]
    Ended(Finished),
    /// It did something else, or nothing in time; or it cannot be waited for.
    #[error("{0}")]
    Astray(String),
}

impl Client {
    /// Starts `command` on one processor. The command may print no more than fits a pipe (64 KiB).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(cpu: usize, command: &[String]) -> Result<Self, String> {
        Self::start_in(&[], &[cpu], command)
    }

    /// Starts `command` on these processors, behind `prefix`, which moves it to where it is to run:
    /// into a network, for instance.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_in(prefix: &[String], cpus: &[usize], command: &[String]) -> Result<Self, String> {
        Self::start_with(Stdio::null(), prefix, cpus, command)
    }

    /// Starts `command` as [`Client::start_in`] does, with a pipe to its standard input: a command
    /// that prints `ready` and waits for a line that says what comes next.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_waiting(
        prefix: &[String],
        cpus: &[usize],
        command: &[String],
    ) -> Result<Self, String> {
        Self::start_with(Stdio::piped(), prefix, cpus, command)
    }

    fn start_with(
        stdin: Stdio,
        prefix: &[String],
        cpus: &[usize],
        command: &[String],
    ) -> Result<Self, String> {
        let pinned = [prefix, &process::pinned(cpus, command)].concat();
        let mut started = Command::new(&pinned[0]);
        started.args(&pinned[1..]).stdin(stdin);
        started.stdout(Stdio::piped()).stderr(Stdio::piped());
        os::signals::restore_in_child(&mut started);
        // Ctrl-C is sent to a terminal's whole process group: it must not cut a window short, nor
        // may a generator go on when this process has ended.
        started.process_group(0);
        os::signals::kill_with_parent(&mut started);
        let child = started.spawn().map_err(|why| format!("{}: {why}", pinned[0]))?;
        Ok(Self { child, program: command.first().cloned().unwrap_or_default() })
    }

    /// Waits until the generator prints that it is ready.
    ///
    /// # Errors
    /// When the generator ends before that, with the last lines of its output, or prints nothing
    /// `within` this time: the caller then drops it, which kills it.
    pub fn await_ready(&mut self, within: Duration) -> Result<(), ClientError> {
        self.await_line(Milestone::Ready, "ready", within)
    }

    /// Waits until the generator prints that it has measured. It then keeps the connections that it
    /// has until it gets another line, or [`Client::finish`] closes its input.
    ///
    /// # Errors
    /// The errors of [`Client::await_ready`].
    pub fn await_measured(&mut self, within: Duration) -> Result<(), ClientError> {
        self.await_line(Milestone::Measured, "done", within)
    }

    fn await_line(
        &mut self,
        milestone: Milestone,
        what: &str,
        within: Duration,
    ) -> Result<(), ClientError> {
        match self.read_line(what, within)? == milestone.to_string() {
            true => Ok(()),
            false => Err(ClientError::Astray(format!("{} printed something else", self.program))),
        }
    }

    /// The next line that the program prints, without its end. The program is not `what` it should
    /// be if it prints nothing within this time.
    fn read_line(&mut self, what: &str, within: Duration) -> Result<String, ClientError> {
        let astray = |why: String| Err(ClientError::Astray(why));
        let timeout_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let mut said = Vec::new();
        loop {
            let Some(stdout) = self.child.stdout.as_mut() else {
                return astray("its output is read already".into());
            };
            match wait_ready(stdout.as_fd(), Readiness::Readable, timeout_ms) {
                Ok(true) => {}
                Ok(false) => {
                    return astray(format!("{} was not {what} within {within:?}", self.program));
                }
                Err(why) => return astray(format!("{}: {why}", self.program)),
            }
            let mut byte = [0];
            if stdout.read(&mut byte).unwrap_or(0) == 0 {
                let ended = self.child.wait();
                let status = ended.map_err(|why| ClientError::Astray(why.to_string()))?;
                let (output, cpu) = (self.output(), Duration::ZERO);
                return Err(ClientError::Ended(Finished { output, status, cpu }));
            }
            if byte == *b"\n" {
                return Ok(String::from_utf8_lossy(&said).into_owned());
            }
            if said.len() == LINE_BYTES_MAX {
                return astray(format!(
                    "{} printed a line of more than {LINE_BYTES_MAX} bytes",
                    self.program
                ));
            }
            said.extend(byte);
        }
    }

    /// Sends a line to a program that answers each with a line, and waits for its answer, however
    /// long that takes.
    ///
    /// # Errors
    /// When the program ends before that, with the last lines of its output.
    pub(crate) fn exchange_line(&mut self, line: &str) -> Result<String, String> {
        // A program that has ended reads nothing, and that it has ended is seen below.
        let _ = self.send_line(line);
        self.read_line("done", Duration::MAX).map_err(|why| why.to_string())
    }

    /// Sends a line to a generator that waits for one.
    ///
    /// # Errors
    /// When the generator does not read its input any more.
    pub fn send_line(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.child.stdin.as_mut().ok_or("its input is closed")?;
        let sent = stdin.write_all(format!("{line}\n").as_bytes());
        sent.map_err(|why| format!("{} does not read its input any more: {why}", self.program))
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGINT, after which most generators report what they have counted so far.
    pub fn interrupt(&self) {
        os::signals::send("INT", &[self.child.id()]);
    }

    /// Closes the generator's input, and waits for its end.
    ///
    /// # Errors
    /// When the generator has not ended `within` this time; it is then killed.
    pub fn finish(mut self, within: Duration) -> Result<Finished, String> {
        drop(self.child.stdin.take());
        let explain = |why| format!("cannot wait for a process: {why}");
        let begun_us = os::clock::now();
        loop {
            // The kernel adds a child to the account when it is waited for: here, and nowhere else.
            let before = cpu_of_children();
            if let Some(status) = self.child.try_wait().map_err(explain)? {
                let cpu = cpu_of_children().saturating_sub(before);
                return Ok(Finished { output: self.output(), status, cpu });
            }
            if u128::from(os::clock::now() - begun_us) > within.as_micros() {
                return Err(format!("{} did not end within {within:?}", self.program));
            }
            thread::sleep(LOOK);
        }
    }

    fn output(&mut self) -> String {
        let mut bytes = Vec::new();
        // A pipe can be read when both its writers are gone; a pipe that cannot be read has
        // nothing.
        if let Some(mut stdout) = self.child.stdout.take() {
            let _ = stdout.read_to_end(&mut bytes);
        }
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Both fail only when the generator has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// What the generator printed, if it succeeded.
    ///
    /// # Errors
    /// The end of what the generator printed, if it failed.
    pub fn into_output(self) -> Result<String, String> {
        if self.status.success() { Ok(self.output) } else { Err(self.failure_reason()) }
    }

    /// How the generator ended, and the last lines of its output.
    pub fn failure_reason(&self) -> String {
        format!("{}: {}", self.status, process::last_lines(&self.output))
    }
}

fn cpu_of_children() -> Duration {
    let (user, system) = os::process::cpu_times_of_children();
    user + system
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn start(script: &str) -> Client {
        let command = ["sh", "-c", script].map(str::to_owned);
        Client::start(0, &command).expect("there is a shell")
    }

    #[test]
    fn output_and_status_are_reported() {
        let client = start("echo out; echo err >&2; exit 3");
        let finished = client.finish(Duration::from_secs(20)).expect("it ends");
        assert_eq!((finished.output.as_str(), finished.status.code()), ("out\nerr\n", Some(3)));
        assert!(finished.into_output().expect_err("it failed").ends_with("out\nerr"));
    }

    #[test]
    fn a_line_reaches_a_generator_that_waits() {
        let start = |script: &str| {
            let command = ["sh", "-c", script].map(str::to_owned);
            Client::start_waiting(&[], &[0], &command).expect("there is a shell")
        };
        let mut client = start("echo ready; read word; echo heard $word");
        client.await_ready(Duration::from_secs(20)).expect("it says so");
        client.send_line("this").expect("it listens");
        let finished = client.finish(Duration::from_secs(20)).expect("it ends");
        assert_eq!(finished.output, "heard this\n");
        let mut client = start("echo measured; read word; echo end");
        client.await_measured(Duration::from_secs(20)).expect("it says so");
        let finished = client.finish(Duration::from_secs(20)).expect("its input ends");
        assert_eq!(finished.output, "end\n");
        let why =
            |script| start(script).await_ready(Duration::from_secs(20)).expect_err("it fails");
        let ended = why("echo no >&2; exit 2");
        assert!(matches!(ended, ClientError::Ended(_)), "{ended}");
        assert_eq!(ended.to_string(), "exit status: 2: no");
        let astray = why("echo readily");
        assert!(matches!(astray, ClientError::Astray(_)), "{astray}");
        assert_eq!(astray.to_string(), "sh printed something else");
    }

    #[test]
    fn a_line_that_does_not_end_is_refused() {
        let ask = |bytes: usize| {
            let command = ["sh", "-c", &format!("head -c {bytes} /dev/zero; echo; cat")];
            let command = command.map(str::to_owned);
            let mut client = Client::start_waiting(&[], &[], &command).expect("there is a shell");
            client.exchange_line("word").map(|line| line.len())
        };
        assert_eq!(ask(LINE_BYTES_MAX), Ok(LINE_BYTES_MAX));
        assert_eq!(
            ask(LINE_BYTES_MAX + 1),
            Err("sh printed a line of more than 65536 bytes".into())
        );
    }

    #[test]
    fn processor_time_is_not_waiting_time() {
        let busy = start("n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done");
        let busy = busy.finish(Duration::from_secs(60)).expect("it ends");
        let idle = start("sleep 0.2").finish(Duration::from_secs(60)).expect("it ends");
        assert!(busy.cpu > idle.cpu, "{busy:?} {idle:?}");
        assert!(busy.cpu > Duration::from_millis(10), "{busy:?}");
    }

    #[test]
    fn a_client_that_does_not_end_is_killed() {
        let client = start("exec sleep 60");
        let pid = client.child.id();
        let why = client.finish(Duration::from_millis(50)).expect_err("it sleeps");
        assert_eq!(why, "sh did not end within 50ms");
        assert!(fs::metadata(format!("/proc/{pid}")).is_err());
    }

    #[test]
    fn an_interrupt_arrives() {
        let mark = std::env::temp_dir().join(format!("interrupt-{}", std::process::id()));
        // A shell handles its traps between two commands, so none of them may be long.
        let client = start(&format!(
            "trap 'echo enough; exit' INT; : > {}; while :; do sleep 0.02; done",
            mark.display()
        ));
        let begun_us = os::clock::now();
        while !mark.exists() {
            assert!(os::clock::now() - begun_us < 20_000_000, "the shell has not begun");
            thread::sleep(LOOK);
        }
        client.interrupt();
        let finished = client.finish(Duration::from_secs(20)).expect("it ends");
        fs::remove_file(mark).expect("the shell made it");
        assert_eq!(finished.output.trim(), "enough");
    }
}
