//! Real PHP behind each engine that calls applications: php-fpm, and php-cgi as a FastCGI server.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use engines::EngineSpec;
use os::guard::Guard;
use server::Server;
use server::config::Arguments;
use testkit::tools::{PHP_CGI, PHP_FPM};
use testkit::{Temporary, comes_true, has};

use crate::harness::{Running, connect, quietly};
use crate::{answer, ask, for_each_engine, under_test};

/// A script that shows what it is told.
const SHOW: &str = "<?php header('X-Made-By: a script'); \
    foreach (['SCRIPT_NAME', 'PATH_INFO', 'REQUEST_URI', 'REQUEST_METHOD'] as $name) \
    echo $_SERVER[$name] ?? '-', ' '; echo json_encode($_GET + $_POST);";

/// A site of PHP, and the processes that run it until the test ends.
struct Php {
    directory: Temporary,
    process: Child,
    /// Ends them if the test is killed.
    _guard: Guard,
}

impl Php {
    /// Two processes that run scripts for php-fpm.
    fn fpm() -> Self {
        let directory = site();
        let path = directory.path().display();
        let configuration = format!(
            "[global]\nerror_log = {path}/log\n[site]\nlisten = {path}/php.sock\nuser = root\n\
             group = root\npm = static\npm.max_children = 2\n"
        );
        let configuration = directory.file("fpm.conf", configuration);
        let mut command = Command::new("php-fpm8.2");
        command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]);
        command.arg(configuration);
        Self::start(directory, &mut command)
    }

    /// Two processes of php-cgi.
    fn cgi() -> Self {
        let directory = site();
        let mut command = Command::new("php-cgi8.2");
        command.arg("-b").arg(directory.path().join("php.sock")).env("PHP_FCGI_CHILDREN", "2");
        Self::start(directory, &mut command)
    }

    fn start(directory: Temporary, command: &mut Command) -> Self {
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn().unwrap();
        let guard = Guard::new("kill -s TERM \"$1\"", [process.id().to_string()]).unwrap();
        let php = Self { directory, process, _guard: guard };
        assert!(comes_true(|| UnixStream::connect(php.socket()).is_ok()));
        php
    }

    fn socket(&self) -> String {
        self.directory.path().join("php.sock").display().to_string()
    }

    /// A server of the site, as by `ropewalk serve site --php php.sock`.
    fn serve(&self, spec: &EngineSpec) -> Running {
        self.serve_with(spec, &[])
    }

    fn serve_with(&self, spec: &EngineSpec, set: &[&str]) -> Running {
        let engine = format!("engine.name={}", spec.name);
        let set = [&[&*engine], set].concat();
        let arguments = Arguments {
            directory: Some(self.directory.path().join("site")),
            listen: vec!["127.0.0.1:0".into()],
            php: Some(self.socket()),
            set: quietly(&set).chain(under_test::knobs()).collect(),
            ..Arguments::default()
        };
        Running::start(&under_test::load(&arguments).unwrap())
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        // The first process ends those that it has started.
        let pid = self.process.id().to_string();
        let _ = Command::new("sh").args(["-c", "kill -s TERM \"$1\"", "sh", &pid]).status();
        let _ = self.process.wait();
    }
}

fn site() -> Temporary {
    let directory = Temporary::new();
    for (name, text) in [
        ("style.css", "body {}"),
        ("index.php", SHOW),
        ("blog/index.php", SHOW),
        ("tool.php", SHOW),
        ("body.php", "<?php echo md5(file_get_contents('php://input'));"),
        ("large.php", "<?php for ($i = 0; $i < 100; $i++) echo str_repeat('x', 9999);"),
        ("log.php", "<?php error_log(str_repeat('oh ', 30000)); echo 'ok';"),
        ("moved.php", "<?php header('Location: /tool.php', true, 303);"),
        ("length.php", "<?php header('Content-Length: 2'); echo 'ok';"),
    ] {
        directory.file(&format!("site/{name}"), text);
    }
    directory
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// What a site of PHP needs, in one line of a command.
fn check_site(php: &Php) {
    for_each_engine(|spec| {
        let server = php.serve(spec);
        let mut client = connect(&server);
        for (target, expected) in [
            ("/style.css", "body {}"),
            ("/", "/index.php - / GET []"),
            ("/?a=b", "/index.php - /?a=b GET {\"a\":\"b\"}"),
            ("/blog/", "/blog/index.php - /blog/ GET []"),
            ("/tool.php/x%20y?z=1", "/tool.php /x y /tool.php/x%20y?z=1 GET {\"z\":\"1\"}"),
            ("/no/such/page", "/index.php - /no/such/page GET []"),
            ("/length.php", "ok"),
            ("/log.php", "ok"),
        ] {
            let answered = ask(&mut client, &get(target));
            assert_eq!(answered, (200, expected.into()), "{}: {target}", spec.name);
        }
        assert_eq!(ask(&mut client, &get("/moved.php")).0, 303);
        assert_eq!(ask(&mut client, &get("/none.php")).0, 404);
        let large = ask(&mut client, &get("/large.php"));
        assert_eq!((large.0, large.1.len()), (200, 999_900), "{}", spec.name);
        let form = "POST /no/such/form HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\
                    Content-Type: application/x-www-form-urlencoded\r\n\r\nk=v";
        let expected = "/index.php - /no/such/form POST {\"k\":\"v\"}";
        assert_eq!(ask(&mut client, form), (200, expected.into()), "{}", spec.name);
        let onto_file = form.replace("/no/such/form", "/style.css");
        assert_eq!(ask(&mut client, &onto_file).0, 405, "{}", spec.name);
        upload(&mut client, spec);
    });
}

/// A body with a length, and one in chunks, which has none until it is gathered (php-src 7509).
fn upload(client: &mut TcpStream, spec: &EngineSpec) {
    const MD5: &str = "8e32e22642bddc89698e25a4e9bf528b";
    let body = vec![b'x'; 3_000_000];
    let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let length = format!("Content-Length: {}", body.len());
    for (framing, bytes) in [(&*length, body), ("Transfer-Encoding: chunked", chunk)] {
        let head = format!("POST /body.php HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&bytes).unwrap();
        let answered = answer(&mut BufReader::new(&mut *client));
        assert_eq!(answered, (200, MD5.into()), "{}: {framing}", spec.name);
    }
}

#[test]
fn php_fpm_runs_a_site() {
    if has(&PHP_FPM) {
        check_site(&Php::fpm());
    }
}

#[test]
fn php_cgi_runs_a_site() {
    if has(&PHP_CGI) {
        check_site(&Php::cgi());
    }
}

/// More requests at a time than php-fpm has processes, none of which a kept connection occupies.
#[test]
fn more_requests_than_processes_are_all_answered() {
    if !has(&PHP_FPM) {
        return;
    }
    let php = Php::fpm();
    for_each_engine(|spec| check_many(&php.serve(spec), spec));
}

/// haproxy 2936: with as many connections as there are processes, at rest and in use.
#[test]
fn kept_connections_leave_no_request_without_a_process() {
    if !has(&PHP_FPM) {
        return;
    }
    for_each_engine(|spec| {
        // Those with one worker on any machine.
        if !["event-loop", "threads"].contains(&spec.name) {
            return;
        }
        let php = Php::fpm();
        let route = format!(
            "host.route=[{{ path = \"**.php\", fastcgi = \"unix:{}\", children = 2 }}]",
            php.socket()
        );
        check_many(&php.serve_with(spec, &[&route]), spec);
    });
}

fn check_many(server: &Server, spec: &EngineSpec) {
    // Engines are tested at the same time, with the same two processes.
    let clients: Vec<_> = (0..6).map(|_| connect(server)).collect();
    for round in 0..2 {
        for mut client in &clients {
            client.write_all(get("/tool.php").as_bytes()).unwrap();
        }
        for client in &clients {
            let answered = answer(&mut BufReader::new(client));
            assert_eq!(answered.0, 200, "{}: round {round}", spec.name);
        }
    }
}
