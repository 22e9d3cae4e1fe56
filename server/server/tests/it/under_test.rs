//! Which engines are under test, with which settings, and which program their worker processes run.

use engines::{ENGINES, EngineSpec};
use server::config::{Arguments, Config, WorkerProgram};

/// The engines under test: all of them, or those that the environment names in
/// `ROPEWALK_TEST_ENGINES`, for work on one of them.
pub(crate) fn engines() -> Vec<&'static EngineSpec> {
    let Ok(names) = std::env::var("ROPEWALK_TEST_ENGINES") else {
        return ENGINES.iter().filter(|spec| can_run(spec)).collect();
    };
    println!("ROPEWALK_TEST_ENGINES: only {names}");
    let find = |name| engines::find(name).unwrap_or_else(|| panic!("no engine {name:?}"));
    names.split(',').map(find).collect()
}

/// Further settings of the engines under test: the knobs that the environment names in
/// `ROPEWALK_TEST_KNOBS`, as in `stealing=1,blocking_threads=0`.
pub(crate) fn knobs() -> Vec<String> {
    let knobs = std::env::var("ROPEWALK_TEST_KNOBS").unwrap_or_default();
    let knobs = knobs.split(',').filter(|knob| !knob.is_empty());
    knobs.map(|knob| format!("engine.knobs.{knob}")).collect()
}

/// A configuration whose worker processes are a program of these tests.
pub(crate) fn load(arguments: &Arguments) -> Result<Config, String> {
    let path = env!("CARGO_BIN_EXE_server-test-worker").into();
    let mut config = Config::load(arguments)?;
    config.worker_program = WorkerProgram { path, arguments: Vec::new() };
    Ok(config)
}

/// Whether this machine can run the engine. An engine that is left out is reported.
fn can_run(spec: &EngineSpec) -> bool {
    let obstacle = (spec.obstacle)();
    obstacle.iter().for_each(|why| testkit::leave_out(spec.name, why));
    obstacle.is_none()
}
