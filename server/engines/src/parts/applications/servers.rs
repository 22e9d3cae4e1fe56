//! The servers of an application, as sockets.

use std::io;
use std::os::fd::OwnedFd;

use upstream::{Address, Application, Call};

/// Begins a connection to a server of a call's application, which does not wait; `attempt` chooses
/// among the server's addresses.
pub(crate) fn connect(call: &Call, server: usize, attempt: u32) -> io::Result<OwnedFd> {
    let application = call.application();
    if let Some(program) = call.program() {
        return application.start_program(program);
    }
    if let Address::Unix(path) = &application.settings().servers[server].address {
        return os::socket::connect_unix(path);
    }
    let addresses = application.addresses(server);
    let Some(address) = addresses.get(attempt as usize % addresses.len().max(1)) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    };
    os::socket::connect_start(*address, None)
}

/// How often connecting is tried before the application counts as out of reach: once for each
/// address.
pub(crate) fn attempts_max(application: &Application) -> u32 {
    let of_server = |server| application.addresses(server).len().max(1) as u32;
    (0..application.settings().servers.len()).map(of_server).sum()
}
