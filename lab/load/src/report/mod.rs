//! The forms in which an outcome is reported, one file for each. Each is a pure function of the
//! outcome: equal outcomes give equal bytes. The callers decide where they are written.
//!
//! | form | for |
//! |---|---|
//! | [`summary`] | a person at a terminal |
//! | [`fairness`] | a person who checks that all kinds of requests were served alike |
//! | [`progress`] | a person who watches a run |
//! | [`limit`] | a person who searches for the highest rate that a server sustains, and programs |
//! | [`json`] | programs, and `merge`: the only form that is read back, nothing is lost in it |
//! | [`series`] | spreadsheets and plots over time |
//! | [`spectrum`] | HdrHistogram's plotter, wrk2's readers |
//! | [`interval_log`] | HdrHistogram's log processors |
//! | [`httperf`] | parsers of httperf's output |

pub mod fairness;
mod format;
pub mod httperf;
pub mod interval_log;
pub mod json;
pub mod limit;
pub mod progress;
pub mod series;
pub mod spectrum;
pub mod summary;

#[cfg(test)]
pub(crate) mod sample;
