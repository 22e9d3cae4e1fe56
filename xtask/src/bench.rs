//! `cargo xtask bench`: measures the server against the floor and its peers.
//!
//! `serve` is the one benchmark here; those of single crates are theirs (`cargo bench`).

mod contest;
mod corpus;
mod idle;
mod options;
mod report;
mod row;
mod serve;

const HELP: &str = "\
cargo xtask bench serve [OPTION...]

Starts the floor, Ropewalk and every installed server of peers/*.toml at their best settings,
drives them in alternating rounds with wrk, and prints the processor time of each request.
The servers run on processor 0 and wrk on processor 1.

  --rows NAME,...      only these rows: 1k 10k 64k 1m close 4000 many idle
  --servers NAME,...   only these servers; ropewalk and floor are always among them
  --rounds N           rounds (7); each server gets one window in each
  --seconds S          length of a window (1.1), after a fifth of it for warming up
  --json FILE          write every sample to FILE as well
  --no-build           take floor, Ropewalk and gofasthttp as they were built before
  --quick              the rows 1k and 1m in two short rounds: does it work?
";

/// Runs the benchmark that `arguments` (what follows `bench`) ask for; the error is one line.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((name, _)) if name == "help" || name == "--help" || name == "-h" => {
            print!("{HELP}");
            Ok(())
        }
        Some((name, rest)) if name == "serve" => {
            if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
                print!("{HELP}");
                return Ok(());
            }
            serve::run(&options::Options::parse(rest)?)
        }
        _ => Err(format!("say which benchmark\n\n{HELP}")),
    }
}
