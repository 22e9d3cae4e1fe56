//! What the CI script and a person both run.
fn main() {}
