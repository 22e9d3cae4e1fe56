//! `cargo xtask fuzz`: runs every fuzz target for a while, on the nightly toolchain.
//!
//! The targets are the `[[bin]]` entries of fuzz/Cargo.toml; inputs worth starting from are in
//! fuzz/seeds/TARGET, and those that the fuzzer finds interesting in fuzz/corpus/TARGET, untracked.

use std::path::Path;

use crate::tools::{self, CARGO_FUZZ, NIGHTLY, Tool};

const HELP: &str = "\
cargo xtask fuzz [--seconds N] [TARGET...]

  --seconds N   how long each target runs, building not counted (10)
  TARGET        a [[bin]] of fuzz/Cargo.toml; all of them when none is named
";

const SECONDS_DEFAULT: u32 = 10;

/// The memory limit: a target that needs more for one small input has a bug.
const MEMORY_MIB_MAX: u32 = 2048;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u32,
    targets: Vec<String>,
}

/// Runs the targets that `arguments` select; the error names the first target that failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let options = parse(arguments)?;
    require(&[NIGHTLY, CARGO_FUZZ])?;
    let root = tools::workspace_root();
    let known = targets(&root)?;
    for target in chosen(&options, &known)? {
        fuzz(&root, target, options.seconds)?;
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { seconds: SECONDS_DEFAULT, targets: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seconds" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                options.seconds = number.ok_or("--seconds needs a whole number")?;
            }
            option if option.starts_with('-') => {
                return Err(format!("fuzz knows no option {option}\n\n{HELP}"));
            }
            target => options.targets.push(target.to_owned()),
        }
    }
    Ok(options)
}

fn require(tools: &[Tool]) -> Result<(), String> {
    let missing = tools.iter().find(|tool| !tool.is_there());
    missing.map_or(Ok(()), |tool| {
        Err(format!("fuzzing needs {}; install it with `{}`", tool.name, tool.install))
    })
}

/// The names of the fuzz targets, in the manifest's order.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("fuzz/Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    target_names(&text)
}

fn target_names(manifest: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = manifest.parse().map_err(|e| format!("fuzz/Cargo.toml: {e}"))?;
    let binaries = table.get("bin").and_then(|bins| bins.as_array());
    let name = |bin: &toml::Value| Some(bin.get("name")?.as_str()?.to_owned());
    Ok(binaries.into_iter().flatten().filter_map(name).collect())
}

fn chosen<'k>(options: &Options, known: &'k [String]) -> Result<Vec<&'k str>, String> {
    if options.targets.is_empty() {
        return Ok(known.iter().map(String::as_str).collect());
    }
    let find =
        |wished: &String| {
            known.iter().find(|name| *name == wished).map(String::as_str).ok_or_else(|| {
                format!("no fuzz target {wished:?}; there are: {}", known.join(", "))
            })
        };
    options.targets.iter().map(find).collect()
}

fn fuzz(root: &Path, target: &str, seconds: u32) -> Result<(), String> {
    println!("fuzz: {target} for {seconds} s");
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root.join(&corpus)).map_err(|e| format!("{corpus}: {e}"))?;
    // The first folder takes new inputs, the others are only read.
    let mut words = format!("cargo +nightly fuzz run {target} {corpus}");
    let seeds = format!("fuzz/seeds/{target}");
    if root.join(&seeds).is_dir() {
        words = format!("{words} {seeds}");
    }
    words =
        format!("{words} -- -max_total_time={seconds} -rss_limit_mb={MEMORY_MIB_MAX} -verbosity=0");
    let status = tools::command(&words).status().map_err(|e| format!("{words}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("fuzz target {target} failed; the input is in fuzz/artifacts/{target}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments() {
        let options = parse(&words("--seconds 3 head path")).expect("a good line");
        assert_eq!(options, Options { seconds: 3, targets: words("head path") });
        assert_eq!(parse(&[]).expect("nothing to ask for").seconds, SECONDS_DEFAULT);
        for bad in ["--seconds", "--seconds x", "--second 3"] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_come_from_the_manifest() {
        let manifest = "[package]\nname = \"f\"\n[[bin]]\nname = \"head\"\n[[bin]]\nname = \"p\"\n";
        let known = target_names(manifest).expect("a good manifest");
        assert_eq!(known, ["head", "p"]);
        let options = |targets| Options { seconds: 1, targets };
        assert_eq!(chosen(&options(vec![]), &known).expect("all"), ["head", "p"]);
        assert_eq!(chosen(&options(words("p")), &known).expect("one"), ["p"]);
        assert!(chosen(&options(words("q")), &known).is_err());
    }
}
