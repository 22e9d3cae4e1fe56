//! Converts requests in any order to sessions in the order of their beginnings.

use super::{ImportOptions, Line};
use crate::request_log::index::Index;
use crate::request_log::{BuildError, Builder, Request, RequestLog, Template};

/// The time after a page within which its parts are requested, in microseconds.
const PAGE_US: u64 = 1_000_000;

/// The endings of names of the parts of pages.
const PARTS: [&[u8]; 18] = [
    b"css",
    b"js",
    b"mjs",
    b"png",
    b"jpg",
    b"jpeg",
    b"gif",
    b"svg",
    b"ico",
    b"webp",
    b"avif",
    b"bmp",
    b"woff",
    b"woff2",
    b"ttf",
    b"otf",
    b"map",
    b"webmanifest",
];

/// The lines that are replayed.
#[derive(Default)]
pub(super) struct Sessions {
    /// Numbers of clients by address and user agent.
    clients: Index,
    clients_count: u32,
    /// Numbers of `asked` by method and URI.
    uris: Index,
    asked: Vec<Requested>,
    entries: Vec<Entry>,
    /// Whether something did not fit; reported when finishing.
    full: bool,
}

/// A method and URI that were requested.
struct Requested {
    method: Box<str>,
    uri: Box<[u8]>,
    reply: Reply,
}

/// What the log shows about the length of a reply with status 200.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reply {
    Unknown,
    /// One length only: that transfer may have been broken off.
    Once(u64),
    Always(u64),
    Varies,
}

/// One line of the log.
struct Entry {
    unix_us: u64,
    client: u32,
    asked: u32,
}

impl Sessions {
    /// Adds a request for `uri`.
    pub(super) fn add(&mut self, uri: &[u8], line: &Line<'_>) {
        self.full |= self.try_add(uri, line).is_none();
    }

    fn try_add(&mut self, uri: &[u8], line: &Line<'_>) -> Option<()> {
        let client = [&line.client, &b"\n"[..], &line.agent].concat(); // no line holds one
        let next = Some(self.clients_count).filter(|&next| next < u32::MAX - 1);
        let client = self.clients.find_or_add(&client, next)?;
        self.clients_count = self.clients_count.max(client + 1);
        let key = [line.method.as_bytes(), uri].concat(); // the URI begins with a slash
        let next = u32::try_from(self.asked.len()).ok();
        let asked = self.uris.find_or_add(&key, next)?;
        if asked as usize == self.asked.len() {
            let method = line.method.as_str().into();
            self.asked.push(Requested { method, uri: uri.into(), reply: Reply::Unknown });
        }
        if line.status == 200 && line.method == "GET" {
            self.asked[asked as usize].reply.was(line.bytes);
        }
        self.entries.push(Entry { unix_us: line.unix_us, client, asked });
        Some(())
    }

    /// The number of clients.
    pub(super) fn clients(&self) -> u64 {
        u64::from(self.clients_count)
    }

    /// The log, and the number of pauses that were shortened.
    pub(super) fn finish(
        mut self,
        options: &ImportOptions,
    ) -> Result<(RequestLog, u64), BuildError> {
        if self.entries.len() > u32::MAX as usize {
            return Err(BuildError::TooManyRequests);
        }
        if self.full {
            return Err(BuildError::TooManyTemplates);
        }
        self.entries.sort_by_key(|entry| entry.unix_us); // stable: lines of one moment in order
        let mut writer = Writer {
            templates: vec![None; self.asked.len()],
            asked: &self.asked,
            options,
            builder: RequestLog::builder(),
            shortened: 0,
        };
        let (order, ends) =
            order_by_session(&self.entries, self.clients_count, options.session_gap_us);
        let mut start = 0;
        for end in ends {
            let session = order[start..end].iter().map(|&index| &self.entries[index as usize]);
            writer.session(&session.collect::<Vec<_>>());
            start = end;
        }
        Ok((writer.builder.finish()?, writer.shortened))
    }
}

impl Reply {
    fn was(&mut self, bytes: Option<u64>) {
        *self = match (*self, bytes) {
            (Self::Unknown, Some(bytes)) => Self::Once(bytes),
            (Self::Once(known) | Self::Always(known), Some(bytes)) if known == bytes => {
                Self::Always(known)
            }
            (known, None) => known,
            _ => Self::Varies,
        };
    }
}

/// The indices of `entries`, which are in order of time, session by session, and where each session
/// ends. Sessions are in the order of their first entries.
fn order_by_session(entries: &[Entry], clients: u32, gap_us: u64) -> (Vec<u32>, Vec<usize>) {
    let mut last: Vec<Option<(u64, u32)>> = vec![None; clients as usize];
    let mut lengths: Vec<usize> = Vec::new();
    let mut session_of = Vec::with_capacity(entries.len());
    for entry in entries {
        let known = &mut last[entry.client as usize];
        let session = match *known {
            Some((seen_us, session)) if entry.unix_us - seen_us <= gap_us => session,
            _ => {
                lengths.push(0);
                lengths.len() as u32 - 1 // no more than entries, which 32 bits count
            }
        };
        *known = Some((entry.unix_us, session));
        lengths[session as usize] += 1;
        session_of.push(session);
    }
    // A counting sort: it keeps the order within each session.
    let mut places: Vec<usize> = lengths
        .iter()
        .scan(0, |sum, length| {
            let start = *sum;
            *sum += length;
            Some(start)
        })
        .collect();
    let mut order = vec![0; entries.len()];
    for (index, session) in session_of.into_iter().enumerate() {
        let place = &mut places[session as usize];
        order[*place] = index as u32;
        *place += 1;
    }
    (order, places) // each place has moved on to the end of its session
}

struct Writer<'s> {
    asked: &'s [Requested],
    /// The index of each template, once it is interned.
    templates: Vec<Option<usize>>,
    options: &'s ImportOptions,
    builder: Builder,
    shortened: u64,
}

impl Writer<'_> {
    fn session(&mut self, entries: &[&Entry]) {
        let Some(first) = entries.first() else { return };
        self.builder.start_us(first.unix_us);
        let mut page_us = first.unix_us;
        for (index, entry) in entries.iter().enumerate() {
            let asked = &self.asked[entry.asked as usize];
            let joins = self.options.bursts
                && index > 0
                && entry.unix_us - page_us <= PAGE_US
                && is_part(&asked.uri);
            if !joins {
                page_us = entry.unix_us;
            }
            let next_us = entries.get(index + 1).map_or(entry.unix_us, |next| next.unix_us);
            let pause_us = self.pause_us(next_us - entry.unix_us);
            let template = self.template(entry.asked as usize);
            self.builder.push_known(template, joins, pause_us);
        }
        self.builder.end_session();
    }

    fn pause_us(&mut self, time_us: u64) -> u64 {
        let max_us = self.options.think_us_max.min(Request::PAUSE_US_MAX);
        self.shortened += u64::from(time_us > max_us);
        time_us.min(max_us)
    }

    fn template(&mut self, asked: usize) -> usize {
        if let Some(known) = self.templates[asked] {
            return known;
        }
        let Requested { method, uri, reply } = &self.asked[asked];
        let (reply_bytes, seen_bytes) = match *reply {
            Reply::Always(bytes) => (Some(bytes), None),
            Reply::Once(bytes) => (None, Some(bytes)),
            Reply::Unknown | Reply::Varies => (None, None),
        };
        let template = Template {
            method: method.clone(),
            uri: uri.clone(),
            body: Box::default(),
            reply_bytes,
            seen_bytes,
        };
        *self.templates[asked].insert(self.builder.intern(template))
    }
}

/// Whether browsers request the URI as a part of a page.
fn is_part(uri: &[u8]) -> bool {
    let path = uri.split(|&byte| byte == b'?').next().unwrap_or_default();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let Some(dot) = memchr::memrchr(b'.', name) else { return false };
    PARTS.iter().any(|part| part.eq_ignore_ascii_case(&name[dot + 1..]))
}
