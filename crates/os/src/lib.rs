//! The kernel facilities Ropewalk uses, one file each; the only crate with unsafe code.
