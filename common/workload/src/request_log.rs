//! A request log: sessions of requests with pauses, compact in memory.
//!
//! Equal requests are kept once, as templates; a session is a row of eight-byte words. The formats
//! are read and written in the files beside this one.

pub mod access_log;
mod builder;
mod decimal;
mod escape;
mod index;
mod templates;
pub mod wsesslog;

pub use builder::{BuildError, Builder};

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// GET, HEAD, POST, …
    pub method: Box<str>,
    /// The URI of the request line: path and query.
    pub uri: Box<[u8]>,
    /// The body of the request; mostly empty.
    pub body: Box<[u8]>,
    /// The expected length of the reply's body, if the log has it.
    pub reply_bytes: Option<u64>,
    /// The length that the reply's body once had, if the log has only that: for descriptions, not
    /// for checks.
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

    /// `joins`: the request is issued in the same burst as the request before it. `pause_us`: how
    /// long the client waits after the burst that this request ends; it counts on the last of a
    /// burst only.
    ///
    /// # Panics
    /// If a number is too large.
    #[must_use]
    pub fn new(template: usize, joins: bool, pause_us: u64) -> Self {
        assert!(template < Self::TEMPLATES_MAX && pause_us <= Self::PAUSE_US_MAX);
        Self { word: (template as u64) << 36 | u64::from(joins) << 35 | pause_us }
    }

    /// The index of the template.
    #[must_use]
    pub fn template(self) -> usize {
        (self.word >> 36) as usize
    }

    /// Whether the request belongs to the burst of the request before it.
    #[must_use]
    pub fn joins(self) -> bool {
        self.word >> 35 & 1 == 1
    }

    /// The think time after the request, if it is the last of its burst.
    #[must_use]
    pub fn pause_us(self) -> u64 {
        self.word & Self::PAUSE_US_MAX
    }

    /// This request with a pause no longer than `us_max` microseconds.
    fn with_pause_max(self, us_max: u64) -> Self {
        Self::new(self.template(), self.joins(), self.pause_us().min(us_max))
    }

    /// This request with another template.
    fn with_template(self, template: usize) -> Self {
        Self::new(template, self.joins(), self.pause_us())
    }
}

/// The sessions of a log, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    templates: Vec<Template>,
    requests: Vec<Request>,
    /// The end of each session in `requests`.
    ends: Vec<u32>,
    /// When each session began, from the first; empty if the log has no starts.
    starts_us: Vec<u64>,
}

impl RequestLog {
    /// A builder for a log, request by request.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The different requests.
    #[must_use]
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// The number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.ends.len()
    }

    /// The number of requests of all sessions.
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

    /// This log without the requests of templates for which `keep` is false, and without sessions
    /// that become empty; sessions of more than `length_max` requests are cut into several, which
    /// begin at the same time.
    ///
    /// # Panics
    /// If `length_max` is 0, or `keep` has not as many entries as there are templates.
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

    /// The number of requests of the longest session.
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

    /// The pauses between the requests of each session, including those of 0; the pause after a
    /// session's last request does not count.
    pub fn pauses_us(&self) -> impl Iterator<Item = u64> + '_ {
        let sessions = (0..self.sessions()).map(|index| self.session(index));
        let pauses = sessions.flat_map(|requests| &requests[..requests.len() - 1]);
        pauses.map(|request| request.pause_us())
    }

    /// Whether any client waits between two requests.
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

    /// How long it takes, in microseconds, from the start of a steady rate of sessions until
    /// requests are due at nearly their steady rate: until then the later requests of long sessions
    /// are missing. Nearly means 99 %.
    #[must_use]
    pub fn filling_us(&self) -> u64 {
        if !self.has_pauses() {
            return 0;
        }
        let mut due_us: Vec<u64> = self.due_us().collect();
        let (_, within, _) = due_us.select_nth_unstable((self.requests() * 99).div_ceil(100) - 1);
        *within
    }

    /// The share, 0 to 1, of the steady rate of requests that is due between two times in
    /// microseconds from the start of a steady rate of sessions.
    #[must_use]
    pub fn share_due(&self, from_us: u64, to_us: u64) -> f64 {
        let window_us = to_us.saturating_sub(from_us) as f64;
        let seen = |due_us: u64| to_us.saturating_sub(due_us.max(from_us)) as f64 / window_us;
        self.due_us().map(seen).sum::<f64>() / self.requests() as f64
    }

    /// When session `index` began, counted from the log's first, if the log has starts.
    #[must_use]
    pub fn start_us(&self, index: usize) -> Option<u64> {
        self.starts_us.get(index).copied()
    }
}
