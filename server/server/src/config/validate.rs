//! Checks that need more than one value: settings that contradict each other, an engine's knobs,
//! the directories.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use command::near::{hint, near_name, near_path};
use engines::jobs::symlinks;
use os::files::{FileKind, Root};
use site::HostSettings;
use site::check::{self, SettingError};
use site::host::Dotfiles;
use site::rules::PathGlobs;

use super::error::{ConfigError, ConfigFault};
use super::field::join;
use super::settings::{AccessForm, LogSettings, Settings};
use super::source::Origins;
use super::{host_key, item_key};

type Checked = Result<(), ConfigError>;

/// Checks the settings as a whole, but not the files they name.
pub(super) fn check(settings: &Settings, origins: &Origins) -> Checked {
    let limits = &settings.limits;
    if limits.request_line_bytes_max > limits.head_bytes_max {
        let fault = ConfigFault::LineAboveHead(limits.head_bytes_max);
        return Err(origins.explain("limits.request_line_bytes_max", fault));
    }
    check_claims(&settings.hosts, origins)?;
    check_reach(&settings.hosts, origins)?;
    for (index, host) in settings.hosts.iter().enumerate() {
        check_root(&host.root).map_err(|why| origins.explain(&host_key(index, "root"), why))?;
        let roots = host.routes.iter().map(|route| Path::new(&route.application.sendfile_root));
        roots
            .filter(|root| *root != Path::new(""))
            .try_for_each(check_root)
            .map_err(|why| origins.explain(&host_key(index, "route"), why))?;
    }
    Ok(())
}

/// Checks that the files that hosts name below their roots exist, and that a log can be created.
pub(super) fn check_files(settings: &Settings, origins: &Origins) -> Checked {
    for (index, host) in settings.hosts.iter().enumerate() {
        check_open(&host.root).map_err(|why| origins.explain(&host_key(index, "root"), why))?;
        for (key, page) in pages(host) {
            check_page(host, page).map_err(|why| origins.explain(&host_key(index, &key), why))?;
        }
    }
    check_log(&settings.log, &settings.hosts).map_err(|why| origins.explain("log.path", why))
}

/// Checks that no two hosts claim the same name, and that at most one claims all other names.
fn check_claims(hosts: &[HostSettings], origins: &Origins) -> Checked {
    let mut names = BTreeSet::new();
    let mut has_default = false;
    for (index, host) in hosts.iter().enumerate() {
        for (number, name) in host.names.iter().enumerate() {
            if !names.insert(name.to_ascii_lowercase()) {
                let key = item_key(&host_key(index, "names"), number);
                let error = SettingError::HostNameTwice(name.clone());
                return Err(origins.explain(&key, ConfigFault::Setting(error)));
            }
        }
        if host.default && std::mem::replace(&mut has_default, true) {
            let fault = ConfigFault::Setting(SettingError::TwoDefaults);
            return Err(origins.explain(&host_key(index, "default"), fault));
        }
    }
    Ok(())
}

/// Checks that some request can reach each host: by a name, or because the host is the default,
/// which the first one without names is if no other is.
fn check_reach(hosts: &[HostSettings], origins: &Origins) -> Checked {
    let nameless = |index: &usize| hosts[*index].names.is_empty();
    let first = || (0..hosts.len().min(1)).find(nameless);
    let default = hosts.iter().position(|host| host.default).or_else(first);
    match (0..hosts.len()).filter(nameless).find(|index| Some(*index) != default) {
        Some(index) => {
            let fault = ConfigFault::UnreachableHost { has_default: default.is_some() };
            Err(origins.explain(&item_key("host", index), fault))
        }
        None => Ok(()),
    }
}

fn check_root(root: &Path) -> Result<(), ConfigFault> {
    match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(ConfigFault::RootIsFile(root.into())),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let hint = near_path(root, Path::is_dir);
            Err(ConfigFault::NoRoot { root: root.into(), hint })
        }
        Err(why) => {
            check_open(root)?;
            Err(ConfigFault::Root(root.into(), why))
        }
    }
}

/// Checks that this user may look up names in a root: that the root itself has been found does not
/// show it.
fn check_open(root: &Path) -> Result<(), ConfigFault> {
    // The way from `/` may be closed where that from the current directory is not.
    if !is_closed(root) {
        return Ok(());
    }
    let absolute = std::path::absolute(root).unwrap_or_else(|_| root.into());
    let closed = absolute.ancestors().filter(|directory| is_closed(directory)).last();
    let closed = closed.unwrap_or(&absolute).to_path_buf();
    // A directory on the way has only to be searched; the root may be listed, too.
    let permissions = if closed == absolute { "rx" } else { "x" };
    Err(ConfigFault::ClosedRoot { root: root.into(), closed, permissions })
}

/// Whether this user may not look up names in a directory.
fn is_closed(directory: &Path) -> bool {
    let found = std::fs::metadata(directory.join("."));
    found.is_err_and(|why| why.kind() == io::ErrorKind::PermissionDenied)
}

/// The pages of a host, each with the key that names it.
fn pages(host: &HostSettings) -> impl Iterator<Item = (String, &str)> {
    let fallback = host.spa_fallback.iter().map(|page| ("spa_fallback".into(), page.as_str()));
    fallback.chain(
        host.error_pages
            .iter()
            .map(|(status, page)| (join("error_pages", &status.to_string()), page.as_str())),
    )
}

/// Checks that a page is a file or has a precompressed one beside it. It must neither be hidden nor
/// redirected, nor behind a link that is not followed.
fn check_page(host: &HostSettings, page: &str) -> Result<(), ConfigFault> {
    if host.dotfiles == Dotfiles::Deny {
        check::visible_page(page).map_err(ConfigFault::Setting)?;
    }
    let redirects = PathGlobs::new(host.redirects.iter().map(|rule| (&rule.from, ())));
    let redirects = redirects.map_err(|why| ConfigFault::Setting(SettingError::Glob(why)))?;
    if redirects.matches(page.as_bytes()).next().is_some() {
        return Err(ConfigFault::RedirectedPage(page.into()));
    }
    let name = page.trim_start_matches('/');
    match has_file(host, name).map_err(|why| ConfigFault::Root(host.root.clone(), why))? {
        true => Ok(()),
        false => {
            let near = near_name(&host.root.join(name), Path::is_file);
            let hint = hint(near.map(|near| Path::new(page).with_file_name(near)).as_deref());
            Err(ConfigFault::NoPage { page: page.into(), hint, root: host.root.clone() })
        }
    }
}

/// Whether a host serves a file of this name below its root, in any coding.
///
/// # Errors
/// The root cannot be opened.
fn has_file(host: &HostSettings, name: &str) -> io::Result<bool> {
    let root = Root::new(&host.root)?;
    let is_there = |suffix: &str| {
        let path = format!("{name}{suffix}");
        let status = root.stat_relative(path.as_bytes(), symlinks(host.symlinks));
        status.is_ok_and(|status| status.kind == FileKind::Regular)
    };
    let suffixes = host.precompressed.iter().map(|coding| coding.suffix());
    Ok([""].into_iter().chain(suffixes).any(is_there))
}

fn check_log(log: &LogSettings, hosts: &[HostSettings]) -> Result<(), ConfigFault> {
    if log.access == AccessForm::Off || log.path == "-" {
        return Ok(());
    }
    let path = Path::new(&log.path);
    // A path of a single component is in the current directory.
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    match std::fs::metadata(directory) {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            let closed = directory.ancestors().filter(|it| is_closed(it)).last();
            return Err(unwritable_log(path, closed.unwrap_or(directory), why));
        }
        Ok(found) if found.is_dir() => {}
        _ => return Err(ConfigFault::NoLogDirectory(directory.into())),
    }
    if path.is_dir() {
        return Err(ConfigFault::LogIsDirectory(path.into()));
    }
    let file = log_file(path, directory);
    check_log_is_outside(path, &file, hosts)?;
    check_log_is_writable(path, &file)
}

/// The file that a log in this directory is written to, which may not exist yet: what `log` links
/// to if it is a link.
fn log_file(log: &Path, directory: &Path) -> PathBuf {
    let name = log.read_link().unwrap_or_else(|_| log.file_name().unwrap_or_default().into());
    directory.join(name)
}

/// Checks that this user may write a log, or make it. Nothing is opened or made for that.
fn check_log_is_writable(log: &Path, file: &Path) -> Result<(), ConfigFault> {
    let directory = file.parent().unwrap_or(file);
    let (at, why) = match os::files::check_writable(file) {
        Ok(()) => return Ok(()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            match os::files::check_writable(directory) {
                Ok(()) => return Ok(()),
                Err(why) => (directory, why),
            }
        }
        Err(why) if is_closed(directory) => (directory, why),
        Err(why) => (file, why),
    };
    Err(unwritable_log(log, at, why))
}

/// The fault of a log that cannot be written because of the file or directory `at`.
fn unwritable_log(log: &Path, at: &Path, why: io::Error) -> ConfigFault {
    let at = std::path::absolute(at).unwrap_or_else(|_| at.into());
    ConfigFault::UnwritableLog { log: log.into(), at, why }
}

/// Checks that a log is below no root, whatever links lead there. A hidden name is no exception:
/// the rule that hides it may change, and the log would stay.
fn check_log_is_outside(
    log: &Path,
    file: &Path,
    hosts: &[HostSettings],
) -> Result<(), ConfigFault> {
    let found = file.canonicalize().or_else(|_| file.parent().unwrap_or(file).canonicalize());
    let is_above = |root: &Path| {
        let (Ok(found), Ok(root)) = (&found, root.canonicalize()) else { return false };
        found.starts_with(root)
    };
    match hosts.iter().find(|host| is_above(&host.root)) {
        Some(host) => Err(ConfigFault::PublishedLog { log: log.into(), root: host.root.clone() }),
        None => Ok(()),
    }
}
