//! What no value shows by itself: settings that contradict each other, an engine's knobs, the
//! directories.

use std::path::Path;

use super::host_key;
use super::settings::Settings;
use super::source::Origins;

/// Checks the whole; the error is one line.
pub(super) fn check(settings: &Settings, origins: &Origins) -> Result<(), String> {
    let explain = |key: &str, message: String| Err(origins.explain(key, &message));
    let limits = &settings.limits;
    if limits.request_line_bytes_max > limits.head_bytes_max {
        let head = limits.head_bytes_max;
        let message = format!("limits.request_line_bytes_max is above head_bytes_max ({head})");
        return explain("limits.request_line_bytes_max", message);
    }
    for (index, host) in settings.hosts.iter().enumerate() {
        check_root(&host.root).or_else(|why| explain(&host_key(index, "root"), why))?;
    }
    Ok(())
}

fn check_root(root: &Path) -> Result<(), String> {
    match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("{root:?} is not a directory: name the directory that holds it")),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("{root:?} does not exist: name the directory to serve"))
        }
        Err(why) => Err(format!("{root:?} cannot be served: {why}")),
    }
}
