//! Tutorials of the documentation as tests: the commands of a page, in their order, in an empty
//! folder. Only blocks that begin with "```sh" are run; those that take long, change the machine, or
//! need what a test may not have are shown as sessions ("```console").

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use os::guard::Guard;

use crate::{Temporary, install_script};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The first command that fails ends a tutorial. What it has started ends with it.
const BEGIN: &str = "set -euo pipefail; trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n";

/// The second for which pages wait is enough for a reader, not on a machine with other work.
const CURL_WAITS: &str = "retry-connrefused\nretry = 100\nretry-delay = 1\n";

/// Runs the commands of a page; returns what they printed. `ropewalk` is the program of that name;
/// others are found beside it. The page's port, 8080, becomes one that is free; and a
/// measurement that is void, because the machine has other work, is as good an example.
///
/// # Panics
/// When the page cannot be read, or a command fails.
pub fn follow(page: &str, ropewalk: &Path) -> String {
    let text = std::fs::read_to_string(Path::new(REPOSITORY).join(page)).unwrap();
    let (folder, shims) = (Temporary::new(), Temporary::new());
    let port = free_port().to_string();
    install_script(&stand_in(ropewalk, &port), &shims.path().join("ropewalk"));
    shims.file(".curlrc", CURL_WAITS);
    let path = format!("{}:{}", shims.path().display(), std::env::var("PATH").unwrap());
    let script = BEGIN.to_owned() + &commands(&text).replace("8080", &port);
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(folder.path()).env("PATH", path);
    bash.env("CURL_HOME", shims.path()).env("TMPDIR", folder.path());
    let child = bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.process_group(0).spawn().unwrap();
    let _guard = Guard::new("kill -s KILL -- \"-$1\"", [child.id().to_string()]).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{page}: {}\n{printed}\n{errors}", output.status);
    printed
}

/// A script in place of the program: it serves at `port`, measurements count whatever else the
/// machine does, and comparisons, which may not be able to tell, and recordings are short.
fn stand_in(ropewalk: &Path, port: &str) -> String {
    let program = ropewalk.display();
    format!(
        "#!/bin/sh\n\
         case \"$1 $2\" in\n\
         'serve '*) exec '{program}' \"$@\" --listen 127.0.0.1:{port} ;;\n\
         'load '*) '{program}' \"$@\" --run-delay-bound 100% || [ $? = 3 ] ;;\n\
         'compare '*) '{program}' \"$@\" --pairs 2 --window 200ms --lag-bound 10s \
         --interference-bound 100% || [ $? = 3 ] ;;\n\
         'study '*) exec '{program}' \"$@\" --interference-bound 100% --lag-bound 10s ;;\n\
         'trace record') exec '{program}' \"$@\" --references-max 3000000 ;;\n\
         *) exec '{program}' \"$@\" ;;\n\
         esac\n"
    )
}

/// The lines of the blocks to run.
fn commands(page: &str) -> String {
    let blocks = page.split("\n```sh\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default().to_owned() + "\n").collect()
}

/// A port at which nothing listens now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between the lines of a block that is pasted there is no moment.
    #[test]
    fn pages_wait_for_the_servers_that_they_start() {
        for page in ["docs/serve/README.md", "docs/load/README.md", "docs/lab/README.md"] {
            let text = std::fs::read_to_string(Path::new(REPOSITORY).join(page)).unwrap();
            let commands = commands(&text);
            let after: Vec<_> = commands.split("\nropewalk serve ").skip(1).collect();
            assert!(!after.is_empty(), "{page}");
            for rest in after {
                assert!(
                    rest.split_once('\n').unwrap().1.starts_with("sleep 1\n"),
                    "{page}: {rest}"
                );
            }
        }
    }

    #[test]
    fn the_commands_are_those_of_shell_blocks() {
        let page = "# A\n\n```sh\na\nb\n```\n\n```console\n$ c\n```\n\n```sh\nd\n```\ntext\n";
        assert_eq!(commands(page), "a\nb\nd\n");
        assert_eq!(commands("no commands"), "");
    }
}
