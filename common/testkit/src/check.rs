//! The comparison of a server's responses with what a case expects, and its report in words.
//!
//! Pure: nothing is sent or read here. The rules for every response are in `invariants`.

use std::fmt;

use crate::case::{BodyRule, BodyRules, Case, Closes, Expected, FieldRule, FieldRules};
use crate::client::{End, Transcript};
use crate::document_root::contents;
use crate::response::{self, Response, escape};
use crate::template::{PROBE_FILE, Prepared};
use crate::{invariants, multipart, request};

/// A case that failed.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The case's name, with its group.
    pub name: String,
    /// The section that the case is about.
    pub rfc: String,
    /// The profile that the case ran under.
    pub settings: String,
    /// The bytes that were sent.
    pub request: Vec<u8>,
    /// The faults, a line each.
    pub problems: Vec<String>,
    /// The bytes that came back.
    pub received: Vec<u8>,
}

impl Mismatch {
    /// A mismatch with this one problem and nothing sent or received.
    pub fn new(case: &Case, problem: String) -> Self {
        Self {
            name: format!("{}/{}", case.group, case.name),
            rfc: case.rfc.clone(),
            settings: case.settings.clone(),
            request: case.request.clone().into_bytes(),
            problems: vec![problem],
            received: Vec::new(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rfc, settings, .. } = self;
        let place = if rfc.starts_with("policy") { rfc.clone() } else { format!("RFC {rfc}") };
        writeln!(formatter, "{name} ({place}; profile {settings})")?;
        writeln!(formatter, "  sent:     {}", escape(&self.request, 500))?;
        for problem in &self.problems {
            writeln!(formatter, "  wrong:    {problem}")?;
        }
        write!(formatter, "  received: {}", escape(&self.received, 900))
    }
}

/// Compares a conversation with what its case expects.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check(case: &Prepared<'_>, transcript: &Transcript) -> Result<(), Box<Mismatch>> {
    let problems = problems(case, transcript);
    if problems.is_empty() {
        return Ok(());
    }
    let (request, received) = (case.request.clone(), transcript.bytes.clone());
    let mismatch = Mismatch::new(case.case, String::new());
    Err(Box::new(Mismatch { problems, request, received, ..mismatch }))
}

fn problems(case: &Prepared<'_>, transcript: &Transcript) -> Vec<String> {
    let mut problems = Vec::new();
    let heads = request::heads(&case.request);
    let over = matches!(transcript.end, End::Closed | End::Reset);
    let mut responses = match response::parse_responses(&transcript.bytes, &heads, over) {
        Ok(parsed) => {
            if parsed.consumed < transcript.bytes.len() {
                problems.push("the last response is not complete".into());
            }
            parsed.responses
        }
        Err(error) => return vec![error.to_string()],
    };
    if transcript.probed {
        problems.extend(check_probe(&mut responses, case.expect.len()));
    }
    if responses.len() != case.expect.len() {
        let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
        problems.push(format!("expected {} responses, got {statuses:?}", case.expect.len()));
    }
    problems.extend(check_responses(case, &responses));
    problems.extend(check_end(case, transcript, &responses));
    problems
}

/// Removes the probe's response from the end; nothing may follow it but the end.
fn check_probe(responses: &mut Vec<Response>, expected: usize) -> Option<String> {
    if responses.len() != expected + 1 {
        return Some("no answer in step to the next request on the connection".into());
    }
    let probe = responses.pop()?;
    let right = probe.status == 200 && Some(probe.body.as_slice()) == contents(PROBE_FILE);
    (!right).then(|| format!("the next request on the connection got {}", probe.status))
}

fn check_responses(case: &Prepared<'_>, responses: &[Response]) -> Vec<String> {
    let methods = request::methods(&case.request);
    let mut finals = 0;
    let mut problems = Vec::new();
    for (index, (response, expected)) in responses.iter().zip(&case.expect).enumerate() {
        let method = methods.get(finals).map_or("", String::as_str);
        finals += usize::from(response.status >= 200);
        let found = check_response(response, expected)
            .into_iter()
            .chain(invariants::check(method, response));
        problems.extend(found.map(|problem| format!("response {}: {problem}", index + 1)));
    }
    problems
}

fn check_response(response: &Response, expected: &Expected) -> Vec<String> {
    let mut problems = Vec::new();
    if response.status != expected.status {
        problems.push(format!("expected status {}, got {}", expected.status, response.status));
    }
    for (name, rule) in &expected.headers {
        let value = response.field(name);
        if let Some(wanted) = field_problem(response, value.as_deref(), rule) {
            problems.push(format!("expected {name} {wanted}, got {value:?}"));
        }
    }
    if let Some(rule) = &expected.body {
        problems.extend(body_problem(response, rule));
    }
    problems
}

/// What was expected of the field, if the value does not satisfy it.
fn field_problem(response: &Response, value: Option<&str>, rule: &FieldRule) -> Option<String> {
    match rule {
        FieldRule::Exact(exact) => (value != Some(exact)).then(|| format!("{exact:?}")),
        FieldRule::Rules(rules) => rules_problem(response, value, rules),
    }
}

fn rules_problem(response: &Response, value: Option<&str>, rules: &FieldRules) -> Option<String> {
    let holds = |test: &dyn Fn(&str) -> bool| value.is_some_and(test);
    if rules.absent && value.is_some() {
        return Some("to be absent".into());
    }
    if rules.present && value.is_none() {
        return Some("to be present".into());
    }
    if let Some(part) = rules.contains.as_ref().filter(|part| !holds(&|v| v.contains(*part))) {
        return Some(format!("with {part:?} in it"));
    }
    if let Some(start) = rules.starts.as_ref().filter(|start| !holds(&|v| v.starts_with(*start))) {
        return Some(format!("that starts with {start:?}"));
    }
    if let Some(other) = rules.not.as_deref().filter(|other| value == Some(*other)) {
        return Some(format!("other than {other:?}"));
    }
    if let Some(other) = rules.same_as.as_ref() {
        let wanted = response.field(other);
        if wanted.is_none() || value != wanted.as_deref() {
            return Some(format!("as {other}, which is {wanted:?}"));
        }
    }
    if let Some(member) = rules.lists.as_ref().filter(|m| !holds(&|v| has_member(v, m))) {
        return Some(format!("to list {member:?}"));
    }
    let set = rules.set.as_ref().map(|set| members(&set.join(",")));
    let set = set.filter(|set| !holds(&|value| members(value) == *set))?;
    Some(format!("to be the set {set:?}"))
}

/// The members of a list, without case and order.
fn members(list: &str) -> std::collections::BTreeSet<String> {
    list.split(',').map(|item| item.trim().to_ascii_lowercase()).collect()
}

fn has_member(list: &str, member: &str) -> bool {
    members(list).contains(&member.to_ascii_lowercase())
}

fn body_problem(response: &Response, rule: &BodyRule) -> Option<String> {
    match rule {
        BodyRule::Exact(text) => differ(&response.body, text.as_bytes()),
        BodyRule::Rules(rules) => body_rules_problem(response, rules),
    }
}

fn body_rules_problem(response: &Response, rules: &BodyRules) -> Option<String> {
    let body = &response.body;
    if let Some(name) = &rules.file {
        // The name was checked when the case was read.
        let file = contents(name).unwrap_or_default();
        return match &rules.parts {
            Some(parts) => parts_problem(response, file, parts),
            None => differ(body, slice(file, rules)),
        };
    }
    if rules.empty && !body.is_empty() {
        return Some(format!("expected no body, got {} bytes", body.len()));
    }
    if rules.len.is_some_and(|len| len != body.len()) {
        return Some(format!("expected a body of {:?} bytes, got {}", rules.len, body.len()));
    }
    let text = String::from_utf8_lossy(body);
    let missing = rules.contains.iter().find(|part| !text.contains(part.as_str()));
    let unwanted = rules.lacks.iter().find(|part| text.contains(part.as_str()));
    let missing = missing.map(|part| format!("expected a body with {part:?} in it"));
    missing.or_else(|| unwanted.map(|part| format!("expected a body without {part:?}")))
}

fn slice<'f>(file: &'f [u8], rules: &BodyRules) -> &'f [u8] {
    let end = rules.len.map_or(file.len(), |len| rules.offset + len);
    file.get(rules.offset..end).unwrap_or_default()
}

fn parts_problem(response: &Response, file: &[u8], expected: &[(u64, u64)]) -> Option<String> {
    let content_type = response.field("Content-Type").unwrap_or_default();
    let parts = match multipart::parse(&content_type, &response.body) {
        Ok(parts) => parts,
        Err(reason) => return Some(format!("multipart: {reason}")),
    };
    let found: Vec<_> = parts.iter().map(|part| (part.first, part.last)).collect();
    if found != expected {
        return Some(format!("expected the parts {expected:?}, got {found:?}"));
    }
    let wrong = parts.iter().find(|part| {
        let bytes = file.get(part.first as usize..=part.last as usize);
        bytes != Some(&part.bytes) || part.complete != file.len() as u64
    })?;
    Some(format!("the part {}-{}/{} has wrong bytes", wrong.first, wrong.last, wrong.complete))
}

fn differ(found: &[u8], expected: &[u8]) -> Option<String> {
    if found == expected {
        return None;
    }
    let at = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let (found_len, expected_len) = (found.len(), expected.len());
    Some(format!("expected a body of {expected_len} bytes, got {found_len}; they part at {at}"))
}

/// Checks how the connection ended, and whether the responses announced it.
fn check_end(case: &Prepared<'_>, transcript: &Transcript, responses: &[Response]) -> Vec<String> {
    let mut problems = Vec::new();
    let announced = |response: &Response| response.lists("Connection", "close");
    let (last, earlier) = match responses.split_last() {
        Some((last, earlier)) => (Some(last), earlier),
        None => (None, responses),
    };
    if earlier.iter().any(announced) {
        problems.push("a response before the last says Connection: close".into());
    }
    let says_close = last.is_some_and(announced);
    match case.case.closes {
        Closes::Announced if !says_close => {
            problems.push("the last response does not say Connection: close".into());
        }
        Closes::No if says_close => {
            problems.push("the connection should stay, but Connection: close was said".into());
        }
        _ => {}
    }
    let should_be_over =
        transcript.probed || case.case.closes != Closes::No || case.case.half_close;
    match (transcript.end, should_be_over) {
        (End::Closed, true) | (End::Open, false) => {}
        (End::Reset, true) if case.case.reset => {}
        (End::Reset, _) => problems.push("the connection was reset".into()),
        (_, true) => problems.push("the server did not close the connection".into()),
        (_, false) => problems.push("the server closed the connection".into()),
    }
    problems
}
