//! `cargo xtask fresh`: runs the README's commands on a machine that has nothing else.
//!
//! The machine is a root made by debootstrap ([`machine`]) that the commands see in place of this
//! machine's ([`inside`]). The commands are taken from the README. This is not a benchmark: times
//! are printed because a reader has to wait for them.

mod inside;
mod machine;
mod readme;

use std::fs;
use std::path::{Path, PathBuf};

use testkit::tools::{DEBOOTSTRAP, GIT, IPROUTE2, UNSHARE};

use crate::Failure;
use crate::test::COUNTED;
use crate::tools::ROOT;
use inside::Inside;
use machine::Machine;
use readme::Commands;

const HELP: &str = "\
cargo xtask fresh [ROUND...]

Makes the root of a bare machine: Debian 12 with a C compiler, Rust, and a clone of HEAD. There it
runs the README's commands: the server must serve a page and stop, the tests must pass, no process
may be left. It needs root, and takes as long as two builds (some 20 minutes).

  ROUND   user-tmpfs, user-disk, root-tmpfs or root-disk: the user that runs the commands, and
          where /tmp is. Without any: user-tmpfs and root-disk. Ordinary users come first, and
          root's rounds reuse what they have built.
";

/// The user that runs the commands, and where temporary files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Round {
    /// Whether root runs the commands, or an ordinary user; `false` comes first in the order.
    is_root: bool,
    /// Whether `/tmp` is a file system in memory.
    tmp_in_memory: bool,
}

const ROUNDS: [(&str, Round); 4] = [
    ("user-tmpfs", Round { is_root: false, tmp_in_memory: true }),
    ("user-disk", Round { is_root: false, tmp_in_memory: false }),
    ("root-tmpfs", Round { is_root: true, tmp_in_memory: true }),
    ("root-disk", Round { is_root: true, tmp_in_memory: false }),
];
const USUAL: [&str; 2] = ["user-tmpfs", "root-disk"];

/// Makes the machine, runs the rounds, and removes the machine.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments.first().is_some_and(|first| first == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let rounds = rounds(arguments)?;
    let tools = [ROOT, DEBOOTSTRAP, GIT, IPROUTE2, UNSHARE];
    if let Some(missing) = tools.iter().find(|tool| !tool.is_there()) {
        return Err(missing.is_missing().into());
    }
    let commands = Commands::from_readme()?;
    let folder = folder()?;
    let machine = Machine::make(&folder)?;
    let mut results = Vec::new();
    for (name, round) in rounds {
        results.push((name, attempt(name, round, &machine, &commands, &folder)));
    }
    drop(machine);
    report(&results)
}

/// The folder for logs and, temporarily, for the machine: beside the build's output.
fn folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|why| format!("xtask: {why}"))?;
    let target = program.ancestors().nth(2).ok_or("xtask is not in a target directory")?;
    Ok(target.join("fresh"))
}

fn rounds(names: &[String]) -> Result<Vec<(&'static str, Round)>, String> {
    let known = |name: &str| ROUNDS.iter().find(|(known, _)| *known == name).copied();
    let mut rounds = Vec::new();
    for name in names {
        rounds.push(known(name).ok_or_else(|| format!("fresh knows no round {name}\n\n{HELP}"))?);
    }
    if rounds.is_empty() {
        rounds.extend(USUAL.into_iter().filter_map(known));
    }
    // An ordinary user cannot build on what root has built.
    rounds.sort_by_key(|(_, round)| *round);
    rounds.dedup();
    Ok(rounds)
}

/// The result of a round.
#[derive(Debug)]
struct RoundResult {
    /// Seconds until the first page was served.
    served_s: f64,
    /// Seconds that the tests took.
    tested_s: f64,
    /// The report of the tests about what was skipped.
    skipped: String,
}

fn attempt(
    name: &str,
    round: Round,
    machine: &Machine,
    commands: &Commands,
    folder: &Path,
) -> Result<RoundResult, String> {
    let log = |what: &str| folder.join(format!("{name}-{what}.log"));
    let inside = Inside::enter(machine, round)?;
    println!("fresh: {name}: {}", commands.serve);
    let served_s = inside.serve(&commands.serve, &log("serve"))?;
    println!("fresh: {name}: served a page after {served_s:.0} s: {}", commands.test);
    let tested_s = inside.run(&commands.test, &log("test"))?;
    let said = fs::read_to_string(log("test")).unwrap_or_default();
    let skipped = skipped(&said).ok_or("the tests do not say at the end what was skipped")?;
    inside.leave()?;
    Ok(RoundResult { served_s, tested_s, skipped: skipped.to_owned() })
}

/// The last lines of the tests' output: from the count of what was skipped on.
fn skipped(said: &str) -> Option<&str> {
    let (before, _) = said.rsplit_once(COUNTED)?;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Some(said[start..].trim_end())
}

fn report(results: &[(&str, Result<RoundResult, String>)]) -> Result<(), Failure> {
    for (name, outcome) in results {
        match outcome {
            Ok(RoundResult { served_s, tested_s, skipped }) => println!(
                "\n{name}: a page after {served_s:.0} s, all tests passed in {tested_s:.0} s, \
                 nothing is left; {skipped}"
            ),
            Err(why) => println!("\n{name} FAILED: {why}"),
        }
    }
    let failed = results.iter().filter(|(_, outcome)| outcome.is_err()).count();
    println!("\n{} rounds passed, {failed} failed", results.len() - failed);
    if failed == 0 { Ok(()) } else { Err(Failure::Printed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(|&name| name.to_owned()).collect();
        rounds(&arguments).expect("they are known").into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn ordinary_users_come_first_and_each_round_is_run_once() {
        assert_eq!(names(&[]), ["user-tmpfs", "root-disk"]);
        assert_eq!(names(&["root-tmpfs", "user-disk", "root-tmpfs"]), ["user-disk", "root-tmpfs"]);
        assert!(rounds(&["nobody".to_owned()]).is_err());
    }

    #[test]
    fn what_was_skipped_is_at_the_end() {
        let said = "3 checks skipped\nin passing\n\n1 checks skipped\n1: no git\n    xtask tidy\n";
        assert_eq!(skipped(said), Some("1 checks skipped\n1: no git\n    xtask tidy"));
        assert_eq!(skipped("test result: ok"), None);
    }
}
