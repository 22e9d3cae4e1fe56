//! `ropewalk fileset` from the outside: it writes the files that `workload` defines, a server
//! serves them, and a later run mends wrong files and no others.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use testkit::{Client, ENDINGS, Temporary, comes_true, heeded};
use workload::fileset::{File, FileSet};

use crate::machine::{run, skip};
use crate::server_process::{ROPEWALK_LAB, served};

/// Runs the command; returns exit status, standard output, standard error.
fn fileset(root: &Path, arguments: &[&str]) -> (i32, String, String) {
    finished(Command::new(ROPEWALK_LAB).arg("fileset").arg(root).args(arguments))
}

fn finished(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs and expects success; returns standard output up to the time that the run took.
fn succeeds(root: &Path, arguments: &[&str]) -> String {
    let (status, stdout, stderr) = fileset(root, arguments);
    assert_eq!((status, &*stderr), (0, ""), "{stdout}");
    stdout.split(" in ").next().unwrap().trim().to_owned()
}

/// The name, inode and times by which an untouched file is recognised.
fn identities(root: &Path, set: &FileSet) -> BTreeSet<(String, u64, i64, i64)> {
    let identity = |file: File| {
        let status = fs::metadata(root.join(file.path().as_str())).unwrap();
        (file.to_string(), status.ino(), status.ctime(), status.ctime_nsec())
    };
    set.iter().map(identity).collect()
}

#[test]
fn written_files_are_served() {
    let root = Temporary::new();
    let mounted = root.path().join("specweb99/file_set");
    let written = succeeds(&mounted, &["--directories", "2", "--threads", "2"]);
    assert_eq!(
        written,
        "written 72, repaired 0, untouched 0, foreign 0: 10,238,968 bytes (9.76 MiB)"
    );
    let written = succeeds(&mounted, &["--single", "50KB", "--single", "1000", "--single", "0"]);
    assert_eq!(written, "written 3, repaired 0, untouched 0, foreign 72: 52,200 bytes (51.0 KiB)");

    let mut server = served(root.path(), &[]);
    let client = Client::new(server.address());
    let singles = FileSet::singles(&[0, 1000, 51_200]).unwrap();
    for file in FileSet::directories(2).unwrap().iter().chain(singles.iter()) {
        let path = format!("/specweb99/file_set/{file}");
        assert_eq!(File::locate(path.as_bytes()), Some(file));
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let response = client.fetch(request.as_bytes()).unwrap();
        assert_eq!((response.status, response.body.len() as u64), (200, file.bytes()), "{path}");
        assert_eq!(file.content().check(0, &response.body), Ok(()), "{path}");
    }
    assert!(server.is_running());
}

#[test]
fn a_run_that_is_ended_by_a_signal_leaves_no_half_file() {
    for signal in heeded(&ENDINGS) {
        let root = Temporary::new();
        let mut command = Command::new(ROPEWALK_LAB);
        command.arg("fileset").arg(root.path()).args(["--single", "256MB"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let written = || {
            let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
            let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: "));
            bytes.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 1 << 20)
        };
        assert!(comes_true(written), "{signal}: it writes");
        os::signals::send(signal, &[child.id()]);
        child.wait().unwrap();
        let names = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        // The command may have been faster than the signal.
        assert!(names.is_empty() || names == ["size268435456"], "{signal}: {names:?}");
    }
}

#[test]
fn permissions_do_not_depend_on_the_mask() {
    let root = Temporary::new();
    let script = "umask 077; exec \"$0\" fileset \"$1\" --directories 1";
    let mut shell = Command::new("sh");
    let (status, ..) = finished(shell.args(["-c", script, ROPEWALK_LAB]).arg(root.path()));
    assert_eq!(status, 0);
    let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("dir00000"), mode("dir00000/class3_8")), (0o755, 0o644));
}

#[test]
fn wrong_files_are_mended_and_no_others() {
    let root = Temporary::new();
    let root = root.path();
    let set = FileSet::directories(3).unwrap();
    succeeds(root, &["--directories", "3"]);
    let before = identities(root, &set);

    let path = |name: &str| root.join(name);
    let open = |name: &str| fs::OpenOptions::new().write(true).open(path(name)).unwrap();
    fs::remove_file(path("dir00000/class0_0")).unwrap();
    open("dir00000/class3_0").set_len(102_399).unwrap();
    open("dir00000/class3_1").set_len(204_801).unwrap();
    open("dir00001/class2_0").write_all_at(b"\0", 0).unwrap();
    open("dir00001/class2_1").write_all_at(b"\0", 20_479).unwrap();
    open("dir00001/class1_8").write_all_at(b"\0", 4567).unwrap();
    fs::set_permissions(path("dir00001/class0_5"), Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(path("dir00001/class0_6")).unwrap();
    symlink("class0_7", path("dir00001/class0_6")).unwrap();
    fs::remove_dir_all(path("dir00002")).unwrap();
    // Files that do not belong to the set.
    fs::create_dir_all(path("notes/deep")).unwrap();
    for name in ["notes/deep/a", "notes/b", "dir00000/8", "size1024", ".hidden", "dir0000"] {
        fs::write(path(name), "mine").unwrap();
    }
    // A partial file of an interrupted run.
    fs::write(path("dir00001/.ropewalk-partial-class3_3"), "half").unwrap();

    let (status, stdout, stderr) = fileset(root, &["--directories", "3", "--check"]);
    assert_eq!(status, 1);
    let expected = "\
dir00000/class0_0: missing
dir00000/class3_0: 102399 bytes long
dir00000/class3_1: 204801 bytes long
dir00001/class0_5: not readable by all users (mode 640)
dir00001/class0_6: not a regular file
dir00001/class1_8: byte 4567 is 0x00 instead of ";
    assert!(stdout.starts_with(expected), "{stdout}");
    assert!(stdout.ends_with("right 64, missing 37, wrong 7, foreign 6\n"), "{stdout}");
    assert_eq!(
        stderr,
        "ropewalk: 44 of 108 files are missing or wrong; run it without --check to repair them\n"
    );

    let mended = succeeds(root, &["--directories", "3"]);
    assert!(mended.starts_with("written 37, repaired 7, untouched 64, foreign 6:"), "{mended}");
    let kept = identities(root, &set).intersection(&before).count();
    assert_eq!(kept, 64);
    assert_eq!(fs::read(path("notes/deep/a")).unwrap(), b"mine");
    assert!(!path("dir00001/.ropewalk-partial-class3_3").exists());
    let checked = succeeds(root, &["--directories", "3", "--check", "--verify"]);
    assert_eq!(checked, "right 108, missing 0, wrong 0, foreign 6");
}

#[test]
fn every_byte_is_read_if_asked_for() {
    let root = Temporary::new();
    let set = ["--single", "3MB"];
    succeeds(root.path(), &set);
    let file = fs::OpenOptions::new().write(true).open(root.path().join("size3145728")).unwrap();
    // The wrong byte lies between two samples.
    file.write_all_at(b"\t", 2_000_000).unwrap();
    assert_eq!(fileset(root.path(), &["--single", "3MB", "--check"]).0, 0);
    let (status, stdout, _) = fileset(root.path(), &["--single", "3MB", "--check", "--verify"]);
    assert_eq!(status, 1);
    assert!(stdout.starts_with("size3145728: byte 2000000 is 0x09 instead of "), "{stdout}");
    let mended = succeeds(root.path(), &["--single", "3MB", "--verify"]);
    assert!(mended.starts_with("written 0, repaired 1, untouched 0, foreign 0:"), "{mended}");
}

#[test]
fn an_interrupted_run_leaves_whole_files_only() {
    let root = Temporary::new();
    let mut command = Command::new(ROPEWALK_LAB);
    command.arg("fileset").arg(root.path()).args(["--directories", "30"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = || root.path().join("dir00005").exists();
    while !begun() && child.try_wait().unwrap().is_none() {
        thread::yield_now();
    }
    child.kill().unwrap();
    let killed = child.wait().unwrap().code().is_none();

    let set = FileSet::directories(30).unwrap();
    let mut there = 0;
    for file in set.iter() {
        if let Ok(bytes) = fs::read(root.path().join(file.path().as_str())) {
            assert_eq!(bytes.len() as u64, file.bytes(), "{file}");
            assert_eq!(file.content().check(0, &bytes), Ok(()), "{file}");
            there += 1;
        }
    }
    assert!(!killed || (1..set.files()).contains(&there), "{there}");
    let rest = succeeds(root.path(), &["--directories", "30"]);
    let missing = set.files() - there;
    let expected = format!("written {missing} repaired 0 untouched {there} foreign 0:");
    assert!(rest.replace(',', "").starts_with(&expected), "{expected} {rest}");
    let checked = succeeds(root.path(), &["--directories", "30", "--check", "--verify"]);
    assert_eq!(checked, "right 1,080, missing 0, wrong 0, foreign 0");
}

#[test]
fn one_run_at_a_time() {
    let root = Temporary::new();
    let lock = fs::File::open(root.path()).unwrap();
    lock.try_lock().unwrap();
    let (status, _, stderr) = fileset(root.path(), &["--single", "1"]);
    let path = root.path().display();
    let expected = format!("ropewalk: {path}: another run is writing a file set there\n");
    assert_eq!((status, stderr), (1, expected));
    lock.unlock().unwrap();
    succeeds(root.path(), &["--single", "1"]);
}

#[test]
fn too_little_room_is_said_before_anything_is_written() {
    let root = Temporary::new();
    let (status, _, stderr) = fileset(root.path(), &["--single", "1000000TB"]);
    assert_eq!(status, 1);
    assert!(stderr.contains(": 1000000 TiB more are needed and "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

/// Writes a directory of files to a file system with these limits; returns whether that succeeded,
/// and standard error. None where the user may not mount one.
fn on_a_small_file_system(options: &str) -> Option<(bool, String)> {
    let root = Temporary::new();
    let script = format!(
        "mount -t tmpfs -o {options} none \"$1\" || exit 77; \
         \"$0\" fileset \"$1\" --directories 1; status=$?; ls -A \"$1\" >&2; exit $status"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, ROPEWALK_LAB]).arg(root.path());
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().ok()?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let may_not = status.code() == Some(77) || stderr.contains("unshare failed");
    (!may_not).then_some((status.success(), stderr))
}

#[test]
fn a_full_file_system_is_told_from_one_without_inodes() {
    fn check(options: &str, expected: &str) {
        match on_a_small_file_system(options) {
            None => skip("a small file system", testkit::NEEDS_ROOT),
            Some((succeeded, said)) => {
                assert_eq!(succeeded, expected.is_empty(), "{options}: {said}");
                assert!(said.contains(expected), "{options}: {said}");
                assert!(expected.is_empty() || said.lines().count() == 1, "{options}: {said}");
            }
        }
    }
    check("size=7m", "");
    check("size=4m", " more are needed and 4.00 MiB are free");
    check("size=7m,nr_inodes=20", "37 more files are needed and the file system has room for 19");
}

#[test]
fn presets_are_listed() {
    let (succeeded, stdout, _) = run(Command::new(ROPEWALK_LAB).args(["fileset", "--list"]));
    assert!(succeeded);
    let expected = "\
preset           files          bytes  source
small              900    127,987,100  ";
    assert!(stdout.starts_with(expected), "{stdout}");
    assert!(stdout.contains("\ngeneves         24,480  3,481,249,120  "), "{stdout}");
    assert!(stdout.contains("\nradhakrishnan   33,912  4,822,553,928  "), "{stdout}");
}

#[test]
fn senseless_arguments_are_refused() {
    fn check(arguments: &[&str], expected: &str) {
        let root = Temporary::new();
        let (status, stdout, stderr) = fileset(root.path(), arguments);
        assert_eq!((status, &*stdout), (2, ""), "{arguments:?}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
    check(&[], "required");
    check(&["--preset", "genev"], "(did you mean \"geneves\"?)");
    check(&["--preset", "small", "--directories", "3"], "cannot be used with");
    check(&["--directories", "0"], "0 directories: a set has from 1 to 100000");
    check(&["--directories", "100001"], "100001 directories");
    check(&["--bytes", "4MB"], "4194304 bytes: one directory has 5119484");
    check(&["--bytes", "3.3GBit"], "\"3.3GBit\" is no size");
    check(&["--connections", "99999999"], "directories: a set has from 1 to 100000");
    check(&["--single", "16777215TB"], "no file can have");
    check(&["--single", "1", "--threads", "0"], "--threads 0: write a whole number from 1 to 1024");
}

#[test]
fn a_check_of_nothing_writes_nothing() {
    let root = Temporary::new();
    let absent = root.path().join("absent");
    let (status, stdout, _) = fileset(&absent, &["--preset", "small", "--check"]);
    assert_eq!(status, 1);
    assert!(stdout.ends_with("and 890 more\nright 0, missing 900, wrong 0, foreign 0\n"));
    assert!(!absent.exists());
}
