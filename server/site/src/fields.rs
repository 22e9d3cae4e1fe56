//! The fields of a response: its own, and the fields that rules add or replace.
//!
//! Fields that frame a message are not here: no rule may change them (`check.rs`), and the code
//! that sends the message writes them.

use std::borrow::Cow;
use std::ops::Range;

/// A response field for paths, as an operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRule {
    /// A glob over canonical paths.
    pub path: String,
    /// The field's name.
    pub name: String,
    /// The field's value.
    pub value: String,
    /// Which responses have it.
    pub when: When,
}

/// Which responses a rule is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// The field is added to all responses.
    #[default]
    Always,
    /// The field is added to responses with a status below 400.
    Success,
}

/// How a response relates to the file that its path stands for: some fields describe that file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The response carries the file, or a part of it.
    File,
    /// The response says that the client has the file already (304).
    KnownFile,
    /// The response has nothing to do with the file: an error, a redirect, a listing.
    Other,
}

/// Fields in the order in which they are sent.
#[derive(Debug, Default)]
pub struct FieldList<'a> {
    fields: Vec<Field<'a>>,
}

#[derive(Debug)]
struct Field<'a> {
    name: &'a str,
    value: Cow<'a, [u8]>,
    is_by_rule: bool,
}

impl<'a> FieldList<'a> {
    /// Adds a field of the response itself. Values are the server's own, or were checked with the
    /// configuration. Members of lists are added to those that the response has already.
    pub fn add(&mut self, name: &'a str, value: impl Into<Cow<'a, [u8]>>) {
        let field = Field { name, value: value.into(), is_by_rule: false };
        let known = match is_one_of(name, LISTS) {
            true => self.fields.iter_mut().find(|known| known.name.eq_ignore_ascii_case(name)),
            false => None,
        };
        match known {
            Some(known) => known.join(&field.value),
            None => self.fields.push(field),
        }
    }

    /// Adds the fields of rules, whose globs match the path, in their order.
    ///
    /// A field that has one value replaces the response's own; of two rules for it the first wins.
    /// Members of lists are added to those of the response. Any other field is one more line.
    pub fn apply(
        &mut self,
        rules: impl Iterator<Item = &'a HeaderRule>,
        status: u16,
        content: Content,
    ) {
        let is_for = |rule: &&HeaderRule| {
            (rule.when == When::Always || status < 400) && is_sent_with(&rule.name, content)
        };
        for rule in rules.filter(is_for) {
            let known = self.fields.iter_mut().find(|f| f.name.eq_ignore_ascii_case(&rule.name));
            match known {
                Some(field) if is_one_of(&rule.name, LISTS) => field.join(rule.value.as_bytes()),
                Some(field) if is_one_of(&rule.name, SINGLE) => {
                    if !field.is_by_rule {
                        field.replace(&rule.value);
                        self.keep_first(&rule.name);
                    }
                }
                _ => self.fields.push(Field {
                    name: &rule.name,
                    value: rule.value.as_bytes().into(),
                    is_by_rule: true,
                }),
            }
        }
    }

    /// Drops all fields of that name but the first: an application may have sent several.
    fn keep_first(&mut self, name: &str) {
        let mut is_there = false;
        self.fields.retain(|field| {
            !field.name.eq_ignore_ascii_case(name) || !std::mem::replace(&mut is_there, true)
        });
    }

    /// The value of the first field of that name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| &*field.value)
    }

    /// Appends the field lines.
    pub fn write(&self, out: &mut Vec<u8>) {
        for field in &self.fields {
            for part in [field.name.as_bytes(), b": ", &field.value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }

    /// The offset of a field's value in the bytes that [`FieldList::write`] appends.
    pub(crate) fn offset_of(&self, name: &str) -> Option<usize> {
        let at = self.fields.iter().position(|field| field.name == name)?;
        let before: usize = self.fields[..at].iter().map(Field::len).sum();
        Some(before + name.len() + 2)
    }
}

impl<'a> Field<'a> {
    /// The length of the line in bytes.
    fn len(&self) -> usize {
        self.name.len() + self.value.len() + 4
    }

    fn replace(&mut self, value: &'a str) {
        self.value = value.as_bytes().into();
        self.is_by_rule = true;
    }

    /// Adds the members of `list` that the value does not have yet.
    fn join(&mut self, list: &[u8]) {
        // Codings are listed in the order in which they were applied (RFC 9110 §8.4): a rule
        // describes the file, and the server's own coding was applied after that.
        let (first, second) = match self.name.eq_ignore_ascii_case("Content-Encoding") {
            true => (list, &*self.value),
            false => (&*self.value, list),
        };
        let mut joined: Vec<u8> = Vec::with_capacity(first.len() + second.len() + 2);
        for member in first.split(|&byte| byte == b',').chain(second.split(|&byte| byte == b',')) {
            let member = member.trim_ascii();
            if !member.is_empty() && !has_member(&joined, member) {
                if !joined.is_empty() {
                    joined.extend_from_slice(b", ");
                }
                joined.extend_from_slice(member);
            }
        }
        self.value = joined.into();
    }
}

/// Adds members to the `Vary` line of a head that is written already and begins at `start`; a line
/// if there is none. Nothing is allocated if `head` has room.
pub fn add_to_vary(head: &mut Vec<u8>, start: usize, members: &[u8]) {
    let mut value = vary_value(head, start);
    for member in members.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if has_member(&head[value.clone()], member) {
            continue;
        }
        let separator: &[u8] = if value.is_empty() { b"" } else { b", " };
        for part in [separator, member] {
            insert(head, value.end, part);
            value.end += part.len();
        }
    }
}

/// Where the value of the `Vary` line lies, which is added with an empty value if there is none.
fn vary_value(head: &mut Vec<u8>, start: usize) -> Range<usize> {
    let mut at = start;
    for line in head[start..].split_inclusive(|&byte| byte == b'\n') {
        match line.iter().position(|&byte| byte == b':') {
            Some(colon) if line[..colon].eq_ignore_ascii_case(VARY.as_bytes()) => {
                let begin = at + colon + ": ".len();
                return begin..begin.max(at + line.trim_ascii_end().len());
            }
            None if line == b"\r\n" => break,
            _ => at += line.len(),
        }
    }
    insert(head, at, b"Vary: \r\n");
    let value = at + "Vary: ".len();
    value..value
}

fn insert(head: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    head.extend_from_slice(bytes);
    head[at..].rotate_right(bytes.len());
}

fn has_member(list: &[u8], member: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|known| known.trim_ascii().eq_ignore_ascii_case(member))
}

/// Lists whose members are merged into one line.
const LISTS: &[&str] = &["Allow", "Content-Encoding", "Content-Language", VARY];

const VARY: &str = "Vary";

/// Fields that have one value: if a field occurs twice, clients use one of the values or ignore
/// both. `Cache-Control` is a list, but its directives contradict each other (`no-cache,
/// max-age=60`), so that it is one value here.
const SINGLE: &[&str] = &[
    "Accept-Ranges",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Origin",
    "Access-Control-Max-Age",
    "Cache-Control",
    "Content-Disposition",
    "Content-Location",
    "Content-Type",
    "Cross-Origin-Embedder-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Expires",
    "Origin-Agent-Cluster",
    "Referrer-Policy",
    "Retry-After",
    "Server",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
];

/// Fields that describe the file: they would be wrong in an error page or a listing.
const OF_FILE: &[&str] = &[
    "Accept-Ranges",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-Location",
    "Content-Type",
];

/// Whether a response with such content has this field of a rule at all. Of the fields that
/// describe the file a 304 only has its location (RFC 9110 §15.4.5).
fn is_sent_with(name: &str, content: Content) -> bool {
    match content {
        Content::File => true,
        Content::KnownFile if name.eq_ignore_ascii_case("Content-Location") => true,
        Content::KnownFile | Content::Other => !is_one_of(name, OF_FILE),
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, value: &str) -> HeaderRule {
        HeaderRule { name: name.into(), value: value.into(), ..HeaderRule::default() }
    }

    /// Checks fields of the response and of rules, given as `name: value`, against the result in
    /// one line.
    #[track_caller]
    fn check(own: &[&str], rules: &[&str], status: u16, content: Content, expected: &str) {
        let split = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            rule(name, value)
        };
        let own: Vec<_> = own.iter().map(|line| split(line)).collect();
        let rules: Vec<_> = rules.iter().map(|line| split(line)).collect();
        let mut list = FieldList::default();
        own.iter().for_each(|field| list.add(&field.name, field.value.as_bytes()));
        list.apply(rules.iter(), status, content);
        let mut out = Vec::new();
        list.write(&mut out);
        assert_eq!(String::from_utf8_lossy(&out).trim_end().replace("\r\n", " | "), expected);
        for Field { name, value, .. } in &list.fields {
            let at = list.offset_of(name).expect("it is there");
            assert!(out[at..].starts_with(list.value(name).unwrap_or(value)));
        }
    }

    #[test]
    fn one_value_takes_the_place_of_ours() {
        let ours =
            ["Content-Type: text/css", "Cache-Control: no-cache", "X-Content-Type-Options: a"];
        let rules = ["cache-control: max-age=60", "X-CONTENT-TYPE-OPTIONS: b", "Content-Type: x/y"];
        let expected = "Content-Type: x/y | Cache-Control: max-age=60 | X-Content-Type-Options: b";
        check(&ours, &rules, 200, Content::File, expected);
        check(
            &[],
            &["X-Frame-Options: DENY", "x-frame-options: SAMEORIGIN"],
            200,
            Content::File,
            "X-Frame-Options: DENY",
        );
        // An application may have sent several.
        check(
            &["Cache-Control: no-cache", "X: y", "cache-control: max-age=60"],
            &["Cache-Control: no-store"],
            200,
            Content::File,
            "Cache-Control: no-store | X: y",
        );
    }

    #[test]
    fn lists_are_joined() {
        check(
            &["Vary: Accept-Encoding"],
            &["vary: Origin, accept-encoding", "Vary: Cookie"],
            404,
            Content::Other,
            "Vary: Accept-Encoding, Origin, Cookie",
        );
        check(
            &["Content-Encoding: br"],
            &["Content-Encoding: gzip"],
            200,
            Content::File,
            "Content-Encoding: gzip, br",
        );
        check(&[], &["Vary: Origin", "Vary: Origin"], 200, Content::File, "Vary: Origin");
        let ours = ["Vary: Accept", "X: y", "Vary: Accept-Encoding, Accept"];
        check(&ours, &[], 200, Content::Other, "Vary: Accept, Accept-Encoding | X: y");
        let theirs = ["vary: Accept", "Vary: Cookie"];
        check(&theirs, &["Vary: Origin"], 200, Content::Other, "vary: Accept, Cookie, Origin");
    }

    #[test]
    fn a_head_that_is_written_already_has_one_vary_line() {
        let check = |before: &str, expected: &str| {
            let pair = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\nVary: of the body");
            let mut head = [b"before\r\n", pair(before).as_bytes()].concat();
            add_to_vary(&mut head, 8, b"Accept, Sec-Fetch-Mode");
            let expected = format!("before\r\n{}", pair(expected));
            assert_eq!(String::from_utf8_lossy(&head), expected);
        };
        check("", "Vary: Accept, Sec-Fetch-Mode\r\n");
        check("ETag: \"a:b\"\r\n", "ETag: \"a:b\"\r\nVary: Accept, Sec-Fetch-Mode\r\n");
        check("Vary: \r\n", "Vary: Accept, Sec-Fetch-Mode\r\n");
        check(
            "vary: Origin, accept\r\nX-Vary: z\r\n",
            "vary: Origin, accept, Sec-Fetch-Mode\r\nX-Vary: z\r\n",
        );
    }

    #[test]
    fn any_other_field_is_a_line() {
        check(
            &["Link: a"],
            &["Link: b", "Set-Cookie: c", "Set-Cookie: d"],
            200,
            Content::File,
            "Link: a | Link: b | Set-Cookie: c | Set-Cookie: d",
        );
    }

    #[test]
    fn what_describes_the_file_is_said_of_the_file_only() {
        let rules =
            ["Content-Type: a/b", "Content-Location: /x", "Expires: 0", "Accept-Ranges: none"];
        let all = "Content-Type: a/b | Content-Location: /x | Expires: 0 | Accept-Ranges: none";
        check(&[], &rules, 206, Content::File, all);
        check(&[], &rules, 304, Content::KnownFile, "Content-Location: /x | Expires: 0");
        check(
            &["Content-Type: text/html"],
            &rules,
            404,
            Content::Other,
            "Content-Type: text/html | Expires: 0",
        );
    }

    #[test]
    fn a_rule_may_be_for_successes() {
        let rules = [HeaderRule { when: When::Success, ..rule("A", "b") }];
        for (status, expected) in
            [(200, true), (206, true), (304, true), (400, false), (503, false)]
        {
            let mut list = FieldList::default();
            list.apply(rules.iter(), status, Content::Other);
            assert_eq!(list.value("a").is_some(), expected, "{status}");
        }
    }
}
