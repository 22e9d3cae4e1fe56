//! Content types.
