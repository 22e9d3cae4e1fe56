//! CGI programs, on every engine that calls applications.

use std::fs::{self, Permissions};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use engines::EngineSpec;
use server::Server;
use testkit::{Temporary, comes_true};

use crate::harness::{connect, site, start, take_head};
use crate::{answer, ask, for_each_caller};

/// Programs, by name.
const PROGRAMS: &[(&str, &str)] = &[
    ("environment", "echo 'Content-Type: text/plain'; echo; env | sort; echo \"arguments: $#\""),
    ("echo", "echo \"Content-Type: ${CONTENT_TYPE:-text/plain}\"; echo; exec cat"),
    ("length", "echo 'Content-Type: text/plain'; echo; echo \"$CONTENT_LENGTH\"; wc -c"),
];

/// A site with programs: files of its root, and a directory elsewhere.
fn programs() -> Temporary {
    let directory = site();
    for folder in ["site/cgi-bin", "elsewhere"] {
        for (name, script) in PROGRAMS {
            program(&directory, &format!("{folder}/{name}"), script);
        }
    }
    directory
}

fn program(directory: &Temporary, name: &str, script: &str) {
    let path = directory.file(name, format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn serve(spec: &EngineSpec, directory: &Temporary, keys: &str) -> Server {
    let elsewhere = directory.path().join("elsewhere");
    let route = format!(
        "host.route=[{{ path = \"/cgi-bin/**\", cgi = true{keys} }}, \
         {{ path = \"/tools/**\", cgi = \"{}\"{keys} }}]",
        elsewhere.display()
    );
    start(directory, &[&format!("engine.name={}", spec.name), &route])
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

#[test]
fn programs_are_told_of_their_request() {
    let directory = programs();
    for_each_caller(|spec| {
        let server = serve(spec, &directory, "");
        let mut client = connect(&server);
        let request = "GET /cgi-bin/environment/a/b?c=d+-e HTTP/1.1\r\nHost: h\r\nProxy: evil\r\n\
                       X-One: 1\r\nX_One: 2\r\n\r\n";
        let (status, told) = ask(&mut client, request);
        assert_eq!(status, 200, "{}: {told}", spec.name);
        println!("{told}");
    });
}
