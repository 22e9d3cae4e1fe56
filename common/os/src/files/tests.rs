//! Tests of files against the real kernel. Resolution is tested both ways, by openat2 and step by
//! step, with the same table.

use super::*;
use crate::clock;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ropewalk-os-files-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        // Absolute links name it; links on the way to it must not count.
        Self(path.canonicalize().unwrap())
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.0.join(name)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BOTH: [fn(&Path) -> io::Result<Root>; 2] = [Root::new, Root::with_fallback_forced];
const POLICIES: [Symlinks; 3] = [Symlinks::Beneath, Symlinks::Never, Symlinks::Anywhere];

fn contents(file: &OwnedFd) -> io::Result<String> {
    let mut buffer = [0; 64];
    let len = read_at(file.as_fd(), &mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
}

/// What opening a path comes to: the file's text, "directory", or the error's symbol.
fn outcome(root: &Root, path: &[u8], symlinks: Symlinks) -> String {
    let opened = root.open(path, symlinks);
    let by_status = root.stat_relative(path, symlinks);
    match (&opened, by_status) {
        (Ok(file), Ok(status)) => assert_eq!(FileStatus::from_file(file.as_fd()).unwrap(), status),
        (Err(one), Err(other)) => assert_eq!(one.raw_os_error(), other.raw_os_error()),
        (opened, status) => panic!("open: {opened:?}, stat_relative: {status:?}"),
    }
    let symbol = |error: io::Error| match error.raw_os_error().unwrap() {
        libc::ENOENT => "ENOENT".to_owned(),
        libc::ENOTDIR => "ENOTDIR".to_owned(),
        libc::ELOOP => "ELOOP".to_owned(),
        libc::EXDEV => "EXDEV".to_owned(),
        libc::ENAMETOOLONG => "ENAMETOOLONG".to_owned(),
        libc::EINVAL => "EINVAL".to_owned(),
        libc::EISDIR => "directory".to_owned(), // from reading one
        _ => error.to_string(),
    };
    opened.and_then(|file| contents(&file)).unwrap_or_else(symbol)
}

/// `site` is the root; `outside` lies next to it.
fn tree() -> Scratch {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.0.join(name);
    fs::create_dir_all(at("site/directory/deep")).unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::write(at("outside/secret"), "secret").unwrap();
    fs::write(at("site/plain"), "plain").unwrap();
    fs::write(at("site/directory/nested"), "nested").unwrap();
    fs::write(at("site/directory/deep/leaf"), "leaf").unwrap();
    fs::write(at("site").join("n".repeat(255)), "long").unwrap();

    scratch.link("site/to_plain", "plain");
    scratch.link("site/to_to_plain", "to_plain");
    scratch.link("site/to_directory", "directory");
    scratch.link("site/to_directory_slash", "directory/");
    scratch.link("site/to_plain_slash", "plain/");
    scratch.link("site/to_dot", ".");
    scratch.link("site/directory/up_inside", "../plain");
    scratch.link("site/directory/deep/up_twice", "../../plain");
    scratch.link("site/directory/roundabout", "deep/../../directory/./nested");
    scratch.link("site/up_outside", "../outside/secret");
    scratch.link("site/directory/up_outside", "../../outside/secret");
    scratch.link("site/up_and_back", "../site/plain");
    scratch.link("site/to_parent", "..");
    scratch.link("site/absolute_inside", at("site/plain"));
    scratch.link("site/absolute_outside", at("outside/secret"));
    scratch.link("site/absolute_directory", at("site/directory"));
    scratch.link("site/dangling", "missing");
    scratch.link("site/loop", "other_loop");
    scratch.link("site/other_loop", "loop");
    scratch.link("site/to_proc_root", "/proc/self/root");
    scratch.link("site/chain_1", "plain");
    for n in 2..=41 {
        scratch.link(&format!("site/chain_{n}"), format!("chain_{}", n - 1));
    }
    scratch
}

#[test]
fn paths_resolve_alike_both_ways() {
    let scratch = tree();
    let roots = BOTH.map(|open| open(&scratch.0.join("site")).unwrap());
    let check = |path: &[u8], expected: [&str; 3]| {
        for (root, way) in roots.iter().zip(["openat2", "step by step"]) {
            let seen = POLICIES.map(|policy| outcome(root, path, policy));
            let path = String::from_utf8_lossy(path);
            assert_eq!(seen, expected, "{path} {way}; expected for {POLICIES:?}");
        }
    };
    let same = |path: &[u8], expected| check(path, [expected; 3]);

    same(b"", "directory");
    same(b"plain", "plain");
    same(b"directory", "directory");
    same(b"directory/", "directory");
    same(b"directory/nested", "nested");
    same(b"directory//deep/./leaf", "leaf");
    same(b"missing", "ENOENT");
    same(b"missing/further", "ENOENT");
    same(b"plain/", "ENOTDIR");
    same(b"plain/further", "ENOTDIR");
    same(b"plain/.", "ENOTDIR");
    same("n".repeat(255).as_bytes(), "long");
    same("n".repeat(256).as_bytes(), "ENAMETOOLONG");
    same(&b"./".repeat(2_047), "directory");
    same(&b"./".repeat(2_048), "ENAMETOOLONG");
    same(b"plain\0", "EINVAL");
    same(b"plain\0.html", "EINVAL");

    same(b"/plain", "EXDEV");
    same(b"/etc/passwd", "EXDEV");
    same(b"..", "EXDEV");
    same(b"directory/../plain", "EXDEV");
    same(b"directory/..", "EXDEV");
    same(b"..plain", "ENOENT");

    check(b"to_plain", ["plain", "ELOOP", "plain"]);
    check(b"to_to_plain", ["plain", "ELOOP", "plain"]);
    check(b"to_plain/", ["ENOTDIR", "ELOOP", "ENOTDIR"]);
    check(b"to_plain_slash", ["ENOTDIR", "ELOOP", "ENOTDIR"]);
    check(b"to_directory", ["directory", "ELOOP", "directory"]);
    check(b"to_directory/nested", ["nested", "ELOOP", "nested"]);
    check(b"to_directory_slash/nested", ["nested", "ELOOP", "nested"]);
    check(b"to_dot/to_dot/plain", ["plain", "ELOOP", "plain"]);
    check(b"directory/up_inside", ["plain", "ELOOP", "plain"]);
    check(b"to_directory/up_inside", ["plain", "ELOOP", "plain"]);
    check(b"directory/deep/up_twice", ["plain", "ELOOP", "plain"]);
    check(b"directory/roundabout", ["nested", "ELOOP", "nested"]);

    check(b"up_outside", ["EXDEV", "ELOOP", "secret"]);
    check(b"directory/up_outside", ["EXDEV", "ELOOP", "secret"]);
    check(b"to_parent/outside/secret", ["EXDEV", "ELOOP", "secret"]);
    check(b"up_and_back", ["EXDEV", "ELOOP", "plain"]);
    check(b"absolute_inside", ["EXDEV", "ELOOP", "plain"]);
    check(b"absolute_outside", ["EXDEV", "ELOOP", "secret"]);
    check(b"absolute_directory/nested", ["EXDEV", "ELOOP", "nested"]);
    check(b"absolute_directory/up_inside", ["EXDEV", "ELOOP", "plain"]);

    check(b"dangling", ["ENOENT", "ELOOP", "ENOENT"]);
    check(b"loop", ["ELOOP"; 3]);
    check(b"chain_40", ["plain", "ELOOP", "plain"]);
    check(b"chain_41", ["ELOOP"; 3]);
    check(b"to_proc_root", ["EXDEV", "ELOOP", "ELOOP"]);
    check(b"to_proc_root/etc/passwd", ["EXDEV", "ELOOP", "ELOOP"]);
}

/// Calls `change` over and over while `body` runs.
fn while_changing(change: impl Fn() + Sync, body: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                change();
                thread::sleep(Duration::from_micros(10)); // every state gets its share
            }
        });
        let result = panic::catch_unwind(AssertUnwindSafe(body));
        done.store(true, Ordering::Relaxed); // even after a failure, or the scope never ends
        result.unwrap_or_else(|cause| panic::resume_unwind(cause));
    });
}

/// Exchanges two names atomically: at no moment is there a name missing.
fn exchange(one: &Path, other: &Path) {
    let [one, other] = [one, other].map(|path| CString::new(path.as_os_str().as_bytes()).unwrap());
    // SAFETY: both paths are NUL-terminated strings that live through the call.
    let returned = unsafe {
        let (one, other) = (one.as_ptr(), other.as_ptr());
        let (at, flags) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
        libc::syscall(libc::SYS_renameat2, at, one, at, other, flags)
    };
    assert_eq!(returned, 0, "{}", io::Error::last_os_error());
}

/// Opens `path` until it has both succeeded and failed many times, or for 2 s; on a busy machine
/// for up to 20 s, until it has done both. What is opened must never be anything but `expected`.
fn check_under_attack(root: &Root, path: &[u8], policies: &[Symlinks], expected: &str) {
    const ENOUGH: usize = 1_000;
    let begun_us = clock::now();
    let (mut opened, mut failed) = (0_usize, 0_usize);
    let is_time_up = |rarer: usize| {
        let within_us = if rarer > 0 { 2_000_000 } else { 20_000_000 };
        clock::now() - begun_us > within_us
    };
    while (opened < ENOUGH || failed < ENOUGH) && !is_time_up(opened.min(failed)) {
        match root.open(path, policies[(opened + failed) % policies.len()]) {
            Ok(file) => {
                assert_eq!(contents(&file).unwrap(), expected);
                opened += 1;
            }
            Err(_) => failed += 1,
        }
    }
    assert!(opened > 0 && failed > 0, "opened {opened} times, failed {failed} times");
}

#[test]
fn what_is_swapped_for_a_link_does_not_lead_outside() {
    let scratch = tree();
    let at = |name: &str| scratch.0.join("site").join(name);
    let check = |target: &str, path: &[u8]| {
        scratch.link("site/lure", target);
        let swap = || {
            exchange(&at("swap"), &at("lure")); // now it is a link
            thread::sleep(Duration::from_micros(10));
            exchange(&at("swap"), &at("lure")); // and now itself again
        };
        while_changing(swap, || {
            for open in BOTH {
                let root = open(&scratch.0.join("site")).unwrap();
                let policies = [Symlinks::Beneath, Symlinks::Never];
                check_under_attack(&root, path, &policies, "inside");
            }
        });
        fs::remove_file(at("lure")).unwrap();
    };
    fs::write(at("swap"), "inside").unwrap();
    check("../outside/secret", b"swap");
    fs::remove_file(at("swap")).unwrap();

    fs::create_dir(at("swap")).unwrap();
    fs::write(at("swap/secret"), "inside").unwrap();
    check("../outside", b"swap/secret");
}

#[test]
fn a_directory_moved_outside_does_not_take_the_walk_with_it() {
    let scratch = tree();
    // From outside/deep, up_twice would lead to this file.
    fs::write(scratch.0.join("plain"), "secret").unwrap();
    let [inside, outside] =
        ["site/directory/deep", "outside/deep"].map(|name| scratch.0.join(name));
    let move_out_and_back = || {
        fs::rename(&inside, &outside).unwrap();
        thread::sleep(Duration::from_micros(10));
        fs::rename(&outside, &inside).unwrap();
    };
    while_changing(move_out_and_back, || {
        for open in BOTH {
            let root = open(&scratch.0.join("site")).unwrap();
            let path = b"directory/deep/up_twice";
            check_under_attack(&root, path, &[Symlinks::Beneath], "plain");
        }
    });
}

#[test]
fn magic_links_are_not_followed() {
    let check = |root: &str, path: &[u8], expected: [Option<i32>; 3]| {
        for open in BOTH {
            let root = open(Path::new(root)).unwrap();
            let seen = POLICIES.map(|policy| {
                root.open(path, policy).err().map(|error| error.raw_os_error().unwrap())
            });
            assert_eq!(seen, expected, "{}", String::from_utf8_lossy(path));
        }
    };
    const LOOP: Option<i32> = Some(libc::ELOOP);
    for path in ["root", "root/etc", "cwd", "exe", "fd/0", "ns/net", "ns/mnt"] {
        check("/proc/self", path.as_bytes(), [LOOP; 3]);
        let from_proc = format!("thread-self/{path}");
        check("/proc", from_proc.as_bytes(), [LOOP; 3]);
    }
    for path in ["self/status", "thread-self/status", "mounts", "net/dev"] {
        check("/proc", path.as_bytes(), [None, LOOP, None]);
    }
}

#[test]
fn opening_a_fifo_does_not_wait_for_a_writer() {
    let scratch = Scratch::new();
    let fifo = scratch.0.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _listener = UnixListener::bind(scratch.0.join("socket")).unwrap();
    for open in BOTH {
        let root = open(&scratch.0).unwrap();
        let file = root.open(b"fifo", Symlinks::Never).unwrap();
        assert_eq!(FileStatus::from_file(file.as_fd()).unwrap().kind, FileKind::Other);
        let socket = root.open(b"socket", Symlinks::Never).unwrap_err();
        assert_eq!(socket.raw_os_error(), Some(libc::ENXIO));
        let status = root.stat_relative(b"socket", Symlinks::Never).unwrap();
        assert_eq!(status.kind, FileKind::Other);
    }
}

#[test]
fn a_root_is_a_directory_and_stays_itself_when_renamed() {
    let scratch = tree();
    let (site, moved) = (scratch.0.join("site"), scratch.0.join("moved"));
    for open in BOTH {
        let missing = open(&scratch.0.join("missing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let file = open(&site.join("plain")).unwrap_err();
        assert_eq!(file.kind(), ErrorKind::NotADirectory);

        let root = open(&site).unwrap();
        fs::rename(&site, &moved).unwrap();
        assert_eq!(outcome(&root, b"directory/up_inside", Symlinks::Beneath), "plain");
        fs::rename(&moved, &site).unwrap();
    }
}

#[test]
fn the_status_is_what_the_file_system_says() {
    let scratch = tree();
    let path = scratch.0.join("site/plain");
    fs::hard_link(&path, scratch.0.join("site/second_name")).unwrap();
    let root = Root::new(&scratch.0.join("site")).unwrap();
    let expected = fs::metadata(&path).unwrap();
    let status = root.stat_relative(b"plain", Symlinks::Never).unwrap();
    assert_eq!(status.kind, FileKind::Regular);
    assert_eq!((status.device, status.inode), (expected.dev(), expected.ino()));
    assert_eq!(status.len, 5);
    let nanoseconds = |seconds: i64, rest: i64| seconds * 1_000_000_000 + rest;
    assert_eq!(status.modified_ns, nanoseconds(expected.mtime(), expected.mtime_nsec()));
    assert_eq!(status.changed_ns, nanoseconds(expected.ctime(), expected.ctime_nsec()));

    assert_eq!(root.stat_at(b"to_plain").unwrap(), status, "follows links");
    assert_eq!(root.stat_at(b"absolute_outside").unwrap().len, 6, "to anywhere");
    assert_eq!(root.stat_at(b"").unwrap().kind, FileKind::Directory);
    assert_eq!(root.stat_at(b"../site/plain").unwrap_err().raw_os_error(), Some(libc::EXDEV));

    assert_eq!(root.stat_unless_link(b"plain").unwrap(), Some(status));
    assert_eq!(root.stat_unless_link(b"to_plain").unwrap(), None);
    assert!(root.stat_unless_link(b"to_directory/nested").unwrap().is_some(), "only the last");
    let up = root.stat_unless_link(b"../site/plain").unwrap_err();
    assert_eq!(up.raw_os_error(), Some(libc::EXDEV));
}

#[test]
fn what_the_kernel_has_in_memory_is_told_at_once() {
    let scratch = tree();
    let root = Root::new(&scratch.0.join("site")).unwrap();
    let told = |path: &[u8], symlinks| match root.stat_if_cached(path, symlinks) {
        Err(error) => Err(error.raw_os_error()),
        Ok(status) => Ok(status),
    };
    // Following a link has to update its time of access where that is not after its time of change,
    // which only a lookup that may wait does; that lookup may be within the tick of the change.
    let soon_cached = |path: &[u8], symlinks| {
        let mut each = (0..1000).map(|_| {
            let _ = root.stat_at(path);
            told(path, symlinks)
        });
        each.find(|told| *told != Ok(None)).unwrap_or(Ok(None))
    };
    for path in [&b"plain"[..], b"to_plain", b"absolute_outside", b""] {
        let expected = Ok(Some(root.stat_at(path).unwrap()));
        assert_eq!(soon_cached(path, Symlinks::Anywhere), expected, "follows links, as stat_at");
    }
    let beneath = soon_cached(b"to_plain", Symlinks::Beneath);
    assert!(matches!(beneath, Ok(Some(_))), "{beneath:?}");
    assert_eq!(soon_cached(b"to_plain", Symlinks::Never), Err(Some(libc::ELOOP)));
    assert_eq!(soon_cached(b"absolute_outside", Symlinks::Beneath), Err(Some(libc::EXDEV)));
    // No call has looked this name up: only the disk can tell. Once it has, some file systems know.
    assert_eq!(told(b"never-asked-for", Symlinks::Beneath), Ok(None));
    root.stat_at(b"never-asked-for").unwrap_err();
    let once_asked = told(b"never-asked-for", Symlinks::Beneath);
    assert!(matches!(once_asked, Ok(None) | Err(Some(libc::ENOENT))), "{once_asked:?}");
    assert_eq!(soon_cached(b"../site/plain", Symlinks::Anywhere), Err(Some(libc::EXDEV)));
    let walking = Root::with_fallback_forced(&scratch.0.join("site")).unwrap();
    let told = walking.stat_if_cached(b"plain", Symlinks::Anywhere).unwrap();
    assert_eq!(told, None, "without openat2 the cache cannot be probed");
}

#[test]
fn a_replaced_file_is_another_file() {
    let scratch = tree();
    let root = Root::new(&scratch.0.join("site")).unwrap();
    let old = root.open(b"plain", Symlinks::Never).unwrap();
    let status = FileStatus::from_file(old.as_fd()).unwrap();
    assert!(root.stat_at(b"plain").unwrap().is_same_file(&status));

    fs::write(scratch.0.join("site/new"), "replaced").unwrap();
    fs::rename(scratch.0.join("site/new"), scratch.0.join("site/plain")).unwrap();
    assert!(!root.stat_at(b"plain").unwrap().is_same_file(&status));
    let new = root.open(b"plain", Symlinks::Never).unwrap();
    assert!(is_unlinked(old.as_fd()) && !is_unlinked(new.as_fd()));
    assert_eq!(contents(&old).unwrap(), "plain", "the open file is the old one");
}

#[test]
fn reading_at_an_offset_stops_at_the_end() {
    let scratch = tree();
    let root = Root::new(&scratch.0.join("site")).unwrap();
    let file = root.open(b"plain", Symlinks::Never).unwrap();
    let check = |offset, expected: &[u8]| {
        let mut buffer = [0; 4];
        let len = read_at(file.as_fd(), &mut buffer, offset).unwrap();
        assert_eq!(&buffer[..len], expected);
        // Just written, so it is in memory, unless this file system cannot tell.
        match read_at_nowait(file.as_fd(), &mut buffer, offset).unwrap() {
            NowaitRead::Unsupported => {}
            seen => assert_eq!(seen, NowaitRead::Read(len)),
        }
    };
    check(0, b"plai");
    check(3, b"in");
    check(5, b"");
    check(1 << 40, b"");

    let mut buffer = [0; 4];
    for result in [
        read_at(file.as_fd(), &mut buffer, u64::MAX),
        read_at_nowait(file.as_fd(), &mut [0; 4], u64::MAX).map(|_| 0),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    advise_will_need(file.as_fd(), 0, u64::MAX).unwrap();
}

/// A small buffer is read into again and again.
#[test]
fn bytes_in_memory_are_counted_without_being_kept() {
    const LEN: usize = 100_001;
    let scratch = tree();
    fs::write(scratch.0.join("site/long"), [7; LEN]).unwrap();
    let root = Root::new(&scratch.0.join("site")).unwrap();
    let file = root.open(b"long", Symlinks::Never).unwrap();
    if read_nowhere_nowait(file.as_fd(), &mut [0], 0, 1).unwrap() == NowaitRead::Unsupported {
        let why = "temporary files lie where nothing can be read without waiting (set TMPDIR)";
        return testkit::leave_out("bytes counted in memory", why);
    }
    let check = |buffer: &mut [u8], offset: usize, len: u64, expected| {
        let seen = read_nowhere_nowait(file.as_fd(), buffer, offset as u64, len).unwrap();
        assert_eq!(seen, NowaitRead::Read(expected), "{len} from {offset}");
    };
    let mut buffer = [0; 10_000];
    check(&mut buffer, 0, LEN as u64, LEN);
    check(&mut buffer, 0, u64::MAX, LEN);
    check(&mut buffer, 5, 4097, 4097);
    check(&mut buffer, LEN - 3, 10, 3);
    check(&mut buffer, LEN, 10, 0);
    assert!(buffer[..4096].iter().all(|byte| *byte == 7) && buffer[4096..] == [0; 10_000 - 4096]);
    check(&mut buffer[..100], 0, 1 << 20, 100 * LOOKED_AT_MAX);
    check(&mut [], 0, 10, 0);
    let error = read_nowhere_nowait(file.as_fd(), &mut buffer, u64::MAX, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_file_system_that_cannot_tell_is_not_an_error() {
    let root = Root::new(Path::new("/proc")).unwrap();
    let file = root.open(b"version", Symlinks::Never).unwrap();
    let seen = read_at_nowait(file.as_fd(), &mut [0; 4], 0).unwrap();
    assert_eq!(seen, NowaitRead::Unsupported);
    let seen = read_nowhere_nowait(file.as_fd(), &mut [0; 4], 0, 4).unwrap();
    assert_eq!(seen, NowaitRead::Unsupported);
}

fn list(mut reader: DirectoryReader<'_>) -> BTreeMap<String, EntryKind> {
    let mut entries = BTreeMap::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        assert_eq!(entries.insert(name.clone(), entry.kind), None, "{name} twice");
    }
    entries
}

#[test]
fn a_listing_has_every_name_and_its_kind() {
    let scratch = tree();
    let site = scratch.0.join("site");
    assert!(Command::new("mkfifo").arg(site.join("fifo")).status().unwrap().success());
    let root = Root::new(&site).unwrap();
    let directory = root.open(b"", Symlinks::Never).unwrap();
    let entries = list(read_directory(directory.as_fd()).unwrap());

    let expected = fs::read_dir(&site).unwrap().count();
    assert_eq!(entries.len(), expected);
    let check = |name: &str, expected| {
        assert!([expected, EntryKind::Unknown].contains(&entries[name]), "{name}");
    };
    check("plain", EntryKind::Regular);
    check("directory", EntryKind::Directory);
    check("to_plain", EntryKind::Symlink);
    check("fifo", EntryKind::Other);
    check(&"n".repeat(255), EntryKind::Regular);
    assert!(!entries.contains_key(".") && !entries.contains_key(".."));

    let file = root.open(b"plain", Symlinks::Never).unwrap();
    let error = read_directory(file.as_fd()).unwrap().next_entry().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
}

#[test]
fn a_listing_longer_than_the_buffer_is_whole_and_can_be_repeated() {
    const FILES: usize = 200;
    let scratch = Scratch::new();
    for n in 0..FILES {
        fs::write(scratch.0.join(format!("a file with a longer name {n:05}")), "").unwrap();
    }
    let root = Root::new(&scratch.0).unwrap();
    let directory = root.open(b"", Symlinks::Never).unwrap();
    for buffer_bytes in [280, 1_000, 4_096, 65_536] {
        let entries = list(DirectoryReader::new(directory.as_fd(), buffer_bytes).unwrap());
        assert_eq!(entries.len(), FILES);
        assert_eq!(entries.keys().next().unwrap(), "a file with a longer name 00000");
    }
}
