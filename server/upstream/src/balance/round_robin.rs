//! In turn, by weight: of a row of choices each server has its share, and no server gets its share
//! in one piece (nginx's smooth weighted round robin).

use statistics::Generator;

use super::{Server, candidates};

/// Lets a server begin that is chosen at random, by weight: of many drivers that make a few choices
/// each, all would begin with the same one.
pub(super) fn begin(servers: &mut [Server], random: &mut Generator) {
    let Some(first) = by_weight(servers, random) else { return };
    for server in &mut *servers {
        server.credit -= server.weight.cast_signed();
    }
    servers[first].credit += total(servers);
}

fn total(servers: &[Server]) -> i64 {
    candidates(servers).map(|index| servers[index].weight.cast_signed()).sum()
}

/// A candidate at random, by weight.
pub(super) fn by_weight(servers: &[Server], random: &mut Generator) -> Option<usize> {
    let mut left = random.below((total(servers) as usize).max(1)) as u64;
    candidates(servers).find(|index| match left.checked_sub(servers[*index].weight) {
        Some(less) => {
            left = less;
            false
        }
        None => true,
    })
}

/// The credit of a server grows by its weight with each choice, and falls by the weight of all when
/// it is chosen: the largest is next.
pub(super) fn choose(servers: &mut [Server]) -> Option<usize> {
    for server in servers.iter_mut().filter(|server| server.is_candidate) {
        server.credit += server.weight.cast_signed();
    }
    // The first of equals.
    let best = candidates(servers).rev().max_by_key(|index| servers[*index].credit)?;
    servers[best].credit -= total(servers);
    Some(best)
}
