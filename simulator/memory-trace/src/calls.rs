//! System calls: which were made, how often, and how many bytes they moved.
//!
//! What they do in the kernel is in no trace.

use std::collections::BTreeMap;

use crate::event::Event;

/// One kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Call {
    /// The system's number of the call.
    pub number: u32,
    /// How often it was made.
    pub count: u64,
    /// For how many of them the trace has the number of bytes: the call succeeded, and its recorder
    /// determined the number.
    pub with_bytes: u64,
    /// The number of bytes that these moved.
    pub bytes: u64,
}

/// The calls of a process, or of many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemCalls {
    by_number: BTreeMap<u32, Call>,
}

impl SystemCalls {
    /// Counts an event, if it is a system call.
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::SystemCall { number } => self.call(number).count += 1,
            Event::Moved { number, bytes } => {
                let call = self.call(number);
                call.with_bytes += 1;
                call.bytes += u64::from(bytes);
            }
            Event::Access(_) | Event::Synchronise { .. } | Event::SwitchThread { .. } => {}
        }
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        for call in other.by_number.values() {
            let own = self.call(call.number);
            own.count += call.count;
            own.with_bytes += call.with_bytes;
            own.bytes += call.bytes;
        }
    }

    /// The calls, most frequent first.
    pub fn list(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = self.by_number.values().copied().collect();
        // Equally frequent calls stay in the order of their numbers.
        calls.sort_by_key(|call| std::cmp::Reverse(call.count));
        calls
    }

    /// The sum of all calls.
    pub fn sum(&self) -> Call {
        self.by_number.values().fold(Call::default(), |sum, call| Call {
            number: 0,
            count: sum.count + call.count,
            with_bytes: sum.with_bytes + call.with_bytes,
            bytes: sum.bytes + call.bytes,
        })
    }

    fn call(&mut self, number: u32) -> &mut Call {
        self.by_number.entry(number).or_insert(Call { number, ..Call::default() })
    }
}

impl Call {
    /// The call's name on x86-64, or its number in words.
    pub fn name(&self) -> String {
        system_call_name(self.number).map_or_else(|| format!("call {}", self.number), str::to_owned)
    }

    /// The mean number of bytes of the calls with a known number; none if there are none.
    pub fn bytes_mean(&self) -> Option<f64> {
        (self.with_bytes > 0).then(|| self.bytes as f64 / self.with_bytes as f64)
    }
}

/// The name of a system call on x86-64 Linux, if the number is known.
pub fn system_call_name(number: u32) -> Option<&'static str> {
    let (names, number) = match number.checked_sub(LATER_BEGIN) {
        None => (NAMES, number),
        Some(number) => (LATER, number),
    };
    names.split(' ').nth(number as usize)
}

/// The names of the numbers from 0 on, from Linux 6.1's `asm/unistd_64.h`.
const NAMES: &str = "\
    read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction \
    rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield \
    mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm \
    setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind \
    listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit \
    wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync \
    fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink \
    symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage \
    sysinfo times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid \
    getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid \
    getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo \
    rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs \
    getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler \
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall \
    munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot \
    sync acct settimeofday mount umount2 swapon swapoff reboot sethostname setdomainname iopl \
    ioperm create_module init_module delete_module get_kernel_syms query_module quotactl \
    nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead setxattr lsetxattr \
    fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr \
    lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity set_thread_area \
    io_setup io_destroy io_getevents io_submit io_cancel get_thread_area lookup_dcookie \
    epoll_create epoll_ctl_old epoll_wait_old remap_file_pages getdents64 set_tid_address \
    restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime timer_getoverrun \
    timer_delete clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait \
    epoll_ctl tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink \
    mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key request_key \
    keyctl ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch migrate_pages \
    openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat \
    readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice \
    tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create eventfd \
    fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 \
    inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init \
    fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg \
    setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr \
    renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd membarrier \
    mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents \
    rseq";
/// The first number from which on all architectures number system calls alike.
const LATER_BEGIN: u32 = 424;
const LATER: &str = "\
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen \
    fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 \
    process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset \
    landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv \
    set_mempolicy_home_node";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_their_numbers() {
        for (number, expected) in [
            (0, Some("read")),
            (1, Some("write")),
            (40, Some("sendfile")),
            (202, Some("futex")),
            (288, Some("accept4")),
            (334, Some("rseq")),
            (335, None),
            (423, None),
            (424, Some("pidfd_send_signal")),
            (450, Some("set_mempolicy_home_node")),
            (451, None),
            (u32::MAX, None),
        ] {
            assert_eq!(system_call_name(number), expected, "{number}");
        }
    }

    #[test]
    fn calls_are_counted_with_what_they_moved() {
        let mut calls = SystemCalls::default();
        let made = |number| Event::SystemCall { number };
        let moved = |number, bytes| Event::Moved { number, bytes };
        for event in [made(3), made(0), moved(0, 100), made(0), moved(0, 0), made(0), made(999)] {
            calls.event(&event);
        }
        let mut twice = calls.clone();
        twice.add(&calls);
        let [read, close, unknown] = twice.list()[..] else { panic!("{twice:?}") };
        assert_eq!(read, Call { number: 0, count: 6, with_bytes: 4, bytes: 200 });
        assert_eq!((read.bytes_mean(), close.bytes_mean()), (Some(50.0), None));
        let names = [read, close, unknown].map(|call| call.name());
        assert_eq!(names, ["read", "close", "call 999"]);
        assert_eq!(twice.sum(), Call { number: 0, count: 10, with_bytes: 4, bytes: 200 });
    }
}
