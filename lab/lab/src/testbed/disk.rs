//! Limits on the rate at which the disk of the file set may be read and written: bounds of a
//! control group on a device, in bytes and in operations per second.
//!
//! Version 1 (`blkio.throttle.*`) holds back all reads, but only writes that bypass the page cache;
//! version 2 (`io.max`) holds back all reads and writes that are charged to the group.

use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Bounds per second; a rate that is not given is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Bytes read in a second.
    pub read_bytes_per_s: Option<u64>,
    /// Reads in a second.
    pub reads_per_s: Option<u64>,
    /// Bytes written in a second.
    pub write_bytes_per_s: Option<u64>,
    /// Writes in a second.
    pub writes_per_s: Option<u64>,
}

/// A whole disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The kernel's name of the disk, as in `/proc/diskstats`.
    pub name: String,
    /// Its major number.
    pub major: u64,
    /// Its minor number.
    pub minor: u64,
}

impl Device {
    /// Finds the disk on which a file or folder lies; for a partition, the whole disk.
    ///
    /// # Errors
    /// When the file is on no disk: on a file system in memory, over a network, or on top of
    /// others.
    pub fn find(path: &Path) -> Result<Self, String> {
        let explain = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let status = fs::metadata(path).map_err(|why| explain(&why))?;
        let at = |number: u64| {
            let (major, minor) = numbers(number);
            let found = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
            found.exists().then_some(found)
        };
        // Btrfs and others have device numbers of their own; the mounted device leads to the disk
        // then.
        let folder = at(status.dev()).or_else(|| at(mounted_device(path)?)).ok_or_else(|| {
            explain(&"it lies on no disk (a file system in memory, on a network, or on others)")
        })?;
        Self::read(&folder).ok_or_else(|| explain(&"the kernel does not describe its disk"))
    }

    /// Reads a folder of `/sys/dev/block`; the folder of a partition lies in that of its disk.
    fn read(folder: &Path) -> Option<Self> {
        let mut folder = fs::canonicalize(folder).ok()?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let numbers = fs::read_to_string(folder.join("dev")).ok()?;
        let (major, minor) = numbers.trim().split_once(':')?;
        let name = folder.file_name()?.to_str()?.replace('!', "/");
        Some(Self { name, major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Makes the kernel count what groups of version 1 do on this disk. It begins to count with the
    /// first rule that any group has for the disk: this rule bounds nothing.
    pub(crate) fn begin_counting(&self, folder: &Path) -> Result<(), String> {
        let file = folder.join("blkio.throttle.read_bps_device");
        let rule = format!("{}:{} 0", self.major, self.minor);
        fs::write(&file, rule).map_err(|why| format!("{}: {why}", file.display()))
    }

    /// Reads what the whole disk has done, from the text of `/proc/diskstats`.
    pub(crate) fn done(&self, diskstats: &str) -> Option<Done> {
        const SECTOR_BYTES: u64 = 512; // whatever the disk's own sectors are
        let fields = diskstats.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields.get(2) == Some(&self.name.as_str())).then_some(fields)
        })?;
        let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Done {
            reads: field(3)?,
            read_bytes: field(5)? * SECTOR_BYTES,
            written_bytes: field(9)? * SECTOR_BYTES,
            busy_ms: field(12)?,
        })
    }
}

/// What a disk has done since the machine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) busy_ms: u64,
}

impl Throttle {
    /// Checks that the bounds make sense.
    ///
    /// # Errors
    /// When a bound is 0, and when there is no bound.
    pub fn check(&self) -> Result<(), String> {
        let bounds = self.bounds();
        if bounds.iter().any(|bound| bound.value == Some(0)) {
            return Err("disk: a bound of 0 would stop all, leave it out or raise it".into());
        }
        match bounds.iter().any(|bound| bound.value.is_some()) {
            true => Ok(()),
            false => Err("disk: it bounds nothing, name read_bytes_per_s or another".into()),
        }
    }

    /// Sets the bounds on `device` of the control group at `folder`.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub(crate) fn apply(&self, folder: &Path, device: &Device) -> Result<(), String> {
        let is_unified = folder.join("io.max").exists();
        let at = format!("{}:{}", device.major, device.minor);
        for bound in self.bounds() {
            let Some(value) = bound.value else { continue };
            let (file, text) = match is_unified {
                true => ("io.max", format!("{at} {}={value}", bound.unified)),
                false => (bound.separate, format!("{at} {value}")),
            };
            fs::write(folder.join(file), text).map_err(|why| {
                format!(
                    "{} cannot be throttled: {}: {why}",
                    device.name,
                    folder.join(file).display()
                )
            })?;
        }
        Ok(())
    }

    fn bounds(&self) -> [Bound; 4] {
        let bound = |value, separate, unified| Bound { value, separate, unified };
        [
            bound(self.read_bytes_per_s, "blkio.throttle.read_bps_device", "rbps"),
            bound(self.reads_per_s, "blkio.throttle.read_iops_device", "riops"),
            bound(self.write_bytes_per_s, "blkio.throttle.write_bps_device", "wbps"),
            bound(self.writes_per_s, "blkio.throttle.write_iops_device", "wiops"),
        ]
    }
}

/// A bound and its name in either version of control groups.
struct Bound {
    value: Option<u64>,
    separate: &'static str,
    unified: &'static str,
}

/// The major and minor numbers of a device number, as the C library packs them.
fn numbers(device: u64) -> (u64, u64) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff & 0xffff_ffff);
    (major, minor)
}

/// The number of the device that is mounted where `path` lies.
fn mounted_device(path: &Path) -> Option<u64> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let source = source_of(&mounts, &path)?;
    let status = fs::metadata(source).ok()?;
    status.file_type().is_block_device().then(|| status.rdev())
}

/// The source that is mounted at the deepest mount point above `path`.
fn source_of<'m>(mounts: &'m str, path: &Path) -> Option<&'m str> {
    let pairs = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, fields.next()?))
    });
    let above = pairs.filter(|(_, point)| path.starts_with(point));
    above.max_by_key(|(_, point)| point.len()).map(|(source, _)| source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::enclosure::Enclosure;

    #[test]
    fn numbers_are_unpacked() {
        assert_eq!(numbers(0xfe00), (254, 0));
        assert_eq!(numbers(0x0010_0301), (3, 0x101));
        assert_eq!(numbers(0x1000_0000_0700), (0x1007, 0));
    }

    #[test]
    fn what_a_disk_did_is_read() {
        let device = Device { name: "vda".into(), major: 254, minor: 0 };
        let text =
            "   7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n 254 0 vda 57 2 20 34 75 19 46 35 0 12 38\n";
        let expected = Done { reads: 57, read_bytes: 10_240, written_bytes: 23_552, busy_ms: 12 };
        assert_eq!(device.done(text), Some(expected));
        assert_eq!(device.done(""), None);
    }

    #[test]
    fn the_deepest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /srv btrfs rw 0 0\nproc /proc proc rw 0 0\n";
        assert_eq!(source_of(mounts, Path::new("/srv/files/1")), Some("/dev/b"));
        assert_eq!(source_of(mounts, Path::new("/srvfiles")), Some("/dev/a"));
    }

    #[test]
    fn bounds_of_zero_and_missing_bounds_are_refused() {
        assert!(Throttle::default().check().is_err());
        assert!(Throttle { reads_per_s: Some(0), ..Throttle::default() }.check().is_err());
        assert_eq!(Throttle { reads_per_s: Some(1), ..Throttle::default() }.check(), Ok(()));
    }

    #[test]
    fn what_lies_on_no_disk_says_so() {
        let why = Device::find(Path::new("/proc/version")).expect_err("it is made up");
        assert!(why.starts_with("/proc/version: it lies on no disk"), "{why}");
    }

    /// The kernel shows the bound that was written.
    #[test]
    fn a_disk_is_throttled() {
        let here = std::env::current_exe().expect("it runs");
        let device = Device::find(&here).expect("the target directory is on a disk");
        if !crate::needs::disk_can_be_counted(&device) {
            return;
        }
        let mut enclosure = Enclosure::create();
        let folder = enclosure.count_disk(Some(&device)).expect("it can").to_owned();
        let throttle = Throttle { read_bytes_per_s: Some(1 << 20), ..Throttle::default() };
        throttle.apply(&folder, &device).expect("a whole disk can be throttled");
        let said = ["io.max", "blkio.throttle.read_bps_device"]
            .iter()
            .find_map(|file| fs::read_to_string(folder.join(file)).ok())
            .expect("one of them is there");
        assert!(said.contains("1048576"), "{said}");
        let unknown = Device { name: "none".into(), major: 4000, minor: 1 };
        assert!(throttle.apply(&folder, &unknown).is_err());
    }
}
