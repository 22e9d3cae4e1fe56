//! What a script is told of its request: the variables of CGI (RFC 3875 §4.1), in the form of
//! FastCGI or as a program has them.

use http1::{BodyFraming, Head, Target, is_for_one_hop};

use crate::fields::{Named, is_forwarded};
use crate::origin::Origin;

/// A request to a script, beside its head.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRequest<'r> {
    /// Where the request comes from.
    pub origin: Origin<'r>,
    /// The port of the client.
    pub peer_port: u16,
    /// The directory that has the scripts, as the application sees it.
    pub root: &'r [u8],
    /// The path that names the script; empty for an application that is no script.
    pub script_name: &'r [u8],
    /// The rest of the path.
    pub path_info: &'r [u8],
    /// The length of a body that came in chunks, once it is known.
    pub body_bytes: Option<u64>,
    /// The target that the client has asked for, if another script has redirected its request.
    pub asked: Option<Target<'r>>,
}

/// Variables as they are written one after the other.
pub(crate) struct Variables {
    bytes: Vec<u8>,
    form: Form,
}

/// How a variable is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The lengths of name and value, and then both (FastCGI 1.0, section 3.4).
    Lengths,
    /// `NAME=value` and a NUL (environ(7)).
    Texts,
}

/// The variables of a request. Its script is `file`; without it, the one of its name below the
/// root.
pub(crate) fn environment(
    head: &Head<'_>,
    script: &ScriptRequest<'_>,
    file: Option<&[u8]>,
    form: Form,
) -> Vec<u8> {
    let mut out = Variables { bytes: Vec::with_capacity(head.len + 768), form };
    put_script(&mut out, script, file);
    put_request(&mut out, head, script);
    put_client(&mut out, head, script);
    put_fields(&mut out, head, script);
    out.bytes
}

/// Which script it is. The file's name never has the rest of the path in it (caddy 2158), which is
/// there only if it is not empty.
fn put_script(out: &mut Variables, script: &ScriptRequest<'_>, file: Option<&[u8]>) {
    let root = script.root.strip_suffix(b"/").unwrap_or(script.root);
    out.put(b"DOCUMENT_ROOT", script.root);
    out.put(b"SCRIPT_NAME", script.script_name);
    match file {
        Some(file) => out.put(b"SCRIPT_FILENAME", file),
        None if script.script_name.is_empty() => {}
        None => out.put_two(b"SCRIPT_FILENAME", root, script.script_name),
    }
    if !script.path_info.is_empty() {
        out.put(b"PATH_INFO", script.path_info);
        out.put_two(b"PATH_TRANSLATED", root, script.path_info);
    }
    out.put(b"GATEWAY_INTERFACE", b"CGI/1.1");
    out.put(b"SERVER_SOFTWARE", b"ropewalk");
    // php-cgi refuses to run without it, so that it is not called as a file of the site.
    out.put(b"REDIRECT_STATUS", b"200");
}

fn put_request(out: &mut Variables, head: &Head<'_>, script: &ScriptRequest<'_>) {
    out.put(b"REQUEST_METHOD", head.method_bytes);
    out.put(b"SERVER_PROTOCOL", head.version.as_str().as_bytes());
    // The target as it was sent, byte by byte; of an absolute one, what follows the authority.
    match parts(script.asked.unwrap_or(head.target)) {
        (path, Some(query)) => out.put_two(b"REQUEST_URI", path, &[b"?", query].concat()),
        (path, None) => out.put(b"REQUEST_URI", path),
    }
    out.put(b"QUERY_STRING", parts(head.target).1.unwrap_or_default());
    let length = match head.body {
        BodyFraming::None => None,
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => script.body_bytes,
    };
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    out.put(b"CONTENT_LENGTH", length.as_bytes());
    let is_type = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"content-type");
    let content_type = head.lines().find(is_type).map(|(_, value)| value);
    out.put(b"CONTENT_TYPE", content_type.unwrap_or_default());
    let (name, port) = server(head.host.unwrap_or(script.origin.authority.as_bytes()));
    out.put(b"SERVER_NAME", name);
    out.put(b"SERVER_PORT", port);
}

/// The path and the query of a target.
fn parts(target: Target<'_>) -> (&[u8], Option<&[u8]>) {
    match target {
        Target::Path { path, query } => (path, query),
        Target::Asterisk | Target::Authority => (b"*", None),
    }
}

/// The name and the port that a client has asked for; the port of HTTP if it has named none.
fn server(host: &[u8]) -> (&[u8], &[u8]) {
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' && at + 1 < host.len() => (&host[..at], &host[at + 1..]),
        Some(at) if host[at] == b':' => (&host[..at], b"80"),
        _ => (host, b"80"),
    }
}

/// The client: of a trusted proxy, the one that it names last.
fn put_client(out: &mut Variables, head: &Head<'_>, script: &ScriptRequest<'_>) {
    let Origin { peer, .. } = script.origin;
    let told = script.origin.told_client(head);
    let client = told.unwrap_or(peer.to_canonical());
    out.put(b"REMOTE_ADDR", client.to_string().as_bytes());
    if told.is_none() {
        out.put(b"REMOTE_PORT", script.peer_port.to_string().as_bytes());
    }
    let scheme = script.origin.told(head, b"x-forwarded-proto");
    let is_secure = scheme.is_some_and(|it| it.eq_ignore_ascii_case(b"https"));
    out.put(b"REQUEST_SCHEME", if is_secure { b"https" } else { b"http" });
    if is_secure {
        out.put(b"HTTPS", b"on");
    }
}

/// The fields, as `HTTP_*`. Lines of one name are joined.
fn put_fields(out: &mut Variables, head: &Head<'_>, script: &ScriptRequest<'_>) {
    out.put(b"HTTP_HOST", head.host.unwrap_or(script.origin.authority.as_bytes()));
    let named = Named::new(&head.lines(), head.names_fields);
    let mut joined = Vec::new();
    for (index, (name, value)) in head.lines().enumerate() {
        let is_same = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name);
        let is_first = !head.lines().take(index).any(|line| is_same(&line));
        if !is_first || !is_told(name, script.origin.is_trusted) || named.contains(name) {
            continue;
        }
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        joined.clear();
        joined.extend_from_slice(value);
        for (_, more) in head.lines().skip(index + 1).filter(is_same) {
            joined.extend_from_slice(separator);
            joined.extend_from_slice(more);
        }
        out.put(&variable(name), &joined);
    }
}

/// Whether a script is told of a field. `Proxy` would become the variable HTTP_PROXY, by which many
/// libraries choose where they connect (CVE-2016-5385); names with `_` and other bytes would become
/// the variables of other fields; type and length of the body have variables of their own.
fn is_told(name: &[u8], is_trusted: bool) -> bool {
    const ELSEWHERE: [&[u8]; 3] = [b"host", b"proxy", b"content-type"];
    let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let is_elsewhere = ELSEWHERE.iter().any(|other| name.eq_ignore_ascii_case(other));
    let is_doubtful = is_forwarded(name) && !is_trusted;
    is_plain && !is_elsewhere && !is_doubtful && !is_for_one_hop(name)
}

/// The variable of a field.
fn variable(name: &[u8]) -> Vec<u8> {
    let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    b"HTTP_".iter().copied().chain(name.iter().map(letter)).collect()
}

impl Variables {
    fn put(&mut self, name: &[u8], value: &[u8]) {
        self.put_two(name, value, b"");
    }

    /// Writes a variable whose value is in two parts.
    fn put_two(&mut self, name: &[u8], value: &[u8], more: &[u8]) {
        let (start, end): (&[u8], &[u8]) = match self.form {
            Form::Texts => (b"=", b"\0"),
            Form::Lengths => {
                self.put_length(name.len());
                self.put_length(value.len() + more.len());
                (b"", b"")
            }
        };
        for part in [name, start, value, more, end] {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Writes a length: in a byte, or in four with the highest bit set.
    fn put_length(&mut self, length: usize) {
        match u8::try_from(length) {
            Ok(short @ ..128) => self.bytes.push(short),
            // A head has at most a megabyte.
            _ => self.bytes.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes()),
        }
    }
}
