//! The server from the outside: configuration texts, and servers on sockets of this machine.

mod access_logs;
mod changes;
mod config;
mod config_routes;
mod conformance;
mod documentation;
mod downloads;
mod far_ahead;
mod fibers;
mod freshness;
mod handed_out;
mod harness;
mod helper_processes;
mod in_memory;
mod kernel_threads;
mod knobs;
mod listing;
mod modes;
mod open_files;
mod overload;
mod placed;
mod processes;
mod rings;
mod sender;
mod serving;
mod shared_cache;
mod staged;
mod stopping;
mod tasks;
mod under_test;
mod uploads;

use harness::for_each_engine;
use under_test::{engines, knobs};
