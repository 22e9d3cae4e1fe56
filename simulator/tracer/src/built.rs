//! Programs that are compiled on first use, and kept in the user's cache directory; those of root
//! in a directory that all users can enter, because a process that root starts may change its user.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The directory where compiled programs are kept.
pub(crate) fn cache_directory() -> Result<PathBuf, String> {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let is_root = os::process::is_root();
    choose_cache(is_root, from("XDG_CACHE_HOME"), from("HOME"))
        .ok_or_else(|| "no cache directory for the recorder: set XDG_CACHE_HOME".to_owned())
}

fn choose_cache(is_root: bool, cache: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let cache = cache.filter(|path| path.is_absolute());
    let of_root = is_root.then(|| PathBuf::from("/var/cache"));
    let cache = cache.or(of_root).or_else(|| home.map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("ropewalk"))
}

/// Builds beside the folder and moves the result there when it is complete: other processes may
/// build it, too.
pub(crate) fn build(
    folder: &Path,
    program: &str,
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let here = folder.with_extension(format!("{}-{number}", std::process::id()));
    let explain = |why| unusable(&here, &why);
    let _ = fs::remove_dir_all(&here);
    create_for_all(&here).map_err(explain)?;
    if let Err(why) = fill(&here) {
        let _ = fs::remove_dir_all(&here);
        return Err(why);
    }
    if let Err(why) = fs::rename(&here, folder) {
        let _ = fs::remove_dir_all(&here);
        // Another process was faster.
        return if folder.join(program).exists() { Ok(()) } else { Err(explain(why)) };
    }
    Ok(())
}

/// The error message for a folder that nothing can be built in.
pub(crate) fn unusable(here: &Path, why: &std::io::Error) -> String {
    let here = here.display();
    format!("cannot build the recorder in {here}: {why}: set XDG_CACHE_HOME to another directory")
}

/// Creates a folder, and those above it that are missing, such that all users can enter them
/// whatever the mask is: servers that root starts become other users, and must find the tool.
fn create_for_all(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    folder.parent().map_or(Ok(()), create_for_all)?;
    match fs::create_dir(folder) {
        // Another process was faster, and creates the same folder.
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        created => created.and_then(|()| open_to_all(folder)),
    }
}

pub(crate) fn open_to_all(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Runs the C compiler; `install` says how to install what it needs.
pub(crate) fn cc<'a>(
    arguments: impl Iterator<Item = &'a OsStr>,
    install: &str,
) -> Result<(), String> {
    let output = Command::new("cc").args(arguments).output();
    let output =
        output.map_err(|why| format!("recording needs a C compiler ({why}): {install}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).unwrap_or("cc failed");
    Err(format!("the recorder does not compile here ({first}): {install}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    #[test]
    fn root_s_tool_is_where_other_users_can_enter() {
        let chosen = |is_root, cache: Option<&str>, home: Option<&str>| {
            let chosen = choose_cache(is_root, cache.map(Into::into), home.map(Into::into));
            chosen.map(|path| path.display().to_string()).unwrap_or_default()
        };
        assert_eq!(chosen(true, None, Some("/root")), "/var/cache/ropewalk");
        assert_eq!(chosen(true, Some("/srv"), Some("/root")), "/srv/ropewalk");
        assert_eq!(chosen(false, None, Some("/people/a")), "/people/a/.cache/ropewalk");
        assert_eq!(chosen(false, Some("srv"), Some("/people/a")), "/people/a/.cache/ropewalk");
        assert_eq!(chosen(false, None, None), "");

        let folder = Temporary::new();
        let within = folder.path().join("cache/tool");
        create_for_all(&within).expect("it is writable");
        create_for_all(&within).expect("it is there");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode(&within) & 0o777, 0o755);
        assert_eq!(mode(&folder.path().join("cache")) & 0o777, 0o755);
    }
}
