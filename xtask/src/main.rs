//! What the CI script and a person both run.

mod bench;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  bench ...    measure: see `cargo xtask bench --help`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    let outcome = match command {
        "bench" => bench::run(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("no command {other:?}\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
