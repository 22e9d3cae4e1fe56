//! The server that belongs to the address of the client: always the same one, as long as it is
//! there. When a server goes only its own clients go to others, and when it is back they come back
//! (rendezvous hashing: Thaler and Ravishankar, 1998; with weights: Schindelhauer and Schomaker,
//! 2005). All drivers and all machines with the same servers choose alike.

use std::net::IpAddr;

use statistics::Generator;

use super::{Server, candidates};
use crate::settings::Address;

/// What of a client decides about its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientKey(u64);

impl ClientKey {
    /// The key of a client: its IPv4 address, or the network of its IPv6 address, in which it has
    /// new addresses every day (RFC 8981).
    #[must_use]
    pub fn new(client: IpAddr) -> Self {
        Self(match client.to_canonical() {
            IpAddr::V4(address) => mixed(u64::from(address.to_bits())),
            IpAddr::V6(address) => mixed((address.to_bits() >> 64) as u64),
        })
    }
}

/// Which server it is, by its address as it is configured.
pub(super) fn identity(address: &Address) -> u64 {
    address.place().bytes().fold(0, |state, byte| mixed(state ^ u64::from(byte)))
}

fn mixed(bits: u64) -> u64 {
    Generator::new(bits).next_u64()
}

pub(super) fn choose(servers: &[Server], client: ClientKey) -> Option<usize> {
    // A number between 0 and 1 for the pair is as good as the time of an event with the rate
    // `weight`: the first of them is the server's with a chance by its weight.
    let time = |index: &usize| {
        let server = &servers[*index];
        -libm::log(Generator::new(client.0 ^ server.identity).unit()) / server.weight as f64
    };
    candidates(servers).min_by(|a, b| time(a).total_cmp(&time(b)))
}
