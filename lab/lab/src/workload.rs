//! What clients request in an experiment: a directory, and a log of the requests for it.
//!
//! A [`WorkloadSpec`] is what an experiment says; [`Tools::prepare`] makes it real by the commands
//! that a person would use (`ropewalk fileset`, `ropewalk log`), once: what has been made is kept
//! in the scratch directory and only checked the next time. What is sent, and when, is the part of
//! `trial`.

mod given_log;
mod log_size;
mod made;

use crate::error::Error;
use crate::http::{self, Connection};
use crate::process::{self, CommandError};
use crate::record::Described;
use crate::template::Values;
use crate::wrk;
use ::workload::describe::{Description, bytes_with_lengths, describe};
use ::workload::request_log::{RequestLog, Template, wsesslog};
use given_log::Tally;
use load::expected::file_for_uri;
use load::options::Options;
use load::plan::{ConnectionUse, Verify};
pub use log_size::LogSize;
pub use made::{FileSetChoice, FileSetOptions, LogOptions, MixOptions};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A workload as an experiment's file has it. Files are either made or given; so is the log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// The name in reports.
    pub name: String,
    /// Its description, a sentence.
    #[serde(default)]
    pub about: String,
    /// Options of `ropewalk fileset`. A file has them as a user types them.
    pub files: Option<FileSetOptions>,
    /// An existing directory, in place of `files`.
    pub root: Option<PathBuf>,
    /// Whether the server runs already and has files of its own, which are unknown here: `files`
    /// and `root` are absent then. No experiment's file can say so.
    #[serde(skip)]
    pub is_served_already: bool,
    /// Options of `ropewalk log generate`. A file has them as a user types them.
    pub log: Option<LogOptions>,
    /// An existing log, in place of `log`: httperf's format, or a web server's access log.
    pub log_file: Option<PathBuf>,
    /// Further options of `ropewalk load`: how connections are used, timeouts, what is verified. A
    /// file has them as a user types them.
    #[serde(default, deserialize_with = "typed_load")]
    pub load: Options,
    /// The client that loads servers with it.
    #[serde(default)]
    pub client: LoadClient,
    /// Whether it is for windows of seconds: then sessions go on without a pause, from which few
    /// people would come back within a window, and are no longer than 100 requests, so that many
    /// begin in each. An experiment's file says for itself how long its windows are.
    #[serde(skip)]
    pub is_condensed: bool,
}

/// A program that loads servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadClient {
    /// `ropewalk load`.
    #[default]
    Ropewalk,
    /// wrk, which can do less: a closed load of single requests over connections that are all kept
    /// or all closed. It measures no times here.
    Wrk,
}

/// A workload that has a name and need not be written down.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// Its description, a sentence with its source.
    pub about: &'static str,
    /// Makes [`WorkloadSpec::files`].
    files: fn() -> FileSetOptions,
    /// Makes [`WorkloadSpec::log`].
    log: fn() -> LogOptions,
    /// Which requests share a connection.
    connection_use: ConnectionUse,
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "zipf",
        about: "SPECweb99 files by Zipf's law, 200 MB, a connection for each session",
        files: || FileSetOptions::directories(40),
        log: || {
            let mix = MixOptions { directories: Some("40".into()), ..MixOptions::default() };
            LogOptions { mix, ..LogOptions::of_preset("spec99", 40_000) }
        },
        connection_use: ConnectionUse::Session,
    },
    Preset {
        name: "zipf-sessions",
        about: "Radhakrishnan's sessions with pauses, 942 directories, 4.8 GB (2019, chapter 3)",
        files: || FileSetOptions::preset("radhakrishnan"),
        // As many sessions as it takes for their files, 2.2 GiB, to fit in the 3.4 GiB of page
        // cache that the thesis has, and not in its 1.8.
        log: || LogOptions::of_preset("radhakrishnan", 500_000),
        connection_use: ConnectionUse::Session,
    },
    Preset {
        name: "50KB",
        about: "one file of 50 KB (Radhakrishnan 2019, chapter 3)",
        files: || FileSetOptions::single(50_000),
        log: || LogOptions::of_single(50_000, 1000),
        connection_use: ConnectionUse::Keep,
    },
    Preset {
        name: "1KB",
        about: "one file of 1 KB: what a request costs and no more",
        files: || FileSetOptions::single(1000),
        log: || LogOptions::of_single(1000, 1000),
        connection_use: ConnectionUse::Keep,
    },
    Preset {
        name: "tcp-intensive",
        about: "one file of 1 KB over a connection for each request (Hashemian 2013)",
        files: || FileSetOptions::single(1000),
        log: || LogOptions::of_single(1000, 1000),
        connection_use: ConnectionUse::Request,
    },
];

/// Files are estimated to be made at this pace: that of a disk of a common kind.
const MADE_BYTES_PER_S: f64 = 200e6;

/// The longest session within windows of seconds: as many requests as Apache answers on a
/// connection by default. The sessions of a proxy's log, behind which all users are one client,
/// would fill many windows.
const LENGTH_MAX: usize = 100;

/// A workload that is ready for use.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name, what it is, and its numbers.
    pub described: Described,
    /// The directory that servers serve; empty where it is unknown.
    pub root: PathBuf,
    /// The log, in httperf's format.
    pub log: PathBuf,
    /// The requests in the log.
    pub requests: Arc<RequestLog>,
    /// A log that requests everything in `log` once.
    pub prime: PathBuf,
    /// The path of an existing file.
    pub ready_path: String,
    /// Further options of `ropewalk load`.
    pub load: Options,
    /// How long its sessions need, when they begin to come at a steady rate, until as many are
    /// under way as always will be, in microseconds.
    pub filling_us: u64,
    /// The values of the placeholders of servers that are started with what will be requested.
    pub values: Values,
    /// The client that loads servers with it.
    pub client: LoadClient,
    /// The script with which wrk requests what is in `log`; none where it needs none.
    pub wrk_script: Option<PathBuf>,
}

/// The tools of experiments: this program, and a place for files.
#[derive(Clone, Debug)]
pub struct Tools {
    /// `ropewalk-lab` itself.
    pub program: PathBuf,
    /// A directory for file sets, logs and whatever servers write.
    pub scratch: PathBuf,
}

impl WorkloadSpec {
    /// One of [`PRESETS`].
    pub fn preset(name: &str) -> Option<Self> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        Some(Self {
            name: preset.name.into(),
            about: preset.about.into(),
            files: Some((preset.files)()),
            log: Some((preset.log)()),
            load: connections(preset.connection_use),
            ..Self::default()
        })
    }

    /// The user's own traffic on the user's own files; without a directory of them on the files
    /// that running servers have.
    pub fn replay(root: Option<PathBuf>, log_file: PathBuf) -> Self {
        let name = log_file.file_name().map(|name| name.to_string_lossy().into_owned());
        let log = log_file.display();
        let (about, verify) = match &root {
            Some(root) => (format!("{log} on {}", root.display()), None),
            // The lengths in the log may be those of compressed replies.
            None => (
                format!("{log}, whose files are not known: replies are to be good and whole"),
                Some(Verify::None),
            ),
        };
        Self {
            name: name.unwrap_or_else(|| "log".into()),
            about,
            is_served_already: root.is_none(),
            root,
            log_file: Some(log_file),
            load: Options { verify, ..connections(ConnectionUse::Session) },
            ..Self::default()
        }
    }

    fn loses_pauses_of(&self, log: &RequestLog) -> bool {
        self.is_condensed && log.has_pauses()
    }

    /// Checks that it says what it must, and no more.
    ///
    /// # Errors
    /// A sentence with the workload's name.
    pub fn check(&self) -> Result<(), String> {
        let explain = |what: &str| Err(format!("workload {}: {what}", self.name));
        if self.name.is_empty() {
            return Err("a workload without a name".into());
        }
        match (&self.files, &self.root) {
            (None, None) if self.is_served_already => {}
            (None, None) => return explain("say `files` or `root`"),
            (Some(_), Some(_)) => return explain("say `files` or `root`, not both"),
            _ => {}
        }
        match (&self.log, &self.log_file) {
            (None, None) => return explain("say `log` or `log_file`"),
            (Some(_), Some(_)) => return explain("say `log` or `log_file`, not both"),
            _ => {}
        }
        self.check_client()
    }

    /// Checks that wrk, if it is the client, has the options in `load`.
    fn check_client(&self) -> Result<(), String> {
        if self.client != LoadClient::Wrk {
            return Ok(());
        }
        let explain = |what: &str| Err(format!("workload {}: `client`: {what}", self.name));
        if let Some(option) = self.load.option_names().iter().find(|name| *name != "--connection") {
            return explain(&format!("wrk has no {option}: leave it out of `load`"));
        }
        match self.load.connection_use {
            Some(ConnectionUse::Keep | ConnectionUse::Request) => Ok(()),
            _ => explain("wrk knows no sessions: say `--connection keep` or `request` in `load`"),
        }
    }
}

impl Workload {
    /// Whether connections are used again.
    pub(crate) fn connection(&self) -> Connection {
        connection_of(&self.load)
    }

    /// The mean length of what is requested, as far as it is known.
    pub(crate) fn mean_body_bytes(&self) -> f64 {
        self.described.numbers.get("mean_body_bytes").copied().unwrap_or(0.0)
    }

    /// What the log requests, each with how often.
    pub fn popularity(&self) -> Vec<(&[u8], u64)> {
        let log = &self.requests;
        let mut counts = vec![0; log.templates().len()];
        let requests = (0..log.sessions()).flat_map(|index| log.session(index));
        requests.for_each(|request| counts[request.template()] += 1);
        let uris = log.templates().iter().map(|template| &*template.uri);
        uris.zip(counts).collect()
    }

    /// The bytes of all replies together if everything is requested once, as far as they are known.
    pub(crate) fn bytes_of_all(&self) -> u64 {
        let of_file = |uri: &[u8]| Some(fs::metadata(file_for_uri(uri, &self.root)?).ok()?.len());
        let bytes = |asked: &Template| asked.reply_bytes.or_else(|| of_file(&asked.uri));
        self.requests.templates().iter().filter_map(bytes).sum()
    }
}

impl Tools {
    /// Runs `ropewalk` with these arguments to its end.
    ///
    /// # Errors
    /// The end of what it printed, if it fails; by its status it says whose fault that is.
    fn run(&self, arguments: &[&str], more: Vec<String>) -> Result<(), Error> {
        /// `ropewalk` ends with it where its arguments are wrong.
        const WRONG_USAGE: i32 = 2;
        match process::run(&[self.command(arguments), more].concat(), None) {
            Ok(_) => Ok(()),
            Err(CommandError::Failed(_, Some(WRONG_USAGE), said)) => Err(Error::Usage(said)),
            Err(why) => Err(Error::Failed(why.to_string())),
        }
    }

    /// `ropewalk` with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Vec<String> {
        let program = self.program.display().to_string();
        [program].into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect()
    }

    /// Seconds that making the files of these workloads is estimated to take, as far as they do not
    /// exist yet.
    pub fn making_s(&self, specs: &[WorkloadSpec]) -> f64 {
        let missing = specs.iter().filter_map(|spec| spec.files.as_ref());
        let missing: BTreeSet<&FileSetOptions> =
            missing.filter(|options| !self.folder_of(options).is_dir()).collect();
        let sets = missing.into_iter().filter_map(|options| options.choice.set().ok());
        sets.map(|set| set.bytes()).sum::<u64>() as f64 / MADE_BYTES_PER_S
    }

    /// The folder with the files of these options.
    fn folder_of(&self, options: &FileSetOptions) -> PathBuf {
        self.scratch.join("files").join(digest(options.to_arguments().join(" ")))
    }

    /// Makes what a workload needs and does not exist yet.
    ///
    /// # Errors
    /// What cannot be made, and why: its definition is wrong, with the logs and directories that it
    /// names, or the system does not give what it needs.
    pub fn prepare(&self, spec: &WorkloadSpec) -> Result<Workload, Error> {
        spec.check().map_err(Error::Usage)?;
        let explain = |why: Error| why.at(format_args!("workload {}", spec.name));
        let root = self.files(spec).map_err(explain)?;
        let (log, path, tally) = self.log(spec).map_err(explain)?;
        let (log, path, changes) = self.adapted(spec, log, path, tally).map_err(explain)?;
        let is_empty = || explain(Error::Usage("its log is empty".into()));
        let first = log.templates().first().ok_or_else(is_empty)?;
        let prime = self.scratch.join("logs").join(format!("{}.prime", digest(&path)));
        write_prime(&log, &prime).map_err(explain)?;
        let values = self.values(spec, &log, &path).map_err(explain)?;
        let load = load_options(spec, &log).map_err(explain)?;
        let wrk_script = self.wrk_script(spec, &log, &path).map_err(explain)?;
        Ok(Workload {
            client: spec.client,
            wrk_script,
            described: described(spec, &log, &changes),
            ready_path: String::from_utf8_lossy(&first.uri).into_owned(),
            root,
            filling_us: filling_us(spec, &load, &log, &path),
            load,
            log: path,
            requests: Arc::new(log),
            prime,
            values,
        })
    }

    /// An existing log, without requests for files that are gone, and with sessions that fit into
    /// windows; written anew if that changes it. Also returns what has changed, in words.
    fn adapted(
        &self,
        spec: &WorkloadSpec,
        log: RequestLog,
        path: PathBuf,
        mut tally: Tally,
    ) -> Result<(RequestLog, PathBuf, String), Error> {
        if spec.log_file.is_none() {
            return Ok((log, path, String::new()));
        }
        let there: Vec<bool> = log.templates().iter().map(|asked| is_there(spec, asked)).collect();
        let length_max = if spec.is_condensed { LENGTH_MAX } else { usize::MAX };
        let is_cut = log.longest_session() > length_max;
        let missing = there.iter().position(|there| !there);
        let changes = |tally: &Tally| {
            let cut = format!("sessions of more than {length_max} requests are cut");
            let parts = [tally.to_string(), if is_cut { cut } else { String::new() }];
            let said = parts.iter().filter(|part| !part.is_empty());
            said.map(|part| format!("; {part}")).collect::<String>()
        };
        if missing.is_none() && !is_cut {
            return Ok((log, path, changes(&tally)));
        }
        let chosen = log.selected(&there, length_max);
        if chosen.requests() == 0 {
            let root = spec.root.as_deref().unwrap_or(Path::new(""));
            return Err(Error::Usage(format!(
                "no file that its log requests is in {}: is it the directory that was served then?",
                root.display()
            )));
        }
        if let Some(first) = missing {
            let count = (log.requests() - chosen.requests()) as u64;
            tally.leave_out_missing(count, &log.templates()[first].uri);
        }
        let changes = changes(&tally);
        // One log may be replayed on several directories with different files.
        let what = format!("{}\n{:?}\n{length_max}", path.display(), spec.root);
        let place = self.scratch.join("logs").join(digest(&what) + ".log");
        write_log(&chosen, &place, &changes)?;
        Ok((chosen, place, changes))
    }

    /// The script for wrk, where it is the client and needs one.
    fn wrk_script(
        &self,
        spec: &WorkloadSpec,
        log: &RequestLog,
        path: &Path,
    ) -> Result<Option<PathBuf>, Error> {
        match spec.client {
            LoadClient::Ropewalk => Ok(None),
            LoadClient::Wrk => {
                let place = self.scratch.join("logs").join(digest(path) + ".lua");
                wrk::script(log, &place).map_err(|why| why.at("`client`"))
            }
        }
    }

    /// The floor prepares its responses: it must know the paths, the head of a response like that
    /// of others, and whether connections stay open.
    fn values(&self, spec: &WorkloadSpec, log: &RequestLog, path: &Path) -> Result<Values, Error> {
        let connection = connection_of(&spec.load);
        let paths: Vec<String> =
            log.templates().iter().map(|asked| path_and_file(&asked.uri)).collect();
        let place = |end: String| self.scratch.join("logs").join(digest(path) + &end);
        let list = place(".paths".into());
        // Another workload may use the same log with other connections.
        let head = place(format!(".{}.head", connection.token()));
        write(&list, paths.join("\n").as_bytes())?;
        write(&head, &http::usual_head("floor", connection))?;
        Ok([
            ("path_list", list.display().to_string()),
            ("head_file", head.display().to_string()),
            ("connection", connection.token().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
    }

    /// The directory with the files; made and repaired by `ropewalk fileset`, which leaves alone
    /// what is right.
    fn files(&self, spec: &WorkloadSpec) -> Result<PathBuf, Error> {
        if let Some(root) = &spec.root {
            return fs::canonicalize(root).map_err(|why| refused(root, &why));
        }
        // Without them the server runs already.
        let Some(options) = &spec.files else { return Ok(PathBuf::new()) };
        let folder = self.folder_of(options);
        make_folder(&folder).map_err(Error::Failed)?;
        let place = folder.display().to_string();
        let made = self.run(&["fileset", &place], options.to_arguments());
        made.map_err(|why| why.at("`files`"))?;
        Ok(folder)
    }

    /// The log, where it is in httperf's format, and which of its requests are used. Logs with
    /// equal options are equal, so each is made once. A web server's log is read once: the server
    /// may go on writing it.
    fn log(&self, spec: &WorkloadSpec) -> Result<(RequestLog, PathBuf, Tally), Error> {
        let folder = self.scratch.join("logs");
        make_folder(&folder).map_err(Error::Failed)?;
        if let Some(path) = &spec.log_file {
            let path = fs::canonicalize(path).map_err(|why| refused(path, &why))?;
            let bytes = fs::read(&path).map_err(|why| refused(&path, &why))?;
            if is_wsesslog(&bytes, &path).map_err(Error::Usage)? {
                let log = parse_log(&bytes, &path)?;
                let tally = Tally::of_sessions(&log);
                return Ok((log, path, tally));
            }
            let (log, tally) = given_log::sessions(&bytes, &path).map_err(Error::Usage)?;
            let sessions = folder.join(format!("{}.log", digest(&path)));
            write_log(&log, &sessions, &format!("of {}", path.display()))?;
            return Ok((log, sessions, tally));
        }
        let is_given = || Error::Usage("say `log` or `log_file`".into());
        let options = spec.log.as_ref().ok_or_else(is_given)?.to_arguments();
        let path = folder.join(format!("{}.log", digest(options.join(" "))));
        if !path.exists() {
            let place = path.display().to_string();
            let made = self.run(&["log", "generate", "--output", &place], options);
            made.map_err(|why| why.at("`log`"))?;
        }
        let log = read_log(&path)?;
        let tally = Tally::of_sessions(&log);
        Ok((log, path, tally))
    }
}

/// Whether a request of the log is for an existing file, where the files are known.
fn is_there(spec: &WorkloadSpec, template: &Template) -> bool {
    let is_file = |root| file_for_uri(&template.uri, root).is_some_and(|file| file.is_file());
    spec.root.as_deref().is_none_or(is_file)
}

/// A path as it is requested, and behind a tab the file, where it has another name.
fn path_and_file(uri: &[u8]) -> String {
    let path = String::from_utf8_lossy(uri);
    match file_for_uri(uri, Path::new("/")) {
        Some(file) if file != Path::new(&*path) => format!("{path}\t{}", file.display()),
        _ => path.into_owned(),
    }
}

/// Its name, its description with what was changed of it, and its numbers.
fn described(spec: &WorkloadSpec, log: &RequestLog, changes: &str) -> Described {
    let mut description = describe(log, None);
    if let Some(root) = &spec.root {
        // What will be sent: the log's lengths may be of replies that were compressed.
        let length = |uri: &[u8]| Some(fs::metadata(file_for_uri(uri, root)?).ok()?.len());
        description.bytes = bytes_with_lengths(log, length);
    }
    let end = if spec.loses_pauses_of(log) { "; the pauses in sessions are left out" } else { "" };
    let by = if spec.client == LoadClient::Wrk { "; wrk is the client" } else { "" };
    Described {
        name: spec.name.clone(),
        about: format!("{}{changes}{end}{by}", spec.about),
        numbers: numbers(&description),
    }
}

/// Its own options of `ropewalk load`, and those that follow from the rest.
fn load_options(spec: &WorkloadSpec, log: &RequestLog) -> Result<Options, Error> {
    let mut options = spec.load.clone();
    if spec.loses_pauses_of(log) {
        options.think_max = Some("0s".to_owned());
    }
    match (&spec.root, &options.files) {
        (Some(root), Some(files)) => Err(Error::Usage(format!(
            "`load`: --files {}: replies are held against its `root` {}: leave one out",
            files.display(),
            root.display()
        ))),
        (Some(root), None) => Ok(Options { files: Some(root.clone()), ..options }),
        (None, _) => Ok(options),
    }
}

/// The filling time with the pauses that are made under these options; 0 if the options are wrong,
/// which is reported when a trial is checked.
fn filling_us(spec: &WorkloadSpec, load: &Options, log: &RequestLog, path: &Path) -> u64 {
    if spec.loses_pauses_of(log) || !log.has_pauses() && load.default_think.is_none() {
        return 0;
    }
    let sent = Options { log: Some(path.to_owned()), ..load.clone() };
    sent.filling_us().unwrap_or(0)
}

/// Options that set nothing but the use of connections.
pub(crate) fn connections(connection_use: ConnectionUse) -> Options {
    Options { connection_use: Some(connection_use), ..Options::default() }
}

/// Options of `ropewalk load` as a user has typed them.
fn typed_load<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
    made::typed(deserializer, "load", "load")
}

/// The Connection field of responses to clients with these options.
fn connection_of(load: &Options) -> Connection {
    match load.connection_use {
        Some(ConnectionUse::Request) => Connection::Close,
        _ => Connection::KeepAlive,
    }
}

/// A name for what was made from these words (FNV-1a, 64 bits).
pub fn digest(words: impl AsRef<OsStr>) -> String {
    let bytes = words.as_ref().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Makes a folder and its missing parents.
///
/// # Errors
/// Why it cannot be made, with its name.
pub fn make_folder(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))
}

/// The system refuses a file or a folder.
fn refused(path: &Path, why: &io::Error) -> Error {
    Error::Failed(format!("{}: {why}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|why| refused(path, &why))
}

/// Whether a file is in httperf's format and not a web server's log: lines of the former begin with
/// a path, or with white space before one; lines of the latter with an address or a brace.
fn is_wsesslog(text: &[u8], path: &Path) -> Result<bool, String> {
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start);
    let first = lines.find(|line| !line.is_empty() && line[0] != b'#');
    let first = first.ok_or_else(|| format!("{}: it has no requests", path.display()))?;
    Ok(first[0] == b'/')
}

fn read_log(path: &Path) -> Result<RequestLog, Error> {
    let bytes = fs::read(path).map_err(|why| refused(path, &why))?;
    parse_log(&bytes, path)
}

fn parse_log(bytes: &[u8], path: &Path) -> Result<RequestLog, Error> {
    wsesslog::read(bytes, 0).map_err(|why| Error::Usage(format!("{}: {why}", path.display())))
}

fn write_log(log: &RequestLog, path: &Path, comment: &str) -> Result<(), Error> {
    let mut text = Vec::new();
    wsesslog::write(log, &mut text, comment).map_err(|why| Error::Usage(why.to_string()))?;
    write(path, &text)
}

/// Writes a log of one session that requests everything once, so that a server then holds all that
/// it keeps.
fn write_prime(log: &RequestLog, path: &Path) -> Result<(), Error> {
    let mut builder = RequestLog::builder();
    for template in log.templates().iter().filter(|template| &*template.method == "GET") {
        builder.push(Template::get(&template.uri), false, 0);
    }
    builder.end_session();
    let log = builder.finish().map_err(|why| Error::Usage(why.to_string()))?;
    write_log(&log, path, "everything once")
}

fn numbers(description: &Description) -> BTreeMap<String, f64> {
    let bytes = &description.bytes;
    [
        ("sessions", description.sessions as f64),
        ("requests", description.requests as f64),
        ("head_requests", bytes.head_requests as f64),
        ("requests_per_session", description.session_length.mean),
        ("mean_body_bytes", bytes.mean),
        ("files", bytes.files as f64),
        ("files_bytes", bytes.files_bytes as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::workload::fileset::FileSet;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("workload-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("it can be made");
        path
    }

    #[test]
    fn presets_are_whole() {
        for preset in PRESETS {
            let spec = WorkloadSpec::preset(preset.name).expect("it is one");
            assert_eq!(spec.check(), Ok(()), "{preset:?}");
        }
        assert_eq!(WorkloadSpec::preset("nothing"), None);
    }

    #[test]
    fn options_of_the_load_are_read_as_they_are_typed() {
        let read = |load: &str| {
            let text = format!("name = 'w'\nroot = '/'\nlog_file = '/l'\nload = '{load}'");
            let spec = toml::from_str::<WorkloadSpec>(&text).map(|spec| spec.load);
            spec.map_err(|why| why.message().to_owned())
        };
        let expected = Options { idle: Some(8), ..connections(ConnectionUse::Request) };
        assert_eq!(read("--connection  request --idle=8"), Ok(expected));
        assert_eq!(read(""), Ok(Options::default()));
        let why = read("--conection keep").expect_err("it is misspelt");
        assert_eq!(
            why,
            "`load`: --conection: there is no such load option (did you mean \"--connection\"?)"
        );
    }

    #[test]
    fn what_is_missing_or_twice_is_said() {
        let whole = WorkloadSpec::preset("1KB").expect("it is one");
        let cases = [
            (WorkloadSpec { files: None, ..whole.clone() }, "say `files` or `root`"),
            (WorkloadSpec { root: Some("/".into()), ..whole.clone() }, "not both"),
            (WorkloadSpec { log: None, ..whole.clone() }, "say `log` or `log_file`"),
            (WorkloadSpec { log_file: Some("/".into()), ..whole }, "not both"),
        ];
        for (spec, expected) in cases {
            let why = spec.check().expect_err("it is wrong");
            assert!(why.starts_with("workload 1KB: ") && why.contains(expected), "{why}");
        }
    }

    #[test]
    fn files_are_named_where_paths_do_not() {
        let check = |uri: &[u8], expected: &str| assert_eq!(path_and_file(uri), expected);
        check(b"/a/b.html", "/a/b.html");
        check(b"/", "/\t/index.html");
        check(b"/a%20b?c=1", "/a%20b?c=1\t/a b");
        check(b"/../x", "/../x");
    }

    #[test]
    fn a_replayed_log_is_primed_with_each_file_once() {
        let folder = scratch("replay");
        let log = folder.join("sessions");
        fs::write(&log, "# a log\n/a\n/b think=1\n\n/a\n/c\n").expect("writable");
        fs::write(folder.join("a"), [0; 40]).expect("writable");
        fs::write(folder.join("b"), [0; 10]).expect("writable");
        fs::write(folder.join("c"), [0; 40]).expect("writable");
        let tools = Tools { program: "/nonexistent".into(), scratch: folder.clone() };
        let spec = WorkloadSpec::replay(Some(folder.clone()), log);
        let workload = tools.prepare(&spec).expect("nothing need be made");
        assert_eq!(workload.ready_path, "/a");
        let popularity = [("/a", 2), ("/b", 1), ("/c", 1)].map(|(uri, n)| (uri.as_bytes(), n));
        assert_eq!(workload.popularity(), popularity);
        assert_eq!(workload.described.numbers["requests"], 4.0);
        assert_eq!(workload.described.numbers["requests_per_session"], 2.0);
        // By the files: /a is requested twice, /b and /c once.
        assert_eq!(workload.described.numbers["mean_body_bytes"], 32.5);
        let prime = fs::read_to_string(&workload.prime).expect("it was written");
        let asked: Vec<&str> = prime.lines().filter(|line| line.starts_with('/')).collect();
        assert_eq!(asked, ["/a think=0", "/b think=0", "/c think=0"]);
        assert_eq!(workload.load.files, Some(folder.clone()));
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn a_log_is_adapted_to_what_is_there_and_to_short_windows() {
        let folder = scratch("adapted");
        let log = folder.join("sessions");
        fs::write(folder.join("a"), "a").expect("writable");
        fs::create_dir_all(folder.join("d")).expect("writable");
        let tools = Tools { program: "/nonexistent".into(), scratch: folder.clone() };
        let prepare = |is_condensed, text: &str| {
            fs::write(&log, text).expect("writable");
            let spec = WorkloadSpec::replay(Some(folder.clone()), log.clone());
            let workload = tools.prepare(&WorkloadSpec { is_condensed, ..spec })?;
            assert_eq!(read_log(&workload.log).as_ref(), Ok(&*workload.requests));
            let about = workload.described.about.clone();
            let changes = about.split_once("; ").map(|(_, changes)| changes.to_owned());
            let requests = workload.popularity().iter().map(|(_, count)| count).sum::<u64>();
            Ok::<_, Error>((requests, workload.requests.sessions(), changes))
        };
        assert_eq!(prepare(true, "/a\n/a?x=1\n\n/a\n"), Ok((3, 2, None)));
        let gone = "1 of 4 requests are used: 3 for no file, such as /gone";
        assert_eq!(prepare(false, "/gone\n/a\n/d\n\n/gone\n"), Ok((1, 1, Some(gone.into()))));
        let cut = "sessions of more than 100 requests are cut";
        assert_eq!(prepare(true, &"/a\n".repeat(250)), Ok((250, 3, Some(cut.into()))));
        assert_eq!(prepare(false, &"/a\n".repeat(250)), Ok((250, 1, None)));
        // One log on two directories, neither of which has all its files.
        fs::write(&log, "/a\n/b\n/gone\n").expect("writable");
        fs::write(folder.join("d/b"), "b").expect("writable");
        let [first, second] = [folder.clone(), folder.join("d")].map(|root| {
            tools.prepare(&WorkloadSpec::replay(Some(root), log.clone())).expect("one is there")
        });
        let asked = |workload: &Workload| read_log(&workload.log).expect("whole").templates().len();
        assert_eq!((asked(&first), &*first.ready_path), (1, "/a"));
        assert_eq!((asked(&second), &*second.ready_path), (1, "/b"));
        assert_ne!(first.log, second.log);
        let why = prepare(true, "/gone\n").expect_err("nothing is left").to_string();
        assert!(why.contains("no file that its log requests is in "), "{why}");
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn a_workload_that_cannot_be_made_says_whose_fault_it_is() {
        let folder = testkit::Temporary::new();
        let [scratch, log, program] =
            ["scratch", "log", "program"].map(|name| folder.path().join(name));
        fs::write(&log, "/a\n").expect("writable");
        let tools = Tools { program: program.clone(), scratch: scratch.clone() };
        let given = WorkloadSpec::replay(Some(folder.path().to_owned()), log.clone());
        let made = WorkloadSpec { name: "w".into(), ..WorkloadSpec::preset("1KB").expect("one") };
        let check = |spec: &WorkloadSpec, expected: Error| {
            assert_eq!(tools.prepare(spec).map(drop), Err(expected));
        };
        let usage = |why: &str| Error::Usage(format!("workload {why}"));
        let failed = |why: &str| Error::Failed(format!("workload {why}"));
        let both = WorkloadSpec { root: Some("/".into()), ..made.clone() };
        check(&both, usage("w: say `files` or `root`, not both"));
        let place = folder.path().display();
        let none = format!(
            "log: no file that its log requests is in {place}: is it the directory that was \
             served then?"
        );
        check(&given, usage(&none));
        fs::write(&log, "# nothing\n").expect("writable");
        check(&given, usage(&format!("log: {place}/log: it has no requests")));
        fs::remove_file(&log).expect("it is there");
        let gone = "No such file or directory (os error 2)";
        check(&given, failed(&format!("log: {place}/log: {gone}")));
        let rootless = WorkloadSpec { root: Some("/gone".into()), ..given };
        check(&rootless, failed(&format!("log: /gone: {gone}")));
        for (status, expected) in [
            (2, usage("w: `files`: no")),
            (1, failed(&format!("w: `files`: {place}/program failed: no"))),
        ] {
            testkit::install_script(&format!("#!/bin/sh\necho no >&2; exit {status}"), &program);
            check(&made, expected);
        }
        fs::remove_dir_all(&scratch).expect("it was made");
        fs::write(&scratch, "").expect("writable");
        let full = format!("w: {place}/scratch/files/{}: Not a", digest("--single 1000"));
        check(&made, failed(&format!("{full} directory (os error 20)")));
    }

    #[test]
    fn pauses_are_left_out_where_there_are_any() {
        let folder = scratch("pauses");
        let log = folder.join("sessions");
        let tools = Tools { program: "/nonexistent".into(), scratch: folder.clone() };
        for name in ["a", "b"] {
            fs::write(folder.join(name), "").expect("writable");
        }
        let prepare = |is_condensed, text| {
            fs::write(&log, text).expect("writable");
            let spec = WorkloadSpec::replay(Some(folder.clone()), log.clone());
            let spec = WorkloadSpec { is_condensed, ..spec };
            let workload = tools.prepare(&spec).expect("nothing need be made");
            (workload.load.think_max, workload.described.about.contains("left out"))
        };
        let left_out = (Some("0s".to_owned()), true);
        assert_eq!(prepare(true, "/a think=7\n/b\n"), left_out);
        assert_eq!(prepare(false, "/a think=7\n/b\n"), (None, false));
        // There is no pause after the last request of a session.
        assert_eq!(prepare(true, "/a\n/b think=7\n\n/a\n"), (None, false));
        fs::remove_dir_all(folder).expect("it is ours");
    }

    /// Two workloads may have one log.
    #[test]
    fn the_head_of_answers_is_that_of_the_workload() {
        let folder = scratch("heads");
        let log = folder.join("sessions");
        fs::write(&log, "/a\n").expect("writable");
        fs::write(folder.join("a"), "").expect("writable");
        let tools = Tools { program: "/nonexistent".into(), scratch: folder.clone() };
        let spec = WorkloadSpec::replay(Some(folder.clone()), log);
        let made =
            [ConnectionUse::Keep, ConnectionUse::Session, ConnectionUse::Request].map(|it| {
                let spec = WorkloadSpec { load: connections(it), ..spec.clone() };
                tools.prepare(&spec).expect("nothing need be made").values
            });
        let closes = made.map(|values| {
            let head = fs::read_to_string(&values["head_file"]).expect("it was written");
            let told = head.to_lowercase().contains("connection: close");
            assert_eq!(values["connection"] == "close", told, "{head}");
            told
        });
        assert_eq!(closes, [false, false, true]);
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn of_servers_that_run_only_the_log_is_known() {
        let folder = scratch("running");
        let log = folder.join("sessions");
        fs::write(&log, "/a\n").expect("writable");
        let tools = Tools { program: "/nonexistent".into(), scratch: folder.clone() };
        let workload = tools.prepare(&WorkloadSpec::replay(None, log)).expect("nothing is made");
        assert_eq!(workload.root, PathBuf::new());
        let words = workload.load.to_arguments().join(" ");
        assert_eq!(words, "--connection session --verify none");
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn an_access_log_is_told_from_sessions() {
        let path = Path::new("log");
        let cases = [
            ("\n# x\n  /a\n", Ok(true)),
            ("127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1\n", Ok(false)),
            ("{\"uri\": \"/\"}\n", Ok(false)),
            ("# nothing\n\n", Err("log: it has no requests".to_owned())),
        ];
        for (text, expected) in cases {
            assert_eq!(is_wsesslog(text.as_bytes(), path), expected, "{text}");
        }
    }

    #[test]
    fn files_that_are_not_there_yet_take_time() {
        let tools = Tools { program: PathBuf::new(), scratch: scratch("making") };
        let forty = FileSetOptions::directories(40);
        let check = |files: &[&FileSetOptions], bytes: u64| {
            let spec = |files: &FileSetOptions| WorkloadSpec {
                files: Some(files.clone()),
                ..WorkloadSpec::default()
            };
            let specs: Vec<WorkloadSpec> = files.iter().map(|files| spec(files)).collect();
            assert_eq!(tools.making_s(&specs), bytes as f64 / MADE_BYTES_PER_S, "{files:?}");
        };
        let bytes = |count| FileSet::directories(count).expect("it is a set").bytes();
        check(&[&forty], bytes(40));
        check(&[&forty, &forty, &FileSetOptions::directories(2)], bytes(40) + bytes(2));
        let threads = Some(2);
        let set = FileSetOptions { threads, ..FileSetOptions::preset("radhakrishnan") };
        check(&[&set], bytes(942));
        check(&[&FileSetOptions::single(50_000)], 50_000);
        fs::create_dir_all(tools.folder_of(&forty)).expect("it can be made");
        check(&[&forty], 0);
        fs::remove_dir_all(&tools.scratch).expect("it is there");
    }
}
