//! How a system call's return value becomes an [`io::Result`]: for this crate and `system`, which
//! make such calls. It makes none itself.

use std::io;

/// The result of a call that returns -1 and sets `errno` on failure.
///
/// # Errors
/// The one in `errno`.
pub fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The result of a call that returns a count of bytes, or -1 and sets `errno` on failure.
///
/// # Errors
/// The one in `errno`.
pub fn check_len(returned: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Repeats `call` for as long as a signal interrupts it. A `read` on a socket that has a timeout is
/// interrupted also when the process is stopped and continued (signal(7)), and `std` leaves it so.
///
/// # Errors
/// Any error of `call`, except an interruption.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The error with the kernel's number `code`.
pub fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_repeated_and_other_errors_are_not() {
        let mut calls = 0;
        let result = uninterrupted(|| {
            calls += 1;
            if calls < 3 { Err(error(libc::EINTR)) } else { Err::<(), _>(error(libc::EIO)) }
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(calls, 3);
    }
}
