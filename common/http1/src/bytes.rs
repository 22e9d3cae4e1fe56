//! Classes of bytes, as the grammars of RFC 9110 and RFC 3986 define them.

/// The class of bytes of a token (RFC 9110, section 5.6.2).
const TOKEN: u8 = 1;
/// The class of bytes of a registered name (RFC 3986, section 3.2.2), except comma and percent
/// sign: with a comma a joined list of hosts would be taken for one, and `%` is checked with its
/// digits.
const NAME: u8 = 2;

static CLASSES: [u8; 256] = classes();

/// Whether `byte` may occur in a token, such as a method or a field name.
pub(crate) fn is_token(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

/// Whether `byte` may occur in a host name or an IPv4 address.
pub(crate) fn is_host_name(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & NAME != 0
}

/// Whether `byte` may occur in a field value: visible, a space, a tab, or obs-text (RFC 9110,
/// section 5.5).
pub(crate) fn is_field_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `bytes` without spaces and tabs at its ends (OWS of RFC 9110, section 5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether a word of a head, such as the name of a field, is `known`, which is a constant of lower
/// case letters and hyphens. Compared by eight bytes at a time: a head has several fields, each
/// with several names in question.
#[inline]
pub fn is_name(name: &[u8], known: &[u8]) -> bool {
    /// The bit that tells a letter in lower case from one in upper case. No other byte that may
    /// occur in a field becomes a letter or a hyphen by it.
    const LOWER: u64 = 0x2020_2020_2020_2020;
    if name.len() != known.len() {
        return false;
    }
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) | LOWER;
    let half = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) | LOWER as u32;
    let is_same = |(byte, known): (&u8, &u8)| byte | 0x20 == *known;
    // The last bytes may be among those that were compared before.
    match (known.last_chunk(), known.last_chunk()) {
        (Some(known_end), _) => {
            let (names, knowns) = (name.as_chunks().0, known.as_chunks().0);
            names.iter().zip(knowns).all(|(name, known)| word(name) == word(known))
                && name.last_chunk().is_some_and(|end| word(end) == word(known_end))
        }
        (None, Some(known_end)) => {
            name.first_chunk().map(half) == known.first_chunk().map(half)
                && name.last_chunk().is_some_and(|end| half(end) == half(known_end))
        }
        (None, None) => name.iter().zip(known).all(is_same),
    }
}

/// Whether a byte is in the name of a field. Eight are looked at at once; the last may be among
/// those that were looked at before.
#[inline]
pub fn name_has(wanted: u8, name: &[u8]) -> bool {
    let has = |word: &[u8; 8]| equal_bytes(word, wanted) != 0;
    match name.last_chunk() {
        Some(end) => name.as_chunks().0.iter().any(has) || has(end),
        None => name.contains(&wanted),
    }
}

/// A number that is 0 unless the word has this byte: its lowest bit marks the first one.
#[inline(always)]
fn equal_bytes(word: &[u8; 8], wanted: u8) -> u64 {
    let word = u64::from_le_bytes(*word) ^ all(wanted);
    word.wrapping_sub(ONES) & !word & HIGH
}

/// The place of a byte, which is mostly among the first: those are searched here, and only what is
/// long is worth a call.
#[inline]
pub(crate) fn find(wanted: u8, bytes: &[u8]) -> Option<usize> {
    /// Of so many words.
    const WORDS: usize = 6;
    let (words, _) = bytes.as_chunks::<8>();
    let near = words.len().min(WORDS);
    for (index, word) in words[..near].iter().enumerate() {
        let found = equal_bytes(word, wanted);
        if found != 0 {
            return Some(index * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    let rest = &bytes[near * 8..];
    let found = if rest.len() < 8 {
        rest.iter().position(|byte| *byte == wanted)
    } else {
        memchr::memchr(wanted, rest)
    };
    found.map(|at| near * 8 + at)
}

/// The place of the first byte from `at` on that belongs to no token. Names are so short that it
/// would not pay to judge several bytes by one number; but whether there are more is asked once for
/// four.
#[inline(always)]
pub(crate) fn find_no_token(bytes: &[u8], at: usize) -> Option<usize> {
    let mut rest = bytes.get(at..)?;
    while let Some((four, after)) = rest.split_first_chunk::<4>() {
        if let Some(index) = four.iter().position(|byte| !is_token(*byte)) {
            return Some(bytes.len() - rest.len() + index);
        }
        rest = after;
    }
    Some(bytes.len() - rest.len() + rest.iter().position(|byte| !is_token(*byte))?)
}

/// The place of the first byte from `at` on that belongs to no field value. Eight bytes are looked
/// at at once. Most are plain ASCII, and what is not is looked at again.
#[inline(always)]
pub(crate) fn find_no_field_value(bytes: &[u8], at: usize) -> Option<usize> {
    let mut rest = bytes.get(at..)?;
    loop {
        while let Some((word, after)) = rest.split_first_chunk() {
            let word = u64::from_le_bytes(*word);
            // The highest bit of the first byte that is not plain is set, and of none before it.
            let not_plain = (word.wrapping_sub(all(b' ')) | word.wrapping_add(ONES)) & HIGH;
            if not_plain != 0 {
                rest = &rest[(not_plain.trailing_zeros() / 8) as usize..];
                break;
            }
            rest = after;
        }
        let (byte, after) = rest.split_first()?;
        if !is_field_value(*byte) {
            return Some(bytes.len() - rest.len());
        }
        rest = after;
    }
}

const ONES: u64 = all(1);
const HIGH: u64 = all(0x80);

/// A word of which each byte is `byte`.
const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The non-empty elements of a comma-separated list (RFC 9110, section 5.6.1.2).
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let alphanumeric = (byte as u8).is_ascii_alphanumeric();
        if alphanumeric || contains(b"!#$%&'*+-.^_`|~", byte as u8) {
            table[byte] |= TOKEN;
        }
        if alphanumeric || contains(b"-._~!$&'()*+;=", byte as u8) {
            table[byte] |= NAME;
        }
        byte += 1;
    }
    table
}

const fn contains(set: &[u8], byte: u8) -> bool {
    let mut index = 0;
    while index < set.len() {
        if set[index] == byte {
            return true;
        }
        index += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        let long = b"proxy-authorization";
        for known in [&b"te"[..], b"trailer", b"keep-alive", long] {
            let upper = known.to_ascii_uppercase();
            assert!(is_name(known, known) && is_name(&upper, known));
            for at in 0..known.len() {
                for byte in (0..=255).filter(|byte| is_token(*byte)) {
                    let mut name = upper.clone();
                    name[at] = byte;
                    assert_eq!(is_name(&name, known), name.eq_ignore_ascii_case(known));
                }
            }
            assert!(!is_name(&known[1..], known));
        }
    }

    #[test]
    fn the_first_byte_of_another_class_is_found_wherever_it_is() {
        for other in 0..=255 {
            for len in 0..20 {
                for at in 0..len {
                    let mut bytes = vec![b'a'; len];
                    bytes[at] = other;
                    assert_eq!(find_no_token(&bytes, 0), (!is_token(other)).then_some(at));
                    let is_found = !is_field_value(other);
                    assert_eq!(find_no_field_value(&bytes, 0), is_found.then_some(at));
                    bytes[len - 1] = 0;
                    let end = len - 1;
                    let first = |belongs| Some(if belongs && at < end { end } else { at.min(end) });
                    assert_eq!(find_no_token(&bytes, 0), first(is_token(other)));
                    assert_eq!(find_no_field_value(&bytes, 0), first(is_field_value(other)));
                }
            }
        }
    }

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for len in 0..200 {
            // Bytes beside the wanted one by a bit, on which the search by words could stumble.
            let mut bytes: Vec<u8> = (0..len).map(|at| [b';', 0xba, 0][at % 3]).collect();
            assert_eq!(find(b':', &bytes), None);
            for at in (0..len).rev() {
                bytes[at] = b':';
                assert_eq!(find(b':', &bytes), Some(at));
            }
        }
        for len in 0..40 {
            let name: Vec<u8> = (0..len).map(|at| [b'^', b'a', 0xdf, 0][at % 4]).collect();
            assert!(!name_has(b'_', &name));
            for at in 0..len {
                let mut name = name.clone();
                name[at] = b'_';
                assert!(name_has(b'_', &name), "{len} {at}");
            }
        }
    }
}
