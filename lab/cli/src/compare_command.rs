//! `ropewalk compare`: two servers under the same load. How they are judged is the part of `lab`.

use std::path::PathBuf;

use clap::Args;
use command::estimate::minutes_between;
use command::help::usual;
use command::numbers::{above_0, percent_from, whole};
use command::units::parse_duration;
use command::{Failure, ProgressLine, UNDECIDED, notify, print};
use lab::compare::{Candidate, Instance, Place, Plan, Side, Uncompared, conclude, write_page};
use lab::watch::Watch;
use lab::workload::{LogSize, Workload};
use lab::{Conclusion, Lab, ServerSpec, listed_cpus};
use load::interrupt::Interrupt;

use crate::lab_options::{LabOptions, WorkloadOptions, print_builds, print_knob_notices};
use crate::verdict::print_verdict;

pub(crate) const COMPARE_EXAMPLES: &str = "\
Examples:
  ropewalk compare ropewalk nginx            files of SPECweb99, in memory
  cp /var/log/nginx/access.log mine.log      its server writes on into it
  ropewalk compare http://127.0.0.1:80 ropewalk --log mine.log --root /srv/www";

pub(crate) const COMPARE_HELP: &str = "\
A server is typed NAME[/SETTING][,KNOB=VALUE...] as `ropewalk servers` lists
them, ropewalk:ENGINE for one of ours, or http://HOST:PORT for a server that
runs already (its processor time is not known then). Both run all the time,
one of them is loaded at a time, in pairs of randomised order: first by all
clients, then at one rate that both sustain with ease. The verdict rests on
what the same work costs: a difference, a tie, or that these pairs cannot tell.
docs/lab/compare.md says how it is judged.

Exit status:
  0  one is better, or it is a tie
  1  the comparison could not be done
  2  wrong usage: also a directory that has records
  3  these pairs cannot tell, or none was good
  4  the comparison was interrupted

Examples:
  ropewalk compare ropewalk nginx            files of SPECweb99, in memory
  ropewalk compare nginx/sendfile nginx/buffers --workload 50KB
  cp /var/log/nginx/access.log mine.log      its server writes on into it
  ropewalk compare http://127.0.0.1:80 http://127.0.0.1:8080 --log mine.log
  ropewalk compare http://127.0.0.1:80 ropewalk --log mine.log --root /srv/www
  ropewalk compare ropewalk:event-loop ropewalk:fibers --pairs 30";

/// The options that most comparisons need.
const USUAL: &[&str] = &["workload", "log", "root", "connections", "pairs", "window", "output"];

#[derive(Args)]
#[command(mut_args(usual(USUAL)))]
pub(crate) struct CompareArguments {
    #[arg(
        value_name = "A",
        help = "A server: NAME[/SETTING][,KNOB=VALUE...], or http://HOST:PORT"
    )]
    first: String,
    #[arg(value_name = "B", help = "Another, or the same in another setting")]
    second: String,
    #[command(flatten)]
    workload: WorkloadOptions,
    /// Clients at work at once
    ///
    /// They send as fast as they are served.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 64)]
    #[arg(value_parser = whole(1..=u64::MAX))]
    connections: u64,
    /// The common rate, requests/s [default: half of what the slower server sustains]
    #[arg(long, value_name = "RATE", value_parser = above_0)]
    request_rate: Option<f64>,
    /// How many pairs of each phase
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = whole(1..=u32::MAX))]
    pairs: u32,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "1s")]
    window: String,
    /// A difference that counts as none
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent_from(0.0))]
    margin: f64,
    /// Check every byte in all windows, not only before the first
    #[arg(long)]
    verify_bytes: bool,
    /// Seeds the order and the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the records go [default: a new directory]
    ///
    /// The new directory is in the scratch directory.
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    lab: LabOptions,
}

pub(crate) fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    let plan = arguments.plan()?;
    let (first, second): (ServerSpec, ServerSpec) =
        (arguments.first.parse()?, arguments.second.parse()?);
    let spec = arguments.workload.spec("zipf", &[&first, &second])?;
    let log = spec.log_file.as_deref().and_then(LogSize::new);
    let lab = arguments.lab.open()?;
    [&first, &second].into_iter().for_each(|typed| print_knob_notices(&lab, typed));
    print_builds(&lab, [&first, &second])?;
    let candidates = [Candidate::find(&lab, &first)?, Candidate::find(&lab, &second)?];
    let place = Place::make(arguments.output.as_deref(), &lab.load_setup.tools.scratch)?;
    let mut progress = ProgressLine::new();
    progress.print_on_terminal(&format!("preparing {}", spec.name));
    let workload = lab.load_setup.tools.prepare(&spec)?;
    let [one, other] = candidates;
    let interrupt = Interrupt::new().map_err(Failure::Operation)?;
    let mut sides = [one.start(&lab, &first, &workload)?, other.start(&lab, &second, &workload)?];
    Side::name_apart(&mut sides);
    drop(progress);
    print(&introduction(&plan, &workload, &lab, &sides))?;
    let mut watch = TerminalWatch { progress: ProgressLine::new(), interrupt };
    plan.make_ready(&lab.load_setup, &workload, &sides, &mut watch).map_err(failure)?;
    let folder = plan.begin(&place, &workload, &sides)?;
    let compared = plan.run(&lab.load_setup, &workload, &sides, &folder, &mut watch);
    drop(watch);
    let comparison = compared.map_err(failure)?;
    let Conclusion { details, verdict } = conclude(&comparison, &sides);
    log.as_ref().and_then(LogSize::growth).as_deref().into_iter().for_each(notify);
    let page = write_page(&folder)?;
    print(&details)?;
    print_verdict(&verdict, &format!("More: {}", page.display()))?;
    if comparison.is_decided() { Ok(()) } else { Err(Failure::Reported(UNDECIDED)) }
}

fn failure(why: Uncompared) -> Failure {
    match why {
        Uncompared::Failed(why) => Failure::Operation(why),
        Uncompared::Interrupted => Failure::Stopped(why.to_string()),
        Uncompared::Void(why) => {
            notify(&why);
            Failure::Reported(UNDECIDED)
        }
    }
}

/// Progress on the terminal, and interruptions from it.
struct TerminalWatch {
    progress: ProgressLine,
    interrupt: Interrupt,
}

impl Watch for TerminalWatch {
    fn report(&mut self, line: &str) {
        self.progress.print_on_terminal(line);
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.came()
    }
}

impl CompareArguments {
    fn plan(&self) -> Result<Plan, Failure> {
        let usage = |what: &str| Err(Failure::Usage(what.to_owned()));
        let window_us = parse_duration(&self.window)
            .map_err(|why| Failure::Usage(format!("--window {}: {why}", self.window)))?;
        if !(50_000..=600_000_000).contains(&window_us) {
            return usage("--window: from 50ms to 10m");
        }
        if self.verify_bytes && self.workload.is_unknown() {
            return usage("--verify-bytes: say with --root DIR what the replies should be");
        }
        Ok(Plan {
            connections: self.connections,
            pairs: self.pairs,
            window_s: window_us as f64 / 1e6,
            rate_per_s: self.request_rate,
            margin: self.margin / 100.0,
            confidence: 0.95,
            seed: self.seed,
            verify_bytes: self.verify_bytes,
        })
    }
}

/// Describes what is about to happen, and how long it takes.
fn introduction(plan: &Plan, workload: &Workload, lab: &Lab, sides: &[Side; 2]) -> String {
    let described = &workload.described;
    let number = |name: &str| described.numbers.get(name).copied().unwrap_or(0.0);
    let heads = match number("head_requests") {
        heads if heads > 0.0 => format!(" ({heads:.0} of them HEAD)"),
        _ => String::new(),
    };
    let started = sides.iter().filter(|side| matches!(side.instance, Instance::Started(_)));
    let started: Vec<String> = started.map(Side::label).collect();
    let cpus = listed_cpus(&lab.server_cpus);
    // The CPUs of a server that runs already are not known.
    let servers = match started.as_slice() {
        [] => String::new(),
        [one] => format!("{one} on CPU {cpus}, "),
        _ => format!("servers on CPU {cpus}, "),
    };
    format!(
        "{}: {}\n{:.0} requests{heads} for {:.0} files, {:.0} bytes on average\n\
         {servers}clients on CPU {}\n\
         {} pairs of {} s with {} clients, then as many at a common rate: about {}\n\n",
        described.name,
        described.about,
        number("requests"),
        number("files"),
        number("mean_body_bytes"),
        listed_cpus(&lab.load_setup.generators[0].cpus),
        plan.pairs,
        plan.window_s,
        plan.connections,
        minutes_between(plan.estimates_s()),
    )
}
