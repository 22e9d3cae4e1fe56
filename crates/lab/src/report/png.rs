//! All figures of a report as one picture: the drawing, photographed by a headless Chromium.
//!
//! Not drawn here: text needs fonts, and whoever wants a picture has a browser or can take the
//! drawing itself (`--format svg`).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// By the names under which distributions have it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Writes the drawing at `svg`, which is so wide and so high, to `png`, at twice its size.
///
/// # Errors
/// When there is no Chromium, or it fails: one line.
pub(crate) fn photograph(
    svg: &Path,
    (width, height): (f64, f64),
    scale: u32,
    png: &Path,
) -> Result<(), String> {
    let program = NAMES.into_iter().find(|name| is_installed(name)).ok_or_else(|| {
        "no Chromium to make a PNG with: `apt-get install chromium`, or take --format svg"
            .to_owned()
    })?;
    let profile = std::env::temp_dir().join(format!("ropewalk-report-{}", std::process::id()));
    let mut command = Command::new(program);
    command
        .args(["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
        .arg(format!("--force-device-scale-factor={scale}"))
        .arg(format!("--window-size={},{}", width.ceil(), height.ceil()))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--screenshot={}", png.display()))
        .arg(format!("file://{}", svg.display()));
    if os::process::is_root() {
        // Chromium's sandbox does not work for root; what is shown is our own drawing.
        command.arg("--no-sandbox");
    }
    let output = command.stdin(Stdio::null()).output();
    let _ = fs::remove_dir_all(&profile);
    let output = output.map_err(|why| format!("{program}: {why}"))?;
    if !output.status.success() || !png.exists() {
        let text = String::from_utf8_lossy(&output.stderr);
        let why = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no picture");
        return Err(format!("{program}: {why}"));
    }
    Ok(())
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
