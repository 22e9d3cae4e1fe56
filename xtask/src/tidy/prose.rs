//! No program decides by the text of an error: texts are for people, and a change of one must not
//! change behaviour. Errors that something depends on are enumerations.
//!
//! The rule does not know types. A name that suggests an error is taken for one, and so is every
//! value that is converted to text to be searched. Tests may inspect texts, which they test. The
//! output of another program is no more reliable: where other programs are run their exit status,
//! their files, or the kernel show what has happened.

use super::Finding;
use super::source::{Source, Tree};

/// The names of errors and their texts.
const NAMES: &[&str] = &["err", "error", "failure", "fault", "message", "reason", "why", "wrong"];
/// Calls that return the text of an error.
const TEXTS: &[&str] = &["description()", "message()", "reason()", "to_string()", "why()"];
/// Calls that search a text, or split it.
const LOOKS: &[&str] = &[
    ".contains(",
    ".ends_with(",
    ".find(",
    ".matches(",
    ".rsplit(",
    ".rsplit_once(",
    ".split(",
    ".split_once(",
    ".starts_with(",
    ".strip_prefix(",
    ".strip_suffix(",
];
const COMPARISONS: &[&str] = &["==", "!="];
/// The folders where other programs are run to be measured.
const RUNS_OTHERS: &[&str] = &["lab/cli/src/", "lab/lab/src/", "simulator/cli/src/"];
/// The names of their output there, and of texts for people.
const PRINTED: &[&str] = &["about", "complaint()", "output", "printed", "said", "stderr"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|source| !source.is_test_file()).flat_map(decisions).collect()
}

fn decisions(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let tests = source.test_ranges();
    let looks = LOOKS.iter().flat_map(|look| code.match_indices(look)).map(|(at, _)| at);
    let compared = COMPARISONS.iter().flat_map(|sign| code.match_indices(sign));
    // A string literal is underscores in the blanked code.
    let compared = compared.filter(|(at, sign)| is_text(&code[at + sign.len()..]));
    let of_errors = looks.clone().chain(compared.map(|(at, _)| at));
    let of_errors = of_errors.filter(|at| is_error(receiver(code, *at)));
    let runs_others = RUNS_OTHERS.iter().any(|folder| source.path.starts_with(folder));
    let of_others = looks.filter(|_| runs_others);
    let of_others = of_others.filter(|at| has(receiver(code, *at), PRINTED));
    let found = of_errors.chain(of_others);
    let found = found.filter(|at| !tests.iter().any(|range| range.contains(at)));
    let message = "decides by a text for people: match on an enumeration, with the text in Display";
    found.map(|at| Finding::in_line(source, source.line_of(at), message)).collect()
}

/// Whether the code continues with a string literal.
fn is_text(code: &str) -> bool {
    code.trim_start().trim_start_matches('&').starts_with("__")
}

/// Whether a chain of names and calls is an error, or its text.
fn is_error(chain: &str) -> bool {
    has(chain, TEXTS) || has(chain, NAMES)
}

/// Whether one of `names` is in a chain of names and calls.
fn has(chain: &str, names: &[&str]) -> bool {
    let mut parts = chain.split(['.', ':']).map(str::trim);
    parts.any(|part| names.contains(&part))
}

/// The chain of names and calls before `end`: `self.error.to_string()`.
fn receiver(code: &str, end: usize) -> &str {
    let bytes = code.as_bytes();
    let mut start = end;
    let mut depth = 0_usize;
    while let Some(at) = start.checked_sub(1) {
        match bytes[at] {
            b')' | b']' => depth += 1,
            b'(' | b'[' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            b'.' | b':' | b'?' | b'_' => {}
            byte if byte.is_ascii_alphanumeric() => {}
            // A chain may continue on the next line, before its dot.
            byte if byte.is_ascii_whitespace() && continues(&code[start..end]) => {}
            _ => break,
        }
        start = at;
    }
    &code[start..end]
}

/// Whether the code after a space belongs to the chain before it.
fn continues(after: &str) -> bool {
    let after = after.trim_start();
    after.is_empty() || after.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_code(code: &str, expected: usize) {
        let text = format!("fn f() {{ {code} }}");
        assert_eq!(check(&Tree::with_file("crates/a/src/lib.rs", &text)).len(), expected, "{code}");
    }

    #[test]
    fn decisions_by_the_text_of_an_error_are_found() {
        check_code("if why.starts_with(\"no server\") {}", 1);
        check_code("match () { () if self.error.to_string().contains(NO_ROOM) => {} }", 1);
        check_code("one\n    .reason\n    .trim()\n    .ends_with(HAS_ENDED)", 1);
        check_code("let ours = io_result.unwrap_err().to_string().contains(\"x\");", 1);
        check_code("match why { why if why.contains(\"unknown\") => 1 }", 1);
        check_code("toml.message().split_once(\": \")", 1);
        check_code("let kind = reason.split(' ').next();", 1);
        check_code("void.iter().map(|reason| reason.rsplit(\", \").next())", 1);
        check_code("let (kind, number) = self.error.to_string().rsplit_once(' ')?;", 1);
        check_code("if message == \"interrupted\" {}", 1);
        check_code("if failure.as_str() != \"interrupted\" {}", 1);
        check_code("errors.iter().map(|error| error.strip_prefix(\"a\"))", 1);
    }

    #[test]
    fn what_other_programs_print_decides_nothing_where_they_are_run() {
        let check = |folder: &str, code: &str, expected: usize| {
            let text = format!("fn f() {{ {code} }}");
            let path = format!("{folder}/src/a.rs");
            assert_eq!(check(&Tree::with_file(&path, &text)).len(), expected, "{folder}: {code}");
        };
        check("lab/lab", "if said.contains(\"not permitted\") {}", 1);
        check("lab/lab", "if finished.output.contains(&name) {}", 1);
        check("lab/lab", "words.iter().any(|one| printed.contains(one))", 1);
        check("lab/cli", "testbed.about.split(\", \").filter(is_of_cpus)", 1);
        check("lab/lab", "if finished.complaint().starts_with(\"x\") {}", 1);
        check("lab/lab", "let lines = process::output(&command, None)?.lines();", 0);
        check("lab/lab", "let first = printed.lines().next();", 0);
        check("server/engines", "if said.contains(&DONE) {}", 0);
    }

    #[test]
    fn other_texts_may_be_looked_into() {
        check_code("if typed.starts_with(\"fixed:\") {}", 0);
        check_code("if why == Why::Interrupted {}", 0);
        check_code("if error.kind() == io::ErrorKind::NotFound {}", 0);
        check_code("let many = reasons.contains(&reason);", 0);
        check_code("let text = format!(\"{why}\"); // why.contains(\"x\")", 0);
        check_code("line.contains(\"error\")", 0);
        check_code("let found = names.iter().find(|name| **name == why);", 0);
        check_code("report(&why); names.contains(name)", 0);
    }

    #[test]
    fn tests_may_inspect_messages() {
        let inside = "#[cfg(test)]\nmod tests { fn f() { assert!(why.contains(\"x\")) } }";
        assert_eq!(check(&Tree::with_file("crates/a/src/lib.rs", inside)).len(), 0);
        let file = "fn f() { assert!(why.contains(\"x\")) }";
        assert_eq!(check(&Tree::with_file("crates/a/tests/it/main.rs", file)).len(), 0);
        assert_eq!(check(&Tree::with_file("crates/a/src/b.rs", file))[0].line, 1);
    }
}
