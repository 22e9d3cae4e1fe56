//! What to answer: from a request and what the file system holds to a response.

#![forbid(unsafe_code)]
