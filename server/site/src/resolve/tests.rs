//! Resolution on made-up file systems.

use std::cell::{Cell, RefCell};
use std::fs::File;

use super::*;
use crate::host::{HostSettings, Site};

/// A root with one file, `f`, that may be unreadable. Counts lookups.
struct OneFile {
    is_readable: Cell<bool>,
    lookups: Cell<usize>,
    refused: RefCell<Vec<(Vec<u8>, Refusal)>>,
}

impl OneFile {
    fn new(is_readable: bool) -> Self {
        Self {
            is_readable: Cell::new(is_readable),
            lookups: Cell::new(0),
            refused: RefCell::default(),
        }
    }

    /// Returns the status of a path. A change of mode changes the status-change time of the file
    /// and nothing else.
    fn status(&self, path: &[u8]) -> io::Result<(Kind, Identity)> {
        self.lookups.set(self.lookups.get() + 1);
        let changed_ns = i128::from(self.is_readable.get());
        let identity = |inode, changed_ns| Identity {
            device: 1,
            inode,
            len: 0,
            modified_ns: 5_000_000_000,
            changed_ns,
        };
        match path {
            b"" => Ok((Kind::Directory, identity(1, 0))),
            b"f/a" if !self.is_readable.get() => Err(io::ErrorKind::PermissionDenied.into()),
            b"f" => Ok((Kind::Regular, identity(2, changed_ns))),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Files for OneFile {
    fn open(&self, path: &[u8], _: Symlinks) -> Result<Opened, Unopened> {
        let (kind, identity) = self.status(path)?;
        if kind == Kind::Regular && !self.is_readable.get() {
            return Err(Unopened::Refused(Refusal::Permission));
        }
        Ok(Opened { file: FileRef::new(File::open("/dev/null")?.into()), kind, identity })
    }

    fn identity(&self, path: &[u8], _: Symlinks) -> io::Result<Identity> {
        self.status(path).map(|(_, identity)| identity)
    }

    fn read(&self, _: &FileRef, _: usize) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn read_at(&self, _: &FileRef, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn identity_of(&self, _: &FileRef) -> io::Result<Identity> {
        self.status(b"f").map(|(_, identity)| identity)
    }

    fn hashed(&self, _: &Identity) -> Option<Hashed> {
        None
    }

    fn report_refusal(&self, path: &[u8], why: Refusal) {
        self.refused.borrow_mut().push((path.to_vec(), why));
    }
}

fn resolved(path: &str, files: &OneFile) -> Entry {
    let site = Site::new(vec![HostSettings::new("/".into())]).unwrap();
    resolve(site.host(0), path.as_bytes(), files, 10_000_000_000, 1000).unwrap()
}

#[test]
fn a_change_of_mode_is_a_change() {
    for (before, after) in [(false, true), (true, false)] {
        let files = OneFile::new(before);
        let entry = resolved("/f", &files);
        assert_eq!(matches!(entry.resource, Resource::Forbidden), !before);
        assert!(is_current(&entry, Symlinks::Beneath, &files));
        files.is_readable.set(after);
        assert!(!is_current(&entry, Symlinks::Beneath, &files), "readable before: {before}");
    }
}

#[test]
fn what_may_not_be_opened_is_forbidden_with_and_without_a_slash() {
    let files = OneFile::new(false);
    for path in ["/f", "/f/", "/f/a"] {
        let resource = resolved(path, &files).resource;
        assert!(matches!(resource, Resource::Forbidden), "{path}: {resource:?}");
        let reported = files.refused.take();
        let path = path.trim_matches('/').as_bytes().to_vec();
        assert_eq!(reported, [(path, Refusal::Permission)]);
    }
    resolved("/missing", &files);
    assert_eq!(files.refused.take(), [], "what is not there is not refused");
}

/// A root with a directory, `d`, that may not be read, and optionally its index.
struct Closed {
    index: Result<Kind, fn() -> Unopened>,
    refused: RefCell<Vec<Vec<u8>>>,
}

impl Files for Closed {
    fn open(&self, path: &[u8], symlinks: Symlinks) -> Result<Opened, Unopened> {
        let kind = match path {
            b"d" => return Err(Unopened::ClosedDirectory),
            b"d/index.html" => self.index.map_err(|why| why())?,
            b"" => Kind::Directory,
            _ => return Err(Unopened::Absent),
        };
        let file = FileRef::new(File::open("/dev/null")?.into());
        Ok(Opened { file, kind, identity: self.identity(path, symlinks)? })
    }

    fn identity(&self, _: &[u8], _: Symlinks) -> io::Result<Identity> {
        Ok(Identity { device: 1, inode: 1, len: 0, modified_ns: 0, changed_ns: 0 })
    }

    fn read(&self, _: &FileRef, _: usize) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn read_at(&self, _: &FileRef, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn identity_of(&self, _: &FileRef) -> io::Result<Identity> {
        self.identity(b"", Symlinks::Beneath)
    }

    fn hashed(&self, _: &Identity) -> Option<Hashed> {
        None
    }

    fn report_refusal(&self, path: &[u8], _: Refusal) {
        self.refused.borrow_mut().push(path.to_vec());
    }
}

#[test]
fn a_directory_that_may_not_be_read_has_an_index() {
    let check = |index, listing, path: &str, expected: &str, reported: &[&str]| {
        let files = Closed { index, refused: RefCell::default() };
        let settings = HostSettings { listing, ..HostSettings::new("/".into()) };
        let site = Site::new(vec![settings]).unwrap();
        let entry = resolve(site.host(0), path.as_bytes(), &files, 10_000_000_000, 1000);
        let resource = format!("{:?}", entry.unwrap().resource);
        assert!(resource.starts_with(expected), "{path}: {resource}");
        assert_eq!(
            files.refused.take(),
            reported.iter().map(|it| it.as_bytes()).collect::<Vec<_>>()
        );
    };
    for listing in [false, true] {
        check(Ok(Kind::Regular), listing, "/d/", "File", &[]);
        check(Ok(Kind::Regular), listing, "/d", "Redirect", &[]);
        for path in ["/d/", "/d"] {
            let refused: fn() -> Unopened = || Unopened::Refused(Refusal::Permission);
            check(Err(|| Unopened::Absent), listing, path, "Forbidden", &["d"]);
            check(Err(refused), listing, path, "Forbidden", &["d/index.html"]);
        }
    }
}

/// One file with a given length and given times, whose hash is not known.
struct Dated(Identity);

impl Files for Dated {
    fn open(&self, path: &[u8], symlinks: Symlinks) -> Result<Opened, Unopened> {
        let identity = self.identity(path, symlinks)?;
        let file = FileRef::new(File::open("/dev/null")?.into());
        Ok(Opened { file, kind: Kind::Regular, identity })
    }

    fn identity(&self, path: &[u8], _: Symlinks) -> io::Result<Identity> {
        if path == b"f" { Ok(self.0) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn read(&self, _: &FileRef, len: usize) -> io::Result<Vec<u8>> {
        Ok(vec![b'x'; len])
    }

    fn read_at(&self, _: &FileRef, _: &mut [u8], _: u64) -> io::Result<usize> {
        unreachable!("files are not hashed here")
    }

    fn identity_of(&self, _: &FileRef) -> io::Result<Identity> {
        Ok(self.0)
    }

    fn hashed(&self, _: &Identity) -> Option<Hashed> {
        None
    }
}

/// As long as the modification time is in the future, the date is sent in its place, and no date
/// makes a client's copy current.
#[test]
fn a_time_in_the_future_is_sent_when_it_has_come() {
    const COMES_S: i64 = 1_700_000_000;
    let site = Site::new(vec![HostSettings::new("/".into())]).unwrap();
    let ns = i128::from(COMES_S) * 1_000_000_000;
    let files = Dated(Identity { device: 1, inode: 2, len: 1, modified_ns: ns, changed_ns: 0 });
    let entry = resolve(site.host(0), b"/f", &files, ns - 1, 10).unwrap();
    let Resource::File(file) = &entry.resource else { panic!("{entry:?}") };
    for (now, reported, known) in [
        (COMES_S - 1, COMES_S - 1, None),
        (COMES_S, COMES_S, Some(COMES_S)),
        (COMES_S + 1_000, COMES_S, Some(COMES_S)),
    ] {
        let (date, reported) = (http1::format_date(now), http1::format_date(reported));
        let line = format!("\r\nLast-Modified: {}\r\n", str::from_utf8(&reported).unwrap());
        let mut head = Vec::new();
        file.variant(0).write_ok(&mut head, &date, b"");
        for head in [&head[..], &file.variant(0).fields(&date)] {
            let head = format!("\r\n{}", str::from_utf8(head).unwrap());
            assert!(head.contains(&line), "{head}");
        }
        assert_eq!(file.variant(0).validators(now).modified, known, "at {now}");
    }
}

#[test]
fn a_tag_promises_no_more_than_is_known() {
    const NOW_NS: i128 = 1_700_000_000_000_000_000;
    const S: i128 = 1_000_000_000;
    const LONG_AGO: i128 = NOW_NS - 1_000 * S + 1;
    let tag = |len, modified_ns, changed_ns| {
        let mut settings = HostSettings::new("/".into());
        settings.etag_hash_bytes_max = 1000;
        let site = Site::new(vec![settings]).unwrap();
        let files = Dated(Identity { device: 1, inode: 2, len, modified_ns, changed_ns });
        match resolve(site.host(0), b"/f", &files, NOW_NS, 10) {
            Ok(Entry { resource: Resource::File(file), .. }) => {
                String::from_utf8(file.variant(0).etag.as_bytes().to_vec()).unwrap()
            }
            Err(Unresolved::Unhashed(_)) => "to be hashed".into(),
            other => panic!("{other:?}"),
        }
    };
    let hash = |len| format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(&vec![b'x'; len]));
    let change = |len: u64, ns: i128| format!("\"{ns:x}-{len:x}\"");
    let hashed = || "to be hashed".to_string();
    let check = |len, modified_ns, changed_ns, expected: String| {
        assert_eq!(tag(len, modified_ns, changed_ns), expected, "{len} {modified_ns} {changed_ns}");
    };
    // A file in memory is hashed, whatever its times are.
    check(10, LONG_AGO, LONG_AGO, hash(10));
    check(10, 499_162_500 * S, LONG_AGO, hash(10));
    // A file that was written here, then renamed; a minute later its mode was changed.
    check(11, LONG_AGO, LONG_AGO, change(11, LONG_AGO));
    check(11, LONG_AGO, LONG_AGO + 60 * S, change(11, LONG_AGO + 60 * S));
    check(11, LONG_AGO, LONG_AGO + 61 * S, hashed());
    check(2000, LONG_AGO, LONG_AGO, change(2000, LONG_AGO));
    // Times that were set: to the past, to the future, to a second; a clock of seconds.
    check(11, LONG_AGO - 3600 * S, LONG_AGO, hashed());
    check(11, LONG_AGO + 1, LONG_AGO, hashed());
    check(11, LONG_AGO - 1, LONG_AGO, hashed());
    check(11, LONG_AGO - 1, LONG_AGO - 1, hashed());
    // A file that was changed just now: another change could have the same time.
    check(11, NOW_NS - 2 * S + 1, NOW_NS - 2 * S + 1, hashed());
    check(11, NOW_NS - 2 * S - 1, NOW_NS - 2 * S - 1, change(11, NOW_NS - 2 * S - 1));
    // A file that is too large to be hashed.
    check(1001, 499_162_500 * S, LONG_AGO, format!("W/{}", change(1001, LONG_AGO)));
    check(1001, NOW_NS - 1, NOW_NS - 1, format!("W/{}", change(1001, NOW_NS - 1)));
}

#[test]
fn a_long_path_to_nothing_costs_few_lookups() {
    let files = OneFile::new(true);
    let entry = resolved(&"/a".repeat(4000), &files);
    assert!(matches!(entry.resource, Resource::Missing));
    assert!(files.lookups.get() < 16, "{} lookups", files.lookups.get());
    assert!(is_current(&entry, Symlinks::Beneath, &files));
}
