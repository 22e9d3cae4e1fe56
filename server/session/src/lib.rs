//! One client connection from its first byte to its close, without input or output.
//!
//! A [`Connection`] is a state machine. It returns the next operation as an [`Op`]; its driver
//! performs it and reports the result. All engines drive the same connections, so a difference
//! between two engines is a difference in concurrency and in nothing else. The grammar of the calls
//! is at [`Connection`].
//!
//! Every call may come with another [`Worker`], and a `Connection` may move between threads.
//!
//! **Rules.** The bytes of an `Op` are the connection's own or a cache entry's and do not move
//! until `sent`. The clock is an argument ([`Worker::set_time`]). A connection at rest holds no
//! buffers. A request that hits the cache allocates nothing.

#![forbid(unsafe_code)]

mod access_log;
mod after;
mod application;
mod connection;
mod counters;
mod error_page;
mod exchange;
mod failure;
mod gathering;
mod job;
mod limits;
mod listings;
mod local_redirect;
mod lookup;
mod named_file;
mod named_file_answer;
mod op;
mod packed;
mod partial;
mod reply;
mod request_body;
mod respond;
mod response;
mod revision;
mod script;
mod shared_level;
mod spool;
mod stream;
mod stream_ref;
mod worker;

pub use access_log::{AccessLog, Record};
pub use after::After;
pub use connection::{Connection, Phase};
pub use counters::{Counter, Counters};
pub use job::{Done, HashJob, Job, JobId, Known, ListCursor, ListFormat, ListName, SharedHashing};
pub use limits::{LINGER_BYTES_MAX, Limits, WRITE_PROGRESS_BYTES_MIN};
pub use listings::{ListingPermit, Listings};
pub use lookup::host_of;
pub use op::Op;
pub use reply::Reply;
pub use response::Prepared;
pub use revision::{Published, Revision, RevisionSource, Revisions};
pub use shared_level::{SharedLevel, Stamp};
pub use stream_ref::StreamRef;
pub use upstream::Tick;
pub use worker::{Account, HOUSEKEEPING_MS, Spares, Worker, WorkerParts};
