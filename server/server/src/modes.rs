//! Listener and sendfile modes: whether an engine supports what is configured, which mode results,
//! and both in words. Pure.

use engines::{EngineSpec, SendfileMode, Wakeups};

use crate::config::{ListenerMode, SendfileChoice, Settings};
use crate::layout::{Layout, Part};

/// Refuses listener modes that this engine on this machine cannot have.
pub(crate) fn check_listeners(layout: &Layout, settings: &Settings) -> Result<(), String> {
    let mode = settings.socket.listeners;
    if layout.processes.is_some_and(|processes| processes.own_ports) && mode != ListenerMode::Auto {
        return Err("copies with ports of their own have listeners of their own: leave \
                    socket.listeners at \"auto\""
            .into());
    }
    // The kernel gives a connection to the n-th listener, where n is its CPU's number.
    let parts = || layout.shares.iter().flat_map(|share| &share.parts);
    let cpu = |part: &Part, index: usize| part.cpus.get(index % part.cpus.len().max(1)).copied();
    let pinned = parts().flat_map(|part| (0..part.sets.len()).map(move |index| cpu(part, index)));
    let fits = pinned.eq((0..layout.sets.len()).map(Some))
        && layout.workers() == layout.sets.len()
        && settings.partitions.listen.is_empty();
    match mode {
        ListenerMode::ReusePortCpu if !fits => Err("\"reuseport-cpu\" needs an engine with a \
             listener for each worker, and one pinned worker on each CPU from 0 on"
            .into()),
        _ => Ok(()),
    }
}

/// Returns how files are sent, if the engine supports it. Where no thread or process would fetch
/// what is not in memory, the kernel is not asked whether it is.
pub(crate) fn sendfile(
    choice: SendfileChoice,
    spec: &EngineSpec,
    layout: &Layout,
) -> Result<SendfileMode, String> {
    let mode = match choice {
        SendfileChoice::Auto => spec.sendfile[0],
        SendfileChoice::Mode(mode) if spec.sendfile.contains(&mode) => mode,
        SendfileChoice::Mode(mode) => return Err(refusal(mode, spec)),
    };
    match mode {
        SendfileMode::Probe if !layout.fetches() => Ok(SendfileMode::NonBlocking),
        mode => Ok(mode),
    }
}

/// The error for an engine that cannot send files in this mode.
fn refusal(mode: SendfileMode, spec: &EngineSpec) -> String {
    let (word, why) = match mode {
        SendfileMode::NonBlocking => ("nonblocking", "it has a thread or more for each connection"),
        // A blocking call that waits for a client does not return for a signal that another handler
        // has to process.
        SendfileMode::Blocking if spec.family == "processes" => {
            ("blocking", "while a send waits for a slow reader, its process hears no order to stop")
        }
        SendfileMode::Blocking => ("blocking", "a slow reader would delay all connections"),
        SendfileMode::Probe => ("probe", "it has no helper to fetch what is not in memory"),
        SendfileMode::Off => unreachable!("every engine can read"),
    };
    let able = engines::ENGINES.iter().filter(|spec| spec.sendfile.contains(&mode));
    let able: Vec<&str> = able.map(|spec| spec.name).collect();
    let others = match able.is_empty() {
        true => "no engine can".into(),
        false => format!("these can: {}", able.join(", ")),
    };
    format!("{} cannot send files by {word:?} ({why}): {others}", spec.name)
}

/// The settings that make no difference in this engine with these knobs, a line each.
pub(crate) fn without_effect(
    settings: &Settings,
    spec: &EngineSpec,
    layout: &Layout,
) -> Vec<String> {
    let name = spec.name;
    let listeners = match (settings.socket.listeners, layout.wakeups()) {
        (ListenerMode::Shared, Wakeups::One) => Some(format!(
            "socket.listeners = \"shared\" is as \"exclusive\" in {name}: there an arrival always \
             wakes one of the waiting workers"
        )),
        (ListenerMode::Exclusive, Wakeups::All) => Some(format!(
            "socket.listeners = \"exclusive\" is as \"shared\" in {name} with these knobs: there \
             an arrival always wakes all waiting workers"
        )),
        _ => None,
    };
    let asks = settings.socket.sendfile == SendfileChoice::Mode(SendfileMode::Probe);
    let sendfile = (asks && !layout.fetches()).then(|| {
        format!(
            "socket.sendfile = \"probe\" is as \"nonblocking\" in {name} with these knobs: no \
             helper would fetch what is not in memory"
        )
    });
    listeners.into_iter().chain(sendfile).collect()
}

/// Describes the listeners. `are_inherited`: all workers share those that were passed on.
pub(crate) fn describe_listeners(
    mode: ListenerMode,
    layout: &Layout,
    are_inherited: bool,
) -> String {
    let (sets, workers) = (layout.sets.len(), layout.workers());
    let woken = if layout.wakes_one() { "an arrival wakes one" } else { "an arrival wakes all" };
    let description = match (are_inherited, sets) {
        (true, _) => format!("the listener that was passed on, for all: {woken}"),
        (false, 1) if workers == 1 => "one listener".into(),
        (false, 1) => format!("one listener for {workers} workers: {woken}"),
        (false, sets) if sets >= workers => "a listener for each worker".into(),
        (false, sets) => format!("{sets} listeners for {workers} workers: {woken}"),
    };
    let by_cpu = if mode == ListenerMode::ReusePortCpu { ", dealt by CPU" } else { "" };
    format!("{description}{by_cpu}{}", as_configured(mode != ListenerMode::Auto))
}

/// The suffix for a choice that the operator has set.
pub(crate) fn as_configured(is_set: bool) -> &'static str {
    if is_set { " (as configured)" } else { "" }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::partitions::Partition;

    /// The result of these modes in an engine on two CPUs: how files are sent, whether an arrival
    /// wakes one waiter, and what is reported as without effect.
    fn resolve(
        engine: &str,
        knobs: &[(&str, &str)],
        listeners: ListenerMode,
        sendfile: SendfileChoice,
    ) -> Result<(SendfileMode, bool, Vec<String>), String> {
        let spec = engines::find(engine).unwrap();
        let mut values = spec.default_knobs();
        for (name, value) in knobs {
            match value.parse() {
                Ok(number) => values.set(name, number).unwrap(),
                Err(_) => values.choose(name, value).unwrap(),
            }
        }
        let mut settings = Settings::default();
        settings.socket.listeners = listeners;
        settings.socket.sendfile = sendfile;
        let partitions = [Partition { cpus: vec![0, 1], width: 2 }];
        let layout = Layout::new(&settings, spec, &values, &partitions);
        let mode = super::sendfile(sendfile, spec, &layout)?;
        Ok((mode, layout.wakes_one(), without_effect(&settings, spec, &layout)))
    }

    /// Checks that `shared` and `exclusive` do what they say, or that a mode without effect is
    /// reported.
    #[test]
    fn a_listener_mode_has_its_effect_or_is_reported_to_make_no_difference() {
        let check = |engine, knobs: &[_], mode, wakes_one, is_without_effect| {
            let (_, wakes, reported) = resolve(engine, knobs, mode, SendfileChoice::Auto).unwrap();
            assert_eq!(wakes, wakes_one, "{engine} {knobs:?} {mode:?}");
            assert_eq!(
                !reported.is_empty(),
                is_without_effect,
                "{engine} {knobs:?} {mode:?}: {reported:?}"
            );
        };
        use ListenerMode::{Exclusive, Shared};
        for engine in ["event-loop-per-core", "event-loop-helpers", "threads", "fibers", "staged"] {
            check(engine, &[], Shared, false, false);
            check(engine, &[], Exclusive, true, false);
        }
        for engine in ["rings", "processes"] {
            check(engine, &[], Shared, true, true);
            check(engine, &[], Exclusive, true, false);
        }
        check("tasks", &[], Shared, false, false);
        check("tasks", &[], Exclusive, false, true);
        let loops = engines::ENGINES.iter().filter(|spec| spec.family == "events");
        for engine in loops.map(|spec| spec.name) {
            for events in ["poll", "select"] {
                check(engine, &[("events", events)], Shared, false, false);
                check(engine, &[("events", events)], Exclusive, false, true);
            }
            check(engine, &[("events", "epoll-level")], Exclusive, true, false);
        }
        let (_, _, reported) = resolve("rings", &[], Shared, SendfileChoice::Auto).unwrap();
        assert_eq!(
            reported,
            [
                "socket.listeners = \"shared\" is as \"exclusive\" in rings: there an arrival always \
              wakes one of the waiting workers"
            ]
        );
    }

    #[test]
    fn a_probe_has_a_helper_or_is_reported_to_make_no_difference() {
        use SendfileMode::{NonBlocking, Probe};
        let check = |engine, knob, many, choice, expected, is_without_effect| {
            let knobs = [(knob, if many { "2" } else { "0" })];
            let (mode, _, reported) = resolve(engine, &knobs, ListenerMode::Auto, choice).unwrap();
            assert_eq!(mode, expected, "{engine} {knobs:?}");
            assert_eq!(!reported.is_empty(), is_without_effect, "{engine} {knobs:?}: {reported:?}");
        };
        let probe = SendfileChoice::Mode(Probe);
        for engine in ["fibers", "tasks"] {
            check(engine, "blocking_threads", true, probe, Probe, false);
            check(engine, "blocking_threads", false, probe, NonBlocking, true);
            check(engine, "blocking_threads", true, SendfileChoice::Auto, Probe, false);
            check(engine, "blocking_threads", false, SendfileChoice::Auto, NonBlocking, false);
        }
        check("rings", "helpers", true, probe, Probe, false);
        check("rings", "helpers", false, probe, NonBlocking, true);
    }

    #[test]
    fn an_engine_that_cannot_send_files_in_a_mode_says_why() {
        let check = |engine, mode, why: &str| {
            let choice = SendfileChoice::Mode(mode);
            let error = resolve(engine, &[], ListenerMode::Auto, choice).unwrap_err();
            assert!(error.contains(&format!("({why}")), "{error}");
        };
        check("event-loop", SendfileMode::Blocking, "a slow reader would delay all connections");
        check("processes", SendfileMode::Blocking, "while a send waits for a slow reader, its ");
        check("event-loop", SendfileMode::Probe, "it has no helper to fetch");
    }
}
