//! Finding a peer on this machine, and building it where it comes as source.
//!
//! Nothing is installed by itself: a peer that is absent is reported with the command for it.

use crate::peer::Peer;
use crate::process;
use crate::template::{self, Values};
use std::path::PathBuf;

/// Where the repository and what is built from it lie.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The root of the source tree.
    pub repository: PathBuf,
    /// Cargo's target directory.
    pub target_dir: PathBuf,
    /// Whether peers that come as source are built anew, or taken as they are.
    pub build: bool,
}

impl Surroundings {
    /// The placeholders that are the same for every launch.
    pub(crate) fn values(&self) -> Values {
        let peers_dir = self.repository.join("peers");
        [
            ("repository", self.repository.display().to_string()),
            ("peers_dir", peers_dir.display().to_string()),
            ("target_dir", self.target_dir.display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// A peer that is there.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Its description.
    pub peer: Peer,
    /// Its version, as it says itself.
    pub version: String,
}

impl Peer {
    /// Builds the peer if it is built here, and asks for its version.
    ///
    /// # Errors
    /// Why it cannot be used: it is not there, or cannot be built.
    pub fn install(&self, surroundings: &Surroundings) -> Result<Installed, String> {
        let version = self.find(surroundings)?;
        Ok(Installed { peer: self.clone(), version })
    }

    fn find(&self, surroundings: &Surroundings) -> Result<String, String> {
        let values = surroundings.values();
        if let Some(build) = self.build.as_ref().filter(|_| surroundings.build) {
            let folder = fill(&build.folder, &values)?;
            process::output(&fill_all(&build.command, &values)?, Some(&folder))?;
        }
        let said = process::output(&fill_all(&self.detect.command, &values)?, None)?;
        Ok(word_after(&said, &self.detect.version_after))
    }
}

pub(crate) fn fill(text: &str, values: &Values) -> Result<String, String> {
    template::fill(text, values).map_err(|name| format!("nothing stands for {{{name}}}"))
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

    #[test]
    fn a_version_is_the_word_after_a_text() {
        assert_eq!(word_after("nginx version: nginx/1.22.1\n", "nginx/"), "1.22.1");
        assert_eq!(word_after("lighttpd/1.4.69 (ssl) - light", "lighttpd/"), "1.4.69");
        assert_eq!(word_after("2.6.2\n", ""), "2.6.2");
        assert_eq!(word_after("something else", "nginx/"), "unknown");
    }
}
