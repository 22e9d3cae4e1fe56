//! How connections come in: listeners, the rule of admission, and courtesy among acceptors.

pub(crate) mod admission;
pub(crate) mod gate;
pub(crate) mod listeners;
