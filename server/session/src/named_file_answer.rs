//! The answer with a file that an application has named: it is answered as any file is, with ranges
//! and conditions, below a directory of its own.

use std::sync::Arc;

use file_cache::Hit;
use http1::Method;
use site::answer::{Answer, answer};
use site::fields::{Content, FieldList};
use site::resource::{Entry, Resource};

use crate::exchange::Purpose;
use crate::job::{Done, Job};
use crate::named_file::NamedFile;
use crate::response::{Prepared, Request, Response, path_for_rules};
use crate::worker::Worker;

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
                named.report(request.head.target_bytes, why);
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
                named.report(request.head.target_bytes, "it may not be read, or lies elsewhere");
                return self.error(w, request, 403);
            }
            _ => {
                named.report(request.head.target_bytes, "there is no such file");
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
        let site = Arc::clone(self.exchange.site_or(&w.site));
        let host = site.host(request.host);
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
