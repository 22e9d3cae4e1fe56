//! The test kit tested: a scripted server that answers rightly or wrongly on purpose, and the
//! runner that must distinguish the two.

mod differential;
mod fake_server;
mod faults;
