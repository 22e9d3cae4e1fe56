//! Requests that applications answer: the driver's half. What is next is decided by
//! [`upstream::Call`]; here its bytes are moved, and connections to applications are kept.

pub(crate) mod call_loop;
pub(crate) mod call_pool;
pub(crate) mod client_call;
pub(crate) mod client_end;
pub(crate) mod driven_call;
mod finishing;
pub(crate) mod joint;
pub(crate) mod servers;
pub(crate) mod table;
