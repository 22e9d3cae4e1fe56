//! The run as a whole: finding the servers, running the rows, and ending everything.

use super::contest::Contest;
use super::corpus::Corpus;
use super::idle;
use super::options::Options;
use super::report::{self, Report};
use super::rounds::progress;
use super::row::{Row, Subject};
use lab::{Found, Installed, Launch, ServerDescription, Surroundings};
use std::path::Path;

/// The processor of the measured server.
pub(crate) const SERVER_CPU: usize = 0;

/// The server that no choice leaves out: the others are compared with it.
pub(crate) const OURS: &str = "ropewalk";
pub(crate) const FLOOR: &str = "floor";

/// Servers that take part only where they are named. Other servers of the same architectures are in
/// every row, which keeps a run short; and prefork has a process for each of thousands of
/// connections.
const ON_DEMAND: [&str; 4] = ["apache-prefork", "apache-worker", "goserver", "yaws"];

/// The common data of all rows.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options<Row>,
    pub(crate) corpus: Corpus,
    pub(crate) surroundings: Surroundings,
    pub(crate) servers: Vec<Installed>,
    /// The processor of the load.
    pub(crate) client_cpu: usize,
}

/// Runs the benchmark and prints its tables.
pub(crate) fn run(options: &Options<Row>) -> Result<(), String> {
    os::limits::raise_descriptor_limit().map_err(|why| why.to_string())?;
    let surroundings = surroundings(options.build)?;
    let mut report = Report::default();
    let servers = find(&surroundings, options, &mut report)?;
    let corpus = Corpus::create(&options.rows)?;
    let bench = Bench { options, corpus, surroundings, servers, client_cpu: client_cpu() };
    bench.rows(&mut report)?;
    report::print_end(&report);
    match &options.json {
        Some(path) => report::write_json(&report, path),
        None => Ok(()),
    }
}

impl Bench<'_> {
    fn rows(&self, report: &mut Report) -> Result<(), String> {
        report::print_start(report, &self.servers);
        for row in &self.options.rows {
            if row.subject == Subject::Idle {
                let result = idle::run(self)?;
                report::print_idle(&result);
                report.idle = result;
            } else {
                let result = Contest::prepare(self, row)?.run()?;
                report::print_row(&result);
                report.rows.push(result);
            }
        }
        Ok(())
    }

    /// How to start a server, with the placeholders of the workload.
    pub(crate) fn launch(&self, ready_path: &str, workload: lab::Values) -> Launch {
        Launch {
            surroundings: self.surroundings.clone(),
            root: self.corpus.root(),
            scratch: self.corpus.scratch().path().to_owned(),
            workers: 1,
            cpus: vec![SERVER_CPU],
            memory_bytes_max: None,
            ready_path: ready_path.to_owned(),
            workload,
            place: lab::testbed::Place::default(),
            affinity: lab::testbed::Affinity::default(),
        }
    }
}

/// The installed servers that are selected; the others go into the report as skipped.
fn find(
    surroundings: &Surroundings,
    options: &Options<Row>,
    report: &mut Report,
) -> Result<Vec<Installed>, String> {
    let descriptions = descriptions()?;
    if let Some(name) =
        options.only.iter().find(|name| !descriptions.iter().any(|p| p.name == **name))
    {
        return Err(format!("there is no servers/{name}.toml"));
    }
    progress("looking for servers");
    let wanted: Vec<ServerDescription> =
        descriptions.into_iter().filter(|description| is_wanted(description, options)).collect();
    let mut found = Found::detect(&wanted, &[], surroundings)?;
    report.skipped.extend(found.skipped);
    // Ropewalk first: the floor's head is made like its head.
    found
        .installed
        .sort_by_key(|one| (one.description.name != OURS, one.description.name != FLOOR));
    Ok(found.installed)
}

fn is_wanted(description: &ServerDescription, options: &Options<Row>) -> bool {
    let name = description.name.as_str();
    let usual = !options.only.is_empty() || !ON_DEMAND.contains(&name);
    [OURS, FLOOR].contains(&name) || usual && options.wants(name)
}

/// All servers in the repository from which this program was compiled.
pub(crate) fn descriptions() -> Result<Vec<ServerDescription>, String> {
    ServerDescription::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../servers"))
}

/// The processor of the load: another one than the server's, where there is one.
pub(crate) fn client_cpu() -> usize {
    usize::from(os::affinity::allowed_cpus().len() > 1)
}

/// The directories that servers are built from and in.
pub(crate) fn surroundings(build: bool) -> Result<Surroundings, String> {
    let found = Surroundings::find(build);
    match (&found.repository, &found.target_dir) {
        (Some(_), Some(_)) => Ok(found),
        _ => Err("cannot tell where the repository lies".into()),
    }
}
