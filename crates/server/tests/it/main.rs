//! The server from the outside: configuration texts, and servers on sockets of this machine.

mod config;
mod conformance;
mod documentation;
mod fibers;
mod freshness;
mod in_memory;
mod listing;
mod modes;
mod overload;
mod processes;
mod rings;
mod serving;
mod stopping;

use engines::{ENGINES, EngineSpec};

/// The engines under test: all of them, or while one is being worked on those that the environment
/// names in `ROPEWALK_TEST_ENGINES`.
fn engines() -> Vec<&'static EngineSpec> {
    let Ok(names) = std::env::var("ROPEWALK_TEST_ENGINES") else {
        return ENGINES.iter().filter(|spec| can_run(spec)).collect();
    };
    println!("ROPEWALK_TEST_ENGINES: only {names}");
    let find = |name| engines::find(name).unwrap_or_else(|| panic!("no engine {name:?}"));
    names.split(',').map(find).collect()
}

/// Whether this machine lets the engine run. One that is left out is named.
fn can_run(spec: &EngineSpec) -> bool {
    match os::ring::check(os::ring::Sizes::LEAST) {
        Err(why) if spec.name == "rings" => {
            println!("rings: skipped: {why}");
            false
        }
        _ => true,
    }
}
