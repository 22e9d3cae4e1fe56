//! Applications whose names come to stand for other addresses while they are called.

use std::fs;
use std::process::Command;

use testkit::scripted::{Action, Reply, Scripted};
use testkit::tools::UNSHARE;
use testkit::{NEEDS_ROOT, Temporary, comes_true};

use crate::machine::{has, run, skip};
use crate::server_process::{ROPEWALK, ServerProcess};

/// Runs a command with a file of its own in place of /etc/hosts.
const WITH_HOSTS: &str = r#"mount --bind "$0" /etc/hosts && exec "$@""#;

/// A command in a namespace of mounts, in which `hosts` is the file of names.
fn with_hosts(hosts: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", WITH_HOSTS, hosts]);
    command
}

/// No server listens at the first address of the name.
#[test]
fn a_server_that_cannot_be_reached_is_looked_for_by_its_name() {
    let directory = Temporary::new();
    let hosts = directory.file("hosts", "127.0.0.2 moving.test\n");
    let hosts = hosts.to_str().unwrap();
    if !has(&UNSHARE) {
        return;
    }
    if !run(with_hosts(hosts).arg("true")).0 {
        let why = "nothing can be mounted in a namespace";
        return skip("names that move", if testkit::is_root() { why } else { NEEDS_ROOT });
    }
    let reply = |_: &_| vec![Action::Send(Reply::ok(b"here").bytes())];
    let application = Scripted::start(os::clock::now, reply);
    let proxy = format!("http://moving.test:{}", application.address().port());
    let start = |engine| {
        let arguments = ["serve", "--proxy", &proxy, "--listen", "127.0.0.1:0", "--engine", engine];
        ServerProcess::start(with_hosts(hosts).arg(ROPEWALK).args(arguments))
    };
    let servers = ["event-loop", "threads", "processes", "event-loop-shared-cache"].map(start);
    for server in &servers {
        assert_eq!(server.status("/"), 502);
    }
    fs::write(hosts, "127.0.0.1 moving.test\n").unwrap();
    for server in servers {
        assert!(comes_true(|| server.status("/") == 200));
        server.stop();
    }
}
