//! The simulator against a model that is slow and obvious, against hand-made traces, and against
//! properties of any trace.

mod agreement;
mod classes;
mod golden;
mod model;
mod properties;
mod pycachesim;
mod traces;
