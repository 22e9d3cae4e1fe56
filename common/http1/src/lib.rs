//! HTTP/1.1 messages: bytes to request heads, response heads to bytes (RFC 9110, RFC 9112).
//!
//! This crate is pure: it owns no socket, no clock and no buffer, and it allocates nothing while it
//! parses. It is strict: bytes that two implementations could read differently are an error,
//! because a message with one meaning for a proxy and another for the server is how requests are
//! smuggled. The crate does not decide how a request is answered; it only gives the status for one
//! that cannot be read.
//!
//! - [`parse_head`] reads one request head from the front of a buffer.
//! - [`parse_response_head`] reads one response head, as a client does.
//! - [`BodySkipper`] finds the end of a body, and the data and the trailer in it.
//! - [`HeadWriter`] appends a response head to a buffer.
//! - [`format_date`] and [`parse_date`] convert the dates of HTTP; [`DateTime`] is the calendar
//!   that they share with all code that prints a time.

#![forbid(unsafe_code)]

mod authority;
mod body;
mod bytes;
mod date;
mod encode;
mod error;
mod fields;
mod head;
mod limits;
mod lines;
mod request_line;
mod response;

pub use body::{BodySkipper, EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX, TRAILER_FIELDS_MAX};
pub use bytes::{is_name, list, name_has};
pub use date::{DateTime, MONTHS, format_date, parse_date};
pub use encode::{HeadWriter, put_chunk_size, reason_phrase};
pub use error::{BodyError, HeadError};
pub use fields::{FieldName, Values};
pub use head::{BodyFraming, Expectation, Head, Parsed, begins_head_request, parse_head};
pub use limits::{FIELDS_MAX, HeadLimits};
pub use lines::{Lines, is_for_one_hop, trailer_lines};
pub use request_line::{Method, Target, Version};
pub use response::{ResponseBody, ResponseError, ResponseHead, parse_response_head};
