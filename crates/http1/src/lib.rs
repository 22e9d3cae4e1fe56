//! HTTP/1.1 messages: bytes to request heads, response heads to bytes.

#![forbid(unsafe_code)]
