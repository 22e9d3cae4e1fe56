//! A web server as a file describes it. The format is documented in `servers/README.md`.
//!
//! Reading and checking only: no server is looked for or started here.

use crate::former_names::rename_in_description;
use crate::knob::Knob;
use crate::record::Program;
use crate::template::{self, PLACES, Values, check_value};
use command::renamed;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One web server: how to find, configure, start and stop it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDescription {
    /// What reports call it; the file's name without `.toml`.
    pub name: String,
    /// Its architecture in a line.
    pub description: String,
    /// The command that installs it where it is absent.
    pub package: String,
    /// What a reader of its results should know.
    pub notes: Option<String>,
    /// How to build it, for servers that come as source.
    pub build: Option<Build>,
    /// How to find out whether it is installed, and in which version.
    pub detect: Detect,
    /// What can be varied: a knob's name is a placeholder in `files` and `start`.
    #[serde(default)]
    pub knobs: BTreeMap<String, Knob>,
    /// Named choices of knob values; the first is the usual one.
    pub settings: Vec<Setting>,
    /// Configuration files, written to the working directory before the start.
    #[serde(default)]
    pub files: Vec<ConfigurationFile>,
    /// How to start it, in the foreground.
    pub start: Start,
    /// What it hands requests on to, for servers that are a front of an application.
    pub application: Option<Application>,
    /// How to find out that it serves.
    #[serde(default)]
    pub ready: Ready,
    /// How to stop it.
    pub stop: Stop,
    /// The folder its file lies in; none if it came with this program.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    /// Its program, if the lab found that itself.
    #[serde(skip)]
    pub program: Option<PathBuf>,
    /// Knobs that it had before, by their names.
    #[serde(skip)]
    pub former_knobs: BTreeMap<String, FormerKnob>,
    /// Former names in its file, a line each.
    #[serde(skip)]
    pub notices: Vec<String>,
    /// Why it cannot run on this machine although it is installed, where that is known.
    #[serde(skip)]
    pub obstacle: Option<String>,
}

/// A command that makes the server from its source; quick when there is nothing to do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where to run it.
    pub folder: String,
    /// What must be there to build it; none: that is not known.
    pub needs: Option<Needs>,
}

/// A tool that builds a server, and the version of it that will do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// What it is called.
    pub tool: String,
    /// The command that prints its version, in the folder of the build.
    pub command: Vec<String>,
    /// The version is the word that follows this text in the output.
    pub version_after: String,
    /// The first version that will do: `1.23`.
    pub at_least: String,
}

/// A command that succeeds where the server is installed and prints its version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detect {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The version is the word that follows this text in the output.
    pub version_after: String,
}

/// A named choice of knob values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What reports call it.
    pub name: String,
    /// What it is in a line.
    pub about: String,
    /// The knobs that differ from their defaults.
    #[serde(default)]
    pub knobs: Values,
}

/// What has become of a former knob.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormerKnob {
    /// The knob has this name now.
    Called(String),
    /// The knob has gone, for this reason.
    Gone(String),
}

/// A file written before the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationFile {
    /// Its name in the working directory.
    pub path: String,
    /// Its content, with placeholders.
    pub text: String,
}

/// The command that serves, in the foreground.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Program and arguments, with placeholders.
    pub command: Vec<String>,
    /// Keys of Ropewalk's configuration and their values, with placeholders: each adds
    /// `--set KEY=VALUE` to the command.
    #[serde(default)]
    pub set: Values,
    /// Variables added to the environment, with placeholders.
    #[serde(default)]
    pub environment: Values,
    /// What its workers are, so that each can have a CPU of its own; none: that is not known.
    pub workers: Option<Workers>,
}

impl Start {
    /// Program and arguments, with placeholders, and what is set.
    pub(crate) fn words(&self) -> Vec<String> {
        let set =
            self.set.iter().flat_map(|(key, value)| ["--set".into(), format!("{key}={value}")]);
        self.command.iter().cloned().chain(set).collect()
    }
}

/// What the workers of a server are, as far as binding them to CPUs is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workers {
    /// All its processes but the first, or the first where there is no other: they are bound from
    /// outside.
    Processes,
    /// The threads of those processes that are the same program as the first, which are bound from
    /// outside.
    Threads,
    /// The server binds its workers itself, as far as `{pins}` says.
    Bound,
    /// The server has no workers that could be bound, and why.
    Unbindable(String),
}

impl Workers {
    /// What the file says its workers are, if they can be bound.
    ///
    /// # Errors
    /// Why the server's workers cannot have a CPU each, in a line.
    pub fn bindable(said: Option<&Self>) -> Result<&Self, String> {
        match said {
            Some(Self::Unbindable(why)) => Err(why.clone()),
            Some(workers) => Ok(workers),
            None => Err("its file does not say what its workers are (start.workers)".into()),
        }
    }
}

/// A process that a server hands requests on to. It is started before the server, and nothing that
/// it uses is counted as the server's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// A command that succeeds where it is installed.
    pub detect: Vec<String>,
    /// Program and arguments, with placeholders; in the foreground.
    pub command: Vec<String>,
    /// The socket in the file system at which it listens; none: it listens at `{application_port}`.
    pub socket: Option<String>,
}

/// When a started server counts as serving: it answers a GET with 200.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// How long that may take, in milliseconds.
    pub within_ms: u64,
}

impl Default for Ready {
    fn default() -> Self {
        Self { within_ms: 5000 }
    }
}

/// How to end a server. Processes left in its control group afterwards are killed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// A signal's name without `SIG`, sent to the first process.
    pub signal: String,
    /// How long it may take, in milliseconds.
    #[serde(default = "stop_within_ms")]
    pub within_ms: u64,
}

fn stop_within_ms() -> u64 {
    2000
}

impl ServerDescription {
    /// Reads one server. The file must be named like the server.
    ///
    /// # Errors
    /// One line: the file cannot be read, or its content makes no sense.
    pub fn read(path: &Path) -> Result<Self, String> {
        let explain = |why: String| format!("{}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|why| explain(why.to_string()))?;
        let description = Self::parse(&text).map_err(explain)?;
        if path.file_stem().is_none_or(|stem| *stem != *description.name) {
            return Err(explain(format!(
                "it is named {:?}, but its file is not",
                description.name
            )));
        }
        Ok(Self { folder: path.parent().map(Path::to_owned), ..description })
    }

    /// Reads all servers of a folder, in the order of their names.
    ///
    /// # Errors
    /// The errors of [`ServerDescription::read`], or when the folder cannot be listed.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, String> {
        let listed = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let mut paths: Vec<_> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        paths.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Reads the text of a server's file and checks it.
    ///
    /// # Errors
    /// One line: what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, notices) = rename_in_description(text);
        let description: Self = toml_reader::read(&text)?;
        description.check()?;
        Ok(Self { notices, ..description })
    }

    /// The knobs' values under `setting`.
    pub fn knob_values(&self, setting: &Setting) -> Values {
        let defaults = self.knobs.iter().map(|(name, knob)| (name.clone(), knob.default.clone()));
        let chosen = setting.knobs.iter().map(|(name, value)| (name.clone(), value.clone()));
        defaults.chain(chosen).collect()
    }

    /// Its program, as records have it; unknown of a server that the system has installed.
    pub fn recorded_program(&self) -> Program {
        self.program.as_deref().map_or_else(Program::default, Program::read)
    }

    /// Knobs as they were typed, under their names of today. A knob that has gone makes no
    /// difference any more, and is left out.
    pub fn knobs_of_today(&self, typed: &Values) -> Values {
        let of_today = |(name, value): (&String, &String)| {
            let name = match self.former_knobs.get(name) {
                Some(FormerKnob::Called(now)) => now,
                Some(FormerKnob::Gone(_)) => return None,
                None => name,
            };
            Some((name.clone(), rename_in_description(value).0))
        };
        typed.iter().filter_map(of_today).collect()
    }

    /// What has become of knobs that were typed, a line for each that was changed.
    pub fn knob_notices(&self, typed: &Values) -> Vec<String> {
        let notice = |name: &String| match self.former_knobs.get(name)? {
            FormerKnob::Called(now) => Some(renamed(name, now)),
            FormerKnob::Gone(why) => Some(format!("{name} has no effect any more: {why}")),
        };
        let values = typed.values().flat_map(|value| rename_in_description(value).1);
        typed.keys().filter_map(notice).chain(values).collect()
    }

    fn check(&self) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            return Err(format!("its name {:?} has more than letters, digits, -_.", self.name));
        }
        if self.settings.is_empty() {
            return Err("it has no [[settings]]".into());
        }
        let needs = self.build.iter().filter_map(|build| build.needs.as_ref());
        if let Some(needs) = needs.into_iter().find(|needs| numbers(&needs.at_least).is_empty()) {
            return Err(format!("at_least = {:?} is no version: 1.23 is", needs.at_least));
        }
        if !os::signals::is_name(&self.stop.signal) {
            return Err(format!("no signal is called {:?}: TERM, QUIT are", self.stop.signal));
        }
        self.knobs.iter().try_for_each(|(name, knob)| self.check_knob(name, knob))?;
        self.settings.iter().try_for_each(|setting| self.check_setting(setting))?;
        for name in self.templates().flat_map(template::names) {
            if name == "application_port" && self.application.is_none() {
                return Err(format!("{{{name}}} stands for nothing without an [application]"));
            }
            if !PLACES.contains(&name) && !self.knobs.contains_key(name) {
                return Err(format!("{{{name}}} is no known placeholder"));
            }
        }
        Ok(())
    }

    fn check_knob(&self, name: &str, knob: &Knob) -> Result<(), String> {
        if PLACES.contains(&name) {
            return Err(format!("the knob {name:?} has a name that is taken"));
        }
        if !self.templates().flat_map(template::names).any(|used| used == name) {
            return Err(format!("the knob {name:?} is used nowhere"));
        }
        check_value(&knob.default).map_err(|why| format!("the knob {name:?}: {why}"))?;
        knob.check().map_err(|why| format!("the knob {name:?}: {why}"))
    }

    fn check_setting(&self, setting: &Setting) -> Result<(), String> {
        for (name, value) in &setting.knobs {
            let setting_name = &setting.name;
            let knob = self.knobs.get(name);
            let knob =
                knob.ok_or(format!("setting {setting_name:?} turns {name:?}, which is no knob"))?;
            check_value(value).map_err(|why| format!("setting {setting_name:?}: {why}"))?;
            if !knob.allows(value) {
                let allowed = knob.allowed();
                return Err(format!(
                    "setting {setting_name:?}: {name:?} cannot be {value:?}: {allowed}"
                ));
            }
        }
        Ok(())
    }

    /// Whether the address at which it listens can be set; if not, it listens at 127.0.0.1.
    pub(crate) fn takes_an_address(&self) -> bool {
        self.templates().flat_map(template::names).any(|name| name == "listen")
    }

    /// Every text in which placeholders are replaced.
    fn templates(&self) -> impl Iterator<Item = &str> {
        let build = self.build.iter().flat_map(|build| {
            let needed = build.needs.iter().flat_map(|needs| &needs.command);
            build.command.iter().chain([&build.folder]).chain(needed)
        });
        let application = self.application.iter().flat_map(|application| {
            application.detect.iter().chain(&application.command).chain(&application.socket)
        });
        build
            .chain(application)
            .chain(&self.detect.command)
            .chain(&self.start.command)
            .chain(self.start.set.values())
            .chain(self.start.environment.values())
            .chain(self.files.iter().map(|file| &file.text))
            .map(String::as_str)
    }
}

impl Needs {
    /// Whether a version will do.
    ///
    /// # Errors
    /// The present version and the needed one, in a line.
    pub(crate) fn suffices(&self, version: &str) -> Result<(), String> {
        let Self { tool, at_least, .. } = self;
        // Of two lists that begin alike the longer is the greater: 1.23 comes before 1.23.1.
        if numbers(version) >= numbers(at_least) {
            return Ok(());
        }
        Err(format!(
            "{tool} {version} is here, and {tool} {at_least} or newer is needed to build it"
        ))
    }
}

/// The numbers of a version, up to the first part without one: 1.24rc1 is almost 1.24.
fn numbers(version: &str) -> Vec<u64> {
    let digits = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    version.split('.').map_while(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        name = "small"
        description = "d"
        package = "p"
        detect = { command = ["small", "-v"], version_after = "v" }
        start = { command = ["small", "{port}", "{mode}"] }
        stop = { signal = "TERM" }
        settings = [{ name = "usual", about = "a" }, { name = "b", about = "a", knobs = { mode = "y" } }]
        [knobs.mode]
        about = "a"
        default = "x"
        values = ["x", "y"]
    "#;

    #[track_caller]
    fn check(from: &str, to: &str, expected: &str) {
        assert!(SMALL.contains(from), "{from:?} is not in the example");
        let why = ServerDescription::parse(&SMALL.replace(from, to)).expect_err("it is wrong");
        assert!(why.contains(expected) && !why.contains('\n'), "{why}");
    }

    #[test]
    fn mistakes_are_named() {
        check(
            "name = \"small\"",
            "nmae = \"small\"",
            "line 2: unknown key \"nmae\" (did you mean \"name\"?)",
        );
        check(
            "{port}",
            "{application_port}",
            "{application_port} stands for nothing without an [application]",
        );
        check("name = \"small\"", "name = \"s/m\"", "its name \"s/m\" has more than letters");
        check("{port}", "{prot}", "{prot} is no known placeholder");
        check("mode = \"y\"", "mode = \"z\"", "\"mode\" cannot be \"z\": x, y");
        check("mode = \"y\"", "mode = \"{mode}\"", "{mode} is no known placeholder");
        check("mode = \"y\"", "mood = \"y\"", "\"mood\", which is no knob");
        check("\"{mode}\"", "\"mode\"", "\"mode\" is used nowhere");
        check("knobs.mode", "knobs.port", "the knob \"port\" has a name that is taken");
        check(
            "default = \"x\"",
            "default = \"w\"",
            "\"mode\": its default \"w\" is not among x, y",
        );
        let build = "build = { command = ['make'], folder = '/', needs = { tool = 'Go', \
                     command = ['go'], version_after = '', at_least = 'new' } }\n";
        let detect = "detect = {";
        check(detect, &format!("{build}{detect}"), "at_least = \"new\" is no version: 1.23 is");
        check("\"TERM\"", "\"SIGTERM\"", "no signal is called \"SIGTERM\"");
        check(
            "values = [",
            "valeus = [",
            "line 12: unknown key \"valeus\" (did you mean \"values\"?)",
        );
        check("description = \"d\"", "", "the key \"description\" is missing");
    }

    #[test]
    fn versions_are_compared_number_by_number() {
        let check = |at_least: &str, version: &str, expected: bool| {
            let needs = Needs {
                tool: "Go".into(),
                command: Vec::new(),
                version_after: String::new(),
                at_least: at_least.into(),
            };
            assert_eq!(needs.suffices(version).is_ok(), expected, "{version} for {at_least}");
        };
        check("1.23", "1.23", true);
        check("1.23", "1.23.4", true);
        check("1.23", "1.24rc1", true);
        check("1.23", "2", true);
        check("1.23", "1.19.8", false);
        check("1.23", "1.9", false);
        check("1.23", "unknown", false);
        check("1.23.1", "1.23", false);
    }

    /// A server whose workers cannot be bound gives the reason; a server that says nothing of them
    /// is refused with the name of the key.
    #[test]
    fn workers_are_told_apart() {
        let workers = |said: &str| {
            let command = "command = [\"small\", \"{port}\", \"{mode}\"]";
            let text = SMALL.replace(command, &format!("{command}{said}"));
            let start = ServerDescription::parse(&text).expect("it is right").start;
            Workers::bindable(start.workers.as_ref()).cloned()
        };
        assert_eq!(workers(", workers = \"threads\""), Ok(Workers::Threads));
        assert_eq!(
            workers(", workers = { unbindable = \"they wander\" }"),
            Err("they wander".into())
        );
        assert!(workers("").is_err_and(|why| why.contains("start.workers")));
    }

    #[test]
    fn a_setting_overrides_the_defaults() {
        let description = ServerDescription::parse(SMALL).expect("it is right");
        assert_eq!(description.knob_values(&description.settings[0])["mode"], "x");
        assert_eq!(description.knob_values(&description.settings[1])["mode"], "y");
    }

    /// What `servers/README.md` gives as an example can be copied.
    #[test]
    fn the_documented_description_is_read() {
        let text = include_str!("../../../servers/README.md");
        let example = text.split("```").find_map(|block| block.strip_prefix("toml\n"));
        let description =
            ServerDescription::parse(example.expect("there is one")).expect("it is right");
        let grid = |knob: &str| description.knobs[knob].grid().join(" ");
        assert_eq!(grid("processes"), "1 2 4 8 16 32 64");
        assert_eq!(grid("cached_files"), "0 1000 2000 3000 4000 5000");
    }

    /// The shipped descriptions are valid.
    #[test]
    fn the_shipped_descriptions_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        let descriptions = ServerDescription::read_all(&folder).expect("all are right");
        assert!(descriptions.len() >= 9, "{}", descriptions.len());
        assert!(
            descriptions.iter().all(|description| description.folder.as_ref() == Some(&folder))
        );
        let silent = descriptions.iter().find(|description| description.start.workers.is_none());
        assert!(silent.is_none(), "{silent:?}");
    }
}
