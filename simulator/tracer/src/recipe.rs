//! Recipes: commands to start, to load with and to trace, read from a file
//! (`experiments/traces/*.toml`).
//!
//! A recipe is a list of steps, each of them one command without a shell: `run` to its end, `trace`
//! under the recorder in the background, or `stop` all traced processes. Commands and files may
//! contain `{folder}` (a new, empty folder), `{port}` (a free one), `{ropewalk}` (Ropewalk).

use crate::error::RecipeError;
use crate::selection::Keep;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// The placeholder for the program of the server.
const ROPEWALK: &str = "{ropewalk}";

/// The recipes that are built into the program.
const SHIPPED: &[(&str, &str)] = &[
    ("nginx", include_str!("../../../experiments/traces/nginx.toml")),
    ("event-loop-per-core", include_str!("../../../experiments/traces/event-loop-per-core.toml")),
    ("fibers", include_str!("../../../experiments/traces/fibers.toml")),
    ("staged", include_str!("../../../experiments/traces/staged.toml")),
    ("foglia-2001", include_str!("../../../experiments/traces/foglia-2001.toml")),
];

/// A recipe, read completely.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The recipe's name, which is not in the file.
    #[serde(skip)]
    pub name: String,
    /// A description in one sentence.
    pub description: String,
    /// The maximum number of references of each process, unless another was typed; 0: all.
    #[serde(default)]
    pub references_max: u64,
    /// The number of references of each process to skip at its beginning, unless another was typed.
    #[serde(default)]
    pub skip: u64,
    /// Files that are written into the folder first.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Which processes go into the trace; all, if the list is empty.
    #[serde(default)]
    pub(crate) keep: Vec<Keep>,
    /// The steps, in this order.
    #[serde(rename = "step")]
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Step {
    Run(Run),
    Trace(Trace),
    Stop(Stop),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) run: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    pub(crate) trace: Vec<String>,
    /// What shows that the command is ready: an address that takes connections, or the path of a
    /// file.
    #[serde(default)]
    pub(crate) until: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    pub(crate) stop: bool,
}

impl Recipe {
    /// A recipe by the name of a built-in one or the path of a file.
    ///
    /// # Errors
    /// There is no such recipe, or it cannot be read.
    pub fn find(typed: &str) -> Result<Self, RecipeError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == typed) {
            return Self::parse(name, text);
        }
        if !typed.ends_with(".toml") {
            return Err(RecipeError::Unknown(typed.to_owned()));
        }
        let text =
            fs::read_to_string(typed).map_err(|why| RecipeError::File(typed.to_owned(), why))?;
        let stem = Path::new(typed).file_stem().unwrap_or_default();
        Self::parse(&stem.to_string_lossy(), &text)
    }

    fn parse(name: &str, text: &str) -> Result<Self, RecipeError> {
        let read = toml::from_str::<Self>(text);
        let recipe = read.map_err(|why| RecipeError::Text(name.to_owned(), first_lines(&why)))?;
        Ok(Self { name: name.to_owned(), ..recipe })
    }

    /// Makes the folder and the files, and chooses values for the placeholders. Ropewalk must be
    /// there if a step or a file names it.
    pub(crate) fn prepare(
        &self,
        folder: &Path,
        ropewalk: &Result<PathBuf, String>,
    ) -> Result<Places, String> {
        let ropewalk = match ropewalk {
            Err(why) if self.names_ropewalk() => return Err(why.clone()),
            found => found.as_deref().unwrap_or(Path::new("")),
        };
        let places = Places::choose(folder, ropewalk)?;
        let explain = |why| format!("{}: {why}", folder.display());
        fs::create_dir_all(folder).map_err(explain)?;
        for (name, text) in &self.files {
            fs::write(folder.join(name), places.fill(text)).map_err(explain)?;
        }
        Ok(places)
    }

    fn names_ropewalk(&self) -> bool {
        let words = self.steps.iter().flat_map(|step| match step {
            Step::Run(Run { run }) => run.as_slice(),
            Step::Trace(Trace { trace, .. }) => trace,
            Step::Stop(_) => &[],
        });
        words.chain(self.files.values()).any(|text| text.contains(ROPEWALK))
    }
}

/// The names of the built-in recipes.
pub fn recipe_names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

fn first_lines(why: &toml::de::Error) -> String {
    why.to_string().lines().take(2).collect::<Vec<_>>().join(": ")
}

/// The values of the placeholders.
#[derive(Debug)]
pub(crate) struct Places(Vec<(&'static str, String)>);

impl Places {
    fn choose(folder: &Path, ropewalk: &Path) -> Result<Self, String> {
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let port = free().map_err(|why| format!("no free port: {why}"))?.port();
        Ok(Self(vec![
            ("{folder}", folder.display().to_string()),
            ("{port}", port.to_string()),
            (ROPEWALK, ropewalk.display().to_string()),
        ]))
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let filled = |text: String, (name, value): &(&str, String)| text.replace(name, value);
        self.0.iter().fold(text.to_owned(), filled)
    }

    pub(crate) fn fill_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.fill(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    #[test]
    fn all_shipped_recipes_are_whole() {
        for name in recipe_names() {
            let recipe = Recipe::find(name).expect("it can be read");
            assert_eq!(recipe.name, name);
            assert!(recipe.steps.iter().any(|step| matches!(step, Step::Trace(_))), "{name}");
            let folder = Temporary::new();
            let places = recipe.prepare(&folder.path().join("work"), &Ok("ropewalk".into()));
            let places = places.expect("it can be written");
            for step in &recipe.steps {
                let command = match step {
                    Step::Run(Run { run }) => run,
                    Step::Trace(Trace { trace, .. }) => trace,
                    Step::Stop(_) => continue,
                };
                let filled = places.fill_all(command);
                let is_left = |word: &String| word.starts_with('{') && !word.contains(' ');
                assert!(!filled.iter().any(is_left), "{name}: {filled:?}");
            }
        }
    }

    /// A recipe of other servers needs no Ropewalk; a step that names it does.
    #[test]
    fn ropewalk_must_be_there_if_a_recipe_names_it() {
        let missing = Err("install it".to_owned());
        let check = |step: &str, expected: Result<(), String>| {
            let text = format!("description = 'd'\n[[step]]\n{step}\n");
            let recipe = Recipe::parse("x", &text).expect("it is right");
            let folder = Temporary::new();
            let prepared = recipe.prepare(&folder.path().join("work"), &missing);
            assert_eq!(prepared.map(drop), expected, "{step}");
        };
        check("trace = ['nginx', '{folder}']", Ok(()));
        check("trace = ['{ropewalk}', 'serve']", Err("install it".into()));
        check("run = ['sh', '-c', '{ropewalk} log']", Err("install it".into()));
    }

    /// Under a recorder everything is late, and speed is not measured: a check that makes a load
    /// void elsewhere would end the recording.
    #[test]
    fn no_load_of_a_recipe_is_void_for_want_of_time() {
        for name in recipe_names() {
            let recipe = Recipe::find(name).expect("it can be read");
            let is_load = |run: &&Vec<String>| run.iter().any(|word| word == "load");
            let runs = recipe.steps.iter().filter_map(|step| match step {
                Step::Run(Run { run }) => Some(run),
                _ => None,
            });
            for load in runs.filter(is_load) {
                for lifted in [["--lag-bound", "600s"], ["--run-delay-bound", "100%"]] {
                    assert!(load.windows(2).any(|words| words == lifted), "{name}: {load:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_a_line() {
        let unknown = Recipe::find("nonsense").expect_err("there is none").to_string();
        assert!(unknown.starts_with("no recipe nonsense: there are nginx, "), "{unknown}");
        let wrong = Recipe::parse("x", "description = 1").expect_err("it is no text").to_string();
        assert!(wrong.starts_with("recipe x: "), "{wrong}");
        assert!(!wrong.contains('\n'));
    }
}
