//! A request log: sessions of requests with pauses, compact in memory.
//!
//! Requests that are alike are kept once, as templates; a session is a row of eight-byte words.
//! Reading and writing of the formats is in the files beside this one.

pub mod access_log;
mod builder;
mod decimal;
mod escape;
mod index;
mod templates;
pub mod wsesslog;

pub use builder::{BuildError, Builder};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// GET, HEAD, POST, …
    pub method: Box<str>,
    /// As it stands in the request line: path and query.
    pub uri: Box<[u8]>,
    /// The body of the request; mostly empty.
    pub body: Box<[u8]>,
    /// How long the body of the reply should be, if the log says so.
    pub reply_bytes: Option<u64>,
    /// How long it once was, if that is all the log knows: for descriptions, not for checks.
    pub seen_bytes: Option<u64>,
}

impl Template {
    /// A GET of `uri`, without a body, whose reply may have any length.
    #[must_use]
    pub fn get(uri: &[u8]) -> Self {
        Self {
            method: "GET".into(),
            uri: uri.into(),
            body: Box::default(),
            reply_bytes: None,
            seen_bytes: None,
        }
    }
}

/// One request of a session: eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    word: u64,
}

impl Request {
    /// The longest pause that fits: 9.5 hours.
    pub const PAUSE_US_MAX: u64 = (1 << 35) - 1;
    /// How many templates a log may have.
    pub const TEMPLATES_MAX: usize = 1 << 28;

    /// `joins`: it is issued in the same burst as the request before it. `pause_us`: how long the
    /// client waits after the burst that this request ends; it counts on the last of a burst only.
    ///
    /// # Panics
    /// If a number is too large.
    #[must_use]
    pub fn new(template: usize, joins: bool, pause_us: u64) -> Self {
        assert!(template < Self::TEMPLATES_MAX && pause_us <= Self::PAUSE_US_MAX);
        Self { word: (template as u64) << 36 | u64::from(joins) << 35 | pause_us }
    }

    /// Which template.
    #[must_use]
    pub fn template(self) -> usize {
        (self.word >> 36) as usize
    }

    /// Whether it belongs to the burst of the request before it.
    #[must_use]
    pub fn joins(self) -> bool {
        self.word >> 35 & 1 == 1
    }

    /// The think time after it, if it is the last of its burst.
    #[must_use]
    pub fn pause_us(self) -> u64 {
        self.word & Self::PAUSE_US_MAX
    }

    /// This request with a pause no longer than `us_max` microseconds.
    fn with_pause_max(self, us_max: u64) -> Self {
        Self::new(self.template(), self.joins(), self.pause_us().min(us_max))
    }

    /// This request, of another template.
    fn with_template(self, template: usize) -> Self {
        Self::new(template, self.joins(), self.pause_us())
    }
}

/// Sessions, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    templates: Vec<Template>,
    requests: Vec<Request>,
    /// Where each session ends in `requests`.
    ends: Vec<u32>,
    /// When each session began, from the first; empty if the log does not say.
    starts_us: Vec<u64>,
}

impl RequestLog {
    /// Builds one, request by request.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What is asked for, each once.
    #[must_use]
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// How many sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.ends.len()
    }

    /// How many requests, of all sessions.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// The requests of session `index`; at least one.
    #[must_use]
    pub fn session(&self, index: usize) -> &[Request] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.requests[start as usize..self.ends[index] as usize]
    }

    /// This log without the requests of the templates that `keep`, which says so of each, does not
    /// want, nor sessions of which nothing is left; and with sessions of more than `length_max`
    /// requests cut into several, which begin at the same time.
    ///
    /// # Panics
    /// If `length_max` is 0, or `keep` is not of all templates.
    #[must_use]
    pub fn selected(&self, keep: &[bool], length_max: usize) -> Self {
        assert!(length_max > 0, "a session has a request at least");
        assert_eq!(keep.len(), self.templates.len(), "it is of each template");
        let mut builder = Self::builder();
        let templates = self.templates.iter().zip(keep);
        let kept = templates.map(|(one, keep)| keep.then(|| builder.intern(one.clone())));
        let kept: Vec<Option<usize>> = kept.collect();
        for index in 0..self.sessions() {
            let mut joins = false; // whether something of the burst is kept already
            let of_kept = |request: &Request| {
                joins &= request.joins();
                let template = kept[request.template()]?;
                Some((template, std::mem::replace(&mut joins, true), request.pause_us()))
            };
            let requests: Vec<_> = self.session(index).iter().filter_map(of_kept).collect();
            for part in requests.chunks(length_max) {
                if let Some(us) = self.start_us(index) {
                    builder.start_us(us);
                }
                for &(template, joins, pause_us) in part {
                    builder.push_known(template, joins, pause_us);
                }
                builder.end_session();
            }
        }
        builder.finish().expect("it is a part of what was built before")
    }

    /// How many requests the longest session has.
    #[must_use]
    pub fn longest_session(&self) -> usize {
        (0..self.sessions()).map(|index| self.session(index).len()).max().unwrap_or(0)
    }

    /// Cuts longer pauses to `us_max`.
    pub fn cut_pauses(&mut self, us_max: u64) {
        for request in &mut self.requests {
            *request = request.with_pause_max(us_max);
        }
    }

    /// The pauses between the requests of each session, those of 0 as well; the one after a
    /// session's last is nobody's.
    pub fn pauses_us(&self) -> impl Iterator<Item = u64> + '_ {
        let sessions = (0..self.sessions()).map(|index| self.session(index));
        let pauses = sessions.flat_map(|requests| &requests[..requests.len() - 1]);
        pauses.map(|request| request.pause_us())
    }

    /// Whether anybody waits between two requests.
    #[must_use]
    pub fn has_pauses(&self) -> bool {
        self.pauses_us().any(|us| us > 0)
    }

    /// When each request is due, in microseconds from the start of its session, if every reply
    /// comes at once; session by session.
    pub fn due_us(&self) -> impl Iterator<Item = u64> + '_ {
        let of_session = |index| {
            let mut due_us = 0;
            self.session(index).iter().map(move |request| {
                let before_us = due_us;
                due_us += request.pause_us();
                before_us
            })
        };
        (0..self.sessions()).flat_map(of_session)
    }

    /// How long it takes, when sessions begin to come at a steady rate, until requests are due at
    /// nearly the rate at which they stay due, in microseconds: until then the later requests of
    /// long sessions are missing. Nearly: 99 %.
    #[must_use]
    pub fn filling_us(&self) -> u64 {
        if !self.has_pauses() {
            return 0;
        }
        let mut due_us: Vec<u64> = self.due_us().collect();
        let (_, within, _) = due_us.select_nth_unstable((self.requests() * 99).div_ceil(100) - 1);
        *within
    }

    /// How many of the requests that stay due at a steady rate are due, 0 to 1, between two times
    /// in microseconds from when sessions began to come at it.
    #[must_use]
    pub fn share_due(&self, from_us: u64, to_us: u64) -> f64 {
        let window_us = to_us.saturating_sub(from_us) as f64;
        let seen = |due_us: u64| to_us.saturating_sub(due_us.max(from_us)) as f64 / window_us;
        self.due_us().map(seen).sum::<f64>() / self.requests() as f64
    }

    /// When session `index` began, counted from the log's first, if the log says so.
    #[must_use]
    pub fn start_us(&self, index: usize) -> Option<u64> {
        self.starts_us.get(index).copied()
    }
}
