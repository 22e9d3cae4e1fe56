//! A two-level cache of immutable entries with byte and descriptor budgets.

#![forbid(unsafe_code)]
