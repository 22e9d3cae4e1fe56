//! Where control sockets are: in a folder for each user, one for each server, named after its
//! process.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The permissions of the folder: no other user can enter it.
const PRIVATE: u32 = 0o700;

/// What follows the number of the process in the name of a socket.
const SUFFIX: &str = ".control";

/// The control sockets of this user's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is one server.
    One(PathBuf),
    /// There is none.
    None,
    /// There are several: the numbers of their processes.
    Several(Vec<u32>),
    /// Others could have put sockets into this folder, in which they would be.
    Open(PathBuf),
}

/// Finds the control socket of the only server of this user that runs; or that of the process with
/// this number.
#[must_use]
pub fn find(process: Option<u32>) -> Found {
    let folder = folder();
    if is_open_to_others(&folder) {
        return Found::Open(folder);
    }
    let mut running = running(&folder);
    if let Some(number) = process {
        running.retain(|(process, _)| *process == number);
    }
    match running.len() {
        0 => Found::None,
        1 => Found::One(running.remove(0).1),
        _ => Found::Several(running.into_iter().map(|(process, _)| process).collect()),
    }
}

/// Whether others may have put something into this folder, or have made it: any user can do so in
/// `/tmp`. Root asks the servers of all users, whose folders are where root has them made.
fn is_open_to_others(folder: &Path) -> bool {
    const OTHERS_MAY_WRITE: u32 = 0o022;
    let own = os::process::user_id();
    fs::symlink_metadata(folder).is_ok_and(|found| {
        let is_ours = found.is_dir() && (found.uid() == own || own == 0);
        !is_ours || found.mode() & OTHERS_MAY_WRITE != 0
    })
}

/// The servers that answer at a socket in this folder.
fn running(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
        Some((number, entry.path()))
    });
    let mut running: Vec<_> = sockets.filter(|(_, path)| listens(path).is_ok()).collect();
    running.sort();
    running
}

/// Whether a process listens at this socket, which is not waited for.
fn listens(socket: &Path) -> io::Result<()> {
    match os::socket::connect_unix(socket) {
        Err(why) if why.kind() != io::ErrorKind::WouldBlock => Err(why),
        _ => Ok(()),
    }
}

/// The place for the socket of this process.
///
/// # Errors
/// There is no folder that only this user can enter.
pub(super) fn own() -> io::Result<PathBuf> {
    let folder = folder();
    make_private(&folder)?;
    remove_left_over(&folder);
    Ok(folder.join(format!("{}{SUFFIX}", std::process::id())))
}

/// The folder of this user's sockets: that of the service, or of the session.
fn folder() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    // A service manager may name several, one after the other.
    if let Some(folders) = named("RUNTIME_DIRECTORY") {
        let first = folders.to_string_lossy().split(':').next().map(PathBuf::from);
        return first.unwrap_or_default();
    }
    match (os::process::user_id(), named("XDG_RUNTIME_DIR")) {
        (0, _) => PathBuf::from("/run/ropewalk"),
        (_, Some(session)) => Path::new(&session).join("ropewalk"),
        (user, None) => std::env::temp_dir().join(format!("ropewalk-{user}")),
    }
}

/// Makes the folder, or checks that only this user can enter it.
fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(folder) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
        Err(why) => return Err(io::Error::new(why.kind(), format!("{}: {why}", folder.display()))),
        Ok(()) => {}
    }
    let found = fs::symlink_metadata(folder)?;
    let is_ours = found.is_dir() && found.uid() == os::process::user_id();
    match is_ours && found.mode() & 0o777 & !PRIVATE == 0 {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} must be a directory of this user with mode 0700", folder.display()),
        )),
    }
}

/// Removes the folder of a socket that was removed, if it was the last there.
pub(super) fn remove_if_empty(socket: &Path) {
    if let Some(folder) = socket.parent() {
        let _ = fs::remove_dir(folder); // it fails if there are others
    }
}

/// Removes the sockets of servers that were killed.
fn remove_left_over(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_socket = entry.file_name().to_str().is_some_and(|name| name.ends_with(SUFFIX));
        let is_refused = |why: io::Error| why.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && listens(&entry.path()).is_err_and(is_refused) {
            let _ = fs::remove_file(entry.path()); // another server may have done so
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A server that does not accept, as one that was stopped, delays no client, and is there.
    #[test]
    fn a_server_whose_backlog_is_full_is_not_waited_for() {
        let folder = testkit::Temporary::new();
        let path = folder.path().join(format!("7{SUFFIX}"));
        let _listener = UnixListener::bind(&path).unwrap();
        // What has connected stays in the backlog.
        while os::socket::connect_unix(&path).is_ok() {}
        let (tell, told) = channel();
        let looked_in = folder.path().to_owned();
        thread::spawn(move || {
            remove_left_over(&looked_in);
            let _ = tell.send(running(&looked_in));
        });
        let found = told.recv_timeout(Duration::from_secs(20)).expect("it waits");
        assert_eq!(found, [(7, path)]);
    }
}
