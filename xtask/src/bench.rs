//! `cargo xtask bench`: measures the load generator against wrk, and recorders and the simulator
//! against Cachegrind. Servers are measured by studies: docs/benchmarks.md.
//!
//! These benchmarks are of whole programs; those of single crates are in the crates (`cargo
//! bench`).

mod load;
mod load_run;
mod options;
mod rounds;
mod scratch;
pub(crate) mod simulate;
mod stage;
mod table;

use options::Options;

const HELP: &str = "\
cargo xtask bench load|simulate [OPTION...]

  load    Drives Ropewalk in alternating rounds with `ropewalk load` and wrk, and prints the
          processor time that they need themselves.
  simulate
          Records programs with both recorders and simulates a processor with their references,
          beside Cachegrind, and prints processor time and references per second.

The server runs on processor 0 and the clients on processor 1.

  --rows NAME,...      simulate: only these rows: gzip sort wc
  --clients NAME,...   load: only these clients: none length bytes wrk
  --rounds N           rounds (load 7, simulate 3); each contestant gets one window in each
  --seconds S          load: length of a window (2)
  --json FILE          load: write every sample to FILE as well
  --no-build           take what comes as source as it was built before
  --quick              short rounds of some rows: does it work?
";

/// Runs the benchmark that `arguments` (the words after `bench`) select; the error is one line.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let asks_for_help = |word: &String| ["help", "--help", "-h"].contains(&word.as_str());
    match arguments.split_first() {
        Some((name, rest)) if asks_for_help(name) || rest.iter().any(asks_for_help) => {
            print!("{HELP}");
            Ok(())
        }
        Some((name, rest)) if name == "load" => load::run(&Options::parse(rest, &load::DEFAULTS)?),
        Some((name, rest)) if name == "simulate" => {
            simulate::run(&Options::parse(rest, &simulate::DEFAULTS)?)
        }
        _ => Err(format!("say which benchmark\n\n{HELP}")),
    }
}
