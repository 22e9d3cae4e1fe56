//! The two commands at the top of the README, word for word.

use std::fs;

use crate::tools::workspace_root;

/// The first commands that a reader types.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commands {
    /// The command that serves the example site.
    pub(super) serve: String,
    /// The command that runs the tests.
    pub(super) test: String,
}

impl Commands {
    pub(super) fn from_readme() -> Result<Self, String> {
        let path = workspace_root().join("README.md");
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Self::read(&text).ok_or_else(|| "README.md does not begin with two commands".to_owned())
    }

    /// The two lines of the first block of commands, without their comments.
    fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("```sh\n")?;
        let (block, _) = rest.split_once("```")?;
        let mut commands = block.lines().map(|line| {
            let command = line.split_once('#').map_or(line, |(command, _)| command);
            command.trim().to_owned()
        });
        let (serve, test) = (commands.next()?, commands.next()?);
        (commands.next().is_none() && !test.is_empty()).then_some(Self { serve, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_begins_with_two_commands() {
        let commands = Commands::from_readme().expect("it does");
        assert!(commands.serve.starts_with("cargo run --release"), "{commands:?}");
        assert!(commands.test.starts_with("cargo ") && commands.test.contains("test"));
        let text = "# X\n\n```sh\na b   # serves # a site\nc\n```\n\n```sh\nd\n```\n";
        let expected = Commands { serve: "a b".to_owned(), test: "c".to_owned() };
        assert_eq!(Commands::read(text), Some(expected));
        assert_eq!(Commands::read("```sh\na\n```\n"), None);
        assert_eq!(Commands::read("```sh\na\nb\nc\n```\n"), None);
    }
}
