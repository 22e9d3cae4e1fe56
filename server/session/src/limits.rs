//! Limits: every bound on what one client can make the server hold or wait for, and the reason for
//! it.

use http1::HeadLimits;

/// The bounds of one connection. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sizes of request heads.
    pub head: HeadLimits,
    /// After this many requests a connection is closed, so that load can move between workers.
    /// 0 means no limit.
    pub requests_per_connection_max: u32,
    /// An unwanted request body up to this size is read and dropped to keep the connection; a
    /// larger one is not worth its bytes.
    pub unread_body_bytes_max: u64,
    /// More ranges than this in one request are ignored: each costs a part head of about 100 bytes.
    pub ranges_max: usize,
    /// Content of an application's reply that is kept for its client. What is received at once
    /// comes on top.
    pub reply_bytes_max: usize,
    /// How long a client may take from its connection, or from the first byte of a later request,
    /// to the end of the head.
    pub head_ms: u64,
    /// A head that arrives faster than this gets more time, up to three times `head_ms`.
    pub head_bytes_per_s_min: u64,
    /// How long a connection may rest between two requests.
    pub idle_ms: u64,
    /// How long a client may take to accept the next 16 KiB.
    pub write_ms: u64,
    /// How long to wait for the client's close after the server's, so that a reset does not destroy
    /// data that the client has not read (RFC 9112 §9.6).
    pub linger_ms: u64,
}

/// Progress that renews a write deadline. Less than this in `write_ms` (30 s) is under 550 bytes a
/// second: slower than any modem, and so an attack.
pub const WRITE_PROGRESS_BYTES_MIN: u64 = 16 * 1024;

/// The number of bytes dropped while waiting for the client's close; a client that sends more is
/// cut off.
pub const LINGER_BYTES_MAX: u64 = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            requests_per_connection_max: 0,
            unread_body_bytes_max: 64 * 1024,
            ranges_max: 100,
            reply_bytes_max: 64 * 1024,
            head_ms: 10_000,
            head_bytes_per_s_min: 500,
            idle_ms: 60_000,
            write_ms: 30_000,
            linger_ms: 2_000,
        }
    }
}
