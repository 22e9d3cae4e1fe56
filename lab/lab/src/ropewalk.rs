//! Ropewalk's engines as servers, one for each: made from a program's list of its engines
//! (`ropewalk engines --json`) and from the server whose file describes how it is started.
//!
//! The table of engines is not linked with: the server under test is always another process.

use crate::install::{self, Installed};
use crate::knob::Knob;
use crate::process;
use crate::server::{Launch, values};
use crate::server_description::{FormerKnob, ServerDescription, Setting};
use crate::template::{Values, names};
use serde::Deserialize;
use std::path::Path;
use toml::{Table, Value};

/// A knob is tried at no more values than this; the engines allow wide ranges.
const GRID_AIM: usize = 12;

/// The template's knob that names the engine, and the knob that says how files are sent.
const ENGINE: &str = "engine";
const SENDFILE: &str = "socket.sendfile";

/// The key of the configuration that names the engine.
const ENGINE_NAME: &str = "engine.name";

/// The file from which the server reads its configuration.
const FILE: &str = "ropewalk.toml";

/// Knobs of engines that change the address at which clients connect. They are varied only if they
/// are named: in a tuning all clients connect to one address, and a copy at another one would have
/// no clients.
const OF_ADDRESSES: &[&str] = &["ports"];

/// What the program says of one engine.
#[derive(Debug, Deserialize)]
struct Engine {
    name: String,
    about: String,
    /// Why it cannot run on this machine, if it cannot.
    unavailable: Option<String>,
    /// The ways of sending files that the engine can use.
    sendfile: Vec<String>,
    knobs: Vec<EngineKnob>,
    #[serde(default)]
    former_knobs: Vec<EngineFormerKnob>,
}

/// What the program says of a former knob of an engine.
#[derive(Debug, Deserialize)]
struct EngineFormerKnob {
    name: String,
    #[serde(flatten)]
    now: FormerKnob,
}

/// What the program says of a knob of an engine.
#[derive(Debug, Deserialize)]
struct EngineKnob {
    name: String,
    about: String,
    default: String,
    #[serde(default)]
    values: Vec<String>,
    from: Option<u64>,
    to: Option<u64>,
}

/// A server for each engine of `program`, named `ropewalk:ENGINE`. An engine that cannot run on
/// this machine is among them, with the obstacle. Besides the knobs of the template each server has
/// the engine's knobs, under the names of the configuration's keys.
///
/// # Errors
/// One line: the program does not list its engines.
pub fn engine_descriptions(
    program: &Path,
    template: &ServerDescription,
) -> Result<Vec<ServerDescription>, String> {
    let command = [program.display().to_string(), "engines".into(), "--json".into()];
    let description = with_program(program, template);
    let said = process::run(&command, None).map_err(|why| why.to_string())?;
    parse_engines(&said, &description).map_err(|why| format!("{}: {why}", command.join(" ")))
}

/// The servers for the engines that a program has listed.
fn parse_engines(
    said: &str,
    description: &ServerDescription,
) -> Result<Vec<ServerDescription>, String> {
    let engines: Vec<Engine> = serde_json::from_str(said).map_err(|why| why.to_string())?;
    Ok(engines.into_iter().map(|engine| engine_description(engine, description)).collect())
}

/// The template with a program that is there already.
pub(crate) fn with_program(program: &Path, template: &ServerDescription) -> ServerDescription {
    let mut description =
        ServerDescription { build: None, program: Some(program.to_owned()), ..template.clone() };
    for command in [&mut description.start.command, &mut description.detect.command] {
        if let Some(first) = command.first_mut() {
            *first = program.display().to_string();
        }
    }
    description
}

fn engine_description(engine: Engine, template: &ServerDescription) -> ServerDescription {
    let mut description = ServerDescription { notices: Vec::new(), ..template.clone() };
    description.name = format!("{}:{}", template.name, engine.name);
    description.description = engine.about;
    if engine.unavailable.is_some() {
        description.package = "ropewalk doctor".into();
    }
    description.obstacle = engine.unavailable;
    description.knobs.remove(ENGINE);
    let place = format!("{{{ENGINE}}}");
    let start = &mut description.start;
    for word in start.command.iter_mut().chain(start.set.values_mut()) {
        *word = word.replace(&place, &engine.name);
    }
    if let Some(knob) = description.knobs.get_mut(SENDFILE) {
        knob.values.retain(|value| *value == knob.default || engine.sendfile.contains(value));
    }
    for knob in engine.knobs {
        let key = format!("engine.knobs.{}", knob.name);
        description.start.set.insert(key.clone(), format!("{{{key}}}"));
        description.knobs.insert(key, knob.into());
    }
    for EngineFormerKnob { name, now } in engine.former_knobs {
        let key = |name: &str| format!("engine.knobs.{name}");
        let now = match now {
            FormerKnob::Called(name) => FormerKnob::Called(key(&name)),
            gone @ FormerKnob::Gone(_) => gone,
        };
        description.former_knobs.insert(key(&name), now);
    }
    description
}

impl From<EngineKnob> for Knob {
    fn from(said: EngineKnob) -> Self {
        let EngineKnob { name, about, default, values, from, to } = said;
        let mut factor = from.map(|_| 2);
        let knob = |factor| Self {
            about: about.clone(),
            default: default.clone(),
            values: values.clone(),
            from,
            to,
            step: None,
            factor,
            tuned: OF_ADDRESSES.contains(&name.as_str()).then_some(false),
        };
        while factor.is_some() && knob(factor).grid().len() > GRID_AIM {
            factor = factor.map(|factor| factor * 2);
        }
        knob(factor)
    }
}

/// The file that configures a server alone as its command and the file it reads do together, under
/// one of its settings, in `work_dir` and on `port`: the file's name and content. None for another
/// server than Ropewalk, and for a description whose keys are words of its command: the engine is
/// not among those that are set then.
///
/// # Errors
/// One line: a placeholder has no value, the file that the server reads is no TOML, or it has a
/// value where there should be a section.
pub fn configuration_file(
    installed: &Installed,
    setting: &Setting,
    launch: &Launch,
    (port, work_dir): (u16, &Path),
) -> Result<Option<(String, String)>, String> {
    let description = &installed.description;
    let set = &description.start.set;
    let mut files = description.files.iter().filter(|_| set.contains_key(ENGINE_NAME));
    let Some(read) = files.find(|file| file.path == FILE) else { return Ok(None) };
    let values = values(description, setting, launch, port, work_dir)?;
    let text = merged(&install::fill(&read.text, &values)?, &values, set)?;
    Ok(Some((FILE.into(), text)))
}

/// What the server reads, with the root, the address and the keys that its command sets, which
/// override what the file says.
fn merged(read: &str, values: &Values, set: &Values) -> Result<String, String> {
    let mut file = toml_reader::table(read).map_err(|why| format!("{FILE}: {why}"))?;
    put_root(&mut file, &values["root"])?;
    let address = format!("{}:{}", values["listen"], values["port"]);
    put(&mut file, "listen", vec![address].into())?;
    for (key, value) in set {
        put(&mut file, key, toml_value(&install::fill(value, values)?))?;
    }
    let text = toml::to_string(&file).map_err(|why| format!("{FILE}: {why}"))?;
    let is_fixed =
        |(key, value): &(&String, &String)| *key != ENGINE_NAME && names(value).next().is_none();
    let fixed: Vec<&str> = set.iter().filter(is_fixed).map(|(key, _)| key.as_str()).collect();
    Ok(format!("{}{text}", head(&fixed)))
}

/// The comment that names what was set for the measurement alone.
fn head(fixed: &[&str]) -> String {
    let all = "# As it was measured.";
    match fixed {
        [] => format!("{all}\n"),
        _ => format!("{all} Equal in all runs, and no knob: {}.\n", fixed.join(", ")),
    }
}

/// Sets the key `a.b.c` in its section, and replaces an earlier value.
fn put(file: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let Some((section, rest)) = key.split_once('.') else {
        file.insert(key.to_owned(), value);
        return Ok(());
    };
    let within = file.entry(section).or_insert_with(|| Table::new().into());
    let wrong = || format!("{FILE}: {section:?} should be a section");
    put(within.as_table_mut().ok_or_else(wrong)?, rest, value)
}

/// Makes a directory the root of the only host.
fn put_root(file: &mut Table, root: &str) -> Result<(), String> {
    let hosts = file.entry("host").or_insert_with(|| vec![Table::new()].into());
    let [Value::Table(host)] = hosts.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default()
    else {
        return Err(format!("{FILE}: there should be one [[host]], or none"));
    };
    host.insert("root".into(), root.into());
    Ok(())
}

/// Parses a value as the server parses what follows `--set`: TOML, or else a string that has lost
/// its quotes.
fn toml_value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("v = {text}")).ok();
    parsed.and_then(|mut table| table.remove("v")).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> ServerDescription {
        ServerDescription::parse(include_str!("../../../servers/ropewalk.toml"))
            .expect("it is right")
    }

    #[test]
    fn an_engine_becomes_a_server() {
        let json = r#"[
            {"name": "loop", "about": "a loop", "unavailable": null, "sendfile": ["nonblocking"],
             "former_knobs": [{"name": "piece", "called": "chunk"}, {"name": "a", "gone": "why"}],
             "knobs": [
                {"name": "chunk", "about": "c", "default": "64", "from": 1, "to": 1048576},
                {"name": "ports", "about": "p", "default": "0", "from": 0, "to": 1},
                {"name": "events", "about": "e", "default": "epoll", "values": ["epoll", "poll"]}]},
            {"name": "rings", "about": "r", "unavailable": "not permitted", "sendfile": [],
             "knobs": []}]"#;
        let descriptions =
            parse_engines(json, &with_program(Path::new("/bin/ropewalk"), &template()))
                .expect("it is right");
        let [a_loop, rings] = &descriptions[..] else { panic!("{descriptions:?}") };
        assert_eq!((a_loop.name.as_str(), a_loop.obstacle.as_deref()), ("ropewalk:loop", None));
        assert_eq!(rings.obstacle.as_deref(), Some("not permitted"));
        let words = a_loop.start.words().join(" ");
        assert!(words.starts_with("/bin/ropewalk serve "), "{words}");
        assert!(words.contains(" --set engine.name=loop "), "{words}");
        assert!(words.contains(" --set engine.knobs.events={engine.knobs.events} "), "{words}");
        assert!(!a_loop.knobs.contains_key(ENGINE) && a_loop.build.is_none());
        assert_eq!(a_loop.knobs["engine.knobs.events"].grid(), ["epoll", "poll"]);
        let ports = &a_loop.knobs["engine.knobs.ports"];
        assert_eq!((ports.grid().len(), ports.is_tuned()), (2, false));
        assert_eq!(a_loop.knobs[SENDFILE].grid(), ["auto", "nonblocking"]);
        let chunks = a_loop.knobs["engine.knobs.chunk"].grid();
        let expected = ["1", "4", "16", "64", "256", "1024", "4096", "16384"];
        assert_eq!(chunks[..8], expected);
        assert_eq!((chunks.len(), chunks[10].as_str()), (11, "1048576"));
        let former = |name: &str| &a_loop.former_knobs[&format!("engine.knobs.{name}")];
        assert_eq!(former("piece"), &FormerKnob::Called("engine.knobs.chunk".into()));
        assert_eq!(former("a"), &FormerKnob::Gone("why".into()));
    }

    /// The file of a server that serves `/r` by the engine `loop`, and reads `more`.
    fn file(more: &str) -> Result<String, String> {
        let values = |all: &[(&str, &str)]| -> Values {
            all.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let set = values(&[
            ("engine.name", "loop"),
            ("timeouts.idle_ms", "600000"),
            ("cache.policy", "{cache.policy}"),
            ("engine.knobs.chunk", "{engine.knobs.chunk}"),
            ("cache.bytes_max", "{cache.bytes_max}"),
        ]);
        let values = values(&[
            ("root", "/r"),
            ("listen", "127.0.0.1"),
            ("port", "80"),
            ("cache.policy", "lru"),
            ("engine.knobs.chunk", "64"),
            ("cache.bytes_max", "7"),
        ]);
        merged(more, &values, &set)
    }

    const EXPECTED: &str = "\
# As it was measured. Equal in all runs, and no knob: timeouts.idle_ms.
listen = [\"127.0.0.1:80\"]

[cache]
bytes_max = 7
policy = \"lru\"

[engine]
name = \"loop\"

[engine.knobs]
chunk = 64

[[host]]
root = \"/r\"

[timeouts]
idle_ms = 600000
";

    #[test]
    fn a_command_becomes_a_configuration() {
        assert_eq!(file("\n").as_deref(), Ok(EXPECTED));
        // The command overrides what the file says of the same keys.
        let same = "listen = ['a', 'b']\ncache.policy = 'clock'\n[[host]]\nroot = '/'";
        assert_eq!(file(same).as_deref(), Ok(EXPECTED));
    }

    #[test]
    fn further_lines_go_where_they_belong() {
        let partitions = "\n[partitions]\ncount = 2\n\n[timeouts]";
        let expected = EXPECTED.replace("\n[timeouts]", partitions);
        assert_eq!(file("partitions.count=2"), Ok(expected.clone()));
        assert_eq!(file("[partitions]\ncount = 2"), Ok(expected));
        let expected = EXPECTED.replace("7\npolicy", "7\nentries_max = 9\npolicy");
        assert_eq!(file("[cache]\nentries_max = 9"), Ok(expected));
        let expected = EXPECTED.replace("[[host]]\n", "[[host]]\nindex = [\"a\"]\n");
        assert_eq!(file("[[host]]\nindex = ['a']"), Ok(expected));
    }

    #[test]
    fn further_lines_that_fit_nowhere_are_named() {
        let check = |more: &str, expected: &str| {
            let why = file(more).expect_err(more);
            assert!(why.starts_with(expected) && !why.contains('\n'), "{why}");
        };
        check("[cache", "ropewalk.toml: line 1: ");
        check("cache = 1", "ropewalk.toml: \"cache\" should be a section");
        check("[[host]]\n[[host]]", "ropewalk.toml: there should be one [[host]], or none");
    }

    #[test]
    fn a_program_that_is_something_else_is_named() {
        let why = engine_descriptions(Path::new("echo"), &template()).expect_err("it echoes");
        assert!(why.starts_with("echo engines --json: expected value"), "{why}");
    }
}
