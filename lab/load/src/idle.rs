//! Connections that rest beside the load, like the connections of browsers whose users read: each
//! has carried one request and its whole reply, and stays open without further requests.
//!
//! They cost the generator nothing while it measures, because it does not check them until the end;
//! what they cost the server is to be measured. The connections that the server has closed are
//! counted, and none is opened anew.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use http1::{BodySkipper, ResponseBody};
use os::socket::{Readiness, wait_ready};

use crate::client::{connect_error_kind, system_error_kind, write_request};
use crate::error_kind::ErrorKind;
use crate::plan::Plan;
use crate::run::Watch;
use crate::run_error::{Before, RunError};

/// How many connections are opened at once: fewer than any server's listen backlog holds.
const AT_ONCE: u64 = 64;
/// The length at which an incomplete head of a reply is given up.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How often the user is asked while a server does not answer.
const TURN_US: u64 = 50_000;

/// The resting connections of one generator.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    sockets: Vec<OwnedFd>,
}

impl Idle {
    /// Opens this generator's share of the idle connections that the plan asks for. All are
    /// established when the function returns.
    ///
    /// # Errors
    /// By whose fault one of them does not rest, or that `watch` wants to stop.
    pub(crate) fn open(plan: &Plan, watch: &mut dyn Watch) -> Result<Self, RunError> {
        let (index, of) = plan.share;
        let numbers: Vec<u64> =
            (u64::from(index)..plan.idle).step_by(usize::try_from(of).unwrap_or(1)).collect();
        let mut sockets = Vec::with_capacity(numbers.len());
        let mut opening = Opening { plan, watch };
        for some in numbers.chunks(AT_ONCE as usize) {
            if opening.watch.wants_to_stop() {
                return Err(RunError::Interrupted(Before::Idle));
            }
            let explain = |number| move |why: Refusal| why.explained(plan, number);
            let begun = some.iter().map(|&number| begin(plan, number).map_err(explain(number)));
            let begun = begun.collect::<Result<Vec<_>, RunError>>()?;
            for (&number, socket) in some.iter().zip(&begun) {
                opening.send_request(number, socket).map_err(explain(number))?;
            }
            for (&number, socket) in some.iter().zip(&begun) {
                opening.take_reply(number, socket).map_err(explain(number))?;
            }
            sockets.extend(begun);
        }
        Ok(Self { sockets })
    }

    /// The number of connections opened, whether or not the server has closed them since.
    pub(crate) fn count(&self) -> u64 {
        self.sockets.len() as u64
    }

    /// The number of connections that the server has closed, or over which it has sent an
    /// unrequested reply, as a server may do before it closes.
    pub(crate) fn closed(&self) -> u64 {
        let rests = |socket: &&OwnedFd| {
            let received = os::send::recv(socket.as_fd(), &mut [0]);
            matches!(received, Err(why) if why.kind() == io::ErrorKind::WouldBlock)
        };
        self.count() - self.sockets.iter().filter(rests).count() as u64
    }
}

/// Why a connection does not rest.
enum Refusal {
    /// The generator lacks something.
    Own(String),
    /// The server refused it, or does not answer as it should.
    OfServer(String),
    /// The user wants to stop.
    Interrupted,
}

impl Refusal {
    fn of_server(why: impl Into<String>) -> Self {
        Self::OfServer(why.into())
    }

    /// An error of the system, of that kind, that came of `doing` something.
    fn of_system(kind: ErrorKind, doing: &str, why: &io::Error) -> Self {
        let why = format!("{doing}{why}");
        // Ports and descriptors are the generator's, and so is what no kind of its own says.
        if kind.is_own() || kind == ErrorKind::Other { Self::Own(why) } else { Self::OfServer(why) }
    }

    fn explained(self, plan: &Plan, number: u64) -> RunError {
        let of_which =
            |why| format!("--idle {}: connection {} of them: {why}", plan.idle, number + 1);
        match self {
            Self::Own(why) => RunError::Generator(of_which(why)),
            Self::OfServer(why) => RunError::Server(of_which(why)),
            Self::Interrupted => RunError::Interrupted(Before::Idle),
        }
    }
}

fn while_opening(why: &io::Error) -> Refusal {
    Refusal::of_system(connect_error_kind(why), "cannot be opened: ", why)
}

fn not_http(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::of_server(format!("the reply is not HTTP: {why}"))
}

fn while_open(why: &io::Error) -> Refusal {
    Refusal::of_system(system_error_kind(why), "", why)
}

/// The target address of a connection, and its source address if one is set.
fn ends(plan: &Plan, number: u64) -> (SocketAddr, Option<IpAddr>) {
    let turn = |count: usize| (number % count.max(1) as u64) as usize;
    let source = plan.sources.get(turn(plan.sources.len())).copied();
    (plan.targets[turn(plan.targets.len())].address, source)
}

fn begin(plan: &Plan, number: u64) -> Result<OwnedFd, Refusal> {
    let (address, source) = ends(plan, number);
    os::socket::connect_start(address, source).map_err(|why| while_opening(&why))
}

fn template_index(plan: &Plan, number: u64) -> usize {
    let sessions = plan.log.sessions() as u64;
    plan.log.session((number % sessions) as usize)[0].template()
}

/// Connections that are being opened, for as long as the user does not want to stop.
struct Opening<'a> {
    plan: &'a Plan,
    watch: &'a mut dyn Watch,
}

impl Opening<'_> {
    /// Sends the first request of the session with that number.
    fn send_request(&mut self, number: u64, socket: &OwnedFd) -> Result<(), Refusal> {
        self.await_ready(socket, Readiness::Writable, self.plan.connect_timeout_us)?;
        if let Some(why) = os::socket::take_error(socket.as_fd()).map_err(|why| while_open(&why))? {
            return Err(while_opening(&why));
        }
        let mut text = Vec::new();
        let template = &self.plan.log.templates()[template_index(self.plan, number)];
        let target = (number % self.plan.targets.len() as u64) as usize;
        write_request(&mut text, template, &self.plan.targets[target], false);
        let mut sent = 0;
        while sent < text.len() {
            self.await_ready(socket, Readiness::Writable, self.plan.timeout_us)?;
            match os::send::send(socket.as_fd(), &text[sent..], false) {
                Ok(count) => sent += count,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(while_open(&why)),
            }
        }
        Ok(())
    }

    /// Reads the whole reply, after which the connection rests.
    fn take_reply(&mut self, number: u64, socket: &OwnedFd) -> Result<(), Refusal> {
        let to_head =
            &*self.plan.log.templates()[template_index(self.plan, number)].method == "HEAD";
        let mut bytes = Vec::new();
        let (len, mut body) = loop {
            match http1::parse_response_head(&bytes, to_head) {
                Ok(Some(head)) if (100..200).contains(&head.status) => {
                    bytes.drain(..head.len);
                }
                Ok(Some(head)) if head.status >= 400 => {
                    return Err(Refusal::of_server(format!("the server answers {}", head.status)));
                }
                Ok(Some(head)) => match head.body {
                    ResponseBody::Framed(framing) if head.keep_alive => {
                        break (head.len, BodySkipper::new(framing));
                    }
                    _ => {
                        let why = "the server does not keep it open after a reply";
                        return Err(Refusal::of_server(why));
                    }
                },
                Ok(None) if bytes.len() < HEAD_BYTES_MAX => self.receive(socket, &mut bytes)?,
                Ok(None) => {
                    let why = format!("the head of the reply exceeds {HEAD_BYTES_MAX} bytes");
                    return Err(Refusal::of_server(why));
                }
                Err(why) => return Err(not_http(&why)),
            }
        };
        bytes.drain(..len);
        while !body.is_done() {
            if bytes.is_empty() {
                self.receive(socket, &mut bytes)?;
            }
            let read = body.read(&bytes);
            let (taken, _) = read.map_err(|why| not_http(&why))?;
            bytes.drain(..taken);
        }
        Ok(())
    }

    fn receive(&mut self, socket: &OwnedFd, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut buffer = [0; 16 * 1024];
        self.await_ready(socket, Readiness::Readable, self.plan.timeout_us)?;
        match os::send::recv(socket.as_fd(), &mut buffer) {
            Ok(0) => Err(Refusal::of_server("the server closed it before it had answered")),
            Ok(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(why) => Err(while_open(&why)),
        }
    }

    /// Waits until the socket is ready; in short turns, as the user may want to stop.
    fn await_ready(
        &mut self,
        socket: &OwnedFd,
        readiness: Readiness,
        within_us: u64,
    ) -> Result<(), Refusal> {
        let until_us = os::clock::now().saturating_add(within_us);
        loop {
            let left_us = until_us.saturating_sub(os::clock::now());
            let turn_us = left_us.min(TURN_US);
            match wait_ready(socket.as_fd(), readiness, turn_us.div_ceil(1000)) {
                Ok(true) => return Ok(()),
                Ok(false) if self.watch.wants_to_stop() => return Err(Refusal::Interrupted),
                Ok(false) if left_us > turn_us => {}
                Ok(false) => {
                    let within = Duration::from_micros(within_us);
                    return Err(Refusal::of_server(format!(
                        "there was no progress within {within:?}"
                    )));
                }
                Err(why) => return Err(while_open(&why)),
            }
        }
    }
}
