//! The tool's log of each process image, parsed.
//!
//! A fork or an exec begins an image. A process that forks and then executes another program is two
//! images, of which the second has the first for its parent.

use crate::blocks::{Blocks, Expansion};
use crate::chunk::Record;
use crate::heap::Site;
use crate::regions::Regions;
use memory_trace::{Object, Region, RegionKind};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// How an image ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The image exited, or a signal that Valgrind sees ended it.
    Exit,
    /// The image executed another program.
    Exec,
    /// The image was killed, or is not known to have ended.
    Killed,
}

/// Why recording ended before the image did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The image had made as many references as requested.
    Limit,
    /// There was no room for more: the error number of the system.
    Error(i32),
}

/// One process image.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// The folder and the stem of the names of its files: `PID-N`.
    folder: PathBuf,
    pub(crate) stem: String,
    pub(crate) parent_stem: Option<String>,
    /// Whether a fork began it, and not an exec.
    pub(crate) forked: bool,
    pub(crate) parent_pid: u32,
    pub(crate) pid: u32,
    /// When the image began, to sort by.
    pub(crate) begun_us: u64,
    pub(crate) command: String,
    pub(crate) regions: Regions,
    /// For each number of a site: the calling addresses, from the function that allocates outwards.
    pub(crate) sites: HashMap<Site, Vec<u64>>,
    /// How many references are in each of its files of records, as far as the tool has recorded.
    counts: HashMap<u32, u64>,
    /// References that the tool has left out already, of those to be skipped.
    pub(crate) skipped: u64,
    pub(crate) stop: Option<Stop>,
    pub(crate) end: End,
    /// What the image executed that could not be recorded, and why.
    pub(crate) unrecorded: Option<String>,
    /// Other losses that the tool recorded.
    pub(crate) lost: Vec<String>,
}

impl Image {
    /// Reads a log.
    pub(crate) fn read(log: &Path) -> Result<Self, String> {
        let fault = |why: &dyn std::fmt::Display| format!("{}: {why}", log.display());
        let text = fs::read(log).map_err(|why| fault(&why))?;
        let stem = log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = log.parent().unwrap_or(Path::new(".")).to_owned();
        let (pid, _) = stem.split_once('-').ok_or_else(|| fault(&"not a name of a log"))?;
        let mut image = Self {
            pid: pid.parse().map_err(|why| fault(&why))?,
            folder,
            parent_stem: None,
            forked: false,
            parent_pid: 0,
            begun_us: u64::MAX,
            command: String::new(),
            regions: Regions::default(),
            sites: HashMap::new(),
            counts: HashMap::new(),
            skipped: 0,
            stop: None,
            end: End::Killed,
            unrecorded: None,
            lost: Vec::new(),
            stem,
        };
        for line in String::from_utf8_lossy(&text).lines() {
            if image.parse_line(line).is_none() {
                image.lost.push(format!("a line of its log: {line}"));
            }
        }
        if image.unrecorded.is_some() {
            image.end = End::Exec;
        }
        Ok(image)
    }

    /// The image's files of records, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let path = |n: u32| self.folder.join(format!("{}.{n}", self.stem));
        (0..).map(path).take_while(|path| path.exists())
    }

    /// How many references are in the image's files of records. If the image was killed the number
    /// for the last file is missing, and the file is read for it.
    pub(crate) fn references(&self) -> Result<u64, String> {
        let mut references = 0;
        let mut expansion = self.expansion()?;
        let mut count = |record: Record| {
            references += record.references();
            Ok(())
        };
        let mut counted = 0;
        for (number, chunk) in (0..).zip(self.chunks()) {
            if let Some(count) = self.counts.get(&number) {
                counted += *count;
                continue;
            }
            let bytes = fs::read(&chunk).map_err(|why| format!("{}: {why}", chunk.display()))?;
            expansion.chunk::<String>(&bytes, &mut count)?;
        }
        expansion.rest::<String>(&mut count)?;
        Ok(counted + references)
    }

    /// A converter for the records in the image's files.
    pub(crate) fn expansion(&self) -> Result<Expansion, String> {
        Ok(Expansion::new(Blocks::read(&self.folder, &self.stem)?))
    }

    /// Processes one line; none if it is not understood.
    fn parse_line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "process" => {
                let fields: Vec<&str> = rest.split(' ').collect();
                self.parent_pid = fields.get(1)?.parse().ok()?;
                self.parent_stem = fields.get(2).filter(|f| **f != "-").map(|f| (*f).to_owned());
                self.forked = self.parent_stem.is_some();
                self.begun_us = fields.get(3)?.parse().ok()?;
            }
            "command" => self.command = rest.to_owned(),
            "map" => {
                let region = mapped(rest)?;
                if region.kind == RegionKind::Private {
                    self.regions.anonymous_in_snapshot(&region);
                } else {
                    self.regions.map(&region);
                }
            }
            "shared" => self.regions.map(&shared(rest)?),
            "anonymous" => self.regions.map(&anonymous(rest)?),
            "site" => {
                let (number, callers) = rest.split_once(' ')?;
                let callers = callers.split(' ').map(hexadecimal).collect::<Option<_>>()?;
                self.sites.insert(number.parse().ok()?, callers);
            }
            "inherited" => self.regions.inherit(),
            "chunk" => {
                let (number, count) = rest.split_once(' ')?;
                self.counts.insert(number.parse().ok()?, count.parse().ok()?);
            }
            "skipped" => self.skipped = rest.parse().ok()?,
            "stopped" => self.stop = Some(stop(rest)?),
            "lost" => self.lost.push(rest.to_owned()),
            "unrecorded" => self.unrecorded = Some(rest.to_owned()),
            "resumed" => self.unrecorded = None,
            "end" => self.end = End::Exit,
            _ => return None,
        }
        Some(())
    }
}

fn stop(rest: &str) -> Option<Stop> {
    let (kind, number) = rest.split_once(' ')?;
    match kind {
        "limit" => Some(Stop::Limit),
        "error" => Some(Stop::Error(number.parse().ok()?)),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Parses `START END [NAME]`.
fn anonymous(rest: &str) -> Option<Region> {
    let mut fields = rest.splitn(3, ' ');
    let (start, end) = (hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?);
    let name = fields.next().unwrap_or("").to_owned();
    Some(Region { start, end, kind: RegionKind::Private, name, object: None })
}

/// Parses `START END [w-][sp] DEVICE INODE OFFSET NAME`.
fn mapped(rest: &str) -> Option<Region> {
    let mut fields = rest.splitn(7, ' ');
    let (start, end) = (hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?);
    let flags = fields.next()?;
    let device = hexadecimal(fields.next()?)?;
    let inode: u64 = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or("").to_owned();
    let object = (inode != 0).then_some(Object { device, inode, offset });
    let kind = match flags {
        "ws" | "-s" => RegionKind::Shared,
        "wp" if object.is_some() => RegionKind::CopyOnWrite,
        _ if object.is_some() => RegionKind::File,
        _ => RegionKind::Private,
    };
    Some(Region { start, end, kind, name, object })
}

/// Parses `START END PERMISSIONS OFFSET MAJOR:MINOR INODE NAME`, a line of /proc/PID/maps.
fn shared(rest: &str) -> Option<Region> {
    let mut fields = rest.split_ascii_whitespace();
    let (start, end) = (hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?);
    let writable = fields.next()?.contains('w');
    let offset = hexadecimal(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let (major, minor) = (hexadecimal(major)?, hexadecimal(minor)?);
    let inode = fields.next()?.parse().ok()?;
    let name = fields.collect::<Vec<_>>().join(" ");
    // The combination of the two numbers that stat(2) reports (makedev(3)).
    let device = minor & 0xff | major << 8 | (minor & !0xff) << 12;
    let kind = if writable { RegionKind::Shared } else { RegionKind::File };
    Some(Region { start, end, kind, name, object: Some(Object { device, inode, offset }) })
}

/// All images of a folder in the order in which they began.
pub(crate) fn images(folder: &Path) -> Result<Vec<Image>, String> {
    let fault = |why| format!("{}: {why}", folder.display());
    let mut images = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            images.push(Image::read(&path)?);
        }
    }
    images.sort_by_key(|image| (image.begun_us, image.stem.clone()));
    find_what_was_executed(&mut images);
    Ok(images)
}

/// Finds images that executed another program: an image with the number of an earlier one that did
/// not exit has replaced it.
fn find_what_was_executed(images: &mut [Image]) {
    for later in 1..images.len() {
        let (before, rest) = images.split_at_mut(later);
        let image = &mut rest[0];
        let same = |other: &&mut Image| other.pid == image.pid && other.end == End::Killed;
        if image.parent_stem.is_some() {
            continue;
        }
        if let Some(replaced) = before.iter_mut().rev().find(same) {
            replaced.end = End::Exec;
            image.parent_stem = Some(replaced.stem.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    fn folder_of(logs: &[(&str, &str)]) -> Temporary {
        let folder = Temporary::new();
        for (name, text) in logs {
            fs::write(folder.path().join(name), text).expect("it is writable");
        }
        folder
    }

    #[test]
    fn a_fork_and_an_exec_have_parents() {
        let folder = folder_of(&[
            ("10-0.log", "process 10 1 - 100\ncommand sh\nend 0\n"),
            ("11-0.log", "process 11 10 10-0 200\ncommand sh\n"),
            ("11-1.log", "process 11 10 - 300\ncommand ls\nstopped error 28\nend 0\n"),
            ("12-0.log", "process 12 10 10-0 250\ncommand sh\nskipped 77\nsurprise\n"),
            ("12-0.messages", ""),
        ]);
        let images = images(folder.path()).expect("all can be read");
        let parents: Vec<_> = images.iter().map(|i| i.parent_stem.as_deref()).collect();
        assert_eq!(parents, [None, Some("10-0"), Some("10-0"), Some("11-0")]);
        let ends: Vec<_> = images.iter().map(|image| image.end).collect();
        assert_eq!(ends, [End::Exit, End::Exec, End::Killed, End::Exit]);
        assert_eq!(images[3].stop, Some(Stop::Error(28)));
        assert_eq!(images[2].skipped, 77);
        assert_eq!(images[2].lost, ["a line of its log: surprise"]);
    }

    #[test]
    fn only_records_without_a_count_are_counted() {
        let folder = folder_of(&[("10-0.log", "process 10 1 - 100\nchunk 0 1000\n")]);
        let records = [17_u8, 0, 1, 0, 0, 0, 0, 0].repeat(3);
        for number in 0..2 {
            fs::write(folder.path().join(format!("10-0.{number}")), &records).expect("writable");
        }
        let images = images(folder.path()).expect("it can be read");
        assert_eq!(images[0].references(), Ok(1003));
    }

    #[test]
    fn kinds_of_memory_are_told_apart() {
        let lines = "\
            map 1000 2000 -p fe00 7 0 /usr/bin/a b\n\
            map 2000 3000 wp fe00 7 4096 /usr/bin/a b\n\
            map 3000 4000 wp 0 0 0 \n\
            map 8000 9000 wp 0 0 0 \n\
            anonymous 4000 5000 [heap]\n\
            shared 8000 9000 rw-s 00000000 00:01 1025 /dev/zero (deleted)\n\
            inherited\n";
        let folder = folder_of(&[("1-0.log", lines)]);
        let regions = images(folder.path()).expect("it can be read")[0].regions.list();
        let kinds: Vec<_> = regions.iter().map(|region| region.kind).collect();
        use RegionKind::{CopyOnWrite, File, Shared};
        assert_eq!(kinds, [File, CopyOnWrite, CopyOnWrite, CopyOnWrite, Shared]);
        assert_eq!(regions[0].name, "/usr/bin/a b");
        assert_eq!(regions[4].object, Some(Object { device: 1, inode: 1025, offset: 0 }));
    }
}
