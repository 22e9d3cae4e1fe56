//! How much memory processes use and the machine has, from /proc. Nothing lasting is allocated.

use std::fs;
use std::io;

/// The memory of process `pid` that is in RAM, in bytes; pages shared with other processes count
/// in full.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or_else(|| malformed("statm"))?.saturating_mul(page_bytes() as u64))
}

/// The memory of process `pid` that is in RAM, in bytes; a page shared by n processes counts as
/// one n-th. Costs the kernel a walk over all mappings. Needs leave to inspect the process.
pub fn proportional_bytes(pid: u32) -> io::Result<u64> {
    field_bytes(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?, "Pss:")
        .ok_or_else(|| malformed("smaps_rollup"))
}

/// The machine's RAM in bytes, as far as the kernel manages it.
pub fn physical_memory_bytes() -> io::Result<u64> {
    field_bytes(&fs::read_to_string("/proc/meminfo")?, "MemTotal:")
        .ok_or_else(|| malformed("meminfo"))
}

/// The memory that this process may use, in bytes: the machine's, or less if the process's control
/// group, or an ancestor of the group, has a limit.
pub fn usable_memory_bytes() -> io::Result<u64> {
    let files = ["memory.max", "memory.limit_in_bytes"];
    let folders = crate::control_groups::folders();
    let limits = folders.iter().flat_map(|folder| files.map(|file| folder.join(file)));
    let limits = limits.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    Ok(limits.fold(physical_memory_bytes()?, u64::min))
}

/// Makes all threads of this process allocate memory from at most `count` arenas of the C library.
/// By default glibc gives each thread one of its own until there are eight for each CPU, and memory
/// that is freed in one is of no use to the others. Best called before there are other threads:
/// arenas stay. With another C library the function does nothing.
pub fn limit_allocator_arenas(count: u16) {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers. It returns whether it has accepted them; if not, memory is
    // taken as before.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count.into());
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

/// Prefetches the cache line of memory at `address`, which will soon be read. The address need not
/// be valid: the prefetch has no other effect, and where the instruction is not known the function
/// does nothing.
#[inline]
pub fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let pointer = std::ptr::without_provenance(address);
        // SAFETY: a prefetch is a hint; it has no visible effect, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The value of the first line `name   123 kB` of a text as the kernel writes it, in bytes. The
/// colon belongs to the name.
pub fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1_024)
}

/// The bytes of a page of memory.
pub fn page_bytes() -> usize {
    // SAFETY: sysconf takes no pointers and only reads a constant.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("the page size is always known")
}

fn malformed(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot read the numbers in {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn an_address_that_is_not_mapped_does_no_harm() {
        for address in [0, 1, 4096, usize::MAX] {
            prefetch(address);
        }
    }

    #[test]
    fn fields_are_found_by_name() {
        let check = |text, expected| assert_eq!(field_bytes(text, "Pss:"), expected, "{text:?}");
        check("Rss:  8 kB\nPss:      4 kB\nPss_Dirty: 1 kB\n", Some(4_096));
        check("Pss_Dirty: 1 kB\n", None);
        check("Pss: 4 MB\n", None);
        check("Pss: x kB\n", None);
        check("", None);
    }

    #[test]
    fn what_is_usable_is_a_part_of_what_there_is() {
        let usable = usable_memory_bytes().unwrap();
        assert!((1 << 20..=physical_memory_bytes().unwrap()).contains(&usable), "{usable}");
    }

    #[test]
    fn touched_memory_becomes_resident() {
        const GROWTH: usize = 64 << 20;
        let pid = std::process::id();
        let before = resident_bytes(pid).unwrap();
        let memory = black_box(vec![1_u8; GROWTH]);
        let grown = resident_bytes(pid).unwrap().saturating_sub(before);
        assert!(grown > GROWTH as u64 / 2, "{grown} bytes");
        let proportional = proportional_bytes(pid).unwrap();
        assert!(proportional > GROWTH as u64 / 2, "{proportional} bytes");
        assert!(physical_memory_bytes().unwrap() > proportional);
        drop(black_box(memory));
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        let error = resident_bytes(u32::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
