//! The kernel facilities Ropewalk uses, one file each, and nearly all of its unsafe code: what only
//! the lab needs is in `system`.
//!
//! Every function is a thin, safe wrapper over one system call (or one short fixed sequence of
//! them) and returns [`std::io::Error`] with the kernel's error number. Descriptors are owned
//! ([`std::os::fd::OwnedFd`]) or borrowed ([`std::os::fd::BorrowedFd`]), never bare numbers, and
//! all of them are opened close-on-exec. A call that a signal interrupts is repeated. `rustix`
//! makes the calls, by safe functions if it can; `libc` makes those that rustix lacks.
//!
//! This crate is not a runtime and holds no policy: what to open, when to wait and what to do about
//! an error is decided by the crates above. Linux only.

#[cfg(not(target_os = "linux"))]
compile_error!("Ropewalk runs on Linux only: it is built on epoll, openat2 and sendfile");

pub mod accounting;
pub mod affinity;
pub mod call;
pub mod clock;
pub mod control_groups;
pub mod cpu_list;
pub mod epoll;
pub mod errors;
pub mod event;
pub mod fiber;
pub mod file_lock;
pub mod files;
pub mod fork;
pub mod guard;
pub mod inheritance;
pub mod interfaces;
pub mod interrupt;
pub mod limits;
pub mod listening;
pub mod memory;
pub mod oom;
pub mod passing;
pub mod poll;
mod pow;
pub mod process;
pub mod programs;
pub mod ring;
pub mod robust_lock;
pub mod scheduling;
pub mod select;
pub mod send;
pub mod service_manager;
pub mod shared_memory;
pub mod signals;
pub mod socket;
pub mod stacks;
pub mod terminal;

pub use call::uninterrupted;

#[cfg(test)]
#[path = "tests/level_triggered.rs"]
mod level_triggered_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_share_may_be_shared() {
        fn shared<T: Send + Sync>() {}
        shared::<epoll::Epoll>();
        shared::<epoll::EventBuffer>();
        shared::<event::Wake>();
        shared::<files::Root>();
        shared::<signals::SignalDescriptor>();
    }
}
