//! One kernel thread accepts, and others serve a connection each.

pub(crate) mod acceptor;
pub(crate) mod blocking;
pub(crate) mod pool;
pub(crate) mod registry;
pub(crate) mod thread_each;
pub(crate) mod yielding;
