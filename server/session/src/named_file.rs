//! Files that an application names in place of content, in `X-Sendfile` or `X-Accel-Redirect`:
//! which one, and what is the application's of the answer, which `named_file_answer.rs` makes.

use std::sync::Arc;

use http1::is_name;
use site::{Site, path};
use upstream::{Application, ReplyFields};

/// Where the files are that an application may name.
pub(crate) struct FileSource {
    application: Arc<Application>,
    /// The host of the files.
    host: usize,
}

impl FileSource {
    /// The files that the application at this place may name when it answers a request for a host,
    /// if it may.
    pub(crate) fn new(site: &Site, host: usize, place: usize) -> Option<Self> {
        let files = site.named_files(host, place)?;
        Some(Self { application: Arc::clone(&site.applications()[place]), host: files })
    }
}

/// A file that an application has named.
pub(crate) struct NamedFile {
    application: Arc<Application>,
    /// The host of the file.
    pub(crate) host: usize,
    /// The name as the application has written it.
    name: Box<[u8]>,
    /// The canonical path below the directory, or why there is none.
    pub(crate) path: Result<Box<[u8]>, &'static str>,
    /// The lines of fields that are the application's.
    pub(crate) fields: Vec<u8>,
}

impl NamedFile {
    /// The file that the fields of a reply name, if they do.
    pub(crate) fn new(source: &FileSource, fields: &ReplyFields<'_>) -> Option<Self> {
        let value = |known| fields.clone().find(|(name, _)| is_name(name, known));
        let root = source.application.settings().sendfile_root.as_bytes();
        let (name, path) = match value(b"x-sendfile") {
            Some((_, name)) => (name, path_below(root, name)),
            None => {
                let (_, name) = value(b"x-accel-redirect")?;
                let path = path::canonicalise(name, &mut Vec::new()).map(Into::into);
                (name, path.map_err(path::PathError::reason))
            }
        };
        let mut kept = Vec::new();
        for (name, value) in fields.clone().filter(|(name, _)| is_kept(name)) {
            for part in [name, b": ", value, b"\r\n"] {
                kept.extend_from_slice(part);
            }
        }
        Some(Self {
            application: Arc::clone(&source.application),
            host: source.host,
            name: name.into(),
            path,
            fields: kept,
        })
    }

    /// Reports that it is not sent in answer to a request with this target.
    pub(crate) fn report(&self, target: &[u8], why: &str) {
        self.application.report_named_file(target, &self.name, why);
    }
}

/// The canonical path below a directory of a path from `/` on. Of the bytes that are encoded in
/// targets of requests, programs write some as they are in the names of files.
fn path_below(root: &[u8], name: &[u8]) -> Result<Box<[u8]>, &'static str> {
    let mut encoded = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b' ' => encoded.extend_from_slice(b"%20"),
            b'#' => encoded.extend_from_slice(b"%23"),
            b'?' => encoded.extend_from_slice(b"%3F"),
            b'\\' => encoded.extend_from_slice(b"%5C"),
            byte => encoded.push(*byte),
        }
    }
    let mut scratch = Vec::new();
    let path = path::canonicalise(&encoded, &mut scratch).map_err(path::PathError::reason)?;
    let below = path.strip_prefix(root).filter(|below| below.starts_with(b"/"));
    below.map(Into::into).ok_or("path is not below sendfile_root")
}

/// The fields in which the application says what the file is and who may keep it.
const KEPT: [&[u8]; 5] =
    [b"content-type", b"content-disposition", b"cache-control", b"expires", b"set-cookie"];

fn is_kept(name: &[u8]) -> bool {
    KEPT.iter().any(|known| is_name(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_lies_below_the_directory() {
        let below = |name: &str| path_below(b"/srv/a", name.as_bytes());
        for (name, expected) in [
            ("/srv/a/b", "/b"),
            ("/srv//a/./b/../c/", "/c/"),
            ("/srv/x/../a/b", "/b"),
            ("/srv/a/b c?d#e\\f", "/b c?d#e\\f"),
            ("/srv/a/%62%25", "/b%"),
            ("/srv/a/%252e%252e/b", "/%2e%2e/b"),
            ("/srv/a/\u{e9}", "/\u{e9}"),
        ] {
            assert_eq!(below(name).as_deref(), Ok(expected.as_bytes()), "{name}");
        }
        for name in [
            "",
            "b",
            "/",
            "/srv",
            "/srv/a",
            "/srv/ab/c",
            "/srv/a/../b",
            "/srv/a/%2e%2e/b",
            "/srv/a%2fb",
            "/srv/a/..%2fb",
            "/../srv/a/b",
            "/srv/a/%",
            "/srv/a/%00",
            "/srv/a/\t",
            "srv/a/b",
            "/SRV/a/b",
        ] {
            assert!(below(name).is_err(), "{name}");
        }
    }
}
