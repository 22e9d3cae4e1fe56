//! How connections come in: listeners, the rule of admission, and courtesy among those that accept.

pub(crate) mod admission;
pub(crate) mod gate;
pub(crate) mod listeners;
