//! An experiment's file: of servers, or of the cache by itself.

use std::fs;
use std::path::Path;

use super::definition::Definition;
use crate::cache_study;
use crate::error::Error;
use command::near::{is_named_wrongly, unreadable};

/// The two kinds of experiments.
#[derive(Debug)]
pub enum Experiment {
    /// Servers under load.
    Servers(Box<Definition>),
    /// The cache of file metadata without a server: the file has a table `[cache]`.
    Cache(Box<cache_study::Definition>),
}

impl Experiment {
    /// Reads an experiment's file, in one of its sizes.
    ///
    /// # Errors
    /// What is wrong, with the file's name; or that the size does not exist.
    pub fn read(path: &Path, size: Option<&str>) -> Result<Self, Error> {
        let explain = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|why| {
            let line = unreadable(path, &why, "the file of an experiment");
            if is_named_wrongly(&why) { Error::Usage(line) } else { Error::Failed(line) }
        })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Self::parse(&name.unwrap_or_default(), &text, size).map_err(explain)
    }

    fn parse(name: &str, text: &str, size: Option<&str>) -> Result<Self, String> {
        let is_of_cache = text.parse().is_ok_and(|table: toml::Table| table.contains_key("cache"));
        Ok(match is_of_cache {
            true => Self::Cache(Box::new(cache_study::Definition::parse(name, text, size)?)),
            false => Self::Servers(Box::new(Definition::parse(name, text, size)?)),
        })
    }
}
