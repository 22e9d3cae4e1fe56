//! The server from the outside: configuration texts, and servers on sockets of this machine.

mod config;
mod conformance;
mod documentation;
mod freshness;
mod in_memory;
mod listing;
mod overload;
mod serving;
mod stopping;
