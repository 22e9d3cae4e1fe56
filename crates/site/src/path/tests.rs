//! Request paths: tables, and the file system as the judge.
