//! The failure of a request.

use site::fields::FieldList;

/// The methods of a static site (RFC 9110 §9).
pub(crate) const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The failure of a request, as it is reported to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    /// The reason in words; empty where the status says enough.
    pub(crate) reason: &'static str,
    /// The length of the file, if none of its bytes are in the requested ranges (416).
    pub(crate) file_len: Option<u64>,
}

impl Failure {
    pub(crate) fn from_status(status: u16) -> Self {
        let reason = if status == 503 { "Try again in a moment." } else { "" };
        Self { status, reason, file_len: None }
    }

    /// The fields that the status requires.
    pub(crate) fn fields(self) -> FieldList<'static> {
        let mut fields = FieldList::default();
        match self.status {
            405 | 501 => fields.add("Allow", ALLOW),
            406 => fields.add("Vary", &b"Accept-Encoding"[..]),
            503 => fields.add("Retry-After", &b"1"[..]),
            _ => {}
        }
        if let Some(len) = self.file_len {
            fields.add("Content-Range", format!("bytes */{len}").into_bytes());
        }
        fields
    }
}
