//! `ropewalk servers`: which servers the lab can compare, which of them are installed here, and
//! which knobs they have.

use clap::Args;
use command::{Failure, print};
use lab::{Found, Installed, Knob, ServerDescription, Setting, Skipped, SourceTree};
use serde_json::{Value, json};

use crate::lab_options::KnownServers;

pub(crate) const SERVERS_EXAMPLES: &str = "\
Examples:
  ropewalk servers
  ropewalk servers nginx ropewalk:staged       with their settings and knobs";

pub(crate) const SERVERS_HELP: &str = "\
With names, their settings and knobs are listed too, each knob with the values
that a tuner tries. A server of your own is one file: see servers/README.md.

Exit status:
  0  success
  1  the list could not be printed
  2  wrong usage, or a description with a mistake

Examples:
  ropewalk servers
  ropewalk servers nginx ropewalk:staged       with their settings and knobs
  ropewalk servers --servers my-servers --json";

#[derive(Args)]
pub(crate) struct ServersArguments {
    /// Only these; all, if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    known: KnownServers,
    /// First build those that come as source
    #[arg(long)]
    build: bool,
    /// Print JSON: an array of objects
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(arguments: &ServersArguments) -> Result<(), Failure> {
    let descriptions = arguments.known.descriptions()?;
    let source_tree = SourceTree::find(arguments.build);
    let found =
        Found::detect(&descriptions, &arguments.names, &source_tree).map_err(Failure::Usage)?;
    let lines: Vec<Line<'_>> =
        descriptions.iter().filter_map(|description| Line::find(description, &found)).collect();
    if arguments.json {
        let objects: Vec<Value> = lines.iter().map(Line::json).collect();
        return print(&format!("{:#}\n", Value::from(objects)));
    }
    let is_detailed = !arguments.names.is_empty();
    print(&lines.iter().map(|line| line.paragraph(is_detailed)).collect::<Vec<_>>().join("\n"))
}

/// A server of the list.
struct Line<'f> {
    description: &'f ServerDescription,
    state: Result<&'f Installed, &'f Skipped>,
}

impl<'f> Line<'f> {
    fn find(description: &'f ServerDescription, found: &'f Found) -> Option<Self> {
        let installed =
            found.installed.iter().find(|there| there.description.name == description.name);
        let skipped = || found.skipped.iter().find(|skipped| skipped.name == description.name);
        let state = installed.map_or_else(|| skipped().map(Err), |there| Some(Ok(there)))?;
        Some(Self { description, state })
    }

    fn paragraph(&self, is_detailed: bool) -> String {
        let ServerDescription { name, description, notes, .. } = self.description;
        let head = match self.state {
            Ok(Installed { version, .. }) => format!("{name} {version}\n  {description}\n"),
            Err(Skipped { reason, command, .. }) => {
                format!("{name}: not available: {reason}\n  {description}\n  fix: {command}\n")
            }
        };
        let notes = notes.iter().map(|notes| format!("  {notes}\n"));
        if !is_detailed {
            return head;
        }
        let settings = self.description.settings.iter().map(setting_line);
        let knobs = self.description.knobs.iter().map(|(name, knob)| knob_line(name, knob));
        head + &notes.chain(settings).chain(knobs).collect::<String>()
    }

    fn json(&self) -> Value {
        let description = self.description;
        let setting =
            |one: &Setting| json!({ "name": one.name, "about": one.about, "knobs": one.knobs });
        let knob = |(name, knob): (&String, &Knob)| {
            let grid = knob.grid();
            let tuned = knob.is_tuned();
            json!({
                "name": name, "about": knob.about, "default": knob.default, "grid": grid,
                "tuned": tuned,
            })
        };
        let mut object = json!({
            "name": description.name,
            "description": description.description,
            "notes": description.notes,
            "settings": description.settings.iter().map(setting).collect::<Vec<_>>(),
            "knobs": description.knobs.iter().map(knob).collect::<Vec<_>>(),
        });
        match self.state {
            Ok(there) => object["version"] = json!(there.version),
            Err(Skipped { reason, command, .. }) => {
                object["skipped"] = json!({ "reason": reason, "command": command });
            }
        }
        object
    }
}

fn setting_line(setting: &Setting) -> String {
    let Setting { name, about, knobs } = setting;
    let turned: Vec<String> =
        knobs.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
    let turned =
        if turned.is_empty() { String::new() } else { format!("  ({})", turned.join(", ")) };
    format!("    setting {name}: {about}{turned}\n")
}

fn knob_line(name: &str, knob: &Knob) -> String {
    let Knob { about, default, .. } = knob;
    let named = if knob.tuned == Some(false) { "; tuned only if it is named" } else { "" };
    format!("    {name} = {default:?}  ({}{named})  {about}\n", knob.grid().join(", "))
}
