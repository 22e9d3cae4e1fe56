//! The program of worker processes in the tests of this crate, where `/proc/self/exe` is a test.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match server::run_worker(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            server::report(&why.to_string());
            ExitCode::FAILURE
        }
    }
}
