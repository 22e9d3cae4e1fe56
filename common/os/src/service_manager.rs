//! Messages to the service manager that has started this program (sd_notify(3)).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager something: `READY=1`, `STOPPING=1`, `MAINPID=4711`, a line each. Does
/// nothing where there is none that listens.
///
/// # Errors
/// The service manager cannot be told.
pub fn notify(state: &str) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes().split_first() {
        Some((b'@', abstract_name)) => SocketAddr::from_abstract_name(abstract_name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
