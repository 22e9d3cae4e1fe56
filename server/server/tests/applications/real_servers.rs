//! Servers of other projects, as applications: each serves the same files, writes every request
//! that it has read to a log, and ends with the test. Go and Node come as libraries, so they are
//! two programs, which answer with the last name of the path as if that was a file.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use os::guard::Guard;
use testkit::tools::{APACHE, CADDY, GO, H2O, LIGHTTPD, NGINX, NODE, Tool};
use testkit::{Temporary, comes_true};

/// How a server is started. `{dir}` and `{at}` stand for its folder and its address, which is
/// `{host}` and `{port}`, and `{idle}` for how long it keeps a connection, in ms.
pub(crate) struct Kind {
    pub(crate) tool: &'static Tool,
    command: &'static [&'static str],
    configuration: &'static str,
    /// What is before the target of a request in a line of the log, and what is behind it.
    target: [&'static str; 2],
}

const NGINX_CONFIGURATION: &str = "\
daemon off;
master_process off;
pid {dir}/pid;
events { }
http {
    log_format request '$request';
    access_log {dir}/log request;
    client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
    uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
    server { listen {at}; root {dir}/site; }
}
";

const APACHE_CONFIGURATION: &str = "\
ServerRoot {dir}
PidFile {dir}/pid
Mutex posixsem
ServerName h
Listen {at}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
KeepAliveTimeout 60
DocumentRoot {dir}/site
ErrorLog {dir}/errors
LogFormat \"%r\" request
CustomLog {dir}/log request
";

const H2O_CONFIGURATION: &str = "\
user: root
num-threads: 1
error-log: {dir}/errors
access-log: { path: {dir}/log, format: '%r' }
listen: { host: {host}, port: {port} }
hosts: { default: { paths: { /: { file.dir: {dir}/site } } } }
";

const LIGHTTPD_CONFIGURATION: &str = "\
server.modules = ( \"mod_accesslog\" )
server.bind = \"{host}\"
server.port = {port}
server.document-root = \"{dir}/site\"
server.errorlog = \"{dir}/errors\"
accesslog.filename = \"{dir}/log\"
accesslog.format = \"%r\"
";

const CADDY_CONFIGURATION: &str = "\
{
    admin off
    auto_https off
    storage file_system {dir}/storage
    log { \n output file {dir}/errors \n }
    servers { \n protocols h1 \n }
}
http://:{port} {
    bind {host}
    log { \n output file {dir}/log \n }
    root * {dir}/site
    file_server
}
";

const REQUEST_LINE: [&str; 2] = [" ", " HTTP/1.1"];

const GO_SOURCE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/applications/programs/application.go");
const GO_PROGRAM: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/go-application");
const NODE_PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/applications/programs/application.mjs");

/// The program of `net/http`.
pub(crate) const GO_HTTP: Kind = Kind {
    tool: &GO,
    command: &[GO_PROGRAM, "{at}", "{dir}/log", "{idle}"],
    configuration: "",
    target: REQUEST_LINE,
};

/// The program of `node:http`.
pub(crate) const NODE_HTTP: Kind = Kind {
    tool: &NODE,
    command: &["node", NODE_PROGRAM, "{at}", "{dir}/log", "{idle}"],
    configuration: "",
    target: REQUEST_LINE,
};

/// All kinds.
pub(crate) const KINDS: [Kind; 7] = [
    GO_HTTP,
    NODE_HTTP,
    Kind {
        tool: &NGINX,
        command: &["nginx", "-e", "{dir}/errors", "-c", "{dir}/configuration"],
        configuration: NGINX_CONFIGURATION,
        target: REQUEST_LINE,
    },
    Kind {
        tool: &APACHE,
        command: &["apache2", "-DFOREGROUND", "-f", "{dir}/configuration"],
        configuration: APACHE_CONFIGURATION,
        target: REQUEST_LINE,
    },
    Kind {
        tool: &H2O,
        command: &["h2o", "-m", "worker", "-c", "{dir}/configuration"],
        configuration: H2O_CONFIGURATION,
        target: REQUEST_LINE,
    },
    Kind {
        tool: &LIGHTTPD,
        command: &["lighttpd", "-D", "-f", "{dir}/configuration"],
        configuration: LIGHTTPD_CONFIGURATION,
        target: REQUEST_LINE,
    },
    Kind {
        tool: &CADDY,
        command: &["caddy", "run", "--config", "{dir}/configuration", "--adapter", "caddyfile"],
        configuration: CADDY_CONFIGURATION,
        target: ["\"uri\":\"", "\""],
    },
];

/// The port of all servers, each of which has a host of its own. It is below those that the system
/// chooses, one of which another program may have on all hosts.
const PORT: u16 = 10_080;

/// A loopback address for one server.
fn own_host() -> Ipv4Addr {
    static SERVERS: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = 1 + SERVERS.fetch_add(1, Ordering::Relaxed) % 254;
    Ipv4Addr::new(127, 64 | high >> 2, low, number)
}

/// The target of the requests that ask whether a server is ready.
const READY: &str = "/ready";

/// Whether a server answers: one that listens may still begin anew, and reset who has connected.
fn answers(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {READY} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 "))
}

/// A server that runs.
pub(crate) struct RealServer {
    kind: &'static Kind,
    address: SocketAddr,
    directory: Temporary,
    process: Child,
    /// Ends it if the test is killed.
    _guard: Guard,
}

impl RealServer {
    /// Starts a server of files below `/app/`, each of which has its name as its content.
    pub(crate) fn start(kind: &'static Kind, files: &[&str]) -> Self {
        Self::start_with(kind, files, 60_000)
    }

    /// Starts a program that closes a connection when it was idle for `idle_ms`.
    pub(crate) fn start_with(kind: &'static Kind, files: &[&str], idle_ms: u32) -> Self {
        if kind.tool == &GO {
            build_go_program();
        }
        let directory = Temporary::new();
        for name in files {
            directory.file(&format!("site/app/{name}"), name);
        }
        let address = SocketAddr::new(own_host().into(), PORT);
        let path = directory.path().display().to_string();
        let fill = |text: &str| {
            let text = text.replace("{dir}", &path).replace("{at}", &address.to_string());
            let text = text.replace("{host}", &address.ip().to_string());
            let text = text.replace("{port}", &address.port().to_string());
            text.replace("{idle}", &idle_ms.to_string())
        };
        directory.file("configuration", fill(kind.configuration));
        let [program, arguments @ ..] = kind.command else { unreachable!("none is empty") };
        let mut command = Command::new(program);
        command.args(arguments.iter().map(|argument| fill(argument)));
        command.envs(["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| (name, &path)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let guard = Guard::new("kill -s TERM \"$1\"", [process.id().to_string()]).unwrap();
        let server = Self { kind, address, directory, process, _guard: guard };
        assert!(comes_true(|| answers(address).unwrap_or(false)), "{}", kind.tool.name);
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is in its log by now.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Ends the server. Returns the targets of all requests that it has read, but not of those at
    /// its start; of what it could not read as a request, the line in its log.
    pub(crate) fn stop(mut self) -> Vec<String> {
        os::signals::send("TERM", &[self.process.id()]);
        self.process.wait().unwrap();
        let log = self.log();
        let [before, behind] = self.kind.target;
        let target = |line: &str| {
            let target = line.split_once(before)?.1.split_once(behind)?.0;
            Some(target.to_owned())
        };
        let targets = log.lines().map(|line| target(line).unwrap_or_else(|| line.to_owned()));
        targets.filter(|target| target != READY).collect()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        if let Ok(None) = self.process.try_wait() {
            os::signals::send("TERM", &[self.process.id()]);
            let _ = self.process.wait();
        }
    }
}

/// Builds the program of Go, once, with what is on this machine. The libraries are compiled only if
/// Go's own cache does not have them.
fn build_go_program() {
    static IS_BUILT: OnceLock<()> = OnceLock::new();
    IS_BUILT.get_or_init(|| {
        let mut command = Command::new("go");
        command.args(["build", "-o", GO_PROGRAM, GO_SOURCE]);
        let offline = [("GO111MODULE", "off"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local")];
        let output = command.env_remove("GOFLAGS").envs(offline).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}
