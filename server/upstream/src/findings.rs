//! What is found out about a server beside its requests: the addresses that its name stands for,
//! and whether checks find it to be up. It stands in cells that processes may share: one of them
//! finds out, and all read. No process ever waits, even if the writer is killed in the middle.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Addresses of a name that are kept: another one is used only where one could not be reached.
const ADDRESSES_MAX: usize = 8;

/// The cells of an address: what it is, with the port, and two for its bits.
const ADDRESS_CELLS: usize = 3;

/// A number of addresses, and the addresses.
const LIST_CELLS: usize = 1 + ADDRESSES_MAX * ADDRESS_CELLS;

// The cells of a server.
const IS_DOWN: usize = 0;
/// How many lists of addresses were written. The last one is in the first or the second place; the
/// next is written into the other.
const LISTS: usize = 1;
/// Whether it could not be reached since its name was looked up.
const IS_UNREACHED: usize = 2;
const FIRST_LIST: usize = 3;

/// What is known of one server.
#[derive(Clone, Copy)]
pub(crate) struct Findings<'c>(&'c [AtomicU64]);

impl<'c> Findings<'c> {
    pub(crate) const CELLS: usize = FIRST_LIST + 2 * LIST_CELLS;

    /// The server with this number among those that have these cells.
    pub(crate) fn of_server(cells: &'c [AtomicU64], server: usize) -> Self {
        Self(&cells[server * Self::CELLS..(server + 1) * Self::CELLS])
    }

    pub(crate) fn is_up(self) -> bool {
        self.0[IS_DOWN].load(Ordering::Relaxed) == 0
    }

    pub(crate) fn set_up(self, is_up: bool) {
        self.0[IS_DOWN].store(u64::from(!is_up), Ordering::Relaxed);
    }

    pub(crate) fn note_unreached(self) {
        self.0[IS_UNREACHED].store(1, Ordering::Relaxed);
    }

    pub(crate) fn take_unreached(self) -> bool {
        self.0[IS_UNREACHED].swap(0, Ordering::Relaxed) != 0
    }

    fn list(self, number: u64) -> &'c [AtomicU64] {
        let start = FIRST_LIST + (number % 2) as usize * LIST_CELLS;
        &self.0[start..start + LIST_CELLS]
    }

    /// Reads of the last list, again if it was replaced by then.
    fn read<T>(self, read: impl Fn(&[AtomicU64]) -> T) -> T {
        loop {
            let number = self.0[LISTS].load(Ordering::Acquire);
            let found = read(self.list(number));
            fence(Ordering::Acquire);
            if self.0[LISTS].load(Ordering::Relaxed) == number {
                return found;
            }
        }
    }

    pub(crate) fn addresses(self) -> usize {
        self.read(|list| list[0].load(Ordering::Relaxed) as usize)
    }

    /// The address with this number, counted round and round; none if there is none.
    pub(crate) fn address(self, number: usize) -> Option<SocketAddr> {
        let cells = self.read(|list| {
            let count = list[0].load(Ordering::Relaxed) as usize;
            let start = 1 + number.checked_rem(count)? * ADDRESS_CELLS;
            Some([0, 1, 2].map(|cell: usize| list[start + cell].load(Ordering::Relaxed)))
        });
        cells.map(from_cells)
    }

    /// Replaces the addresses. Only one writer may do so at a time.
    pub(crate) fn set_addresses(self, addresses: &[SocketAddr]) {
        let number = self.0[LISTS].load(Ordering::Relaxed).wrapping_add(1);
        let list = self.list(number);
        // A reader of an old list in this place finds that it was replaced.
        fence(Ordering::Release);
        list[0].store(addresses.len().min(ADDRESSES_MAX) as u64, Ordering::Relaxed);
        let cells = addresses.iter().take(ADDRESSES_MAX).flat_map(|address| to_cells(*address));
        list[1..].iter().zip(cells).for_each(|(cell, bits)| cell.store(bits, Ordering::Relaxed));
        self.0[LISTS].store(number, Ordering::Release);
    }
}

/// The first cell has the port, and above it whether the address is one of IPv6, and its scope.
fn to_cells(address: SocketAddr) -> [u64; ADDRESS_CELLS] {
    let port = u64::from(address.port());
    match address {
        SocketAddr::V4(address) => [port, u64::from(address.ip().to_bits()), 0],
        SocketAddr::V6(address) => {
            let bits = address.ip().to_bits();
            let scope = u64::from(address.scope_id());
            [port | 1 << 16 | scope << 32, (bits >> 64) as u64, bits as u64]
        }
    }
}

fn from_cells([first, high, low]: [u64; ADDRESS_CELLS]) -> SocketAddr {
    let port = first as u16;
    if first & 1 << 16 == 0 {
        return SocketAddr::new(std::net::Ipv4Addr::from_bits(high as u32).into(), port);
    }
    let bits = u128::from(high) << 64 | u128::from(low);
    SocketAddrV6::new(Ipv6Addr::from_bits(bits), port, 0, (first >> 32) as u32).into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn cells(servers: usize) -> Vec<AtomicU64> {
        (0..servers * Findings::CELLS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn addresses_are_read_as_they_were_written() {
        let cells = cells(2);
        let [first, second] = [0, 1].map(|server| Findings::of_server(&cells, server));
        assert_eq!((first.addresses(), first.address(0)), (0, None));
        let addresses: Vec<SocketAddr> =
            ["192.0.2.1:80", "[2001:db8::1:2]:8080", "[fe80::1%7]:65535", "255.255.255.255:1"]
                .map(|text| text.parse().unwrap())
                .into();
        second.set_addresses(&addresses);
        let read: Vec<_> = (0..5).map(|number| second.address(number).unwrap()).collect();
        assert_eq!(read[..4], addresses);
        assert_eq!((read[4], second.addresses()), (addresses[0], 4), "round and round");
        assert_eq!(first.addresses(), 0);
        second.set_addresses(&[addresses[1]; ADDRESSES_MAX + 1]);
        assert_eq!(second.addresses(), ADDRESSES_MAX);
        second.set_addresses(&[]);
        assert_eq!(second.address(3), None);
    }

    #[test]
    fn a_server_is_up_until_it_is_found_to_be_down() {
        let cells = cells(2);
        let [first, second] = [0, 1].map(|server| Findings::of_server(&cells, server));
        first.set_up(false);
        assert!(!first.is_up() && second.is_up());
        first.set_up(true);
        assert!(first.is_up());
    }

    #[test]
    fn no_address_is_of_two_lists() {
        let cells = cells(1);
        let findings = Findings::of_server(&cells, 0);
        let address = |n: u128| SocketAddr::new(Ipv6Addr::from_bits(n << 64 | n).into(), n as u16);
        findings.set_addresses(&[address(0)]);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..20_000).for_each(|n| findings.set_addresses(&[address(n)]));
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let found = findings.address(0).unwrap();
                assert_eq!(found, address(found.port().into()));
            }
        });
    }
}
