//! `ropewalk engines`: the table of engines, for people and for programs.

use engines::{ENGINES, EngineSpec, Knob, SendfileMode, Values};
use serde_json::{Value, json};

/// A paragraph for each engine, the default first.
pub(crate) fn table() -> String {
    let paragraphs: Vec<String> = ENGINES.iter().map(paragraph).collect();
    let usage = "Choose with --engine NAME, set a knob with --set engine.knobs.KNOB=VALUE.\n";
    format!("{}\n{usage}", paragraphs.join("\n"))
}

fn paragraph(spec: &EngineSpec) -> String {
    let EngineSpec { name, family, paper, about, .. } = spec;
    let knobs: String = spec.knobs.iter().map(knob_line).collect();
    format!("{name}  ({family}; {paper})\n  {about}\n{knobs}")
}

fn knob_line(knob: &Knob) -> String {
    let Knob { name, about, default, .. } = knob;
    format!("    {name} = {}  ({})  {about}\n", knob.show(*default), knob.range())
}

/// The same for programs: an array in the same order.
pub(crate) fn json() -> String {
    let engines: Vec<Value> = ENGINES.iter().map(engine_json).collect();
    format!("{:#}\n", Value::from(engines))
}

fn engine_json(spec: &EngineSpec) -> Value {
    json!({
        "name": spec.name,
        "family": spec.family,
        "paper": spec.paper,
        "about": spec.about,
        "unavailable": (spec.obstacle)(),
        "sendfile": spec.sendfile.iter().map(|mode| sendfile_name(*mode)).collect::<Vec<_>>(),
        "knobs": spec.knobs.iter().map(knob_json).collect::<Vec<_>>(),
    })
}

/// As it is typed for `socket.sendfile`.
fn sendfile_name(mode: SendfileMode) -> &'static str {
    match mode {
        SendfileMode::NonBlocking => "nonblocking",
        SendfileMode::Blocking => "blocking",
        SendfileMode::Probe => "probe",
    }
}

/// A knob has either names to choose from, or a range. Its default is as it is typed.
fn knob_json(knob: &Knob) -> Value {
    let Knob { name, about, values, default } = knob;
    let default = knob.show(*default);
    match values {
        Values::Numbers { min, max } => json!({
            "name": name, "about": about, "default": default, "from": min, "to": max,
        }),
        Values::Names(names) => {
            json!({ "name": name, "about": about, "default": default, "values": names })
        }
    }
}
