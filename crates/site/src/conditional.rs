//! Conditional requests.
