//! One client connection from its first byte to its close, without input or output.

#![forbid(unsafe_code)]
