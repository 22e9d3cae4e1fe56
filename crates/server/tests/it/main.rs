//! The server from the outside: configuration texts, and servers on sockets of this machine.

mod config;
mod conformance;
mod documentation;
mod fibers;
mod freshness;
mod helper_processes;
mod in_memory;
mod kernel_threads;
mod knobs;
mod listing;
mod modes;
mod overload;
mod processes;
mod rings;
mod serving;
mod shared_cache;
mod staged;
mod stopping;
mod tasks;
mod under_test;

use under_test::{engines, knobs};
