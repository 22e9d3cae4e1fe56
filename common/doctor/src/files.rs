//! The file system under the directory that is served, and the kernel's ways to read from it.

use std::path::Path;

use super::finding::Section::Serving;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const MOUNTS: &str = "/proc/self/mountinfo";
const RINGS: &str = "/proc/sys/kernel/io_uring_disabled";
const KERNEL: &str = "/proc/sys/kernel/osrelease";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "file system",
        source: "Genevès 2012, III-C; Radhakrishnan 2019, 3.2 (a local disk)",
        good: "a local one: ext4, xfs, btrfs, f2fs, zfs; tmpfs has no disk to wait for",
        cost: "names and times come from another machine or program, or through several layers: \
               every file that is opened or revalidated waits, and the kernel cannot say what is \
               in memory",
        mend: "serve from a directory on a local disk (in a container: a volume)",
        rule: Rule::Of(&[MOUNTS], file_system),
    },
    Check {
        section: Serving,
        subject: "access times",
        source: "mount(8), relatime and noatime",
        good: "relatime or noatime",
        cost: "every file that is read is written to: its time of access",
        mend: "mount -o remount,noatime MOUNTPOINT",
        rule: Rule::Of(&[MOUNTS], access_times),
    },
    Check {
        section: Serving,
        subject: "io_uring_disabled",
        source: "kernel: sysctl/kernel (since 6.6)",
        good: "0",
        cost: "--engine rings cannot start, or for root only",
        mend: "sysctl -w kernel.io_uring_disabled=0",
        rule: Rule::Of(&[RINGS, KERNEL], rings),
    },
];

struct Mount<'m> {
    point: String,
    options: &'m str,
    kind: &'m str,
}

/// The mount that the directory is in: of those above it the lowest, and of several the last.
fn mount_of<'m>(mounts: &'m str, directory: &Path) -> Option<Mount<'m>> {
    // proc_pid_mountinfo(5): number, parent, device, root, point, options, …, "-", kind, …
    let mounts = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(4);
        let (point, options) = (unescaped(fields.next()?), fields.next()?);
        Some(Mount { point, options, kind: after.split(' ').next()? })
    });
    let above = mounts.filter(|mount| directory.starts_with(&mount.point));
    above.max_by_key(|mount| Path::new(&mount.point).components().count())
}

/// A name as it is: the kernel writes what would end a field in octal, a space as `\040`.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                name.push(char::from(code));
                name += &part[3..];
            }
            None => {
                name.push('\\');
                name += part;
            }
        }
    }
    name
}

/// A name as a shell takes it for one word.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@".contains(c);
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

fn file_system(machine: &Machine) -> Reading {
    const LOCAL: [&str; 20] = [
        "ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "ramfs", "jfs",
        "nilfs2", "reiserfs", "ntfs3", "vfat", "exfat", "erofs", "squashfs", "iso9660", "udf",
    ];
    let mounts = machine.text(MOUNTS).unwrap_or_default();
    match mount_of(mounts, &machine.directory) {
        None => Reading::unreadable(MOUNTS),
        Some(mount) => {
            let found = format!("{}, mounted at {}", mount.kind, mount.point);
            Reading::fine_if(LOCAL.contains(&mount.kind), found)
        }
    }
}

fn access_times(machine: &Machine) -> Reading {
    let mounts = machine.text(MOUNTS).unwrap_or_default();
    let Some(mount) = mount_of(mounts, &machine.directory) else {
        return Reading::unreadable(MOUNTS);
    };
    // strictatime is shown as the absence of both; what cannot be written to keeps no times.
    let mut options = mount.options.split(',');
    match options.find(|option| ["relatime", "noatime", "ro"].contains(option)) {
        Some(option) => Reading::fine(option),
        None => Reading {
            mend: Some(format!("mount -o remount,noatime {}", quoted(&mount.point))),
            ..Reading::wrong("strictatime")
        },
    }
}

fn rings(machine: &Machine) -> Reading {
    match machine.number(RINGS) {
        // Where other settings can be read, its absence is an answer.
        None if machine.text(KERNEL).is_some() => Reading::fine("no such setting"),
        None => Reading::unreadable(RINGS),
        Some(value) => Reading::fine_if(value == 0, value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{self, Fine, Unreadable, Wrong};
    use super::super::tests::{check, check_machine};
    use super::*;

    const TABLE: &str = "\
        27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 27 0:27 / /srv rw,noatime shared:1 - overlay overlay rw\n\
        31 30 0:28 / /srv/memory rw - tmpfs tmpfs rw\n\
        32 30 0:29 / /srv/media ro - nfs4 host:/media rw\n\
        33 30 0:30 / /srv/our\\040own rw - xfs /dev/vdb rw\n\
        34 30 0:31 / /srv/back\\134slash rw,relatime - btrfs /dev/vdc rw\n\
        35 30 0:32 / /srv/image ro - erofs /dev/vdd ro\n";

    fn at(directory: &str) -> Machine {
        Machine { directory: directory.into(), ..Machine::with_files(&[(MOUNTS, TABLE)]) }
    }

    #[track_caller]
    fn file_system_at(directory: &str, verdict: Verdict, expected: &str) {
        assert_eq!(check_machine("file system", &at(directory), verdict).found, expected);
    }

    #[test]
    fn the_lowest_mount_counts() {
        file_system_at("/var/www", Fine, "ext4, mounted at /");
        file_system_at("/srv/www", Wrong, "overlay, mounted at /srv");
        file_system_at("/srvice", Fine, "ext4, mounted at /");
        file_system_at("/srv/memory/x", Fine, "tmpfs, mounted at /srv/memory");
        file_system_at("/srv/image", Fine, "erofs, mounted at /srv/image");
        file_system_at("/srv/media", Wrong, "nfs4, mounted at /srv/media");
        check("file system", &[], Unreadable);
    }

    #[test]
    fn names_are_in_octal_where_they_would_end_a_field() {
        file_system_at("/srv/our own/site", Fine, "xfs, mounted at /srv/our own");
        file_system_at("/srv/our", Wrong, "overlay, mounted at /srv");
        file_system_at(r"/srv/back\slash", Fine, r"btrfs, mounted at /srv/back\slash");
        let check = |field, expected| assert_eq!(unescaped(field), expected);
        check(r"/a\040b\011c\012d\043", "/a b\tc\nd#");
        check(r"/no\04", r"/no\04");
        check(r"/é\040ü", "/é ü");
    }

    #[test]
    fn times_of_access() {
        check_machine("access times", &at("/var/www"), Fine);
        check_machine("access times", &at("/srv/www"), Fine);
        check_machine("access times", &at("/srv/media"), Fine);
        let reading = check_machine("access times", &at("/srv/memory"), Wrong);
        assert_eq!(reading.mend.as_deref(), Some("mount -o remount,noatime /srv/memory"));
        let reading = check_machine("access times", &at("/srv/our own"), Wrong);
        assert_eq!(reading.mend.as_deref(), Some("mount -o remount,noatime '/srv/our own'"));
        check("access times", &[], Unreadable);
    }

    #[test]
    fn rings_may_be_switched_off() {
        check("io_uring_disabled", &[(RINGS, "0")], Fine);
        check("io_uring_disabled", &[(RINGS, "2")], Wrong);
        check("io_uring_disabled", &[(KERNEL, "6.1")], Fine);
        check("io_uring_disabled", &[], Unreadable);
    }
}
