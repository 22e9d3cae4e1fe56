//! Tutorials of the documentation as tests: the commands of a page, in their order, in an empty
//! folder. Only blocks that begin with "```sh" are run; those that take long, change the machine, or
//! need what a test may not have are shown as sessions ("```console").

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use os::guard::Guard;

use crate::{Temporary, install_script};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The first command that fails ends a tutorial. What it has started ends with it. What people see
/// is on both streams.
const BEGIN: &str =
    "exec 2>&1; set -euo pipefail; trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n";

/// The second for which pages wait is enough for a reader, not on a machine with other work.
const CURL_WAITS: &str = "retry-connrefused\nretry = 100\nretry-delay = 1\n";

/// Words beside numbers that differ from run to run: units, and names of days and months.
const BESIDE_NUMBERS: &str = "us ms s min h B kB MB GB KiB MiB GiB kB/s MB/s GB/s kbit/s Mbit/s Gbit/s \
                              Mon Tue Wed Thu Fri Sat Sun \
                              Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";

/// Runs the commands of a page; returns what they printed. `ropewalk` is the program of that name;
/// others are found beside it. The page's ports, 8080 and 8081, become ones that are free; and a
/// measurement that is void, because the machine has other work, is as good an example.
///
/// # Panics
/// When the page cannot be read, or a command fails.
pub fn follow(page: &str, ropewalk: &Path) -> String {
    follow_in(&Temporary::new(), page, ropewalk)
}

/// Runs the commands of a page that begins in the root of the sources, and needs this folder of it.
/// What they write lies elsewhere.
///
/// # Panics
/// When the page cannot be read, or a command fails.
pub fn follow_beside(source: &str, page: &str, ropewalk: &Path) -> String {
    let folder = Temporary::new();
    symlink(Path::new(REPOSITORY).join(source), folder.path().join(source)).unwrap();
    follow_in(&folder, page, ropewalk)
}

fn follow_in(folder: &Temporary, page: &str, ropewalk: &Path) -> String {
    let text = std::fs::read_to_string(Path::new(REPOSITORY).join(page)).unwrap();
    let shims = Temporary::new();
    let ports = free_ports();
    install_script(&stand_in(ropewalk, &ports[0]), &shims.path().join("ropewalk"));
    shims.file(".curlrc", CURL_WAITS);
    let path = format!("{}:{}", shims.path().display(), std::env::var("PATH").unwrap());
    let script = BEGIN.to_owned() + &at_ports(&commands(&text), &ports);
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(folder.path()).env("PATH", path);
    bash.env("CURL_HOME", shims.path()).env("TMPDIR", folder.path());
    let child = bash.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = child.process_group(0).spawn().unwrap();
    let _guard = Guard::new("kill -s KILL -- \"-$1\"", [child.id().to_string()]).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{page}: {}\n{printed}", output.status);
    printed
}

/// The lines of a page's transcripts that are not like any line in `printed`: the same words, with
/// any numbers, of which what follows the last may differ. `…` stands for anything. A line that
/// contains one of `varying` depends on the machine, and is not compared.
///
/// # Panics
/// When the page cannot be read.
pub fn unlike(page: &str, printed: &str, varying: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(REPOSITORY).join(page)).unwrap();
    let printed: Vec<Vec<String>> = printed.lines().map(words).collect();
    let is_unlike = |line: &&str| {
        !varying.iter().any(|part| line.contains(part))
            && !printed.iter().any(|words| is_like(words, line))
    };
    transcripts(&text).lines().filter(is_unlike).map(str::to_owned).collect()
}

/// The lines of the transcripts: of the blocks of text that follow commands.
fn transcripts(page: &str) -> String {
    let after = page.split("\n```sh\n").skip(1).filter_map(|block| block.split_once("\n```\n\n"));
    let texts = after.filter_map(|(_, rest)| rest.strip_prefix("```text\n")?.split("\n```").next());
    texts.map(|text| text.to_owned() + "\n").collect()
}

/// The words of a line; one `#` stands for all numbers between two words.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(|c: char| c.is_whitespace() || c == ',') {
        let plain = word.trim_matches(|c| "[];:.()≥≤".contains(c));
        let is_number = word.contains(|c: char| c.is_ascii_digit());
        match () {
            () if is_number && words.last().is_some_and(|last| last == "#") => {}
            () if is_number => words.push("#".into()),
            () if plain.is_empty() || BESIDE_NUMBERS.split(' ').any(|it| it == plain) => {}
            () => words.push(word.into()),
        }
    }
    words
}

/// Whether a printed line has the parts of a transcript's line, in their order. What follows the
/// last number of either may be a verdict on it.
fn is_like(printed: &[String], line: &str) -> bool {
    let mut left = printed.join(" ");
    let mut parts: Vec<_> = line.split('…').map(words).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let part = part.join(" ");
        let Some(at) = left.find(&part) else { return false };
        left.drain(..at + part.len());
    }
    match last.iter().rposition(|word| word == "#") {
        Some(at) if at + 1 < last.len() => left.contains(&last[..=at].join(" ")),
        _ => left.ends_with(&last.join(" ")),
    }
}

/// A script in place of the program: it serves at `port`, measurements count whatever else the
/// machine does, a search that finds no rate because of that is made again, and comparisons, which
/// may not be able to tell, and recordings are short.
fn stand_in(ropewalk: &Path, port: &str) -> String {
    let program = ropewalk.display();
    format!(
        "#!/bin/sh\n\
         case \"$1 $2\" in\n\
         'serve '*) exec '{program}' \"$@\" --listen 127.0.0.1:{port} ;;\n\
         'load '*) for attempt in 1 2 3 4 5 6 7 8 9; do \
         '{program}' \"$@\" --run-delay-bound 100% && exit; [ $? = 3 ] && exit; done; exit 1 ;;\n\
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

/// Two ports at which nothing listens now.
fn free_ports() -> [String; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port().to_string())
}

/// The commands with these ports in place of the page's, which may be parts of each other.
fn at_ports(commands: &str, [first, second]: &[String; 2]) -> String {
    let marked = commands.replace("8080", "\0").replace("8081", second);
    marked.replace('\0', first)
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
    fn transcripts_are_compared_by_their_words() {
        let check = |printed: &str, line: &str, expected: bool| {
            assert_eq!(is_like(&words(printed), line), expected, "{printed:?} {line:?}");
        };
        check("15 pairs of 1 s: about 78 s to 2 min", "2 pairs of 0.2 s: about 5 to 6 s", true);
        check("15 pairs of 1 s: about 78 s to 2 min", "15 pairs of 1 s: about 60 s", false);
        check("p99 us    870   [1, 2]  cannot tell", "p99 us  1.52 [0.9, 2]    B is better", true);
        check("Date: Sun, 1 Mar 2026 09:00:00 GMT", "Date: Sat, 28 Nov 2026 18:43:04 GMT", true);
        check(
            "a/default, 1k: 7 replies/s, 9 late; about 8 s",
            "a/default, 1k: …; about 1 min",
            true,
        );
        check("b/default, 1k: 7 replies/s", "a/default, …", false);
        check("anything", "…", true);
        let page = "```sh\na\n```\n\n```text\none\n```\n\nMore.\n\n```text\ntwo\n```\n";
        assert_eq!(transcripts(&format!("# A\n\n{page}")), "one\n");
    }

    #[test]
    fn ports_are_replaced_by_free_ones() {
        let ports = ["38081".to_owned(), "48080".to_owned()];
        assert_eq!(at_ports("a :8080 :8081 :8080", &ports), "a :38081 :48080 :38081");
        let [first, second] = free_ports();
        assert_ne!(first, second);
    }

    #[test]
    fn the_commands_are_those_of_shell_blocks() {
        let page = "# A\n\n```sh\na\nb\n```\n\n```console\n$ c\n```\n\n```sh\nd\n```\ntext\n";
        assert_eq!(commands(page), "a\nb\nd\n");
        assert_eq!(commands("no commands"), "");
    }
}
