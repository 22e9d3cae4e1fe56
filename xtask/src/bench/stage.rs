//! What the benchmarks of whole programs need: the programs, the processors, the file that is
//! served, and the server.

use super::load::Row;
use super::options::Options;
use super::rounds::progress;
use super::scratch::Scratch;
use crate::tools::workspace_root;
use lab::client::Client;
use lab::{Installed, Launch, RunningServer, ServerDescription, Setting, Surroundings, Values};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The processor of the measured server.
pub(crate) const SERVER_CPU: usize = 0;

/// The server that clients load.
const OURS: &str = "ropewalk";

/// The size of the requested file. `ropewalk fileset` makes it with the content that `--verify
/// bytes` expects.
const FILE_BYTES: &str = "1024";
const FILE: &str = "/size1024";

/// How long a preparation may take.
const PREPARE_WITHIN: Duration = Duration::from_secs(300);

/// What clients load, and from where.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) options: &'a Options<Row>,
    pub(crate) client_cpu: usize,
    surroundings: Surroundings,
    scratch: Scratch,
    ropewalk: Installed,
}

impl<'a> Stage<'a> {
    /// Builds Ropewalk and writes the file.
    pub(crate) fn new(options: &'a Options<Row>) -> Result<Self, String> {
        let surroundings = surroundings(options.build)?;
        progress("building Ropewalk");
        let described = Path::new(env!("CARGO_MANIFEST_DIR")).join("../servers");
        let described = ServerDescription::read(&described.join(format!("{OURS}.toml")))?;
        let ropewalk = described.install(&surroundings)?;
        if options.build {
            build("ropewalk-lab")?;
        }
        let stage = Self {
            options,
            client_cpu: client_cpu(),
            surroundings,
            scratch: Scratch::create()?,
            ropewalk,
        };
        let root = stage.scratch.root().display().to_string();
        let made = stage.command(&["fileset", &root, "--single", FILE_BYTES]);
        Client::start(stage.client_cpu, &made)?.finish(PREPARE_WITHIN)?.into_output()?;
        Ok(stage)
    }

    /// The version of Ropewalk.
    pub(crate) fn version(&self) -> &str {
        &self.ropewalk.version
    }

    /// A path for a file of this run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The words of a command of `ropewalk-lab`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Vec<String> {
        let target = self.surroundings.target_dir.as_deref().unwrap_or("target".as_ref());
        // What is measured is the program itself, and not that another passes the command on to it.
        let program = target.join("release/ropewalk-lab").display().to_string();
        [program].into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect()
    }

    /// A server of one worker on its own processor.
    pub(crate) fn server(&self) -> Result<RunningServer, String> {
        let launch = Launch {
            surroundings: self.surroundings.clone(),
            root: self.scratch.root(),
            scratch: self.scratch.path().to_owned(),
            workers: 1,
            cpus: vec![SERVER_CPU],
            memory_bytes_max: None,
            ready_path: FILE.into(),
            workload: Values::new(),
            place: lab::testbed::Place::default(),
            affinity: lab::testbed::Affinity::default(),
        };
        let setting: &Setting = &self.ropewalk.description.settings[0];
        Ok(RunningServer::start(&self.ropewalk, setting, &launch)?)
    }
}

/// The processor of the load: another one than the server's, where there is one.
fn client_cpu() -> usize {
    usize::from(os::affinity::allowed_cpus().len() > 1)
}

/// The directories that servers are built from and in.
pub(super) fn surroundings(build: bool) -> Result<Surroundings, String> {
    let found = Surroundings::find(build);
    match (&found.repository, &found.target_dir) {
        (Some(_), Some(_)) => Ok(found),
        _ => Err("cannot tell where the repository lies".into()),
    }
}

/// Builds a package of the workspace for release.
pub(super) fn build(package: &str) -> Result<(), String> {
    progress(&format!("building {package}"));
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", package]);
    match cargo.current_dir(workspace_root()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{package} cannot be built")),
    }
}

/// The URL of the file on a server.
pub(crate) fn file_url(server: &RunningServer) -> String {
    format!("http://{}{FILE}", server.address())
}

/// The number of requests that a server has answered by its own count, from its output at its end.
pub(crate) fn count_requests(server: RunningServer) -> Result<u64, String> {
    let printed = server.stop();
    let count = printed
        .rsplit_once("stopped after ")
        .and_then(|(_, rest)| rest.split_once(" requests")?.0.parse().ok());
    count.ok_or_else(|| format!("the server did not say what it has counted: {printed}"))
}
