//! The server from the outside: configuration texts, and servers on sockets of this machine.

mod config;
mod documentation;
mod temporary;
