//! The successor's side: what it gets of the server in whose place it comes.

use std::env;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process;
use std::thread;

use os::passing;
use os::process::Identity;
use os::socket::{Readiness, wait_ready};

use super::{
    ALL_LISTENERS, FAILED, FORM, LISTENER, MESSAGE_BYTES_MAX, Message, READY, SETTING, VARIABLE,
    identity, receive,
};
use crate::generation::Taker;
use crate::passage::{self, Landing, Outlook};

/// How long the predecessor may take to send its listening sockets.
const LISTENERS_US: u64 = 10_000_000;

/// The server in whose place this one comes.
pub(crate) struct Predecessor {
    socket: OwnedFd,
    /// It, and those before it that still drain.
    pub(crate) servers: Vec<Identity>,
}

/// What a server leaves to the one that comes in its place.
pub(crate) struct Legacy {
    /// Its listening sockets, with their descriptions.
    pub(crate) listeners: Vec<(String, OwnedFd)>,
    /// The descriptions of settings of the machine that it has changed.
    pub(crate) settings: Vec<String>,
}

impl Predecessor {
    /// The predecessor; none unless this program was started to come in its place. Standard error
    /// is as the predecessor's from now on.
    ///
    /// # Errors
    /// It was started by a version of this program that cannot be followed.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        let Ok(given) = env::var(VARIABLE) else { return Ok(None) };
        let failed =
            |why: &dyn std::fmt::Display| format!("cannot come in a server's place: {why}");
        let words: Vec<&str> = given.split(' ').collect();
        let (socket, errors, former) = match &words[..] {
            &[FORM, process, socket, identity, errors, ref former @ ..]
                if is_given(socket, identity) =>
            {
                (socket, errors, [&[process], former].concat())
            }
            [FORM, ..] => return Ok(None), // it was left in the environment by another
            _ => {
                return Err(failed(&"it is of another version, and has to be stopped and started"));
            }
        };
        let take = |number: &str| {
            let number = number.parse().map_err(|_| failed(&format!("{VARIABLE}={given}")))?;
            os::inheritance::take(number).map_err(|why| failed(&why))
        };
        let socket = take(socket)?;
        os::inheritance::become_standard_error(take(errors)?).map_err(|why| failed(&why))?;
        Ok(Some(Self { socket, servers: ancestors(&former) }))
    }

    /// What it leaves to this server.
    ///
    /// # Errors
    /// It does not send that.
    pub(crate) fn legacy(&self) -> io::Result<Legacy> {
        let until_us = os::clock::now() + LISTENERS_US;
        let (mut listeners, mut settings) = (Vec::new(), Vec::new());
        loop {
            let broken = || io::Error::other("the server that is to be followed says no more");
            match receive(self.socket.as_fd(), until_us)?.ok_or_else(broken)? {
                Message { kind: LISTENER, text, descriptor: Some(socket) } => {
                    listeners.push((String::from_utf8_lossy(&text).into_owned(), socket));
                }
                Message { kind: SETTING, text, .. } => {
                    settings.push(String::from_utf8_lossy(&text).into_owned());
                }
                Message { kind: ALL_LISTENERS, .. } => return Ok(Legacy { listeners, settings }),
                _ => return Err(broken()),
            }
        }
    }

    /// Says that this server serves what `description` says, and whether it takes connections; and
    /// gives this end of the socket, from which the predecessor takes what is there back if this
    /// process is killed.
    ///
    /// # Errors
    /// The predecessor has gone, or takes this process for one that hangs.
    pub(crate) fn say_ready(&self, takes_connections: bool, description: &str) -> io::Result<()> {
        let sign = if takes_connections { b'+' } else { b'-' };
        let message = [&[READY, sign], description.as_bytes()].concat();
        let said = self.say(&message, Some(self.socket.as_fd()));
        said.or_else(|_| self.say(&message, None)) // too many descriptors may be on their way
    }

    /// Says why this server does not serve. 2 is the exit status for a mistake of the user.
    pub(crate) fn say_failed(&self, exit_status: u8, why: &str) {
        // If this fails, the predecessor has gone and need not know.
        let _ = self.say(&[&[FAILED, b'0' + exit_status], why.as_bytes()].concat(), None);
    }

    fn say(&self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        passing::send_with(self.socket.as_fd(), message, descriptor).map(|_| ())
    }

    /// Has a thread go on with the connections that come, until the predecessor has ended.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub(crate) fn take_connections(self, taker: Taker, mut landing: Landing) -> io::Result<()> {
        taker.open(self.socket.try_clone()?);
        let take = move || {
            let wait = || wait_ready(self.socket.as_fd(), Readiness::Readable, u64::MAX).is_ok();
            let mut take_all = || landing.take_all(self.socket.as_fd(), taker.get().as_slice());
            let is_there = |outlook| match outlook {
                Outlook::MayCome => wait(),
                Outlook::NoRoom => passage::pause().is_ok(),
                Outlook::Over => false,
            };
            while is_there(take_all()) {}
        };
        thread::Builder::new().name("passage".into()).spawn(take).map(|_| ())
    }
}

/// Whether the socket of this number is the one that the predecessor has given.
fn is_given(socket: &str, given: &str) -> bool {
    let own = socket.parse().ok().and_then(|socket| identity(socket).ok());
    own.is_some_and(|own| own.to_string() == given)
}

/// Those of these processes that this one descends from: the number of another may be that of one
/// that has come after it.
fn ancestors(numbers: &[&str]) -> Vec<Identity> {
    let found = numbers.iter().filter_map(|number| Identity::of(number.parse().ok()?));
    let is_ancestor = |it: &Identity| os::process::descends_from(process::id(), &[*it]);
    found.filter(|it| is_ancestor(it) == Some(true)).collect()
}
