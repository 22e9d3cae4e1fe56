//! The choice of a server: in turn, by weight, without those that have just failed.

use crate::tick::Tick;

/// Failures in a row after which a server is left out.
const FAILURES_MAX: u32 = 3;

/// The time within which they count, and for which the server is left out, in milliseconds.
const LEFT_OUT_MS: u64 = 10_000;

/// The servers of an application, as one driver knows them.
#[derive(Debug)]
pub struct Balance {
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    weight: i64,
    /// Grows by its weight with each choice, and falls by the weight of all when it is chosen: the
    /// largest is next, so that no server gets its share in one row.
    credit: i64,
    failures: u32,
    failed_at: Tick,
}

impl Server {
    fn is_left_out(&self, now: Tick) -> bool {
        self.failures >= FAILURES_MAX && now.since(self.failed_at) < LEFT_OUT_MS * 1000
    }
}

impl Balance {
    /// The servers with these weights; a weight of 0 counts as 1.
    #[must_use]
    pub fn new(weights: impl IntoIterator<Item = u32>) -> Self {
        let server = |weight: u32| Server {
            weight: weight.max(1).into(),
            credit: 0,
            failures: 0,
            failed_at: Tick(0),
        };
        Self { servers: weights.into_iter().map(server).collect() }
    }

    /// Chooses a server that `is_wanted`. Servers that have failed are left out for a while, unless
    /// all have.
    pub fn choose(&mut self, now: Tick, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        if let [_] = self.servers[..] {
            return is_wanted(0).then_some(0);
        }
        let in_turn = |server: &Server| !server.is_left_out(now);
        let any = (0..self.servers.len()).any(|i| is_wanted(i) && in_turn(&self.servers[i]));
        let mut total = 0;
        let mut best: Option<usize> = None;
        for index in 0..self.servers.len() {
            if !is_wanted(index) || (any && !in_turn(&self.servers[index])) {
                continue;
            }
            let server = &mut self.servers[index];
            server.credit += server.weight;
            total += server.weight;
            if best.is_none_or(|best| self.servers[index].credit > self.servers[best].credit) {
                best = Some(index);
            }
        }
        if let Some(best) = best {
            self.servers[best].credit -= total;
        }
        best
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

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(balance: &mut Balance, now: Tick, count: usize) -> Vec<usize> {
        (0..count).map(|_| balance.choose(now, |_| true).unwrap()).collect()
    }

    #[test]
    fn servers_take_turns_by_weight_and_not_in_rows() {
        let mut balance = Balance::new([3, 1]);
        assert_eq!(choices(&mut balance, Tick(0), 8), [0, 0, 1, 0, 0, 0, 1, 0]);
        let mut balance = Balance::new([0, 1]);
        assert_eq!(choices(&mut balance, Tick(0), 4), [0, 1, 0, 1]);
    }

    #[test]
    fn a_server_that_fails_three_times_is_left_out_for_a_while() {
        let mut balance = Balance::new([1, 1]);
        let now = Tick(0).plus_ms(60_000);
        balance.note_failure(0, now);
        balance.note_failure(0, now);
        assert!(choices(&mut balance, now, 4).contains(&0), "twice may be chance");
        balance.note_failure(0, now);
        assert_eq!(choices(&mut balance, now, 4), [1; 4]);
        assert!(choices(&mut balance, now.plus_ms(LEFT_OUT_MS), 4).contains(&0));
        balance.note_success(0);
        assert!(choices(&mut balance, now, 4).contains(&0));
    }

    #[test]
    fn failures_long_ago_do_not_count() {
        let mut balance = Balance::new([1, 1]);
        for minute in 1..10 {
            let now = Tick(0).plus_ms(60_000 * minute);
            balance.note_failure(0, now);
            assert!(choices(&mut balance, now, 2).contains(&0), "after {minute} failures");
        }
    }

    #[test]
    fn the_last_server_is_never_left_out() {
        let mut balance = Balance::new([1, 1]);
        let now = Tick(0).plus_ms(60_000);
        for server in [0, 0, 0, 1, 1, 1] {
            balance.note_failure(server, now);
        }
        assert_eq!(choices(&mut balance, now, 4).iter().filter(|server| **server == 0).count(), 2);
        assert_eq!(balance.choose(now, |server| server == 1), Some(1));
        assert_eq!(balance.choose(now, |_| false), None);
    }
}
