//! What the kernel's error numbers mean to code that decides by them: the one place that reads them
//! where [`io::ErrorKind`] has no name. This is not a list of all errors: an error that no code
//! decides on is [`Cause::Other`].

use std::io;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The process or the system has no descriptor left (EMFILE, ENFILE).
    NoDescriptor,
    /// The kernel has no memory for the operation (ENOMEM, ENOBUFS).
    NoMemory,
    /// The path leads through too many symbolic links, or through one where none may be (ELOOP).
    SymbolicLink,
    /// A name is longer than the file system has room for (ENAMETOOLONG).
    NameTooLong,
    /// There is nothing behind the file: a FIFO without a reader, a socket, a device without a
    /// driver (ENXIO, ENODEV).
    NothingBehind,
    /// The machine lacks the whole family of addresses (EAFNOSUPPORT).
    NoSuchFamily,
    /// The operation was cancelled (ECANCELED).
    Cancelled,
    /// The time given for a wait is over (ETIME).
    TimeOver,
    /// This process has no child (ECHILD).
    NoChild,
    /// The kernel does not know this option of a socket (ENOPROTOOPT).
    NoSuchOption,
    /// A connection has been begun, and will be established later (EINPROGRESS).
    Connecting,
    /// The modes of a file or a directory forbid it (EACCES), which
    /// [`io::ErrorKind::PermissionDenied`] does not tell from a lack of privilege (EPERM).
    NoAccess,
    /// So many descriptors are on their way between processes as one may have (ETOOMANYREFS).
    TooManyPassed,
    /// Anything else: see [`io::Error::kind`].
    Other,
}

impl Cause {
    /// The cause of an error.
    #[must_use]
    pub fn from_error(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::NoDescriptor,
            Some(libc::ENOMEM | libc::ENOBUFS) => Self::NoMemory,
            Some(libc::ELOOP) => Self::SymbolicLink,
            Some(libc::ENAMETOOLONG) => Self::NameTooLong,
            Some(libc::ENXIO | libc::ENODEV) => Self::NothingBehind,
            Some(libc::EAFNOSUPPORT) => Self::NoSuchFamily,
            Some(libc::ECANCELED) => Self::Cancelled,
            Some(libc::ETIME) => Self::TimeOver,
            Some(libc::ECHILD) => Self::NoChild,
            Some(libc::ENOPROTOOPT) => Self::NoSuchOption,
            Some(libc::EINPROGRESS) => Self::Connecting,
            Some(libc::EACCES) => Self::NoAccess,
            Some(libc::ETOOMANYREFS) => Self::TooManyPassed,
            _ => Self::Other,
        }
    }

    /// Whether the process or the system lacks something that other code will give back.
    #[must_use]
    pub fn is_exhaustion(self) -> bool {
        matches!(self, Self::NoDescriptor | Self::NoMemory)
    }
}

/// An error as a number, for shared memory, which has no room for more; 0 stands for an error
/// without a number.
#[must_use]
pub fn to_number(error: &io::Error) -> u64 {
    error.raw_os_error().unwrap_or_default().unsigned_abs().into()
}

/// The error from which [`to_number`] made this number, if it is one.
#[must_use]
pub fn from_number(number: u64) -> Option<io::Error> {
    let number = i32::try_from(number).ok().filter(|number| *number != 0)?;
    Some(io::Error::from_raw_os_error(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(numbers: &[i32], expected: Cause) {
        for number in numbers {
            assert_eq!(
                Cause::from_error(&io::Error::from_raw_os_error(*number)),
                expected,
                "{number}"
            );
        }
    }

    #[test]
    fn each_number_has_its_cause_and_an_error_without_one_has_none() {
        check(&[libc::EMFILE, libc::ENFILE], Cause::NoDescriptor);
        check(&[libc::ENOMEM, libc::ENOBUFS], Cause::NoMemory);
        check(&[libc::ELOOP], Cause::SymbolicLink);
        check(&[libc::ENAMETOOLONG], Cause::NameTooLong);
        check(&[libc::ENXIO, libc::ENODEV], Cause::NothingBehind);
        check(&[libc::EAFNOSUPPORT], Cause::NoSuchFamily);
        check(&[libc::ECANCELED], Cause::Cancelled);
        check(&[libc::ETIME], Cause::TimeOver);
        check(&[libc::ECHILD], Cause::NoChild);
        check(&[libc::ENOPROTOOPT], Cause::NoSuchOption);
        check(&[libc::EINPROGRESS], Cause::Connecting);
        check(&[libc::EACCES], Cause::NoAccess);
        check(&[libc::ETOOMANYREFS], Cause::TooManyPassed);
        check(&[libc::ENOENT, libc::EIO, libc::EPERM, libc::ETIMEDOUT], Cause::Other);
        assert_eq!(Cause::from_error(&io::Error::other("EMFILE")), Cause::Other);
        assert!(Cause::NoDescriptor.is_exhaustion() && Cause::NoMemory.is_exhaustion());
        assert!(!Cause::Cancelled.is_exhaustion() && !Cause::Other.is_exhaustion());
    }

    #[test]
    fn an_error_survives_as_a_number() {
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        let back = from_number(to_number(&error)).unwrap();
        assert_eq!(back.raw_os_error(), Some(libc::ENOMEM));
        assert!(from_number(to_number(&io::Error::other("no number"))).is_none());
        assert!(from_number(u64::MAX).is_none());
    }
}
