//! `ropewalk ctl`: asks a server that runs for its status, or to change.

use std::path::PathBuf;

use command::{Failure, escaped, notify, print};
use server::control::{Answer, Asked, Found, ask, find};

use crate::arguments::{Ctl, Request};

/// Asks, and prints the answer: on standard error if it says why not.
pub(crate) fn execute(ctl: &Ctl) -> Result<(), Failure> {
    let socket = match &ctl.socket {
        Some(path) => path.clone(),
        None => found(number(ctl.pid.as_deref())?)?,
    };
    let asked = match &ctl.request {
        Request::Status => Asked::Status,
        Request::Reload => Asked::Reload,
        Request::Upgrade => Asked::Upgrade,
        Request::Drain => Asked::Drain,
        Request::Change { settings } => Asked::Change(settings.clone()),
    };
    let failed = |why| Failure::Operation(format!("{}: {why}", socket.display()));
    let Answer { lines, status } = ask(&socket, &asked).map_err(failed)?;
    if status == 0 {
        return print(&lines.iter().map(|line| escaped(line) + "\n").collect::<String>());
    }
    lines.iter().for_each(|line| notify(line));
    Err(Failure::Reported(status))
}

/// The number of a process.
fn number(text: Option<&str>) -> Result<Option<u32>, Failure> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| Failure::Usage(format!("--pid {text}: write the number of a process")))
    };
    text.map(parse).transpose()
}

/// The control socket of the only server, or of that with this process.
fn found(process: Option<u32>) -> Result<PathBuf, Failure> {
    match find(process) {
        Found::One(path) => Ok(path),
        Found::None => Err(Failure::Operation(match process {
            Some(number) => format!("no server of this user has the process {number}"),
            None => "no server of this user runs here: name its socket (--socket)".into(),
        })),
        Found::Several(processes) => {
            let list: Vec<String> = processes.iter().map(u32::to_string).collect();
            let list = list.join(", ");
            Err(Failure::Usage(format!("several servers run, {list}: choose one (--pid)")))
        }
        Found::Open(folder) => Err(Failure::Operation(format!(
            "{} is not asked: it must be this user's directory, which no other user may write",
            folder.display()
        ))),
    }
}
