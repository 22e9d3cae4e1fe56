//! `cargo xtask bench`: measures the server against the floor and other servers, and the load
//! generator against wrk; recorders and the simulator against Cachegrind.
//!
//! These benchmarks are of whole programs; those of single crates are in the crates (`cargo
//! bench`).

mod contest;
mod corpus;
mod engines;
mod idle;
mod load;
mod load_run;
mod options;
mod report;
mod rounds;
mod row;
mod scratch;
mod serve;
pub(crate) mod simulate;
mod stage;
mod table;

use options::Options;

const HELP: &str = "\
cargo xtask bench serve|load|engines|simulate [OPTION...]

  serve   Starts the floor, Ropewalk and every installed server of servers/*.toml at their best
          settings, drives them in alternating rounds with wrk, and prints the processor time of
          each request.
  load    Drives Ropewalk in alternating rounds with `ropewalk load` and wrk, and prints the
          processor time that they need themselves.
  engines Drives every engine, nginx and Apache in alternating rounds with `ropewalk load`, and
          prints what each request costs them, their memory, and how they deal with a disk.
  simulate
          Records programs with both recorders and simulates a processor with their references,
          beside Cachegrind, and prints processor time and references per second.

The servers run on processor 0 and the clients on processor 1.

  --rows NAME,...      only these rows:
                         serve: 1k 10k 64k 1m close 4000 many idle
                         engines: 1k 50k zipf 8000 60000 cold
                         simulate: gzip sort wc
  --servers NAME,...   serve: only these servers; ropewalk and floor are always among them,
                         apache-prefork, apache-worker, goserver and yaws only if named
  --clients NAME,...   load: only these clients: none length bytes wrk
  --engines NAME,...   engines: only these engines and servers
  --together           engines: load all of them at once and not in turn: other load on the
                         machine affects all alike, so one-threaded ones are compared far more
                         sharply; those with several threads wait for the others as well
  --rounds N           rounds (7, engines 5, simulate 3); each contestant gets one window in each
  --seconds S          length of a window (serve 1.1, load 2, engines 1)
  --json FILE          write every sample to FILE as well
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
        Some((name, rest)) if name == "serve" => serve::run(&Options::parse(rest, &row::DEFAULTS)?),
        Some((name, rest)) if name == "load" => load::run(&Options::parse(rest, &load::DEFAULTS)?),
        Some((name, rest)) if name == "engines" => {
            engines::run(&Options::parse(rest, &engines::DEFAULTS)?)
        }
        Some((name, rest)) if name == "simulate" => {
            simulate::run(&Options::parse(rest, &simulate::DEFAULTS)?)
        }
        _ => Err(format!("say which benchmark\n\n{HELP}")),
    }
}
