//! The listening sockets of a server, with errors that say what to do about them.
//!
//! A socket is opened when it is first needed, and is open until the server ends or is configured
//! to listen elsewhere: when one of several sockets at an address is closed, the kernel resets
//! clients that are on their way to it, some of which are in no queue that could be emptied first.
//! Workers have copies, so that they come and go without that.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use os::socket::{self, ListenOptions};

use crate::config::{Config, ConfigError, ListenAddress, ListenerMode, SocketSettings, item_key};
use crate::layout::ListenerSet;
use crate::report;
use crate::start_error::{StartError, is_absent};

/// How many ports are tried where the kernel chooses one: it may be free for IPv4 and taken for
/// IPv6.
const PORTS_TRIED_MAX: usize = 16;

/// The text with a listener that a service manager has passed.
const INHERITED: &str = "inherited";

/// All listening sockets of a server.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Those that a service manager passed. If there are any, there are no others: these cannot be
    /// multiplied.
    inherited: Vec<OwnedFd>,
    places: Vec<Place>,
    /// The indices of the places that the last layout uses.
    used: Vec<usize>,
}

/// One configured address, and the sockets among which the kernel divides its clients.
#[derive(Debug)]
struct Place {
    configured: ListenAddress,
    /// Several if it stands for both protocols; with the port that the kernel chose for port 0.
    addresses: Vec<SocketAddr>,
    /// Rows of a socket for each address.
    rows: Vec<Vec<OwnedFd>>,
    /// Which row gets a client.
    dealing: Dealing,
    /// What the last layout wants of all rows; those that are settled get it when its workers have
    /// started.
    options: ListenOptions,
    settled: Settled,
}

/// What stays of a place if the start of workers fails.
#[derive(Debug)]
struct Settled {
    /// The number of rows, from the first on. Rows beyond them are new, and get no clients yet
    /// unless all are new.
    rows: usize,
    dealing: Dealing,
    options: ListenOptions,
}

/// Which of several sockets at an address gets a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dealing {
    /// The kernel decides, by addresses and ports.
    Kernel,
    /// One of the first so many, at random.
    First(usize),
    /// That of the CPU that the client's first packet comes to.
    ByCpu,
}

/// The options of all listeners, by what is configured: `backlog`, `defer_accept_s`,
/// `unsent_bytes_max`.
fn options([backlog, defer_accept_s, unsent_bytes_max]: [u32; 3]) -> ListenOptions {
    ListenOptions {
        backlog,
        reuse_port: true,
        defer_accept_s,
        no_delay: true,
        unsent_bytes_max,
        ipv6_only: true,
    }
}

impl Dealing {
    fn from_word(word: &str) -> Option<Self> {
        match word {
            "kernel" => Some(Self::Kernel),
            "by-cpu" => Some(Self::ByCpu),
            _ => word.strip_prefix("first-")?.parse().ok().map(Self::First),
        }
    }
}

impl fmt::Display for Dealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::First(count) => write!(f, "first-{count}"),
            Self::ByCpu => f.write_str("by-cpu"),
        }
    }
}

/// Copies of listening sockets for a layout of workers.
#[derive(Debug)]
pub(crate) struct Dealt {
    /// The listeners of each set of the layout.
    pub(crate) sets: Vec<Vec<OwnedFd>>,
    /// The addresses they listen on.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether all sets are the same sockets.
    pub(crate) are_shared: bool,
    /// Whether a service manager passed them.
    pub(crate) are_inherited: bool,
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
    /// Takes the listeners that a service manager passed, if there are any.
    ///
    /// # Errors
    /// A descriptor that was passed is no listener.
    pub(crate) fn inherit() -> Result<Self, StartError> {
        let inherited = socket::listening_descriptors().map_err(StartError::Inherited)?;
        Ok(Self { inherited, places: Vec::new(), used: Vec::new() })
    }

    /// Copies of all, each with a text by which [`Listeners::take_over`] knows it in another
    /// process, in their order.
    pub(crate) fn copies(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let inherited = self.inherited.iter().map(|it| Ok((INHERITED.to_owned(), it.try_clone()?)));
        let places = self.places.iter().enumerate();
        let of_places = places.flat_map(|(index, place)| {
            place.rows.iter().enumerate().flat_map(move |(row, sockets)| {
                sockets.iter().zip(&place.addresses).map(move |(socket, address)| {
                    let Place { configured, dealing, options, .. } = place;
                    let ListenOptions { backlog, defer_accept_s, unsent_bytes_max, .. } = options;
                    let text = format!(
                        "{index} {row} {configured} {address} {dealing} {backlog} \
                         {defer_accept_s} {unsent_bytes_max}"
                    );
                    Ok((text, socket.try_clone()?))
                })
            })
        });
        inherited.chain(of_places).collect()
    }

    /// Goes on with the listeners of another process.
    ///
    /// # Errors
    /// A text that does not describe one.
    pub(crate) fn take_over(copies: Vec<(String, OwnedFd)>) -> io::Result<Self> {
        let mut listeners = Self { inherited: Vec::new(), places: Vec::new(), used: Vec::new() };
        for (text, socket) in copies {
            match text == INHERITED {
                true => listeners.inherited.push(socket),
                false => {
                    let unknown = || io::Error::other(format!("{text:?} is no listener"));
                    listeners.add(&text, socket).ok_or_else(unknown)?;
                }
            }
        }
        listeners.places.iter_mut().for_each(Place::note_settled);
        Ok(listeners)
    }

    /// Adds one that is described so; none if it is not what follows.
    fn add(&mut self, text: &str, socket: OwnedFd) -> Option<()> {
        let words: Vec<&str> = text.split(' ').collect();
        let [index, row, configured, address, dealing, numbers @ ..] = &words[..] else {
            return None;
        };
        let numbers = numbers.iter().map(|word| word.parse().ok()).collect::<Option<Vec<_>>>()?;
        let numbers: [u32; 3] = numbers.try_into().ok()?;
        let (index, row): (usize, usize) = (index.parse().ok()?, row.parse().ok()?);
        if index == self.places.len() {
            let mut place = Place::new(configured.parse().ok()?, options(numbers));
            place.dealing = Dealing::from_word(dealing)?;
            self.places.push(place);
        }
        let place = self.places.get_mut(index)?;
        if row == place.rows.len() {
            place.rows.push(Vec::new());
        }
        place.rows.get_mut(row)?.push(socket);
        if row == 0 {
            place.addresses.push(address.parse().ok()?);
        }
        Some(())
    }

    /// Copies the listeners for a layout with these sets, and opens those that are missing. After
    /// the start of the workers that they are for [`Listeners::settle`] or [`Listeners::give_back`]
    /// is called.
    ///
    /// # Errors
    /// The address that cannot be listened at, and why. Nothing has changed then.
    pub(crate) fn deal(
        &mut self,
        config: &Config,
        sets: &[ListenerSet],
    ) -> Result<Dealt, StartError> {
        if !self.inherited.is_empty() {
            return self.share(sets.len());
        }
        let dealt = self.open_missing(config, sets);
        if dealt.is_err() {
            self.give_back();
        }
        dealt
    }

    fn open_missing(&mut self, config: &Config, sets: &[ListenerSet]) -> Result<Dealt, StartError> {
        let mut dealt = Dealt {
            sets: sets.iter().map(|_| Vec::new()).collect(),
            addresses: Vec::new(),
            are_shared: false,
            are_inherited: false,
        };
        self.used.clear();
        for (index, set) in sets.iter().enumerate() {
            if sets[..index].contains(set) {
                continue;
            }
            let alike: Vec<usize> = (0..sets.len()).filter(|&other| sets[other] == *set).collect();
            for address in addresses(config, *set)? {
                let settings = &config.settings.socket;
                let place = self.place(address, alike.len(), settings)?;
                dealt.addresses.extend(&place.addresses);
                place.copy_to(&alike, &mut dealt.sets)?;
            }
        }
        Ok(dealt)
    }

    /// A place of an address that the layout does not use yet, with at least so many rows.
    fn place(
        &mut self,
        address: ListenAddress,
        rows: usize,
        settings: &SocketSettings,
    ) -> Result<&Place, StartError> {
        let SocketSettings { backlog, defer_accept_s, unsent_bytes_max, .. } = settings;
        let numbers = [backlog, defer_accept_s, unsent_bytes_max];
        let options = options(numbers.map(|number| *number as u32));
        let mut places = self.places.iter().enumerate();
        let is_free = |(index, place): &(usize, &Place)| {
            place.configured == address && !self.used.contains(index)
        };
        let index = places.find(is_free).map_or(self.places.len(), |(index, _)| index);
        self.used.push(index);
        if index == self.places.len() {
            self.places.push(Place::open(address, &options)?);
        }
        let place = &mut self.places[index];
        place.options = options;
        place.grow(rows)?;
        if settings.listeners == ListenerMode::ReusePortCpu && place.settled.rows == 0 {
            place.deal(Dealing::ByCpu).map_err(StartError::DealtByCpu)?;
        }
        Ok(place)
    }

    /// Has the workers that have started get their clients. Returns the addresses that none of them
    /// listens at any more, those that leave close them last; and what the kernel refuses of what
    /// is configured.
    pub(crate) fn settle(&mut self, mode: ListenerMode) -> (Vec<SocketAddr>, Vec<StartError>) {
        let mut closed = Vec::new();
        for index in (0..self.places.len()).rev().filter(|index| !self.used.contains(index)) {
            closed.extend(self.places.remove(index).addresses);
        }
        let refused = self.places.iter_mut().flat_map(|place| place.settle(mode)).collect();
        (closed, refused)
    }

    /// Closes what was opened for workers that have not started, and has clients dealt out as
    /// before. No client has been given to what was opened.
    pub(crate) fn give_back(&mut self) {
        self.places.retain(|place| place.settled.rows > 0);
        let outcomes = self.places.iter_mut().map(Place::give_back);
        for why in outcomes.filter_map(Result::err) {
            report(&format!("clients are dealt out otherwise than before: {why}"));
        }
    }

    /// Closes all of them here; the workers' copies stay open.
    pub(crate) fn close(&mut self) {
        self.inherited.clear();
        self.places.clear();
    }

    /// Copies inherited sockets for each set: all have their queues in common.
    fn share(&self, sets: usize) -> Result<Dealt, StartError> {
        let failed = StartError::Inherited;
        let addresses = self.inherited.iter();
        let addresses = addresses.map(|listener| socket::listening_addresses(listener.as_fd()));
        let addresses = addresses.collect::<io::Result<Vec<_>>>().map_err(failed)?.concat();
        let copy = |_| self.inherited.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>();
        let sets = (0..sets).map(copy).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        Ok(Dealt { are_shared: sets.len() > 1, are_inherited: true, sets, addresses })
    }
}

impl Place {
    /// A place without a row.
    fn new(configured: ListenAddress, options: ListenOptions) -> Self {
        Self {
            configured,
            addresses: Vec::new(),
            rows: Vec::new(),
            dealing: Dealing::Kernel,
            settled: Settled { rows: 0, dealing: Dealing::Kernel, options: options.clone() },
            options,
        }
    }

    /// Opens the first row of an address.
    fn open(address: ListenAddress, options: &ListenOptions) -> Result<Self, StartError> {
        for _ in 1..PORTS_TRIED_MAX {
            let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
            match Self::open_on_one_port(address, options) {
                Err(StartError::Listen { why, .. }) if address.is_any_port() && is_taken(&why) => {}
                other => return other,
            }
        }
        Self::open_on_one_port(address, options)
    }

    fn open_on_one_port(
        configured: ListenAddress,
        options: &ListenOptions,
    ) -> Result<Self, StartError> {
        let (mut row, mut addresses) = (Vec::new(), Vec::<SocketAddr>::new());
        for (index, mut one) in configured.socket_addresses().into_iter().enumerate() {
            one.set_port(addresses.first().map_or(one.port(), SocketAddr::port));
            match listen_first(one, options) {
                Ok((listener, bound)) => {
                    row.push(listener);
                    addresses.push(bound);
                }
                // Without IPv6 on the machine, "everywhere" means IPv4 only.
                Err(why) if index > 0 && is_absent(&why) => {}
                Err(why) => return Err(StartError::Listen { address: one, why }),
            }
        }
        Ok(Self { addresses, rows: vec![row], ..Self::new(configured, options.clone()) })
    }

    /// Adds rows until there are at least so many. Where clients come already, new rows get none.
    fn grow(&mut self, rows: usize) -> Result<(), StartError> {
        if self.settled.rows > 0 && self.rows.len() < rows {
            self.deal(Dealing::First(self.settled.rows)).map_err(StartError::NewListeners)?;
        }
        while self.rows.len() < rows {
            let open = |&address: &SocketAddr| {
                socket::listen(address, &self.options)
                    .map_err(|why| StartError::Listen { address, why })
            };
            let row = self.addresses.iter().map(open).collect::<Result<_, _>>()?;
            self.rows.push(row);
        }
        Ok(())
    }

    /// Has all rows get their clients, as they are configured. Returns what the kernel refuses.
    fn settle(&mut self, mode: ListenerMode) -> Vec<StartError> {
        let wanted = match (mode, self.dealing) {
            (ListenerMode::ReusePortCpu, _) => Dealing::ByCpu,
            (_, Dealing::Kernel) => Dealing::Kernel,
            _ => Dealing::First(self.rows.len()),
        };
        let changed = self.change_options();
        let dealt = self.deal(wanted).map_err(StartError::DealtByCpu);
        self.note_settled();
        [changed, dealt].into_iter().filter_map(Result::err).collect()
    }

    /// Changes the options of rows that were opened with others.
    fn change_options(&self) -> Result<(), StartError> {
        let Settled { rows, options: former, .. } = &self.settled;
        if *former == self.options {
            return Ok(());
        }
        let rows = self.rows.iter().take(*rows);
        let mut sockets = rows.flat_map(|row| row.iter().zip(&self.addresses));
        sockets.try_for_each(|(listener, &address)| {
            socket::change_options(listener.as_fd(), former, &self.options)
                .map_err(|why| StartError::Listen { address, why })
        })
    }

    fn note_settled(&mut self) {
        let (rows, dealing, options) = (self.rows.len(), self.dealing, self.options.clone());
        self.settled = Settled { rows, dealing, options };
    }

    /// Is again as it was when it was settled.
    fn give_back(&mut self) -> io::Result<()> {
        self.rows.truncate(self.settled.rows);
        self.options = self.settled.options.clone();
        self.deal(self.settled.dealing)
    }

    /// Has clients dealt out in another way. That applies to all sockets at an address, so the
    /// first of them is enough.
    fn deal(&mut self, dealing: Dealing) -> io::Result<()> {
        if self.dealing == dealing {
            return Ok(());
        }
        let attach = |listener: BorrowedFd<'_>| match dealing {
            Dealing::Kernel => socket::deal_as_usual(listener),
            Dealing::First(count) => socket::deal_among_first(listener, count as u32),
            Dealing::ByCpu => socket::attach_reuseport_cpu_steering(listener),
        };
        self.rows.iter().take(1).flatten().try_for_each(|listener| attach(listener.as_fd()))?;
        self.dealing = dealing;
        Ok(())
    }

    /// Copies the rows to these sets in turn, so that each row is in a set.
    fn copy_to(&self, alike: &[usize], sets: &mut [Vec<OwnedFd>]) -> Result<(), StartError> {
        let failed = StartError::system("share a listener");
        for (row, &set) in self.rows.iter().zip(alike.iter().cycle()) {
            for listener in row {
                sets[set].push(listener.try_clone().map_err(&failed)?);
            }
        }
        Ok(())
    }
}

/// Opens a listener at an address where no other program may listen. Returns it with its address.
fn listen_first(address: SocketAddr, options: &ListenOptions) -> io::Result<(OwnedFd, SocketAddr)> {
    let alone = || socket::listen(address, &ListenOptions { reuse_port: false, ..options.clone() });
    if address.port() != 0 {
        // SO_REUSEPORT would let a second server of the same user take half of the connections
        // without an error. A socket without it finds out whether the address is free.
        drop(alone()?);
    }
    // Where the kernel or the filter of a container refuses the option, there can be one socket.
    let listener = socket::listen(address, options).or_else(|_| alone())?;
    let bound = socket::local_addr(listener.as_fd())?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;
    use crate::config::Arguments;

    /// Among so many ports that are taken for IPv6 there is soon one that is free for IPv4.
    #[test]
    fn a_port_that_the_kernel_chooses_is_free_for_both_protocols() {
        let taken: io::Result<Vec<_>> = (0..500).map(|_| TcpListener::bind("[::1]:0")).collect();
        let taken = match taken {
            Ok(taken) => taken,
            Err(why) => return testkit::skip("ports of both protocols", &why.to_string()),
        };
        let options =
            ListenOptions { reuse_port: true, ipv6_only: true, ..ListenOptions::default() };
        for _ in 0..500 {
            let place = Place::open(ListenAddress::Localhost(0), &options).unwrap();
            let ports: Vec<u16> = place.addresses.iter().map(SocketAddr::port).collect();
            assert!(ports.len() == 2 && ports[0] == ports[1], "{ports:?}");
            assert_eq!(place.rows[0].len(), 2);
        }
        drop(taken);
    }

    /// The sets of a layout with so many workers, each with listeners of its own.
    fn deal(listeners: &mut Listeners, config: &Config, workers: usize) -> Dealt {
        let sets = vec![ListenerSet { group: 0, port_offset: 0 }; workers];
        listeners.deal(config, &sets).unwrap()
    }

    #[track_caller]
    fn settle(listeners: &mut Listeners, mode: ListenerMode) {
        let (_, refused) = listeners.settle(mode);
        assert!(refused.is_empty(), "{refused:?}");
    }

    /// The listeners of one worker, which has started, at a port that the kernel has chosen.
    fn of_one_worker() -> (Config, Listeners, Dealt) {
        let mut config = Config::load(&Arguments::default()).unwrap();
        config.settings.listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.settings.socket.defer_accept_s = 0;
        let mut listeners =
            Listeners { inherited: Vec::new(), places: Vec::new(), used: Vec::new() };
        let one = deal(&mut listeners, &config, 1);
        settle(&mut listeners, ListenerMode::Auto);
        (config, listeners, one)
    }

    /// How many of 200 clients each listener of these sets gets.
    fn shares(dealt: &Dealt) -> Vec<usize> {
        const CLIENTS: usize = 200;
        let connect = |_| TcpStream::connect(dealt.addresses[0]).unwrap();
        let clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
        let all: Vec<&OwnedFd> = dealt.sets.iter().flatten().collect();
        let mut counts = vec![0; all.len()];
        let mut refusals = HashSet::new();
        let have_come = testkit::comes_true(|| {
            for (listener, count) in all.iter().zip(&mut counts) {
                let mut accept = || {
                    let accepted = socket::accept(listener.as_fd());
                    accepted.map_err(|why| refusals.insert(why.to_string())).ok()
                };
                *count += std::iter::from_fn(&mut accept).count();
            }
            counts.iter().sum::<usize>() >= CLIENTS
        });
        assert!(have_come, "{counts:?} of {CLIENTS}, {refusals:?}");
        drop(clients);
        counts
    }

    /// Workers change from one to three and to two. The three fail to start once.
    #[test]
    fn listeners_are_added_when_they_are_needed_and_go_to_fewer_workers_together() {
        let (mut config, mut listeners, one) = of_one_worker();
        assert_eq!(shares(&one), [200]);

        config.settings.socket.backlog = 511;
        assert_eq!(shares(&deal(&mut listeners, &config, 3)), [200, 0, 0], "they may not start");
        listeners.give_back();
        assert_eq!(shares(&one), [200]);
        let three = deal(&mut listeners, &config, 3);
        settle(&mut listeners, ListenerMode::Auto);
        assert!(shares(&three).iter().all(|&count| count >= 25));
        assert_eq!((three.addresses, three.sets.len()), (one.addresses, 3));

        let two = deal(&mut listeners, &config, 2);
        settle(&mut listeners, ListenerMode::Auto);
        assert_eq!(two.sets.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(shares(&two).iter().all(|&count| count >= 25));
    }

    #[test]
    fn options_of_listeners_change_when_workers_have_started() {
        let (mut config, mut listeners, one) = of_one_worker();
        config.settings.socket.defer_accept_s = 60;
        deal(&mut listeners, &config, 1);
        listeners.give_back();
        assert_eq!(shares(&one), [200], "clients that send nothing");
        deal(&mut listeners, &config, 1);
        settle(&mut listeners, ListenerMode::Auto);
        let _silent = TcpStream::connect(one.addresses[0]).unwrap();
        let why = socket::accept(one.sets[0][0].as_fd()).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
    }

    /// Another listener at the same address gets clients only if the kernel decides.
    #[test]
    fn the_kernel_decides_again_when_more_workers_do_not_start() {
        let (config, mut listeners, mut dealt) = of_one_worker();
        deal(&mut listeners, &config, 3);
        listeners.give_back();
        let options = &listeners.places[0].options;
        dealt.sets.push(vec![socket::listen(dealt.addresses[0], options).unwrap()]);
        let counts = shares(&dealt);
        assert!(counts.iter().all(|&count| count >= 50), "{counts:?}");
    }

    #[test]
    fn clients_are_dealt_out_by_cpu_again_when_more_workers_do_not_start() {
        let (mut config, mut listeners, _) = of_one_worker();
        config.settings.socket.listeners = ListenerMode::ReusePortCpu;
        let cpu = os::affinity::allowed_cpus()[0];
        let workers = cpu + 2;
        let dealt = deal(&mut listeners, &config, workers);
        settle(&mut listeners, ListenerMode::ReusePortCpu);
        deal(&mut listeners, &config, workers + 1);
        listeners.give_back();
        let of_that_cpu = || {
            os::affinity::pin_thread(&[cpu]).unwrap();
            shares(&dealt)
        };
        let counts = thread::scope(|scope| scope.spawn(of_that_cpu).join().unwrap());
        assert_eq!(counts[cpu], 200, "{counts:?}");
    }

    /// The kernel deals nothing out at the first of two addresses: it has a socket to itself.
    #[test]
    fn an_address_at_which_the_kernel_refuses_leaves_the_others_settled() {
        let (mut config, mut listeners, _) = of_one_worker();
        listeners.places[0].rows = vec![vec![TcpListener::bind("127.0.0.1:0").unwrap().into()]];
        let addresses = config.settings.listen.clone();
        config.settings.partitions.listen = vec![addresses.clone(), addresses];
        let sets = [0, 1, 1].map(|group| ListenerSet { group, port_offset: 0 });
        listeners.deal(&config, &sets[..2]).unwrap();
        settle(&mut listeners, ListenerMode::Auto);
        listeners.deal(&config, &sets).unwrap();
        let (_, refused) = listeners.settle(ListenerMode::ReusePortCpu);
        assert!(matches!(refused[..], [StartError::DealtByCpu(_)]), "{refused:?}");
        let other = &listeners.places[1];
        assert_eq!((other.settled.rows, other.dealing), (2, Dealing::ByCpu));
    }

    #[test]
    fn an_address_that_is_taken_leaves_all_as_it_was() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let (mut config, mut listeners, one) = of_one_worker();
        config.settings.listen.push(ListenAddress::One(taken));
        let sets = [ListenerSet { group: 0, port_offset: 0 }; 2];
        let why = listeners.deal(&config, &sets).unwrap_err();
        assert!(matches!(why, StartError::Listen { address, .. } if address == taken), "{why}");
        assert_eq!((listeners.places.len(), listeners.places[0].rows.len()), (1, 1));
        assert_eq!(shares(&one), [200]);
    }
}
