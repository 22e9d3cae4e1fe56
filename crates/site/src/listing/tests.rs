//! Listings: exact outputs, hostile names.
