//! Measures the cells of a study of the cache by itself, one after the other, as the lab asks for
//! them (`lab::cache_study`). The server's own cache (`file_cache`) is compared with the
//! alternatives that the paper names, each as short as it can be written (`stores.rs`). Every
//! answer of a store is checked: a wrong value is an error, not a number.
//!
//! It is a program of its own because the lab is not linked with the server. The order of the
//! measurements, records and reports are the lab's.

#![forbid(unsafe_code)]

mod drive;
mod measure;
mod requests;
mod stores;

use std::io;
use std::process::ExitCode;

use lab::cache_study::Cell;
use measure::Inputs;

const HELP: &str = "cache-bench KEYS REQUESTS SEED

  Reads cells from standard input, a JSON object a line, and answers each with a line: \"Ok\" with
  the measured numbers, or \"Err\" with the reason.

  KEYS            how many keys there are: a power of two; cells have as many or fewer
  REQUESTS        the requests of each measurement
  SEED            the seed of the requests
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--version") {
        println!("cache-bench {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let numbers: Option<Vec<u64>> = arguments.iter().map(|number| number.parse().ok()).collect();
    let Some(&[keys, requests, seed]) = numbers.as_deref() else {
        eprint!("{HELP}");
        return ExitCode::FAILURE;
    };
    if !keys.is_power_of_two() {
        eprintln!("cache-bench: KEYS is {keys}: it must be a power of two");
        return ExitCode::FAILURE;
    }
    match answer_all(Inputs::new(keys as usize, requests as usize, seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cache-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the cells that are asked for until the input ends.
fn answer_all(mut inputs: Inputs) -> io::Result<()> {
    for line in io::stdin().lines() {
        let cell: Result<Cell, _> = serde_json::from_str(&line?);
        let answer = cell.map_err(|why| why.to_string()).and_then(|cell| inputs.measure(&cell));
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}
