//! The server with the fewest requests in flight for its weight; in turn among those that have
//! equally few.

use super::{Server, candidates, round_robin};

pub(super) fn choose(servers: &mut [Server]) -> Option<usize> {
    let mut best = candidates(servers).next()?;
    for index in candidates(servers) {
        if servers[index].is_less_busy_than(&servers[best]) {
            best = index;
        }
    }
    for index in 0..servers.len() {
        servers[index].is_candidate &= !servers[best].is_less_busy_than(&servers[index]);
    }
    round_robin::choose(servers)
}
