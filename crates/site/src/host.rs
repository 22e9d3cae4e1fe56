//! Hosts: what each virtual host serves and by which rules, and which host a request means.
//!
//! [`HostSettings`] is what an operator wrote; [`Site`] is the same made ready: globs compiled,
//! names in a table. Nothing here opens a file.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use crate::mime::Overrides;
use crate::negotiate::Coding;
use crate::rules::{GlobError, PathGlobs, default_cache_control};

/// The settings of one virtual host, as an operator writes them.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Host names: exact (`example.com`) or wildcard (`*.example.com`), without a port.
    pub names: Vec<String>,
    /// Whether this host answers for names that no host claims. The first host does if none says so
    /// and no host has names.
    pub default: bool,
    /// The directory that is served.
    pub root: PathBuf,
    /// File names tried, in order, for a path that ends in a slash.
    pub index: Vec<String>,
    /// Whether `/page` also finds `page.html`.
    pub html_suffix: bool,
    /// The page that answers navigations to paths that do not exist (single-page applications).
    pub spa_fallback: Option<String>,
    /// Pages for error statuses, as paths below the root.
    pub error_pages: BTreeMap<u16, String>,
    /// Whether a directory without an index file is listed.
    pub listing: bool,
    /// What happens to names that begin with a dot.
    pub dotfiles: Dotfiles,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Codings whose precompressed siblings (`file.br`) are looked for.
    pub precompressed: Vec<Coding>,
    /// `Cache-Control` by glob; the first match wins, the built-in rules come last.
    pub cache_control: Vec<(String, String)>,
    /// Extra response fields by glob: (glob, name, value). All matches are sent.
    pub headers: Vec<(String, String, String)>,
    /// Redirects by glob; the first match wins.
    pub redirects: Vec<RedirectSettings>,
    /// Media types by file name extension, ahead of the built-in table.
    pub mime_types: BTreeMap<String, String>,
    /// Files with a modification time of 0 or 1 s get an entity tag from their content up to this
    /// size.
    pub etag_hash_bytes_max: u64,
}

/// One redirect rule.
#[derive(Clone, Debug)]
pub struct RedirectSettings {
    /// A glob over canonical paths.
    pub from: String,
    /// The `Location`: a path or a URL. The request's query is appended if it has none of its own.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// The policy for path segments that begin with a dot (`/.well-known/` is always served: RFC 8615).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dotfiles {
    /// As if they did not exist.
    Deny,
    /// Like any other file.
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
    /// The settings of a host that serves `root` and says nothing else.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self {
            names: Vec::new(),
            default: false,
            root,
            index: vec!["index.html".into()],
            html_suffix: false,
            spa_fallback: None,
            error_pages: BTreeMap::new(),
            listing: false,
            dotfiles: Dotfiles::Deny,
            symlinks: Symlinks::Beneath,
            precompressed: vec![Coding::Brotli, Coding::Zstd, Coding::Gzip],
            cache_control: Vec::new(),
            headers: Vec::new(),
            redirects: Vec::new(),
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
    pub(crate) headers: PathGlobs<(String, String)>,
    pub(crate) redirects: PathGlobs<(String, u16)>,
    pub(crate) mime_types: Overrides,
}

impl Host {
    fn new(settings: HostSettings) -> Result<Self, String> {
        for page in settings.spa_fallback.iter().chain(settings.error_pages.values()) {
            check_page(page)?;
        }
        for (_, name, value) in &settings.headers {
            check_field(name, value)?;
        }
        for value in settings.cache_control.iter().map(|(_, value)| value) {
            check_value("Cache-Control", value)?;
        }
        for (extension, media_type) in &settings.mime_types {
            check_value(extension, media_type)?;
        }
        settings.redirects.iter().try_for_each(check_redirect)?;
        let cache = settings.cache_control.iter().cloned();
        let headers = settings.headers.iter().map(|(g, n, v)| (g.clone(), (n.clone(), v.clone())));
        let redirects =
            settings.redirects.iter().map(|r| (r.from.clone(), (r.to.clone(), r.status)));
        let text = |error: GlobError| error.to_string();
        Ok(Self {
            cache_control: PathGlobs::new(cache).map_err(text)?,
            headers: PathGlobs::new(headers).map_err(text)?,
            redirects: PathGlobs::new(redirects).map_err(text)?,
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

    /// The page configured for an error status.
    #[must_use]
    pub fn error_page(&self, status: u16) -> Option<&[u8]> {
        self.settings.error_pages.get(&status).map(String::as_bytes)
    }

    /// The page that answers navigations to paths that do not exist.
    #[must_use]
    pub fn spa_fallback(&self) -> Option<&[u8]> {
        self.settings.spa_fallback.as_deref().map(str::as_bytes)
    }
}

/// All virtual hosts of a server.
#[derive(Debug)]
pub struct Site {
    hosts: Vec<Host>,
    exact: HashMap<Vec<u8>, usize>,
    /// Suffixes with their leading dot, longest first.
    wildcards: Vec<(Vec<u8>, usize)>,
    default: Option<usize>,
}

impl Site {
    /// Makes `settings` ready. The error is one line that names the host and the setting.
    ///
    /// # Errors
    /// A bad glob, page, field or redirect; a name claimed twice; two defaults; no host at all.
    pub fn new(settings: Vec<HostSettings>) -> Result<Self, String> {
        let mut site = Self {
            hosts: Vec::with_capacity(settings.len()),
            exact: HashMap::new(),
            wildcards: Vec::new(),
            default: None,
        };
        if settings.is_empty() {
            return Err("no host is configured: name a directory to serve".into());
        }
        for (index, host) in settings.into_iter().enumerate() {
            site.add(index, host)?;
        }
        if site.default.is_none() && site.hosts[0].settings.names.is_empty() {
            site.default = Some(0);
        }
        site.wildcards.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
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
        &self.hosts[index]
    }

    /// All hosts in the order of the configuration.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
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

    fn add(&mut self, index: usize, settings: HostSettings) -> Result<(), String> {
        for name in &settings.names {
            let lower = name.to_ascii_lowercase().into_bytes();
            if let Some(suffix) = lower.strip_prefix(b"*") {
                self.wildcards.push((suffix.to_vec(), index));
            } else if self.exact.insert(lower, index).is_some() {
                return Err(format!("host name {name:?} is claimed twice: remove one"));
            }
        }
        if settings.default && self.default.replace(index).is_some() {
            return Err("two hosts have `default = true`: keep one".into());
        }
        self.hosts.push(Host::new(settings)?);
        Ok(())
    }
}

/// Cuts `:port` off; a colon inside an IPv6 literal's brackets is not one.
fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|&b| b == b':' || b == b']') {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}

/// A page is a canonical path below the root.
fn check_page(page: &str) -> Result<(), String> {
    let mut scratch = Vec::new();
    let canonical = crate::path::canonicalise(page.as_bytes(), &mut scratch);
    if canonical.is_ok_and(|path| path == page.as_bytes()) && !page.ends_with('/') {
        return Ok(());
    }
    Err(format!("{page:?} is not a page below the root: write it like \"/404.html\""))
}

/// A configured field must not be able to break a response apart (RFC 9112 §11.1).
fn check_field(name: &str, value: &str) -> Result<(), String> {
    const FRAMING: [&str; 5] =
        ["content-length", "transfer-encoding", "connection", "date", "content-range"];
    let name_fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(name_fits) {
        return Err(format!("{name:?} is not a field name"));
    }
    if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("field {name:?} belongs to the server: it cannot be set"));
    }
    check_value(name, value)
}

fn check_value(name: &str, value: &str) -> Result<(), String> {
    if value.bytes().any(|b| b.is_ascii_control()) {
        return Err(format!("the value of {name:?} has a control character"));
    }
    Ok(())
}

/// A target goes into `Location` as it is, so it must be a URI reference (RFC 3986 §4.1).
fn check_redirect(redirect: &RedirectSettings) -> Result<(), String> {
    const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
    let (to, status) = (&redirect.to, redirect.status);
    if to.is_empty() || !to.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("redirect target {to:?} is not a URL: percent-encode it"));
    }
    if !STATUSES.contains(&status) {
        return Err(format!("{status} is not a redirect: use one of {STATUSES:?}"));
    }
    Ok(())
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
    fn bad_settings_are_named() {
        let check = |change: &dyn Fn(&mut HostSettings), expected: &str| {
            let mut host = HostSettings::new("/srv".into());
            change(&mut host);
            let error = Site::new(vec![host]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(&|h| h.spa_fallback = Some("../x".into()), "../x");
        check(&|h| h.error_pages = [(404, "/a/../b".into())].into(), "/a/../b");
        check(&|h| h.headers.push(("**".into(), "X:".into(), "v".into())), "X:");
        check(&|h| h.headers.push(("**".into(), "Date".into(), "v".into())), "Date");
        check(&|h| h.headers.push(("**".into(), "X".into(), "a\r\nb".into())), "control");
        check(&|h| h.cache_control.push(("[".into(), "v".into())), "[");
        check(&|h| h.cache_control.push(("**".into(), "a\nb".into())), "control");
        check(&|h| drop(h.mime_types.insert("x".into(), "a\nb".into())), "control");
        let redirect =
            |to: &str, status| RedirectSettings { from: "/a".into(), to: to.into(), status };
        check(&|h| h.redirects.push(redirect("/a b", 301)), "percent-encode");
        check(&|h| h.redirects.push(redirect("/b", 200)), "200 is not a redirect");
    }
}
