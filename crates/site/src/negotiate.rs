//! Content negotiation.
