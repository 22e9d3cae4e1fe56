//! How an outcome is shown: one file for each form. Each is a pure function of the outcome: the
//! same outcome gives the same bytes. Where they are written is not decided here.
//!
//! | form | for |
//! |---|---|
//! | [`summary`] | a person at a terminal |
//! | [`fairness`] | a person who asks who was served badly |
//! | [`progress`] | a person who waits |
//! | [`limit`] | a person who asks how much a server bears, and programs |
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
