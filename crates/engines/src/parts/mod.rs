//! What two or more engines are made of. Each part knows nothing of the engines that use it.

pub(crate) mod acceptor;
pub(crate) mod berth;
pub(crate) mod blocking;
pub(crate) mod clock;
pub(crate) mod connections;
pub(crate) mod crew;
pub(crate) mod gate;
pub(crate) mod helpers;
pub(crate) mod in_memory;
pub(crate) mod listeners;
pub(crate) mod loops;
pub(crate) mod precedence;
pub(crate) mod process_count;
pub(crate) mod reactor;
pub(crate) mod registry;
pub(crate) mod step;
pub(crate) mod thread_each;
pub(crate) mod watch;
pub(crate) mod wheel;
