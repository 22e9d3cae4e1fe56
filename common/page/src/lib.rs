//! Reports as pages: figures as data ([`chart`]), as drawings ([`svg`]), and one self-contained
//! HTML document ([`document`]).
//!
//! Measuring, simulating and wording are done elsewhere. The charting library is in `assets/`, with
//! its origin.

#![forbid(unsafe_code)]

mod bars;
pub mod chart;
pub mod document;
pub mod matrix;
pub mod number;
mod ranked;
pub mod svg;
