//! `ropewalk trace record`: runs a command or a recipe under a recorder, with the crate `tracer`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::help::usual;
use command::near::did_you_mean;
use command::programs::SERVER;
use command::units::Duration;
use command::{Failure, ProgressLine, notify, print};
use tracer::{Options, Recipe, RecipeError, Recorder, recipe_names};

pub(super) const RECORD_EXAMPLES: &str = "\
Examples:
  ropewalk trace record --out ls.trace -- ls -aR /usr/share
  ropewalk trace record --recipe nginx --out nginx.trace";

pub(super) const RECORD_HELP: &str = "\
Every instruction fetch, load and store of the command and of all processes it
starts, with system calls, atomic operations and what is mapped where. The
recorder is a tool for Valgrind, or with --recorder qemu a plugin for QEMU,
compiled on first use. Under Valgrind a program is about fifty times as slow as
without, and its threads take turns. docs/simulator/recording.md says what is
exact and what is not.

Raw records are eight bytes each, and go to --scratch until the trace is made.

Recipes start, load and stop servers: nginx, event-loop-per-core, fibers,
staged, foglia-2001 (as root: Apache, PostgreSQL, utilities); or a file, see
experiments/traces.

Exit status:
  0  the trace is written
  1  it could not be recorded
  2  wrong usage

Examples:
  ropewalk trace record --out ls.trace -- ls -aR /usr/share
  ropewalk trace record --recorder qemu --out sort.trace -- sort words
  ropewalk trace record --out make.trace --references-max 5000000 -- make
  ropewalk trace record --out server.trace --time 30s -- ropewalk serve public
  ropewalk trace record --recipe nginx --out nginx.trace";

/// The options that most recordings need.
const USUAL: &[&str] = &["out", "recorder", "recipe", "references_max", "time"];

#[derive(Args)]
#[command(mut_args(usual(USUAL)))]
pub(crate) struct RecordArguments {
    /// Where the trace goes
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The recorder: valgrind is exact and runs one thread at a time, qemu is several times as fast
    #[arg(long, value_enum, default_value = "valgrind", value_name = "RECORDER")]
    recorder: RecorderName,
    /// Run this recipe instead of a command
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "command")]
    recipe: Option<String>,
    /// Stop at this many references of each process; when all processes at work have reached it,
    /// ask the command to end
    #[arg(long, value_name = "N")]
    references_max: Option<u64>,
    /// Leave out the first N references of each process
    #[arg(long, value_name = "N")]
    skip: Option<u64>,
    /// Ask the command to end after this time (SIGTERM), as Ctrl-C does
    #[arg(long, value_name = "TIME", conflicts_with = "recipe")]
    time: Option<Duration>,
    /// Directory for raw records and a recipe's files [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Ropewalk as recipes start it, with ropewalk-lab beside it for what is the lab's [default:
    /// ropewalk beside this program, else in PATH]
    #[arg(long, value_name = "FILE", requires = "recipe")]
    ropewalk: Option<PathBuf>,
    /// The command, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "recipe")]
    command: Vec<String>,
}

/// The names of a [`Recorder`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum RecorderName {
    Valgrind,
    Qemu,
}

impl RecorderName {
    fn recorder(self) -> Recorder {
        match self {
            Self::Valgrind => Recorder::Valgrind,
            Self::Qemu => Recorder::Qemu,
        }
    }
}

pub(super) fn execute(arguments: &RecordArguments) -> Result<(), Failure> {
    let recipe = arguments.recipe.as_deref().map(Recipe::find).transpose();
    let recipe = recipe.map_err(|why| {
        let near = match &why {
            RecipeError::Unknown(name) => did_you_mean(name, recipe_names()),
            _ => String::new(),
        };
        Failure::Usage(format!("{why}{near}"))
    })?;
    let options = options(arguments, recipe.as_ref())?;
    let summary = match &recipe {
        Some(recipe) => {
            notify(&recipe.description);
            ProgressLine::during("recording; Ctrl-C ends it", || {
                tracer::record_recipe(&options, recipe)
            })
        }
        None => tracer::record(&options, &arguments.command),
    };
    print(&summary.map_err(|why| Failure::Operation(why.to_string()))?.show())
}

/// Builds the options: a typed option overrides the recipe's.
fn options(arguments: &RecordArguments, recipe: Option<&Recipe>) -> Result<Options, Failure> {
    let of_recipe = |field: fn(&Recipe) -> u64| recipe.map_or(0, field);
    let here = |why: std::io::Error| {
        Failure::Operation(format!("cannot tell the current directory: {why}"))
    };
    Ok(Options {
        recorder: arguments.recorder.recorder(),
        out: std::path::absolute(&arguments.out).map_err(here)?,
        references_max: arguments.references_max.unwrap_or(of_recipe(|r| r.references_max)),
        skip: arguments.skip.unwrap_or(of_recipe(|recipe| recipe.skip)),
        time_us: arguments.time.map_or(0, |time| time.0),
        scratch: arguments.scratch.clone().unwrap_or_else(std::env::temp_dir),
        ropewalk: match (&arguments.ropewalk, recipe) {
            (Some(file), _) => Ok(std::path::absolute(file).map_err(here)?),
            (None, Some(_)) => SERVER.find(),
            (None, None) => Err("only recipes name it".into()),
        },
    })
}
