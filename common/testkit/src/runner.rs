//! Runs cases against a server that is listening. The caller starts the server, with the profile's
//! configuration and an engine of its choice.

use std::collections::BTreeMap;
use std::fmt;

use crate::Case;
use crate::case::{Profile, Suite};
use crate::check::{Mismatch, check};
use crate::client::{Client, Delivery};
use crate::template::{EtagQuery, Prepared};

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// How many cases were sent.
    pub ran: usize,
    /// The names of cases that this machine or user cannot run.
    pub skipped: Vec<String>,
    /// Cases that failed.
    pub failures: Vec<Mismatch>,
}

impl Report {
    /// Panics with all failures if there are any; for tests.
    ///
    /// # Panics
    /// If a case failed, or none ran.
    #[track_caller]
    pub fn assert_passed(&self, context: &str) {
        assert!(self.ran > 0, "{context}: no case ran");
        assert!(self.failures.is_empty(), "{context}: {self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, skipped) = (self.failures.len(), self.skipped.len());
        writeln!(formatter, "{failed} of {} cases failed, {skipped} skipped", self.ran)?;
        self.failures.iter().try_for_each(|failure| writeln!(formatter, "\n{failure}"))
    }
}

/// Sends every case of `profile` to `client`'s server, each on a connection of its own, and
/// compares what comes back.
///
/// `permissions_hold` is the answer of [`DocumentRoot::permissions_hold`](crate::DocumentRoot) for
/// the user that the server runs as; if it is false the cases that depend on it are skipped.
pub fn run(
    suite: &Suite,
    profile: &Profile,
    client: &Client,
    permissions_hold: bool,
    delivery: Delivery<'_>,
) -> Report {
    let mut etags = EtagCache { client, host: &profile.host, known: BTreeMap::new() };
    let mut report = Report::default();
    for case in suite.cases_for(profile) {
        if case.unprivileged && !permissions_hold {
            report.skipped.push(case.name.clone());
            continue;
        }
        report.ran += 1;
        if let Err(mismatch) = run_case(case, &mut etags, delivery) {
            report.failures.push(Mismatch { settings: profile.name.clone(), ..*mismatch });
        }
    }
    report
}

fn run_case(
    case: &Case,
    etags: &mut EtagCache<'_>,
    delivery: Delivery<'_>,
) -> Result<(), Box<Mismatch>> {
    let (host, client) = (etags.host, etags.client);
    let failed = |reason: String| Box::new(Mismatch::new(case, reason));
    let prepared = Prepared::new(case, host, &mut |query| etags.get(query)).map_err(failed)?;
    let transcript = client
        .exchange(&prepared, delivery)
        .map_err(|error| failed(format!("cannot connect: {error}")))?;
    check(&prepared, &transcript)
}

/// Entity tags by question; the document root does not change during a run.
struct EtagCache<'c> {
    client: &'c Client,
    host: &'c str,
    known: BTreeMap<EtagQuery, String>,
}

impl EtagCache<'_> {
    fn get(&mut self, query: &EtagQuery) -> Result<String, String> {
        if let Some(tag) = self.known.get(query) {
            return Ok(tag.clone());
        }
        let tag = self.client.etag(self.host, query)?;
        self.known.insert(query.clone(), tag.clone());
        Ok(tag)
    }
}
