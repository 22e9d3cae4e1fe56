//! The arguments of `ropewalk fileset`, with their help; those that experiments have are in `lab`.

use std::path::PathBuf;

use clap::Args;
use command::help::usual;
use lab::workload::{FileSetChoice, FileSetOptions};

const USAGE: &str = "\
ropewalk fileset [OPTIONS] <DIR> --preset <NAME>
       ropewalk fileset --list";

pub(crate) const FILESET_EXAMPLES: &str = "\
Examples:
  ropewalk fileset --list
  ropewalk fileset /srv/files --preset small
  ropewalk fileset /srv/files --single 1KB --single 50KB";

pub(crate) const FILESET_HELP: &str = "\
A set has directories of 36 files each (SPECweb99), 102 bytes to 900 KiB, or
single files. What is in a file follows from its name, so that
`ropewalk load --verify bytes` needs no copy. Sizes are typed 51200, 50KB,
50KiB, 3.3GB; K is 1024 either way.

What is there and right is left alone, what is not of the set is never touched.
After an interruption the same command goes on where it was.

Exit status:
  0  success
  1  it could not be done, or --check found faults
  2  wrong usage

Examples:
  ropewalk fileset --list
  ropewalk fileset /srv/files --preset small
  ropewalk fileset /srv/files --connections 1000    as SPECweb99 has for them
  ropewalk fileset /srv/files --single 1KB --single 50KB
  ropewalk fileset /srv/files --preset small --check --verify";

/// The options that most file sets need.
const USUAL: &[&str] =
    &["preset", "directories", "bytes", "connections", "single", "list", "verify", "check"];

#[derive(Args)]
#[command(mut_args(usual(USUAL)), override_usage = USAGE)]
pub(crate) struct FilesetArguments {
    /// The directory of the files
    #[arg(value_name = "DIR", required_unless_present = "list")]
    pub(crate) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: FileSetOptions,
    /// List the presets: their files, bytes and sources
    #[arg(long, group = FileSetChoice::GROUP)]
    pub(crate) list: bool,
    /// Write nothing; report what is missing or wrong
    #[arg(long)]
    pub(crate) check: bool,
}
