//! Hosts with nothing to show at `/`, which beginners take for a fault of the server.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use engines::jobs::{ReportTrouble, Runner, Trouble, TroubleCause};
use session::{Done, Job, Known};
use site::Site;
use site::host::{Host, HostSettings};
use site::refusal::Refusal;
use site::resource::Resource;
use site::routes::Routed;

use crate::config::one_line;

/// A line for each host that answers 404 or 403 to a browser that asks for `/`, with what to do.
/// There are none if a root cannot be opened: that is a failure of the start, which is reported.
pub(crate) fn missing(site: &Arc<Site>) -> Vec<String> {
    let Ok(runner) = Runner::new(Arc::clone(site), 0) else { return Vec::new() };
    let (report, refusals) = reporter();
    let runner = runner.with_trouble_report(report);
    let line = |(index, settings): (usize, &HostSettings)| {
        if is_for_application(&runner, site.host(index), index) {
            return None;
        }
        let path = b"/".as_slice().into();
        let done = runner.run(Job::Resolve { host: index, path, known: Known::Nothing });
        let refusal = refusals.try_recv().ok();
        // What is not resolved at once is a file that has to be hashed first.
        let Done::Resolved(Ok((_, entry))) = done else { return None };
        match (entry.resource, settings.spa_fallback.is_some()) {
            (Resource::Forbidden, _) | (Resource::Missing, false) => {
                refusal.map(|(path, why)| refused(&path, why)).or_else(|| absent(settings))
            }
            _ => None,
        }
    };
    (site.first()..).zip(site.hosts().iter().map(Host::settings)).filter_map(line).collect()
}

/// Whether an application answers for `/`: by a route, or by a script that exists.
fn is_for_application(runner: &Runner, host: &Host, index: usize) -> bool {
    let script = match host.route(b"/", b"GET") {
        Some(Routed::Script(script)) => Some(script),
        Some(Routed::Application(_) | Routed::Program(_)) => return true,
        Some(Routed::Nothing) | None => None,
    };
    script.into_iter().chain(host.front_controller(b"GET")).any(|script| {
        let path = script.name.clone().into();
        let done = runner.run(Job::Resolve { host: index, path, known: Known::Nothing });
        !matches!(done, Done::Resolved(Ok((_, entry))) if !entry.is_file(&script.name))
    })
}

/// A function that takes reports of paths that are refused, and what it has taken.
fn reporter() -> (ReportTrouble, mpsc::Receiver<(PathBuf, Refusal)>) {
    let (sender, receiver) = mpsc::channel();
    let report: ReportTrouble = Arc::new(move |trouble| {
        if let Trouble::Path { root, path, cause: TroubleCause::Refused(why) } = trouble {
            let path = root.join(OsStr::from_bytes(path));
            let _ = sender.send((path.components().collect(), *why)); // the receiver is still there
        }
    });
    (report, receiver)
}

/// The line for a root without an index file. A host without names of index files is meant to have
/// none.
fn absent(settings: &HostSettings) -> Option<String> {
    if settings.index.is_empty() {
        return None;
    }
    let (path, index) = (settings.root.to_string_lossy(), settings.index.join(" or "));
    let root = one_line(&path);
    let is_empty =
        std::fs::read_dir(&settings.root).is_ok_and(|mut entries| entries.next().is_none());
    Some(match is_empty {
        true => format!("nothing at /: {root} is empty: put an {index} there"),
        false => {
            format!("nothing at /: {root} has no {index}: put one there, or use --listing")
        }
    })
}

/// The line for a file or a directory that is there and is not sent.
fn refused(path: &Path, why: Refusal) -> String {
    let remedy = match why {
        Refusal::Permission => "let this user read it (chmod a+r)",
        Refusal::OutsideRoot | Refusal::SymbolicLink | Refusal::NotRegular => {
            "put a regular file there"
        }
    };
    format!("nothing at /: {path:?} is refused: {why}: {remedy}")
}

#[cfg(test)]
mod tests {
    use site::host::{RedirectSettings, RouteSettings, Symlinks};
    use testkit::Temporary;
    use upstream::{Address, ApplicationSettings, Protocol, ServerSettings};

    use super::*;

    /// The lines for a root with these files, without its path.
    fn lines(files: &[&str], change: impl FnOnce(&mut HostSettings)) -> Vec<String> {
        let directory = Temporary::new();
        std::fs::create_dir(directory.path().join("root")).unwrap();
        for file in files {
            directory.file(&format!("root/{file}"), "");
        }
        let root = directory.path().join("root");
        let mut settings = HostSettings::new(root.clone());
        change(&mut settings);
        let site = Arc::new(Site::new(vec![settings]).unwrap());
        let path = root.display().to_string();
        missing(&site).iter().map(|line| line.replace(&path, "ROOT")).collect()
    }

    #[test]
    fn a_root_without_a_start_page_says_what_to_do() {
        let none = ["nothing at /: ROOT has no index.html: put one there, or use --listing"];
        assert_eq!(lines(&["a.txt"], |_| ()), none);
        assert_eq!(lines(&["index.htm", "deep/index.html"], |_| ()), none);
        assert_eq!(lines(&[], |_| ()), ["nothing at /: ROOT is empty: put an index.html there"]);
        let two = |host: &mut HostSettings| host.index.push("start.htm".into());
        let neither =
            "nothing at /: ROOT has no index.html or start.htm: put one there, or use --listing";
        assert_eq!(lines(&["a.txt"], two), [neither]);
        let never = |host: &mut HostSettings| host.symlinks = Symlinks::Never;
        assert_eq!(lines(&["a.txt"], never), none);
    }

    /// A script answers if it is there, as the index or for what does not exist.
    #[test]
    fn a_root_whose_scripts_answer_says_nothing() {
        let php = |host: &mut HostSettings| {
            let address = Address::Unix("/run/php.sock".into());
            let application = ApplicationSettings {
                servers: vec![ServerSettings { address, weight: 1 }],
                protocol: Protocol::FastCgi,
                ..ApplicationSettings::default()
            };
            let path = "**.php".into();
            host.routes = vec![RouteSettings { path, application, ..RouteSettings::default() }];
            host.index = vec!["index.php".into(), "index.html".into()];
        };
        let front = |host: &mut HostSettings| {
            php(host);
            host.front_controller = Some("/app.php".into());
        };
        let none =
            ["nothing at /: ROOT has no index.php or index.html: put one there, or use --listing"];
        assert_eq!(lines(&["a.txt"], php), none);
        assert_eq!(lines(&["a.txt"], front), none);
        for files in [["index.php"], ["index.html"]] {
            assert_eq!(lines(&files, php), [""; 0]);
        }
        assert_eq!(lines(&["app.php"], front), [""; 0]);
    }

    /// That this user may not read a file is seen from outside, by the tests of the program.
    #[test]
    fn a_start_page_that_is_refused_is_named_with_the_reason() {
        let directory = Temporary::new();
        let start = directory.path().join("index.html");
        std::os::unix::fs::symlink(directory.file("outside/a.html", ""), &start).unwrap();
        let site = Site::new(vec![HostSettings::new(directory.path().into())]).unwrap();
        let expected = format!(
            "nothing at /: {start:?} is refused: it leads out of the root: put a regular file there"
        );
        assert_eq!(missing(&Arc::new(site)), [expected]);
    }

    #[test]
    fn the_name_of_a_root_adds_no_line() {
        let directory = Temporary::new();
        directory.file("two\nlines/a.txt", "");
        let root = directory.path().join("two\nlines");
        let site = Arc::new(Site::new(vec![HostSettings::new(root.clone())]).unwrap());
        let expected =
            format!("nothing at /: {root:?} has no index.html: put one there, or use --listing");
        assert_eq!(missing(&site), [expected]);
    }

    #[test]
    fn a_root_that_answers_says_nothing() {
        let check = |files: &[&str], change: fn(&mut HostSettings)| {
            assert_eq!(lines(files, change), [""; 0], "{files:?}");
        };
        check(&["index.html"], |_| ());
        check(&["index.html.gz"], |_| ());
        check(&["start.htm"], |host| host.index.push("start.htm".into()));
        check(&["a.txt"], |host| host.listing = true);
        check(&["a.txt"], |host| host.index.clear());
        check(&["app.html"], |host| host.spa_fallback = Some("/app.html".into()));
        check(&["a.txt"], |host| {
            let to = "/a.txt".into();
            host.redirects.push(RedirectSettings { from: "/".into(), to, status: 302 });
        });
    }
}
