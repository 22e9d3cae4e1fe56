//! What requests to scripts have in common, whatever starts them: the variables that they are told,
//! the form of their replies, and what they write to standard error.

mod diagnostics;
mod environment;
mod reply;

pub use diagnostics::{Diagnostic, Diagnostics};
pub use environment::ScriptRequest;

pub(crate) use environment::{Form, environment};
pub(crate) use reply::ScriptReply;
