//! Memory references of real processes, recorded: a command, or the commands of a recipe, run under
//! a recorder, whose records become one trace.
//!
//! A recorder ([`Recorder`]) is a tool for Valgrind or a plugin for QEMU (`recorders`, with a
//! licence of their own), and is compiled on first use. It writes raw records into files, which
//! this crate reads only when all processes have ended: recording costs no more than writing to
//! memory, and no way of ending loses records.
//!
//! Elsewhere: the format of traces, their use, and the kernel's own references, which no user-mode
//! recorder sees.
//! no user-mode recorder sees.

#![forbid(unsafe_code)]

mod blocks;
mod built;
mod chunk;
mod convert;
mod error;
mod heap;
mod image;
mod live;
mod names;
mod printed;
mod qemu;
mod recipe;
mod recorder;
mod recording;
mod regions;
mod scratch;
mod selection;
mod summary;
mod tool;

pub use error::{RecipeError, RecordingError};
pub use recipe::{Recipe, recipe_names};
pub use recorder::Recorder;
pub use recording::{Options, record, record_recipe};
pub use summary::{Recorded, Summary};
pub use tool::Tool;
