//! Running jobs: the only place where engines touch files. A [`Runner`] may be used by any thread:
//! each engine chooses where a job runs, and all run it in this way.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use file_cache::Cache;
use os::errors::Cause;
use os::files::{EntryKind, FileKind, FileStatus, Root, read_at, read_directory};
use session::{
    Done, HashJob, Job, Known, ListCursor, ListFormat, ListName, ListingPermit, SharedHashing,
};
use site::hashing::{Hashed, Hashing};
use site::host::{Dotfiles, Host, Symlinks};
use site::listing::{Item, Kind as ItemKind, Renderer};
use site::refusal::Refusal;
use site::resolve::{Files, Kind, Opened, Unopened, Unresolved, is_current, resolve};
use site::resource::{Entry, FileRef, FileStamp, Identity};
use site::{Site, path};
use upstream::{Application, Failure, Tried};

use crate::lock::lock;
use crate::open_files::OpenFiles;
use crate::parts::disk::helpers::failed;

mod directories;
mod hashes;
mod left_out;

use directories::Directories;
use hashes::Hashes;
use left_out::LeftOut;

/// Bytes of a file hashed by one job: that takes about 50 microseconds if they are in memory, so
/// that a loop which runs jobs on the spot serves others between two of them.
pub(crate) const HASHED_BYTES: usize = 256 * 1024;

/// The number of files hashed for one path, at most. A path has no more variants: if more files
/// were hashed for it, they change all the time, and the last one gets no hash.
const HASHED_MAX: usize = 4;

/// Bytes of a listing rendered by one job: small enough that a loop which runs jobs on the spot
/// serves others between two of them.
const LIST_CHUNK_BYTES: usize = 64 * 1024;

/// The time within which a replaced root is noticed, in microseconds: such as a link to the current
/// release that was switched.
const ROOT_CHECK_US: u64 = 1_000_000;

/// A problem that operators should know.
#[derive(Debug)]
pub enum Trouble<'t> {
    /// A path was refused although a file exists there, or its file could not be examined.
    Path {
        /// The root of the host.
        root: &'t Path,
        /// The path below the root, without a leading slash.
        path: &'t [u8],
        /// The cause of the problem.
        cause: TroubleCause<'t>,
    },
    /// An application has not answered.
    Application {
        /// Its name.
        name: &'t str,
        /// The cause of the problem.
        failure: Failure,
    },
    /// A server of an application could not be reached: another is tried, or another address.
    PassedOver {
        /// Its name.
        name: &'t str,
        /// Whether it has not answered in time.
        is_late: bool,
    },
}

/// The cause of a problem with a path.
#[derive(Debug)]
pub enum TroubleCause<'t> {
    /// The path may not be served: 403 or 404.
    Refused(Refusal),
    /// The system failed: 503.
    Failed(&'t io::Error),
}

/// Reports trouble to operators. It never waits.
pub type ReportTrouble = Arc<dyn Fn(&Trouble<'_>) + Send + Sync>;

/// Runs jobs.
pub struct Runner {
    /// Of the current site, which is the last, and of former ones by which requests still go.
    sites: RwLock<Vec<Arc<OpenSite>>>,
    small_body_bytes_max: u64,
    turns: Option<Turns>,
    report: Option<ReportTrouble>,
    hashes: Hashes,
    /// The buffer that pieces of files are read into, while no job uses it.
    spare_buffer: Mutex<Vec<u8>>,
    left_out: LeftOut,
    file_idle_us: Option<u64>,
    moment_us: u64,
    /// The index of the first host of the current site.
    first_host: Arc<AtomicUsize>,
    /// Called before each job, so that a test can delay it.
    #[cfg(test)]
    pub(crate) before: Option<Before>,
}

#[cfg(test)]
pub(crate) type Before = Box<dyn Fn(&Job) + Send + Sync>;

/// Opens a root; the former one at the same path may be open.
type OpenRoot = fn(&Path, Option<&HostRoot>) -> io::Result<HostRoot>;

/// A site and the roots of its hosts.
struct OpenSite {
    site: Arc<Site>,
    roots: Vec<HostRoot>,
}

/// One host of an open site.
#[derive(Clone, Copy)]
struct OpenHost<'s> {
    index: usize,
    host: &'s Host,
    root: &'s HostRoot,
}

/// The root of one host, opened anew when its path leads to another directory.
struct HostRoot {
    path: PathBuf,
    tree: RwLock<Arc<Tree>>,
    checked_us: AtomicU64,
}

/// An open root, and the directories below it that were examined just now.
struct Tree {
    root: Arc<Root>,
    directories: Directories,
}

impl Tree {
    fn new(root: Arc<Root>) -> Arc<Self> {
        Arc::new(Self { root, directories: Directories::default() })
    }
}

impl Runner {
    /// Opens the roots of all hosts. Bodies of at most `small_body_bytes_max` bytes are kept in
    /// memory.
    ///
    /// # Errors
    /// A root cannot be opened; the message names it.
    pub fn new(site: Arc<Site>, small_body_bytes_max: u64) -> io::Result<Self> {
        Ok(Self {
            first_host: Arc::new(site.first().into()),
            sites: RwLock::new(vec![OpenSite::open(site, None, HostRoot::open)?]),
            small_body_bytes_max,
            turns: None,
            report: None,
            hashes: Hashes::new()?,
            spare_buffer: Mutex::default(),
            left_out: LeftOut::new()?,
            file_idle_us: None,
            moment_us: 0,
            #[cfg(test)]
            before: None,
        })
    }

    /// Runs the jobs of another site from now on, too, whose hosts have indices of their own.
    ///
    /// # Errors
    /// A root cannot be opened; the message names it. Nothing has changed then.
    pub fn follow(&self, site: Arc<Site>) -> io::Result<()> {
        self.follow_by(site, HostRoot::open)
    }

    /// As [`Self::follow`], for a site that others go by already: a root that cannot be opened now
    /// is that of the former site at the same path.
    ///
    /// # Errors
    /// As there, for roots at other paths.
    pub fn follow_with_former_roots(&self, site: Arc<Site>) -> io::Result<()> {
        self.follow_by(site, |path, former| match (HostRoot::open(path, former), former) {
            (Err(_), Some(former)) => Ok(HostRoot::new(path, Arc::clone(&former.read().root))),
            (opened, _) => opened,
        })
    }

    fn follow_by(&self, site: Arc<Site>, open: OpenRoot) -> io::Result<()> {
        let former = self.sites.read().unwrap_or_else(PoisonError::into_inner).last().cloned();
        let first_host = site.first();
        let open = OpenSite::open(site, former.as_deref(), open)?;
        self.first_host.store(first_host, Ordering::Relaxed);
        self.sites.write().unwrap_or_else(PoisonError::into_inner).push(open);
        Ok(())
    }

    /// Closes the roots of former sites by which no request goes any more.
    pub fn forget_former(&self) {
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        let former = sites.len() - 1;
        let is_left = |it: &mut Arc<OpenSite>| Arc::strong_count(&it.site) == 1;
        let left: Vec<_> = sites.extract_if(..former, is_left).collect();
        // Jobs do not wait while directories are closed.
        drop(sites);
        drop(left);
    }

    /// The site of the host with this index; none if it is a former one by which no request goes.
    fn site_of(&self, host: usize) -> Option<Arc<OpenSite>> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        sites.iter().rev().find(|it| it.site.place(host).is_some()).cloned()
    }

    /// Has at most `count` jobs run at once, or one if that is 0; others wait for their turn. For
    /// processes with hardly any descriptors: each job opens a few.
    #[must_use]
    pub fn with_jobs_max(mut self, count: usize) -> Self {
        self.turns = Some(Turns { left: Mutex::new(count.max(1)), given: Condvar::new() });
        self
    }

    /// Sets the function that the runner reports trouble with a path to.
    #[must_use]
    pub fn with_trouble_report(self, report: ReportTrouble) -> Self {
        Self { report: Some(report), ..self }
    }

    /// Sets the time after which files that the runner opens are closed if they are not requested,
    /// in microseconds; none means never.
    #[must_use]
    pub fn with_file_idle_us(self, file_idle_us: Option<u64>) -> Self {
        Self { file_idle_us, ..self }
    }

    /// Sets how long, in microseconds, the identity of a directory is remembered: within
    /// `moment_us` the directory is not examined again for another file in it.
    #[must_use]
    pub fn with_moment_us(self, moment_us: u64) -> Self {
        Self { moment_us, ..self }
    }

    /// Reports that an application has not answered, or the server of it that had the request. A
    /// program that is missing is the affair of who has asked for it, and of one that may not run
    /// its spawner says more.
    pub(crate) fn report_application(
        &self,
        application: &Application,
        server: Option<usize>,
        failure: Failure,
    ) {
        use upstream::{Failure::NotStarted, Refusal};
        if let NotStarted(Refusal::Missing | Refusal::Forbidden) = failure {
            return;
        }
        if let Some(report) = &self.report {
            let name = server.map_or(application.name(), |server| application.server_name(server));
            report(&Trouble::Application { name, failure });
        }
    }

    /// Reports the server that could not be reached, if another is tried for that reason.
    pub(crate) fn report_passed_over(&self, application: &Application, tried: &mut Tried) {
        if let Some((server, is_late)) = tried.take_last()
            && let Some(report) = &self.report
        {
            report(&Trouble::PassedOver { name: application.server_name(server), is_late });
        }
    }

    /// Takes the notices for operators about files that were used since the last call, a line each.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        let notice = |sibling: Vec<u8>| {
            // Debug escapes the name, so that it stays on one line whatever bytes it has.
            let sibling = Path::new(OsStr::from_bytes(&sibling));
            format!(
                "{sibling:?} is left out: it is older than its file by more than \
                 precompressed_lag_s_max says. Compress the file again; further ones are not \
                 reported"
            )
        };
        self.left_out.take().map(notice).into_iter().collect()
    }

    /// The closer of unused files that the runner has opened for these caches.
    #[must_use]
    pub fn open_files(&self, caches: Vec<Arc<Cache<Entry>>>) -> OpenFiles {
        OpenFiles::new(caches, self.file_idle_us, Arc::clone(&self.first_host))
    }

    /// Runs one job, which may block.
    #[must_use]
    pub fn run(&self, job: Job) -> Done {
        #[cfg(test)]
        self.before.iter().for_each(|before| before(&job));
        let turn = self.turns.as_ref().map(Turns::take);
        let mut done = self.step(job);
        // Between two pieces a file that is being hashed stays open. A process that takes turns
        // because it lacks descriptors has none for jobs whose turn is over.
        while turn.is_some()
            && let Done::Unfinished(job) = done
        {
            done = self.step(job);
        }
        done
    }

    /// Runs one piece of a job.
    fn step(&self, job: Job) -> Done {
        let index = match &job {
            Job::Resolve { host, .. } | Job::List { host, .. } => *host,
            Job::Hash(job) => job.host,
            Job::ListMore(_) | Job::Application(_) => return step_of_none(job),
        };
        match self.site_of(index).as_ref().and_then(|site| site.host(index)) {
            Some(host) => self.step_of(host, job),
            None => failed(&job, "no request goes by its site any more"),
        }
    }

    /// Runs one piece of a job for a host.
    fn step_of(&self, host: OpenHost<'_>, job: Job) -> Done {
        match job {
            Job::Resolve { path, known, .. } => {
                let files = self.files(host, Vec::new());
                let policy = host.host.settings().symlinks;
                let opened = match known {
                    Known::Entry(slot) if is_current(slot.value(), policy, &files) => {
                        return Done::Current(slot);
                    }
                    Known::Encoded(bytes) => open_encoded(host, &bytes, &files),
                    Known::Entry(_) | Known::Nothing => None,
                };
                match opened {
                    Some(entry) => Done::Resolved(Ok((path, entry))),
                    None => self.resolve(host, path, files),
                }
            }
            Job::Hash(job) => self.hash(host, job),
            Job::List { path, format, permit, .. } => {
                let listed = list(host, &path, format, permit).and_then(list_more);
                if let (Err(why), Some(report)) = (&listed, &self.report) {
                    let (root, cause) = (&*host.root.path, TroubleCause::Failed(why));
                    report(&Trouble::Path { root, path: &path[1..], cause });
                }
                Done::Listed(listed)
            }
            job @ (Job::ListMore(_) | Job::Application(_)) => step_of_none(job),
        }
    }

    /// The answer to a job that checks whether an entry is still valid, if it is and if the kernel
    /// can tell that without waiting for a disk. A caller that must not wait calls this first:
    /// handing the job to another thread would cost ten times as much, and the job would wait there
    /// behind jobs that read from disks.
    #[must_use]
    pub fn run_at_once(&self, job: &Job) -> Option<Done> {
        let Job::Resolve { host, known: Known::Entry(slot), .. } = job else { return None };
        let site = self.site_of(*host)?;
        let OpenHost { host, root, .. } = site.host(*host)?;
        let entry = slot.value();
        // The check of the root itself may wait, so it is left to `run`.
        if root.is_check_due() || !entry.is_settled() {
            return None;
        }
        let (tree, policy) = (root.read(), symlinks(host.settings().symlinks));
        let same = |stamp: &FileStamp| is_as_it_was(stamp, policy, &tree.root);
        let is_current = entry.stamps.iter().all(same);
        is_current.then(|| Done::Current(Arc::clone(slot)))
    }

    fn files<'f>(&'f self, host: OpenHost<'f>, hashed: Vec<(Identity, Hashed)>) -> HostFiles<'f> {
        HostFiles {
            tree: host.root.current(),
            moment_us: self.moment_us,
            path: &host.root.path,
            report: self.report.as_ref(),
            hashes: &self.hashes,
            hashed,
            left_out: &self.left_out,
        }
    }

    fn resolve(&self, of: OpenHost<'_>, path: Box<[u8]>, files: HostFiles<'_>) -> Done {
        let OpenHost { index: host, host: settings, .. } = of;
        match resolve(settings, &path, &files, unix_ns(), self.small_body_bytes_max) {
            Ok(entry) => Done::Resolved(Ok((path, entry))),
            Err(Unresolved::Failed(why)) => {
                files.report(&path[1..], TroubleCause::Failed(&why));
                Done::Resolved(Err(why))
            }
            Err(Unresolved::Unhashed(hashing)) => {
                let (hashing, hashed) = (self.hashes.join(hashing), files.hashed);
                let file = FileRef::clone(lock_hashing(&hashing).file());
                Done::Unfinished(Job::Hash(Box::new(HashJob { host, path, file, hashing, hashed })))
            }
        }
    }

    /// Hashes the next piece of a file, and goes on to the entry after the last.
    fn hash(&self, host: OpenHost<'_>, mut job: Box<HashJob>) -> Done {
        let mut files = self.files(host, std::mem::take(&mut job.hashed));
        let (identity, outcome) = {
            let mut hashing = lock_hashing(&job.hashing);
            (*hashing.identity(), self.hash_piece(&mut hashing, &files))
        };
        let hashed = match outcome {
            Ok(Some(hashed)) => hashed,
            Ok(None) => {
                job.hashed = files.hashed;
                return Done::Unfinished(Job::Hash(job));
            }
            Err(why) => {
                files.report(&job.path[1..], TroubleCause::Failed(&why));
                return Done::Resolved(Err(why));
            }
        };
        if let Hashed::Hash(hash) = hashed {
            // Before the times settle, a change that does not alter them would never be noticed.
            if identity.is_settled(unix_ns()) {
                self.hashes.put(&identity, hash);
            }
        }
        files.hashed.push((identity, hashed));
        self.resolve(host, job.path, files)
    }

    /// Hashes a piece of a file. Returns the outcome if it was the last, or the hash if it has
    /// become known meanwhile.
    fn hash_piece(
        &self,
        hashing: &mut Hashing,
        files: &HostFiles<'_>,
    ) -> io::Result<Option<Hashed>> {
        if let Some(hash) = self.hashes.get(hashing.identity()) {
            return Ok(Some(Hashed::Hash(hash)));
        }
        // One buffer is kept for all jobs: one for each would take memory in proportion to the
        // files that are requested at once.
        let mut buffer = std::mem::take(&mut *lock(&self.spare_buffer));
        buffer.resize(HASHED_BYTES, 0);
        let outcome = hashing.advance(files, &mut buffer);
        *lock(&self.spare_buffer) = buffer;
        outcome
    }
}

/// Checks that the roots of a site can be opened, for processes that are to open them.
///
/// # Errors
/// A root cannot be opened; the message names it.
pub fn check_roots(site: &Site) -> io::Result<()> {
    site.roots().try_for_each(|path| HostRoot::open(path, None).map(drop))
}

impl OpenSite {
    /// Opens the roots of a site, except directories that a former one has open at the same paths.
    fn open(site: Arc<Site>, former: Option<&Self>, open_root: OpenRoot) -> io::Result<Arc<Self>> {
        let former = former.map_or(&[][..], |former| &former.roots);
        let known: HashMap<_, _> = former.iter().map(|root| (&*root.path, root)).collect();
        let open = |path: &Path| open_root(path, known.get(path).copied());
        let roots = site.roots().map(open).collect::<io::Result<_>>()?;
        Ok(Arc::new(Self { site, roots }))
    }

    fn host(&self, index: usize) -> Option<OpenHost<'_>> {
        let root = &self.roots[self.site.place(index)?];
        Some(OpenHost { index, host: self.site.host(index), root })
    }
}

/// Runs one piece of a job that needs no host.
fn step_of_none(job: Job) -> Done {
    match job {
        Job::ListMore(cursor) => Done::Listed(list_more(cursor)),
        _ => unreachable!("applications are called, not run"),
    }
}

/// Decodes an entry that another process has found, with its files opened here; none if the
/// entry is not current.
fn open_encoded(of: OpenHost<'_>, bytes: &[u8], files: &HostFiles<'_>) -> Option<Entry> {
    let symlinks = of.host.settings().symlinks;
    let mut open = |_, stamp: &FileStamp| {
        let opened = files.open(&stamp.path, symlinks).ok()?;
        let is_it = opened.kind == Kind::Regular && Some(opened.identity) == stamp.identity;
        is_it.then_some(opened.file)
    };
    let entry = Entry::decode(bytes, &mut open).ok()?;
    is_current(&entry, symlinks, files).then_some(entry)
}

/// Opens a directory, and reads and sorts its names.
fn list(
    of: OpenHost<'_>,
    path: &[u8],
    format: ListFormat,
    permit: ListingPermit,
) -> io::Result<Box<ListCursor>> {
    let tree = of.root.current();
    let root = &tree.root;
    let settings = of.host.settings();
    let symlinks = symlinks(settings.symlinks);
    let relative = path[1..].strip_suffix(b"/").unwrap_or(&path[1..]);
    let directory = File::from(root.open(relative, symlinks)?);
    let mut cursor = Box::new(ListCursor {
        directory: FileRef::new(directory.into()),
        path: path.into(),
        renderer: Renderer::new(format),
        names: Vec::new(),
        entries: Vec::new(),
        next: 0,
        permit,
    });
    let directory = FileRef::clone(&cursor.directory);
    let mut reader = read_directory(directory.as_fd())?;
    while let Some(entry) = reader.next_entry()? {
        if settings.dotfiles == Dotfiles::Deny && path::is_hidden(&[b"/", entry.name].concat()) {
            continue;
        }
        if !path::is_requestable(entry.name) {
            continue; // a request for it would be an error
        }
        let is_directory = match entry.kind {
            EntryKind::Directory => true,
            EntryKind::Regular | EntryKind::Other => false,
            EntryKind::Symlink | EntryKind::Unknown => {
                let full = [path[1..].as_ref(), entry.name].concat();
                match root.stat_relative(&full, symlinks) {
                    Ok(status) => status.kind == FileKind::Directory,
                    Err(_) => continue, // a name that a request would not find is not listed
                }
            }
        };
        push_name(&mut cursor, entry.name, is_directory)?;
    }
    sort(&mut cursor);
    Ok(cursor)
}

/// Locks the state of a hash, poisoned or not: it changes by whole pieces, so that a panic leaves
/// it at the end of a piece.
pub(crate) fn lock_hashing(hashing: &SharedHashing) -> MutexGuard<'_, Hashing> {
    hashing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bound on the turns that are taken at once.
struct Turns {
    left: Mutex<usize>,
    given: Condvar,
}

/// A turn, until it is dropped.
struct Turn<'t>(&'t Turns);

impl Turns {
    /// Waits for a turn.
    fn take(&self) -> Turn<'_> {
        let left = self.given.wait_while(lock(&self.left), |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.left) += 1;
        self.0.given.notify_one();
    }
}

impl HostRoot {
    /// Opens a root, which is that of a former host if that has the same directory open.
    fn open(path: &Path, former: Option<&Self>) -> io::Result<Self> {
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let root = Root::new(path).map_err(failed)?;
        let former = former.map(|it| Arc::clone(&it.read().root));
        let own = directory(&root);
        let is_same = |former: &Arc<Root>| own.is_some() && directory(former) == own;
        Ok(Self::new(path, former.filter(is_same).unwrap_or_else(|| Arc::new(root))))
    }

    fn new(path: &Path, root: Arc<Root>) -> Self {
        Self {
            path: path.to_owned(),
            tree: RwLock::new(Tree::new(root)),
            checked_us: AtomicU64::new(os::clock::now()),
        }
    }

    /// The root, opened anew if its path has come to lead elsewhere.
    fn current(&self) -> Arc<Tree> {
        let tree = self.read();
        let checked = self.checked_us.load(Ordering::Relaxed);
        let now = os::clock::now();
        if is_due(checked, now) && self.checked_us.swap(now, Ordering::Relaxed) == checked {
            self.replace_if_other(&tree.root);
            return self.read();
        }
        tree
    }

    fn is_check_due(&self) -> bool {
        is_due(self.checked_us.load(Ordering::Relaxed), os::clock::now())
    }

    fn read(&self) -> Arc<Tree> {
        Arc::clone(&self.tree.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the root if its path leads to another directory. A root that is missing for a
    /// moment (between two steps of a deployment) stays.
    fn replace_if_other(&self, root: &Root) {
        let Ok(named) = std::fs::metadata(&self.path) else { return };
        if directory(root).is_none_or(|open| open == (named.dev(), named.ino())) {
            return;
        }
        if let Ok(root) = Root::new(&self.path) {
            let tree = Tree::new(Arc::new(root));
            *self.tree.write().unwrap_or_else(PoisonError::into_inner) = tree;
        }
    }
}

/// The device and the inode of a root; none if they cannot be read.
fn directory(root: &Root) -> Option<(u64, u64)> {
    let open = FileStatus::from_file(root.as_fd()).ok()?;
    Some((open.device, open.inode))
}

fn is_due(checked_us: u64, now_us: u64) -> bool {
    now_us.saturating_sub(checked_us) >= ROOT_CHECK_US
}

/// Whether a file that an entry was made from is unchanged, as far as the kernel can tell without
/// waiting.
fn is_as_it_was(stamp: &FileStamp, policy: os::files::Symlinks, root: &Root) -> bool {
    match root.stat_if_cached(&stamp.path, policy) {
        Ok(Some(status)) => Some(identity(&status)) == stamp.identity,
        Ok(None) => false,
        Err(_) => stamp.identity.is_none(),
    }
}

/// The files of one host, for resolution.
struct HostFiles<'a> {
    tree: Arc<Tree>,
    moment_us: u64,
    /// The path of the root.
    path: &'a Path,
    report: Option<&'a ReportTrouble>,
    hashes: &'a Hashes,
    /// The files that were hashed for this path alone.
    hashed: Vec<(Identity, Hashed)>,
    left_out: &'a LeftOut,
}

impl HostFiles<'_> {
    /// Converts an error of opening into what it means for the path.
    fn unopened(&self, path: &[u8], policy: Symlinks, why: io::Error) -> Unopened {
        let is_directory = || {
            let status = self.tree.root.stat_relative(path, symlinks(policy));
            status.is_ok_and(|status| status.kind == FileKind::Directory)
        };
        match Cause::from_error(&why) {
            Cause::SymbolicLink => Unopened::Refused(Refusal::SymbolicLink),
            Cause::NothingBehind => Unopened::Refused(Refusal::NotRegular),
            _ if why.kind() == io::ErrorKind::PermissionDenied && is_directory() => {
                Unopened::ClosedDirectory
            }
            _ => why.into(),
        }
    }

    fn report(&self, path: &[u8], cause: TroubleCause<'_>) {
        if let Some(report) = self.report {
            report(&Trouble::Path { root: self.path, path, cause });
        }
    }
}

impl Files for HostFiles<'_> {
    fn open(&self, path: &[u8], policy: Symlinks) -> Result<Opened, Unopened> {
        let opened = self.tree.root.open(path, symlinks(policy));
        let descriptor: OwnedFd = opened.map_err(|why| self.unopened(path, policy, why))?;
        let status = FileStatus::from_file(descriptor.as_fd())?;
        let kind = match status.kind {
            FileKind::Regular => Kind::Regular,
            FileKind::Directory => Kind::Directory,
            FileKind::Other => Kind::Other,
        };
        let file = FileRef::new(File::from(descriptor).into());
        Ok(Opened { file, kind, identity: identity(&status) })
    }

    fn identity(&self, path: &[u8], policy: Symlinks) -> io::Result<Identity> {
        let root = &self.tree.root;
        let status = match policy {
            Symlinks::Anywhere => root.stat_at(path),
            _ if path.is_empty() => FileStatus::from_file(root.as_fd()),
            policy => root.stat_relative(path, symlinks(policy)),
        };
        status.map(|status| identity(&status))
    }

    fn directory(&self, path: &[u8], policy: Symlinks) -> io::Result<Identity> {
        let (directories, now) = (&self.tree.directories, os::clock::now());
        if let Some(known) = directories.get(path, now, self.moment_us) {
            return Ok(known);
        }
        let found = self.identity(path, policy)?;
        directories.note(path, found, now, self.moment_us);
        Ok(found)
    }

    fn in_directory(&self, path: &[u8], policy: Symlinks) -> io::Result<Identity> {
        match self.tree.root.stat_unless_link(path)? {
            Some(status) => Ok(identity(&status)),
            None => self.identity(path, policy),
        }
    }

    fn read(&self, file: &FileRef, len: usize) -> io::Result<Vec<u8>> {
        let mut content = vec![0; len];
        let mut at = 0;
        while at < len {
            match read_at(file.as_fd(), &mut content[at..], at as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => at += n,
            }
        }
        Ok(content)
    }

    fn read_at(&self, file: &FileRef, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_at(file.as_fd(), buffer, offset)
    }

    fn identity_of(&self, file: &FileRef) -> io::Result<Identity> {
        FileStatus::from_file(file.as_fd()).map(|status| identity(&status))
    }

    fn report_refusal(&self, path: &[u8], why: Refusal) {
        self.report(path, TroubleCause::Refused(why));
    }

    fn hashed(&self, identity: &Identity) -> Option<Hashed> {
        let own =
            self.hashed.iter().find(|(other, _)| other == identity).map(|(_, hashed)| *hashed);
        let known = own.or_else(|| self.hashes.get(identity).map(Hashed::Hash));
        known.or_else(|| (self.hashed.len() >= HASHED_MAX).then_some(Hashed::Changed))
    }

    fn report_left_out(&self, sibling: &[u8]) {
        self.left_out.note(sibling);
    }
}

/// Wall-clock time in nanoseconds.
fn unix_ns() -> i128 {
    let (seconds, nanoseconds) = os::clock::unix_time();
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

fn identity(status: &FileStatus) -> Identity {
    Identity {
        device: status.device,
        inode: status.inode,
        len: status.len,
        modified_ns: status.modified_ns.into(),
        changed_ns: status.changed_ns.into(),
    }
}

/// The policy for links, in the terms of the `os` crate.
#[must_use]
pub fn symlinks(policy: Symlinks) -> os::files::Symlinks {
    match policy {
        Symlinks::Beneath => os::files::Symlinks::Beneath,
        Symlinks::Never => os::files::Symlinks::Never,
        Symlinks::Anywhere => os::files::Symlinks::Anywhere,
    }
}

fn push_name(cursor: &mut ListCursor, name: &[u8], is_directory: bool) -> io::Result<()> {
    let start = u32::try_from(cursor.names.len()).map_err(io::Error::other)?;
    let len = u16::try_from(name.len()).map_err(io::Error::other)?;
    cursor.names.extend_from_slice(name);
    cursor.entries.push(ListName { start, len, is_directory });
    Ok(())
}

/// Sorts the names: directories first, then by bytes.
fn sort(cursor: &mut ListCursor) {
    let ListCursor { names, entries, .. } = cursor;
    entries.sort_unstable_by_key(|entry| (Reverse(entry.is_directory), name(names, *entry)));
}

fn name(names: &[u8], entry: ListName) -> &[u8] {
    &names[entry.start as usize..][..usize::from(entry.len)]
}

/// Renders the next chunk of a listing.
fn list_more(mut cursor: Box<ListCursor>) -> io::Result<(Vec<u8>, Option<Box<ListCursor>>)> {
    let mut bytes = Vec::with_capacity(LIST_CHUNK_BYTES + 1024);
    let ListCursor { directory, renderer, names, entries, next, path, .. } = &mut *cursor;
    if *next == 0 {
        renderer.header(path, &mut bytes);
    }
    while let Some(entry) = entries.get(*next).filter(|_| bytes.len() < LIST_CHUNK_BYTES) {
        *next += 1;
        let name = name(names, *entry);
        // A file that was deleted meanwhile is left out.
        if let Ok(status) = FileStatus::from_path(directory.as_fd(), name) {
            renderer.item(&item(name, &status), &mut bytes);
        }
    }
    if *next < entries.len() {
        return Ok((bytes, Some(cursor)));
    }
    renderer.footer(&mut bytes);
    Ok((bytes, None))
}

fn item<'n>(name: &'n [u8], status: &FileStatus) -> Item<'n> {
    let kind = match status.kind {
        FileKind::Regular => ItemKind::File,
        FileKind::Directory => ItemKind::Directory,
        FileKind::Other => ItemKind::Other,
    };
    let modified = Some(status.modified_ns.div_euclid(1_000_000_000));
    Item { name, kind, len: status.len, modified }
}

#[cfg(test)]
mod tests;
