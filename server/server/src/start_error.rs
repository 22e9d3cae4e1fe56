//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

use os::errors::Cause;

use crate::config::ConfigError;
use crate::line_writer::OutputError;

/// Why a server does not start. It is shown as one line: what is at fault, and what to do, where
/// that is known.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration does not fit the machine, or contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel lets no socket listen at this address now.
    #[error("cannot listen on {address}: {}", advice(*.address, .why))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system call.
        why: io::Error,
    },
    /// The sockets that a service manager has passed cannot be used.
    #[error("cannot use the sockets passed by the service manager: {0}")]
    Inherited(io::Error),
    /// Connections cannot be dealt out by CPU (`socket.listeners = "reuseport-cpu"`).
    #[error("socket.listeners = \"reuseport-cpu\" is not possible here: {0}")]
    DealtByCpu(io::Error),
    /// The kernel does not let sockets be added at an address that is in use.
    #[error("cannot open more listeners at addresses where clients are served: {0}")]
    NewListeners(io::Error),
    /// The access log cannot be opened.
    #[error(transparent)]
    AccessLog(OutputError),
    /// A root cannot be opened; the error names it.
    #[error("cannot open a root: {0}")]
    Root(io::Error),
    /// The engine does not start.
    #[error("cannot start {name}: {why}")]
    Engine {
        /// The name of the engine.
        name: &'static str,
        /// What the engine lacks.
        why: io::Error,
    },
    /// A worker process does not serve.
    #[error("worker process {number}: {why}")]
    WorkerProcess {
        /// The number of the process, from 0.
        number: usize,
        /// Why not: the reason that the process sent, or its status.
        why: String,
    },
    /// The system refuses something that every server needs.
    #[error("cannot {what}: {why}")]
    System {
        /// What cannot be done: `share a listener`.
        what: &'static str,
        /// The error of the system call.
        why: io::Error,
    },
}

impl StartError {
    /// Returns a function that makes a start error of a system error; `what` says what cannot be
    /// done.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |why| Self::System { what, why }
    }
}

/// What to do if no socket can listen at an address.
fn advice(address: SocketAddr, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there: stop it, or choose another --port or --listen".into()
        }
        io::ErrorKind::PermissionDenied if address.port() < 1024 => format!(
            "port {} needs a privilege: choose a port from 1024 on, or run \
             `setcap cap_net_bind_service=+ep` on the binary",
            address.port()
        ),
        _ if is_absent(why) => "this machine has no such address".into(),
        _ => why.to_string(),
    }
}

/// Whether the machine lacks the address or the whole protocol.
pub(crate) fn is_absent(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::AddrNotAvailable || Cause::from_error(why) == Cause::NoSuchFamily
}

/// Converts the error to text, for callers that only report it.
impl From<StartError> for String {
    fn from(error: StartError) -> Self {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_needs_a_privilege_is_explained_and_no_other() {
        let check = |port: u16, expected: &str| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let why = io::ErrorKind::PermissionDenied.into();
            let text = StartError::Listen { address, why }.to_string();
            assert_eq!(text, format!("cannot listen on 127.0.0.1:{port}: {expected}"));
        };
        let privilege = "port 80 needs a privilege: choose a port from 1024 on, or run `setcap \
                         cap_net_bind_service=+ep` on the binary";
        check(80, privilege);
        check(8080, "permission denied");
    }
}
