//! The tracked files as text, and Rust text with its comments and strings blanked out.
//!
//! This is not a parser: just enough of a lexer to tell code from comments and strings, and to
//! match braces.

use std::ops::Range;
use std::path::Path;

use crate::tools;

/// The files that the rules check.
pub(crate) struct Tree {
    /// The text files.
    pub(crate) sources: Vec<Source>,
    /// Path and length in bytes of every file, text or not.
    pub(crate) sizes: Vec<(String, u64)>,
}

/// One text file.
pub(crate) struct Source {
    /// The path relative to the workspace root, with forward slashes.
    pub(crate) path: String,
    /// The text on disk.
    pub(crate) text: String,
    /// For Rust: `text` with comments as spaces and the insides of strings as underscores, so that
    /// every byte keeps its place. For other files: empty.
    pub(crate) code: String,
}

impl Tree {
    /// Reads the files that git tracks under `root`, and those that it would track after `git add`.
    pub(crate) fn read_tracked(root: &Path) -> Result<Self, String> {
        let listing = tools::command("git ls-files -z --cached --others --exclude-standard")
            .current_dir(root)
            .output()
            .map_err(|e| format!("tidy lists files with git: {e}"))?;
        if !listing.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr)));
        }
        let mut tree = Self { sources: Vec::new(), sizes: Vec::new() };
        for path in listing.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            tree.add(root, &String::from_utf8_lossy(path));
        }
        Ok(tree)
    }

    /// A tree of one file, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn with_file(path: &str, text: &str) -> Self {
        Self {
            sources: vec![Source::new(path, text)],
            sizes: vec![(path.to_owned(), text.len() as u64)],
        }
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.is_rust())
    }

    /// Adds a file; it is not an error if the file is gone, or is not text.
    fn add(&mut self, root: &Path, path: &str) {
        let Ok(bytes) = std::fs::read(root.join(path)) else { return };
        self.sizes.push((path.to_owned(), bytes.len() as u64));
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            self.sources.push(Source::new(path, &text));
        }
    }
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = if is_rust(path) { blank(text) } else { String::new() };
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    pub(crate) fn is_rust(&self) -> bool {
        is_rust(&self.path)
    }

    /// Whether the whole file is tests or benchmarks.
    pub(crate) fn is_test_file(&self) -> bool {
        let folders = ["tests/", "benches/", "fuzz/", "common/testkit/"];
        let part_of = |folder: &&str| {
            self.path.starts_with(*folder) || self.path.contains(&format!("/{folder}"))
        };
        self.path.ends_with("/tests.rs") || folders.iter().any(part_of)
    }

    /// The line of a byte offset, counted from one.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
    }

    /// The ranges of the items under `#[cfg(test)]`.
    pub(crate) fn test_ranges(&self) -> Vec<Range<usize>> {
        let starts = self.code.match_indices("#[cfg(test)]").map(|(start, _)| start);
        starts.map(|start| start..item_end(&self.code, start)).collect()
    }

    /// The offsets at which `word` occurs in the code as a whole word.
    pub(crate) fn words<'s>(&'s self, word: &'s str) -> impl Iterator<Item = usize> + 's {
        let bytes = self.code.as_bytes();
        let free = move |at: Option<usize>| {
            at.and_then(|at| bytes.get(at)).is_none_or(|byte| !is_word_byte(*byte))
        };
        let standing = move |start: &usize| {
            let (first, last) = (word.as_bytes()[0], word.as_bytes()[word.len() - 1]);
            (!is_word_byte(first) || free(start.checked_sub(1)))
                && (!is_word_byte(last) || free(Some(start + word.len())))
        };
        self.code.match_indices(word).map(|(start, _)| start).filter(standing)
    }
}

/// The end of the item that starts at `start`: after its `;` or its matching brace.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    body(code, start).map_or(code.len(), |body| body.end)
}

/// The braces of the item that starts at `start`, or an empty range at its `;`.
pub(crate) fn body(code: &str, start: usize) -> Option<Range<usize>> {
    let mut nesting = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting = nesting.saturating_sub(1),
            b';' if nesting == 0 => return Some(offset + 1..offset + 1),
            b'{' if nesting == 0 => return Some(offset..closing_brace(code, offset)),
            _ => {}
        }
    }
    None
}

/// The offset after the brace that closes the one at `open`.
fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

fn is_word_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Rust text of the same length with comments as spaces and string contents as underscores.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, fill) = token(bytes, at);
        let inside = code[at..end].iter_mut().filter(|byte| **byte != b'\n');
        if let Some(fill) = fill {
            inside.for_each(|byte| *byte = fill);
        }
        at = end;
    }
    String::from_utf8(code).expect("whole tokens were replaced by ASCII")
}

/// The end of the token at `at`, and the byte to fill it with if it is not code.
fn token(bytes: &[u8], at: usize) -> (usize, Option<u8>) {
    let rest = &bytes[at..];
    let starts_word = at == 0 || !is_word_byte(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => (at + length_until(rest, b'\n'), Some(b' ')),
        [b'/', b'*', ..] => (at + block_comment_length(rest), Some(b' ')),
        [b'"', ..] => (at + string_length(rest), Some(b'_')),
        [b'\'', ..] => match char_length(rest) {
            Some(length) => (at + length, Some(b'_')),
            None => (at + 1, None),
        },
        [b'r' | b'b' | b'c', ..] if starts_word => match raw_string_length(rest) {
            Some(length) => (at + length, Some(b'_')),
            None => (at + 1, None),
        },
        _ => (at + 1, None),
    }
}

fn length_until(rest: &[u8], stop: u8) -> usize {
    rest.iter().position(|byte| *byte == stop).unwrap_or(rest.len())
}

/// The length of a block comment; block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a string that opens with a quotation mark and may contain escapes.
fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal; none if this is a lifetime.
fn char_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(3 + length_until(rest.get(3..)?, b'\'') + 1);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(5)]);
    let valid = text.map_or_else(|e| e.valid_up_to(), str::len);
    let first = std::str::from_utf8(&rest[1..=valid]).ok()?.chars().next()?;
    let end = 1 + first.len_utf8();
    (rest.get(end) == Some(&b'\'')).then_some(end + 1)
}

/// The length of a raw string with its prefix (`r"…"`, `br#"…"#`, `cr"…"`); none if it is not one.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let raw = rest[..prefix].ends_with(b"r");
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + hashes;
    if !raw || rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let inside = &rest[open + 1..];
    let length = inside.windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| open + 1 + length + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_in_place() {
        let cases = [
            ("a // fn\nb", "a      \nb"),
            ("a /* /* x */ */ b", "a               b"),
            ("f(\"x{\\\"}\", 1)", "f(_______, 1)"),
            ("r#\"a\"b\"# + br\"{\" + b\"{\"", "________ + _____ + b___"),
            ("'{' 'a '\\'' b'\\n' 'ä' '\\u{7d}'", "___ 'a ____ b____ ____ ________"),
            ("writer\"x\"", "writer___"),
            ("r\"never closed", "______________"),
        ];
        for (text, expected) in cases {
            assert_eq!(blank(text), expected, "{text}");
            assert_eq!(blank(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn bodies_are_matched() {
        let code = "fn a(x: [u8; 2]) -> [u8; 3] { { } } fn b();";
        assert_eq!(&code[body(code, 0).expect("a body")], "{ { } }");
        let second = code.find("fn b").expect("it is there");
        assert!(body(code, second).expect("an end").is_empty());
    }

    #[test]
    fn words_are_whole() {
        let source = Source::new("a.rs", "unsafe fn x(); unsafe_code; not_unsafe; // unsafe");
        assert_eq!(source.words("unsafe").collect::<Vec<_>>(), [0]);
        let source = Source::new("a.rs", "println!(); eprintln!()");
        assert_eq!(source.words("println!").count(), 1);
    }

    #[test]
    fn tests_are_known_from_code() {
        let source = Source::new("a.rs", "fn a() {}\n#[cfg(test)]\nmod tests { x }\nfn b() {}");
        let ranges = source.test_ranges();
        assert_eq!(&source.code[ranges[0].clone()], "#[cfg(test)]\nmod tests { x }");
        for (path, expected) in [
            ("crates/a/tests/it/main.rs", true),
            ("crates/a/src/x/tests.rs", true),
            ("common/testkit/src/lib.rs", true),
            ("fuzz/head.rs", true),
            ("crates/a/src/attests.rs", false),
        ] {
            assert_eq!(Source::new(path, "").is_test_file(), expected, "{path}");
        }
    }
}
