//! The configuration: one TOML file, overridden by the command line.
//!
//! There are two stages. Here a file and flags become [`Settings`], each value checked at its place
//! in the text; `crate::ready` makes the objects of a running server from them. An error is always
//! one line: the place, what is wrong, and what would be right.

mod address;
mod error;
mod field;
mod route;
mod schema;
mod settings;
mod show;
mod source;
mod validate;
mod value;

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use command::near::near_path;
use toml::Spanned;
use toml::de::DeTable;

pub use address::ListenAddress;
pub(crate) use command::near::did_you_mean;
pub(crate) use error::one_line;
pub use error::{ConfigError, ConfigFault, Place};
pub use settings::{
    AUTO, AccessForm, CacheScope, CacheSettings, Division, EngineSettings, ErrorLogging,
    KnobSetting, LimitSettings, ListenerMode, LogSettings, PartitionSettings, Pin, SendfileChoice,
    Settings, SocketSettings, TimeoutSettings,
};
pub use show::{DocumentedKey, documented_keys};

use field::{join, quote, read_table, show_list};
use source::{Origins, Source};
use value::{Fault, Value};

/// The part of the command line that concerns the configuration.
#[derive(Clone, Debug, Default, Args)]
pub struct Arguments {
    /// The directory to serve; without a configuration file the current one
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Listen addresses; if there are any, they replace those of the file
    #[arg(long, value_name = "ADDR", help = LISTEN_HELP)]
    pub listen: Vec<String>,
    /// Listen on this port, on this machine only: as --listen PORT
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    pub port: Option<String>,
    /// List directories that have no index file
    #[arg(long)]
    pub listing: bool,
    /// Answer addresses that do not exist with /index.html: for single-page applications
    #[arg(long)]
    pub spa: bool,
    /// Have an HTTP server answer all requests: http://127.0.0.1:3000, or unix:/run/app.sock
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// Have php-fpm run the scripts of the site: /run/php/php-fpm.sock, or 127.0.0.1:9000
    #[arg(long, value_name = "SOCKET", conflicts_with = "proxy")]
    pub php: Option<String>,
    /// Run the programs in a directory for requests below /cgi-bin/
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["proxy", "php"])]
    pub cgi_bin: Option<PathBuf>,
    /// The configuration file (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The engine, or auto: see `ropewalk engines`
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// How many partitions, what divides them, or the CPUs of each: 2, node, or 0-3;4-7
    #[arg(long, value_name = "N|CPUS")]
    pub partitions: Option<String>,
    /// The access log: off, combined or json
    #[arg(long, value_name = "FORM")]
    pub log: Option<String>,
    /// Set any key of the configuration: cache.policy=lru
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
}

const LISTEN_HELP: &str = "Where to listen; may be repeated: \
    8080 (this machine only), :8080 (everywhere), 127.0.0.1:8080, [::1]:8080";

/// Settings that have been checked, with the place each comes from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    /// The program that is started as a worker process, if there are worker processes.
    pub worker_program: WorkerProgram,
    origins: Origins,
}

/// The program of worker processes: it must pass its arguments to [`crate::run_worker`].
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// The file to execute.
    pub path: PathBuf,
    /// The arguments before those of the worker process.
    pub arguments: Vec<String>,
}

impl WorkerProgram {
    /// This program, with these arguments at the end of those it was started with.
    pub(crate) fn started_with(arguments: &[String]) -> Self {
        let mut own: Vec<String> = std::env::args().skip(1).collect();
        own.truncate(own.len().saturating_sub(arguments.len()));
        Self { path: "/proc/self/exe".into(), arguments: own }
    }
}

impl Default for WorkerProgram {
    /// This program, even if its file has been replaced since, with a subcommand.
    fn default() -> Self {
        Self { path: "/proc/self/exe".into(), arguments: vec!["worker".into()] }
    }
}

impl Config {
    /// Reads the file if there is one, applies the flags, and checks the whole.
    ///
    /// # Errors
    /// The first mistake that is found.
    pub fn load(arguments: &Arguments) -> Result<Self, ConfigError> {
        let mut config = Self::new();
        if let Some(path) = &arguments.config {
            config.read_file(path)?;
        }
        config.apply_flags(arguments)?;
        config.apply_directory(arguments)?;
        config.apply_host_flags(arguments)?;
        validate::check(&config.settings, &config.origins)?;
        validate::check_files(&config.settings, &config.origins)?;
        Ok(config)
    }

    /// Reads what [`Config::show`] printed in another process: nothing is added, and relative paths
    /// are relative to the directory they were relative to there. The files that it names are not
    /// checked again: the replacement of a worker process must not fail because a page has been
    /// deleted since.
    ///
    /// # Errors
    /// The first mistake that is found.
    pub(crate) fn read_effective(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::new();
        config.read(&Source::file(text, "effective configuration".into()))?;
        validate::check(&config.settings, &config.origins)?;
        Ok(config)
    }

    fn new() -> Self {
        Self {
            settings: Settings::default(),
            worker_program: WorkerProgram::default(),
            origins: Origins::default(),
        }
    }

    /// The whole configuration as TOML, with a comment for each key that says where its value comes
    /// from.
    #[must_use]
    pub fn show(&self) -> String {
        show::show(&self.settings, &self.origins)
    }

    /// An error for a setting that does not fit, at the place where `key` was set.
    pub(crate) fn unfit(&self, key: &str, why: String) -> ConfigError {
        self.origins.explain(key, ConfigFault::Unfit(why))
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|why| {
            let fault = match why.kind() {
                io::ErrorKind::NotFound => ConfigFault::NoFile(near_path(path, Path::is_file)),
                io::ErrorKind::IsADirectory => ConfigFault::FileIsDirectory,
                _ => ConfigFault::Unreadable(why),
            };
            at_source(&name, fault)
        })?;
        self.read(&Source::file(&text, name))?;
        self.resolve_paths(path.parent().unwrap_or(Path::new("")));
        Ok(())
    }

    /// Makes the paths of a file relative to that file, so that its meaning does not depend on the
    /// current directory.
    fn resolve_paths(&mut self, directory: &Path) {
        for host in &mut self.settings.hosts {
            host.root = directory.join(&host.root).components().collect();
        }
        let path = &mut self.settings.log.path;
        if path != "-" {
            *path = directory.join(&*path).to_string_lossy().into_owned();
        }
    }

    fn read(&mut self, source: &Source<'_>) -> Result<(), ConfigError> {
        let table = parse(source)?;
        let origins = &mut self.origins;
        let mut seen = |key: &str, value: &Value<'_>| {
            record_place(origins, source, key, value);
        };
        read_table(table.get_ref(), "", schema::KEYS, &mut self.settings, &mut seen)
            .map_err(|fault| source.explain(fault))
    }

    fn apply_flags(&mut self, arguments: &Arguments) -> Result<(), ConfigError> {
        if !arguments.listen.is_empty() {
            let list = show_list(arguments.listen.iter().map(|address| quote(address)));
            self.set("--listen", "listen", &list)?;
        }
        if let Some(port) = &arguments.port {
            self.set_port(port)?;
        }
        if let Some(engine) = &arguments.engine {
            self.set("--engine", "engine.name", &quote(engine))?;
        }
        if let Some(partitions) = &arguments.partitions {
            self.set_partitions(partitions)?;
        }
        if let Some(form) = &arguments.log {
            self.set("--log", "log.access", &quote(form))?;
        }
        let mut assignments = arguments.set.iter().filter(|text| !is_about_hosts(text));
        assignments.try_for_each(|assignment| self.set_assignment(assignment))
    }

    /// Applies the flags that are about hosts, each to every host.
    fn apply_host_flags(&mut self, arguments: &Arguments) -> Result<(), ConfigError> {
        if arguments.listing {
            self.set_in_hosts("--listing", "listing", "true")?;
        }
        if arguments.spa {
            self.set_in_hosts("--spa", "spa_fallback", &quote("/index.html"))?;
        }
        if let Some(server) = &arguments.proxy {
            let server = server_of_flag(server);
            let route = format!("[{{ path = \"/**\", proxy = [{}] }}]", quote(&server));
            self.set_in_hosts("--proxy", "route", &route)?;
        }
        if let Some(server) = &arguments.php {
            self.set_php(server)?;
        }
        if let Some(folder) = &arguments.cgi_bin {
            self.set_cgi_bin(folder)?;
        }
        let mut assignments = arguments.set.iter().filter(|text| is_about_hosts(text));
        assignments.try_for_each(|assignment| self.set_assignment(assignment))
    }

    /// Sets what a site of PHP needs: scripts, index files that are scripts, and one that answers
    /// for what does not exist, as most programs for sites expect.
    fn set_php(&mut self, server: &str) -> Result<(), ConfigError> {
        const FLAG: &str = "--php";
        let server = match server.contains('/') || server.ends_with(".sock") {
            true => format!("unix:{}", server.trim_start_matches("unix:")),
            false => server.into(),
        };
        let server = server_of_flag(&server);
        let route = format!("[{{ path = \"**.php\", fastcgi = [{}] }}]", quote(&server));
        self.set_in_hosts(FLAG, "route", &route)?;
        self.set_in_hosts(FLAG, "index", "[\"index.php\", \"index.html\"]")?;
        self.set_in_hosts(FLAG, "front_controller", &quote("/index.php"))
    }

    /// Sets the programs of `--cgi-bin`.
    fn set_cgi_bin(&mut self, folder: &Path) -> Result<(), ConfigError> {
        const FLAG: &str = "--cgi-bin";
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
        let Some(folder) = folder.to_str() else {
            return Err(ConfigError::without_place(ConfigFault::Unfit(format!(
                "{FLAG}: the name of {folder:?} is not UTF-8"
            ))));
        };
        let route = format!("[{{ path = \"/cgi-bin/**\", cgi = {} }}]", quote(folder));
        self.set_in_hosts(FLAG, "route", &route)
    }

    /// Sets the address of `--port`, a port of this machine.
    fn set_port(&mut self, port: &str) -> Result<(), ConfigError> {
        const FLAG: &str = "--port";
        if port.parse::<u16>().is_err() {
            return Err(at_source(FLAG, ConfigFault::Port(port.into())));
        }
        self.set(FLAG, "listen", &show_list([quote(port)]))
    }

    /// Sets partitions from `--partitions`: `2` and `node` divide the CPUs, `0-3;4-7` lists them.
    /// Either form overrides the other form in a file.
    fn set_partitions(&mut self, text: &str) -> Result<(), ConfigError> {
        if text.parse::<u64>().is_ok() {
            self.settings.partitions.cpus.clear();
            self.set("--partitions", "partitions.by", &quote("count"))?;
            return self.set("--partitions", "partitions.count", text);
        }
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.settings.partitions.cpus.clear();
            return self.set("--partitions", "partitions.by", &quote(text));
        }
        let lists = show_list(text.split(';').map(quote));
        self.set("--partitions", "partitions.cpus", &lists)
    }

    fn set_assignment(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let flag = format!("--set {assignment}");
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(at_source(&flag, ConfigFault::Assignment));
        };
        let (key, value) = (key.trim(), value.trim());
        let is_toml = DeTable::parse(&format!("v = {value}")).is_ok();
        // A bare word is meant as a string: the shell has removed its quotes.
        let value = if is_toml { value.to_string() } else { quote(value) };
        match key.strip_prefix(HOST_PREFIX) {
            Some(key) => self.set_in_hosts(&flag, key, &value),
            None => self.set(&flag, key, &value),
        }
    }

    fn set(&mut self, flag: &str, key: &str, value: &str) -> Result<(), ConfigError> {
        let text = format!("{key} = {value}");
        self.read(&Source::flag(&text, flag))
    }

    /// Sets a key of hosts on the command line, for every host.
    fn set_in_hosts(&mut self, flag: &str, key: &str, value: &str) -> Result<(), ConfigError> {
        let text = format!("{key} = {value}");
        let source = Source::flag(&text, flag);
        let explain = |fault: Fault| source.explain(fault);
        let table = parse(&source)?;
        for (index, host) in self.settings.hosts.iter_mut().enumerate() {
            let origins = &mut self.origins;
            let mut seen = |key: &str, value: &Value<'_>| {
                record_place(origins, &source, &host_key(index, key), value);
            };
            read_table(table.get_ref(), "", schema::HOST_KEYS, host, &mut seen).map_err(explain)?;
        }
        Ok(())
    }

    /// Makes the directory of the command line the root of the only host. Without a directory, a
    /// host serves the current directory, unless there is a file, which should say what is served.
    fn apply_directory(&mut self, arguments: &Arguments) -> Result<(), ConfigError> {
        let hosts = &mut self.settings.hosts;
        let root = match (&arguments.directory, &arguments.config) {
            (Some(root), _) => root.clone(),
            (None, Some(config)) if hosts.is_empty() => {
                return Err(at_source(&config.display().to_string(), ConfigFault::NothingToServe));
            }
            (None, None) if hosts.is_empty() => ".".into(),
            (None, _) => return Ok(()),
        };
        match hosts.as_mut_slice() {
            [] => hosts.push(site::host::HostSettings::new(root)),
            [host] => host.root = root,
            more => {
                let fault = ConfigFault::RootOfSeveral { root, hosts: more.len() };
                return Err(ConfigError::at_place(directory_place(), fault));
            }
        }
        if arguments.directory.is_some() {
            self.origins.set(&host_key(0, "root"), directory_place());
        }
        Ok(())
    }
}

/// The beginning of the keys that `--set` sets in every host.
const HOST_PREFIX: &str = "host.";

/// The server that a flag names: the path of a socket may be relative, as other paths of flags.
fn server_of_flag(server: &str) -> String {
    let path = server.strip_prefix("unix:").and_then(|path| std::path::absolute(path).ok());
    let path = path.and_then(|path| path.into_os_string().into_string().ok());
    path.map_or_else(|| server.into(), |path| format!("unix:{path}"))
}

/// Whether an assignment of `--set` is about hosts.
fn is_about_hosts(assignment: &str) -> bool {
    assignment.trim_start().starts_with(HOST_PREFIX)
}

fn at_source(source: &str, fault: ConfigFault) -> ConfigError {
    ConfigError::at_place(Place { source: source.into(), position: None }, fault)
}

fn parse<'t>(source: &Source<'t>) -> Result<Spanned<DeTable<'t>>, ConfigError> {
    DeTable::parse(source.text).map_err(|error| {
        let error =
            first_missing(source.text).filter(|it| start(it) < start(&error)).unwrap_or(error);
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let fault = ConfigFault::Syntax(message);
        source.explain(Fault { span: error.span().unwrap_or(0..0), fault })
    })
}

/// The first error about something that is missing, which the parser reports as an empty span. It
/// puts errors of what contains others in front: of the list, not of the string without an end in
/// it, although that is why the list goes on.
fn first_missing(text: &str) -> Option<toml::de::Error> {
    let (_, errors) = DeTable::parse_recoverable(text);
    let is_missing = |error: &toml::de::Error| error.span().is_some_and(|span| span.is_empty());
    errors.into_iter().filter(is_missing).min_by_key(start)
}

/// Where an error begins.
fn start(error: &toml::de::Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// The place that errors in the directory argument of the command line name.
fn directory_place() -> Place {
    Place { source: "DIR".into(), position: None }
}

/// Records the place of a key and of the parts of its value: addresses in a list, pages by status,
/// hosts with keys of their own.
fn record_place(origins: &mut Origins, source: &Source<'_>, key: &str, value: &Value<'_>) {
    origins.set(key, source.place(value.span.start));
    for (index, item) in value.list(Ok).into_iter().flatten().enumerate() {
        record_place(origins, source, &item_key(key, index), &item);
    }
    for (name, item) in value.table().into_iter().flatten() {
        record_place(origins, source, &join(key, name.get_ref()), &Value::new(item));
    }
}

/// The key of an item of a list.
pub(crate) fn item_key(list: &str, index: usize) -> String {
    join(list, &index.to_string())
}

pub(crate) fn host_key(index: usize, key: &str) -> String {
    join(&item_key("host", index), key)
}
