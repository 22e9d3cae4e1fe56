//! Which fields of a message are for the next recipient, and which only for this one (RFC 9110
//! §7.6.1).

use http1::{Lines, is_name, list};

/// The fields of a reply that are passed on.
#[derive(Clone, Debug)]
pub struct ReplyFields<'b> {
    lines: Lines<'b>,
    named: Named<'b>,
    /// Whether they are a script's, which has its status among them.
    is_of_script: bool,
}

impl<'b> ReplyFields<'b> {
    /// `names_fields` says whether `Connection` names any.
    pub(crate) fn new(lines: Lines<'b>, names_fields: bool) -> Self {
        let named = Named::new(&lines, names_fields);
        Self { named, lines, is_of_script: false }
    }

    /// The fields of a script (RFC 3875 §6.3).
    pub(crate) fn of_script(lines: Lines<'b>, names_fields: bool) -> Self {
        Self { is_of_script: true, ..Self::new(lines, names_fields) }
    }

    /// Writes the fields, each in a line. Returns whether `Date` is among them. Lines that follow
    /// each other and are written as they came are copied together.
    #[inline]
    pub fn write(mut self, out: &mut Vec<u8>) -> bool {
        let all = self.lines.rest();
        let place = |lines: &Lines<'_>| all.len() - lines.rest().len();
        let (mut from, mut to) = (0, 0);
        let mut has_date = false;
        loop {
            let at = place(&self.lines);
            let Some((name, value, line)) = self.lines.next_line() else { break };
            if !self.is_passed_on(name) {
                continue;
            }
            has_date |= is_name(name, b"date");
            if to != at || !is_usual(name, value, line) {
                out.extend_from_slice(&all[from..to]);
                (from, to) = (at, at);
            }
            if is_usual(name, value, line) {
                to = place(&self.lines);
            } else {
                put_unusual(out, name, value);
            }
        }
        out.extend_from_slice(&all[from..to]);
        has_date
    }

    /// The protocols that are named by a reply which switches to them.
    pub fn protocols(&self) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        upgrades(self.lines.clone())
    }

    #[inline]
    fn is_passed_on(&self, name: &[u8]) -> bool {
        let is_status = self.is_of_script && name.eq_ignore_ascii_case(b"status");
        !is_status && !is_for_one_hop(name) && !self.named.contains(name)
    }
}

/// Whether a line is written as others are: name, colon, a space, value, and the usual end.
#[inline]
fn is_usual(name: &[u8], value: &[u8], line: &[u8]) -> bool {
    line.len() == name.len() + value.len() + 4
        && line.get(name.len() + 1) == Some(&b' ')
        && line.ends_with(b"\r\n")
}

/// Writes a field in a line: name, value, and the line that they came in, which is copied at once
/// if it is usual.
#[inline]
pub(crate) fn put_field(out: &mut Vec<u8>, (name, value, line): (&[u8], &[u8], &[u8])) {
    match is_usual(name, value, line) {
        true => out.extend_from_slice(line),
        false => put_unusual(out, name, value),
    }
}

#[inline(never)]
fn put_unusual(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

impl<'b> Iterator for ReplyFields<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (name, value) = self.lines.next()?;
            if self.is_passed_on(name) {
                return Some((name, value));
            }
        }
    }
}

/// The fields that `Connection` names, which are not passed on.
#[derive(Clone, Debug)]
pub(crate) struct Named<'b> {
    /// The lines they are looked for in; none if no field is named.
    lines: Option<Lines<'b>>,
}

impl<'b> Named<'b> {
    /// `names_fields` says whether `Connection` names any.
    pub(crate) fn new(lines: &Lines<'b>, names_fields: bool) -> Self {
        Self { lines: names_fields.then(|| lines.clone()) }
    }

    #[inline]
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.lines.as_ref().is_some_and(|lines| is_named(lines, name))
    }
}

#[cold]
#[inline(never)]
fn is_named(lines: &Lines<'_>, name: &[u8]) -> bool {
    !is_protected(name) && options(lines.clone()).any(|named| named.eq_ignore_ascii_case(name))
}

/// The values of all `Upgrade` fields.
pub(crate) fn upgrades<'b>(lines: Lines<'b>) -> impl Iterator<Item = &'b [u8]> {
    lines.filter_map(|(name, value)| is_name(name, b"upgrade").then_some(value))
}

/// The options of all `Connection` fields.
pub(crate) fn options<'b>(lines: Lines<'b>) -> impl Iterator<Item = &'b [u8]> {
    let of_connection =
        |(name, value): (&[u8], &'b [u8])| is_name(name, b"connection").then_some(value);
    lines.filter_map(of_connection).flat_map(list)
}

/// Whether a field must not be taken out by a client that names it in `Connection`: servers behind
/// this one decide by it who may do what.
fn is_protected(name: &[u8]) -> bool {
    const PROTECTED: [&[u8]; 6] =
        [b"host", b"cookie", b"authorization", b"content-length", b"content-type", b"forwarded"];
    PROTECTED.iter().any(|other| name.eq_ignore_ascii_case(other)) || is_forwarded(name)
}

/// Whether a field tells of the hops before this one.
pub(crate) fn is_forwarded(name: &[u8]) -> bool {
    let is = |other: &[u8]| is_name(name, other);
    match name.len() {
        9 => is(b"forwarded") || is(b"x-real-ip"),
        12.. => is_name(&name[..12], b"x-forwarded-"),
        _ => false,
    }
}

/// Whether a field is for one hop by its definition; framing included, which is made anew.
#[inline]
pub(crate) fn is_for_one_hop(name: &[u8]) -> bool {
    let is = |other: &[u8]| is_name(name, other);
    match name.len() {
        2 => is(b"te"),
        7 => is(b"trailer") || is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive"),
        14 => is(b"content-length"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        18 => is(b"proxy-authenticate"),
        19 => is(b"proxy-authorization"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http1::parse_response_head;

    use super::*;

    #[test]
    fn fields_are_written_alike_however_they_came() {
        let reply =
            b"HTTP/1.1 200 OK\r\nUsual: 1\r\nWide:   2 \r\nBare: 3\nClose:4\r\nX-Hop: 5\r\n\
            Keep-Alive: 6\r\nConnection: x-hop, Host\r\nHost: 7\r\ndate: 8\r\nEmpty:\r\n\r\n";
        let head = parse_response_head(reply, false).unwrap().unwrap();
        let mut out = Vec::new();
        assert!(ReplyFields::new(head.lines(reply), head.names_fields).write(&mut out));
        let expected = "Usual: 1\r\nWide: 2\r\nBare: 3\r\nClose: 4\r\nHost: 7\r\ndate: 8\r\n\
            Empty: \r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        let named = ReplyFields::new(head.lines(reply), head.names_fields);
        let written = named.map(|(name, value)| [name, b": ", value, b"\r\n"].concat());
        assert_eq!(written.collect::<Vec<_>>().concat(), out);
    }
}
