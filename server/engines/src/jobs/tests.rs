//! Tests of jobs: hashing, entries that another process has found, and entries that are validated
//! again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use file_cache::{Budget, Cache, Cost, PolicyKind, Slot};
use site::HostSettings;
use site::resource::{Body, Resource};

use super::*;

const UNBOUNDED: Budget =
    Budget { bytes: usize::MAX, descriptors: usize::MAX, entries: usize::MAX };

/// A directory that is removed when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("engines-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file whose time was set, so that it is hashed, in `pieces` pieces.
    fn hashed_file(&self, pieces: usize) {
        let file = self.0.join("f.txt");
        fs::write(&file, vec![b'x'; pieces * HASHED_BYTES]).unwrap();
        set_modified(&file, 1_600_000_000_000_000_000);
    }

    /// A runner that keeps no bodies in memory.
    fn runner(&self) -> Runner {
        let site = Site::new(vec![HostSettings::new(self.0.clone())]).unwrap();
        Runner::new(Arc::new(site), 0).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn resolved(runner: &Runner, known: Known) -> Entry {
    in_pieces(runner, known).0
}

fn run_job(runner: &Runner, known: Known) -> Done {
    runner.run(Job::Resolve { host: 0, path: (*b"/f.txt").into(), known })
}

/// The entry, and the number of pieces of its files that were hashed for it.
fn in_pieces(runner: &Runner, known: Known) -> (Entry, usize) {
    let mut done = run_job(runner, known);
    let mut pieces = 0;
    loop {
        done = match done {
            Done::Resolved(Ok((_, entry))) => return (entry, pieces),
            Done::Unfinished(job) => runner.run(job),
            other => panic!("{other:?}"),
        };
        pieces += 1;
    }
}

fn tag(entry: &Entry) -> String {
    let Resource::File(file) = &entry.resource else { panic!("{entry:?}") };
    String::from_utf8(file.variant(0).etag.as_bytes().to_vec()).unwrap()
}

fn set_modified(file: &Path, ns: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(ns);
    File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

#[test]
fn the_roots_of_a_former_site_stay_as_long_as_a_request_goes_by_it() {
    let directories = ["former", "next"].map(Directory::new);
    let site = |which: usize| Site::new(vec![HostSettings::new(directories[which].0.clone())]);
    let (former, mut next) = (Arc::new(site(0).unwrap()), site(1).unwrap());
    next.follow(&former);
    let next = Arc::new(next);
    fs::write(directories[0].0.join("f.txt"), "former").unwrap();
    let runner = Runner::new(Arc::clone(&former), 0).unwrap();
    runner.follow(Arc::clone(&next)).unwrap();
    let is_found = |host| {
        let path = (*b"/f.txt").into();
        match runner.run(Job::Resolve { host, path, known: Known::Nothing }) {
            Done::Resolved(Ok((_, entry))) => matches!(entry.resource, Resource::File(_)),
            Done::Unfinished(Job::Hash(_)) => true,
            other => panic!("{other:?}"),
        }
    };
    runner.forget_former();
    assert_eq!([former.first(), next.first()].map(is_found), [true, false]);
    let first = former.first();
    drop(former);
    runner.forget_former();
    assert!(runner.site_of(first).is_none(), "no request goes by it");
    let job = Job::Resolve { host: first, path: (*b"/f.txt").into(), known: Known::Nothing };
    assert!(matches!(runner.run(job), Done::Resolved(Err(_))), "no request goes by its site");
    assert!(!is_found(next.first()));
}

/// Requests of former sites may take long: each site has only the directories open that are its
/// own.
#[test]
fn a_site_shares_the_roots_of_the_one_that_it_follows() {
    let directories = ["kept", "moved"].map(Directory::new);
    let site = || {
        let [kept, mut moved] = directories.each_ref().map(|it| HostSettings::new(it.0.clone()));
        moved.names = vec!["moved".into()];
        Site::new(vec![HostSettings { default: true, ..kept }, moved]).unwrap()
    };
    let (former, mut next) = (Arc::new(site()), site());
    next.follow(&former);
    let runner = Runner::new(former, 0).unwrap();
    let elsewhere = directories[1].0.with_extension("elsewhere");
    fs::rename(&directories[1].0, &elsewhere).unwrap();
    fs::create_dir(&directories[1].0).unwrap();
    runner.follow(Arc::new(next)).unwrap();
    fs::remove_dir(elsewhere).unwrap();
    let root = |site: usize, host: usize| {
        let sites = runner.sites.read().unwrap();
        Arc::clone(&sites[site].roots[host].read().root)
    };
    assert!(Arc::ptr_eq(&root(0, 0), &root(1, 0)));
    assert!(!Arc::ptr_eq(&root(0, 1), &root(1, 1)), "it is another directory");
}

#[test]
fn a_file_whose_time_was_set_is_hashed_in_pieces_and_once() {
    const LEN: usize = 3 * HASHED_BYTES + 1;
    let directory = Directory::new("hashed");
    let file = directory.0.join("f.txt");
    let site = Site::new(vec![HostSettings::new(directory.0.clone())]).unwrap();
    let site = Arc::new(site);
    let runner = Runner::new(Arc::clone(&site), 0).unwrap();
    let write = |byte| {
        fs::write(&file, vec![byte; LEN]).unwrap();
        set_modified(&file, 499_162_500_123_456_789); // near the time of all files in npm packages
    };
    write(b'a');
    let (one, pieces) = in_pieces(&runner, Known::Nothing);
    assert_eq!(pieces, 4);
    let in_memory = Runner::new(site, u64::MAX).unwrap();
    let (same, pieces) = in_pieces(&in_memory, Known::Nothing);
    assert_eq!((tag(&same), pieces), (tag(&one), 0), "the same content, however it is read");
    write(b'b');
    let (other, pieces) = in_pieces(&runner, Known::Nothing);
    assert_eq!(pieces, 4, "its change time makes it another file");
    assert_ne!(tag(&other), tag(&one));
    while in_pieces(&runner, Known::Nothing).1 > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50)); // until its times have settled
    }
    assert_eq!(tag(&resolved(&runner, Known::Nothing)), tag(&other));
}

#[test]
fn jobs_that_want_the_hash_of_one_file_read_it_together() {
    const PIECES: usize = 4;
    const WAITING: usize = 5;
    let directory = Directory::new("together");
    directory.hashed_file(PIECES);
    let runner = directory.runner();
    let mut waiting: Vec<Done> = (0..WAITING).map(|_| run_job(&runner, Known::Nothing)).collect();
    let (mut tags, mut steps) = (Vec::new(), 0);
    while !waiting.is_empty() {
        let take_turns = |done| match done {
            Done::Unfinished(job) => {
                steps += 1;
                Some(runner.run(job))
            }
            Done::Resolved(Ok((_, entry))) => {
                tags.push(tag(&entry));
                None
            }
            other => panic!("{other:?}"),
        };
        waiting = waiting.into_iter().filter_map(take_turns).collect();
    }
    assert_eq!((tags.len(), steps), (WAITING, PIECES + WAITING - 1), "later jobs get the hash");
    assert!(tags.iter().all(|tag| *tag == tags[0] && tag.starts_with('"')), "{tags:?}");
}

/// The hash may become known meanwhile because another process was faster.
#[test]
fn a_hash_that_is_known_meanwhile_is_taken() {
    let directory = Directory::new("meanwhile");
    directory.hashed_file(3);
    let runner = directory.runner();
    let other = runner.hashes.duplicate();
    let Done::Unfinished(Job::Hash(job)) = run_job(&runner, Known::Nothing) else {
        panic!("it is to be hashed")
    };
    let identity = *lock_hashing(&job.hashing).identity();
    other.put(&identity, site::entity_tag::ContentHash(0xabc));
    let Done::Resolved(Ok((_, entry))) = runner.run(Job::Hash(job)) else { panic!("unfinished") };
    assert_eq!(tag(&entry), "\"0000000000000abc\"");
}

/// A file is open between its pieces. Only a job that has a turn is allowed descriptors for that.
#[test]
fn with_turns_a_file_is_hashed_in_one() {
    let directory = Directory::new("turns");
    directory.hashed_file(2);
    let runner = directory.runner();
    assert_ne!(in_pieces(&runner, Known::Nothing).1, 0);
    let runner = directory.runner().with_jobs_max(1);
    assert_eq!(in_pieces(&runner, Known::Nothing).1, 0);
}

#[test]
fn a_file_that_never_holds_still_gets_a_weak_tag() {
    let directory = Directory::new("restless");
    let file = directory.0.join("f.txt");
    let runner = directory.runner();
    fs::write(&file, "0").unwrap();
    let mut done = run_job(&runner, Known::Nothing);
    for round in 1.. {
        let Done::Unfinished(job) = done else { break };
        assert!(round < 10, "for ever");
        fs::write(&file, "0".repeat(round + 1)).unwrap();
        done = runner.run(job);
    }
    let Done::Resolved(Ok((_, entry))) = done else { panic!("{done:?}") };
    assert!(tag(&entry).starts_with("W/\""), "{}", tag(&entry));
}

#[test]
fn an_encoded_entry_is_taken_over_while_its_files_are_what_they_were() {
    let directory = Directory::new("encoded");
    let file = directory.0.join("f.txt");
    fs::write(&file, "here").unwrap();
    let runner = directory.runner();

    let mut entry = resolved(&runner, Known::Nothing);
    // As if the file had been there for a while: timestamps do not prove a younger one unchanged.
    entry.resolved_ns += 10_000_000_000;
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    let encoded = || Known::Encoded(bytes.clone().into());

    let taken = resolved(&runner, encoded());
    assert_eq!(taken.resolved_ns, entry.resolved_ns, "the same entry");
    let Resource::File(files) = &taken.resource else { panic!("{taken:?}") };
    let Body::File(open) = &files.variant(0).body else { panic!("{taken:?}") };
    let mut content = [0; 4];
    assert_eq!(read_at(open.as_fd(), &mut content, 0).unwrap(), 4);
    assert_eq!(&content, b"here");

    fs::write(&file, "elsewhere").unwrap();
    let newer = resolved(&runner, encoded());
    assert_ne!(newer.resolved_ns, entry.resolved_ns, "resolved anew");
    fs::remove_file(&file).unwrap();
    assert!(matches!(resolved(&runner, encoded()).resource, Resource::Missing));
    let nonsense = Known::Encoded((*b"nonsense").into());
    assert!(matches!(resolved(&runner, nonsense).resource, Resource::Missing));
}

#[test]
fn an_entry_that_is_still_valid_is_confirmed_at_once() {
    let directory = Directory::new("at-once");
    let file = directory.0.join("f.txt");
    fs::write(&file, "here").unwrap();
    let runner = directory.runner();
    let cache = Cache::new(PolicyKind::Lru, UNBOUNDED, 1);
    let created = fs::metadata(&file).unwrap();
    let created_ns = i128::from(created.ctime()) * 1_000_000_000 + i128::from(created.ctime_nsec());
    let found = |later_ns| {
        let mut entry = resolved(&runner, Known::Nothing);
        entry.resolved_ns = created_ns + later_ns;
        cache.insert(0, b"/f.txt", entry, Cost { bytes: 0, descriptors: 0 }, 0)
    };
    let holds = |slot: &Arc<Slot<Entry>>| {
        let known = Known::Entry(Arc::clone(slot));
        let job = Job::Resolve { host: 0, path: (*b"/f.txt").into(), known };
        matches!(runner.run_at_once(&job), Some(Done::Current(_)))
    };

    let site = runner.site_of(0).unwrap();
    let checked_us = &site.roots[0].checked_us;
    let check_is_long_due = || checked_us.store(0, Ordering::Relaxed);
    let check_is_never_due = || checked_us.store(u64::MAX, Ordering::Relaxed);

    check_is_never_due();
    let settled = found(10_000_000_000);
    assert!(holds(&settled));
    assert!(!holds(&found(0)), "timestamps cannot prove it unchanged yet");
    while os::clock::now() < ROOT_CHECK_US {
        std::thread::sleep(std::time::Duration::from_millis(10)); // the clock begins with the test
    }
    check_is_long_due();
    assert!(!holds(&settled), "the root is to be checked, which may wait for a disk");
    site.roots[0].current();
    assert_ne!(checked_us.load(Ordering::Relaxed), 0, "it has been checked");
    check_is_never_due();
    assert!(holds(&settled));
    fs::write(&file, "elsewhere").unwrap();
    assert!(!holds(&settled), "it has changed");

    let nothing = Job::Resolve { host: 0, path: (*b"/f.txt").into(), known: Known::Nothing };
    assert!(runner.run_at_once(&nothing).is_none(), "only a known entry can be confirmed");
}

#[test]
fn a_directory_is_examined_once_in_a_moment_and_each_file_always() {
    use std::os::unix::fs::symlink;
    let directory = Directory::new("moment");
    let (file, elsewhere) = (directory.0.join("f.txt"), directory.0.with_extension("elsewhere"));
    let cache = Cache::new(PolicyKind::Lru, UNBOUNDED, 1);
    let vouched = |runner: &Runner| {
        fs::write(&file, "here").unwrap();
        let mut entry = resolved(runner, Known::Nothing);
        entry.resolved_ns += 10_000_000_000;
        cache.insert(0, b"/f.txt", entry, Cost { bytes: 0, descriptors: 0 }, 0)
    };
    let holds = |runner: &Runner, slot: &Arc<Slot<Entry>>| {
        matches!(run_job(runner, Known::Entry(Arc::clone(slot))), Done::Current(_))
    };
    for (moment_us, is_noticed) in [(0, true), (u64::MAX, false)] {
        let runner = directory.runner().with_moment_us(moment_us);
        let slot = vouched(&runner);
        assert!(holds(&runner, &slot));
        fs::write(directory.0.join("sibling"), "").unwrap();
        assert_eq!(!holds(&runner, &slot), is_noticed, "{moment_us}");
        fs::remove_file(directory.0.join("sibling")).unwrap();
    }
    let runner = directory.runner().with_moment_us(u64::MAX);
    let slot = vouched(&runner);
    assert!(holds(&runner, &slot));
    fs::rename(&file, &elsewhere).unwrap();
    assert!(!holds(&runner, &slot), "it is gone");
    symlink(&elsewhere, &file).unwrap();
    assert!(!holds(&runner, &slot), "the very same file, but by a link that leads out");
    fs::remove_file(&file).unwrap();
    fs::rename(&elsewhere, &file).unwrap();
    fs::write(&file, "anew").unwrap();
    assert!(!holds(&runner, &slot), "it has changed");
}

#[test]
fn a_refused_path_is_reported() {
    let root = Directory::new("refused");
    std::os::unix::fs::symlink("/etc/passwd", root.0.join("out")).unwrap();
    std::os::unix::fs::symlink("circle", root.0.join("circle")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.0.join("socket")).unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let site = Site::new(vec![HostSettings::new(root.0.clone())]).unwrap();
    let (reports, path) = (Arc::clone(&reported), root.0.clone());
    let report = move |trouble: &Trouble<'_>| {
        let Trouble::Path { root, path: below, cause: TroubleCause::Refused(why) } = trouble else {
            panic!("{trouble:?}")
        };
        assert_eq!(*root, path);
        reports.lock().unwrap().push((below.to_vec(), *why));
    };
    let runner = Runner::new(Arc::new(site), 0).unwrap();
    let runner = runner.with_trouble_report(Arc::new(report));
    for (path, why) in [
        ("/out", Some(Refusal::OutsideRoot)),
        ("/circle", Some(Refusal::SymbolicLink)),
        ("/socket", Some(Refusal::NotRegular)),
        ("/missing", None),
    ] {
        let known = Known::Nothing;
        let job = Job::Resolve { host: 0, path: path.as_bytes().into(), known };
        assert!(matches!(runner.run(job), Done::Resolved(Ok(_))));
        let expected: Vec<_> =
            why.map(|why| (path.as_bytes()[1..].to_vec(), why)).into_iter().collect();
        assert_eq!(std::mem::take(&mut *reported.lock().unwrap()), expected);
    }
}

/// A listing that fails is a 503 for the client, which only this line explains.
#[test]
fn a_listing_that_fails_is_reported() {
    let root = Directory::new("unlisted");
    fs::write(root.0.join("file"), "no directory any more").unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&reported);
    let report = move |trouble: &Trouble<'_>| {
        let Trouble::Path { path, cause: TroubleCause::Failed(why), .. } = trouble else {
            panic!("{trouble:?}")
        };
        reports.lock().unwrap().push((path.to_vec(), why.kind()));
    };
    let runner = root.runner().with_trouble_report(Arc::new(report));
    let permit = session::Listings::new(1).begin_without_worker().unwrap();
    let job = Job::List { host: 0, path: b"/file/"[..].into(), format: ListFormat::Json, permit };
    assert!(matches!(runner.run(job), Done::Listed(Err(_))));
    let expected = [(b"file/".to_vec(), io::ErrorKind::NotADirectory)];
    assert_eq!(*reported.lock().unwrap(), expected);
}
