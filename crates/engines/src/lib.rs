//! Every concurrency architecture as an engine that drives the same sessions.
