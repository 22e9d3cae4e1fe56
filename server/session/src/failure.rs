//! The failure of a request.

use site::fields::FieldList;

/// The methods of a static site (RFC 9110 §9).
pub(crate) const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The fields of requests by which an application's page is sent or not (RFC 9110 §12.5.5).
pub(crate) const BY_NAVIGATION: &[u8] = b"Accept, Sec-Fetch-Mode";

/// The failure of a request, as it is reported to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    /// The reason in words; empty where the status says enough.
    pub(crate) reason: &'static str,
    /// The length of the file, if none of its bytes are in the requested ranges (416).
    pub(crate) file_len: Option<u64>,
    /// Whether other requests for the same path get the page of an application.
    pub(crate) varies: bool,
}

impl Failure {
    pub(crate) fn from_status(status: u16) -> Self {
        let reason = if status == 503 { "Try again in a moment." } else { "" };
        Self { status, reason, file_len: None, varies: false }
    }

    /// The fields that the failure requires: Allow, Vary, Retry-After, Content-Range.
    pub(crate) fn fields(self) -> FieldList<'static> {
        let mut fields = FieldList::default();
        // Caches may keep some of these statuses for a while of their own choice (RFC 9111 §4.2.2),
        // and what is missing now may be there in a second.
        fields.add("Cache-Control", &b"no-cache"[..]);
        if self.varies {
            fields.add("Vary", BY_NAVIGATION);
        }
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
