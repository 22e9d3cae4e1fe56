//! Request paths.
