//! The access log from the view of a connection: one record for each response. The server formats
//! and writes the records.

use std::net::SocketAddr;

/// The receiver of a worker's records.
pub trait AccessLog: Send {
    /// Goes by what is configured now, and hands on what is buffered. Called when the worker begins
    /// and whenever it goes by another revision. Returns whether records are wanted.
    fn renew(&mut self) -> bool {
        true
    }

    /// Takes one record. Must not block. Returns whether it is one of those that are wanted.
    fn record(&mut self, record: &Record<'_>) -> bool;

    /// Hands on what is buffered. Called about four times a second and when the worker ends.
    fn flush(&mut self);
}

/// One response. Bytes are as the client sent them: the log escapes them.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The client.
    pub peer: SocketAddr,
    /// When the response ended, in microseconds since 1970.
    pub unix_us: u64,
    /// The request's method; empty if there was no well-formed request line.
    pub method: &'a [u8],
    /// The request target.
    pub target: &'a [u8],
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub version: &'static str,
    /// The requested host.
    pub host: Option<&'a [u8]>,
    /// The response's status.
    pub status: u16,
    /// Body bytes that the kernel accepted.
    pub body_bytes: u64,
    /// The `Referer` field.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
    /// From the end of the request head to the end of the response, in microseconds.
    pub duration_us: u64,
}
