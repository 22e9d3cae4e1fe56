//! Files that have no name until they are complete (`O_TMPFILE`): nothing is left of them if the
//! process ends before that, even by a signal that cannot be caught.
//!
//! On file systems without this feature they have a temporary name, which only a process that is
//! killed leaves behind.

use rustix::fs::{AtFlags, CWD, linkat};
use rustix::io::retry_on_intr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is being written. If it is dropped before [`finish`](Self::finish) nothing remains
/// of it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// The temporary name, in the directory that the file will be in.
    temporary: PathBuf,
    has_name: bool,
}

impl NewFile {
    /// Creates an empty file in the directory of `temporary`, a name that nothing else has: the
    /// name is used on file systems without unnamed files, and for a moment when another file is
    /// replaced. The mask of the process is applied to `mode`.
    ///
    /// # Errors
    /// No file can be created there, or `temporary` exists and is needed.
    pub fn create(temporary: &Path, mode: u32) -> io::Result<Self> {
        let directory = temporary.parent().filter(|parent| !parent.as_os_str().is_empty());
        let unnamed = unnamed(directory.unwrap_or(Path::new(".")), mode)?;
        let has_name = unnamed.is_none();
        let file = match unnamed {
            Some(file) => file,
            None => File::options().write(true).create_new(true).mode(mode).open(temporary)?,
        };
        Ok(Self { file, temporary: temporary.to_owned(), has_name })
    }

    /// The open file, to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name, which is in the directory of the temporary one. If another file has
    /// this name it is replaced: at every moment the name stands for one whole file.
    ///
    /// # Errors
    /// The file system refuses. The file that had this name before, if any, is unchanged then.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        if !self.has_name {
            match link(self.file.as_fd(), path) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                linked => return linked,
            }
            link(self.file.as_fd(), &self.temporary)?;
            self.has_name = true;
        }
        fs::rename(&self.temporary, path)?;
        self.has_name = false;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.has_name {
            // The file may be gone already, and there is no caller to report an error to.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A file without a name; None where the file system or the kernel has no such files, or where the
/// file could not be given a name later.
fn unnamed(directory: &Path, mode: u32) -> io::Result<Option<File>> {
    let opened =
        File::options().write(true).custom_flags(libc::O_TMPFILE).mode(mode).open(directory);
    match opened {
        Ok(file) => Ok(own_path(file.as_fd()).exists().then_some(file)),
        // EISDIR: a kernel that does not know the flag; EOPNOTSUPP and EINVAL: a file system that
        // does not.
        Err(why)
            if matches!(
                why.kind(),
                ErrorKind::IsADirectory | ErrorKind::Unsupported | ErrorKind::InvalidInput
            ) =>
        {
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

/// The path under which the kernel shows the file, though it has no name.
fn own_path(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file a name that is not in use.
fn link(file: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let own = own_path(file);
    Ok(retry_on_intr(|| linkat(CWD, &own, CWD, path, AtFlags::SYMLINK_FOLLOW))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("ropewalk-new-file-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let names = fs::read_dir(&self.0).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The file with a temporary name, as on a file system without unnamed files.
    fn with_name(temporary: &Path) -> NewFile {
        let file = File::create_new(temporary).unwrap();
        NewFile { file, temporary: temporary.to_owned(), has_name: true }
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_replaces_another() {
        let folder = Folder::new("whole");
        let (temporary, path) = (folder.0.join(".temporary"), folder.0.join("file"));
        for make in [|temporary: &Path| NewFile::create(temporary, 0o644).unwrap(), with_name] {
            for text in ["first", "second"] {
                let before = fs::read(&path).ok();
                let mut new = make(&temporary);
                new.file().write_all(text.as_bytes()).unwrap();
                assert_eq!(fs::read(&path).ok(), before, "until it is whole");
                new.finish(&path).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
                assert_eq!(folder.names(), ["file"]);
            }
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_given_up_was_never_there() {
        let folder = Folder::new("given-up");
        let temporary = folder.0.join(".temporary");
        let mut new = NewFile::create(&temporary, 0o644).unwrap();
        new.file().write_all(b"half").unwrap();
        if unnamed(&folder.0, 0o644).unwrap().is_some() {
            assert_eq!(folder.names(), [""; 0], "it has no name that a kill could leave");
        }
        drop(new);
        drop(with_name(&temporary));
        assert_eq!(folder.names(), [""; 0]);
        let missing = folder.0.join("missing/.temporary");
        assert_eq!(NewFile::create(&missing, 0o644).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_name_that_cannot_be_given_leaves_what_was_there() {
        let folder = Folder::new("refused");
        fs::create_dir(folder.0.join("directory")).unwrap();
        for make in [|temporary: &Path| NewFile::create(temporary, 0o644).unwrap(), with_name] {
            let new = make(&folder.0.join(".temporary"));
            assert!(new.finish(&folder.0.join("directory")).is_err());
            assert_eq!(folder.names(), ["directory"]);
        }
    }
}
