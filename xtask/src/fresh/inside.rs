//! The running machine: its root is `/` in a mount namespace, with a network that has only a
//! loopback interface. Both end with the last process in them, so that nothing has to be unmounted.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::http::{self, Connection, Response};

use super::Round;
use super::machine::{CARGO_HOME, Machine, RUST, SOURCE, USER, USER_HOME, USER_ID};
use crate::tools::workspace_root;

/// Enters the root `$1`, with the toolchain `$2`, the registry `$3`, and `/tmp` in memory if `$4`
/// requests that; then waits for the end of its standard input.
const ENTER: &str = r#"set -eu
    ip link set lo up
    mount --bind "$1" "$1"
    cd "$1"
    mount --rbind /dev dev
    mount --rbind /sys sys
    mount -t proc proc proc
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    mount --bind -o ro "$2" opt/rust
    mount --bind -o ro "$3" opt/cargo/registry
    [ "$4" = disk ] || mount -t tmpfs -o mode=1777 tmpfs tmp
    mkdir -p old
    pivot_root . old
    cd /
    umount --lazy old
    rmdir old
    echo ready
    exec cat"#;

/// The address that the server listens on according to the README.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);
const PAGE: &str = "examples/site/index.html";

/// The time allowed for building and starting on a busy machine.
const START_WITHIN: Duration = Duration::from_secs(3600);
const STOP_WITHIN: Duration = Duration::from_secs(60);
/// The time allowed for processes to end after they were asked to.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);

/// The number of lines of a log that are shown when a command has failed.
const LAST_LINES: usize = 40;

/// The running machine. All its processes are killed when this is dropped.
#[derive(Debug)]
pub(super) struct Inside {
    round: Round,
    /// A process that keeps the namespaces alive by being in them.
    holder: Child,
    mount_namespace: PathBuf,
    network: PathBuf,
}

impl Inside {
    pub(super) fn enter(machine: &Machine, round: Round) -> Result<Self, String> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--", "sh", "-c", ENTER, "sh"]);
        command.arg(machine.root()).arg(&machine.toolchain).arg(&machine.registry);
        command.arg(if round.tmp_in_memory { "tmpfs" } else { "disk" });
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        os::signals::kill_with_parent(&mut command);
        let mut holder = command.spawn().map_err(|why| format!("unshare: {why}"))?;
        let mut ready = String::new();
        let said = holder.stdout.take().ok_or("unshare has no standard output")?;
        let read = BufReader::new(said).read_line(&mut ready);
        let namespace = |name| PathBuf::from(format!("/proc/{}/ns/{name}", holder.id()));
        let (mount_namespace, network) = (fs::read_link(namespace("mnt")), namespace("net"));
        if read.is_err() || ready != "ready\n" {
            let _ = (holder.kill(), holder.wait());
            return Err("the machine cannot be entered; the reason is above".to_owned());
        }
        let mount_namespace = mount_namespace.map_err(|why| format!("/proc: {why}"))?;
        let inside = Self { round, holder, mount_namespace, network };
        machine.runs_in(&inside.mount_namespace.to_string_lossy())?;
        Ok(inside)
    }

    /// Starts the server, requests its page over loopback, and stops it. Returns the seconds until
    /// the page came.
    pub(super) fn serve(&self, command: &str, log: &Path) -> Result<f64, String> {
        let start_us = os::clock::now();
        let mut server = self.start(command, log)?;
        let page = self.first_page(&mut server, start_us);
        let served_s = seconds_since(start_us);
        // The command's process is the server's: the shell and Cargo have replaced themselves by
        // it.
        os::signals::send("TERM", &[server.id()]);
        let page = page.map_err(|why| format!("{command}: {why}{}", last_lines(log)))?;
        let status = ended_within(&mut server, STOP_WITHIN)
            .ok_or_else(|| format!("{command}: SIGTERM does not end it"))?;
        if !status.success() {
            return Err(format!("{command}: {status} after SIGTERM{}", last_lines(log)));
        }
        let expected =
            fs::read(workspace_root().join(PAGE)).map_err(|why| format!("{PAGE}: {why}"))?;
        if page.status != 200 || page.body != expected {
            return Err(format!("{command}: {} and not {PAGE}", page.status));
        }
        Ok(served_s)
    }

    /// Runs a command to its end. Returns the seconds that it took.
    pub(super) fn run(&self, command: &str, log: &Path) -> Result<f64, String> {
        let start_us = os::clock::now();
        let status = self.start(command, log)?.wait().map_err(|why| format!("{command}: {why}"))?;
        if !status.success() {
            return Err(format!("{command}: {status}{}", last_lines(log)));
        }
        Ok(seconds_since(start_us))
    }

    /// Checks that the commands have left no processes behind.
    pub(super) fn leave(self) -> Result<(), String> {
        let start_us = os::clock::now();
        while !self.processes().is_empty() && seconds_since(start_us) < LEAVE_WITHIN.as_secs_f64() {
            thread::sleep(PAUSE);
        }
        let processes = self.processes().into_iter().map(described);
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let folders = ["tmp", "dev/shm"].into_iter().flat_map(|folder| {
            let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
            entries.map(move |entry| format!("/{folder}/{}", entry.file_name().to_string_lossy()))
        });
        let left: Vec<String> = processes.chain(folders).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {}", left.join(", "))) }
    }

    fn start(&self, command: &str, log: &Path) -> Result<Child, String> {
        let file = File::create(log).map_err(|why| format!("{}: {why}", log.display()))?;
        let both = file.try_clone().map_err(|why| format!("{}: {why}", log.display()))?;
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--target={}", self.holder.id()));
        entered.args(["--mount", "--net", "--root", "--wd", "--"]);
        if !self.round.is_root {
            let id = USER_ID.to_string();
            entered.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
        }
        entered.args(["env", "-i"]).args(self.environment());
        entered.args(["sh", "-c", &format!("cd {SOURCE} && exec {command}")]);
        entered.stdin(Stdio::null()).stdout(file).stderr(both);
        os::signals::kill_with_parent(&mut entered);
        entered.spawn().map_err(|why| format!("nsenter: {why}"))
    }

    /// The environment of a login, and the location of Rust.
    fn environment(&self) -> Vec<String> {
        let (user, home, more) = match self.round.is_root {
            true => ("root", "/root", ":/usr/sbin:/sbin"),
            false => (USER, USER_HOME, ""),
        };
        vec![
            format!("HOME={home}"),
            format!("USER={user}"),
            format!("PATH={RUST}/bin:/usr/bin:/bin{more}"),
            format!("CARGO_HOME={CARGO_HOME}"),
            "CARGO_NET_OFFLINE=true".to_owned(),
            "CARGO_TERM_COLOR=never".to_owned(),
            "LANG=C.UTF-8".to_owned(),
        ]
    }

    fn first_page(&self, server: &mut Child, start_us: u64) -> Result<Response, String> {
        let get = || {
            let mut stream = http::connect(SocketAddr::from(ADDRESS))?;
            http::get(&mut stream, "/", Connection::Close)
        };
        while seconds_since(start_us) < START_WITHIN.as_secs_f64() {
            let page = system::namespaces::in_network(&self.network, get);
            if let Ok(page) = page.map_err(|why| format!("{}: {why}", self.network.display()))? {
                return Ok(page);
            }
            if let Ok(Some(status)) = server.try_wait() {
                return Err(format!("{status} before a page was served"));
            }
            thread::sleep(PAUSE);
        }
        Err("no page is served".to_owned())
    }

    /// The processes on the machine.
    fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let network = fs::read_link(&self.network).ok();
        let is_inside = |pid: &u32| {
            let namespace = |name| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
            // A process that has entered another namespace of one kind is still in this one's of
            // the other.
            let mount = namespace("mnt").is_some_and(|it| it == self.mount_namespace);
            mount || network.is_some() && namespace("net") == network
        };
        pids.filter(|pid| *pid != self.holder.id()).filter(is_inside).collect()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A process that forks while it is killed leaves a child for the next turn.
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            os::signals::send("KILL", &left);
            thread::sleep(PAUSE);
        }
        let _ = (self.holder.kill(), self.holder.wait());
    }
}

fn seconds_since(start_us: u64) -> f64 {
    (os::clock::now() - start_us) as f64 / 1e6
}

fn ended_within(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let start_us = os::clock::now();
    loop {
        let ended = child.try_wait().ok()?;
        if ended.is_some() || seconds_since(start_us) > limit.as_secs_f64() {
            return ended;
        }
        thread::sleep(PAUSE);
    }
}

/// A description of a process for people.
fn described(pid: u32) -> String {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
    format!("process {pid} ({})", arguments.trim_end())
}

/// The end of a log, to show the reason of a failure.
fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
    format!("\n  {last}\n(all of it: {})", log.display())
}
