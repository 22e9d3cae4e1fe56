//! The test programs of the workspace, as cargo builds and runs them.

use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use xxhash_rust::xxh3::Xxh3;

use crate::tools;

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// `PACKAGE` for the unit tests of a library, else `PACKAGE/TARGET`.
    pub(crate) name: String,
    /// The executable.
    pub(crate) path: PathBuf,
    /// The package's folder, in which cargo runs its tests.
    pub(crate) folder: PathBuf,
}

/// What Cargo has built.
#[derive(Debug)]
pub(crate) struct Built {
    /// The test programs, the longest-running first: by and large the larger ones take longer.
    pub(crate) programs: Vec<Program>,
    /// The executables of the programs that they start.
    pub(crate) started: Vec<PathBuf>,
    /// The packages with examples in their documentation, which are tests as well.
    pub(crate) with_examples: Vec<String>,
}

impl Program {
    /// The name of its package.
    pub(crate) fn package(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// A command that runs the program as Cargo would, with no input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", self.package())
            .stdin(Stdio::null());
        command
    }
}

/// Builds all test programs.
pub(crate) fn build() -> Result<Built, String> {
    let words = "cargo test --workspace --no-run --message-format=json-render-diagnostics";
    let output = tools::command(words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("{words}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{words}: {}", output.status));
    }
    let Listed { mut programs, started, libraries } =
        listed(&String::from_utf8_lossy(&output.stdout));
    let bytes = |program: &Program| program.path.metadata().map_or(0, |file| file.len());
    programs.sort_by_key(|program| Reverse(bytes(program)));
    let with_examples = libraries
        .into_iter()
        .filter(|(_, sources)| has_examples(sources))
        .map(|(package, _)| package)
        .collect();
    Ok(Built { programs, started, with_examples })
}

impl Built {
    /// By name of a test program a hash of it and of all that tests start, which tells one build
    /// from another: the same sources give the same programs on any machine, in a folder of the
    /// same path.
    pub(crate) fn hashes(&self) -> io::Result<BTreeMap<String, u64>> {
        let mut paths: Vec<&PathBuf> = self.started.iter().collect();
        paths.sort();
        let mut started = Xxh3::new();
        for path in paths {
            started.update(&fs::read(path)?);
        }
        let hash_of = |program: &Program| {
            let mut hash = started.clone();
            hash.update(&fs::read(&program.path)?);
            Ok((program.name.clone(), hash.digest()))
        };
        self.programs.iter().map(hash_of).collect()
    }
}

/// What Cargo reports as built.
#[derive(Default)]
struct Listed {
    programs: Vec<Program>,
    /// The executables of the other programs.
    started: Vec<PathBuf>,
    /// The libraries of the workspace: their packages, and the folders of their sources.
    libraries: BTreeMap<String, PathBuf>,
}

/// Reads Cargo's report, a JSON object a line.
fn listed(messages: &str) -> Listed {
    let mut listed = Listed::default();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, target) = (text(&message["package_id"]), &message["target"]);
        if let Some(path) = message["executable"].as_str().map(PathBuf::from) {
            if message["profile"]["test"] == true {
                let folder = folder_of(&text(&message["manifest_path"]));
                listed.programs.push(Program { name: name(package(&id), target), path, folder });
            } else {
                listed.started.push(path);
            }
        } else if id.starts_with("path+") && target["doctest"] == true {
            let sources = folder_of(&text(&target["src_path"]));
            listed.libraries.insert(package(&id).to_owned(), sources);
        }
    }
    listed
}

fn folder_of(file: &str) -> PathBuf {
    Path::new(file).parent().unwrap_or(Path::new("")).to_path_buf()
}

/// Whether any Rust source in the folder has an example in its documentation.
fn has_examples(folder: &Path) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).any(|path| {
        match path.extension() {
            Some(extension) if extension == "rs" => {
                fs::read_to_string(&path).is_ok_and(|text| has_example(&text))
            }
            _ => path.is_dir() && has_examples(&path),
        }
    })
}

/// Whether a comment that documents something has a block of code: one whose first line names no
/// other language.
fn has_example(text: &str) -> bool {
    let mut is_within = false;
    text.lines().any(|line| {
        let comment = line.trim_start();
        let comment = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        let fence = comment.and_then(|comment| comment.trim().strip_prefix("```"));
        let begins = fence.is_some() && !is_within;
        is_within ^= fence.is_some();
        begins && fence.is_some_and(|language| !OTHER_LANGUAGES.contains(&language))
    })
}

/// The languages of blocks that are no examples of Rust.
const OTHER_LANGUAGES: [&str; 5] = ["text", "toml", "sh", "console", "json"];

/// The name in Cargo's identifier of a package: `URL#NAME@VERSION`, or `URL#VERSION` where the
/// folder has the package's name.
fn package(id: &str) -> &str {
    let (url, version) = id.split_once('#').unwrap_or((id, ""));
    let name = version.split_once('@').map(|(name, _)| name);
    name.or_else(|| url.rsplit('/').next()).unwrap_or_default()
}

fn name(package: &str, target: &Value) -> String {
    let is_library =
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "lib"));
    match (is_library, target["name"].as_str()) {
        (false, Some(target)) => format!("{package}/{target}"),
        _ => package.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_told_from_others() {
        let line = |kind: &str, name: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/lab/cli/Cargo.toml\",\
                 \"package_id\":\"path+file:///w/lab/cli#ropewalk-lab@0.1.0\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/t/{name}\"}}\n"
            )
        };
        let library = "{\"reason\":\"compiler-artifact\",\"executable\":null,\
             \"package_id\":\"path+file:///w/simulator/memory-trace#0.1.0\",\
             \"target\":{\"doctest\":true,\
             \"src_path\":\"/w/simulator/memory-trace/src/lib.rs\"}}\n";
        let messages = [
            library.to_owned(),
            line("lib", "cli", true),
            line("bin", "ropewalk", false),
            line("test", "it", true),
            "not JSON\n".to_owned(),
        ];
        let found = listed(&messages.concat());
        let names: Vec<&str> = found.programs.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["ropewalk-lab", "ropewalk-lab/it"]);
        assert_eq!(found.started, [Path::new("/t/ropewalk")]);
        assert_eq!(found.programs[1].folder, Path::new("/w/lab/cli"));
        assert_eq!(found.programs[1].path, Path::new("/t/it"));
        let libraries: Vec<_> = found.libraries.into_iter().collect();
        assert_eq!(
            libraries,
            [("memory-trace".to_owned(), "/w/simulator/memory-trace/src".into())]
        );
    }

    #[test]
    fn a_test_program_is_another_build_with_it_or_with_what_it_starts() {
        let folder = std::env::temp_dir().join(format!("ropewalk-hashes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        let hashes = |a: &str, b: &str, started: &str| {
            let write = |name: &str, text: &str| {
                let path = folder.join(name);
                fs::write(&path, text).expect("the folder is ours");
                path
            };
            let program = |name: &str, text| {
                let path = write(name, text);
                Program { name: name.to_owned(), path, folder: folder.clone() }
            };
            let programs = vec![program("a", a), program("b", b)];
            let started = vec![write("started", started)];
            let built = Built { programs, started, with_examples: Vec::new() };
            let hashes = built.hashes().expect("all can be read");
            (hashes["a"], hashes["b"])
        };
        let first = hashes("1", "2", "3");
        assert_eq!(hashes("1", "2", "3"), first);
        let other = hashes("1", "4", "3");
        assert!(other.0 == first.0 && other.1 != first.1, "only one of them is another");
        let other = hashes("1", "2", "5");
        assert!(other.0 != first.0 && other.1 != first.1, "they start another program");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn examples_are_blocks_of_rust_in_documentation() {
        let check = |text: &str, expected| assert_eq!(has_example(text), expected, "{text}");
        check("//! Reads:\n//!\n//! ```\n//! read();\n//! ```\n", true);
        check("    /// ```no_run\n    /// read();\n    /// ```\n", true);
        check("/// ```text\n/// a b\n/// ```\n", false);
        check("/// ```toml\n/// a = 1\n/// ```\n/// and\n/// ```\n/// read();\n/// ```\n", true);
        check("let fence = \"```\";\n// ```\n", false);
    }

    #[test]
    fn packages_go_by_their_names() {
        assert_eq!(package("path+file:///w/lab/cli#ropewalk-lab@0.1.0"), "ropewalk-lab");
        assert_eq!(package("path+file:///w/server/file-cache#0.1.0"), "file-cache");
    }
}
