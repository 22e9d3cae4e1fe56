//! Why a configuration is refused, and the place of the fault.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use site::check::SettingError;

use super::address::ListenAddress;

/// A mistake of the operator. It is shown as one line: the place, what is wrong there, and what
/// would be right.
#[derive(Debug)]
pub struct ConfigError {
    /// The place; none where no text is at fault: a default that does not fit the machine.
    pub place: Option<Place>,
    /// The fault; boxed, so that a successful result does not carry its size.
    pub fault: Box<ConfigFault>,
}

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named, or the flag.
    pub source: String,
    /// Line and column in the file, both from 1; a column is a character.
    pub position: Option<(usize, usize)>,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    /// The file cannot be read.
    #[error("cannot read the configuration: {0}")]
    Unreadable(io::Error),
    /// The file is a directory.
    #[error("this is a directory: name the configuration, a file")]
    FileIsDirectory,
    /// There is no such file; what may have been meant, in parentheses, or nothing.
    #[error("there is no such file{0}: name the configuration")]
    NoFile(String),
    /// The text is not TOML; this is the message of the TOML parser.
    #[error("{0}")]
    Syntax(String),
    /// There is no such key.
    #[error("unknown key {key:?}{hint}")]
    UnknownKey {
        /// The key as it was written.
        key: String,
        /// What may have been meant, in parentheses, or what to write after a colon, or nothing.
        hint: String,
    },
    /// This is the name of a section, not of a key.
    #[error("{0:?} is a section: write [{0}]")]
    Section(String),
    /// A table lacks this key.
    #[error("{0:?} is missing here")]
    Missing(&'static str),
    /// A value has the wrong form, or is none of those that are allowed.
    #[error("{key} must be {allowed}, not {found}{hint}")]
    Value {
        /// The key; empty until the code that reads the key has put it in.
        key: String,
        /// What would be right.
        allowed: String,
        /// The value that was found.
        found: String,
        /// What may have been meant, in parentheses, or what to write after a colon, or nothing.
        hint: String,
    },
    /// A value that is not an address to listen at.
    #[error("{0}")]
    Address(String),
    /// A value that is not a port.
    #[error("{0:?} is no port: write a number from 1 to 65535, such as 8080")]
    Port(String),
    /// An address occurs twice.
    #[error("{0} is listed twice: keep one")]
    AddressTwice(ListenAddress),
    /// A list of addresses has none.
    #[error("no address is listed here: name one, such as 8080")]
    NoAddress,
    /// A value that is not a list of CPUs.
    #[error("{0}")]
    CpuList(String),
    /// A CPU is in two partitions.
    #[error("CPU {0} is in two partitions: keep one")]
    CpuTwice(usize),
    /// A page for a status that is no error.
    #[error("error_pages: {0:?} is no status from 400 to 599")]
    PageStatus(String),
    /// A setting of a host has a value that it cannot have.
    #[error(transparent)]
    Setting(SettingError),
    /// A route to servers of two protocols.
    #[error("proxy, fastcgi and cgi in one route: keep one")]
    TwoProtocols,
    /// A route that has keys of FastCGI, but no server of it.
    #[error("suffix, root and children of the route {0:?} are for fastcgi, which it lacks")]
    FastCgiKey(String),
    /// A route that has keys of checks, but no HTTP server that could be checked.
    #[error("health and health_ms of the route {0:?} are for proxy, which it lacks")]
    HealthKey(String),
    /// A host without names that is not the default, so that no request can reach it.
    #[error(
        "no request can reach this host: give it names, {}",
        if *.has_default { "because another host is the default" } else { "or default = true" }
    )]
    UnreachableHost {
        /// Whether another host is the default.
        has_default: bool,
    },
    /// The bound on the request line is above the bound on the head, which is this.
    #[error("limits.request_line_bytes_max is above head_bytes_max ({0})")]
    LineAboveHead(u64),
    /// A root that is no directory.
    #[error("{:?} is not a directory: name the directory that holds it{}", .0, hint_of_file(.0))]
    RootIsFile(PathBuf),
    /// A root that does not exist.
    #[error("{root:?} does not exist{hint}: name the directory to serve")]
    NoRoot {
        /// The root.
        root: PathBuf,
        /// What may have been meant, in parentheses, or nothing.
        hint: String,
    },
    /// A root whose files this user may not reach.
    #[error(
        "{root:?} cannot be served by this user (permission denied): run chmod a+{permissions} \
         {closed:?}, or name another directory"
    )]
    ClosedRoot {
        /// The root.
        root: PathBuf,
        /// The first directory on the way that this user may not search; perhaps the root itself.
        closed: PathBuf,
        /// The permissions that this directory needs.
        permissions: &'static str,
    },
    /// A root that cannot be inspected.
    #[error("{0:?} cannot be served: {1}")]
    Root(PathBuf, io::Error),
    /// A page that is not in the root.
    #[error(
        "there is no page {page:?} in {root:?}{hint}, or only by a link that `symlinks` does not \
         follow: name one that exists, or put it there"
    )]
    NoPage {
        /// The path of the page below the root.
        page: String,
        /// What may have been meant, in parentheses, or nothing.
        hint: String,
        /// The root.
        root: PathBuf,
    },
    /// A page that a redirect of the same host hides.
    #[error(
        "{0:?} is redirected by a rule of this host, and so never sent: leave it out, or the rule"
    )]
    RedirectedPage(String),
    /// A log whose directory is no directory.
    #[error("{0:?} is not a directory: make it, or name another for the log")]
    NoLogDirectory(PathBuf),
    /// A log that is a directory.
    #[error("{0:?} is a directory: name a file in it")]
    LogIsDirectory(PathBuf),
    /// A log that this user may not write, or make.
    #[error("the access log {log:?} cannot be written {}", what_to_do(.at, .why))]
    UnwritableLog {
        /// The log.
        log: PathBuf,
        /// The file or the directory that this user may not write to, or not enter.
        at: PathBuf,
        /// The error of the system call.
        why: io::Error,
    },
    /// A log that clients could request.
    #[error(
        "the access log {log:?} would be published, because it is in the root {root:?}: write it \
         elsewhere"
    )]
    PublishedLog {
        /// The log.
        log: PathBuf,
        /// The root of the first host that has it.
        root: PathBuf,
    },
    /// The settings name neither a host nor a directory.
    #[error("nothing to serve: add a [[host]] or name a directory")]
    NothingToServe,
    /// One directory for several hosts.
    #[error("{root:?} cannot be the root of {hosts} hosts: leave it out")]
    RootOfSeveral {
        /// The directory.
        root: PathBuf,
        /// How many hosts there are.
        hosts: usize,
    },
    /// `--set` without a key or a value.
    #[error("write SECTION.KEY=VALUE")]
    Assignment,
    /// A setting that does not fit the engine, the machine or another setting, described in words.
    #[error("{0}")]
    Unfit(String),
}

/// Why nothing can be written to `at`, in parentheses, and what to do.
fn what_to_do(at: &Path, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("(permission denied): let this user write to {at:?}, or name another file")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "(its file system can only be read): name a file elsewhere".into()
        }
        _ => format!("({why}): name another file"),
    }
}

impl ConfigError {
    /// Creates an error whose place is not known.
    pub(crate) fn without_place(fault: ConfigFault) -> Self {
        Self { place: None, fault: Box::new(fault) }
    }

    pub(super) fn at_place(place: Place, fault: ConfigFault) -> Self {
        Self { place: Some(place), fault: Box::new(fault) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.fault),
            None => self.fault.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Converts the error to text, for callers that only report it.
impl From<ConfigError> for String {
    fn from(error: ConfigError) -> Self {
        error.to_string()
    }
}

/// What beginners may have meant by a root that is a file.
fn hint_of_file(root: &Path) -> &'static str {
    match root.extension().is_some_and(|it| it == "toml") {
        true => " (a configuration is read with --config)",
        false => "",
    }
}

/// A text, in quotes and escaped if it has control characters. Flags and the names of files may
/// contain anything; an error is one line, and a comment of the configuration must not end early.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    match text.chars().any(char::is_control) {
        true => format!("{text:?}").into(),
        false => text.into(),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.source))?;
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}
