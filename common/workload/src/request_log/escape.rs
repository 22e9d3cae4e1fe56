//! The escapes that the log formats share.

/// What the character after a backslash stands for.
pub(in crate::request_log) fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => other,
    }
}
