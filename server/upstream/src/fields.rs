//! Which fields of a reply are for the next recipient, and which only for this one (RFC 9110
//! §7.6.1). Which of a request are is decided where it is written: in `http.rs`, and for scripts in
//! `script/environment.rs`.

use http1::{Lines, ResponseHead, is_for_one_hop, is_name, list};

/// The fields of a reply that are passed on.
#[derive(Clone, Debug)]
pub struct ReplyFields<'b> {
    head: &'b ResponseHead,
    bytes: &'b [u8],
    lines: Lines<'b>,
    /// Whether there may be a `Status` among them that is a script's (RFC 3875 §6.3).
    hides_status: bool,
}

impl<'b> ReplyFields<'b> {
    /// The fields of a head that was read from `bytes`.
    pub(crate) fn new(head: &'b ResponseHead, bytes: &'b [u8]) -> Self {
        Self { head, bytes, lines: head.lines(bytes), hides_status: false }
    }

    /// These fields without `Status`.
    pub(crate) fn without_status(self) -> Self {
        Self { hides_status: true, ..self }
    }

    /// Writes the fields, each in a line. Returns whether `Date` is among them.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) -> bool {
        match self.head.passed_on(self.bytes) {
            Some(lines) if !self.head.names_fields && !self.hides_status => {
                lines.for_each(|lines| out.extend_from_slice(lines));
                self.head.has_date
            }
            _ => self.write_each(out),
        }
    }

    #[inline(never)]
    fn write_each(self, out: &mut Vec<u8>) -> bool {
        let mut has_date = false;
        put_fields(out, self.lines.clone(), |name| {
            let passes = self.passes(name);
            has_date |= passes && is_name(name, b"date");
            passes
        });
        has_date
    }

    /// The protocols that are named by a reply which switches to them.
    pub fn protocols(&self) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        upgrades(self.lines.clone())
    }

    fn passes(&self, name: &[u8]) -> bool {
        let named = Named::new(&self.head.lines(self.bytes), self.head.names_fields);
        let is_hidden = self.hides_status && is_name(name, b"status");
        !is_hidden && !is_for_one_hop(name) && !named.contains(name)
    }
}

/// Whether a field came in a line as others write it: name, colon, a space, value, CR and LF.
#[inline]
fn is_usual((name, value, line): (&[u8], &[u8], &[u8])) -> bool {
    line.len() == name.len() + value.len() + 4
        && line.get(name.len() + 1) == Some(&b' ')
        && line.ends_with(b"\r\n")
}

/// Writes the fields whose names pass, each in a line: as many lines at once as follow each other
/// and are written as others are.
#[inline]
pub(crate) fn put_fields(
    out: &mut Vec<u8>,
    mut lines: Lines<'_>,
    mut passes: impl FnMut(&[u8]) -> bool,
) {
    let bytes = lines.as_bytes();
    let mut run = 0..0;
    while let Some((name, value, line)) = lines.next_line() {
        let passes = passes(name);
        if passes && is_usual((name, value, line)) {
            run.end += line.len();
            continue;
        }
        out.extend_from_slice(&bytes[run.clone()]);
        run = run.end + line.len()..run.end + line.len();
        if passes {
            for part in [name, b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }
    out.extend_from_slice(&bytes[run]);
}

impl<'b> Iterator for ReplyFields<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (name, value) = self.lines.next()?;
            if self.passes(name) {
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

#[cfg(test)]
mod tests {
    use http1::parse_response_head;

    use super::*;

    /// Checks what is written of the fields of a reply.
    #[track_caller]
    fn check(fields: &str, expected: &str) {
        let reply = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
        let head = parse_response_head(&reply, false).unwrap().unwrap();
        let fields = ReplyFields::new(&head, &reply);
        let mut out = Vec::new();
        assert_eq!(fields.clone().write(&mut out), expected.contains("date"));
        assert_eq!(String::from_utf8_lossy(&out), expected);
        let written = fields.map(|(name, value)| [name, b": ", value, b"\r\n"].concat());
        assert_eq!(written.collect::<Vec<_>>().concat(), out);
    }

    #[test]
    fn fields_are_written_alike_however_they_came() {
        let unusual = "Wide:   2 \r\nBare: 3\nClose:4\r\nX-Hop: 5\r\nKeep-Alive: 6\r\n";
        let named = "Connection: x-hop, Host\r\n";
        let usual = "Host: 7\r\ndate: 8\r\nEmpty: \r\n";
        check(usual, usual);
        check(&format!("TE: 1\r\n{usual}Trailer: 2\r\n{usual}"), &usual.repeat(2));
        check(&format!("X-Hop: 1\r\n{named}{usual}"), usual);
        let written = "Wide: 2\r\nBare: 3\r\nClose: 4\r\n";
        check(&format!("{unusual}{named}{usual}"), &format!("{written}{usual}"));
        let hop = "X-Hop: 5\r\n";
        check(unusual, &format!("{written}{hop}"));
    }
}
