//! `ropewalk engines`: formats the table of engines, for people and for programs.

use command::json::{array, object, text, text_or_null};
use engines::{ENGINES, EngineSpec, FORMER_KNOBS, FormerKnob, Knob, Now, SendfileMode, Values};

/// A paragraph for each engine, the default first.
pub(crate) fn table() -> String {
    let paragraphs: Vec<String> = ENGINES.iter().map(paragraph).collect();
    let usage = "Choose with --engine NAME, set a knob with --set engine.knobs.KNOB=VALUE.\n";
    format!("{}\n{usage}", paragraphs.join("\n"))
}

fn paragraph(spec: &EngineSpec) -> String {
    let EngineSpec { name, family, paper, about, applications, moves, .. } = spec;
    let knobs: String = spec.knobs.iter().map(knob_line).collect();
    format!(
        "{name}  ({family}; {paper})\n  {about}; calls applications from {applications}\n  \
         when the server changes, connections {moves}\n{knobs}"
    )
}

fn knob_line(knob: &Knob) -> String {
    let Knob { name, about, default, .. } = knob;
    format!("    {name} = {}  ({})  {about}\n", knob.show(*default), knob.range())
}

/// The table as JSON, for programs: an array of the engines, the default first.
pub(crate) fn json() -> String {
    array(ENGINES.iter().map(engine_json)) + "\n"
}

fn engine_json(spec: &EngineSpec) -> String {
    object([
        ("about", text(spec.about)),
        ("applications", text(spec.applications)),
        ("family", text(spec.family)),
        ("former_knobs", array(former_knobs(spec).map(former_knob_json))),
        ("knobs", array(spec.knobs.iter().map(knob_json))),
        ("moves", text(&spec.moves.to_string())),
        ("name", text(spec.name)),
        ("paper", text(spec.paper)),
        ("sendfile", array(spec.sendfile.iter().map(|mode| text(sendfile_name(*mode))))),
        ("unavailable", text_or_null((spec.obstacle)().as_deref())),
    ])
}

fn former_knobs(spec: &EngineSpec) -> impl Iterator<Item = &'static FormerKnob> {
    FORMER_KNOBS.iter().filter(|former| former.engines.contains(&spec.name))
}

/// A knob of before has another name now, or is gone for a reason.
fn former_knob_json(former: &FormerKnob) -> String {
    let now = match former.now {
        Now::Called(name) => ("called", text(name)),
        Now::Gone(why) => ("gone", text(why)),
    };
    object([("name", text(former.name)), now])
}

/// The name of a mode as it is typed for `socket.sendfile`.
fn sendfile_name(mode: SendfileMode) -> &'static str {
    match mode {
        SendfileMode::NonBlocking => "nonblocking",
        SendfileMode::Blocking => "blocking",
        SendfileMode::Probe => "probe",
        SendfileMode::Off => "off",
    }
}

/// A knob as JSON: it has either names to choose from, or a range. Its default is written as it is
/// typed.
fn knob_json(knob: &Knob) -> String {
    let about = ("about", text(knob.about));
    let default = ("default", text(&knob.show(knob.default)));
    let name = ("name", text(knob.name));
    match knob.values {
        Values::Numbers { min, max } => {
            object([about, default, ("from", min.to_string()), name, ("to", max.to_string())])
        }
        Values::Names(names) => {
            let names = array(names.iter().map(|name| text(name)));
            object([about, default, name, ("values", names)])
        }
    }
}
