//! The recorders, and their common interface: a command that runs another one.

use crate::convert::Window;
use crate::error::RecordingError;
use crate::qemu::Plugin;
use crate::tool::Tool;
use std::path::Path;
use std::process::Command;

/// The program under which a command is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recorder {
    /// The tool for Valgrind: it records what Cachegrind counts, one thread at a time.
    #[default]
    Valgrind,
    /// The plugin for QEMU: faster, and threads run at the same time.
    Qemu,
}

impl Recorder {
    /// Compiles the recorder, unless it has been before.
    pub(crate) fn ready(self) -> Result<Ready, RecordingError> {
        Ok(match self {
            Self::Valgrind => Ready::Valgrind(Tool::ready()?),
            Self::Qemu => Ready::Qemu(Plugin::ready()?),
        })
    }
}

/// A recorder that is ready to run.
#[derive(Debug)]
pub(crate) enum Ready {
    Valgrind(Tool),
    Qemu(Plugin),
}

impl Ready {
    /// The command that records another one, `typed`, which is started in `folder`.
    pub(crate) fn command(
        &self,
        records: &Path,
        window: Window,
        typed: &[String],
        folder: Option<&Path>,
    ) -> Result<Command, String> {
        match self {
            Self::Valgrind(tool) => {
                let mut command = tool.command(records);
                command.arg(format!("--references-max={}", window.references_max));
                command.arg(format!("--skip={}", window.skip));
                command.arg("--").args(typed);
                Ok(command)
            }
            Self::Qemu(plugin) => plugin.command(records, window, typed, folder),
        }
    }

    /// The recorder's name in a trace.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Valgrind(_) => "ropewalk valgrind-tool 1",
            Self::Qemu(_) => "ropewalk qemu-plugin 1",
        }
    }

    /// The program that is started.
    pub(crate) fn program(&self) -> &'static str {
        match self {
            Self::Valgrind(_) => "valgrind",
            Self::Qemu(_) => crate::qemu::QEMU,
        }
    }
}
