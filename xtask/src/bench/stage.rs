//! The common setup of benchmarks that drive Ropewalk with `ropewalk load`: the program and the
//! files it serves.

use super::options::{Named, Options};
use super::rounds::progress;
use super::scratch::Scratch;
use super::serve::{OURS, SERVER_CPU, client_cpu, descriptions, surroundings};
use crate::tools::workspace_root;
use lab::client::Client;
use lab::{Installed, Launch, RunningServer, Setting, Surroundings, Values};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The size of the requested file. `ropewalk fileset` makes it with the content that `--verify
/// bytes` expects.
const FILE_BYTES: &str = "1024";
pub(crate) const FILE: &str = "/size1024";

/// The number of sessions in a log, which then repeat.
const SESSIONS: usize = 1000;

/// How long a preparation may take.
const PREPARE_WITHIN: Duration = Duration::from_secs(300);

/// Everything that the rows need.
#[derive(Debug)]
pub(crate) struct Stage<'a, R: 'static> {
    pub(crate) options: &'a Options<R>,
    pub(crate) client_cpu: usize,
    surroundings: Surroundings,
    scratch: Scratch,
    ropewalk: Installed,
}

impl<'a, R: Named> Stage<'a, R> {
    /// Builds Ropewalk and writes the file.
    pub(crate) fn new(options: &'a Options<R>) -> Result<Self, String> {
        let surroundings = surroundings(options.build)?;
        progress("building Ropewalk");
        let ropewalk = description(OURS, &surroundings)?;
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
        stage.prepare(&["fileset", &root, "--single", FILE_BYTES])?;
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

    /// The words of a command of Ropewalk.
    pub(crate) fn command(&self, arguments: &[&str]) -> Vec<String> {
        let program = self.surroundings.target_dir.as_deref().unwrap_or("target".as_ref());
        // What is measured is the program itself, and not that another passes the command on to it.
        let name = if arguments.first() == Some(&"engines") { "ropewalk" } else { "ropewalk-lab" };
        let program = program.join("release").join(name).display().to_string();
        [program].into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect()
    }

    /// Has Ropewalk make a file or folder.
    pub(crate) fn prepare(&self, arguments: &[&str]) -> Result<(), String> {
        let client = Client::start(self.client_cpu, &self.command(arguments))?;
        client.finish(PREPARE_WITHIN)?.into_output()?;
        Ok(())
    }

    /// Makes a request log of sessions that request the one file, `requests` times each, with a
    /// pause of `think` seconds after each request.
    pub(crate) fn log(&self, requests: usize, think: &str) -> Result<String, String> {
        let session = format!("{FILE} think={think}\n").repeat(requests) + "\n";
        let name = format!("{requests}-{think}.log");
        let path = self.scratch.write(&name, session.repeat(SESSIONS).as_bytes())?;
        Ok(path.display().to_string())
    }

    /// A server of one worker on its own processor.
    pub(crate) fn server(&self) -> Result<RunningServer, String> {
        self.server_with(&Values::new(), None)
    }

    /// Starts a server of one worker on its own processor, with other values for the knobs of
    /// `servers/ropewalk.toml`, and with a bound on the memory of its control group, which includes
    /// the pages of files that the server reads first.
    pub(crate) fn server_with(
        &self,
        knobs: &Values,
        memory_bytes_max: Option<u64>,
    ) -> Result<RunningServer, String> {
        let mut values = Values::from([("limits.connections_max".into(), "65536".into())]);
        values.extend(knobs.clone());
        let setting =
            Setting { name: "many connections".into(), about: String::new(), knobs: values };
        self.described_server(&self.ropewalk, &setting, memory_bytes_max)
    }

    /// A foreign server, if it is installed.
    pub(crate) fn description(&self, name: &str) -> Result<Installed, String> {
        description(name, &self.surroundings)
    }

    /// A foreign server of one worker on the servers' processor.
    pub(crate) fn described_server(
        &self,
        installed: &Installed,
        setting: &Setting,
        memory_bytes_max: Option<u64>,
    ) -> Result<RunningServer, String> {
        let launch = Launch {
            surroundings: self.surroundings.clone(),
            root: self.scratch.root(),
            scratch: self.scratch.path().to_owned(),
            workers: 1,
            cpus: vec![SERVER_CPU],
            memory_bytes_max,
            ready_path: FILE.into(),
            workload: Values::new(),
            place: lab::testbed::Place::default(),
            affinity: lab::testbed::Affinity::default(),
        };
        Ok(RunningServer::start(installed, setting, &launch)?)
    }

    /// The folder that is served.
    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.root()
    }
}

fn description(name: &str, surroundings: &Surroundings) -> Result<Installed, String> {
    let found = descriptions()?.into_iter().find(|description| description.name == name);
    found.ok_or_else(|| format!("there is no servers/{name}.toml"))?.install(surroundings)
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

/// A server's address in the form that the sessions of a log need.
pub(crate) fn server_url(server: &RunningServer) -> String {
    format!("http://{}", server.address())
}

/// The URL of the file on a server.
pub(crate) fn file_url(server: &RunningServer) -> String {
    server_url(server) + FILE
}

/// The number of requests that a server has answered by its own count, from its output at its end.
pub(crate) fn count_requests(server: RunningServer) -> Result<u64, String> {
    let printed = server.stop();
    let count = printed
        .rsplit_once("stopped after ")
        .and_then(|(_, rest)| rest.split_once(" requests")?.0.parse().ok());
    count.ok_or_else(|| format!("the server did not say what it has counted: {printed}"))
}
