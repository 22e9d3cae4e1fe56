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

/// Whether a field is called `known`, which is a constant in lower case without `_`. Compared by
/// eight bytes at a time: a head has several fields, each with several names in question.
#[inline]
pub fn is_name(name: &[u8], known: &[u8]) -> bool {
    /// The bit that tells a letter in lower case from one in upper case. In a token no other byte
    /// becomes a letter or a hyphen by it.
    const LOWER: u64 = 0x2020_2020_2020_2020;
    if name.len() != known.len() {
        return false;
    }
    let (names, rest) = name.as_chunks();
    let (knowns, known_rest) = known.as_chunks();
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    names.iter().zip(knowns).all(|(name, known)| word(name) | LOWER == word(known) | LOWER)
        && rest.iter().zip(known_rest).all(|(byte, known)| byte | 0x20 == *known | 0x20)
}

/// The place of a byte, which is mostly among the first: those are searched here, and only what is
/// long is worth a call.
#[inline]
pub(crate) fn find(wanted: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    /// Of so many words.
    const WORDS: usize = 6;
    let (words, _) = bytes.as_chunks::<8>();
    let near = words.len().min(WORDS);
    for (index, word) in words[..near].iter().enumerate() {
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(wanted));
        // The lowest of these bits marks the first byte that is 0.
        let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
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
    }
}
