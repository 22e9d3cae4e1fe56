//! The limits of the size of a request head. The limits of bodies are in `body.rs`.

/// The most field lines that a head may have, whatever [`HeadLimits::fields_max`] is: they are
/// collected in an array on the stack (8 KiB of it, in the rare heads that need it).
pub const FIELDS_MAX: usize = 256;

/// Limits of one request head, chosen by the operator. Each should be at least 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The most bytes from the method to the blank line, both included; a longer head is a 431.
    /// Sixteen KiB are enough for any browser's head with many cookies.
    pub head_bytes_max: usize,
    /// The most bytes of the request line without its line end; a longer line is a 414. RFC 9112,
    /// section 3 requires at least 8,000.
    pub request_line_bytes_max: usize,
    /// The most field lines, at most [`FIELDS_MAX`]; more lines are a 431.
    pub fields_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head_bytes_max: 16 * 1024, request_line_bytes_max: 8 * 1024, fields_max: 100 }
    }
}

const _: () = assert!(FIELDS_MAX >= 100, "the default fits the array");
