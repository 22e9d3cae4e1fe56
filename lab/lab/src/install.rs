//! Finding servers on this machine, and building those that come as source.
//!
//! Nothing is installed by itself: a server that is absent is reported with the command for it.

use crate::process::{self, CommandError};
use crate::server_description::{Build, ServerDescription};
use crate::template::{self, Values};
use command::near::did_you_mean;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the repository and what is built from it lie.
#[derive(Debug, Clone)]
pub struct SourceTree {
    /// The root of the source tree; none where only the program is installed.
    pub repository: Option<PathBuf>,
    /// Cargo's target directory.
    pub target_dir: Option<PathBuf>,
    /// Whether servers that come as source are built anew, or taken as they are.
    pub build: bool,
}

impl SourceTree {
    /// Looks for the repository around the current folder, then around the program that runs.
    pub fn find(build: bool) -> Self {
        let program = std::env::current_exe().ok();
        let around = [std::env::current_dir().ok(), program.clone()];
        let mut above = around.iter().flatten().flat_map(|path| path.ancestors());
        let is_repository = |folder: &&Path| folder.join("servers/floor/Cargo.toml").is_file();
        let repository = above.find(is_repository).map(Path::to_owned);
        // Cargo marks its target directory, wherever it lies.
        let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file();
        let built_in = program.iter().flat_map(|path| path.ancestors()).find(is_target);
        let target_dir = built_in.map(Path::to_owned);
        let target_dir = target_dir.or_else(|| Some(repository.as_ref()?.join("target")));
        Self { repository, target_dir, build }
    }

    /// The placeholders that are equal for every launch of a server, as far as they have values
    /// here.
    pub(crate) fn values(&self, description: &ServerDescription) -> Values {
        let shipped = || Some(self.repository.as_ref()?.join("servers"));
        let places = [
            ("repository", self.repository.clone()),
            ("servers_dir", description.folder.clone().or_else(shipped)),
            ("target_dir", self.target_dir.clone().filter(|_| self.repository.is_some())),
        ];
        let there = places.into_iter().filter_map(|(name, path)| Some((name, path?)));
        there.map(|(name, path)| (name.to_owned(), path.display().to_string())).collect()
    }
}

/// A server that is present.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The server's description.
    pub description: ServerDescription,
    /// The server's version, as it says itself.
    pub version: String,
}

/// Why a server cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// What its description says is in the way.
    #[error("{0}")]
    Obstacle(String),
    /// It comes as source, which has placeholders without a value where the source is not.
    #[error(
        "it comes as source, and neither the current folder nor the program lies in the repository"
    )]
    NoSource,
    /// It comes as source, and nothing was to be built.
    #[error("it is not built yet: `ropewalk servers --build` does that")]
    NotBuilt,
    /// It comes as source, and cannot be built.
    #[error("{0}")]
    CannotBeBuilt(String),
    /// There is no such program.
    #[error("{0}")]
    NotInstalled(String),
    /// It is here, and the application that it is a front of is not.
    #[error("the application behind it: {0}")]
    NoApplication(String),
    /// It is here, and cannot say its version.
    #[error("{0}")]
    Broken(String),
}

/// A server that is absent, or cannot run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The server's name.
    pub name: String,
    /// Why, in one line.
    pub reason: String,
    /// The command that installs it, or what else helps.
    pub command: String,
}

/// The servers that a search for them found and did not find.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Servers that are present.
    pub installed: Vec<Installed>,
    /// Servers that are absent, or cannot run here, with the reason.
    pub skipped: Vec<Skipped>,
}

impl Found {
    /// Looks for the servers of these names, in this order; for all, if none is given. Servers that
    /// come as source are built first if `source_tree.build` says so.
    ///
    /// # Errors
    /// One line: no server has such a name.
    pub fn detect(
        descriptions: &[ServerDescription],
        names: &[String],
        source_tree: &SourceTree,
    ) -> Result<Self, String> {
        let mut found = Self::default();
        for choice in choose(descriptions, names)? {
            let description = match choice {
                Choice::Known(description) => description,
                Choice::EngineOf(name, program) => {
                    let why = Absence::Obstacle(program.obstacle.clone().unwrap_or_default());
                    found.skipped.push(Skipped { name, ..program.skipped(&why) });
                    continue;
                }
            };
            match description.install(source_tree) {
                Ok(installed) => found.installed.push(installed),
                Err(why) => found.skipped.push(description.skipped(&why)),
            }
        }
        Ok(found)
    }
}

/// A server that was named.
enum Choice<'p> {
    Known(&'p ServerDescription),
    /// An engine, by its name, of a program that is not there: only that knows its engines.
    EngineOf(String, &'p ServerDescription),
}

fn choose<'p>(
    descriptions: &'p [ServerDescription],
    names: &[String],
) -> Result<Vec<Choice<'p>>, String> {
    if names.is_empty() {
        return Ok(descriptions.iter().map(Choice::Known).collect());
    }
    let named = |name: &str| descriptions.iter().find(|description| description.name == name);
    let find = |name: &String| {
        let program = name.split_once(':').and_then(|(program, _)| named(program));
        let program = program.filter(|program| program.obstacle.is_some());
        match (named(name), program) {
            (Some(description), _) => Ok(Choice::Known(description)),
            (None, Some(program)) => Ok(Choice::EngineOf(name.clone(), program)),
            (None, None) => {
                let known = descriptions.iter().map(|description| description.name.as_str());
                let near = did_you_mean(name, known);
                let meant = if is_host_and_port(name) {
                    format!("if it runs already write http://{name}")
                } else {
                    "see `ropewalk servers`".to_owned()
                };
                Err(format!("there is no server {name:?}{near}: {meant}"))
            }
        }
    };
    names.iter().map(find).collect()
}

/// Whether a name is a host and a port: `localhost:8080`.
fn is_host_and_port(name: &str) -> bool {
    name.rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl ServerDescription {
    /// Whether looking for the server builds it: it comes as source, and that is here.
    pub fn is_built(&self, source_tree: &SourceTree) -> bool {
        let values = source_tree.values(self);
        let is_here = |text: &String| fill(text, &values).is_ok();
        let parts = |build: &Build| build.command.iter().chain([&build.folder]).all(is_here);
        source_tree.build && self.obstacle.is_none() && self.build.as_ref().is_some_and(parts)
    }

    /// Builds the server if it is built here, and finds out its version.
    ///
    /// # Errors
    /// Why the server cannot be used: it is absent, or cannot be built.
    pub fn install(&self, source_tree: &SourceTree) -> Result<Installed, Absence> {
        if let Some(why) = &self.obstacle {
            return Err(Absence::Obstacle(why.clone()));
        }
        let version = self.detect_version(source_tree)?;
        if let Some(application) = &self.application {
            let values = source_tree.values(self);
            let detect = fill_all(&application.detect, &values).map_err(|_| Absence::NoSource)?;
            process::run(&detect, None).map_err(|why| Absence::NoApplication(why.to_string()))?;
        }
        Ok(Installed { description: self.clone(), version })
    }

    fn detect_version(&self, source_tree: &SourceTree) -> Result<String, Absence> {
        let values = source_tree.values(self);
        let command = |texts: &[String]| fill_all(texts, &values).map_err(|_| Absence::NoSource);
        if let Some(build) = &self.build {
            let folder = fill(&build.folder, &values).map_err(|_| Absence::NoSource)?;
            let built = command(&build.command)?;
            if source_tree.build {
                self.can_be_built(&values)?;
                process::run(&built, Some(&folder)).map_err(|why| cannot_be_built(&why))?;
            }
        }
        let said = process::run(&command(&self.detect.command)?, None);
        let said = said.map_err(|why| match why {
            CommandError::NotStarted(_, ref cause) if cause.kind() == ErrorKind::NotFound => {
                self.not_there(source_tree, &values, &why)
            }
            why => Absence::Broken(why.to_string()),
        })?;
        Ok(word_after(&said, &self.detect.version_after))
    }

    /// Why there is no program of the server.
    fn not_there(&self, here: &SourceTree, values: &Values, why: &CommandError) -> Absence {
        match &self.build {
            Some(_) if !here.build => self.can_be_built(values).err().unwrap_or(Absence::NotBuilt),
            _ => Absence::NotInstalled(why.to_string()),
        }
    }

    /// Whether the tool that builds the server is present, in a version that will do: a compiler
    /// that is too old would print much, but not that.
    fn can_be_built(&self, values: &Values) -> Result<(), Absence> {
        let Some(build) = &self.build else { return Ok(()) };
        let Some(needs) = &build.needs else { return Ok(()) };
        let folder = fill(&build.folder, values).map_err(|_| Absence::NoSource)?;
        let command = fill_all(&needs.command, values).map_err(|_| Absence::NoSource)?;
        let said = process::run(&command, Some(&folder)).map_err(|why| cannot_be_built(&why))?;
        let version = word_after(&said, &needs.version_after);
        needs.suffices(&version).map_err(Absence::CannotBeBuilt)
    }

    /// The report of its absence.
    fn skipped(&self, why: &Absence) -> Skipped {
        let why = why.to_string();
        let lines: Vec<&str> = why.lines().map(str::trim).collect();
        let (name, command) = (self.name.clone(), self.package.clone());
        Skipped { name, reason: lines.join("; "), command }
    }
}

fn cannot_be_built(why: &CommandError) -> Absence {
    Absence::CannotBeBuilt(why.to_string())
}

pub(crate) fn fill(text: &str, values: &Values) -> Result<String, String> {
    template::fill(text, values).map_err(|name| format!("{{{name}}} has no value here"))
}

pub(crate) fn fill_all(texts: &[String], values: &Values) -> Result<Vec<String>, String> {
    texts.iter().map(|text| fill(text, values)).collect()
}

fn word_after(text: &str, prefix: &str) -> String {
    let after = text.find(prefix).map_or("", |at| &text[at + prefix.len()..]);
    after.split_whitespace().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_description::Needs;

    const NOWHERE: SourceTree = SourceTree { repository: None, target_dir: None, build: true };

    fn description(name: &str, detect: &str) -> ServerDescription {
        let text = format!(
            "name = '{name}'\ndescription = 'd'\npackage = 'install {name}'\n\
             settings = [{{ name = 'usual', about = 'a' }}]\nstop = {{ signal = 'TERM' }}\n\
             start = {{ command = ['{name}'] }}\n\
             detect = {{ command = [{detect}], version_after = 'v' }}\n"
        );
        ServerDescription::parse(&text).expect("it is right")
    }

    fn build(command: &str) -> Build {
        Build { command: vec![command.into()], folder: "/".into(), needs: None }
    }

    #[test]
    fn what_is_absent_is_named_with_the_command_that_installs_it() {
        let there = description("there", "'echo', 'v1.2'");
        let absent = description("absent", "'/nonexistent/server', '-v'");
        let broken = description("broken", "'sh', '-c', 'echo one; echo two; false'");
        let found = Found::detect(&[there, absent, broken], &[], &NOWHERE).expect("all are known");
        assert_eq!(found.installed.len(), 1);
        assert_eq!(found.installed[0].version, "1.2");
        let [absent, broken] = &found.skipped[..] else { panic!("{:?}", found.skipped) };
        assert!(absent.reason.starts_with("/nonexistent/server: No such file"), "{absent:?}");
        assert_eq!(absent.command, "install absent");
        assert_eq!(broken.reason, "sh failed: one; two");
    }

    #[test]
    fn names_choose_and_must_be_known() {
        let descriptions = ["a", "b", "c-three"].map(|name| description(name, "'echo', 'v1'"));
        let names = ["c-three".to_owned(), "a".to_owned()];
        let found = Found::detect(&descriptions, &names, &NOWHERE).expect("both are known");
        let found: Vec<&str> =
            found.installed.iter().map(|i| i.description.name.as_str()).collect();
        assert_eq!(found, ["c-three", "a"]);
        let check = |name: &str, expected: &str| {
            let names = [name.to_owned()];
            let why = Found::detect(&descriptions, &names, &NOWHERE).expect_err("it is unknown");
            assert_eq!(why, expected);
        };
        check("d", "there is no server \"d\": see `ropewalk servers`");
        let near = "there is no server \"c-tree\" (did you mean \"c-three\"?)";
        check("c-tree", &format!("{near}: see `ropewalk servers`"));
        let typed = "there is no server \"localhost:18080\": if it runs already write ";
        check("localhost:18080", &format!("{typed}http://localhost:18080"));
        check("x:fibers", "there is no server \"x:fibers\": see `ropewalk servers`");
    }

    #[test]
    fn source_needs_a_repository() {
        let description = description("own", "'{target_dir}/own'");
        let why = description.install(&NOWHERE).expect_err("there is none");
        assert_eq!(why, Absence::NoSource);
        let build = Build { folder: "{servers_dir}/own".into(), ..build("true") };
        let why = ServerDescription { build: Some(build), ..description }.install(&NOWHERE);
        assert_eq!(why.expect_err("there is none"), Absence::NoSource);
    }

    #[test]
    fn what_is_built_is_known_before() {
        let built = |build: Option<Build>, source_tree: &SourceTree| {
            ServerDescription { build, ..description("own", "'own'") }.is_built(source_tree)
        };
        let from = |folder: &str| Some(Build { folder: folder.into(), ..build("make") });
        assert!(built(from("/"), &NOWHERE) && !built(None, &NOWHERE));
        assert!(!built(from("{repository}/own"), &NOWHERE), "its source is elsewhere");
        assert!(!built(from("/"), &SourceTree { build: false, ..NOWHERE }));
    }

    #[test]
    fn what_is_not_built_is_not_called_absent() {
        let description = ServerDescription {
            build: Some(build("false")),
            ..description("own", "'/nonexistent/own'")
        };
        let why = description.install(&SourceTree { build: false, ..NOWHERE });
        assert_eq!(why.expect_err("it is not there"), Absence::NotBuilt);
        let why = description.install(&NOWHERE).expect_err("it cannot be built");
        assert_eq!(why, Absence::CannotBeBuilt("false failed: ".into()));
    }

    /// What is there and fails is not built anew by the command that would be advised.
    #[test]
    fn what_is_built_and_broken_is_not_called_unbuilt() {
        let why = |detect: &str| {
            let build = Some(build("false"));
            let description = ServerDescription { build, ..description("own", detect) };
            let here = SourceTree { build: false, ..NOWHERE };
            description.install(&here).expect_err("it is broken")
        };
        let failed = why("'sh', '-c', 'echo no libc; false'");
        assert_eq!(failed, Absence::Broken("sh failed: no libc".into()));
        assert!(matches!(why("'/dev/null'"), Absence::Broken(_)), "it is no program");
        assert_eq!(why("'/nonexistent/own'"), Absence::NotBuilt);
    }

    /// A tool that is too old is named, whether the server is to be built now or not.
    #[test]
    fn what_cannot_be_built_is_told_before_it_is_tried() {
        let with = |needed: &str| {
            let needs = Needs {
                tool: "Go".into(),
                command: needed.split(' ').map(str::to_owned).collect(),
                version_after: "go".into(),
                at_least: "1.23".into(),
            };
            let build = Build { needs: Some(needs), ..build("false") };
            let description = ServerDescription {
                build: Some(build),
                ..description("own", "'/nonexistent/own'")
            };
            [true, false].map(|build| {
                description
                    .install(&SourceTree { build, ..NOWHERE })
                    .expect_err("it cannot be built")
            })
        };
        let old = "Go 1.19.8 is here, and Go 1.23 or newer is needed to build it";
        let old = Absence::CannotBeBuilt(old.into());
        assert_eq!(with("echo go1.19.8 linux"), [old.clone(), old]);
        let built = Absence::CannotBeBuilt("false failed: ".into());
        assert_eq!(with("echo go1.23.1 linux"), [built, Absence::NotBuilt]);
        let absent = with("/nonexistent/go version");
        let names_it = |why: &Absence| why.to_string().starts_with("/nonexistent/go: No such");
        assert!(absent.iter().all(names_it), "{absent:?}");
    }

    /// Only a program knows its engines: where it is not there they are skipped as it is.
    #[test]
    fn engines_of_an_absent_program_are_skipped() {
        let absent = ServerDescription {
            obstacle: Some("install it".into()),
            ..description("own", "'echo', 'v1'")
        };
        let detect =
            |name: &str| Found::detect(std::slice::from_ref(&absent), &[name.to_owned()], &NOWHERE);
        let found = detect("own:engine").expect("it may be one");
        assert_eq!((found.installed.len(), found.skipped.len()), (0, 1));
        let Skipped { name, reason, .. } = &found.skipped[0];
        assert_eq!((name.as_str(), reason.as_str()), ("own:engine", "install it"));
        assert!(detect("other:engine").is_err_and(|why| why.contains("no server")));
    }

    #[test]
    fn an_obstacle_is_a_reason() {
        let description =
            ServerDescription { obstacle: Some("no".into()), ..description("a", "'echo', 'v1'") };
        let why = description.install(&NOWHERE).expect_err("it is in the way");
        assert_eq!(why, Absence::Obstacle("no".into()));
    }

    #[test]
    fn a_version_is_the_word_after_a_text() {
        assert_eq!(word_after("nginx version: nginx/1.22.1\n", "nginx/"), "1.22.1");
        assert_eq!(word_after("lighttpd/1.4.69 (ssl) - light", "lighttpd/"), "1.4.69");
        assert_eq!(word_after("2.6.2\n", ""), "2.6.2");
        assert_eq!(word_after("something else", "nginx/"), "unknown");
    }
}
