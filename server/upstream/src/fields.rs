//! Which fields of a message are for the next recipient, and which only for this one (RFC 9110
//! §7.6.1).

use http1::{Lines, list};

/// The fields of a reply that are passed on.
#[derive(Clone, Debug)]
pub struct ReplyFields<'b> {
    lines: Lines<'b>,
    named: Named<'b>,
}

impl<'b> ReplyFields<'b> {
    pub(crate) fn new(lines: Lines<'b>) -> Self {
        Self { named: Named::new(&lines), lines }
    }
}

impl<'b> Iterator for ReplyFields<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let named = &self.named;
        self.lines.find(|(name, _)| !is_for_one_hop(name) && !named.contains(name))
    }
}

/// The fields that `Connection` names, which are not passed on.
#[derive(Clone, Debug)]
pub(crate) struct Named<'b> {
    /// The lines they are looked for in; none if no field is named.
    lines: Option<Lines<'b>>,
}

impl<'b> Named<'b> {
    pub(crate) fn new(lines: &Lines<'b>) -> Self {
        let is_named = |option: &[u8]| {
            !option.eq_ignore_ascii_case(b"close") && !option.eq_ignore_ascii_case(b"keep-alive")
        };
        let names_any = options(lines.clone()).any(is_named);
        Self { lines: names_any.then(|| lines.clone()) }
    }

    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        let Some(lines) = &self.lines else { return false };
        !is_protected(name) && options(lines.clone()).any(|named| named.eq_ignore_ascii_case(name))
    }
}

/// The options of all `Connection` fields.
fn options<'b>(lines: Lines<'b>) -> impl Iterator<Item = &'b [u8]> {
    let of_connection = |(name, value): (&[u8], &'b [u8])| {
        let is_it = name.len() == 10 && name.eq_ignore_ascii_case(b"connection");
        is_it.then_some(value)
    };
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
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    match name.len() {
        9 => is(b"forwarded") || is(b"x-real-ip"),
        12.. => name[..12].eq_ignore_ascii_case(b"x-forwarded-"),
        _ => false,
    }
}

/// Whether a field is for one hop by its definition; framing included, which is made anew.
#[inline]
pub(crate) fn is_for_one_hop(name: &[u8]) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
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
