//! Placeholders in cases, and cases with them filled in.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `${hex:ff00}` | these bytes |
//! | `${repeat:9000:text}` | the text so many times |
//! | `${etag:/path}` | the entity tag of that resource, quotes included |
//! | `${etag:/path\|br}` | that of the variant a client gets that accepts this coding |
//!
//! Entity tags are requested from the server, since their form is its own business.

use std::collections::BTreeMap;

use crate::case::{Case, Closes, Expected, FieldRule};

/// A query for an entity tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtagQuery {
    /// The path of the resource.
    pub path: String,
    /// The coding to accept; without one, no `Accept-Encoding` is sent.
    pub coding: Option<String>,
}

impl EtagQuery {
    /// The request for it at `host`, with `Connection: close`.
    pub fn request(&self, host: &str) -> Vec<u8> {
        let accept = self
            .coding
            .as_ref()
            .map_or(String::new(), |coding| format!("Accept-Encoding: {coding}, identity;q=0\r\n"));
        let Self { path, .. } = self;
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{accept}\r\n").into()
    }
}

/// A case that is ready to be sent.
#[derive(Clone, Debug)]
pub struct Prepared<'c> {
    /// The case as it was read.
    pub case: &'c Case,
    /// The bytes to send.
    pub request: Vec<u8>,
    /// What to expect, with entity tags filled in.
    pub expect: Vec<Expected>,
    /// What to send next on a connection that stays open, to check that it is in step.
    pub probe: Vec<u8>,
}

impl<'c> Prepared<'c> {
    /// Fills the placeholders of `case`; `etag` is called once for each query.
    ///
    /// # Errors
    /// A placeholder that is wrong, or the error of `etag`.
    pub fn new(
        case: &'c Case,
        host: &str,
        etag: &mut dyn FnMut(&EtagQuery) -> Result<String, String>,
    ) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        let mut lookup = |query: EtagQuery| match known.get(&query) {
            Some(tag) => Ok(String::clone(tag)),
            None => {
                let tag = etag(&query)?;
                known.insert(query, tag.clone());
                Ok(tag)
            }
        };
        let request = expand(&case.request, &mut lookup)?;
        let mut expect = case.expect.clone();
        for rule in expect.iter_mut().flat_map(|expected| expected.headers.values_mut()) {
            fill_rule(rule, &mut lookup)?;
        }
        Ok(Self { case, request, expect, probe: probe(host) })
    }

    /// Whether a probe should follow the case's own bytes.
    pub fn wants_probe(&self) -> bool {
        self.case.closes == Closes::No && !self.case.half_close
    }
}

/// The file whose contents are the response to the probe.
pub(crate) const PROBE_FILE: &str = "probe.txt";

fn probe(host: &str) -> Vec<u8> {
    format!("GET /{PROBE_FILE} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Checks that all placeholders of `text` are well-formed.
///
/// # Errors
/// The malformed placeholder.
pub(crate) fn validate(text: &str) -> Result<(), String> {
    expand(text, &mut |_| Ok(String::new())).map(drop)
}

type Lookup<'l> = dyn FnMut(EtagQuery) -> Result<String, String> + 'l;

fn fill_rule(rule: &mut FieldRule, lookup: &mut Lookup<'_>) -> Result<(), String> {
    let text = match rule {
        FieldRule::Exact(text) => text,
        FieldRule::Rules(rules) => match &mut rules.not {
            Some(text) => text,
            None => return Ok(()),
        },
    };
    *text = String::from_utf8_lossy(&expand(text, lookup)?).into_owned();
    Ok(())
}

fn expand(text: &str, lookup: &mut Lookup<'_>) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once("${") {
        out.extend_from_slice(plain.as_bytes());
        let (inner, after) = after.split_once('}').ok_or_else(|| format!("${{{after}: no }}"))?;
        out.extend(fill(inner, lookup)?);
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

fn fill(inner: &str, lookup: &mut Lookup<'_>) -> Result<Vec<u8>, String> {
    let bad = || format!("${{{inner}}} is not a placeholder");
    let (kind, argument) = inner.split_once(':').ok_or_else(bad)?;
    match kind {
        "hex" => unhex(argument).ok_or_else(bad),
        "repeat" => {
            let (count, text) = argument.split_once(':').ok_or_else(bad)?;
            Ok(text.repeat(count.parse().map_err(|_| bad())?).into_bytes())
        }
        "etag" => {
            let (path, coding) = match argument.split_once('|') {
                Some((path, coding)) => (path, Some(coding.to_owned())),
                None => (argument, None),
            };
            lookup(EtagQuery { path: path.to_owned(), coding }).map(String::into_bytes)
        }
        _ => Err(bad()),
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders() {
        let check = |text: &str, expected: Option<&[u8]>| {
            let tag = |query: EtagQuery| Ok(format!("\"{}{:?}\"", query.path, query.coding));
            assert_eq!(expand(text, &mut { tag }).ok().as_deref(), expected, "{text}");
        };
        check("", Some(b""));
        check("plain $ } text", Some(b"plain $ } text"));
        check("a${hex:00ff}b", Some(b"a\x00\xffb"));
        check("${repeat:3:ab}${repeat:0:c}", Some(b"ababab"));
        check("${repeat:2:a:b}", Some(b"a:ba:b"));
        check("W/${etag:/x}", Some(b"W/\"/xNone\""));
        check("${etag:/x|br}", Some(b"\"/xSome(\"br\")\""));
        check("${hex:0g}", None);
        check("${repeat:x:a}", None);
        check("${other:a}", None);
        check("${hex:00", None);
    }
}
