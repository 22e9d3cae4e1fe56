//! Calls over connections in memory: what an application gets, and what its reply becomes, however
//! the bytes are cut.

mod cgi;
mod expectations;
mod failures;
mod fastcgi;
mod memory;
mod replies;
mod requests;
mod upgrades;
