//! Tests of the crate through its public interface: tables of heads and bodies, every way to cut
//! them, and properties. The content of responses is tested with the session, not here.

mod bodies;
mod heads;
mod properties;
mod refused_heads;
mod responses;
mod splits;
mod support;
