//! The directories of programs: what may be started, and for whom.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use engines::jobs::symlinks;
use os::errors::Cause;
use os::files::{FileKind, Root, Symlinks};
use site::host::HostSettings;
use upstream::{Address, Refusal, StartProgram};

/// The directories of all hosts. Nothing outside of them is started, whatever a worker asks for.
pub(super) struct Folders(Vec<Folder>);

struct Folder {
    settings: FolderSettings,
    /// None if there is no such directory.
    root: Option<Root>,
}

/// A directory of programs as it is configured.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FolderSettings {
    /// The place of its host in the list of hosts.
    host: usize,
    /// As the settings have it: empty for the root of the host.
    pub(super) setting: PathBuf,
    directory: PathBuf,
    symlinks: Symlinks,
}

/// A program that was found.
pub(super) struct Found {
    pub(super) path: CString,
    pub(super) directory: CString,
}

impl Folders {
    pub(super) fn new(hosts: &[HostSettings]) -> Self {
        let open = |settings: FolderSettings| Folder {
            root: Root::new(&settings.directory).ok(),
            settings,
        };
        Self(folders(hosts).map(open).collect())
    }

    /// Looks for a program as for a file of its host: below the directory, by links that the host
    /// allows.
    pub(super) fn find(&self, start: &StartProgram<'_>) -> Result<Found, Refusal> {
        let is_it = |folder: &&Folder| {
            let FolderSettings { host, setting, .. } = &folder.settings;
            *host == start.host && setting.as_os_str().as_bytes() == start.folder
        };
        let folder = self.0.iter().find(is_it).ok_or(Refusal::Forbidden)?;
        let root = folder.root.as_ref().ok_or(Refusal::Missing)?;
        let FolderSettings { directory, symlinks, .. } = &folder.settings;
        match root.stat_relative(start.program, *symlinks) {
            Ok(status) if status.kind == FileKind::Regular => {}
            Ok(_) => return Err(Refusal::Forbidden),
            Err(why) if Cause::from_error(&why) == Cause::NoAccess => {
                return Err(Refusal::Forbidden);
            }
            Err(_) => return Err(Refusal::Missing),
        }
        let path = directory.join(OsStr::from_bytes(start.program));
        let directory = path.parent().unwrap_or(directory).to_path_buf();
        let text = |path: PathBuf| CString::new(path.into_os_string().into_vec());
        let found = || io::Result::Ok(Found { path: text(path)?, directory: text(directory)? });
        found().map_err(|_| Refusal::Missing)
    }
}

/// The directories of programs of all hosts.
pub(super) fn folders(hosts: &[HostSettings]) -> impl Iterator<Item = FolderSettings> + '_ {
    hosts.iter().enumerate().flat_map(|(index, host)| folders_of(index, host))
}

fn folders_of(index: usize, host: &HostSettings) -> impl Iterator<Item = FolderSettings> + '_ {
    let servers = host.routes.iter().flat_map(|route| &route.application.servers);
    servers.filter_map(move |server| {
        let Address::Programs(setting) = &server.address else { return None };
        let directory = if setting.as_os_str().is_empty() { &host.root } else { setting };
        Some(FolderSettings {
            host: index,
            setting: setting.clone(),
            directory: absolute(directory),
            symlinks: symlinks(host.symlinks),
        })
    })
}

/// Programs have other current directories.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}
