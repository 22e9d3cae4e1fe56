//! Which addresses, receive queues and interrupts a network interface has. Nothing is changed here.

use crate::call::check;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::ptr;

/// The addresses of this machine (of this process's network namespace), each with the name of its
/// interface.
pub fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is to a live, writable pointer of this frame.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut all = Vec::new();
    let mut next = first;
    // SAFETY: the call has made a list that ends with a null pointer; nothing else has it, and
    // nothing has freed it yet.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: an entry of the list has a NUL-terminated name, which is copied here.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address of an entry is null or as long as its family says.
        all.extend(unsafe { decode(entry.ifa_addr) }.map(|address| (name, address)));
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and what was taken from it are copies.
    unsafe { libc::freeifaddrs(first) };
    Ok(all)
}

/// An address at which other machines may reach this one, of the same family as `any`, which is
/// `0.0.0.0` or `::`: the one that packets to the rest of the world come from, or without a route
/// there, any that is neither of this machine alone nor of a single cable. Nothing is sent.
pub fn outward_address(any: IpAddr) -> Option<IpAddr> {
    let is_outward = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !(v4.is_loopback() || v4.is_link_local() || v4.is_unspecified()),
        IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified()),
    };
    let all = addresses().into_iter().flatten().map(|(_, address)| address);
    let mut others = all.filter(|address| address.is_ipv4() == any.is_ipv4());
    source_address(any).ok().filter(is_outward).or_else(|| others.find(is_outward))
}

/// The source address of packets that take the default route. To connect a datagram socket only
/// chooses it; the destinations are those of documentation (RFC 5737, RFC 3849).
fn source_address(any: IpAddr) -> io::Result<IpAddr> {
    let elsewhere: IpAddr = match any {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((elsewhere, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// Decodes an address of IPv4 or IPv6; interfaces have addresses of other families, too.
///
/// # Safety
/// The pointer is null, or to an address that is as long as its family says.
unsafe fn decode(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the pointer is null, or to at least a family, by the contract of this function.
    let family = unsafe { address.as_ref() }?.sa_family;
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says so; read as it lies, aligned or not.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says so; read as it lies, aligned or not.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The names of an interface's receive queues: `rx-0`, `rx-1`. `net` is `/sys/class/net`.
pub fn receive_queues(net: &Path, name: &str) -> Vec<String> {
    let entries = fs::read_dir(net.join(name).join("queues")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut queues: Vec<String> = names.filter(|queue| queue.starts_with("rx-")).collect();
    queues.sort_unstable();
    queues
}

/// The name of the device behind an interface, if the interface is not a virtual one.
pub fn device(net: &Path, name: &str) -> Option<String> {
    let device = fs::canonicalize(net.join(name).join("device")).ok()?;
    device.file_name()?.to_str().map(String::from)
}

/// The numbers of an interface's interrupts: those whose names contain the interface's name
/// (`eth0-rx-1`) or its device's (`virtio1-input.0`, `mlx5_comp0@pci:0000:3b:00.0`). `proc` is
/// `/proc`.
pub fn interrupts(net: &Path, proc: &Path, name: &str) -> Vec<u32> {
    let lines = fs::read_to_string(proc.join("interrupts")).unwrap_or_default();
    let device = device(net, name);
    let number = |line: &str| {
        let (number, rest) = line.trim_start().split_once(':')?;
        let is_ours = rest.split_whitespace().any(|word| {
            has_word(word, name) || device.as_ref().is_some_and(|device| has_word(word, device))
        });
        is_ours.then(|| number.parse().ok()).flatten()
    };
    lines.lines().filter_map(number).collect()
}

/// Whether `word` is in the text and is not the beginning or end of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let is_name = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.match_indices(word).any(|(at, _)| {
        !is_name(text[..at].chars().next_back()) && !is_name(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_within_a_longer_one_is_not_meant() {
        let check = |text, word, expected| assert_eq!(has_word(text, word), expected, "{text}");
        check("eth1-TxRx-0", "eth1", true);
        check("eth10-TxRx-0", "eth1", false);
        check("virtio1-input.0", "virtio1", true);
        check("mlx5_comp0@pci:0000:3b:00.0", "0000:3b:00.0", true);
        check("veth1", "eth1", false);
    }

    #[test]
    fn every_machine_has_its_own_address() {
        let all = addresses().unwrap();
        let loopback = ("lo".to_string(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(all.contains(&loopback), "{all:?}");
        assert!(all.iter().all(|(name, address)| !name.is_empty() && !address.is_unspecified()));
    }

    #[test]
    fn an_outward_address_is_of_this_machine_and_not_for_it_alone() {
        let own: Vec<IpAddr> = addresses().unwrap().into_iter().map(|(_, it)| it).collect();
        for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
            let found = outward_address(any);
            let is_right = |it: &IpAddr| {
                own.contains(it) && !it.is_loopback() && it.is_ipv4() == any.is_ipv4()
            };
            assert!(found.iter().all(is_right), "{found:?} of {own:?}");
            let has_one = own.iter().any(|it| match it {
                IpAddr::V4(v4) => any.is_ipv4() && !v4.is_loopback() && !v4.is_link_local(),
                IpAddr::V6(_) => false,
            });
            assert!(found.is_some() || !has_one, "{own:?}");
        }
    }

    #[test]
    fn other_families_are_no_addresses() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { decode(ptr::null()) }, None);
        let other = libc::sockaddr { sa_family: libc::AF_PACKET as u16, sa_data: [0; 14] };
        // SAFETY: of this family nothing but the family is read.
        assert_eq!(unsafe { decode(&raw const other) }, None);
    }
}
