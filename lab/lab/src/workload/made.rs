//! The options of the commands that make workloads, `ropewalk fileset` and `ropewalk log generate`,
//! with the help that these print. An experiment's file has them as a user types them, and the lab
//! makes the arguments of the commands from them.

use ::workload::fileset::{FileSet, NoSuchSet, PRESETS, Preset};
use clap::Args;
use clap::builder::PossibleValuesParser;
use command::numbers::whole;
use fileset::size;
use load::arguments::{parse, words};
use serde::{Deserialize, Deserializer, Serialize, de};

/// Which files are made, and how.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FileSetOptions {
    /// Which files.
    #[command(flatten)]
    #[serde(flatten)]
    pub choice: FileSetChoice,
    /// How many threads write [default: one on each CPU]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_u16))]
    pub threads: Option<u16>,
    /// Read every byte of existing files, not only samples
    #[arg(long)]
    pub verify: bool,
}

/// The choice of a file set; one is made.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[group(id = FileSetChoice::GROUP, required = true, multiple = false)]
pub struct FileSetChoice {
    /// A set of the literature: see --list
    #[arg(long, value_name = "NAME", value_parser = preset_names(), hide_possible_values = true)]
    pub preset: Option<String>,
    /// This many directories
    #[arg(long, value_name = "N")]
    pub directories: Option<u64>,
    /// As many directories as have no more bytes than this
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub bytes: Option<u64>,
    /// As many as SPECweb99 has for this many connections
    #[arg(long, value_name = "N")]
    pub connections: Option<u64>,
    /// One file of this size; may be repeated
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub single: Vec<u64>,
}

/// Which log is generated. The values are kept as texts, which the command parses.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogOptions {
    /// The model to start from [default: geneves]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The mix of requests.
    #[command(flatten)]
    #[serde(flatten)]
    pub mix: MixOptions,
    /// Deal classes from shuffled decks of 1,000 with their exact shares, as SPECweb99 does
    #[arg(long, conflicts_with = "single")]
    pub deck: bool,
    /// Request one file only, sizeBYTES
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["directories", "alpha", "classes"])]
    pub single: Option<String>,
    /// Requests of a session
    #[arg(long, value_name = "LENGTHS")]
    pub lengths: Option<String>,
    /// Seconds between one page and the next (inactive off-time)
    #[arg(long, value_name = "DISTRIBUTION")]
    pub think: Option<String>,
    /// Seconds between a page and its embedded objects (active off-time)
    #[arg(long, value_name = "DISTRIBUTION")]
    pub active_think: Option<String>,
    /// Embedded objects of a page, requested in one burst; none: every page is one file
    #[arg(long, value_name = "DISTRIBUTION")]
    pub pages: Option<String>,
    /// The path at which the file set is served [default: /]
    #[arg(long, value_name = "PATH")]
    pub prefix: Option<String>,
    /// This many sessions
    #[arg(long, value_name = "N", conflicts_with_all = ["requests", "within"])]
    pub sessions: Option<String>,
    /// This many requests
    #[arg(long, value_name = "N", conflicts_with = "within")]
    pub requests: Option<String>,
    /// Until classes, files and popular directories are this close to their shares [default: 0.1]
    #[arg(long, value_name = "PART")]
    pub within: Option<String>,
    /// Another seed gives another log of the same model [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<String>,
}

/// The mix of requests for a file set.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MixOptions {
    /// Directories of the SPECweb99 file set
    #[arg(long, value_name = "N")]
    pub directories: Option<String>,
    /// Exponent of Zipf's law over the directories: 1 is SPECweb99's, 0 is uniform
    #[arg(long, value_name = "X")]
    pub alpha: Option<String>,
    /// Shares of the four classes: 0.35,0.5,0.14,0.01 is SPECweb99's
    #[arg(long, value_name = "A,B,C,D")]
    pub classes: Option<String>,
}

impl FileSetOptions {
    /// A set of the literature.
    pub(super) fn preset(name: &str) -> Self {
        FileSetChoice { preset: Some(name.to_owned()), ..FileSetChoice::default() }.into()
    }

    /// This many directories.
    pub(super) fn directories(count: u64) -> Self {
        FileSetChoice { directories: Some(count), ..FileSetChoice::default() }.into()
    }

    /// One file of this size.
    pub(crate) fn single(bytes: u64) -> Self {
        FileSetChoice { single: vec![bytes], ..FileSetChoice::default() }.into()
    }

    /// The arguments of `ropewalk fileset` beside the directory.
    pub fn to_arguments(&self) -> Vec<String> {
        words(self)
    }
}

impl From<FileSetChoice> for FileSetOptions {
    fn from(choice: FileSetChoice) -> Self {
        Self { choice, ..Self::default() }
    }
}

impl FileSetChoice {
    /// The parser's name for the options of which one is typed.
    pub const GROUP: &str = "file-set";

    /// The files that are chosen.
    ///
    /// # Errors
    /// Why there is no such set.
    pub fn set(&self) -> Result<FileSet, NoSuchSet> {
        match self {
            Self { preset: Some(name), .. } => {
                Ok(Preset::find(name).expect("the parser knows their names").set())
            }
            Self { directories: Some(count), .. } => FileSet::directories(*count),
            Self { bytes: Some(bytes), .. } => FileSet::at_most_bytes(*bytes),
            Self { connections: Some(count), .. } => FileSet::for_connections(*count),
            Self { single, .. } => FileSet::singles(single),
        }
    }
}

impl LogOptions {
    /// Requests for one file, each a session.
    pub(crate) fn of_single(bytes: u64, requests: u32) -> Self {
        Self {
            single: Some(bytes.to_string()),
            lengths: Some("1".into()),
            requests: Some(requests.to_string()),
            ..Self::default()
        }
    }

    /// Sessions of a model.
    pub(super) fn of_preset(name: &str, sessions: u32) -> Self {
        Self {
            preset: Some(name.to_owned()),
            sessions: Some(sessions.to_string()),
            ..Self::default()
        }
    }

    /// The arguments of `ropewalk log generate` beside the output.
    pub fn to_arguments(&self) -> Vec<String> {
        words(self)
    }
}

/// The names of presets, as the parser has them.
fn preset_names() -> PossibleValuesParser {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().into()
}

impl<'de> Deserialize<'de> for FileSetOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed(deserializer, "files", "fileset")
    }
}

impl<'de> Deserialize<'de> for LogOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed(deserializer, "log", "log")
    }
}

/// Options of the command `name` as a user has typed them for a key of an experiment.
pub(super) fn typed<'de, D: Deserializer<'de>, T: Args>(
    deserializer: D,
    key: &str,
    name: &'static str,
) -> Result<T, D::Error> {
    let typed = String::deserialize(deserializer)?;
    let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
    parse(name, &words).map_err(|why| de::Error::custom(format_args!("`{key}`: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<T: Args>(line: &str) -> Result<T, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse("fileset", &words)
    }

    /// What was made under these words is found again.
    #[test]
    fn what_was_typed_becomes_the_same_arguments() {
        for line in ["--directories 40", "--preset radhakrishnan --threads 2 --verify"] {
            let options: FileSetOptions = parsed(line).expect("right");
            assert_eq!(options.to_arguments().join(" "), line);
        }
        for line in [
            "--preset spec99 --directories 40 --sessions 40000",
            "--preset spec99 --directories 240 --classes 0.35,0.5,0.15,0 --lengths 1 --requests 9",
            "--directories 1 --alpha 0 --deck --think 0 --pages none --prefix /a --within 0.2 \
             --seed 7",
        ] {
            let options: LogOptions = parsed(line).expect("right");
            assert_eq!(options.to_arguments().join(" "), line);
        }
        let sizes: FileSetOptions = parsed("--single 1KB --single 50000").expect("right");
        assert_eq!(sizes.to_arguments().join(" "), "--single 1024 --single 50000");
    }

    #[test]
    fn what_is_wrong_is_said_in_a_line() {
        let check = |line: &str, expected: &str| {
            assert_eq!(parsed::<FileSetOptions>(line), Err(expected.to_owned()), "{line}");
        };
        check(
            "--singel 5",
            "--singel: there is no such fileset option (did you mean \"--single\"?)",
        );
        check("--directories many", "--directories many: write a whole number");
        check("--directories", "--directories: its value is missing");
        check(
            "--directories 1 --connections 2",
            "--directories <N> and --connections <N>: leave one out",
        );
        let size =
            "--single many: \"many\" is no size: 51200, 50KB, 50KiB or 3.3GB, where K is 1024";
        check("--single many", size);
        let nothing = parsed::<FileSetOptions>("--verify").expect_err("no set is chosen");
        assert!(
            nothing.contains("--preset <NAME>") && nothing.ends_with(" is required"),
            "{nothing}"
        );
    }
}
