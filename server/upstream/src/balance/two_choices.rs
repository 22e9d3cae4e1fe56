//! The less busy of two servers that are chosen at random, by weight (Mitzenmacher, "The Power of
//! Two Choices in Randomized Load Balancing", 2001): nearly as even as the least busy of all, and
//! drivers that do not know of each other's requests do not all choose the same one.

use statistics::Generator;

use super::Server;
use super::round_robin::by_weight;

pub(super) fn choose(servers: &mut [Server], random: &mut Generator) -> Option<usize> {
    let first = by_weight(servers, random)?;
    servers[first].is_candidate = false;
    match by_weight(servers, random) {
        Some(second) if servers[second].is_less_busy_than(&servers[first]) => Some(second),
        _ => Some(first),
    }
}
