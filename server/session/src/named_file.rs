//! Files that an application names in place of content, in `X-Sendfile` or `X-Accel-Redirect`: they
//! are answered as any file is, with ranges and conditions, below a directory of their own.

use std::sync::Arc;

use file_cache::Hit;
use http1::{Method, is_name};
use site::answer::{Answer, answer};
use site::fields::{Content, FieldList};
use site::path;
use site::resource::{Entry, Resource};
use upstream::{Application, ReplyFields};

use crate::exchange::Purpose;
use crate::job::{Done, Job};
use crate::response::{Prepared, Request, Response, path_for_rules};
use crate::worker::Worker;

/// Where the files are that an application may name.
pub(crate) struct FileSource {
    application: Arc<Application>,
    /// The host of the files.
    host: usize,
}

impl FileSource {
    /// The files that an application may name when it answers a request for a host, if it may.
    pub(crate) fn of(w: &Worker, host: usize, application: &Arc<Application>) -> Option<Self> {
        let files = w.site.named_files(host, application.number())?;
        Some(Self { application: Arc::clone(application), host: files })
    }
}

/// A file that an application has named.
pub(crate) struct NamedFile {
    application: Arc<Application>,
    /// The host of the file.
    host: usize,
    /// The name as the application has written it.
    name: Box<[u8]>,
    /// The canonical path below the directory, or why there is none.
    path: Result<Box<[u8]>, &'static str>,
    /// The lines of fields that are the application's.
    fields: Vec<u8>,
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

    fn report(&self, request: Request<'_>, why: &str) {
        self.application.report_named_file(request.head.target_bytes, &self.name, why);
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

impl Response<'_> {
    /// Answers with the file that the application has named whose call is over.
    #[cold]
    pub(crate) fn send_named_file(&mut self, w: &mut Worker, named: Box<NamedFile>) -> Prepared {
        self.with_request(w, |response, w, request| response.look_up_named_file(w, request, named))
    }

    fn look_up_named_file(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        named: Box<NamedFile>,
    ) -> Prepared {
        let path = match &named.path {
            Ok(path) => path.clone(),
            Err(why) => {
                named.report(request, why);
                return self.error(w, request, 403);
            }
        };
        let (host, now) = (named.host, w.now());
        match w.cache.get(host, &path, now).fresh() {
            Ok(hit) => {
                w.counters.cache_hits.add(1);
                self.named_file_found(w, request, &named, &hit)
            }
            Err(known) => {
                self.exchange.purpose = Purpose::NamedFile;
                self.exchange.named_file = Some(named);
                self.prepare_job(w, request.bytes, Job::Resolve { host, path, known })
            }
        }
    }

    /// Continues when the file that an application has named was looked up.
    pub(crate) fn named_file_resolved(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        done: Done,
    ) -> Prepared {
        let Some(named) = self.exchange.named_file.take() else { return Prepared::Nothing };
        match self.cache_result(w, named.host, done) {
            Some(hit) => self.named_file_found(w, request, &named, &hit),
            None => self.unavailable(w, request),
        }
    }

    fn named_file_found(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        named: &NamedFile,
        hit: &Hit<Entry>,
    ) -> Prepared {
        let file = match &hit.value().resource {
            Resource::File(file) => file,
            Resource::Forbidden => {
                named.report(request, "it may not be read, or lies elsewhere");
                return self.error(w, request, 403);
            }
            _ => {
                named.report(request, "there is no such file");
                return self.error(w, request, 404);
            }
        };
        let chosen = match request.head.method {
            // Parts of several ranges would each need the application's type: they get the file.
            Method::Get | Method::Head => answer(request.head, file, w.unix_seconds(), 1),
            _ => Answer::Whole(0),
        };
        let prepared = self.put_file(w, request, hit, file, chosen);
        if self.sends_file() {
            self.put_fields_of_application(w, request, &named.fields);
        }
        prepared
    }

    /// Writes the head of a file anew, with these lines of the application in place of the file's
    /// own, and with the fields that rules add to its replies.
    fn put_fields_of_application(&mut self, w: &Worker, request: Request<'_>, lines: &[u8]) {
        let draft = self.exchange.draft;
        let content = if draft.status == 304 { Content::KnownFile } else { Content::File };
        let head = std::mem::take(&mut self.exchange.out);
        let (status_line, of_file) = head.split_at(line_end(&head));
        let mut list = FieldList::default();
        let is_replaced = |name: &str| fields(lines).any(|(it, _)| it.eq_ignore_ascii_case(name));
        for (name, value) in fields(of_file).filter(|(name, _)| !is_replaced(name)) {
            list.add(name, value);
        }
        for (name, value) in fields(lines) {
            if content == Content::File || !name.to_ascii_lowercase().starts_with("content-") {
                list.add(name, value);
            }
        }
        let host = w.site.host(request.host);
        let mut scratch = Vec::new();
        let path = path_for_rules(request.head, &mut scratch);
        list.apply(host.header_rules(path), draft.status, content);
        let out = &mut self.exchange.out;
        out.extend_from_slice(status_line);
        list.write(out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Where the first line ends.
fn line_end(head: &[u8]) -> usize {
    head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1)
}

/// The fields of lines as this program writes them, up to an empty line.
fn fields(lines: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    lines.split_inclusive(|byte| *byte == b'\n').map_while(|line| {
        let line = line.strip_suffix(b"\r\n")?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = std::str::from_utf8(&line[..colon]).ok()?;
        Some((name, line[colon + 1..].trim_ascii_start()))
    })
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
