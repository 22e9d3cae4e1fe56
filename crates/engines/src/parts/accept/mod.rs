//! How connections come: listeners, and who is to accept.

pub(crate) mod gate;
pub(crate) mod listeners;
