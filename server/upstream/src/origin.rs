//! Where a request comes from.

use std::net::IpAddr;

use http1::{Head, list};

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// The client.
    pub peer: IpAddr,
    /// Whether it is a proxy whose word about the clients before it is believed.
    pub is_trusted: bool,
    /// `Host` for a request that has none.
    pub authority: &'o str,
}

impl Origin<'_> {
    /// The last member of a field by which a trusted proxy tells of its client.
    pub(crate) fn told<'b>(&self, head: &Head<'b>, name: &[u8]) -> Option<&'b [u8]> {
        let lines = head.lines().filter(|(line, _)| line.eq_ignore_ascii_case(name));
        lines.flat_map(|(_, value)| list(value)).last().filter(|_| self.is_trusted)
    }

    /// The client that a trusted proxy names last.
    pub(crate) fn told_client(&self, head: &Head<'_>) -> Option<IpAddr> {
        let told = self.told(head, b"x-forwarded-for")?;
        std::str::from_utf8(told).ok()?.parse().ok()
    }

    /// The client: of a trusted proxy, the one that it names last.
    pub(crate) fn client(&self, head: &Head<'_>) -> IpAddr {
        self.told_client(head).unwrap_or(self.peer.to_canonical())
    }
}
