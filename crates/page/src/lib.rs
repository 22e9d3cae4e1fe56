//! Reports as pages: figures as data ([`chart`]), as drawings ([`svg`]), and one HTML document
//! that needs nothing else ([`document`]).
//!
//! Not here: what is measured or simulated, and what is said of it. The charting library is in
//! `assets/`, with where it comes from.

#![forbid(unsafe_code)]

mod bars;
pub mod chart;
pub mod document;
pub mod number;
pub mod svg;
