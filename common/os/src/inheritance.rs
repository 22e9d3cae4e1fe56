//! Passing open descriptors on to a program that is started, and taking them over there.
//!
//! Descriptors keep their numbers, which the program learns from its arguments. Nothing else is
//! passed on: all descriptors are opened close-on-exec.

use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Has the program that `command` will start inherit these descriptors under their numbers. They
/// stay open in this process for as long as the command lives.
pub fn pass_on(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let pass = move || {
        for descriptor in &descriptors {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run, without allocating
    // or locking: the closure calls fcntl, which is one. The flag is changed in the child's own
    // table, so that no other program started at this moment inherits the descriptors.
    unsafe { command.pre_exec(pass) };
}

/// Takes over a descriptor that the parent of this program has passed on with [`pass_on`], and
/// makes it close-on-exec. Each can be taken once; the standard streams cannot.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = |why: &str| {
        let message = format!("descriptor {number} {why}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    };
    if number <= libc::STDERR_FILENO {
        return refused("is a standard stream");
    }
    // SAFETY: F_GETFD takes no pointers and changes nothing, whatever the number stands for.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 {
        return refused("is not open");
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return refused("was not passed on, or is taken");
    }
    // SAFETY: the descriptor is open and was inherited: what something else in this process owns
    // was opened by this process, and the standard library and this crate open everything
    // close-on-exec, which this one is not. The guard and the flag that is set here let no caller
    // take it twice.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

/// Makes this file the standard error of the process, and of those that it starts from now on.
pub fn become_standard_error(file: OwnedFd) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// The work of the next test's child process; without the variable there is nothing to do.
    #[test]
    fn child_takes_what_was_passed_on() {
        let Ok(number) = env::var("OS_TEST_DESCRIPTOR") else { return };
        let number = number.parse().unwrap();
        let mut stream = UnixStream::from(take(number).unwrap());
        assert!(take(number).is_err(), "taken once");
        stream.write_all(b"here").unwrap();
    }

    #[test]
    fn a_descriptor_passed_on_works_in_the_child() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "inheritance::tests::child_takes_what_was_passed_on"]);
        command.env("OS_TEST_DESCRIPTOR", theirs.as_raw_fd().to_string());
        pass_on(&mut command, vec![theirs]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        drop(command);
        let mut text = String::new();
        ours.shutdown(Shutdown::Write).unwrap();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "here");
    }

    #[test]
    fn what_was_not_passed_on_is_refused() {
        let own = UnixStream::pair().unwrap();
        assert!(take(own.0.as_raw_fd()).is_err());
        assert!(take(-1).is_err());
        assert!(take(1).is_err());
        assert!(take(1_000_000).is_err());
    }
}
