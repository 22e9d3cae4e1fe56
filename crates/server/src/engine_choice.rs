//! Which engine serves: the one that was named, or for `auto` the one a rule picks. The rule is a
//! rule of today and says why, so that nobody has to trust it.

use engines::{ENGINES, EngineSpec, KnobValues};

use crate::config::{AUTO, Config, KnobSetting, did_you_mean};
use crate::partitions::Partition;

/// An engine with its knobs set.
#[derive(Clone, Debug)]
pub(crate) struct EngineChoice {
    /// Its row in the table of engines.
    pub(crate) spec: &'static EngineSpec,
    /// Its knobs.
    pub(crate) knobs: KnobValues,
    /// Why it was chosen; nothing if an operator named it.
    pub(crate) reason: Option<String>,
}

/// Chooses and sets the knobs.
///
/// # Errors
/// One line: an unknown engine, an unknown knob, a value out of range.
pub(crate) fn choose(config: &Config, partitions: &[Partition]) -> Result<EngineChoice, String> {
    let settings = &config.settings.engine;
    let (name, reason) = match settings.name.as_str() {
        AUTO => by_rule(partitions),
        name => (name, None),
    };
    let spec = engines::find(name).ok_or_else(|| {
        let names = ENGINES.iter().map(|spec| spec.name).chain([AUTO]);
        let hint = did_you_mean(name, names);
        config.explain(
            "engine.name",
            &format!("unknown engine {name:?}{hint}: see `ropewalk engines`"),
        )
    })?;
    let mut knobs = KnobValues::defaults(spec);
    for (knob, setting) in &settings.knobs {
        turn(spec, &mut knobs, knob, setting)
            .map_err(|why| config.explain("engine.knobs", &format!("{name}: {why}")))?;
    }
    Ok(EngineChoice { spec, knobs, reason })
}

/// Sets one knob. A name that is nearly right is told the right one.
fn turn(
    spec: &EngineSpec,
    knobs: &mut KnobValues,
    name: &str,
    setting: &KnobSetting,
) -> Result<(), String> {
    let set = match setting {
        KnobSetting::Number(number) => knobs.set(name, *number),
        KnobSetting::Choice(choice) => knobs.choose(name, choice),
    };
    set.map_err(|why| {
        let known = spec.knobs.iter().find(|knob| knob.name == name);
        let hint = match (known, setting) {
            (None, _) => did_you_mean(name, spec.knobs.iter().map(|knob| knob.name)),
            (Some(knob), KnobSetting::Choice(choice)) => {
                did_you_mean(choice, knob.choices().iter().copied())
            }
            (Some(_), KnobSetting::Number(_)) => String::new(),
        };
        why + &hint
    })
}

/// Static files that are in memory leave nothing for workers to share, so the loops share nothing
/// either; where each partition is one CPU, one loop is all there is to have.
fn by_rule(partitions: &[Partition]) -> (&'static str, Option<String>) {
    let widest = partitions.iter().map(|partition| partition.width).max().unwrap_or(1);
    if widest > 1 {
        let reason = format!("auto: {widest} CPUs, and cached files leave loops nothing to share");
        return ("event-loop-per-core", Some(reason));
    }
    ("event-loop", Some("auto: with one CPU, one loop is enough".into()))
}
