//! Checks of the settings of a host, value by value: everything that can be checked without looking
//! at any file, and without knowing where the value was written.

use crate::path;
use crate::rules::GlobError;

/// Why a setting of a host is refused. It is shown as one line that says what is wrong and what
/// would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no host at all.
    #[error("no host is configured: name a directory to serve")]
    NoHost,
    /// A host name that no client could request, or text that is more than a name.
    #[error(
        "{0:?} is no host name: write it like \"example.com\" or \"*.example.com\", without \
         scheme, port or path"
    )]
    HostName(String),
    /// A name that two hosts claim.
    #[error("host name {0:?} is claimed twice: remove one")]
    HostNameTwice(String),
    /// Two hosts are the default for names that no host claims.
    #[error("two hosts have `default = true`: keep one")]
    TwoDefaults,
    /// A path that names no file in a directory.
    #[error("{0:?} is no file in a directory: write it like \"index.html\"")]
    Index(String),
    /// The path is no page below the root.
    #[error("{0:?} is not a page below the root: write it like \"/404.html\"")]
    Page(String),
    /// The page is hidden by `dotfiles = "deny"`.
    #[error("{0:?} is hidden, as all names that begin with a dot: give the page another name")]
    HiddenPage(String),
    /// A page that a route leads to an application as a script.
    #[error("{0:?} is a script: front_controller has a script answer for what does not exist")]
    ScriptPage(String),
    /// A script that no route leads to an application.
    #[error("{0:?} is no script: a route with `fastcgi` must match it, whatever the method")]
    NoScript(String),
    /// The path of a route to programs is not that of a directory.
    #[error("{0:?} with cgi: write the directory of the programs and /**, like \"/cgi-bin/**\"")]
    ProgramPath(String),
    /// The end of the names of scripts would have a slash.
    #[error("{0:?} is not the end of a name: write it like \".php\"")]
    Suffix(String),
    /// No answer with this status can have a page.
    #[error("{}", show_page_status(*.0))]
    PageStatus(u16),
    /// A glob that cannot be compiled.
    #[error(transparent)]
    Glob(GlobError),
    /// The text is not the name of a field (RFC 9110 §5.1).
    #[error("{0:?} is not a field name")]
    FieldName(String),
    /// The field frames the message or says which bytes it carries: only the server may set it.
    #[error("field {0:?} belongs to the server: it cannot be set")]
    ReservedField(String),
    /// The value of this field has a control byte, which could split the message.
    #[error("{0:?} has a control character: leave it out")]
    ControlByte(String),
    /// The value of this field has more than [`FIELD_BYTES_MAX`] bytes.
    #[error("{0:?} has more than {FIELD_BYTES_MAX} bytes: shorten it")]
    LongValue(String),
    /// The text is not a media type (RFC 9110 §8.3.1).
    #[error("{0:?} is not a media type: write it like \"text/markdown\"")]
    MediaType(String),
    /// The text is not the method of a request that an application may get.
    #[error("{0:?} is not a method that an application can get: write it like \"POST\"")]
    Method(String),
    /// A redirect to a text that is no URI reference.
    #[error("redirect target {0:?} is not a URL: percent-encode it")]
    Target(String),
    /// A redirect to a target with a group, which a glob does not have.
    #[error(
        "redirect target {0:?} would be sent as it stands, for globs have no groups: write a \
         redirect for each path (a dollar sign is %24)"
    )]
    TargetWithGroup(String),
    /// A redirect with a status that is none of a redirect.
    #[error("{} is not a redirect: use one of {}", .0, show_statuses(&REDIRECT_STATUSES))]
    RedirectStatus(u16),
}

/// The longest value of a field. Browsers accept a head of 256 KiB, but proxies only one that fits
/// their buffers.
pub const FIELD_BYTES_MAX: usize = 16 * 1024;

/// The error statuses that this server sends after it has found the host: only those can have a
/// page.
pub const PAGE_STATUSES: [u16; 17] =
    [400, 403, 404, 405, 406, 408, 412, 413, 414, 416, 417, 431, 501, 502, 503, 504, 505];

/// The statuses of a redirect.
pub const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// Fields that only the server sets. Most frame the message or belong to the connection (RFC 9112
/// §6, §9; RFC 9110 §7.6.1). By `ETag` and `Last-Modified` clients tell whether their copy is
/// current, and put parts of a file together: with a constant they would take other bytes for the
/// same. The target of a redirect is set by its own rule.
const RESERVED: [&str; 13] = [
    "Connection",
    "Content-Length",
    "Content-Range",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

type Checked = Result<(), SettingError>;

/// Checks a host name, exact or with `*.` before it, as it is in the `Host` field (RFC 9110 §7.2),
/// but without a port. An IPv6 address is in brackets.
///
/// # Errors
/// The text is no host name.
pub fn host_name(name: &str) -> Checked {
    let host = name.strip_prefix("*.").unwrap_or(name);
    let is_address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_valid = match is_address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok() && host == name,
        None => host.split('.').all(is_label),
    };
    if is_valid { Ok(()) } else { Err(SettingError::HostName(name.into())) }
}

/// Whether a label consists of letters, digits, hyphens and underscores; RFC 1123 §2.1 does not
/// allow underscores, but such names exist.
fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= 63 && label.bytes().all(fits)
}

/// Checks an index: a file in the requested directory, or below it.
///
/// # Errors
/// The name is no such path.
pub fn index(name: &str) -> Checked {
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..");
    let is_valid = name.split('/').all(is_segment) && !has_control(name);
    if is_valid { Ok(()) } else { Err(SettingError::Index(name.into())) }
}

/// Checks the end of the names of scripts; none is allowed.
///
/// # Errors
/// No name can end so.
pub fn suffix(suffix: &str) -> Checked {
    let is_valid = !suffix.contains('/') && !has_control(suffix);
    if is_valid { Ok(()) } else { Err(SettingError::Suffix(suffix.into())) }
}

/// The directory, with a slash at its end, of a route to programs.
///
/// # Errors
/// The glob is not that of all paths in one directory.
pub fn program_path(glob: &str) -> Result<&str, SettingError> {
    let directory = glob.strip_suffix("**").filter(|it| it.starts_with('/') && it.ends_with('/'));
    let is_plain = |it: &&str| !it.contains(['*', '?', '[', '{', '\\']);
    directory.filter(is_plain).ok_or_else(|| SettingError::ProgramPath(glob.into()))
}

/// Checks a page: a canonical path of a file below the root.
///
/// # Errors
/// The path is no such path.
pub fn page(page: &str) -> Checked {
    let segments = page.strip_prefix('/').ok_or_else(|| SettingError::Page(page.into()))?;
    index(segments).map_err(|_| SettingError::Page(page.into()))
}

/// Checks that a page may be shown although names that begin with a dot are hidden.
///
/// # Errors
/// The page is hidden.
pub fn visible_page(name: &str) -> Checked {
    match path::is_hidden(name.as_bytes()) {
        true => Err(SettingError::HiddenPage(name.into())),
        false => Ok(()),
    }
}

/// Checks a status whose answer can have a page of the host's own.
///
/// # Errors
/// Its answer can have no page.
pub fn page_status(status: u16) -> Checked {
    match PAGE_STATUSES.contains(&status) {
        true => Ok(()),
        false => Err(SettingError::PageStatus(status)),
    }
}

/// Checks the name of a field that is not reserved for the server.
///
/// # Errors
/// The text is no field name, or the field is reserved.
pub fn field_name(name: &str) -> Checked {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(SettingError::FieldName(name.into()));
    }
    match RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        true => Err(SettingError::ReservedField(name.into())),
        false => Ok(()),
    }
}

/// Checks the value of a field; `name` is for the error.
///
/// # Errors
/// The value contains a control byte, or is too long.
pub fn field_value(name: &str, value: &str) -> Checked {
    match () {
        () if has_control(value) => Err(SettingError::ControlByte(name.into())),
        () if value.len() > FIELD_BYTES_MAX => Err(SettingError::LongValue(name.into())),
        () => Ok(()),
    }
}

/// Checks a media type.
///
/// # Errors
/// The text is no media type.
pub fn media_type(text: &str) -> Checked {
    let is_valid =
        text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
    match is_valid && !has_control(text) && text.len() <= FIELD_BYTES_MAX {
        true => Ok(()),
        false => Err(SettingError::MediaType(text.into())),
    }
}

/// Checks the target of a redirect. It is put into `Location` unchanged, so it must be a URI
/// reference (RFC 3986 §4.1).
///
/// # Errors
/// The text is no URI reference, or contains a group, as redirect targets of other servers do.
pub fn redirect_target(to: &str) -> Checked {
    if to.is_empty() || !to.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(SettingError::Target(to.into()));
    }
    let is_group = |pair: &[u8]| pair[0] == b'$' && (pair[1].is_ascii_digit() || pair[1] == b'{');
    if to.as_bytes().windows(2).any(is_group) {
        return Err(SettingError::TargetWithGroup(to.into()));
    }
    field_value("Location", to)
}

/// Checks the status of a redirect.
///
/// # Errors
/// The status is none of a redirect.
pub fn redirect_status(status: u16) -> Checked {
    match REDIRECT_STATUSES.contains(&status) {
        true => Ok(()),
        false => Err(SettingError::RedirectStatus(status)),
    }
}

/// Checks the method of a request (RFC 9110 §9.1).
///
/// # Errors
/// The text is no method, or one that no application can get.
pub fn method(name: &str) -> Checked {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_method = !name.is_empty() && name.bytes().all(is_token);
    match is_method && !matches!(name, "CONNECT" | "TRACE") {
        true => Ok(()),
        false => Err(SettingError::Method(name.into())),
    }
}

/// Checks a glob over paths.
///
/// # Errors
/// The glob cannot be compiled.
pub fn glob(glob: &str) -> Checked {
    let compiled = crate::rules::PathGlobs::new([(glob, ())]);
    compiled.map(drop).map_err(SettingError::Glob)
}

fn has_control(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_control())
}

/// Says why a status can have no page: 421 is sent, but where no host is known.
fn show_page_status(status: u16) -> String {
    match status {
        421 => "421 is the answer where no host is meant, so that none has a page for it: make a \
                host the default"
            .into(),
        _ => format!(
            "{status} is never sent by this server: pages are for {}",
            show_statuses(&PAGE_STATUSES)
        ),
    }
}

fn show_statuses(statuses: &[u16]) -> String {
    statuses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the good texts are accepted and the bad ones refused.
    fn check(check: fn(&str) -> Checked, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(check(text), Ok(()), "{text:?}");
        }
        for text in bad {
            let error = check(text).expect_err(text).to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    #[test]
    fn host_names() {
        let good = ["example.com", "*.Example.com", "a", "my_host", "127.0.0.1", "[::1]", "a-b.c"];
        let bad = [
            "",
            "*",
            "*.",
            "*a.b",
            "a.*.b",
            "*.*.a",
            "a..b",
            "a.",
            "exa mple.com:80",
            "http://a",
            "a:80",
            "a/b",
            "[::1]:80",
            "[x]",
            "*.[::1]",
            "grüße.de",
            "a,b",
            "a\r\nb",
        ];
        check(host_name, &good, &bad);
    }

    #[test]
    fn files() {
        let good = ["index.html", "a/b", "100%.html", ".index"];
        check(index, &good, &["", "../x", "/x", "a/", "a//b", ".", "a/./b", "a\nb"]);
        check(
            page,
            &["/404.html", "/a/b c.html"],
            &["", "/", "x", "../x", "/a/../b", "/a/", "//a"],
        );
        assert!(visible_page("/.env").is_err() && visible_page("/.well-known/a").is_ok());
    }

    #[test]
    fn fields() {
        let bad = ["", "X:", "X Y", "é", "Date", "content-length", "TRAILER", "etag", "Upgrade"];
        let framing = ["Connection", "Keep-Alive", "Proxy-Connection", "TE", "Transfer-Encoding"];
        check(field_name, &[], &framing);
        check(field_name, &[], &["Content-Range", "Last-Modified", "Location"]);
        check(field_name, &["X-A", "Vary", "Cache-Control", "Set-Cookie"], &bad);
        let value = |value: &str| field_value("X", value);
        let (longest, longer) = ("v".repeat(FIELD_BYTES_MAX), "v".repeat(FIELD_BYTES_MAX + 1));
        check(value, &["", "a b", "é", &longest], &["a\r\nb", "a\0", "\u{7f}", &longer]);
        check(media_type, &["text/html", "x/y; a=b"], &["", "x", "/", "a/", "a/b\r\n"]);
    }

    #[test]
    fn redirects() {
        let bad = ["", "/a b", "/é", "/news/$1", "${a}", "/a\r\nb"];
        check(redirect_target, &["/a", "https://example.org/?a#b", "/$", "/$a"], &bad);
        assert!(redirect_status(308).is_ok() && redirect_status(200).is_err());
    }

    #[test]
    fn statuses_with_a_page() {
        assert!(PAGE_STATUSES.iter().all(|status| page_status(*status).is_ok()));
        for status in [200, 402, 421, 500, 507] {
            let error = page_status(status).expect_err("no page can be for it").to_string();
            assert!(error.starts_with(&status.to_string()), "{error}");
        }
    }
}
