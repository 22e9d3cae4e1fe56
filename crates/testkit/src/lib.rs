//! Conformance cases as data, document roots, an in-memory client: what every test suite shares.

#![forbid(unsafe_code)]
