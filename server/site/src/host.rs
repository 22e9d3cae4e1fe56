//! Hosts: what each virtual host serves and by which rules, and which host a request is for.
//!
//! [`HostSettings`] are as the operator wrote them; [`Site`] is made from them: globs compiled,
//! names in a table. Nothing here opens a file.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use upstream::{Application, ApplicationSettings};

use crate::check::{self, SettingError};
use crate::fields::HeaderRule;
use crate::mime::Overrides;
use crate::negotiate::Coding;
use crate::routes::{Routed, Routes, Script};
use crate::rules::{PathGlobs, default_cache_control};

/// How many applications can come, one after another, besides those of the first site: workers have
/// something of each.
const APPLICATIONS_ADDED_MAX: usize = 128;

/// The page for 404 of a host whose settings name none: this file of its root, while it is there.
const NOT_FOUND_PAGE: &[u8] = b"/404.html";

/// The settings of one virtual host, as an operator writes them.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// Host names: exact (`example.com`) or wildcard (`*.example.com`), without a port.
    pub names: Vec<String>,
    /// Whether this host answers for names that no host claims. Without such a host, the first one
    /// does if no host has names.
    pub default: bool,
    /// The directory that is served.
    pub root: PathBuf,
    /// File names that are tried, in order, for a path that ends in a slash.
    pub index: Vec<String>,
    /// Whether `/page` also finds `page.html`.
    pub html_suffix: bool,
    /// The page that answers navigations to paths that do not exist (single-page applications).
    pub spa_fallback: Option<String>,
    /// The script that answers for paths that do not exist.
    pub front_controller: Option<String>,
    /// Pages for error statuses, as paths below the root. Without one for 404, `/404.html` is it.
    pub error_pages: BTreeMap<u16, String>,
    /// Whether a directory without an index file is listed.
    pub listing: bool,
    /// What happens to names that begin with a dot.
    pub dotfiles: Dotfiles,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Codings whose precompressed siblings (`file.br`) are looked for.
    pub precompressed: Vec<Coding>,
    /// A sibling that is older than its file by more than this many seconds is left out; `None`: a
    /// sibling of any age is used.
    pub precompressed_lag_s_max: Option<u64>,
    /// `Cache-Control` by glob; the first match wins, the built-in rules come last.
    pub cache_control: Vec<(String, String)>,
    /// Response fields by glob, for every response; all matches count.
    pub headers: Vec<HeaderRule>,
    /// Redirects by glob; the first match wins.
    pub redirects: Vec<RedirectSettings>,
    /// Which requests applications answer; the first match wins, files come last.
    pub routes: Vec<RouteSettings>,
    /// Media types by file name extension, ahead of the built-in table.
    pub mime_types: BTreeMap<String, String>,
    /// The size up to which files are read for their entity tag that are not in memory and whose
    /// modification time was set.
    pub etag_hash_bytes_max: u64,
}

/// One redirect rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RedirectSettings {
    /// A glob over canonical paths.
    pub from: String,
    /// The `Location`: a path or a URL. The request's query is appended if it has none of its own.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A rule that says what answers requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteSettings {
    /// A glob over canonical paths.
    pub path: String,
    /// The methods of the requests; none means all.
    pub methods: Vec<String>,
    /// The application that answers; one without servers stands for the files of the host.
    pub application: ApplicationSettings,
}

/// The policy for path segments that begin with a dot (`/.well-known/` is always served: RFC 8615).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dotfiles {
    /// Such paths are answered as if they did not exist.
    Deny,
    /// Such paths are served like any other file.
    Allow,
}

/// The policy for symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// Followed as long as every step stays beneath the root.
    Beneath,
    /// Never followed.
    Never,
    /// Followed wherever they lead.
    Anywhere,
}

impl HostSettings {
    /// The settings of a host that serves `root`, with defaults for the rest.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self {
            names: Vec::new(),
            default: false,
            root,
            index: vec!["index.html".into()],
            html_suffix: false,
            spa_fallback: None,
            front_controller: None,
            error_pages: BTreeMap::new(),
            listing: false,
            dotfiles: Dotfiles::Deny,
            symlinks: Symlinks::Beneath,
            precompressed: vec![Coding::Brotli, Coding::Zstd, Coding::Gzip],
            precompressed_lag_s_max: Some(60),
            cache_control: Vec::new(),
            headers: Vec::new(),
            redirects: Vec::new(),
            routes: Vec::new(),
            mime_types: BTreeMap::new(),
            etag_hash_bytes_max: 16 << 20,
        }
    }
}

/// One virtual host, ready to serve.
#[derive(Debug)]
pub struct Host {
    pub(crate) settings: HostSettings,
    pub(crate) cache_control: PathGlobs<String>,
    pub(crate) headers: PathGlobs<HeaderRule>,
    pub(crate) redirects: PathGlobs<(String, u16)>,
    pub(crate) routes: Routes,
    pub(crate) mime_types: Overrides,
}

impl Host {
    /// Compiles settings. New applications are added to `applications`; equal ones are one.
    fn new(
        settings: HostSettings,
        applications: &mut Vec<Arc<Application>>,
    ) -> Result<Self, SettingError> {
        check_settings(&settings)?;
        let cache = settings.cache_control.iter().cloned();
        let headers = settings.headers.iter().map(|rule| (rule.path.clone(), rule.clone()));
        let redirects =
            settings.redirects.iter().map(|r| (r.from.clone(), (r.to.clone(), r.status)));
        let routes = Routes::new(&settings, applications)?;
        Ok(Self {
            cache_control: PathGlobs::new(cache).map_err(SettingError::Glob)?,
            headers: PathGlobs::new(headers).map_err(SettingError::Glob)?,
            redirects: PathGlobs::new(redirects).map_err(SettingError::Glob)?,
            routes,
            mime_types: Overrides::new(
                settings.mime_types.iter().map(|(e, t)| (e.as_str(), t.as_str())),
            ),
            settings,
        })
    }

    /// The settings this host was made from.
    #[must_use]
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// The `Cache-Control` value for a canonical path.
    #[must_use]
    pub fn cache_control(&self, path: &[u8]) -> &str {
        self.cache_control
            .matches(path)
            .next()
            .map_or_else(|| default_cache_control(path), String::as_str)
    }

    /// The fields that rules add to responses for a canonical path, in the order of the rules.
    pub fn header_rules<'h, 'p>(
        &'h self,
        path: &'p [u8],
    ) -> impl Iterator<Item = &'h HeaderRule> + use<'h, 'p> {
        self.headers.matches(path)
    }

    /// Whether any rule adds fields to responses.
    #[must_use]
    pub fn has_header_rules(&self) -> bool {
        !self.headers.is_empty()
    }

    /// The page for an error status, as a canonical path: the one that the settings name, and
    /// without one `/404.html` for 404, which need not exist.
    #[must_use]
    pub fn error_page(&self, status: u16) -> Option<&[u8]> {
        let named = self.settings.error_pages.get(&status).map(String::as_bytes);
        named.or((status == 404).then_some(NOT_FOUND_PAGE))
    }

    /// Where a canonical path is redirected to, and by which status.
    #[must_use]
    pub fn redirect(&self, path: &[u8]) -> Option<(&str, u16)> {
        self.redirects.matches(path).next().map(|(to, status)| (to.as_str(), *status))
    }

    /// What answers a request for a canonical path; none if files do.
    #[must_use]
    pub fn route(&self, path: &[u8], method: &[u8]) -> Option<Routed> {
        self.routes.find(path, method)
    }

    /// The script that answers requests with this method for paths that do not exist.
    #[must_use]
    pub fn front_controller(&self, method: &[u8]) -> Option<Script> {
        self.routes.front_controller(method)
    }

    /// The page that answers navigations to paths that do not exist.
    #[must_use]
    pub fn spa_fallback(&self) -> Option<&[u8]> {
        self.settings.spa_fallback.as_deref().map(str::as_bytes)
    }
}

/// What is wrong with the settings of a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct SiteError {
    /// The index of the host.
    pub host: usize,
    /// What is wrong with it.
    pub fault: SettingError,
}

/// The files that an application may name in place of content are those of a host of their own,
/// which no request is for.
#[derive(Debug)]
struct NamedFiles {
    /// The host whose requests the application answers.
    host: usize,
    /// The place of the application.
    application: usize,
    /// The host of the files.
    files: usize,
}

/// All virtual hosts of a server.
#[derive(Debug)]
pub struct Site {
    hosts: Vec<Host>,
    /// The index of the first host.
    first: usize,
    exact: HashMap<Vec<u8>, usize>,
    /// Suffixes with their leading dot, longest first.
    wildcards: Vec<(Vec<u8>, usize)>,
    default: Option<usize>,
    applications: Vec<Arc<Application>>,
    /// The number of the next application that is new.
    next_number: usize,
    /// What the numbers are less than.
    numbers_max: usize,
    named_files: Vec<NamedFiles>,
}

impl Site {
    /// Compiles `settings`.
    ///
    /// # Errors
    /// A bad glob, page, field or redirect; a name claimed twice; two defaults; no host at all.
    pub fn new(settings: Vec<HostSettings>) -> Result<Self, SiteError> {
        let mut site = Self {
            hosts: Vec::with_capacity(settings.len()),
            first: 0,
            exact: HashMap::new(),
            wildcards: Vec::new(),
            default: None,
            applications: Vec::new(),
            next_number: 0,
            numbers_max: 0,
            named_files: Vec::new(),
        };
        if settings.is_empty() {
            return Err(SiteError { host: 0, fault: SettingError::NoHost });
        }
        for (host, settings) in settings.into_iter().enumerate() {
            site.add(host, settings).map_err(|fault| SiteError { host, fault })?;
        }
        if site.default.is_none() && site.hosts[0].settings.names.is_empty() {
            site.default = Some(0);
        }
        site.wildcards.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        site.next_number = site.applications.len();
        site.numbers_max = site.next_number + APPLICATIONS_ADDED_MAX;
        (0..site.hosts.len()).try_for_each(|host| site.add_named_files(host))?;
        Ok(site)
    }

    /// The host that answers for a `Host` value, with or without a port; none means 421.
    #[must_use]
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> Option<usize> {
        if self.exact.is_empty() && self.wildcards.is_empty() {
            return self.default;
        }
        host.and_then(|host| self.find_named(host)).or(self.default)
    }

    /// The host at an index that [`Site::find`] returned.
    #[must_use]
    #[inline]
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index - self.first]
    }

    /// The place of a host of this site among [`Site::hosts`] and [`Site::roots`]; none if the
    /// index is of another site.
    #[must_use]
    pub fn place(&self, index: usize) -> Option<usize> {
        index.checked_sub(self.first).filter(|place| *place < self.hosts.len())
    }

    /// The index of the first host; those of the others follow it.
    #[must_use]
    pub fn first(&self) -> usize {
        self.first
    }

    /// Whether the applications of another site are the same, at the same places.
    #[must_use]
    pub fn has_applications_of(&self, other: &Self) -> bool {
        let (own, others) = (self.applications.iter(), other.applications.iter());
        own.map(|it| it.settings()).eq(others.map(|it| it.settings()))
    }

    /// Whether workers of another site can go on by this one: there are numbers for applications
    /// that are new.
    #[must_use]
    pub fn can_follow(&self, other: &Self) -> bool {
        let is_new = |it: &&Arc<Application>| other.application_of(it.settings()).is_none();
        let new = self.applications.iter().filter(is_new).count();
        other.next_number + new <= other.numbers_max
    }

    /// Makes this the successor of another site, which goes on being used for a while: from now on
    /// it has the applications of the other where they are the same, the others have numbers that
    /// none has had, and its hosts have indices after those of the other's hosts.
    pub fn follow(&mut self, other: &Self) {
        let mut next_number = other.next_number;
        for application in &mut self.applications {
            *application = other.application_of(application.settings()).unwrap_or_else(|| {
                next_number += 1;
                Arc::new(Application::new(application.settings().clone(), next_number - 1))
            });
        }
        (self.next_number, self.numbers_max) = (next_number, other.numbers_max);
        self.begin_at(other.first + other.hosts.len());
    }

    /// Gives the first host this index, which is no less than the one it has, and the others those
    /// that follow it.
    pub fn begin_at(&mut self, first: usize) {
        let by = first - self.first;
        self.first = first;
        self.exact.values_mut().for_each(|index| *index += by);
        self.wildcards.iter_mut().for_each(|(_, index)| *index += by);
        self.default.iter_mut().for_each(|index| *index += by);
        for named in &mut self.named_files {
            named.host += by;
            named.files += by;
        }
    }

    /// All hosts in the order of the configuration.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts[..self.hosts.len() - self.named_files.len()]
    }

    /// The roots of all hosts by their places: after those of the configuration, those of the
    /// hosts of files that applications name.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.hosts.iter().map(|host| &*host.settings.root)
    }

    /// The index of the host of the files that the application at this place may name in place of
    /// content, when it answers requests for this host.
    #[must_use]
    pub fn named_files(&self, host: usize, place: usize) -> Option<usize> {
        let is_it = |it: &&NamedFiles| (it.host, it.application) == (host, place);
        self.named_files.iter().find(is_it).map(|it| it.files)
    }

    /// The applications that routes lead to, by their places.
    #[must_use]
    #[inline]
    pub fn applications(&self) -> &[Arc<Application>] {
        &self.applications
    }

    /// Whether a route leads to this very application.
    #[must_use]
    pub fn has_application(&self, application: &Arc<Application>) -> bool {
        self.applications.iter().any(|it| Arc::ptr_eq(it, application))
    }

    /// What the numbers of its applications, and of those of sites that follow it, are less than.
    #[must_use]
    pub fn application_numbers_max(&self) -> usize {
        self.numbers_max
    }

    fn application_of(&self, settings: &ApplicationSettings) -> Option<Arc<Application>> {
        self.applications.iter().find(|it| it.settings() == settings).cloned()
    }

    /// Adds the hosts of the files that applications of a host may name.
    fn add_named_files(&mut self, host: usize) -> Result<(), SiteError> {
        let settings = self.hosts[host].settings.clone();
        for route in &settings.routes {
            let is_its = |it: &Arc<Application>| *it.settings() == route.application;
            let Some(application) = self.applications.iter().position(is_its) else { continue };
            let root = &route.application.sendfile_root;
            if root.is_empty() || self.named_files(host, application).is_some() {
                continue;
            }
            let files = self.hosts.len();
            let added = Host::new(settings_of_named_files(&settings, root), &mut Vec::new());
            self.hosts.push(added.map_err(|fault| SiteError { host, fault })?);
            self.named_files.push(NamedFiles { host, application, files });
        }
        Ok(())
    }

    fn find_named(&self, host: &[u8]) -> Option<usize> {
        let name = without_port(host).to_ascii_lowercase();
        let name = name.strip_suffix(b".").unwrap_or(&name);
        let wildcard = || {
            let found = self.wildcards.iter().find(|(suffix, _)| name.ends_with(suffix));
            found.map(|(_, index)| *index)
        };
        self.exact.get(name).copied().or_else(wildcard)
    }

    fn add(&mut self, index: usize, settings: HostSettings) -> Result<(), SettingError> {
        for name in &settings.names {
            let lower = name.to_ascii_lowercase().into_bytes();
            let is_new = match lower.strip_prefix(b"*") {
                Some(suffix) if self.wildcards.iter().any(|(known, _)| known == suffix) => false,
                Some(suffix) => {
                    self.wildcards.push((suffix.to_vec(), index));
                    true
                }
                None => self.exact.insert(lower, index).is_none(),
            };
            if !is_new {
                return Err(SettingError::HostNameTwice(name.clone()));
            }
        }
        if settings.default && self.default.replace(index).is_some() {
            return Err(SettingError::TwoDefaults);
        }
        self.hosts.push(Host::new(settings, &mut self.applications)?);
        Ok(())
    }
}

/// The settings of a host of files that applications name: paths lead to files of exactly that
/// name, as far as dots and links allow it in the host of their requests.
fn settings_of_named_files(host: &HostSettings, root: &str) -> HostSettings {
    HostSettings {
        index: Vec::new(),
        dotfiles: host.dotfiles,
        symlinks: host.symlinks,
        precompressed: Vec::new(),
        // Which clients may have the file is the application's decision, which no cache knows.
        cache_control: vec![("**".into(), "private, no-cache".into())],
        mime_types: host.mime_types.clone(),
        etag_hash_bytes_max: host.etag_hash_bytes_max,
        ..HostSettings::new(root.into())
    }
}

/// Cuts `:port` off; a colon inside the brackets of an IPv6 literal starts no port.
fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|&b| b == b':' || b == b']') {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}

/// Checks every value separately.
fn check_settings(settings: &HostSettings) -> Result<(), SettingError> {
    settings.names.iter().try_for_each(|name| check::host_name(name))?;
    settings.index.iter().try_for_each(|name| check::index(name))?;
    settings.error_pages.keys().try_for_each(|status| check::page_status(*status))?;
    let pages = settings.spa_fallback.iter().chain(&settings.front_controller);
    for page in pages.chain(settings.error_pages.values()) {
        check::page(page)?;
        if settings.dotfiles == Dotfiles::Deny {
            check::visible_page(page)?;
        }
    }
    for rule in &settings.headers {
        check::field_name(&rule.name)?;
        check::field_value(&rule.name, &rule.value)?;
    }
    let cache_control = settings.cache_control.iter();
    cache_control
        .map(|(_, value)| value)
        .try_for_each(|v| check::field_value("Cache-Control", v))?;
    settings.mime_types.values().try_for_each(|media_type| check::media_type(media_type))?;
    settings.redirects.iter().try_for_each(|redirect| {
        check::redirect_target(&redirect.to)?;
        check::redirect_status(redirect.status)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(hosts: &[(&[&str], bool)]) -> Site {
        let settings = hosts.iter().map(|(names, default)| {
            let mut host = HostSettings::new("/srv".into());
            host.names = names.iter().map(ToString::to_string).collect();
            host.default = *default;
            host
        });
        Site::new(settings.collect()).unwrap()
    }

    #[test]
    fn exact_beats_wildcard_beats_default() {
        let site = site(&[
            (&["example.com", "a.example.org"], false),
            (&["*.example.org"], false),
            (&["*.deep.example.org"], false),
            (&[], true),
        ]);
        for (host, expected) in [
            ("example.com", 0),
            ("EXAMPLE.com:8080", 0),
            ("example.com.", 0),
            ("a.example.org", 0),
            ("b.example.org", 1),
            ("x.deep.example.org", 2),
            ("example.org", 3),
            ("evilexample.org", 3),
            ("[::1]:80", 3),
        ] {
            assert_eq!(site.find(Some(host.as_bytes())), Some(expected), "{host}");
        }
        assert_eq!(site.find(None), Some(3));
    }

    #[test]
    fn without_default_an_unknown_host_has_none() {
        let site = site(&[(&["example.com"], false)]);
        assert_eq!(site.find(Some(b"other.test")), None);
    }

    #[test]
    fn no_host_of_a_site_has_an_index_of_one_that_it_follows() {
        let names: &[(&[&str], bool)] = &[(&["a"], false), (&["*.b"], false), (&[], true)];
        let (former, mut next) = (site(names), site(&names[..2]));
        next.follow(&former);
        let mut last = site(names);
        last.follow(&next);
        let found = |site: &Site| [&b"a"[..], b"x.b", b"c"].map(|name| site.find(Some(name)));
        assert_eq!(found(&former), [Some(0), Some(1), Some(2)]);
        assert_eq!(found(&next), [Some(3), Some(4), None]);
        assert_eq!(found(&last), [Some(5), Some(6), Some(7)]);
        assert_eq!([2, 3, 4, 5].map(|index| next.place(index)), [None, Some(0), Some(1), None]);
        assert_eq!(next.host(4).settings().names, ["*.b"]);
        last.begin_at(9);
        assert_eq!(found(&last), [Some(9), Some(10), Some(11)]);
        assert_eq!([8, 9, 12].map(|index| last.place(index)), [None, Some(0), None]);
    }

    #[test]
    fn no_two_hosts_claim_the_same() {
        let check = |hosts: &[(&[&str], bool)], expected: SettingError| {
            let settings = hosts.iter().map(|(names, default)| HostSettings {
                names: names.iter().map(ToString::to_string).collect(),
                default: *default,
                ..HostSettings::new("/srv".into())
            });
            let error = Site::new(settings.collect()).unwrap_err();
            assert_eq!(error, SiteError { host: hosts.len().saturating_sub(1), fault: expected });
        };
        let twice = |name: &str| SettingError::HostNameTwice(name.into());
        check(&[(&["a"], false), (&["b", "A"], false)], twice("A"));
        check(&[(&["*.a"], false), (&["*.A"], false)], twice("*.A"));
        check(&[(&["a"], true), (&["b"], true)], SettingError::TwoDefaults);
        check(&[], SettingError::NoHost);
    }

    #[test]
    fn bad_settings_are_named() {
        let check = |change: &dyn Fn(&mut HostSettings), expected: SettingError| {
            let mut host = HostSettings::new("/srv".into());
            change(&mut host);
            assert_eq!(Site::new(vec![host]).unwrap_err().fault, expected);
        };
        let field = |name: &str, value: &str| HeaderRule {
            path: "**".into(),
            name: name.into(),
            value: value.into(),
            ..HeaderRule::default()
        };
        let redirect =
            |to: &str, status| RedirectSettings { from: "/a".into(), to: to.into(), status };
        use SettingError as E;
        check(&|h| h.names.push("a:80".into()), E::HostName("a:80".into()));
        check(&|h| h.index.push("../x".into()), E::Index("../x".into()));
        check(&|h| h.spa_fallback = Some("../x".into()), E::Page("../x".into()));
        check(&|h| h.spa_fallback = Some("/.x".into()), E::HiddenPage("/.x".into()));
        check(&|h| h.error_pages = [(404, "/a/../b".into())].into(), E::Page("/a/../b".into()));
        check(&|h| h.error_pages = [(421, "/b".into())].into(), E::PageStatus(421));
        check(&|h| h.headers.push(field("X:", "v")), E::FieldName("X:".into()));
        check(&|h| h.headers.push(field("Date", "v")), E::ReservedField("Date".into()));
        check(&|h| h.headers.push(field("X", "a\r\nb")), E::ControlByte("X".into()));
        check(
            &|h| h.cache_control.push(("**".into(), "a\nb".into())),
            E::ControlByte("Cache-Control".into()),
        );
        check(
            &|h| drop(h.mime_types.insert("x".into(), "a\nb".into())),
            E::MediaType("a\nb".into()),
        );
        check(&|h| h.redirects.push(redirect("/a b", 301)), E::Target("/a b".into()));
        check(&|h| h.redirects.push(redirect("/b", 200)), E::RedirectStatus(200));
        let mut host = HostSettings::new("/srv".into());
        host.cache_control.push(("[".into(), "v".into()));
        let fault = Site::new(vec![host]).unwrap_err().fault;
        assert!(matches!(&fault, E::Glob(error) if error.glob == "["), "{fault:?}");
    }

    /// What is known of an application, and what is out, is found by its number.
    #[test]
    fn an_application_keeps_its_number_and_no_other_gets_it() {
        let site = |ports: &[u16]| {
            let mut host = HostSettings::new("/srv".into());
            host.routes = ports.iter().map(|port| route_to(*port)).collect();
            Site::new(vec![host]).unwrap()
        };
        let numbers = |site: &Site| -> Vec<usize> {
            site.applications().iter().map(|application| application.number()).collect()
        };
        let follow = |ports: &[u16], former: &Site| {
            let mut next = site(ports);
            assert!(next.can_follow(former));
            next.follow(former);
            next
        };
        let first = site(&[1, 2]);
        let second = follow(&[3, 2], &first);
        let third = follow(&[1, 2, 4, 3], &second);
        assert_eq!([&first, &second, &third].map(numbers), [&[0, 1][..], &[2, 1], &[3, 1, 4, 2]]);
        assert!(second.has_application(&first.applications()[1]));
        assert!(!third.has_application(&first.applications()[0]), "it is another");
        let left = third.next_number..first.application_numbers_max();
        let last = left.fold(third, |last, number| follow(&[100 + number as u16], &last));
        assert_eq!(numbers(&last), [first.application_numbers_max() - 1]);
        assert!(!site(&[4]).can_follow(&last), "there is no number for it");
        assert!(site(&[100 + numbers(&last)[0] as u16]).can_follow(&last));
    }

    fn route_to(port: u16) -> RouteSettings {
        let address = upstream::Address::Tcp { host: "h".into(), port };
        let servers = vec![upstream::ServerSettings { address, weight: 1 }];
        let application = ApplicationSettings { servers, ..ApplicationSettings::default() };
        RouteSettings { path: "/**".into(), application, ..RouteSettings::default() }
    }

    /// Two hosts, each with its policy for links, whose requests one application answers.
    #[test]
    fn files_that_an_application_names_have_a_host_that_no_request_is_for() {
        let server =
            upstream::ServerSettings { address: upstream::Address::Unix("/app".into()), weight: 1 };
        let application = ApplicationSettings {
            servers: vec![server],
            sendfile_root: "/files".into(),
            ..ApplicationSettings::default()
        };
        let route = |path: &str| RouteSettings {
            path: path.into(),
            application: application.clone(),
            ..RouteSettings::default()
        };
        let host = |name: &str, symlinks| HostSettings {
            names: vec![name.into()],
            symlinks,
            listing: true,
            routes: vec![route("/a/**"), route("/b/**")],
            ..HostSettings::new("/srv".into())
        };
        let hosts = vec![host("a", Symlinks::Never), host("b", Symlinks::Anywhere)];
        let site = Site::new(hosts).unwrap();
        assert_eq!((site.hosts().len(), site.applications().len()), (2, 1));
        let roots = ["/srv", "/srv", "/files", "/files"].map(Path::new);
        assert!(site.roots().eq(roots));
        for (host, symlinks) in [(0, Symlinks::Never), (1, Symlinks::Anywhere)] {
            let files = site.named_files(host, 0).unwrap();
            let settings = site.host(files).settings();
            assert_eq!((settings.symlinks, settings.listing), (symlinks, false));
        }
        assert_eq!(site.named_files(0, 1), None);
        assert_eq!([None, Some(&b"c"[..]), Some(b"")].map(|name| site.find(name)), [None; 3]);
    }
}
