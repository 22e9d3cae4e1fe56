//! No program decides by the text of an error: texts are for people, and a change of one must not
//! change behaviour. Errors that something depends on are enumerations.
//!
//! The rule does not know types, nor a text behind a name of its own choosing: two errors that are
//! compared, or a text that is asked whether it is empty, are found by readers only. A name that
//! suggests an error is taken for one, and so is every value that is converted to text to be
//! searched. Tests may inspect texts, which they test. The output of another program is no more
//! reliable: where other programs are run their exit status, their files, or the kernel show what
//! has happened.

use super::Finding;
use super::source::{Source, Tree, body};

/// The names of errors and their texts. `text` is not among them: parsers call so what they parse.
const NAMES: &[&str] =
    &["err", "error", "failure", "fault", "message", "reason", "why", "words", "wrong"];
/// Calls that return the text of an error.
const TEXTS: &[&str] = &["description()", "message()", "reason()", "to_string()", "why()"];
/// Calls that search a text, or split it.
const LOOKS: &[&str] = &[
    ".contains(",
    ".ends_with(",
    ".find(",
    ".lines().any(",
    ".lines().filter(",
    ".lines().find_map(",
    ".lines().position(",
    ".matches(",
    ".rfind(",
    ".rmatches(",
    ".rsplit(",
    ".rsplit_once(",
    ".rsplitn(",
    ".split(",
    ".split_once(",
    ".splitn(",
    ".starts_with(",
    ".strip_prefix(",
    ".strip_suffix(",
];
const COMPARISONS: &[&str] = &["==", "!="];
/// The folders where other programs are run.
const RUNS_OTHERS: &[&str] = &[
    "common/command/src/",
    "lab/cli/src/",
    "lab/lab/src/",
    "simulator/cli/src/",
    "simulator/tracer/src/",
    "xtask/src/",
];
/// The names of their output there, and of texts for people.
const PRINTED: &[&str] = &["about", "complaint()", "output", "printed", "said", "stderr"];

/// Where a name of these lists stands for something else, or a text has to be read.
struct Excuse {
    path: &'static str,
    name: &'static str,
    reason: &'static str,
}

const EXCUSES: &[Excuse] = &[
    Excuse {
        path: "lab/lab/src/record/purpose.rs",
        name: "words",
        reason: "records of earlier versions have a purpose as a text",
    },
    Excuse {
        path: "lab/lab/src/record/skipped.rs",
        name: "words",
        reason: "records of earlier versions have what was skipped as a text",
    },
    Excuse {
        path: "lab/load/src/arguments.rs",
        name: "words",
        reason: "they are words of a command line, one of which an error repeats as it was typed",
    },
    Excuse { path: "xtask/src/tools.rs", name: "words", reason: "they are a command" },
    Excuse {
        path: "simulator/tracer/src/built.rs",
        name: "said",
        reason: "the line of the compiler that is repeated; its exit status has decided",
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|source| !source.is_test_file()).flat_map(check_file).collect()
}

fn check_file(source: &Source) -> Vec<Finding> {
    let chains: Vec<(usize, &str)> =
        decisions(source).into_iter().map(|at| (at, receiver(&source.code, at))).collect();
    let excuses = EXCUSES.iter().filter(|excuse| excuse.path == source.path);
    let excuses: Vec<&Excuse> = excuses.collect();
    let excused = |chain: &str| excuses.iter().any(|excuse| has(chain, &[excuse.name]));
    let message = "decides by a text for people: match on an enumeration, with the text in Display";
    let found = chains.iter().filter(|(_, chain)| !excused(chain));
    let found = found.map(|(at, _)| Finding::in_line(source, source.line_of(*at), message));
    let unused =
        excuses.iter().filter(|excuse| !chains.iter().any(|(_, chain)| has(chain, &[excuse.name])));
    let unused = unused.map(|Excuse { name, reason, .. }| {
        let message = format!("needs no excuse for {name} any more ({reason}): tidy/prose.rs");
        Finding::in_line(source, 1, &message)
    });
    found.chain(unused).collect()
}

/// The ends of the chains of names and calls by whose text something is decided.
fn decisions(source: &Source) -> Vec<usize> {
    let code = &source.code;
    let tests = source.test_ranges();
    let looks = LOOKS.iter().flat_map(|look| code.match_indices(look)).map(|(at, _)| at);
    let looks = looks.chain(matched(source)).chain(matched_by_macro(code));
    let compared = COMPARISONS.iter().flat_map(|sign| code.match_indices(sign));
    let compared = compared.filter(|(at, sign)| is_text(&code[at + sign.len()..]));
    let of_errors = looks.clone().chain(compared.map(|(at, _)| at));
    let of_errors = of_errors.filter(|at| is_error(receiver(code, *at)));
    let runs_others = RUNS_OTHERS.iter().any(|folder| source.path.starts_with(folder));
    let of_others = looks.filter(|_| runs_others);
    let of_others = of_others.filter(|at| has(receiver(code, *at), PRINTED));
    let found = of_errors.chain(of_others);
    found.filter(|at| !tests.iter().any(|range| range.contains(at))).collect()
}

/// The ends of what is matched against texts: of `a` in `match a { "b" => … }`.
fn matched(source: &Source) -> impl Iterator<Item = usize> + Clone {
    let code = &source.code;
    let arms: Vec<_> = source.words("match").filter_map(|start| body(code, start)).collect();
    let of_texts = arms.into_iter().filter(|arms| has_text_pattern(&code[arms.clone()]));
    of_texts.map(|arms| code[..arms.start].trim_end().len())
}

/// Where the `a` of each `matches!(a, "b")` begins.
fn matched_by_macro(code: &str) -> impl Iterator<Item = usize> + Clone {
    const MACRO: &str = "matches!(";
    code.match_indices(MACRO).filter_map(|(start, _)| {
        let open = start + MACRO.len() - 1;
        let (length, _) = at_depth(&code[open..], 0).next()?;
        let inside = &code[open..open + length];
        let (comma, _) = at_depth(inside, 1).find(|(_, byte)| *byte == b',')?;
        holds_text(&inside[comma..]).then(|| open + inside[..comma].trim_end().len())
    })
}

/// Whether a pattern among the arms of a match holds a string literal.
fn has_text_pattern(arms: &str) -> bool {
    let mut start = 1;
    for (at, byte) in at_depth(arms, 1) {
        match byte {
            b',' | b'}' => start = at + 1,
            b'=' if arms[at..].starts_with("=>") && holds_text(&arms[start..at]) => return true,
            _ => {}
        }
    }
    false
}

/// Whether a string literal is in a pattern, before its guard.
fn holds_text(pattern: &str) -> bool {
    pattern.split(" if ").next().is_some_and(|pattern| pattern.contains(LITERAL))
}

/// The bytes of code that lie within this many brackets, with their offsets; a closing one lies
/// within the same as what follows it.
fn at_depth(code: &str, wanted: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut depth = 0_usize;
    code.bytes().enumerate().filter(move |(_, byte)| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == wanted
    })
}

/// The beginning of a string literal in the blanked code.
const LITERAL: &str = "__";

/// Whether the code continues with a string literal.
fn is_text(code: &str) -> bool {
    code.trim_start().trim_start_matches('&').starts_with(LITERAL)
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
        check_code("let number = why.rfind(' ').map(|at| &why[at..]);", 1);
        check_code("let kind = message.splitn(2, ' ').next(); reason.rsplitn(2, ' ').next()", 2);
        check_code("let gone = why.lines().find(|line| line.contains(GONE));", 1);
        check_code("let one = why.lines().collect::<Vec<_>>().join(\"; \");", 0);
    }

    #[test]
    fn matches_against_texts_are_found() {
        check_code("match why.as_str() { \"\" => 0, _ => 1 }", 1);
        check_code("let a = match &*self.reason { f @ (\"a\" | \"b\") => f, _ => c };", 1);
        check_code("match one.to_string().as_str() { a => { b } \"a\" => c, _ => d }", 1);
        check_code("match broken.why { Some(why) if why == A => 1, Some(\"a\") => 2, _ => 3 }", 1);
        check_code("matches!(failure.as_str(), \"a\" | \"b\")", 1);
        check_code("one && matches!(self.reason.as_deref(), Some(\"a\")) && two", 1);
        check_code("matches!(why.kind(), Kind::A if option == \"a\")", 0);
        check_code("let found = words.split_once(\": \");", 1);
        check_code("match why { Why::Interrupted => \"a\", Why::Other(_) => f(\"b\") }", 0);
        check_code("match why.kind() { Kind::A if option == \"a\" => 1, _ => 2 }", 0);
        check_code("match typed { \"a\" => format!(\"{why}\"), _ => d }", 0);
        check_code("match f(typed) { 0 => matches!(typed, \"a\"), _ => why(\"b\") }", 0);
        check_code("matches!(why, Why::Interrupted | Why::Told(_)) && typed == \"a\"", 0);
    }

    #[test]
    fn an_excuse_is_for_one_name_in_one_file() {
        let check = |path: &str, code: &str, expected: usize| {
            let text = format!("fn f() {{ {code} }}");
            assert_eq!(check(&Tree::with_file(path, &text)).len(), expected, "{path}: {code}");
        };
        check("simulator/tracer/src/built.rs", "said.rsplit_once(COUNTED)", 0);
        check("simulator/tracer/src/built.rs", "why.rsplit_once(COUNTED); said.split(COUNTED)", 1);
        check("simulator/tracer/src/built.rs", "nothing", 1);
        check("xtask/src/test.rs", "said.rsplit_once(COUNTED)", 1);
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
        check("simulator/tracer", "match said.trim() { \"no\" => 1, _ => 2 }", 1);
        check("common/command", "if output.stderr.contains(\"x\") {}", 1);
        check("lab/lab", "let lines = process::output(&command, None)?.lines();", 0);
        check("lab/lab", "let first = printed.lines().next();", 0);
        check("lab/lab", "if printed.lines().any(|line| line == DONE) {}", 1);
        check("xtask", "let at = said.lines().position(is_end);", 1);
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
