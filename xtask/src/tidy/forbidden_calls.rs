//! Calls that have a better replacement here, and the few places that may make them. Calls that
//! nothing may make are in clippy.toml.

use super::Finding;
use super::source::{Source, Tree};

/// One forbidden piece of code.
struct Forbidden {
    /// The code, as whole words.
    code: &'static str,
    /// What to do instead, as the end of a message.
    instead: &'static str,
    /// Files or folders that may use it.
    places: &'static [&'static str],
    /// Whether tests may use it.
    in_tests: bool,
}

/// Programs for people, which write to the terminal themselves.
const TERMINAL: &[&str] = &["server/cli/", "lab/cli/", "simulator/cli/", "servers/", "xtask/"];
const PRINTING: &str = "return the text, or log it; only the programs print";
const NUMBERS: &str = "ask io::Error::kind or os::errors::Cause: one file reads error numbers";

/// The trait of an allocator is unsafe to implement, even for one that only counts.
const COUNTING_ALLOCATOR: &str = "server/session/tests/it/allocations.rs";

const TABLE: &[Forbidden] = &[
    Forbidden {
        code: "clippy::too_many_lines",
        instead: "a function fits a screen: cut it",
        places: &[],
        in_tests: false,
    },
    Forbidden {
        code: "unsafe",
        instead: "only common/os and lab/system hold unsafe code: give one a safe function",
        places: &["common/os/", "lab/system/", COUNTING_ALLOCATOR],
        in_tests: false,
    },
    Forbidden { code: "print!(", instead: PRINTING, places: TERMINAL, in_tests: true },
    Forbidden { code: "println!(", instead: PRINTING, places: TERMINAL, in_tests: true },
    Forbidden { code: "eprint!(", instead: PRINTING, places: TERMINAL, in_tests: true },
    Forbidden { code: "eprintln!(", instead: PRINTING, places: TERMINAL, in_tests: true },
    Forbidden {
        code: ".unwrap()",
        instead: "return the error, or expect(\"why it cannot fail\")",
        places: &[],
        in_tests: true,
    },
    Forbidden {
        code: "from_raw_os_error(",
        instead: "only os::call and os::errors make errors from numbers",
        places: &["common/os/src/call.rs", "common/os/src/errors.rs"],
        in_tests: true,
    },
    Forbidden {
        code: "raw_os_error(",
        instead: NUMBERS,
        places: &["common/os/src/errors.rs"],
        in_tests: true,
    },
    Forbidden {
        code: "RunningServer",
        instead: "only the lab starts servers: call a study, a search or a comparison",
        places: &["lab/lab/"],
        in_tests: true,
    },
    Forbidden {
        code: "load::run",
        instead: "a trial is a process of its own, which lab/lab/src/trial.rs starts",
        places: &["lab/cli/src/load_command.rs"],
        in_tests: true,
    },
    Forbidden {
        code: "Result<Result<",
        instead: "one enumeration names all that can become of it, not its nesting",
        places: &[],
        in_tests: true,
    },
    // rustix's name for the same numbers.
    Forbidden { code: "Errno", instead: NUMBERS, places: &[], in_tests: true },
    Forbidden {
        code: "thread::sleep(",
        instead: "wait for the event itself, with a deadline",
        places: &[
            "common/os/src/fork.rs",
            "lab/lab/",
            "server/server/src/generation.rs",
            "server/server/src/server.rs",
            "xtask/",
        ],
        in_tests: true,
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pairs = tree.rust().flat_map(|source| TABLE.iter().map(move |row| (source, row)));
    pairs.flat_map(|(source, row)| breaches(source, row)).collect()
}

fn breaches(source: &Source, row: &Forbidden) -> Vec<Finding> {
    let excused = row.places.iter().any(|place| source.path.starts_with(place));
    if excused || (row.in_tests && source.is_test_file()) {
        return Vec::new();
    }
    let tests = if row.in_tests { source.test_ranges() } else { Vec::new() };
    let counted = |offset: &usize| !tests.iter().any(|range| range.contains(offset));
    let message = format!("{}: {}", row.code.trim_end_matches('('), row.instead);
    let found = source.words(row.code).filter(counted);
    found.map(|offset| Finding::in_line(source, source.line_of(offset), &*message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_and_excused_where_it_may_be() {
        for row in TABLE {
            let call = format!("fn f() {{ {} }}", row.code);
            let found = |path: &str, text: &str| breaches(&Source::new(path, text), row).len();
            assert_eq!(found("server/session/src/lib.rs", &call), 1, "{}", row.code);
            let quoted = format!("// {}\nconst A: &str = \"{}\";", row.code, row.code);
            assert_eq!(found("server/session/src/lib.rs", &quoted), 0, "{}", row.code);
            for place in row.places {
                let path =
                    if place.ends_with('/') { format!("{place}x.rs") } else { (*place).into() };
                assert_eq!(found(&path, &call), 0, "{place} {}", row.code);
            }
        }
    }

    #[test]
    fn tests_may_do_some_of_it() {
        let cases =
            [(".unwrap()", 0), ("println!(", 0), ("clippy::too_many_lines", 1), ("unsafe", 1)];
        for (code, expected) in cases {
            let text = format!("#[cfg(test)]\nmod tests {{ fn f() {{ {code} }} }}");
            let inside = check(&Tree::with_file("server/session/src/lib.rs", &text)).len();
            assert_eq!(inside, expected, "{code}");
            let call = format!("fn f() {{ {code} }}");
            let file = check(&Tree::with_file("server/session/tests/it/main.rs", &call)).len();
            assert_eq!(file, expected, "{code}");
        }
    }

    #[test]
    fn findings_carry_the_line_and_the_replacement() {
        let found =
            check(&Tree::with_file("server/session/src/a.rs", "//! A.\n\nlet x = y.unwrap();"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
        assert!(found[0].message.contains("expect("), "{}", found[0].message);
    }
}
