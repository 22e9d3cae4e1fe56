//! Opening the listening sockets, with errors that say what to do about them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use os::socket::{self, ListenOptions};

use crate::config::{Config, ConfigError, ListenAddress, ListenerMode, item_key};
use crate::layout::ListenerSet;
use crate::start_error::{StartError, is_absent};

/// How many ports are tried where the kernel chooses one: it may be free for IPv4 and taken for
/// IPv6.
const PORTS_TRIED_MAX: usize = 16;

/// Sets of listeners: each set has one for every address of its group.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// The listeners of each set of the layout.
    pub(crate) sets: Vec<Vec<OwnedFd>>,
    /// The addresses they listen on, with the port that the kernel chose for port 0.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether all sets are the same sockets.
    pub(crate) are_shared: bool,
    /// Whether a service manager passed them.
    pub(crate) are_inherited: bool,
}

/// Takes the listeners that a service manager passed; without any, opens those of the settings.
///
/// # Errors
/// The address that cannot be listened at, and why.
pub(crate) fn open(config: &Config, sets: &[ListenerSet]) -> Result<Listeners, StartError> {
    let inherited = socket::listening_descriptors().map_err(StartError::Inherited)?;
    if !inherited.is_empty() {
        return share(inherited, sets.len());
    }
    let mut listeners = Listeners {
        sets: sets.iter().map(|_| Vec::new()).collect(),
        addresses: Vec::new(),
        are_shared: false,
        are_inherited: false,
    };
    let mut opened: Vec<ListenerSet> = Vec::new();
    for set in sets {
        if !opened.contains(set) {
            opened.push(*set);
            listeners.add_alike(config, sets, *set)?;
        }
    }
    if config.settings.socket.listeners == ListenerMode::ReusePortCpu && sets.len() > 1 {
        listeners.steer()?;
    }
    Ok(listeners)
}

/// The addresses of a set.
///
/// # Errors
/// There is no such port.
pub(crate) fn addresses(
    config: &Config,
    set: ListenerSet,
) -> Result<Vec<ListenAddress>, ConfigError> {
    let settings = &config.settings;
    let (key, addresses) = match settings.partitions.listen.get(set.group) {
        Some(addresses) => (item_key("partitions.listen", set.group), addresses),
        None => ("listen".into(), &settings.listen),
    };
    let moved = addresses.iter().enumerate().map(|(index, address)| {
        let unfit = |why| config.unfit(&item_key(&key, index), why);
        address.with_port_offset(set.port_offset).map_err(unfit)
    });
    moved.collect()
}

impl Listeners {
    /// Adds the listeners of all sets that equal `this`, which have the same addresses.
    fn add_alike(
        &mut self,
        config: &Config,
        sets: &[ListenerSet],
        this: ListenerSet,
    ) -> Result<(), StartError> {
        let alike: Vec<usize> = (0..sets.len()).filter(|&index| sets[index] == this).collect();
        let settings = &config.settings.socket;
        let options = ListenOptions {
            backlog: settings.backlog as u32,
            reuse_port: alike.len() > 1,
            defer_accept_s: settings.defer_accept_s as u32,
            no_delay: true,
            unsent_bytes_max: settings.unsent_bytes_max as u32,
            ipv6_only: true,
        };
        let mut addresses = addresses(config, this)?.into_iter();
        addresses.try_for_each(|address| self.add(address, &options, &alike))
    }

    fn add(
        &mut self,
        address: ListenAddress,
        options: &ListenOptions,
        sets: &[usize],
    ) -> Result<(), StartError> {
        let before = (self.addresses.len(), self.sets.iter().map(Vec::len).collect::<Vec<_>>());
        for _ in 1..PORTS_TRIED_MAX {
            let added = self.add_on_one_port(address, options, sets);
            let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
            match added {
                Err(StartError::Listen { why, .. }) if address.is_any_port() && is_taken(&why) => {
                    self.addresses.truncate(before.0);
                    self.sets.iter_mut().zip(&before.1).for_each(|(set, &len)| set.truncate(len));
                }
                other => return other,
            }
        }
        self.add_on_one_port(address, options, sets)
    }

    fn add_on_one_port(
        &mut self,
        address: ListenAddress,
        options: &ListenOptions,
        sets: &[usize],
    ) -> Result<(), StartError> {
        let mut port = None;
        for (index, mut one) in address.socket_addresses().into_iter().enumerate() {
            one.set_port(port.unwrap_or(one.port()));
            match self.add_one(one, options, sets) {
                Ok(bound) => port = Some(bound.port()),
                // Without IPv6 on the machine, "everywhere" means IPv4 only.
                Err(why) if index > 0 && is_absent(&why) => {}
                Err(why) => return Err(StartError::Listen { address: one, why }),
            }
        }
        Ok(())
    }

    /// Adds one listener to each of these sets. The first decides the port.
    fn add_one(
        &mut self,
        address: SocketAddr,
        options: &ListenOptions,
        sets: &[usize],
    ) -> io::Result<SocketAddr> {
        if options.reuse_port && address.port() != 0 {
            // SO_REUSEPORT would let a second server of the same user take half of the connections
            // without an error. A socket without it finds out whether the address is free.
            drop(socket::listen(address, &ListenOptions { reuse_port: false, ..options.clone() })?);
        }
        let mut bound = address;
        for &set in sets {
            let listener = socket::listen(bound, options)?;
            bound = socket::local_addr(listener.as_fd())?;
            self.sets[set].push(listener);
        }
        self.addresses.push(bound);
        Ok(bound)
    }

    /// Attaches the steering program. It applies to all listeners of an address, so attaching it to
    /// one of them is enough.
    fn steer(&self) -> Result<(), StartError> {
        self.sets.first().into_iter().flatten().try_for_each(|listener| {
            socket::attach_reuseport_cpu_steering(listener.as_fd()).map_err(StartError::DealtByCpu)
        })
    }
}

/// Shares inherited sockets among all sets, which have their queues in common: sockets cannot be
/// multiplied.
fn share(inherited: Vec<OwnedFd>, sets: usize) -> Result<Listeners, StartError> {
    let failed = StartError::Inherited;
    let addresses = inherited.iter().map(|listener| socket::listening_addresses(listener.as_fd()));
    let addresses = addresses.collect::<io::Result<Vec<_>>>().map_err(failed)?.concat();
    let copy = |_| inherited.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>();
    let mut sets = (1..sets).map(copy).collect::<io::Result<Vec<_>>>().map_err(failed)?;
    sets.push(inherited);
    Ok(Listeners { are_shared: sets.len() > 1, are_inherited: true, sets, addresses })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Among so many ports that are taken for IPv6 there is soon one that is free for IPv4.
    #[test]
    fn a_port_that_the_kernel_chooses_is_free_for_both_protocols() {
        let taken: io::Result<Vec<_>> = (0..500).map(|_| TcpListener::bind("[::1]:0")).collect();
        let taken = match taken {
            Ok(taken) => taken,
            Err(why) => return testkit::skip("ports of both protocols", &why.to_string()),
        };
        let options = ListenOptions { ipv6_only: true, ..ListenOptions::default() };
        for _ in 0..500 {
            let mut listeners = Listeners {
                sets: vec![Vec::new()],
                addresses: Vec::new(),
                are_shared: false,
                are_inherited: false,
            };
            listeners.add(ListenAddress::Localhost(0), &options, &[0]).unwrap();
            let ports: Vec<u16> = listeners.addresses.iter().map(SocketAddr::port).collect();
            assert!(ports.len() == 2 && ports[0] == ports[1], "{ports:?}");
            assert_eq!(listeners.sets[0].len(), 2);
        }
        drop(taken);
    }
}
