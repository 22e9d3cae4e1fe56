//! Routes: what answers requests in place of files, by path and method.
//!
//! Scripts are told from the rest of their path on bytes, and nothing here looks whether one
//! exists: that is done as for files, before it is run.

use std::sync::Arc;

use upstream::{Application, ApplicationSettings, Protocol};

use crate::check::{self, SettingError};
use crate::host::{Dotfiles, HostSettings, RouteSettings};
use crate::path;
use crate::rules::PathGlobs;

/// What a route leads a request to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routed {
    /// To the application at this place among those of the site.
    Application(usize),
    /// To a script, if it exists.
    Script(Script),
    /// To a script that is a program by itself, if there is one.
    Program(Script),
    /// To nothing: the path names a script, and no route takes the method. Files do not answer: a
    /// client would get the script's text.
    Nothing,
}

/// A script and its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The place of the application that runs it.
    pub application: usize,
    /// The canonical path of the script.
    pub name: Vec<u8>,
    /// The rest of the request's path.
    pub path_info: Vec<u8>,
    /// How it was found.
    pub named_by: NamedBy,
}

/// How a script was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The path has its name.
    Path,
    /// The path is that of its directory, whose index it is.
    Index,
    /// It answers for paths that do not exist.
    FrontController,
}

/// The routes of a host.
#[derive(Debug)]
pub(crate) struct Routes {
    routes: PathGlobs<Route>,
    /// The ends of the names of scripts.
    suffixes: Vec<String>,
    index: Vec<String>,
    front_controller: Option<String>,
    dotfiles: Dotfiles,
}

/// A route, ready to be matched.
#[derive(Debug)]
struct Route {
    methods: Vec<String>,
    leads: Leads,
}

#[derive(Debug)]
enum Leads {
    ToFiles,
    To(usize),
    ToScripts {
        application: usize,
        suffix: String,
    },
    /// The programs of a directory, which is at `path`, with a slash at its end.
    ToPrograms {
        application: usize,
        path: String,
    },
}

impl Routes {
    /// Compiles the routes of a host. New applications are added to `applications`; equal ones are
    /// one.
    pub(crate) fn new(
        settings: &HostSettings,
        applications: &mut Vec<Arc<Application>>,
    ) -> Result<Self, SettingError> {
        let mut suffixes = Vec::new();
        let mut all = Vec::new();
        for route in &settings.routes {
            let leads = leads(route, applications)?;
            if let Leads::ToScripts { suffix, .. } = &leads {
                suffixes.push(suffix.clone());
            }
            all.push((route.path.clone(), Route { methods: route.methods.clone(), leads }));
        }
        let routes = PathGlobs::new(all).map_err(SettingError::Glob)?;
        let index = settings.index.clone();
        let front_controller = settings.front_controller.clone();
        let dotfiles = settings.dotfiles;
        let routes = Self { routes, suffixes, index, front_controller, dotfiles };
        routes.check(settings)?;
        Ok(routes)
    }

    /// Checks that no page of a host is a script, and that the script for everything is one.
    fn check(&self, settings: &HostSettings) -> Result<(), SettingError> {
        let routed = |page: &String| self.find(page.as_bytes(), b"GET");
        let is_script = |page: &String| matches!(routed(page), Some(Routed::Script(_)));
        let is_sent = |page: &String| matches!(routed(page), None | Some(Routed::Application(_)));
        let mut pages = settings.spa_fallback.iter().chain(settings.error_pages.values());
        if let Some(page) = pages.find(|page| !is_sent(page)) {
            return Err(SettingError::ScriptPage(page.clone()));
        }
        match &self.front_controller {
            Some(script) if !is_script(script) => Err(SettingError::NoScript(script.clone())),
            _ => Ok(()),
        }
    }

    /// What answers a request for a canonical path; none if files do.
    pub(crate) fn find(&self, path: &[u8], method: &[u8]) -> Option<Routed> {
        let mut is_script = false;
        let found = self.routes.find_map(|route, is_match| {
            let takes = route.takes(method);
            match &route.leads {
                Leads::ToFiles => (takes && is_match(path)).then_some(None),
                Leads::To(place) => {
                    (takes && is_match(path)).then_some(Some(Routed::Application(*place)))
                }
                Leads::ToScripts { application, suffix } => {
                    let (name, path_info, named_by) = self.script(path, suffix)?;
                    if !is_match(&name) {
                        return None;
                    }
                    is_script |= named_by == NamedBy::Path;
                    let path_info = path_info.into();
                    let script = Script { application: *application, name, path_info, named_by };
                    takes.then_some(Some(Routed::Script(script)))
                }
                Leads::ToPrograms { application, path: directory } => {
                    let below = path.strip_prefix(directory.as_bytes())?;
                    is_script = true;
                    let program = self.program(path, directory.len(), below, *application);
                    takes.then_some(Some(program.map_or(Routed::Nothing, Routed::Program)))
                }
            }
        });
        found.unwrap_or(is_script.then_some(Routed::Nothing))
    }

    /// The script that answers for paths that do not exist.
    pub(crate) fn front_controller(&self, method: &[u8]) -> Option<Script> {
        match self.find(self.front_controller.as_ref()?.as_bytes(), method)? {
            Routed::Script(script) => Some(Script { named_by: NamedBy::FrontController, ..script }),
            Routed::Program(_) | Routed::Application(_) | Routed::Nothing => None,
        }
    }

    /// Whether a name is that of scripts, which are never sent as files for a directory.
    pub(crate) fn is_for_scripts(&self, name: &str) -> bool {
        self.suffixes.iter().any(|suffix| name.ends_with(suffix))
    }

    /// The program that a path leads to: the one that its first segment `below` a directory names.
    /// None has a name that files are not found by, nor one with a slash in it, which is `%2F`
    /// here.
    fn program(&self, path: &[u8], at: usize, below: &[u8], application: usize) -> Option<Script> {
        let len = memchr::memchr(b'/', below).unwrap_or(below.len());
        let (name, path_info) = path.split_at(at + len);
        let is_hidden = self.dotfiles == Dotfiles::Deny && path::is_hidden(name);
        if len == 0 || is_hidden || memchr::memmem::find(name, b"%2F").is_some() {
            return None;
        }
        let (name, path_info, named_by) = (name.into(), path_info.into(), NamedBy::Path);
        Some(Script { application, name, path_info, named_by })
    }

    /// The script that a path leads to, and the rest of the path.
    fn script<'p>(&self, path: &'p [u8], suffix: &str) -> Option<(Vec<u8>, &'p [u8], NamedBy)> {
        if let Some(end) = end_of_script(path, suffix.as_bytes()) {
            return Some((path[..end].into(), &path[end..], NamedBy::Path));
        }
        let index = self.index.iter().find(|name| name.ends_with(suffix))?;
        path.ends_with(b"/").then(|| ([path, index.as_bytes()].concat(), &b""[..], NamedBy::Index))
    }
}

impl Route {
    fn takes(&self, method: &[u8]) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|it| it.as_bytes() == method)
    }
}

/// Where the first segment ends that ends with a suffix.
fn end_of_script(path: &[u8], suffix: &[u8]) -> Option<usize> {
    let ends = (1..=path.len()).filter(|&at| path.get(at).is_none_or(|byte| *byte == b'/'));
    ends.into_iter().find(|&end| path[..end].ends_with(suffix))
}

fn leads(
    route: &RouteSettings,
    applications: &mut Vec<Arc<Application>>,
) -> Result<Leads, SettingError> {
    if route.application.servers.is_empty() {
        return Ok(Leads::ToFiles);
    }
    let place = place_of(&route.application, applications);
    let ApplicationSettings { protocol, fastcgi, .. } = &route.application;
    Ok(match (protocol, fastcgi.suffix.as_str()) {
        (Protocol::Http, _) | (Protocol::FastCgi, "") => Leads::To(place),
        (Protocol::FastCgi, suffix) => {
            Leads::ToScripts { application: place, suffix: suffix.into() }
        }
        (Protocol::Cgi, _) => {
            let path = check::program_path(&route.path)?.into();
            Leads::ToPrograms { application: place, path }
        }
    })
}

/// The place of an application, which is added if it is new.
fn place_of(settings: &ApplicationSettings, all: &mut Vec<Arc<Application>>) -> usize {
    let known = all.iter().position(|application| application.settings() == settings);
    known.unwrap_or_else(|| {
        all.push(Arc::new(Application::new(settings.clone(), all.len())));
        all.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use upstream::{Address, FastCgiSettings, ServerSettings};

    use super::*;
    use crate::host::Site;

    fn route(path: &str, methods: &[&str], application: ApplicationSettings) -> RouteSettings {
        let methods = methods.iter().map(ToString::to_string).collect();
        RouteSettings { path: path.into(), methods, application }
    }

    fn http(port: u16) -> ApplicationSettings {
        let address = Address::Tcp { host: "localhost".into(), port };
        let servers = vec![ServerSettings { address, weight: 1 }];
        ApplicationSettings { servers, ..ApplicationSettings::default() }
    }

    fn php(suffix: &str) -> ApplicationSettings {
        let fastcgi = FastCgiSettings { suffix: suffix.into(), ..FastCgiSettings::default() };
        ApplicationSettings { protocol: Protocol::FastCgi, fastcgi, ..http(9000) }
    }

    fn site(change: impl FnOnce(&mut HostSettings)) -> Result<Site, SettingError> {
        let mut host = HostSettings::new("/srv".into());
        change(&mut host);
        Site::new(vec![host]).map_err(|error| error.fault)
    }

    /// What a request is led to: a number, `NAME+REST` with how it was found, or nothing.
    fn found(site: &Site, path: &str, method: &str) -> String {
        match site.host(0).route(path.as_bytes(), method.as_bytes()) {
            None => "files".into(),
            Some(Routed::Application(number)) => number.to_string(),
            Some(Routed::Nothing) => "nothing".into(),
            Some(Routed::Script(script) | Routed::Program(script)) => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                format!("{}+{} {:?}", text(&script.name), text(&script.path_info), script.named_by)
            }
        }
    }

    #[test]
    fn the_first_route_that_matches_path_and_method_decides() {
        let site = site(|host| {
            host.routes = vec![
                route("/api/static/**", &[], ApplicationSettings::default()),
                route("/api/**", &["POST", "PUT"], http(3001)),
                route("/api/**", &[], http(3000)),
                route("/more", &[], http(3001)),
            ];
        });
        let site = site.unwrap();
        assert_eq!(site.applications().len(), 2, "equal ones are one");
        for (path, method, expected) in [
            ("/", "GET", "files"),
            ("/api/a", "GET", "1"),
            ("/api/a", "POST", "0"),
            ("/more", "GET", "0"),
            ("/api/a/b", "PUT", "0"),
            ("/api/static/a", "POST", "files"),
            ("/apis", "GET", "files"),
        ] {
            assert_eq!(found(&site, path, method), expected, "{path}");
        }
    }

    /// CVE-2026-27590, caddy 2158: the path is split where the first segment ends with the suffix,
    /// byte by byte, whatever else it has.
    #[test]
    fn a_script_is_told_from_the_rest_of_its_path() {
        let site = site(|host| {
            host.index = vec!["index.html".into(), "index.php".into()];
            host.routes = vec![route("**.php", &[], php(".php"))];
        });
        let site = site.unwrap();
        for (path, expected) in [
            ("/a.php", "/a.php+ Path"),
            ("/a.php/", "/a.php+/ Path"),
            ("/b/a.php/x.php/y", "/b/a.php+/x.php/y Path"),
            ("/evil.jpg/x.php", "/evil.jpg/x.php+ Path"),
            ("/a.phpx/b", "files"),
            ("/a.PHP", "files"),
            ("/\u{130}\u{130}.php/\u{130}", "/\u{130}\u{130}.php+/\u{130} Path"),
            ("/a.txt", "files"),
            ("/", "/index.php+ Index"),
            ("/b/", "/b/index.php+ Index"),
            ("/b", "files"),
        ] {
            assert_eq!(found(&site, path, "GET"), expected, "{path}");
        }
    }

    #[test]
    fn a_script_whose_method_no_route_takes_is_nothing() {
        let routes = vec![
            route("/up/**", &[], ApplicationSettings::default()),
            route("**.php", &["POST"], php(".php")),
            route("/old.php", &["GET"], http(3000)),
        ];
        let site = site(|host| host.routes = routes).unwrap();
        assert_eq!(found(&site, "/a.php", "POST"), "/a.php+ Path");
        assert_eq!(found(&site, "/a.php", "GET"), "nothing");
        assert_eq!(found(&site, "/old.php", "GET"), "1");
        assert_eq!(found(&site, "/up/a.php", "GET"), "files", "as the operator says");
    }

    fn cgi(folder: &str) -> ApplicationSettings {
        let servers = vec![ServerSettings { address: Address::Programs(folder.into()), weight: 1 }];
        let protocol = Protocol::Cgi;
        ApplicationSettings { servers, protocol, ..ApplicationSettings::default() }
    }

    #[test]
    fn a_program_is_the_first_segment_below_its_directory() {
        let site = site(|host| {
            host.routes = vec![
                route("/cgi-bin/**", &["GET"], cgi("")),
                route("/a/tools/**", &[], cgi("/usr/lib/tools")),
            ];
        });
        let site = site.unwrap();
        for (path, expected) in [
            ("/cgi-bin/a", "/cgi-bin/a+ Path"),
            ("/cgi-bin/a/", "/cgi-bin/a+/ Path"),
            ("/cgi-bin/a/b.c/d", "/cgi-bin/a+/b.c/d Path"),
            ("/a/tools/b/c%2Fd", "/a/tools/b+/c%2Fd Path"),
            ("/cgi-bin/", "nothing"),
            ("/cgi-bin/a%2Fb", "nothing"),
            ("/cgi-bin/.a", "nothing"),
            ("/cgi-bin", "files"),
            ("/cgi-bina/a", "files"),
        ] {
            assert_eq!(found(&site, path, "GET"), expected, "{path}");
        }
        assert_eq!(found(&site, "/cgi-bin/a", "POST"), "nothing", "its text is not sent");
    }

    #[test]
    fn programs_are_in_a_directory() {
        for path in ["**.cgi", "/cgi-bin/*", "/a*/**", "/**/", "/cgi-bin"] {
            let of = |host: &mut HostSettings| host.routes = vec![route(path, &[], cgi(""))];
            assert_eq!(site(of).err(), Some(SettingError::ProgramPath(path.into())), "{path}");
        }
    }

    #[test]
    fn without_a_suffix_all_paths_are_the_applications() {
        let site = site(|host| host.routes = vec![route("/app/**", &[], php(""))]).unwrap();
        assert_eq!(found(&site, "/app/a.php/b", "GET"), "0");
        assert_eq!(found(&site, "/a.php", "GET"), "files");
    }

    #[test]
    fn the_front_controller_is_a_script_and_a_page_is_none() {
        let with = |page: &'static str| {
            move |host: &mut HostSettings| {
                host.routes = vec![route("**.php", &[], php(".php"))];
                host.front_controller = Some(page.into());
            }
        };
        let controller = site(with("/index.php")).unwrap().host(0).front_controller(b"PUT");
        assert_eq!(controller.map(|it| it.name), Some(b"/index.php".to_vec()));
        let no_script = |page: &str| Some(SettingError::NoScript(page.into()));
        assert_eq!(site(with("/index.html")).err(), no_script("/index.html"));
        let page = |host: &mut HostSettings| {
            with("/index.php")(host);
            host.spa_fallback = Some("/index.php".into());
        };
        assert_eq!(site(page).err(), Some(SettingError::ScriptPage("/index.php".into())));
    }
}
