//! `ropewalk engines`: the table of engines for people.

use engines::{ENGINES, EngineSpec, Knob};

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
