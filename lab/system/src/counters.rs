//! Counters of the kernel and the processor (perf_event_open(2)): cycles, instructions, cache
//! misses, system calls. Counting only, no samples; for a CPU as a whole or for a control group on
//! a CPU. Whether a counter exists depends on the machine: many virtual machines have none.

use os::call::{check, check_len, error, uninterrupted};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the core, which vary in length with its frequency.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// References to the last-level cache.
    CacheReferences,
    /// References that missed the last-level cache.
    CacheMisses,
    /// Cycles in which no instruction could be issued because none had been fetched.
    StalledFrontend,
    /// Cycles in which no instruction could be issued because resources or data were awaited.
    StalledBackend,
    /// Cycles of the bus.
    BusCycles,
    /// An event of a unit beside the cores, as `/sys/bus/event_source/devices` numbers them. Its
    /// counter is opened on a CPU of the unit's `cpumask`.
    Unit {
        /// The unit's `type`.
        kind: u32,
        /// The event, in the unit's own format.
        config: u64,
    },
    /// A tracepoint of the kernel, by the number in its `id` file.
    Tracepoint(u64),
    /// Nanoseconds that the CPU was used, by the kernel's own clock; always available.
    CpuClock,
}

impl Event {
    /// `type` and `config` of perf_event_open(2).
    const fn numbers(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        const TRACEPOINT: u32 = 2;
        match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::CacheReferences => (HARDWARE, 2),
            Self::CacheMisses => (HARDWARE, 3),
            Self::BusCycles => (HARDWARE, 6),
            Self::StalledFrontend => (HARDWARE, 7),
            Self::StalledBackend => (HARDWARE, 8),
            Self::CpuClock => (SOFTWARE, 0),
            Self::Tracepoint(id) => (TRACEPOINT, id),
            Self::Unit { kind, config } => (kind, config),
        }
    }
}

/// A counter that counts until it is dropped.
#[derive(Debug)]
pub struct Counter {
    descriptor: OwnedFd,
}

/// A reading of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The count.
    pub count: u64,
    /// Nanoseconds for which the counter was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds for which it counted: less, where counters take turns on the hardware.
    pub running_ns: u64,
}

/// `struct perf_event_attr` in its first and shortest form (PERF_ATTR_SIZE_VER0).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config1: u64,
}

const ATTRIBUTES_BYTES: u32 = 64;
const _: () = assert!(size_of::<Attributes>() == ATTRIBUTES_BYTES as usize);

impl Counter {
    /// Counts everything that runs on a CPU, the kernel's own work included.
    ///
    /// # Errors
    /// ENOENT or EOPNOTSUPP where the machine has no such counter, EACCES or EPERM where the user
    /// may not count (`kernel.perf_event_paranoid`), ENODEV for a CPU that is not there.
    pub fn for_cpu(event: Event, cpu: usize) -> io::Result<Self> {
        Self::open(event, -1, cpu, 0)
    }

    /// Counts for the processes of a control group on a CPU. `group` is the open folder of a group
    /// in the unified hierarchy (version 2), or in that of `perf_event`.
    ///
    /// # Errors
    /// The errors of [`Self::for_cpu`], and EBADF for another folder.
    pub fn for_group(event: Event, group: BorrowedFd<'_>, cpu: usize) -> io::Result<Self> {
        const PID_IS_GROUP: libc::c_ulong = 1 << 2;
        Self::open(event, group.as_raw_fd(), cpu, PID_IS_GROUP)
    }

    fn open(
        event: Event,
        target: libc::c_int,
        cpu: usize,
        flags: libc::c_ulong,
    ) -> io::Result<Self> {
        const TIMES: u64 = 1 | 2; // TOTAL_TIME_ENABLED and TOTAL_TIME_RUNNING
        const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
        let cpu = libc::c_int::try_from(cpu).map_err(|_| error(libc::EINVAL))?;
        let (kind, config) = event.numbers();
        let attributes = Attributes {
            kind,
            size: ATTRIBUTES_BYTES,
            config,
            read_format: TIMES,
            ..Attributes::default()
        };
        let none: libc::c_int = -1;
        // SAFETY: the pointer is to attributes of the size that they state, which the kernel only
        // reads. The other arguments are numbers. The result is a new descriptor or -1.
        let descriptor = unsafe {
            let (number, attributes) = (libc::SYS_perf_event_open, &raw const attributes);
            let returned =
                libc::syscall(number, attributes, target, cpu, none, flags | CLOSE_ON_EXEC);
            OwnedFd::from_raw_fd(check(returned as libc::c_int)?)
        };
        Ok(Self { descriptor })
    }

    /// The count since the counter was opened.
    ///
    /// # Errors
    /// Only for a counter that the kernel had to give up; its count is lost.
    pub fn read(&self) -> io::Result<Reading> {
        let mut words = [0_u64; 3];
        let len = uninterrupted(|| {
            // SAFETY: pointer and length describe `words`, which is writable and outlives the
            // call; any bytes are valid numbers.
            let returned = unsafe {
                let (pointer, bytes) = (words.as_mut_ptr().cast(), size_of_val(&words));
                libc::read(self.descriptor.as_raw_fd(), pointer, bytes)
            };
            check_len(returned)
        })?;
        if len != size_of_val(&words) {
            return Err(error(libc::EIO));
        }
        let [count, enabled_ns, running_ns] = words;
        Ok(Reading { count, enabled_ns, running_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::affinity;

    /// A counter of a CPU that every kernel with perf has; none if this user may not count, which
    /// is printed.
    fn counter() -> Option<Counter> {
        match Counter::for_cpu(Event::CpuClock, affinity::allowed_cpus()[0]) {
            Err(why) if matches!(why.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                let mend = "try as root, or sysctl -w kernel.perf_event_paranoid=0";
                testkit::skip("counters", &format!("an ordinary user may not count: {mend}"));
                None
            }
            opened => Some(opened.unwrap()),
        }
    }

    /// Events that only some machines have are not tested.
    #[test]
    fn a_counter_of_a_cpu_goes_on() {
        let Some(counter) = counter() else { return };
        let first = counter.read().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = counter.read().unwrap();
        assert!(second.enabled_ns >= first.enabled_ns + 20_000_000, "{first:?} {second:?}");
        assert_eq!(second.enabled_ns - first.enabled_ns, second.running_ns - first.running_ns);
        assert!(second.count > first.count);
    }

    #[test]
    fn wrong_cpus_and_groups_are_refused() {
        if counter().is_none() {
            return;
        }
        let code = |result: io::Result<Counter>| result.unwrap_err().raw_os_error().unwrap();
        assert_eq!(code(Counter::for_cpu(Event::CpuClock, usize::MAX)), libc::EINVAL);
        assert_ne!(code(Counter::for_cpu(Event::CpuClock, 100_000)), 0);
        let file = std::fs::File::open("/dev/null").unwrap();
        let group = std::os::fd::AsFd::as_fd(&file);
        assert_eq!(code(Counter::for_group(Event::CpuClock, group, 0)), libc::EBADF);
    }
}
