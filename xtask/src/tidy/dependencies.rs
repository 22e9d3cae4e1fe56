//! Which package of the workspace may depend on which: one table, and the manifests must agree.
//!
//! Other crates have a table of their own (`foreign_crates.rs`).

use super::Finding;
use super::source::{Source, Tree};
use std::collections::BTreeMap;

/// One package and the packages of the workspace that it depends on.
struct Allowed {
    /// The package's name, wherever its folder is.
    package: &'static str,
    normal: &'static [&'static str],
    /// Development dependencies beside `testkit`, which every crate may use.
    development: &'static [&'static str],
}

const fn allowed(package: &'static str, normal: &'static [&'static str]) -> Allowed {
    Allowed { package, normal, development: &[] }
}

/// The arrows of ARCHITECTURE.md. Pure crates first, then those that touch the system.
const TABLE: &[Allowed] = &[
    allowed("http1", &[]),
    // Its choices of servers are random.
    allowed("upstream", &["http1", "statistics"]),
    allowed("site", &["http1", "upstream"]),
    allowed("file-cache", &[]),
    allowed("session", &["file-cache", "http1", "site", "upstream"]),
    allowed("statistics", &[]),
    allowed("workload", &["statistics"]),
    allowed("memory-trace", &["statistics"]),
    // Its benchmark prefetches, as the program that simulates does.
    Allowed { development: &["os"], ..allowed("coherence", &["memory-trace", "statistics"]) },
    // Reports use the calendar of HTTP's dates.
    allowed("page", &["http1", "statistics"]),
    allowed("os", &[]),
    allowed("system", &["os"]),
    allowed("engines", &["file-cache", "http1", "os", "session", "site", "upstream"]),
    // Its tests request files whose bytes are derived, in an order that can be repeated.
    Allowed {
        development: &["statistics", "workload"],
        ..allowed(
            "server",
            &[
                "command",
                "doctor",
                "engines",
                "file-cache",
                "http1",
                "os",
                "session",
                "site",
                "upstream",
            ],
        )
    },
    allowed("command", &["os"]),
    allowed("toml-reader", &["command"]),
    allowed("doctor", &["command", "os"]),
    allowed("fileset", &["os", "workload"]),
    allowed("load", &["command", "http1", "os", "statistics", "workload"]),
    allowed("ropewalk", &["command", "doctor", "engines", "os", "server"]),
    // Its tests judge verdicts on a pair of the same server.
    Allowed {
        development: &["statistics"],
        ..allowed(
            "ropewalk-lab",
            &["command", "doctor", "fileset", "lab", "load", "os", "page", "workload"],
        )
    },
    allowed(
        "ropewalk-sim",
        &[
            "coherence",
            "command",
            "memory-trace",
            "os",
            "page",
            "statistics",
            "toml-reader",
            "tracer",
        ],
    ),
    // Outcomes of the load generator are read with its own types, and options of file sets have
    // their types, too; both programs run as processes.
    allowed(
        "lab",
        &[
            "command",
            "doctor",
            "fileset",
            "http1",
            "load",
            "os",
            "page",
            "statistics",
            "system",
            "toml-reader",
            "workload",
        ],
    ),
    // Its tests simulate their recordings, and Cachegrind must count the same.
    Allowed { development: &["coherence"], ..allowed("tracer", &["memory-trace", "os"]) },
    allowed("testkit", &["os"]),
    // It measures what is the server's, in the lab's terms: outside the products that is allowed.
    allowed("cache-bench", &["file-cache", "lab", "os", "statistics", "workload"]),
    allowed("floor", &["os"]),
    // One table lists what tests may lack, and serves the steps of CI as well.
    allowed("xtask", &["lab", "memory-trace", "os", "statistics", "testkit"]),
];

/// Packages that a program may not use, not even by a new arrow of the table.
struct Never {
    program: &'static str,
    uses: &'static [&'static str],
    reason: &'static str,
}

/// A command parses its arguments, calls its product's library and prints. It cannot do the
/// library's work without these packages.
const NEVER: &[Never] = &[
    Never {
        program: "ropewalk",
        uses: &["file-cache", "http1", "session", "site"],
        reason: "requests are answered by server/server",
    },
    Never {
        program: "ropewalk-lab",
        uses: &["statistics", "system"],
        reason: "studies, searches and comparisons are measured and judged by lab/lab",
    },
];

/// The folders of the three products. They use packages of their own and of `common`.
const PRODUCTS: [&str; 3] = ["lab", "server", "simulator"];

/// Allowed to all as a development dependency: it holds what every test suite shares.
const SHARED_BY_TESTS: &str = "testkit";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.sources.iter().filter(|source| is_manifest(&source.path));
    let read = |source: &Source| source.text.parse::<toml::Table>();
    let names = manifests.clone().filter_map(|source| {
        Some((name(&read(source).ok()?)?.to_owned(), product(&source.path).to_owned()))
    });
    let products: BTreeMap<String, String> = names.collect();
    let messages = manifests.flat_map(|source| {
        let messages = match read(source) {
            Ok(manifest) => [judge(&manifest), across(&manifest, &products)].concat(),
            Err(why) => vec![format!("not readable: {why}")],
        };
        messages.into_iter().map(|message| Finding::in_file(&source.path, message))
    });
    messages.collect()
}

/// The first folder of a path: that of a product, if it is one.
fn product(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn name(manifest: &toml::Table) -> Option<&str> {
    manifest.get("package").and_then(|package| package.get("name")?.as_str())
}

/// The packages of other products that a product's package uses, in its tests too.
fn across(manifest: &toml::Table, products: &BTreeMap<String, String>) -> Vec<String> {
    let Some(name) = name(manifest) else { return Vec::new() };
    let Some(own) = products.get(name).filter(|own| PRODUCTS.contains(&own.as_str())) else {
        return Vec::new();
    };
    let used = sections(manifest, &["dependencies", "build-dependencies", "dev-dependencies"]);
    let others = used.iter().filter(|used| {
        let product = products.get(*used);
        product.is_some_and(|product| product != own && PRODUCTS.contains(&product.as_str()))
    });
    others.map(|other| format!("uses {other}, which is of another product")).collect()
}

/// Whether a file is the manifest of a package of this workspace: `fuzz` is a workspace of its own.
pub(super) fn is_manifest(path: &str) -> bool {
    path.ends_with("/Cargo.toml") && !path.starts_with("fuzz/")
}

/// What is wrong with a package's manifest.
fn judge(manifest: &toml::Table) -> Vec<String> {
    match TABLE.iter().find(|row| Some(row.package) == name(manifest)) {
        Some(row) => compare(row, manifest),
        None => vec!["a new package: give it a row in xtask/src/tidy/dependencies.rs".into()],
    }
}

/// What a manifest has that the table lacks, and vice versa.
fn compare(row: &Allowed, manifest: &toml::Table) -> Vec<String> {
    let ours = |name: &&String| TABLE.iter().any(|row| row.package == **name);
    let normal = sections(manifest, &["dependencies", "build-dependencies"]);
    let normal: Vec<&String> = normal.iter().filter(ours).collect();
    let development = sections(manifest, &["dev-dependencies"]);
    let mut messages = Vec::new();
    for never in NEVER.iter().filter(|never| never.program == row.package) {
        let used = normal.iter().filter(|name| never.uses.contains(&name.as_str()));
        messages.extend(used.map(|name| format!("may never use {name}: {}", never.reason)));
    }
    for name in &normal {
        if !row.normal.contains(&name.as_str()) {
            messages.push(format!("may not depend on {name}: see the table of dependencies"));
        }
    }
    for name in row.normal {
        if !normal.iter().any(|used| used == name) {
            messages.push(format!("no longer depends on {name}: take it out of the table"));
        }
    }
    for name in development.iter().filter(ours) {
        let known = [row.normal, row.development, &[SHARED_BY_TESTS]].concat();
        if !known.contains(&name.as_str()) {
            messages.push(format!("may not depend on {name} in its tests: see the table"));
        }
    }
    messages
}

/// The names of the packages under the given sections: `package = "..."` renames them.
fn sections(manifest: &toml::Table, sections: &[&str]) -> Vec<String> {
    let names = entries(manifest, sections).map(|(key, value)| {
        let renamed = value.get("package").and_then(|package| package.as_str());
        renamed.unwrap_or(key).to_owned()
    });
    names.collect()
}

/// The entries under the given sections, those of single targets included.
pub(super) fn entries<'m>(
    manifest: &'m toml::Table,
    sections: &[&str],
) -> impl Iterator<Item = (&'m String, &'m toml::Value)> {
    let targets = manifest.get("target").and_then(|target| target.as_table());
    let targets = targets.into_iter().flat_map(toml::Table::values).filter_map(|t| t.as_table());
    let tables = std::iter::once(manifest).chain(targets);
    let sections = tables
        .flat_map(|table| sections.iter().filter_map(|section| table.get(*section)?.as_table()));
    sections.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(package: &str, manifest: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{package}\"\n{manifest}");
        let findings = check(&Tree::with_file("somewhere/else/Cargo.toml", &manifest));
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn an_arrow_that_the_table_lacks_is_found() {
        for section in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let manifest = format!("[{section}]\nos.workspace = true\nlibc = \"1\"");
            let found = messages("http1", &manifest);
            assert_eq!(found, ["may not depend on os: see the table of dependencies"], "{section}");
        }
        let renamed = "[dependencies]\nx = { package = \"os\", path = \"../os\" }";
        assert_eq!(messages("http1", renamed).len(), 1);
    }

    #[test]
    fn a_program_that_does_its_librarys_work_is_found() {
        let manifest = "[dependencies]\nstatistics = \"1\"\nlab = \"1\"";
        let manifest = manifest.parse().expect("a manifest");
        let lab = allowed("ropewalk-lab", &["lab", "statistics"]);
        let reason = "studies, searches and comparisons are measured and judged by lab/lab";
        assert_eq!(compare(&lab, &manifest), [format!("may never use statistics: {reason}")]);
        assert!(compare(&allowed("lab", &["lab", "statistics"]), &manifest).is_empty());
        let programs: Vec<_> = NEVER.iter().map(|never| never.program).collect();
        assert!(programs.iter().all(|name| TABLE.iter().any(|row| row.package == *name)));
    }

    #[test]
    fn an_arrow_that_the_manifest_lacks_is_found() {
        let found = messages("upstream", "");
        let expected = ["http1", "statistics"]
            .map(|name| format!("no longer depends on {name}: take it out of the table"));
        assert_eq!(found, expected);
    }

    #[test]
    fn tests_may_use_the_testkit_and_little_else() {
        let found = messages("http1", "[dev-dependencies]\ntestkit.workspace = true");
        assert!(found.is_empty(), "{found:?}");
        let found = messages("http1", "[dev-dependencies]\nserver.workspace = true");
        assert_eq!(found, ["may not depend on server in its tests: see the table"]);
    }

    #[test]
    fn a_package_without_a_row_is_found() {
        assert_eq!(messages("novelty", "").len(), 1);
        assert_eq!(messages("http1", "[").len(), 1);
        for (path, expected) in [("x/Cargo.toml", 1), ("Cargo.toml", 0), ("fuzz/Cargo.toml", 0)] {
            assert_eq!(check(&Tree::with_file(path, "")).len(), expected, "{path}");
        }
    }

    #[test]
    fn a_product_that_uses_another_is_found() {
        let products = [("server", "server"), ("lab", "lab"), ("file-cache", "server")];
        let products = [("os", "common"), ("xtask", "xtask")].iter().chain(&products);
        let products = products.map(|&(name, of)| (name.to_owned(), of.to_owned())).collect();
        let check = |package: &str, used: &str, expected: usize| {
            for section in ["dependencies", "dev-dependencies"] {
                let manifest =
                    format!("[package]\nname = \"{package}\"\n[{section}]\n{used} = \"1\"");
                let found = across(&manifest.parse().expect("a manifest"), &products);
                assert_eq!(found.len(), expected, "{package} {used} {section}");
            }
        };
        check("server", "lab", 1);
        check("lab", "server", 1);
        check("lab", "file-cache", 1);
        check("server", "file-cache", 0);
        check("server", "os", 0);
        check("xtask", "lab", 0);
        check("server", "libc", 0);
    }

    #[test]
    fn rows_may_widen_what_tests_use() {
        let row = Allowed { development: &["os"], ..allowed("http1", &[]) };
        let manifest = "[dev-dependencies]\nos.workspace = true".parse().expect("a manifest");
        assert!(compare(&row, &manifest).is_empty());
    }
}
