//! Resolves a path as openat2 does, step by step, for kernels and containers without the call.
//!
//! Each component is opened by its name alone, from the directory before it and without
//! following links, so that nothing that is renamed meanwhile can lead the walk astray. Links are
//! read and their targets walked in the same way. `..` goes back to the directory the walk came
//! from instead of asking the file system, which is why the open directories are kept.
//!
//! Errors are those of openat2 in the same situation. Magic links are recognised on /proc only, and
//! by their targets, as the kernel does not mark them; those of other file systems are followed by
//! their text, which is as safe as following any link.

use super::open::{How, openat};
use super::root::Symlinks;
use super::status::{FileKind, FileStatus};
use crate::call::error;
use rustix::fs::{OFlags, PROC_SUPER_MAGIC, fstatfs, readlinkat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const LINKS_MAX: u32 = 40; // MAXSYMLINKS in the kernel

/// Opens `path` below `root` within the limits of `symlinks`. Empty is `root`.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    symlinks: Symlinks,
    how: How,
) -> io::Result<OwnedFd> {
    if path.contains(&0) {
        return Err(error(libc::EINVAL)); // it must not count as the end of a component
    }
    if path.len() >= libc::PATH_MAX as usize {
        return Err(error(libc::ENAMETOOLONG));
    }
    Walk { base: Base::Root(root), below: Vec::new(), symlinks, links: 0 }.run(path.to_vec(), how)
}

struct Walk<'r> {
    base: Base<'r>,
    /// The directories entered since `base`; the walk is in the last one.
    below: Vec<OwnedFd>,
    symlinks: Symlinks,
    links: u32, // followed so far; <= LINKS_MAX
}

/// Where the walk began, or began anew after an absolute link.
enum Base<'r> {
    Root(BorrowedFd<'r>),
    Elsewhere(OwnedFd),
}

/// The first component of a path and what follows it.
struct Step<'p> {
    name: &'p [u8],
    rest: &'p [u8],
    /// There are further components, or slashes that demand a directory.
    into_directory: bool,
}

enum Entered {
    /// The walk is in the component's directory now.
    Directory,
    /// The component is a link; this is the path still to go.
    Link(Vec<u8>),
    /// The component is the end of the path.
    End(OwnedFd),
}

impl Walk<'_> {
    fn run(mut self, mut path: Vec<u8>, how: How) -> io::Result<OwnedFd> {
        let mut start = 0; // path[..start] has been walked; start <= path.len()
        while let Some(step) = next_step(&path[start..]) {
            let next = path.len() - step.rest.len();
            match self.enter(&step, how)? {
                Entered::Directory => start = next,
                Entered::Link(target) => (path, start) = (target, 0),
                Entered::End(descriptor) => return Ok(descriptor),
            }
        }
        openat(self.here(), b".", how.flags())
    }

    /// The directory the walk is in.
    fn here(&self) -> BorrowedFd<'_> {
        match (self.below.last(), &self.base) {
            (None, Base::Root(root)) => *root,
            (Some(directory), _) | (None, Base::Elsewhere(directory)) => directory.as_fd(),
        }
    }

    fn enter(&mut self, step: &Step<'_>, how: How) -> io::Result<Entered> {
        match step.name {
            b"." => return Ok(Entered::Directory),
            b".." => return self.leave().map(|()| Entered::Directory),
            _ => {}
        }
        let found = openat(self.here(), step.name, How::Path.flags() | OFlags::NOFOLLOW)?;
        let kind = FileStatus::entry_kind(found.as_fd())?;
        match kind {
            None => self.follow(found.as_fd(), step).map(Entered::Link),
            Some(FileKind::Directory) if step.into_directory => {
                self.below.push(found);
                Ok(Entered::Directory)
            }
            Some(_) if step.into_directory => Err(error(libc::ENOTDIR)),
            Some(_) if how == How::Path => Ok(Entered::End(found)),
            // If a link has taken its place since, this is ELOOP.
            Some(_) => {
                openat(self.here(), step.name, how.flags() | OFlags::NOFOLLOW).map(Entered::End)
            }
        }
    }

    /// Goes back to where the walk came from, for a `..`.
    fn leave(&mut self) -> io::Result<()> {
        if self.below.pop().is_some() {
            return Ok(());
        }
        if self.symlinks != Symlinks::Anywhere {
            return Err(error(libc::EXDEV));
        }
        let parent = openat(self.here(), b"..", How::Path.flags() | OFlags::DIRECTORY)?;
        self.base = Base::Elsewhere(parent);
        Ok(())
    }

    /// The path to go after following `link`: its target and then the rest of the path.
    fn follow(&mut self, link: BorrowedFd<'_>, step: &Step<'_>) -> io::Result<Vec<u8>> {
        if self.symlinks == Symlinks::Never || self.links == LINKS_MAX {
            return Err(error(libc::ELOOP));
        }
        self.links += 1;
        let mut target = readlinkat(link, c"", Vec::new())?.into_bytes();
        if is_magic(link, &target)? {
            return Err(error(libc::ELOOP));
        }
        if target.first() == Some(&b'/') {
            self.start_over()?;
        }
        if step.into_directory {
            target.push(b'/');
            target.extend_from_slice(step.rest);
        }
        Ok(target)
    }

    /// Starts at the root again, for a link whose target begins with `/`.
    fn start_over(&mut self) -> io::Result<()> {
        if self.symlinks != Symlinks::Anywhere {
            return Err(error(libc::EXDEV));
        }
        self.base = Base::Elsewhere(super::open::open_directory(b"/")?);
        self.below.clear();
        Ok(())
    }
}

/// The next component of `path`. None: there are no components left.
fn next_step(path: &[u8]) -> Option<Step<'_>> {
    let start = path.iter().position(|&byte| byte != b'/')?;
    let path = &path[start..];
    let len = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
    let (name, rest) = path.split_at(len);
    Some(Step { name, rest, into_directory: !rest.is_empty() })
}

/// Whether `link` leads elsewhere than its target says. The links of /proc do, except the few
/// that are plain text: `self`, `thread-self` (their targets begin with a process number),
/// `mounts` and `net` (they begin with `self/`). Targets of magic links are absolute paths or
/// descriptions like `pipe:[123]`.
fn is_magic(link: BorrowedFd<'_>, target: &[u8]) -> io::Result<bool> {
    let is_plain = target.starts_with(b"self/") || target.first().is_some_and(u8::is_ascii_digit);
    Ok(fstatfs(link)?.f_type == PROC_SUPER_MAGIC && !is_plain)
}
