//! Memory traces of processes: the format that a tracer writes and a simulator reads.
//!
//! A trace holds, for each process, its description ([`Process`]) and the sequence of its events
//! ([`Event`]): user references to memory, system calls, synchronisation, switches between its
//! threads. It does not hold how processes interleave: that is for a scheduler to decide. The
//! layout is described to the byte in `docs/simulator/trace.md`.
//!
//! Elsewhere: recording, simulating, and what a process does in the kernel.

#![forbid(unsafe_code)]

mod calls;
mod description;
mod encoding;
mod error;
mod event;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod index;
mod process;
mod reader;
mod source;
mod synthetic;
mod tables;
mod varint;
mod writer;

pub use calls::{Call, SystemCalls, system_call_name};
pub use error::{Fault, TraceError};
pub use event::{Access, AccessKind, Event};
pub use import::{FORMS, Foreign, Form, Imported, import};
pub use process::{Header, Object, Process, Region, RegionKind, Symbol};
pub use reader::{Reader, Stream};
pub use synthetic::Synthetic;
pub use tables::{Counts, PAGE_BYTES, Row, Tables, program, tables};
pub use writer::{Writer, Written};
