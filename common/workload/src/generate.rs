//! Generates request logs from a model.
//!
//! The random numbers are used in order, session after session, so that a log is the beginning of
//! every longer one of the same model and seed.

use statistics::Generator;

use crate::distribution::Distribution;
use crate::fileset::{FILES_PER_DIRECTORY, File, FileSet};
use crate::fit::Counts;
use crate::mix::FileChooser;
use crate::model::{Files, Model};
use crate::request_log::{BuildError, Builder, Request, RequestLog, Template};

/// The length of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// This many sessions.
    Sessions(u64),
    /// This many requests: the last session ends where they do.
    Requests(u64),
    /// Until the share of every class, every file number and every hot directory differs from its
    /// probability by no more than this part of it (0.1: a tenth). Hot directories are the most
    /// popular ones that together get half of the requests.
    Within(f64),
}

/// The number of requests after which a log that is not close enough to its distribution is given
/// up.
pub const REQUESTS_MAX_WITHIN: u64 = 100_000_000;
/// The number of sessions between two checks of the distribution.
const SESSIONS_BETWEEN_LOOKS: u64 = 1000;
const US_PER_S: f64 = 1e6;

/// Why a log cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The log is too large for its representation.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The log would have no sessions.
    #[error("a log has at least one session")]
    Empty,
    /// The log is not within the tolerance after [`REQUESTS_MAX_WITHIN`] requests.
    #[error("not within {0} of its distribution after {REQUESTS_MAX_WITHIN} requests; allow more")]
    NotWithin(f64),
}

/// Generates a log of `extent` that follows `model`; the same on every machine.
///
/// # Errors
/// The log is too large, is empty, or does not come close enough to the model's distribution.
pub fn generate(model: &Model, extent: Extent, seed: u64) -> Result<RequestLog, GenerateError> {
    let mut sessions = Sessions::new(model, seed);
    match extent {
        Extent::Sessions(0) | Extent::Requests(0) => return Err(GenerateError::Empty),
        Extent::Sessions(count) => {
            for _ in 0..count {
                sessions.add(u64::MAX);
            }
        }
        Extent::Requests(count) => {
            sessions.builder.reserve(usize::try_from(count).unwrap_or(0).min(1 << 28));
            let mut left = count;
            while left > 0 && sessions.builder.error().is_none() {
                left -= sessions.add(left);
            }
        }
        Extent::Within(tolerance) => sessions.add_until_within(tolerance)?,
    }
    sessions.builder.finish().map_err(GenerateError::Build)
}

/// A log that requests every file once, in one session without pauses, to warm caches. The files
/// come in reverse order, so that the popular ones are used last.
///
/// # Errors
/// There are no files, or more than fit into a log.
pub fn prime(set: &FileSet, prefix: &str) -> Result<RequestLog, GenerateError> {
    let mut builder = RequestLog::builder();
    for file in (0..set.files()).rev().filter_map(|index| set.file(index)) {
        builder.push(template(prefix, file), false, 0);
    }
    if builder.requests() == 0 {
        return Err(GenerateError::Empty);
    }
    builder.finish().map_err(GenerateError::Build)
}

/// The log being generated.
struct Sessions<'m> {
    model: &'m Model,
    generator: Generator,
    /// The chooser of files; none if there is only one.
    chooser: Option<FileChooser>,
    builder: Builder,
    /// The builder's template for each file, by directory and place in it; `UNKNOWN` until its
    /// first use.
    templates: Vec<u32>,
    /// The requests per file, if the extent depends on them.
    counts: Option<Counts>,
}

const UNKNOWN: u32 = u32::MAX;

impl<'m> Sessions<'m> {
    fn new(model: &'m Model, seed: u64) -> Self {
        let (chooser, files) = match &model.files {
            Files::Single(_) => (None, 1),
            Files::Spec(mix) => {
                (Some(FileChooser::new(mix)), mix.directories as usize * FILES_PER_DIRECTORY)
            }
        };
        Self {
            model,
            generator: Generator::new(seed),
            chooser,
            builder: RequestLog::builder(),
            templates: vec![UNKNOWN; files],
            counts: None,
        }
    }

    /// Adds a session of at most `requests_max` requests, which is not 0; returns their number.
    fn add(&mut self, requests_max: u64) -> u64 {
        let drawn = self.model.lengths.sample(&mut self.generator);
        let length = u64::from(drawn).min(requests_max);
        let mut left = length;
        while left > 0 {
            left -= self.add_page(left);
        }
        self.builder.end_session();
        length
    }

    /// Adds a page of at most `left` requests. The last of a session needs no pause after it.
    fn add_page(&mut self, left: u64) -> u64 {
        let embedded = match &self.model.pages {
            Some(pages) => (pages.embedded.sample(&mut self.generator) as u64).min(left - 1),
            None => 0,
        };
        let think_us =
            if embedded + 1 < left { pause_us(&self.model.think, &mut self.generator) } else { 0 };
        let active_us = match &self.model.pages {
            Some(pages) if embedded > 0 => pause_us(&pages.active_think, &mut self.generator),
            _ => think_us,
        };
        self.add_request(false, active_us);
        for object in 1..=embedded {
            self.add_request(object > 1, if object == embedded { think_us } else { 0 });
        }
        embedded + 1
    }

    fn add_request(&mut self, joins: bool, pause_us: u64) {
        let (file, index) = match (&mut self.chooser, &self.model.files) {
            (Some(chooser), _) => {
                let file = chooser.draw(&mut self.generator);
                (file, index_of(file))
            }
            (None, Files::Single(bytes)) => (File::Single { bytes: *bytes }, 0),
            (None, Files::Spec(_)) => unreachable!("a mix has a chooser"),
        };
        if let Some(counts) = &mut self.counts {
            counts.add(file, 1);
        }
        if self.templates[index] == UNKNOWN {
            let known = self.builder.intern(template(&self.model.prefix, file));
            self.templates[index] = known as u32; // below Request::TEMPLATES_MAX
        }
        self.builder.push_known(self.templates[index] as usize, joins, pause_us);
    }

    fn add_until_within(&mut self, tolerance: f64) -> Result<(), GenerateError> {
        let Files::Spec(mix) = &self.model.files else {
            self.add(u64::MAX); // of a single file any log has the distribution
            return Ok(());
        };
        self.counts = Some(Counts::new(mix.directories));
        loop {
            for _ in 0..SESSIONS_BETWEEN_LOOKS {
                self.add(u64::MAX);
            }
            if self.counts.as_ref().is_some_and(|counts| counts.are_within(mix, tolerance)) {
                return Ok(());
            }
            if self.builder.requests() as u64 > REQUESTS_MAX_WITHIN {
                return Err(GenerateError::NotWithin(tolerance));
            }
        }
    }
}

/// The index of a SPECweb99 file among all of its set.
fn index_of(file: File) -> usize {
    let directory = match file {
        File::Spec { directory, .. } => directory as usize,
        File::Single { .. } => 0,
    };
    directory * FILES_PER_DIRECTORY + file.kind()
}

fn template(prefix: &str, file: File) -> Template {
    Template::get(format!("{prefix}/{file}").as_bytes())
}

/// The next pause; the rare one that is longer than a log can hold is shortened.
fn pause_us(think: &Distribution, generator: &mut Generator) -> u64 {
    let us = (think.sample(generator) * US_PER_S).round();
    (us as u64).min(Request::PAUSE_US_MAX)
}

#[cfg(test)]
mod tests;
