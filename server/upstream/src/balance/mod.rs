//! The choice of a server: by the policy of the application, without those that have just failed or
//! that checks have found to be down.
//!
//! What a policy does is in a file of its own. It chooses among the candidates, of which there is
//! at least one, and knows nothing of failures.

mod client_address;
mod least_requests;
mod round_robin;
mod tried;
mod two_choices;

use statistics::Generator;

use crate::settings::{ApplicationSettings, Balancing, ServerSettings};
use crate::tick::Tick;

pub use client_address::ClientKey;
pub use tried::Tried;

/// Failures in a row after which a server is left out.
const FAILURES_MAX: u32 = 3;

/// The time within which they count, and for which the server is left out, in milliseconds.
const LEFT_OUT_MS: u64 = 10_000;

/// The servers of an application, as one driver knows them.
#[derive(Debug)]
pub struct Balance {
    balancing: Balancing,
    servers: Vec<Server>,
    random: Generator,
}

#[derive(Debug)]
struct Server {
    weight: u64,
    /// What the policies do their sums with: [`round_robin`].
    credit: i64,
    /// The requests that are with it.
    in_flight: u64,
    /// Which server it is, whatever its place among the others.
    identity: u64,
    failures: u32,
    failed_at: Tick,
    /// Whether it may be chosen this time.
    is_candidate: bool,
}

impl Server {
    fn is_left_out(&self, now: Tick) -> bool {
        self.failures >= FAILURES_MAX && now.since(self.failed_at) < LEFT_OUT_MS * 1000
    }

    /// Whether it has less to do for its weight than another one.
    fn is_less_busy_than(&self, other: &Self) -> bool {
        self.in_flight * other.weight < other.in_flight * self.weight
    }
}

impl Balance {
    /// The servers of an application. Drivers begin at different ones if their seeds differ.
    #[must_use]
    pub fn new(settings: &ApplicationSettings, seed: u64) -> Self {
        let server = |it: &ServerSettings| Server {
            weight: it.weight.max(1).into(),
            credit: 0,
            in_flight: 0,
            identity: client_address::identity(&it.address),
            failures: 0,
            failed_at: Tick(0),
            is_candidate: true,
        };
        let mut servers: Vec<Server> = settings.servers.iter().map(server).collect();
        let mut random = Generator::new(seed);
        round_robin::begin(&mut servers, &mut random);
        let balancing = match settings.balancing {
            Balancing::Auto if servers.len() > 2 => Balancing::TwoChoices,
            Balancing::Auto => Balancing::RoundRobin,
            chosen => chosen,
        };
        Self { balancing, servers, random }
    }

    /// Chooses a server that `is_wanted`. Those that have failed are left out for a while, and so
    /// are those that are not `is_up`, unless none is left.
    pub fn choose(
        &mut self,
        client: ClientKey,
        now: Tick,
        is_wanted: impl Fn(usize) -> bool,
        is_up: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let Self { servers, balancing, random } = self;
        if servers.len() == 1 {
            return is_wanted(0).then_some(0);
        }
        let mut are_there_any = false;
        for (index, server) in servers.iter_mut().enumerate() {
            server.is_candidate = is_wanted(index) && is_up(index) && !server.is_left_out(now);
            are_there_any |= server.is_candidate;
        }
        if !are_there_any {
            for (index, server) in servers.iter_mut().enumerate() {
                server.is_candidate = is_wanted(index);
                are_there_any |= server.is_candidate;
            }
        }
        if !are_there_any {
            return None;
        }
        match balancing {
            Balancing::Auto | Balancing::RoundRobin => round_robin::choose(servers),
            Balancing::LeastRequests => least_requests::choose(servers),
            Balancing::TwoChoices => two_choices::choose(servers, random),
            Balancing::ClientAddress => client_address::choose(servers, client),
        }
    }

    /// Notes that a server has got a request.
    #[inline]
    pub fn begin(&mut self, server: usize) {
        self.servers[server].in_flight += 1;
    }

    /// Notes that a server has the request no longer.
    #[inline]
    pub fn end(&mut self, server: usize) {
        self.servers[server].in_flight -= 1;
    }

    /// Notes that a server has failed.
    pub fn note_failure(&mut self, server: usize, now: Tick) {
        let server = &mut self.servers[server];
        if now.since(server.failed_at) >= LEFT_OUT_MS * 1000 {
            server.failures = 0;
        }
        server.failures += 1;
        server.failed_at = now;
    }

    /// Notes that a server has answered.
    #[inline]
    pub fn note_success(&mut self, server: usize) {
        self.servers[server].failures = 0;
    }
}

/// The places of the candidates.
fn candidates(servers: &[Server]) -> impl DoubleEndedIterator<Item = usize> {
    (0..servers.len()).filter(|index| servers[*index].is_candidate)
}

#[cfg(test)]
mod tests;
