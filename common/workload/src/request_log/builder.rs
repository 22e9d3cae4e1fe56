//! Builds a request log, request by request; equal templates are kept once.
//!
//! No format is known here: the readers beside this file call the builder.

use super::index::BATCH;
use super::templates::TemplateTable;
use super::{Request, RequestLog, Template};

/// Why a log cannot be built. The first such reason is kept until [`Builder::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More requests than 32 bits can count.
    #[error("more than {} requests", u32::MAX)]
    TooManyRequests,
    /// More than [`Request::TEMPLATES_MAX`] different requests, or more than 4 GiB of them.
    #[error("more than {} different requests, or 4 GiB of them", Request::TEMPLATES_MAX)]
    TooManyTemplates,
    /// A pause above [`Request::PAUSE_US_MAX`].
    #[error(
        "a pause of {} s; the longest is {} s",
        .pause_us / 1_000_000,
        Request::PAUSE_US_MAX / 1_000_000
    )]
    PauseTooLong {
        /// The pause.
        pause_us: u64,
    },
    /// Some sessions have a start, but this one does not.
    #[error(
        "session {} has no start time, though others have; give one to all or to none",
        .session + 1
    )]
    NoStart {
        /// The session's index.
        session: usize,
    },
    /// A session starts before the one that precedes it.
    #[error("session {} starts before the one that precedes it", .session + 1)]
    StartsBackwards {
        /// The session's index.
        session: usize,
    },
}

/// Builds a [`RequestLog`].
///
/// Per session: [`start_us`](Self::start_us) if it is known, then [`push`](Self::push) or
/// [`push_known`](Self::push_known) for each request, then [`end_session`](Self::end_session).
/// Errors are kept: everything after the first is ignored, and [`finish`](Self::finish) returns it.
#[derive(Debug, Default)]
pub struct Builder {
    templates: TemplateTable,
    requests: Vec<Request>,
    ends: Vec<u32>,
    starts_us: Vec<u64>,
    /// The start of the session under way, if it is known.
    start_us: Option<u64>,
    error: Option<BuildError>,
}

impl Builder {
    /// The index of `template`, which is added unless an equal one is there.
    pub fn intern(&mut self, template: Template) -> usize {
        let known = self.templates.find_or_add(template);
        known.unwrap_or_else(|| {
            self.fail(BuildError::TooManyTemplates);
            0 // the table is full, so there is one; nothing is added any more
        })
    }

    /// The index of the template of a GET of `uri` without a body, which is added unless an equal
    /// one is there.
    pub fn intern_get(&mut self, uri: &[u8]) -> usize {
        self.intern(Template::get(uri))
    }

    /// The indices of GETs of `uris`, at most [`BATCH`], without an allocation for those that are
    /// known. A batch hides the time that each lookup waits for memory.
    #[inline]
    pub(super) fn intern_gets(&mut self, uris: &[&[u8]]) -> [u32; BATCH] {
        let mut found = [0; BATCH];
        if self.templates.find_or_add_gets(uris, &mut found).is_none() {
            self.fail(BuildError::TooManyTemplates);
        }
        found
    }

    /// Adds a request to the session under way. The first of a session joins nothing, whatever
    /// `joins` is; the pause of a request that the next one joins is dropped, since it would mean
    /// nothing.
    pub fn push(&mut self, template: Template, joins: bool, pause_us: u64) {
        let template = self.intern(template);
        self.push_known(template, joins, pause_us);
    }

    /// Adds a request to the session under way, as [`push`](Self::push) does; `template` is the
    /// index of one that was interned here.
    ///
    /// # Panics
    /// If there is no such template.
    #[inline]
    pub fn push_known(&mut self, template: usize, joins: bool, pause_us: u64) {
        if self.error.is_some() {
            return;
        }
        assert!(template < self.templates.len(), "template {template} was never interned");
        if pause_us > Request::PAUSE_US_MAX {
            return self.fail(BuildError::PauseTooLong { pause_us });
        }
        if self.requests.len() >= u32::MAX as usize {
            return self.fail(BuildError::TooManyRequests);
        }
        let joins = joins && !self.is_between_sessions();
        if joins && let Some(last) = self.requests.last_mut() {
            *last = Request::new(last.template(), last.joins(), 0);
        }
        self.requests.push(Request::new(template, joins, pause_us));
    }

    /// Sets when the session under way, or the one about to begin, starts, on any clock: the
    /// finished log counts from its first session.
    pub fn start_us(&mut self, start_us: u64) {
        self.start_us = Some(start_us);
    }

    /// Ends the session under way. A session without requests is dropped.
    pub fn end_session(&mut self) {
        let start_us = self.start_us.take();
        if self.is_between_sessions() || self.error.is_some() {
            return;
        }
        let session = self.ends.len();
        if session > 0 && start_us.is_some() == self.starts_us.is_empty() {
            // Either this session lacks a start or the first one does: the error names the one
            // without.
            let session = if start_us.is_some() { session - 1 } else { session };
            return self.fail(BuildError::NoStart { session });
        }
        if start_us < self.starts_us.last().copied() {
            return self.fail(BuildError::StartsBackwards { session });
        }
        self.starts_us.extend(start_us);
        self.ends.push(self.requests.len() as u32); // push_known bounds it
    }

    /// Whether no request has been pushed since the last end of a session.
    #[must_use]
    pub fn is_between_sessions(&self) -> bool {
        self.requests.len() == self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The first error, if there is one.
    #[must_use]
    pub fn error(&self) -> Option<BuildError> {
        self.error
    }

    /// The number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// The number of sessions that have ended so far.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.ends.len()
    }

    /// Reserves room for `requests` more requests.
    pub fn reserve(&mut self, requests: usize) {
        self.requests.reserve(requests);
    }

    /// Adds all sessions of `other` after those here, as if they had been pushed one by one.
    pub fn append(&mut self, mut other: Self) {
        self.end_session();
        other.end_session();
        if self.requests.len() + other.requests.len() > u32::MAX as usize {
            return self.fail(BuildError::TooManyRequests);
        }
        if let Some(error) = other.error {
            return self.fail(error.shifted(self.ends.len()));
        }
        let remap: Vec<usize> =
            other.templates.into_templates().into_iter().map(|one| self.intern(one)).collect();
        let before = self.requests.len() as u32;
        self.requests.extend(
            other.requests.iter().map(|request| request.with_template(remap[request.template()])),
        );
        self.check_seam(&other.ends, &other.starts_us);
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.starts_us.extend(other.starts_us);
    }

    /// The log, with the session under way ended.
    ///
    /// # Errors
    /// The first error that occurred.
    pub fn finish(mut self) -> Result<RequestLog, BuildError> {
        self.end_session();
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(first) = self.starts_us.first().copied() {
            self.starts_us.iter_mut().for_each(|start| *start -= first); // ascending, so >= first
        }
        Ok(RequestLog {
            templates: self.templates.into_templates(),
            requests: self.requests,
            ends: self.ends,
            starts_us: self.starts_us,
        })
    }

    /// Makes the checks of `end_session` at the seam to another builder's sessions.
    fn check_seam(&mut self, ends: &[u32], starts_us: &[u64]) {
        let here = self.ends.len();
        if here == 0 || ends.is_empty() {
            return;
        }
        match (self.starts_us.last(), starts_us.first()) {
            (Some(_), None) => self.fail(BuildError::NoStart { session: here }),
            (None, Some(_)) => self.fail(BuildError::NoStart { session: here - 1 }),
            (last, first) if first < last => {
                self.fail(BuildError::StartsBackwards { session: here });
            }
            _ => {}
        }
    }

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }
}

impl BuildError {
    /// This error for a log in which `sessions` more sessions precede the one that it names.
    fn shifted(self, sessions: usize) -> Self {
        match self {
            Self::NoStart { session } => Self::NoStart { session: session + sessions },
            Self::StartsBackwards { session } => {
                Self::StartsBackwards { session: session + sessions }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(uri: &str) -> Template {
        Template::get(uri.as_bytes())
    }

    #[test]
    fn equal_templates_are_kept_once() {
        let mut builder = RequestLog::builder();
        builder.push(get("/a"), false, 1);
        builder.push(get("/b"), false, 2);
        builder.push(get("/a"), false, 3);
        builder.push(Template { method: "HEAD".into(), ..get("/a") }, false, 4);
        builder.push(Template { body: b"x"[..].into(), ..get("/a") }, false, 5);
        builder.push(Template { reply_bytes: Some(7), ..get("/a") }, false, 6);
        assert_eq!(builder.intern_get(b"/b"), 1);
        assert_eq!(builder.intern_gets(&[b"/b", b"/a"])[..2], [1, 0]);
        let log = builder.finish().unwrap();
        let templates: Vec<usize> = log.session(0).iter().map(|r| r.template()).collect();
        assert_eq!(templates, [0, 1, 0, 2, 3, 4]);
        assert_eq!(log.templates().len(), 5);
    }

    #[test]
    fn empty_sessions_are_no_sessions() {
        let mut builder = RequestLog::builder();
        builder.end_session();
        builder.push(get("/a"), true, 9);
        builder.end_session();
        builder.end_session();
        builder.push(get("/b"), false, 9);
        let log = builder.finish().unwrap();
        assert_eq!((log.sessions(), log.requests()), (2, 2));
        assert!(!log.session(0)[0].joins(), "the first joins nothing");
        assert_eq!(log.start_us(0), None);
    }

    #[test]
    fn a_joined_request_takes_the_pause_away_from_the_one_before() {
        let mut builder = RequestLog::builder();
        builder.push(get("/a"), false, 9);
        builder.push(get("/b"), true, 5);
        let log = builder.finish().unwrap();
        let pauses: Vec<u64> = log.session(0).iter().map(|r| r.pause_us()).collect();
        assert_eq!(pauses, [0, 5]);
    }

    #[test]
    fn starts_count_from_the_first() {
        let mut builder = RequestLog::builder();
        for start in [100, 100, 250] {
            builder.start_us(start);
            builder.push(get("/a"), false, 0);
            builder.end_session();
        }
        let log = builder.finish().unwrap();
        assert_eq!([0, 1, 2].map(|i| log.start_us(i)), [Some(0), Some(0), Some(150)]);
    }

    #[track_caller]
    fn check_starts(starts: &[Option<u64>], expected: BuildError) {
        let mut builder = RequestLog::builder();
        let mut halves = (RequestLog::builder(), RequestLog::builder());
        for (index, start) in starts.iter().enumerate() {
            let half = if index == 0 { &mut halves.0 } else { &mut halves.1 };
            for one in [&mut builder, half] {
                start.iter().for_each(|us| one.start_us(*us));
                one.push(get("/a"), false, 0);
                one.end_session();
            }
        }
        assert_eq!(builder.finish().unwrap_err(), expected);
        halves.0.append(halves.1);
        assert_eq!(halves.0.finish().unwrap_err(), expected, "put together of two");
    }

    #[test]
    fn starts_of_some_sessions_only_or_backwards_are_errors() {
        check_starts(&[Some(1), None], BuildError::NoStart { session: 1 });
        check_starts(&[None, Some(1)], BuildError::NoStart { session: 0 });
        check_starts(&[Some(1), Some(2), None], BuildError::NoStart { session: 2 });
        check_starts(&[Some(2), Some(1)], BuildError::StartsBackwards { session: 1 });
        check_starts(&[Some(2), Some(3), Some(1)], BuildError::StartsBackwards { session: 2 });
    }

    #[test]
    fn a_pause_that_does_not_fit_is_an_error() {
        let mut builder = RequestLog::builder();
        builder.push(get("/a"), false, Request::PAUSE_US_MAX);
        assert_eq!(builder.error(), None);
        let pause_us = Request::PAUSE_US_MAX + 1;
        builder.push(get("/a"), false, pause_us);
        assert_eq!(builder.finish().unwrap_err(), BuildError::PauseTooLong { pause_us });
    }

    #[test]
    fn appending_is_pushing_one_by_one() {
        let uris = ["/a", "/b", "/a", "/c", "/b", "/d"];
        let mut whole = RequestLog::builder();
        let mut parts = [RequestLog::builder(), RequestLog::builder()];
        for (index, uri) in uris.into_iter().enumerate() {
            for one in [&mut whole, &mut parts[index / 3]] {
                one.push(get(uri), index % 3 == 1, index as u64);
                if index % 3 == 2 {
                    one.end_session();
                }
            }
        }
        let [mut first, second] = parts;
        first.append(second);
        assert_eq!(first.finish().unwrap(), whole.finish().unwrap());
    }
}
