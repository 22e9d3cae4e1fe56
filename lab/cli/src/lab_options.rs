//! Options that all commands of the lab share: where their files are, which servers are known,
//! which processors they get.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use command::near::{check_directory, none_of, unread};
use command::programs::SERVER;
use command::units::{parse_duration, parse_share};
use command::{Failure, notify, print};
use lab::observe::INTERFERENCE_MAX;
use lab::record::{Folder, Header, Opened};
use lab::search::unable;
use lab::trial::{LoadGenerator, LoadSetup};
use lab::workload::{Tools, WorkloadSpec};
use lab::{Environment, Lab, ServerDescription, ServerSpec, SourceTree, divide_cpus};

#[derive(Args)]
#[command(next_help_heading = "The lab")]
pub(crate) struct LabOptions {
    /// Where file sets and logs are kept, to be used again [default: /var/tmp/ropewalk-UID]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    known: KnownServers,
    /// The CPUs of the server: 0,2-3 [default: the first half of those that are allowed]
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<String>,
    /// The CPUs of the clients [default: the others]
    #[arg(long, value_name = "CPUS")]
    client_cpus: Option<String>,
    /// A run is void if the generator itself is later at the 99th percentile [default: half of what
    /// is reported there, at least 4ms]
    #[arg(long, value_name = "TIME")]
    lag_bound: Option<String>,
    /// A run is void if other processes used more than this share of its CPU time [default: 5%]
    #[arg(long, value_name = "SHARE")]
    interference_bound: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "What is requested")]
pub(crate) struct WorkloadOptions {
    /// zipf, zipf-sessions, 50KB, 1KB or tcp-intensive
    ///
    /// A workload of the literature; docs/lab/compare.md describes each.
    #[arg(long, value_name = "NAME", conflicts_with = "log")]
    workload: Option<String>,
    /// Your own traffic: a web server's access log
    ///
    /// Or sessions of `ropewalk log`.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The directory that was served then
    ///
    /// That is when the log was written. Servers that run already need none.
    #[arg(long, value_name = "DIR", requires = "log")]
    root: Option<PathBuf>,
}

/// The servers that a command knows.
#[derive(Args)]
pub(crate) struct KnownServers {
    /// Further servers: a directory of descriptions (see servers/README.md)
    #[arg(long, alias = "peers", value_name = "DIR")]
    servers: Option<PathBuf>,
    /// Ropewalk's own server [default: ropewalk beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    ropewalk: Option<PathBuf>,
}

impl KnownServers {
    /// The descriptions of all servers. Says which names in the user's own are others today.
    pub(crate) fn descriptions(&self) -> Result<Vec<ServerDescription>, Failure> {
        if let Some(folder) = &self.servers {
            check_directory("--servers", folder, "a directory of descriptions")?;
        }
        let program = match &self.ropewalk {
            Some(file) => std::path::absolute(file).map_err(|why| why.to_string()),
            None => SERVER.find(),
        };
        let program = program.as_deref().map_err(String::as_str);
        let descriptions =
            lab::catalogue(program, self.servers.as_deref()).map_err(Failure::Usage)?;
        descriptions.iter().for_each(print_notices);
        Ok(descriptions)
    }
}

/// The options that choose CPUs.
const SERVER_CPUS: &str = "--server-cpus";
const CLIENT_CPUS: &str = "--client-cpus";

impl LabOptions {
    pub(crate) fn open(&self) -> Result<Lab, Failure> {
        let program = env::current_exe()
            .map_err(|why| Failure::Operation(format!("this program cannot be found: {why}")))?;
        let scratch = self.scratch.clone().unwrap_or_else(default_scratch);
        lab::workload::make_folder(&scratch).map_err(Failure::Operation)?;
        // Servers are started in another folder.
        let scratch = std::path::absolute(&scratch)
            .map_err(|why| Failure::Usage(format!("--scratch {}: {why}", scratch.display())))?;
        let descriptions = self.known.descriptions()?;
        let (server_cpus, client_cpus) = self.cpus()?;
        if let Some(bound) = &self.lag_bound {
            let explain = |why| Failure::Usage(format!("--lag-bound {bound}: {why}"));
            parse_duration(bound).map_err(explain)?;
        }
        let tools = Tools { program, scratch };
        Ok(Lab {
            load_setup: LoadSetup {
                tools,
                generators: vec![LoadGenerator::beside(&server_cpus, &client_cpus)],
                lag_bound: self.lag_bound.clone(),
                interference_bound: self
                    .interference_bound()?
                    .map_or(INTERFERENCE_MAX, |(share, _)| share),
            },
            server_cpus,
            source_tree: SourceTree::find(true),
            descriptions,
        })
    }

    /// The share that other processes may use, 0 to 1, and as it was typed; none if it was not.
    pub(crate) fn interference_bound(&self) -> Result<Option<(f64, &str)>, Failure> {
        let parsed = |typed: &'_ str| {
            let explain = |why| Failure::Usage(format!("--interference-bound {typed}: {why}"));
            parse_share(typed).map_err(explain)
        };
        let typed = self.interference_bound.as_deref();
        typed.map(|typed| Ok((parsed(typed)?, typed))).transpose()
    }

    /// The first of these options that was typed, for commands that take none of them.
    pub(crate) fn first_typed(&self) -> Option<&'static str> {
        self.typed().next()
    }

    /// The first option that chooses CPUs, for commands whose CPUs are chosen otherwise.
    pub(crate) fn cpus_typed(&self) -> Option<&'static str> {
        let server = self.server_cpus.as_ref().map(|_| SERVER_CPUS);
        server.or_else(|| self.client_cpus.as_ref().map(|_| CLIENT_CPUS))
    }

    fn typed(&self) -> impl Iterator<Item = &'static str> {
        let typed = [
            (self.scratch.is_some(), "--scratch"),
            (self.known.servers.is_some(), "--servers"),
            (self.known.ropewalk.is_some(), "--ropewalk"),
            (self.server_cpus.is_some(), SERVER_CPUS),
            (self.client_cpus.is_some(), CLIENT_CPUS),
            (self.lag_bound.is_some(), "--lag-bound"),
            (self.interference_bound.is_some(), "--interference-bound"),
        ];
        typed.into_iter().filter_map(|(is_typed, option)| is_typed.then_some(option))
    }

    fn cpus(&self) -> Result<(Vec<usize>, Vec<usize>), Failure> {
        let allowed = os::affinity::allowed_cpus();
        let typed = |option: &str, typed: &Option<String>| match typed {
            None => Ok(None),
            Some(text) => load::options::parse_cpus(option, text).map(Some).map_err(Failure::Usage),
        };
        let server = typed(SERVER_CPUS, &self.server_cpus)?;
        let client = typed(CLIENT_CPUS, &self.client_cpus)?;
        Ok(divide_cpus(&allowed, server, client))
    }
}

impl WorkloadOptions {
    /// The workload that was typed, or this preset, for these servers.
    pub(crate) fn spec(
        &self,
        default: &str,
        servers: &[&ServerSpec],
    ) -> Result<WorkloadSpec, Failure> {
        let spec = self.typed(default, servers)?;
        Ok(WorkloadSpec { is_condensed: true, ..spec })
    }

    fn typed(&self, default: &str, servers: &[&ServerSpec]) -> Result<WorkloadSpec, Failure> {
        if let Some(log) = &self.log {
            let to_start = servers.iter().find(|server| server.name().is_some());
            if let (None, Some(server)) = (&self.root, to_start) {
                return Err(Failure::Usage(format!(
                    "--log: {server} is started here: say with --root DIR which directory it shall \
                     serve"
                )));
            }
            if let Err(why) = File::open(log) {
                return Err(unread(log, &why, "a web server's log"));
            }
            if let Some(root) = &self.root {
                check_directory("--root", root, "the directory that was served")?;
            }
            return Ok(WorkloadSpec::replay(self.root.clone(), log.clone()));
        }
        let name = self.workload.as_deref().unwrap_or(default);
        WorkloadSpec::preset(name).ok_or_else(|| {
            let presets = lab::workload::PRESETS.iter().map(|preset| preset.name);
            Failure::Usage(none_of("--workload", name, presets))
        })
    }
}

/// Says what has become of knobs that were typed for a server and are others today.
pub(crate) fn print_knob_notices(lab: &Lab, spec: &ServerSpec) {
    lab.knob_notices(spec).iter().for_each(|notice| notify(&format!("{spec}: {notice}")));
}

/// Says which of these servers are built from source before anything else is done.
pub(crate) fn print_builds<'s>(
    lab: &Lab,
    specs: impl IntoIterator<Item = &'s ServerSpec>,
) -> Result<(), Failure> {
    lab.built_first(specs).map_or(Ok(()), |line| print(&format!("{line}\n")))
}

/// Says which names in a description of the user's own are others today.
fn print_notices(description: &ServerDescription) {
    let folder = description.folder.as_deref().unwrap_or(Path::new(""));
    let file = folder.join(format!("{}.toml", description.name));
    description.notices.iter().for_each(|notice| notify(&format!("{}: {notice}", file.display())));
}

impl WorkloadOptions {
    /// Whether the right replies are unknown.
    pub(crate) fn is_unknown(&self) -> bool {
        self.log.is_some() && self.root.is_none()
    }
}

/// The default scratch directory: readable by all, because some servers drop to a user of their
/// own; and not in a temporary directory, which may be memory.
fn default_scratch() -> PathBuf {
    PathBuf::from(format!("/var/tmp/ropewalk-{}", os::process::user_id()))
}

/// Opens a new folder for records, or one to go on with, writes the machine as it is now into it,
/// and returns what it held before.
pub(crate) fn open_records(
    path: &Path,
    header: &Header,
    environment: &Environment,
    resume: bool,
) -> Result<(Folder, Opened), Failure> {
    let (folder, opened) = Folder::open(path, header, resume)?;
    if resume {
        let made = opened.runs.len() + opened.cache.len();
        print(&format!("Going on after {made} runs.\n"))?;
        opened.notice.as_deref().into_iter().for_each(notify);
        opened.damage.iter().try_for_each(|line| print(&format!("{line}\n")))?;
    }
    folder.add_environment(environment).map_err(|why| Failure::Stopped(unable(&why)))?;
    Ok((folder, opened))
}
