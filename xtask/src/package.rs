//! `cargo xtask package`: what is installed without a compiler. Static programs, Debian packages
//! and a container image are built into `target/package`, and each is tried.
//!
//! Here is only the table. The scripts in `packaging/` build and try; the metadata of the Debian
//! packages is in the programs' `Cargo.toml`.

use std::fmt::Write;
use std::path::Path;

use testkit::tools::{DEBOOTSTRAP, IPROUTE2, UNSHARE};

use crate::Failure;
use crate::steps::{Outcome, Step, When, conclude, run_until_failure, step};
use crate::tools::{self, BUILDAH, CARGO_DEB, LINTIAN, MUSL_GCC, MUSL_TARGET, PODMAN, ROOT, Tool};

const HELP: &str = "\
cargo xtask package [static] [deb] [container]

  static      the three programs without shared libraries: with glibc, and with musl where its
              target and musl-tools are installed. Tried in a root that holds nothing else
  deb         a Debian package for each program. Judged by lintian; installed, used, upgraded and
              removed in a bare Debian
  container   an image with nothing but the static server. Run by podman

All by default. They are put in target/package. The last lines say of each file how large it is and
what was tried, or which tool is missing and the command that installs it.
";

/// Files that are made together, and the steps that make and try them: none without the one before.
struct Package {
    /// The word that selects it.
    kind: &'static str,
    /// How the names of its files end.
    suffix: &'static str,
    /// How many of the steps make them; the others try them.
    making: usize,
    steps: &'static [Step],
}

const PACKAGES: &[Package] = &[
    Package {
        kind: "static",
        suffix: "-glibc.tar.gz",
        making: 1,
        steps: &[
            always("linked with glibc", "packaging/static build glibc", &[]),
            always(IN_AN_EMPTY_ROOT, "packaging/static try glibc", &[UNSHARE, IPROUTE2]),
        ],
    },
    Package {
        kind: "static",
        suffix: "-musl.tar.gz",
        making: 1,
        steps: &[
            always("linked with musl", "packaging/static build musl", &[MUSL_TARGET, MUSL_GCC]),
            always(
                IN_AN_EMPTY_ROOT,
                "packaging/static try musl",
                &[MUSL_TARGET, MUSL_GCC, UNSHARE, IPROUTE2],
            ),
        ],
    },
    Package {
        kind: "deb",
        suffix: ".deb",
        making: 1,
        steps: &[
            always("packed", "packaging/deb build", &[CARGO_DEB]),
            always("no error found by lintian", "packaging/deb lint", &[CARGO_DEB, LINTIAN]),
            always(
                "installed, served, log rotated, upgraded, removed and purged in a bare Debian",
                "packaging/deb try",
                &[CARGO_DEB, ROOT, DEBOOTSTRAP, IPROUTE2],
            ),
        ],
    },
    Package {
        kind: "container",
        suffix: "-container.tar",
        making: 2,
        steps: &[
            always("linked with glibc", "packaging/static build glibc", &[]),
            always("packed", "packaging/container build", &[BUILDAH]),
            always(
                "served and stopped by podman",
                "packaging/container try",
                &[BUILDAH, PODMAN, ROOT, IPROUTE2],
            ),
        ],
    },
];

const IN_AN_EMPTY_ROOT: &str = "served, loaded by name and simulated in an empty root";

const fn always(name: &'static str, command: &'static str, needs: &'static [Tool]) -> Step {
    step(name, When::Always, command, needs)
}

/// Builds and tries the packages that are named, or all.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments == ["--help"] {
        print!("{HELP}");
        return Ok(());
    }
    let packages = selected(arguments)?;
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    let run = |package: &&'static Package| {
        run_until_failure(package.kind, package.steps.iter(), |step| step.run(strict))
    };
    let outcomes: Vec<_> = packages.iter().map(run).collect();
    let folder = tools::target_dir()?.join("package");
    for (package, outcomes) in packages.iter().zip(&outcomes) {
        print!("{}", table(package, &files(&folder, package.suffix), outcomes));
    }
    println!();
    conclude(&outcomes.into_iter().flatten().collect::<Vec<_>>())
}

/// The packages of the kinds that are named, all if none is.
fn selected(kinds: &[String]) -> Result<Vec<&'static Package>, String> {
    let is_known = |kind: &&String| PACKAGES.iter().any(|package| package.kind == **kind);
    if let Some(other) = kinds.iter().find(|kind| !is_known(kind)) {
        return Err(format!("no kind of package is called {other:?}\n\n{HELP}"));
    }
    let is_named = |package: &&Package| kinds.iter().any(|kind| kind == package.kind);
    Ok(PACKAGES.iter().filter(|package| kinds.is_empty() || is_named(package)).collect())
}

/// Names and bytes of the files in `folder` whose names end in `suffix`, by name.
fn files(folder: &Path, suffix: &str) -> Vec<(String, u64)> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let bytes = entry.metadata().ok()?.len();
        name.ends_with(suffix).then_some((name, bytes))
    });
    let mut files: Vec<_> = named.collect();
    files.sort();
    files
}

/// The files with their sizes, then what was tried with them.
fn table(package: &Package, files: &[(String, u64)], outcomes: &[(&Step, Outcome)]) -> String {
    let mut lines = format!("\n{}\n", package.kind);
    let is_made = matches!(outcomes.get(package.making - 1), Some((_, Outcome::Passed)));
    for (name, bytes) in files.iter().filter(|_| is_made) {
        let _ = writeln!(lines, "  {bytes:>10} bytes  {name}");
    }
    for (step, outcome) in outcomes {
        let _ = match outcome {
            Outcome::Passed => writeln!(lines, "  {}", step.name),
            Outcome::Skipped(tool) => {
                writeln!(lines, "  skipped: {}: {}", step.name, tool.is_missing())
            }
            Outcome::Failed(_) => writeln!(lines, "  FAILED: {}", step.name),
        };
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_selected_by_their_names() {
        let check = |words: &[&str], expected: Option<usize>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(selected(&words).ok().map(|found| found.len()), expected, "{words:?}");
        };
        check(&[], Some(4));
        check(&["static"], Some(2));
        check(&["deb", "container"], Some(2));
        check(&["deb", "rpm"], None);
    }

    #[test]
    fn a_file_is_listed_with_what_was_tried() {
        let deb = PACKAGES.iter().find(|package| package.kind == "deb").expect("there is one");
        let files = [("a.deb".to_owned(), 1234)];
        let outcomes = [Outcome::Passed, Outcome::Skipped(LINTIAN), Outcome::Failed("why".into())];
        let outcomes: Vec<_> = deb.steps.iter().zip(outcomes).collect();
        let expected = "\ndeb\n        1234 bytes  a.deb\n  packed\n  \
            skipped: no error found by lintian: lintian is not there: apt-get install lintian\n  \
            FAILED: installed, served, log rotated, upgraded, removed and purged in a bare Debian\n";
        assert_eq!(table(deb, &files, &outcomes), expected);
        let without_deb = table(deb, &files, &[(&deb.steps[0], Outcome::Skipped(CARGO_DEB))]);
        assert!(!without_deb.contains("a.deb"), "{without_deb}");
    }

    /// A file of an earlier run is not listed as if this one had made it.
    #[test]
    fn a_file_is_listed_only_if_the_last_step_that_makes_it_has_passed() {
        let container = PACKAGES.iter().find(|package| package.kind == "container");
        let container = container.expect("there is one");
        let outcomes = [Outcome::Passed, Outcome::Skipped(BUILDAH), Outcome::Skipped(BUILDAH)];
        let outcomes: Vec<_> = container.steps.iter().zip(outcomes).collect();
        let table = table(container, &[("old-container.tar".to_owned(), 1)], &outcomes);
        assert!(!table.contains("old-container.tar"), "{table}");
    }

    /// What a step of CI would skip inside, CI itself must skip and count.
    #[test]
    fn the_steps_of_ci_need_what_the_packages_need() {
        for Package { kind, steps, .. } in PACKAGES {
            let (whole, part) =
                (format!("cargo xtask package {kind}"), format!("packaging/{kind} "));
            let is_of_kind = |s: &&Step| s.command == whole || s.command.starts_with(&part);
            let in_ci = crate::ci::STEPS.iter().filter(is_of_kind).flat_map(|step| step.needs);
            let in_ci: Vec<_> = in_ci.map(|tool| tool.name).collect();
            for tool in steps.iter().flat_map(|step| step.needs) {
                assert!(in_ci.contains(&tool.name), "{kind}: {}", tool.name);
            }
        }
    }

    /// Where one of the two is missing, the other packages are made, and what is left out is told.
    #[test]
    fn what_is_linked_with_musl_needs_its_target_and_its_compiler() {
        let in_ci = crate::ci::STEPS.iter().filter(|step| step.command.contains("static"));
        let steps = PACKAGES.iter().flat_map(|package| package.steps).chain(in_ci);
        let of_musl: Vec<&Step> = steps.filter(|step| step.command.ends_with(" musl")).collect();
        assert_eq!(of_musl.len(), 3);
        for step in of_musl {
            let installs: Vec<&str> = step.needs.iter().map(|tool| tool.install).collect();
            for install in ["rustup target add x86_64-unknown-linux-musl", MUSL_GCC.install] {
                assert!(installs.contains(&install), "{}: {install}", step.command);
            }
        }
    }

    /// Help names pages as they lie in the sources.
    #[test]
    fn every_page_that_help_names_is_packed() {
        for program in ["server", "lab", "simulator"] {
            let manifest = read(&format!("{program}/cli/Cargo.toml"));
            let assets = manifest.split('"').filter_map(|text| text.strip_prefix("../../"));
            let packed: Vec<&str> = assets.filter_map(|text| text.strip_suffix(".md")).collect();
            let folder = tools::workspace_root().join(program).join("cli/src");
            let mut pages = Vec::new();
            add_pages(&folder, &mut pages);
            assert!(!pages.is_empty(), "{program}");
            for page in pages {
                let is_it = |file: &&str| page.starts_with(file.trim_end_matches('*'));
                assert!(packed.iter().any(is_it), "{program}: {page} is in no package: {packed:?}");
            }
        }
    }

    /// Adds the pages that the texts of help in a folder of sources name.
    fn add_pages(folder: &Path, pages: &mut Vec<String>) {
        for entry in folder.read_dir().expect("it is part of the project").flatten() {
            if entry.path().is_dir() {
                add_pages(&entry.path(), pages);
                continue;
            }
            let source = std::fs::read_to_string(entry.path()).expect("it is a source");
            let lines = source.lines().filter(|line| !line.contains("include_str!"));
            let words = lines.filter(|line| !line.contains("//!")).flat_map(str::split_whitespace);
            let of_docs = words.filter(|word| word.starts_with("docs/") && word.contains(".md"));
            pages.extend(of_docs.map(|word| word.trim_end_matches([';', '.', ',']).to_owned()));
        }
    }

    #[test]
    fn files_are_found_by_their_suffix() {
        let folder = testkit::Temporary::new();
        for name in ["b.deb", "a.deb", "a-musl.tar.gz"] {
            std::fs::write(folder.path().join(name), name).expect("it is writable");
        }
        let found = files(folder.path(), ".deb");
        assert_eq!(found, [("a.deb".to_owned(), 5), ("b.deb".to_owned(), 5)]);
        assert!(files(Path::new("no such folder"), ".deb").is_empty());
    }

    /// A program passes commands on to those of its own version only.
    #[test]
    fn packages_recommend_the_server_of_their_own_version() {
        for program in ["lab", "simulator"] {
            let manifest = read(&format!("{program}/cli/Cargo.toml"));
            let expected =
                concat!("\nrecommends = \"ropewalk (= ", env!("CARGO_PKG_VERSION"), "-1)\"\n");
            assert!(manifest.contains(expected), "{program}: {expected}");
        }
    }

    /// Files under another licence that are compiled into a program are named where it is packed.
    #[test]
    fn the_copyright_of_the_packages_names_every_licence_in_the_programs() {
        let text = read("packaging/copyright");
        for folder in ["recorders/*", "common/page/src/assets/uPlot*"] {
            assert!(text.contains(&format!("\nFiles: {folder}\n")), "{folder}");
        }
        assert!(text.contains("\nLicense: GPL-2.0-or-later\n "));
    }

    fn read(path: &str) -> String {
        let path = tools::workspace_root().join(path);
        std::fs::read_to_string(path).expect("it is part of the project")
    }

    /// dpkg compares the version of the changelog with nothing, but readers do.
    #[test]
    fn the_changelog_of_the_packages_begins_with_this_version() {
        let text = read("packaging/changelog");
        let expected = concat!("ropewalk (", env!("CARGO_PKG_VERSION"), "-1) ");
        assert!(text.starts_with(expected), "{text}");
    }
}
