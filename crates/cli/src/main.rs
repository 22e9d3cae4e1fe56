//! The `ropewalk` command: parse, then a match of one-liners.
fn main() {}
