//! The application behind a server under test: a process that is started before the server, in a
//! control group of its own, so that none of its processor time is taken for the server's.

use crate::group::Group;
use crate::install;
use crate::port;
use crate::process;
use crate::server::{Launch, Part, begin, release};
use crate::server_description::Application;
use crate::template::Values;
use os::guard::Guard;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

/// How long an application may take until it listens, in microseconds.
const LISTENS_WITHIN_US: u64 = 10_000_000;

/// The file in the server's working directory with what the application prints.
const LOG: &str = "application.log";

/// An application that listens. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct RunningApplication {
    group: Group,
    child: Child,
    _guard: Guard,
}

/// Where an application listens.
enum Place<'a> {
    /// A port of this machine, in a network namespace; in ours if none is named.
    Port(u16, Option<&'a Path>),
    Socket(PathBuf),
}

impl RunningApplication {
    /// Starts an application, whose files lie in `work_dir` already, and waits until it listens.
    ///
    /// # Errors
    /// Why it does not listen, with the end of what it printed.
    pub(crate) fn start(
        application: &Application,
        values: &Values,
        launch: &Launch,
        (port, work_dir): (u16, &Path),
    ) -> Result<Self, String> {
        let place = match &application.socket {
            Some(socket) => Place::Socket(install::fill(socket, values)?.into()),
            None => Place::Port(port, launch.place.network.as_deref()),
        };
        let part = Part {
            command: install::fill_all(&application.command, values)?,
            environment: Values::new(),
            cpus: cpus_beside(&os::affinity::allowed_cpus(), &launch.cpus),
            group: Group::create(),
            log: LOG,
        };
        let (group, child, guard) = begin(part, &launch.place.prefix, work_dir)?;
        let mut application = Self { group, child, _guard: guard };
        let started_us = os::clock::now();
        release(&mut application.child);
        application.await_listening(&place, started_us).map_err(|why| {
            let printed = fs::read_to_string(work_dir.join(LOG)).unwrap_or_default();
            format!("{why}: {}", process::last_lines(&printed))
        })?;
        Ok(application)
    }

    /// The control group of its processes.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    fn await_listening(&mut self, place: &Place<'_>, started_us: u64) -> io::Result<()> {
        loop {
            let Err(why) = place.connect() else { return Ok(()) };
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return Err(io::Error::other("it ended"));
            }
            if os::clock::now() - started_us > LISTENS_WITHIN_US {
                return Err(why);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for RunningApplication {
    fn drop(&mut self) {
        self.group.kill();
        // It has just been killed, so that this does not wait.
        let _ = self.child.wait();
    }
}

impl Place<'_> {
    fn connect(&self) -> io::Result<()> {
        match self {
            Self::Port(port, network) => port::inside(*network, || {
                TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).map(drop)
            }),
            Self::Socket(path) => UnixStream::connect(path).map(drop),
        }
    }
}

/// The CPUs for an application: those that its server does not use, if there are any.
fn cpus_beside(allowed: &[usize], server: &[usize]) -> Vec<usize> {
    let beside: Vec<usize> = allowed.iter().copied().filter(|cpu| !server.contains(cpu)).collect();
    if beside.is_empty() { server.to_vec() } else { beside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_leaves_the_server_its_cpus() {
        assert_eq!(cpus_beside(&[0, 1, 2], &[1]), [0, 2]);
        assert_eq!(cpus_beside(&[0, 1], &[0, 1]), [0, 1], "there are no others");
        assert_eq!(cpus_beside(&[0, 1], &[]), [0, 1], "the server may use any");
    }
}
