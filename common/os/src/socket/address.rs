//! Socket addresses between Rust's form and the kernel's. Allocates nothing.

use crate::call::error;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address in the kernel's form, with its length as passed to or by the kernel.
pub(super) struct RawAddress {
    storage: Storage,
    len: libc::socklen_t,
}

/// Every field starts with the family; all of them are plain integers, so any bytes are valid.
#[repr(C)]
union Storage {
    any: libc::sockaddr_storage,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    /// Room for any address.
    pub(super) fn empty() -> Self {
        // SAFETY: all fields are plain integers, for which zeroes are valid.
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { storage, len: size_of::<Storage>() as libc::socklen_t }
    }

    pub(super) fn encode(address: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                raw.storage.v4 = encode_v4(v4);
                raw.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                raw.storage.v6 = encode_v6(v6);
                raw.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        raw
    }

    /// The address and its length, for calls that read it.
    pub(super) fn as_parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }

    /// Room for an address and the length of that room, for calls that write both.
    pub(super) fn as_mut_parts(&mut self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        self.len = size_of::<Storage>() as libc::socklen_t;
        ((&raw mut self.storage).cast(), &raw mut self.len)
    }

    /// The address; EAFNOSUPPORT when it is neither IPv4 nor IPv6.
    pub(super) fn decode(&self) -> io::Result<SocketAddr> {
        // SAFETY: the storage was zeroed when made and is at least as large as every field, and
        // any bytes are valid in the fields, which are plain integers.
        let (family, v4, v6) =
            unsafe { (self.storage.any.ss_family, self.storage.v4, self.storage.v6) };
        match libc::c_int::from(family) {
            libc::AF_INET => Ok(decode_v4(v4).into()),
            libc::AF_INET6 => Ok(decode_v6(v6).into()),
            _ => Err(error(libc::EAFNOSUPPORT)),
        }
    }
}

fn encode_v4(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn encode_v6(address: SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: address.port().to_be(),
        sin6_flowinfo: address.flowinfo(),
        sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
        sin6_scope_id: address.scope_id(),
    }
}

fn decode_v4(raw: libc::sockaddr_in) -> SocketAddrV4 {
    let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
    SocketAddrV4::new(ip, u16::from_be(raw.sin_port))
}

fn decode_v6(raw: libc::sockaddr_in6) -> SocketAddrV6 {
    let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
    SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), raw.sin6_flowinfo, raw.sin6_scope_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_round_trip() {
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 8080, 5, 3);
        let plain = ["127.0.0.1:80", "0.0.0.0:0", "255.1.2.3:65535", "[2001:db8::1]:443", "[::]:0"];
        let plain = plain.iter().map(|text| text.parse().unwrap());
        for address in plain.chain([SocketAddr::V6(scoped)]) {
            assert_eq!(RawAddress::encode(address).decode().unwrap(), address);
        }
    }

    #[test]
    fn the_kernel_form_is_in_network_order() {
        let raw = encode_v4(SocketAddrV4::new(Ipv4Addr::new(1, 2, 3, 4), 0x0102));
        assert_eq!(raw.sin_addr.s_addr.to_ne_bytes(), [1, 2, 3, 4]);
        assert_eq!(raw.sin_port.to_ne_bytes(), [1, 2]);
    }

    #[test]
    fn other_families_are_refused() {
        let error = RawAddress::empty().decode().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EAFNOSUPPORT));
    }
}
