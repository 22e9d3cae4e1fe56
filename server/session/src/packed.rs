//! A connection at rest as bytes, for a driver in another process. Its socket goes beside them.

use std::net::SocketAddr;

use upstream::Tick;

use crate::after::After;
use crate::connection::{Connection, Ending, State};
use crate::limits::Limits;

/// The form of the bytes: others are not understood.
const FORM: u8 = 1;

impl Connection {
    /// Whether it rests, and may go on resting: nothing of a request has come, and nothing is left
    /// to be sent.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.exchange.is_none()
            && matches!(self.state, State::Fresh | State::Idle)
            && self.ending == Ending::Never
            && !self.is_at_end
    }

    /// The connection as bytes; none unless it is at rest.
    #[must_use]
    pub fn pack(&self, now: Tick) -> Option<Vec<u8>> {
        if !self.is_at_rest() {
            return None;
        }
        let state = [FORM, u8::from(self.state == State::Fresh)];
        let left_us = self.deadline.since(now).to_le_bytes();
        let peer = self.peer.to_string();
        Some([&state[..], &self.requests.to_le_bytes(), &left_us, peer.as_bytes()].concat())
    }

    /// The connection that was packed; none if these are other bytes. It has the time to its
    /// deadline that it had left, as far as the limits here allow.
    #[must_use]
    pub fn unpack(bytes: &[u8], now: Tick, limits: &Limits) -> Option<Self> {
        let (&[form, is_fresh], rest) = bytes.split_first_chunk()?;
        let (requests, rest) = rest.split_first_chunk()?;
        let (left_us, peer) = rest.split_first_chunk()?;
        let peer: SocketAddr = str::from_utf8(peer).ok()?.parse().ok()?;
        let (state, most_ms) = match (form, is_fresh) {
            (FORM, 0) => (State::Idle, limits.idle_ms),
            (FORM, 1) => (State::Fresh, limits.head_ms),
            _ => return None,
        };
        let most_us = most_ms.saturating_mul(1000);
        let left_us = u64::from_le_bytes(*left_us).min(most_us);
        Some(Self {
            exchange: None,
            peer,
            deadline: Tick(now.0.saturating_add(left_us)),
            head_began: Tick(now.0.saturating_sub(most_us - left_us)),
            job: 0,
            requests: u32::from_le_bytes(*requests),
            lingered: 0,
            state,
            after: After::KeepAlive,
            ending: Ending::Never,
            is_at_end: false,
        })
    }
}
