//! Ropewalk's engines as peers, one for each: made from what a program says of itself
//! (`ropewalk engines --json`) and from the peer that describes how it is started.
//!
//! The table of engines is not linked with: what is measured is always another process.

use crate::knob::Knob;
use crate::peer::Peer;
use crate::process;
use crate::template::Values;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A knob is tried at no more places than this; the engines allow wide ranges.
const GRID_AIM: usize = 12;

/// The template's knob that names the engine, and the one that says how files are sent.
const ENGINE: &str = "engine";
const SENDFILE: &str = "socket.sendfile";

/// What the program says of one engine.
#[derive(Debug, Deserialize)]
struct Engine {
    name: String,
    about: String,
    /// Why it cannot run on this machine, if it cannot.
    unavailable: Option<String>,
    /// The ways to send files that it can afford.
    sendfile: Vec<String>,
    knobs: Vec<EngineKnob>,
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

/// A peer for each engine of `program`, named `ropewalk:ENGINE`. An engine that cannot run on this
/// machine is among them, with the obstacle. Besides those of the template each has the engine's
/// knobs, under the names of the configuration's keys.
///
/// # Errors
/// One line: the program does not say what its engines are.
pub fn ropewalk_peers(program: &Path, template: &Peer) -> Result<Vec<Peer>, String> {
    let command = [program.display().to_string(), "engines".into(), "--json".into()];
    let peer = at(program, template);
    made(&process::output(&command, None)?, &peer)
        .map_err(|why| format!("{}: {why}", command.join(" ")))
}

/// The peers of what a program says.
fn made(said: &str, peer: &Peer) -> Result<Vec<Peer>, String> {
    let engines: Vec<Engine> = serde_json::from_str(said).map_err(|why| why.to_string())?;
    Ok(engines.into_iter().map(|engine| of_engine(engine, peer)).collect())
}

/// The template with a program that is there already.
pub(crate) fn at(program: &Path, template: &Peer) -> Peer {
    let mut peer = Peer { build: None, ..template.clone() };
    for command in [&mut peer.start.command, &mut peer.detect.command] {
        if let Some(first) = command.first_mut() {
            *first = program.display().to_string();
        }
    }
    peer
}

fn of_engine(engine: Engine, template: &Peer) -> Peer {
    let mut peer = template.clone();
    peer.name = format!("{}:{}", template.name, engine.name);
    peer.description = engine.about;
    if engine.unavailable.is_some() {
        peer.package = "ropewalk doctor".into();
    }
    peer.obstacle = engine.unavailable;
    peer.knobs.remove(ENGINE);
    let place = format!("{{{ENGINE}}}");
    for word in &mut peer.start.command {
        *word = word.replace(&place, &engine.name);
    }
    if let Some(knob) = peer.knobs.get_mut(SENDFILE) {
        knob.values.retain(|value| *value == knob.default || engine.sendfile.contains(value));
    }
    for knob in engine.knobs {
        let key = format!("engine.knobs.{}", knob.name);
        peer.start.command.extend(["--set".into(), format!("{key}={{{key}}}")]);
        peer.knobs.insert(key, knob.into());
    }
    peer
}

impl From<EngineKnob> for Knob {
    fn from(said: EngineKnob) -> Self {
        let EngineKnob { about, default, values, from, to, .. } = said;
        let mut factor = from.map(|_| 2);
        let of = |factor| Self {
            about: about.clone(),
            default: default.clone(),
            values: values.clone(),
            from,
            to,
            step: None,
            factor,
            tuned: None,
        };
        while factor.is_some() && of(factor).grid().len() > GRID_AIM {
            factor = factor.map(|factor| factor * 2);
        }
        of(factor)
    }
}

/// The configuration file that says the same as the command of a peer made here, as far as it is
/// of knobs and of what is served: `serve DIRECTORY`, `--engine NAME`, `--set SECTION.KEY=VALUE`.
/// `more` are lines that come after the sections.
pub fn configuration_file(command: &[String], knobs: &Values, more: &str) -> String {
    let mut sections: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut host = String::new();
    for pair in command.windows(2) {
        match pair[0].as_str() {
            "serve" => host = format!("[[host]]\nroot = {}\n", toml::Value::from(pair[1].as_str())),
            "--engine" => sections.entry("engine").or_default().push(("name", &pair[1])),
            "--set" => {
                let Some((path, value)) = pair[1].split_once('=') else { continue };
                let Some((section, key)) = path.rsplit_once('.') else { continue };
                if knobs.contains_key(path) {
                    sections.entry(section).or_default().push((key, value));
                }
            }
            _ => {}
        }
    }
    let mut text = String::new();
    for (section, keys) in sections {
        let lines = keys.iter().map(|(key, value)| format!("{key} = {}\n", toml_value(value)));
        text += &format!("[{section}]\n{}\n", lines.collect::<String>());
    }
    let more = more.trim();
    let more = if more.is_empty() { String::new() } else { format!("{more}\n\n") };
    text + &more + &host
}

/// Numbers and switches as they are, anything else in quotes.
fn toml_value(text: &str) -> String {
    match text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok() {
        true => text.to_owned(),
        false => toml::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Peer {
        Peer::parse(include_str!("../../../peers/ropewalk.toml")).expect("it is right")
    }

    #[test]
    fn an_engine_becomes_a_peer() {
        let json = r#"[
            {"name": "loop", "about": "a loop", "unavailable": null, "sendfile": ["nonblocking"],
             "knobs": [
                {"name": "chunk", "about": "c", "default": "64", "from": 1, "to": 1048576},
                {"name": "events", "about": "e", "default": "epoll", "values": ["epoll", "poll"]}]},
            {"name": "rings", "about": "r", "unavailable": "not permitted", "sendfile": [],
             "knobs": []}]"#;
        let peers = made(json, &at(Path::new("/bin/ropewalk"), &template())).expect("it is right");
        let [a_loop, rings] = &peers[..] else { panic!("{peers:?}") };
        assert_eq!((a_loop.name.as_str(), a_loop.obstacle.as_deref()), ("ropewalk:loop", None));
        assert_eq!(rings.obstacle.as_deref(), Some("not permitted"));
        let words = a_loop.start.command.join(" ");
        assert!(words.starts_with("/bin/ropewalk serve "), "{words}");
        assert!(words.contains(" --engine loop "), "{words}");
        assert!(words.ends_with(" --set engine.knobs.events={engine.knobs.events}"), "{words}");
        assert!(!a_loop.knobs.contains_key(ENGINE) && a_loop.build.is_none());
        assert_eq!(a_loop.knobs["engine.knobs.events"].grid(), ["epoll", "poll"]);
        assert_eq!(a_loop.knobs[SENDFILE].grid(), ["auto", "nonblocking"]);
        let chunks = a_loop.knobs["engine.knobs.chunk"].grid();
        let expected = ["1", "4", "16", "64", "256", "1024", "4096", "16384"];
        assert_eq!(chunks[..8], expected);
        assert_eq!((chunks.len(), chunks[10].as_str()), (11, "1048576"));
    }

    #[test]
    fn a_command_becomes_a_configuration() {
        let command = "ropewalk serve /r --engine loop --set timeouts.idle_ms=600000 \
                       --set cache.policy=lru --set engine.knobs.chunk=64 --set cache.bytes_max=7";
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let keys = ["cache.policy", "engine.knobs.chunk", "cache.bytes_max"];
        let knobs = keys.map(|key| (key.to_owned(), String::new())).into();
        let text = configuration_file(&command, &knobs, "\n");
        let expected = "[cache]\npolicy = \"lru\"\nbytes_max = 7\n\n[engine]\nname = \"loop\"\n\n\
                        [engine.knobs]\nchunk = 64\n\n[[host]]\nroot = \"/r\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_program_that_is_something_else_is_named() {
        let why = ropewalk_peers(Path::new("echo"), &template()).expect_err("it echoes");
        assert!(why.starts_with("echo engines --json: expected value"), "{why}");
    }
}
