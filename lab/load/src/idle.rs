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
use crate::run_error::RunError;

/// How many connections are opened at once: fewer than any server's listen backlog holds.
const AT_ONCE: u64 = 64;
/// The length at which an incomplete head of a reply is given up.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The resting connections of one generator.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    sockets: Vec<OwnedFd>,
}

impl Idle {
    /// Opens this generator's share of the idle connections that the plan asks for. All are
    /// established when the function returns.
    pub(crate) fn open(plan: &Plan) -> Result<Self, RunError> {
        let (index, of) = plan.share;
        let numbers: Vec<u64> =
            (u64::from(index)..plan.idle).step_by(usize::try_from(of).unwrap_or(1)).collect();
        let mut sockets = Vec::with_capacity(numbers.len());
        for some in numbers.chunks(AT_ONCE as usize) {
            let explain = |number| move |why: Refusal| why.explained(plan, number);
            let begun = some.iter().map(|&number| begin(plan, number).map_err(explain(number)));
            let begun = begun.collect::<Result<Vec<_>, RunError>>()?;
            for (&number, socket) in some.iter().zip(&begun) {
                send_request(plan, number, socket).map_err(explain(number))?;
            }
            for (&number, socket) in some.iter().zip(&begun) {
                take_reply(plan, number, socket).map_err(explain(number))?;
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

/// Why a connection cannot rest: by whose fault, and what happened.
struct Refusal {
    is_own: bool,
    why: String,
}

impl Refusal {
    fn of_server(why: impl Into<String>) -> Self {
        Self { is_own: false, why: why.into() }
    }

    /// An error of the system, of that kind, that came of `doing` something.
    fn of_system(kind: ErrorKind, doing: &str, why: &io::Error) -> Self {
        // Ports and descriptors are the generator's, and so is what no kind of its own says.
        let is_own = kind.is_own() || kind == ErrorKind::Other;
        Self { is_own, why: format!("{doing}{why}") }
    }

    fn explained(self, plan: &Plan, number: u64) -> RunError {
        let Self { is_own, why } = self;
        let why = format!("--idle {}: connection {} of them: {why}", plan.idle, number + 1);
        if is_own { RunError::Generator(why) } else { RunError::Server(why) }
    }
}

fn while_opening(why: &io::Error) -> Refusal {
    Refusal::of_system(connect_error_kind(why), "cannot be opened: ", why)
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

/// Sends the first request of the session with that number.
fn send_request(plan: &Plan, number: u64, socket: &OwnedFd) -> Result<(), Refusal> {
    await_ready(socket, Readiness::Writable, plan.connect_timeout_us)?;
    if let Some(why) = os::socket::take_error(socket.as_fd()).map_err(|why| while_open(&why))? {
        return Err(while_opening(&why));
    }
    let mut text = Vec::new();
    let template = &plan.log.templates()[template_index(plan, number)];
    let target = (number % plan.targets.len() as u64) as usize;
    write_request(&mut text, template, &plan.targets[target], false);
    let mut sent = 0;
    while sent < text.len() {
        await_ready(socket, Readiness::Writable, plan.timeout_us)?;
        match os::send::send(socket.as_fd(), &text[sent..], false) {
            Ok(count) => sent += count,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(while_open(&why)),
        }
    }
    Ok(())
}

fn template_index(plan: &Plan, number: u64) -> usize {
    let sessions = plan.log.sessions() as u64;
    plan.log.session((number % sessions) as usize)[0].template()
}

/// Reads the whole reply, after which the connection rests.
fn take_reply(plan: &Plan, number: u64, socket: &OwnedFd) -> Result<(), Refusal> {
    let to_head = &*plan.log.templates()[template_index(plan, number)].method == "HEAD";
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
            Ok(None) if bytes.len() < HEAD_BYTES_MAX => receive(plan, socket, &mut bytes)?,
            Ok(None) | Err(_) => return Err(Refusal::of_server("the reply is not HTTP")),
        }
    };
    bytes.drain(..len);
    while !body.is_done() {
        if bytes.is_empty() {
            receive(plan, socket, &mut bytes)?;
        }
        let read = body.read(&bytes);
        let (taken, _) = read.map_err(|_| Refusal::of_server("the reply is not HTTP"))?;
        bytes.drain(..taken);
    }
    Ok(())
}

fn receive(plan: &Plan, socket: &OwnedFd, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut buffer = [0; 16 * 1024];
    await_ready(socket, Readiness::Readable, plan.timeout_us)?;
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

fn await_ready(socket: &OwnedFd, readiness: Readiness, within_us: u64) -> Result<(), Refusal> {
    match wait_ready(socket.as_fd(), readiness, within_us.div_ceil(1000)) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let within = Duration::from_micros(within_us);
            Err(Refusal::of_server(format!("there was no progress within {within:?}")))
        }
        Err(why) => Err(while_open(&why)),
    }
}
