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
