//! All figures of a report as one picture: a screenshot of the drawing in a headless Chromium.
//!
//! The picture is not drawn by this program: text needs fonts, and users who want a picture have a
//! browser or can use the drawing itself (`--format svg`).

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The names of Chromium in distributions.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Writes the drawing at `svg`, of the given width and height, to `png`, magnified by the given
/// factor.
///
/// # Errors
/// When there is no Chromium, or it fails, in one line.
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
        .arg(assigned("--user-data-dir=", &profile))
        .arg(assigned("--screenshot=", png))
        .arg(file_url(svg));
    if os::process::is_root() {
        // Chromium's sandbox does not work for root; the drawing is our own, so it is safe without.
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

/// Joins an option and its path, which need not be UTF-8.
fn assigned(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// The URL of a file: bytes that have a meaning in a URL are percent-encoded (RFC 3986, section
/// 2.1).
fn file_url(path: &Path) -> String {
    let mut url = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            url.push(char::from(byte));
        } else {
            write!(url, "%{byte:02X}").expect("a String takes all");
        }
    }
    url
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_has_a_url() {
        let check = |path: &str, url: &str| assert_eq!(file_url(Path::new(path)), url);
        check("/tmp/all-1.2_3~.svg", "file:///tmp/all-1.2_3~.svg");
        check("/a b/fig #1?.svg", "file:///a%20b/fig%20%231%3F.svg");
        check("/%41/ä.svg", "file:///%2541/%C3%A4.svg");
    }
}
