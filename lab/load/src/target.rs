//! Targets: URLs as typed, resolved to addresses and to the fields that every request carries.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::options::OptionsError;
use crate::plan::Target;

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The URL as typed.
    pub typed: String,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// The port; 80 if not typed.
    pub port: u16,
    /// Host and port as the Host field has them.
    pub authority: String,
    /// Path and query, from the slash on; empty if not typed.
    pub path: String,
}

impl Url {
    /// Reads `http://host[:port][/path]`; `http://` may be left out.
    ///
    /// # Errors
    /// One line: what is wrong with the URL.
    pub fn parse(typed: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{typed}: {why}; a URL is http://host[:port][/path]");
        let rest = match typed.split_once("://") {
            None => typed,
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(wrong("TLS is not supported")),
            Some(_) => return Err(wrong("the scheme is not http")),
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        let (path, _fragment) = path.split_once('#').unwrap_or((path, ""));
        let slash = if path.starts_with('?') { "/" } else { "" };
        if let Some(bad) = rest.chars().find(|c| c.is_control() || *c == ' ' || *c == '@') {
            return Err(wrong(&format!("{bad:?} cannot be in it")));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, port.ok_or_else(|| wrong("the port is not 1 to 65535"))?)
            }
            _ => (authority, 80),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(wrong("it names no host"));
        }
        if bare == host && host.contains(':') {
            return Err(wrong("an IPv6 address stands in brackets"));
        }
        Ok(Self {
            typed: typed.to_owned(),
            host: bare.to_owned(),
            port,
            authority: authority.to_owned(),
            path: format!("{slash}{path}"),
        })
    }

    /// Resolves the host. Of several addresses it takes the first that accepts a connection
    /// `within` this time, or the first of all if none does. `sources`: the addresses that
    /// connections come from.
    ///
    /// # Errors
    /// One line: the host has no address, or none that can be reached from one of the sources.
    pub fn address(
        &self,
        sources: &[IpAddr],
        within: Duration,
    ) -> Result<SocketAddr, OptionsError> {
        let addresses = (&*self.host, self.port).to_socket_addrs();
        let unresolved = |why: &str| OptionsError::System(format!("{}: {why}", self.typed));
        let all: Vec<SocketAddr> = addresses.map_err(|why| unresolved(&why.to_string()))?.collect();
        let first = *all.first().ok_or_else(|| unresolved("no address"))?;
        let fits = |address: &SocketAddr| {
            sources.iter().all(|source| source.is_ipv4() == address.is_ipv4())
        };
        let fitting: Vec<SocketAddr> = all.into_iter().filter(fits).collect();
        first_that_accepts(&fitting, within).ok_or_else(|| {
            let sources: Vec<_> = sources.iter().map(IpAddr::to_string).collect();
            let sources = sources.join(",");
            OptionsError::Typed(format!(
                "--source {sources}: {} is reached at {first}, of the other IP version",
                self.typed
            ))
        })
    }

    /// Builds the target with the fields that every request to `address` carries. `host`: a name
    /// instead of the URL's own; `fields`: further fields, `Name: value`.
    ///
    /// # Errors
    /// One line: which host or field is not allowed.
    pub fn target(
        &self,
        address: SocketAddr,
        host: Option<&str>,
        fields: &[String],
    ) -> Result<Target, String> {
        let typed_field = fields.iter().find(|field| is_named(field, "host"));
        if let (Some(host), Some(field)) = (host, typed_field) {
            return Err(format!("--host {host} and --header {field:?}: leave one out"));
        }
        let host = host.unwrap_or(&self.authority);
        if host.chars().any(|c| c.is_control() || c == ' ') {
            return Err(format!("--host {host:?}: this is no name of a host"));
        }
        let mut text = " HTTP/1.1\r\n".to_owned();
        if typed_field.is_none() {
            text += &format!("Host: {host}\r\n");
        }
        for field in fields {
            check_field(field)?;
            text += &format!("{field}\r\n");
        }
        Ok(Target { address, url: self.typed.clone(), fields: text.into_bytes() })
    }
}

/// If there are several addresses, the first that accepts a connection; else the first.
fn first_that_accepts(addresses: &[SocketAddr], within: Duration) -> Option<SocketAddr> {
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, within).is_ok();
    let accepting = (addresses.len() > 1).then(|| addresses.iter().find(accepts)).flatten();
    accepting.or(addresses.first()).copied()
}

fn is_named(field: &str, name: &str) -> bool {
    field.split_once(':').is_some_and(|(typed, _)| typed.trim().eq_ignore_ascii_case(name))
}

/// Refuses fields that would change where the request ends.
fn check_field(field: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("--header {field:?}: {why}"));
    let Some((name, value)) = field.split_once(':') else {
        return wrong("a header is 'Name: value'");
    };
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return wrong("this is no name of a header");
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return wrong("its value has a control character");
    }
    for framing in ["content-length", "transfer-encoding", "connection"] {
        if name.eq_ignore_ascii_case(framing) {
            return wrong("the generator sets it itself (see --connection)");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[track_caller]
    fn check(typed: &str, host: &str, port: u16, authority: &str, path: &str) {
        let url = Url::parse(typed).unwrap();
        assert_eq!(
            (&*url.host, url.port, &*url.authority, &*url.path),
            (host, port, authority, path)
        );
    }

    #[test]
    fn urls() {
        check("http://a.example:81/b?c", "a.example", 81, "a.example:81", "/b?c");
        check("a.example", "a.example", 80, "a.example", "");
        check("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1:8080", "");
        check("http://[::1]:8080/x#part", "::1", 8080, "[::1]:8080", "/x");
        check("http://[::1]/", "::1", 80, "[::1]", "/");
        check("http://a?b=c", "a", 80, "a", "/?b=c");
    }

    #[track_caller]
    fn check_error(typed: &str, part: &str) {
        let error = Url::parse(typed).unwrap_err();
        assert!(error.contains(part) && error.starts_with(typed), "{error}");
    }

    #[test]
    fn urls_that_are_none() {
        check_error("https://a/", "TLS");
        check_error("ftp://a/", "scheme");
        check_error("http://a:0/", "port");
        check_error("http://a:http/", "port");
        check_error("http://", "host");
        check_error("::1", "brackets");
        check_error("http://a/b c", "' '");
        check_error("http://user@a/", "'@'");
    }

    const SOON: Duration = Duration::from_secs(20);

    /// A name may have several addresses, as `localhost` often does, and no server may listen at
    /// the first.
    #[test]
    fn the_first_address_that_accepts_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let elsewhere = |ip: [u8; 4]| SocketAddr::from((ip, there.port()));
        let closed = [elsewhere([127, 0, 0, 2]), elsewhere([127, 0, 0, 3])];
        let of = |addresses: &[SocketAddr]| first_that_accepts(addresses, SOON);
        assert_eq!(of(&[closed[0], there, closed[1]]), Some(there));
        assert_eq!(of(&closed), Some(closed[0]), "the run counts its failures");
        assert_eq!((of(&[closed[1]]), of(&[])), (Some(closed[1]), None));
    }

    #[test]
    fn a_source_says_which_addresses_can_be_reached() {
        let url = Url::parse("127.0.0.1:81").unwrap();
        assert!(url.address(&["127.0.0.1".parse().unwrap()], SOON).is_ok());
        let why = url.address(&["::1".parse().unwrap()], SOON).unwrap_err().to_string();
        assert!(why.contains("--source ::1") && why.contains("other IP version"), "{why}");
    }

    #[test]
    fn fields_of_a_target() {
        let url = Url::parse("http://127.0.0.1:81/").unwrap();
        let address = url.address(&[], SOON).unwrap();
        let text = |host, fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            url.target(address, host, &fields)
                .map(|target| String::from_utf8(target.fields).unwrap())
        };
        assert_eq!(text(None, &[]).unwrap(), " HTTP/1.1\r\nHost: 127.0.0.1:81\r\n");
        let both = text(Some("b.example"), &["Accept: */*"]).unwrap();
        assert_eq!(both, " HTTP/1.1\r\nHost: b.example\r\nAccept: */*\r\n");
        assert_eq!(text(None, &["host: c"]).unwrap(), " HTTP/1.1\r\nhost: c\r\n");
        assert!(text(Some("b"), &["Host: c"]).unwrap_err().contains("leave one out"));
        for bad in ["x", ": y", "a b: c", "Content-Length: 3", "A: b\r\nC: d"] {
            assert!(text(None, &[bad]).unwrap_err().contains("--header"), "{bad}");
        }
    }
}
