//! How much disk I/O a file set causes, by the part of the requested files that the page cache can
//! hold.
//!
//! A group's memory is bounded so that the page cache gets that share and a small constant amount
//! is left for the server. A server that needs more takes it from the page cache: that is what the
//! studies of memory pressure are about, so it is not compensated. Page cache is charged to the
//! group that reads a page first. Hence files are evicted before each run, and then read by a
//! process in the group until the share is in memory.

use super::accessed::Accessed;
use super::enclosure::Enclosure;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::process::{Command, Stdio};

/// Levels of disk I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskIo {
    /// All requested files are in memory: nothing may be read from the disk.
    None,
    /// Four fifths are in memory, as in Radhakrishnan's thesis (section 3.1).
    Moderate,
    /// Two fifths are in memory. The literature names machines with little memory, but no share.
    Heavy,
}

impl DiskIo {
    /// The size of the page cache divided by that of the accessed files.
    pub fn cache_share(self) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Moderate => 0.8,
            Self::Heavy => 0.4,
        }
    }

    /// Checks whether a run in which so many bytes were read from the disk was one of this level.
    /// None means that reads could not be observed.
    ///
    /// # Errors
    /// The reason why the run is void: nothing may be read at `None`, something must be at `Heavy`.
    pub fn judge(self, block_read_bytes: Option<u64>) -> Result<(), String> {
        match (self, block_read_bytes) {
            (Self::Moderate, _) => Ok(()),
            (_, None) => Err("whether the disk was read is not known".into()),
            (Self::None, Some(bytes)) if bytes > 0 => {
                Err(format!("{bytes} bytes were read from the disk, and all should be in memory"))
            }
            (Self::Heavy, Some(0)) => Err("nothing was read from the disk".into()),
            _ => Ok(()),
        }
    }
}

/// The memory of a testbed, given in exactly one of three ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// By the level of disk I/O.
    pub disk_io: Option<DiskIo>,
    /// By the share of the accessed set that the page cache holds.
    pub cache_share: Option<f64>,
    /// By the memory of all servers and their page cache together.
    pub limit_bytes: Option<u64>,
    /// The memory that is left for the servers beside the page cache (8 MiB). Servers that need
    /// more have less page cache.
    pub server_bytes: Option<u64>,
}

/// The memory of a group, and the size of the page cache that is filled in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The bound of the group; none where there is to be no disk I/O.
    pub limit_bytes: Option<u64>,
    /// The page cache that the group should have before a run, in whole pages.
    pub cache_bytes: u64,
    /// The pages of all requested files.
    pub accessed_bytes: u64,
}

/// The contents of the page cache after it has been prepared for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Bytes still in memory after the eviction: files that a process has mapped.
    pub kept_bytes: u64,
    /// Bytes of the files that are in memory now.
    pub resident_bytes: u64,
    /// Bytes of the files that should be in memory.
    pub wanted_bytes: u64,
}

const SERVER_BYTES: u64 = 8 << 20;

/// The largest part of the files that may stay in memory after an eviction: a page that another
/// process reads at that moment, not a file.
const KEPT_SHARE_MAX: f64 = 0.01;

/// The largest difference of the bytes in memory from the plan, as a part of all files: a quarter
/// of the difference between the levels.
const OFF_SHARE_MAX: f64 = 0.1;

impl Memory {
    /// Checks that the memory is given in one way, and makes sense.
    ///
    /// # Errors
    /// What is wrong, in a line.
    pub fn check(&self) -> Result<(), String> {
        let ways = [self.disk_io.is_some(), self.cache_share.is_some(), self.limit_bytes.is_some()];
        match ways.iter().filter(|way| **way).count() {
            1 => {}
            0 => return Err("memory: give disk_io, cache_share or limit_bytes".into()),
            _ => return Err("memory: disk_io, cache_share, limit_bytes exclude each other".into()),
        }
        if self.cache_share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err("memory: cache_share is above 0 and at most 1".into());
        }
        let server_bytes = self.server_bytes.unwrap_or(SERVER_BYTES);
        match self.limit_bytes {
            Some(limit) if limit <= server_bytes => {
                Err(format!("memory: limit_bytes must be more than server_bytes ({server_bytes})"))
            }
            _ => Ok(()),
        }
    }

    /// The plan for files of `accessed_bytes`, counted in whole pages.
    pub fn plan(&self, accessed_bytes: u64) -> Plan {
        let server_bytes = self.server_bytes.unwrap_or(SERVER_BYTES);
        if let Some(limit) = self.limit_bytes {
            let cache_bytes = limit.saturating_sub(server_bytes).min(accessed_bytes);
            return Plan { limit_bytes: Some(limit), cache_bytes, accessed_bytes };
        }
        let share = self.cache_share.or(self.disk_io.map(DiskIo::cache_share)).unwrap_or(1.0);
        let cache_bytes = (accessed_bytes as f64 * share) as u64;
        let is_bounded = self.disk_io != Some(DiskIo::None);
        let limit_bytes = is_bounded.then_some(cache_bytes + server_bytes);
        Plan { limit_bytes, cache_bytes, accessed_bytes }
    }
}

impl Settled {
    /// Checks that the page cache is as planned.
    ///
    /// # Errors
    /// The reason why a run from here would be void: it would be measured under no memory pressure,
    /// or under another than planned.
    pub fn judge(&self, plan: &Plan) -> Result<(), String> {
        // Without a bound the bytes read from the disk are the better evidence.
        if plan.limit_bytes.is_none() {
            return Ok(());
        }
        let all = plan.accessed_bytes;
        let part = |bytes: u64| bytes as f64 / all.max(1) as f64;
        // Files that shall all be in memory need not have left it.
        if plan.cache_bytes < all && part(self.kept_bytes) > KEPT_SHARE_MAX {
            return Err(format!(
                "{} of {all} bytes of files could not be evicted: a process has mapped them, or \
                 they lie on a file system in memory",
                self.kept_bytes
            ));
        }
        if part(self.resident_bytes.abs_diff(self.wanted_bytes)) > OFF_SHARE_MAX {
            return Err(format!(
                "{} of {all} bytes of files are in memory, and {} should be",
                self.resident_bytes, self.wanted_bytes
            ));
        }
        Ok(())
    }

    /// The bytes of files as numbers by name, with the totals that they are parts of.
    pub(crate) fn figures(&self, plan: &Plan) -> impl Iterator<Item = (String, f64)> {
        let figures = [
            ("files_accessed_bytes", Some(plan.accessed_bytes)),
            ("files_kept_bytes", Some(self.kept_bytes)),
            ("files_wanted_bytes", Some(self.wanted_bytes)),
            ("files_resident_bytes", Some(self.resident_bytes)),
            ("memory_limit_bytes", plan.limit_bytes),
        ];
        figures.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes? as f64)))
    }
}

impl Plan {
    /// Evicts the files, then reads the most popular of them from within the enclosure until the
    /// share is in memory. To be called before each run and before the server starts: files that it
    /// has mapped cannot be evicted.
    ///
    /// # Errors
    /// When files cannot be opened, or no process can be started in the enclosure.
    pub fn prepare_page_cache(
        &self,
        files: &Accessed,
        enclosure: &Enclosure,
    ) -> Result<Settled, String> {
        files.evict()?;
        let kept_bytes = files.resident_bytes()?;
        let (list, wanted_bytes) = files.most_popular(self.cache_bytes);
        read_within(enclosure, &list)?;
        Ok(Settled { kept_bytes, resident_bytes: files.resident_bytes()?, wanted_bytes })
    }
}

/// Runs a process in the enclosure that reads the files of a list in order; their names are
/// separated by NUL bytes.
fn read_within(enclosure: &Enclosure, list: &[u8]) -> Result<(), String> {
    const READ: &str = r#"for group; do echo 0 > "$group" || exit 1; done
        exec xargs -0 -r cat > /dev/null"#;
    let explain = |why| format!("no process can fill the page cache: {why}");
    let mut shell = Command::new("sh");
    shell.args(["-c", READ, "sh"]).args(enclosure.entrances()).stdin(Stdio::piped());
    shell.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = shell.spawn().map_err(explain)?;
    let written = child.stdin.take().map(|mut pipe| pipe.write_all(list));
    let output = child.wait_with_output().map_err(explain)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " / ");
        return Err(format!("no process can fill the page cache: {said}"));
    }
    written.unwrap_or(Ok(())).map_err(explain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs;
    use std::fs;
    use std::path::Path;

    const MIB: u64 = 1 << 20;

    fn with_disk_io(disk_io: DiskIo) -> Memory {
        Memory { disk_io: Some(disk_io), ..Memory::default() }
    }

    #[test]
    fn levels_are_shares_of_what_is_accessed() {
        let none = Plan { limit_bytes: None, cache_bytes: 100 * MIB, accessed_bytes: 100 * MIB };
        assert_eq!(with_disk_io(DiskIo::None).plan(100 * MIB), none);
        let moderate = with_disk_io(DiskIo::Moderate).plan(100 * MIB);
        assert_eq!((moderate.limit_bytes, moderate.cache_bytes), (Some(88 * MIB), 80 * MIB));
        let heavy =
            Memory { server_bytes: Some(MIB), ..with_disk_io(DiskIo::Heavy) }.plan(100 * MIB);
        assert_eq!((heavy.limit_bytes, heavy.cache_bytes), (Some(41 * MIB), 40 * MIB));
        let limit = Memory { limit_bytes: Some(20 * MIB), ..Memory::default() };
        assert_eq!(limit.plan(100 * MIB).cache_bytes, 12 * MIB);
        assert_eq!(limit.plan(MIB).cache_bytes, MIB);
    }

    #[test]
    fn one_way_to_say_it_is_enough() {
        assert_eq!(with_disk_io(DiskIo::Heavy).check(), Ok(()));
        let why = |memory: Memory| memory.check().expect_err("it is wrong");
        assert!(why(Memory::default()).contains("give disk_io"));
        let two = Memory { limit_bytes: Some(1 << 30), ..with_disk_io(DiskIo::Heavy) };
        assert!(why(two).contains("exclude"));
        let share = Memory { cache_share: Some(1.5), ..Memory::default() };
        assert!(why(share).contains("at most 1"));
        let small = Memory { limit_bytes: Some(1024), ..Memory::default() };
        assert!(why(small).contains("more than server_bytes (8388608)"));
    }

    #[test]
    fn runs_that_read_what_they_should_not_are_void() {
        assert_eq!(DiskIo::None.judge(Some(0)), Ok(()));
        assert!(DiskIo::None.judge(Some(512)).is_err());
        assert!(DiskIo::None.judge(None).is_err());
        assert_eq!(DiskIo::Heavy.judge(Some(512)), Ok(()));
        assert!(DiskIo::Heavy.judge(Some(0)).is_err());
        assert!(DiskIo::Heavy.judge(None).is_err());
        for bytes in [None, Some(0), Some(1)] {
            assert_eq!(DiskIo::Moderate.judge(bytes), Ok(()));
        }
    }

    #[test]
    fn a_page_cache_that_is_not_as_planned_is_reported() {
        let plan = with_disk_io(DiskIo::Moderate).plan(100 * MIB);
        let settled = |kept, resident| Settled {
            kept_bytes: kept * MIB,
            resident_bytes: resident * MIB,
            wanted_bytes: 80 * MIB,
        };
        let check = |settled: Settled, plan: &Plan, expected: Option<&str>| {
            let why = settled.judge(plan).err();
            assert_eq!(why.is_some(), expected.is_some(), "{settled:?}: {why:?}");
            let told = why.unwrap_or_default();
            assert!(told.contains(expected.unwrap_or_default()), "{told}");
        };
        check(settled(0, 80), &plan, None);
        check(settled(1, 75), &plan, None);
        check(settled(2, 80), &plan, Some("2097152 of 104857600 bytes of files could not be"));
        check(settled(100, 100), &plan, Some("could not be evicted"));
        check(settled(0, 60), &plan, Some("62914560 of 104857600 bytes of files are in memory"));
        check(settled(0, 95), &plan, Some("and 83886080 should be"));
        // Files that shall all be in memory may stay there.
        check(settled(100, 100), &with_disk_io(DiskIo::None).plan(100 * MIB), None);
        let roomy = Memory { limit_bytes: Some(200 * MIB), ..Memory::default() }.plan(80 * MIB);
        check(settled(80, 80), &roomy, None);
        check(settled(0, 60), &roomy, Some("are in memory, and"));
        let figures: Vec<(String, f64)> = settled(1, 75).figures(&plan).collect();
        assert_eq!(figures.len(), 5);
        assert!(figures.contains(&("files_kept_bytes".to_owned(), MIB as f64)), "{figures:?}");
    }

    /// Files that a process has mapped, and files of a file system in memory, cannot be evicted.
    #[test]
    fn files_that_cannot_be_evicted_make_runs_void() {
        if !needs::memory_can_be_bounded() {
            return;
        }
        let judged = |files: &Accessed| {
            let plan = with_disk_io(DiskIo::Moderate).plan(files.bytes());
            let mut enclosure = Enclosure::create();
            enclosure.bound_memory(plan.limit_bytes).expect("root may bound memory");
            plan.prepare_page_cache(files, &enclosure).expect("the files are there").judge(&plan)
        };
        let (files, _folder) = Accessed::example("held", 20, 64 << 10);
        let held = files.hold().expect("it is little");
        let why = judged(&files).expect_err("they are mapped");
        assert!(why.contains("could not be evicted"), "{why}");
        drop(held);
        assert_eq!(judged(&files), Ok(()));
        let folder = Path::new("/dev/shm").join(format!("ropewalk-settle-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is a file system in memory");
        fs::write(folder.join("0"), vec![7; 1 << 20]).expect("there is room");
        let why = judged(&Accessed::of_folder(&folder).expect("it is there"));
        fs::remove_dir_all(&folder).expect("it is ours");
        assert!(why.expect_err("they are in memory").contains("file system in memory"));
    }

    /// Most of the set is evicted, and the most popular files are read again.
    #[test]
    fn the_page_cache_is_filled_from_within_a_group() {
        if !needs::memory_can_be_bounded() {
            return;
        }
        let (files, _folder) = Accessed::example("settle", 40, 64 << 10);
        let memory =
            Memory { cache_share: Some(0.5), server_bytes: Some(4 * MIB), ..Memory::default() };
        let plan = memory.plan(files.bytes());
        let mut enclosure = Enclosure::create();
        enclosure.bound_memory(plan.limit_bytes).expect("root may bound memory");
        let settled = plan.prepare_page_cache(&files, &enclosure).expect("the files are there");
        assert_eq!((settled.kept_bytes, settled.wanted_bytes), (0, 20 * (64 << 10)));
        assert_eq!(settled.resident_bytes, settled.wanted_bytes);
        let folder = enclosure.memory().expect("it counts memory");
        let charged = crate::observe::page_cache_bytes(folder).expect("the kernel says so");
        assert!(charged >= settled.wanted_bytes, "{charged}");
    }
}
