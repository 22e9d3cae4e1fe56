//! Which engine serves, with its knobs set. What `auto` chooses is in `auto.rs`.

use command::near::{hint, nearest};
use engines::{ENGINES, EngineSpec, FormerKnob, KnobValues, Now};

use crate::config::{AUTO, Config, ConfigError, KnobSetting, did_you_mean};

/// An engine with its knobs set.
#[derive(Clone, Debug)]
pub(crate) struct EngineChoice {
    /// Its row in the table of engines.
    pub(crate) spec: &'static EngineSpec,
    /// Its knobs.
    pub(crate) knobs: KnobValues,
    /// What became of knobs of earlier versions, a line each.
    pub(crate) notices: Vec<String>,
}

/// Finds the configured engine and sets its knobs.
///
/// # Errors
/// An unknown engine, an unknown knob, a value out of range.
pub(crate) fn choose(config: &Config) -> Result<EngineChoice, ConfigError> {
    let settings = &config.settings.engine;
    let name = settings.name.as_str();
    let spec = engines::find(name).ok_or_else(|| {
        let names = ENGINES.iter().map(|spec| spec.name).chain([AUTO]);
        let near = nearest(name, names.clone());
        let remedy = match near {
            None => format!("it must be one of {}", names.collect::<Vec<_>>().join(", ")),
            Some(_) => "see `ropewalk engines`".into(),
        };
        config.unfit("engine.name", format!("unknown engine {name:?}{}: {remedy}", hint(near)))
    })?;
    let (mut knobs, mut notices) = (spec.default_knobs(), Vec::new());
    for (knob, setting) in &settings.knobs {
        let former = FormerKnob::find(spec.name, knob);
        notices.extend(former.map(notice));
        let knob = match former.map(|former| &former.now) {
            None => knob,
            Some(Now::Called(name)) => *name,
            Some(Now::Gone(_)) => continue,
        };
        set_knob(spec, &mut knobs, knob, setting)
            .map_err(|why| config.unfit("engine.knobs", format!("{name}: {why}")))?;
    }
    Ok(EngineChoice { spec, knobs, notices })
}

/// The message about a knob of an earlier version.
fn notice(former: &FormerKnob) -> String {
    let name = former.name;
    match former.now {
        Now::Called(now) => {
            format!("engine.knobs.{name} is called {now} now; the old name is read until 0.2")
        }
        Now::Gone(why) => format!("engine.knobs.{name} has no effect any more: {why}"),
    }
}

/// Sets one knob. The error for a name that is nearly right suggests the right one.
fn set_knob(
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
