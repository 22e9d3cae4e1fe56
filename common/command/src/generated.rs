//! The commands for shells and packages that every program has: `completions` and `man`. Both make
//! their text from the definition of the command line, so that it cannot differ from the program.

mod completions;
mod help_blocks;
mod man_pages;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};

use crate::programs::Program;
use crate::{Failure, print, whole_file};

/// Prints or writes what is made from the definition of the command line.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Print the script by which a shell completes commands and options
    Completions {
        /// The shell that reads the script
        shell: Shell,
    },
    /// Write the man pages of this program and of its commands; for packages
    #[command(hide = true)]
    Man {
        /// The folder for the pages, which is made if it does not exist
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// A shell for which there is a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash, 4.4 or newer
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

impl Generated {
    /// Executes the command for the program with this command line.
    ///
    /// # Errors
    /// [`Failure::Operation`]: the text cannot be printed, or a page cannot be written.
    pub fn execute(&self, line: clap::Command, program: &Program) -> Result<(), Failure> {
        match self {
            Self::Completions { shell } => print(&completions::script(*shell, &line, program)),
            Self::Man { directory } => write_pages(directory, line, program),
        }
    }
}

/// The definition of `completions` with the program's own name in its help: `ropewalk` does not
/// pass this command on.
#[must_use]
pub fn completions_of(command: clap::Command, program: &Program) -> clap::Command {
    let name = program.name;
    let help = format!(
        "\
Save the script where the shell looks for it:
  bash  ~/.local/share/bash-completion/completions/{name}
  zsh   _{name}, in a folder of $fpath
  fish  ~/.config/fish/completions/{name}.fish

Exit status:
  0  success
  1  the script could not be printed
  2  wrong usage

Examples:
  source <({name} completions bash)      for this shell only
  {name} completions fish > ~/.config/fish/completions/{name}.fish"
    );
    command.override_usage(format!("{name} completions <SHELL>")).after_help(help)
}

fn write_pages(folder: &Path, command: clap::Command, program: &Program) -> Result<(), Failure> {
    let failure = |path: &Path, why| Failure::Operation(format!("{}: {why}", path.display()));
    fs::create_dir_all(folder).map_err(|why| failure(folder, why))?;
    for page in man_pages::pages(command, program) {
        let path = folder.join(format!("{}.1", page.name));
        let written = whole_file::write(&path, |file| file.write_all(page.text.as_bytes()));
        written.map_err(|why: io::Error| failure(&path, why))?;
    }
    Ok(())
}
