//! The standard document root: the tree of files that the conformance cases request.
//!
//! The tree is the same everywhere: names, lengths, contents and modification times are fixed, so a
//! case can name an exact `Last-Modified` and an exact byte. Its contents are a table (`tree.rs`);
//! this module makes the files. It is not a temporary-directory library.

mod tree;

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

pub use tree::MODIFIED_UNIX_SECONDS;
use tree::{Content, FILES, LINKS, Node, OUTSIDE};

/// A directory made by [`DocumentRoot::build`]: `site`, which is served, and `outside`, which must
/// never be served.
#[derive(Debug)]
pub struct DocumentRoot {
    base: PathBuf,
    /// Whether dropping this removes the directory.
    temporary: bool,
}

impl DocumentRoot {
    /// Makes the tree in `dir`, which is created if need be and should be empty.
    ///
    /// # Errors
    /// Any error of the file system; also if there is no `mkfifo` program.
    pub fn build(dir: &Path) -> io::Result<Self> {
        let root = Self { base: dir.to_owned(), temporary: false };
        for node in FILES {
            write_node(&root.site(), node)?;
        }
        for node in OUTSIDE {
            write_node(&root.outside(), node)?;
        }
        for (link, target) in LINKS {
            make_link(&root.site().join(link), Path::new(target))?;
        }
        make_link(&root.site().join("links/absolute.txt"), &root.site().join("notes.txt"))?;
        make_special_files(&root.site())?;
        set_directory_times(&root.site())?;
        Ok(root)
    }

    /// Makes the tree in a new directory under the system's temporary one and removes it when
    /// the value is dropped.
    ///
    /// # Errors
    /// The errors of [`DocumentRoot::build`].
    pub fn temporary() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ropewalk-root-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        let mut root = Self::build(&dir)?;
        root.temporary = true;
        Ok(root)
    }

    /// A temporary tree that is only read, and shared by all who want one while any of them has it:
    /// suites that run side by side.
    ///
    /// # Errors
    /// The errors of [`DocumentRoot::build`].
    pub fn shared() -> io::Result<Arc<Self>> {
        static SHARED: Mutex<Weak<DocumentRoot>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = shared.upgrade() {
            return Ok(root);
        }
        let root = Arc::new(Self::temporary()?);
        *shared = Arc::downgrade(&root);
        Ok(root)
    }

    /// The directory to be served.
    pub fn site(&self) -> PathBuf {
        self.base.join("site")
    }

    /// The directory beside it with files that no client may read.
    pub fn outside(&self) -> PathBuf {
        self.base.join("outside")
    }

    /// Whether this process is refused a file without read permission; root and processes with
    /// `CAP_DAC_OVERRIDE` are not.
    pub fn permissions_hold(&self) -> bool {
        File::open(self.site().join("unreadable.txt")).is_err()
    }
}

impl Drop for DocumentRoot {
    fn drop(&mut self) {
        if self.temporary {
            // A leftover directory is not worth a panic in a destructor.
            let _ = fs::remove_dir_all(&self.base);
        }
    }
}

/// The contents of the file `name` (relative to the site), if the tree has it.
pub fn contents(name: &str) -> Option<&'static [u8]> {
    let node = FILES.iter().chain(OUTSIDE).find(|node| node.name == name.as_bytes())?;
    Some(bytes_of(node))
}

/// The byte at `offset` in the patterned file `name`. Every byte value occurs, line ends and NUL
/// among them, and no two names have the same sequence.
pub fn byte_at(name: &str, offset: u64) -> u8 {
    word_at(seed(name.as_bytes()), offset / 8)[(offset % 8) as usize]
}

/// Each pattern is made only once: all cases run against each engine, and many use the same files.
static PATTERNS: LazyLock<BTreeMap<&[u8], Vec<u8>>> = LazyLock::new(|| {
    let patterned = FILES.iter().chain(OUTSIDE).filter_map(|node| match node.content {
        Content::Text(_) => None,
        Content::Pattern(len) => Some((node.name, pattern(node.name, len))),
    });
    patterned.collect()
});

fn bytes_of(node: &Node) -> &'static [u8] {
    match node.content {
        Content::Text(text) => text.as_bytes(),
        Content::Pattern(_) => &PATTERNS[node.name],
    }
}

fn pattern(name: &[u8], len: usize) -> Vec<u8> {
    let seed = seed(name);
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(8) as u64).flat_map(|index| word_at(seed, index)).collect();
    bytes.truncate(len);
    bytes
}

/// FNV-1a: names that differ in one letter start far apart.
fn seed(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// SplitMix64's output function over a counter: any word can be computed without those before it.
fn word_at(seed: u64, index: u64) -> [u8; 8] {
    let mut word = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

fn write_node(root: &Path, node: &Node) -> io::Result<()> {
    let path = root.join(std::ffi::OsStr::from_bytes(node.name));
    fs::create_dir_all(path.parent().unwrap_or(root))?;
    let mut file = File::create(&path)?;
    file.write_all(bytes_of(node))?;
    file.set_modified(time(node.modified))?;
    file.set_permissions(Permissions::from_mode(node.mode))
}

fn make_link(link: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = link.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(target, link)
}

/// Makes files on which a careless `open` would hang, or from which it would read nonsense.
fn make_special_files(site: &Path) -> io::Result<()> {
    if !Command::new("mkfifo").arg(site.join("fifo")).status()?.success() {
        return Err(io::Error::other("mkfifo failed"));
    }
    // A socket's path is limited to 107 bytes, which a temporary directory can exceed; through
    // the descriptor of the directory it is always short.
    let dir = File::open(site)?;
    UnixListener::bind(format!("/proc/self/fd/{}/socket", dir.as_raw_fd())).map(drop)
}

/// Gives directories the files' time too, so that listings are the same on every run.
fn set_directory_times(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            set_directory_times(&entry.path())?;
        }
    }
    File::open(dir)?.set_times(FileTimes::new().set_modified(time(MODIFIED_UNIX_SECONDS)))
}

fn time(unix_seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(unix_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_on_disk_is_the_tree_in_the_table() {
        let root = DocumentRoot::temporary().expect("a temporary directory");
        for node in FILES.iter().filter(|node| node.mode != 0) {
            let path = root.site().join(std::ffi::OsStr::from_bytes(node.name));
            assert_eq!(fs::read(&path).expect("readable"), bytes_of(node), "{}", path.display());
            let modified = fs::metadata(&path).and_then(|meta| meta.modified()).expect("a time");
            assert_eq!(modified, time(node.modified), "{}", path.display());
        }
        let site = root.site();
        drop(root);
        assert!(!site.exists());
    }

    #[test]
    fn links_lead_where_the_cases_say() {
        let root = DocumentRoot::temporary().expect("a temporary directory");
        let read = |name: &str| fs::read(root.site().join("links").join(name));
        assert_eq!(read("inside.txt").ok().as_deref(), contents("notes.txt"));
        assert_eq!(read("absolute.txt").ok().as_deref(), contents("notes.txt"));
        assert_eq!(read("indir/index.html").ok().as_deref(), contents("docs/index.html"));
        assert_eq!(read("outside.txt").ok().as_deref(), contents("secret.txt"));
        assert_eq!(read("outdir/secret.txt").ok().as_deref(), contents("secret.txt"));
        assert!(read("dangling.txt").is_err());
        assert!(read("loop-a.txt").is_err());
    }

    #[test]
    fn any_byte_can_be_had_without_the_ones_before() {
        let whole = contents("thousand.bin").expect("in the tree");
        for (offset, &byte) in whole.iter().enumerate() {
            assert_eq!(byte_at("thousand.bin", offset as u64), byte);
        }
        assert_ne!(whole, pattern(b"thousand.bim", 1000));
    }

    #[test]
    fn names_in_the_table_are_unique() {
        let mut names: Vec<_> = FILES.iter().map(|node| node.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
