//! The `Accept` field: how much a client wants a media type (RFC 9110 §12.5.1). Parameters other
//! than the weight are ignored: no type served here has a parameter that matters.

/// How much a client wants `media_type` (`type/subtype` in lower case), in thousandths: the weight
/// of the most specific range that matches it, 0 if none does. Without the field every type is
/// wanted.
#[must_use]
pub fn weight<'v>(accept: impl Iterator<Item = &'v [u8]>, media_type: &str) -> u16 {
    let mut best: Option<(u8, u16)> = None;
    let mut is_absent = true;
    for line in accept {
        is_absent = false;
        for member in line.split(|&byte| byte == b',') {
            let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let range = parts.next().unwrap_or_default();
            let Some(specificity) = specificity(range, media_type) else { continue };
            let weight = parts.find_map(quality).unwrap_or(1000);
            if best.is_none_or(|(known, _)| specificity > known) {
                best = Some((specificity, weight));
            }
        }
    }
    match best {
        Some((_, weight)) => weight,
        None if is_absent => 1000,
        None => 0,
    }
}

/// Whether the client names `media_type` itself and wants it. This distinguishes a browser that
/// opens a page from a client that accepts anything.
#[must_use]
pub fn names<'v>(accept: impl Iterator<Item = &'v [u8]>, media_type: &str) -> bool {
    accept.flat_map(|line| line.split(|&byte| byte == b',')).any(|member| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let is_named = parts.next().and_then(|range| specificity(range, media_type)) == Some(2);
        is_named && parts.find_map(quality).unwrap_or(1000) > 0
    })
}

/// The specificity of a range that matches: 2 for the type itself, 1 for `type/*`, 0 for `*/*`.
fn specificity(range: &[u8], media_type: &str) -> Option<u8> {
    let (kind, _) = media_type.split_once('/')?;
    if range.eq_ignore_ascii_case(media_type.as_bytes()) {
        return Some(2);
    }
    match range.strip_suffix(b"/*") {
        Some(b"*") => Some(0),
        Some(range) if range.eq_ignore_ascii_case(kind.as_bytes()) => Some(1),
        _ => None,
    }
}

/// The weight of a `q` parameter in thousandths; a malformed parameter does not count.
fn quality(parameter: &[u8]) -> Option<u16> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, fraction) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let whole = whole.wrapping_sub(b'0');
    if whole > 1 {
        return None;
    }
    let mut thousandths = u16::from(whole) * 1000;
    let mut unit = 100;
    for digit in fraction {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        thousandths += u16::from(digit) * unit;
        unit /= 10;
    }
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = &'a [u8]> {
        lines.iter().map(|line| line.as_bytes())
    }

    #[test]
    fn the_most_specific_range_gives_the_weight() {
        for (accept, html, json) in [
            (&[][..], 1000, 1000),
            (&["*/*"], 1000, 1000),
            (&["application/json"], 0, 1000),
            (&["text/html;q=0.5, application/json"], 500, 1000),
            (&["text/*;q=0.3, text/html;q=0.7, */*;q=0.1"], 700, 100),
            (&["TEXT/HTML", "application/*;Q=0.25"], 1000, 250),
            (&["text/html;level=1;q=0.4"], 400, 0),
            (&["*/*;q=0, text/html"], 1000, 0),
            (&["text/html;q=1.5"], 1000, 0),
            (&["text/html;q=0.1234"], 1000, 0),
            (&["text/html;q=z"], 1000, 0),
            (&["text/html;q=2"], 1000, 0),
            (&["text/htmlx, xtext/html, text"], 0, 0),
        ] {
            assert_eq!(weight(lines(accept), "text/html"), html, "{accept:?}");
            assert_eq!(weight(lines(accept), "application/json"), json, "{accept:?}");
        }
    }

    #[test]
    fn only_the_type_itself_names_it() {
        for (accept, expected) in [
            (&["text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"][..], true),
            (&["*/*"], false),
            (&["text/*"], false),
            (&["text/html;q=0"], false),
            (&["image/avif", "text/html;q=0.1"], true),
            (&[], false),
        ] {
            assert_eq!(names(lines(accept), "text/html"), expected, "{accept:?}");
        }
    }
}
