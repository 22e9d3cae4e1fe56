//! `cargo xtask size`: what the server's command is built of, and how large it is.
//!
//! A server is easy to trust and to ship while it stays small: each foreign crate is code that runs
//! beside the network, and each page of the program is memory.

use std::collections::BTreeSet;

use crate::tools;

/// The most crates from outside the workspace that the server's command may be built of.
const FOREIGN_CRATES_MAX: usize = 45;

/// The most bytes of the program without symbols.
const BYTES_MAX: u64 = 5_000_000;

/// The library that no start is to load: it takes 0.3 MiB.
const MATHEMATICS: &[u8] = b"libm.so";

/// Counts the crates and measures the built program; the error says which bound is exceeded, or
/// what the program loads.
pub(crate) fn run() -> Result<(), String> {
    let tree = "cargo tree --package ropewalk --edges normal,build --prefix none --format {p}";
    let listed = printed(tree)?;
    let foreign = foreign_crates(&listed);
    let target = tools::target_dir()?;
    let (program, stripped) =
        (target.join("release/ropewalk"), target.join("release/ropewalk.stripped"));
    let strip = format!("strip -o {} {}", stripped.display(), program.display());
    printed(&strip).map_err(|why| format!("{why}: build it with `cargo build --release`"))?;
    let bytes = std::fs::metadata(&stripped).map_err(|why| why.to_string())?.len();
    println!("size: {} third-party crates, {bytes} bytes without symbols", foreign.len());
    if foreign.len() > FOREIGN_CRATES_MAX {
        let all = foreign.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("more than {FOREIGN_CRATES_MAX} third-party crates: {all}"));
    }
    if bytes > BYTES_MAX {
        return Err(format!("more than {BYTES_MAX} bytes"));
    }
    let content = std::fs::read(&stripped).map_err(|why| why.to_string())?;
    if content.windows(MATHEMATICS.len()).any(|bytes| bytes == MATHEMATICS) {
        let advice = "define the function that needs it as in common/os/src/pow.rs";
        return Err(format!("it loads the C library's mathematics: {advice}"));
    }
    Ok(())
}

/// The crates of a list that have no path, which those of the workspace have.
fn foreign_crates(listed: &str) -> BTreeSet<&str> {
    let lines = listed.lines().filter(|line| !line.contains('/') && !line.is_empty());
    lines.filter_map(|line| line.split(' ').next()).collect()
}

/// The standard output of a command that succeeds.
fn printed(command: &str) -> Result<String, String> {
    let output = tools::command(command).output().map_err(|why| format!("{command}: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_the_workspace_and_repetitions_do_not_count() {
        let listed = "ropewalk v0.1.0 (/w/server/cli)\nclap v4.6.7\n\nos v0.1.0 (/w/os)\n\
                      libc v0.2.191\nclap v4.6.7 (*)\nclap_derive v4.6.7 (proc-macro)\n";
        let found: Vec<&str> = foreign_crates(listed).into_iter().collect();
        assert_eq!(found, ["clap", "clap_derive", "libc"]);
    }
}
