//! `ropewalk membench`: what memory gives to 1, 2, 4, … cores. The lab does the measuring.

use clap::Args;
use command::numbers::whole;
use command::units::Duration;
use command::{Failure, ProgressLine, UNDECIDED, notify, print};
use lab::membench::{Facts, Options, Plan};

pub(crate) const MEMBENCH_EXAMPLES: &str = "\
Examples:
  ropewalk membench                            half a minute
  taskset -c 0-3 ropewalk membench             four cores only";

pub(crate) const MEMBENCH_HELP: &str = "\
Each core goes through an area of its own, larger than the caches, which it
touched first. Where a server's throughput times what it moves comes near to
this, more cores or another architecture will not help. docs/lab/membench.md
says how to read it.

Exit status:
  0  success
  1  it could not be measured
  2  wrong usage
  3  others had too much of the CPUs: the results say nothing

Examples:
  ropewalk membench                            half a minute
  ropewalk membench --budget 5m --repetitions 51
  taskset -c 0-3 ropewalk membench --json      four cores only, for programs";

#[derive(Args)]
pub(crate) struct MembenchArguments {
    /// The time that all measurements together take at most, about
    #[arg(long, value_name = "TIME", default_value = "30s")]
    budget: Duration,
    /// The area of each core; by default four times the last cache, and at least 64
    #[arg(long, value_name = "MIB")]
    area: Option<u64>,
    /// How often each measurement is made
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = whole(1..=u32::MAX))]
    repetitions: u32,
    /// Print JSON: all rows, with intervals
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(arguments: &MembenchArguments) -> Result<(), Failure> {
    let options = Options {
        budget_us: arguments.budget.0,
        area_bytes: arguments.area.map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
        repetitions: arguments.repetitions,
    };
    let plan = Plan::new(options, Facts::read()).map_err(Failure::Usage)?;
    notify(&plan.announce());
    let mut line = ProgressLine::new();
    let mut show = |done, all| line.print_on_terminal(&format!("{done} of {all} repetitions"));
    let outcome = plan.run(&mut show);
    drop(line);
    let outcome = outcome.map_err(Failure::Operation)?;
    print(&if arguments.json { outcome.json() } else { outcome.show() })?;
    if outcome.void.is_empty() { Ok(()) } else { Err(Failure::Reported(UNDECIDED)) }
}
