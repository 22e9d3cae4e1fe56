//! Which engine serves, with its knobs set. What `auto` stands for is in `auto.rs`.

use engines::{ENGINES, EngineSpec, KnobValues};

use crate::config::{AUTO, Config, ConfigError, KnobSetting, did_you_mean};

/// An engine with its knobs set.
#[derive(Clone, Debug)]
pub(crate) struct EngineChoice {
    /// Its row in the table of engines.
    pub(crate) spec: &'static EngineSpec,
    /// Its knobs.
    pub(crate) knobs: KnobValues,
}

/// Chooses and sets the knobs.
///
/// # Errors
/// An unknown engine, an unknown knob, a value out of range.
pub(crate) fn choose(config: &Config) -> Result<EngineChoice, ConfigError> {
    let settings = &config.settings.engine;
    let name = settings.name.as_str();
    let spec = engines::find(name).ok_or_else(|| {
        let names = ENGINES.iter().map(|spec| spec.name).chain([AUTO]);
        let hint = did_you_mean(name, names);
        let why = format!("unknown engine {name:?}{hint}: see `ropewalk engines`");
        config.unfit("engine.name", why)
    })?;
    let mut knobs = spec.default_knobs();
    for (knob, setting) in &settings.knobs {
        turn(spec, &mut knobs, knob, setting)
            .map_err(|why| config.unfit("engine.knobs", format!("{name}: {why}")))?;
    }
    Ok(EngineChoice { spec, knobs })
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
