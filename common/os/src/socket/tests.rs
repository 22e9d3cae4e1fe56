//! Tests of sockets against the real kernel, on the loopback device.

use super::*;
use crate::affinity::{allowed_cpus, pin_thread};
use crate::send::{recv, send};
use crate::uninterrupted;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

const V4: &str = "127.0.0.1:0";

fn listen_on(address: &str, options: &ListenOptions) -> (OwnedFd, SocketAddr) {
    let listener = listen(address.parse().unwrap(), options).unwrap();
    let address = local_addr(listener.as_fd()).unwrap();
    (listener, address)
}

/// Repeats `call` for at least 20 s while it would block: on a busy machine even the loopback
/// device takes its time.
fn soon<T>(mut call: impl FnMut() -> io::Result<T>) -> T {
    for _ in 0..20_000 {
        match call() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result.unwrap(),
        }
    }
    panic!("nothing within 20 s");
}

fn accept_soon(listener: &OwnedFd) -> (OwnedFd, SocketAddr) {
    soon(|| accept(listener.as_fd()))
}

/// The server's and the client's end of a connection; the client's blocks for at most 20 s.
fn connected() -> (OwnedFd, TcpStream) {
    let (listener, address) = listen_on(V4, &ListenOptions::default());
    let client = TcpStream::from(connect_blocking(address).unwrap());
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (accept_soon(&listener).0, client)
}

/// Accepts `count` connections and returns how many of them each listener had.
fn shares(listeners: &[OwnedFd], count: usize) -> Vec<usize> {
    let mut shares = vec![0; listeners.len()];
    for _ in 0..count {
        let one = || {
            let accepted = listeners.iter().map(|listener| accept(listener.as_fd()));
            let taken = accepted.enumerate().find(|(_, result)| result.is_ok());
            taken.map(|(index, _)| index).ok_or(ErrorKind::WouldBlock.into())
        };
        shares[soon(one)] += 1;
    }
    shares
}

fn has_status_flag(socket: BorrowedFd<'_>, command: libc::c_int, flag: libc::c_int) -> bool {
    // SAFETY: the tests pass F_GETFL and F_GETFD, which take no pointers.
    unsafe { libc::fcntl(socket.as_raw_fd(), command) & flag != 0 }
}

#[test]
fn an_accepted_socket_knows_its_peer_and_does_not_block() {
    let (listener, address) = listen_on(V4, &ListenOptions::default());
    assert_ne!(address.port(), 0);
    assert_eq!(accept(listener.as_fd()).unwrap_err().kind(), ErrorKind::WouldBlock);

    let client = TcpStream::from(connect_blocking(address).unwrap());
    let (socket, peer) = accept_soon(&listener);
    assert_eq!(peer, client.local_addr().unwrap());
    assert_eq!(local_addr(socket.as_fd()).unwrap(), address);
    for socket in [&listener, &socket] {
        assert!(has_status_flag(socket.as_fd(), libc::F_GETFL, libc::O_NONBLOCK));
        assert!(has_status_flag(socket.as_fd(), libc::F_GETFD, libc::FD_CLOEXEC));
    }
    assert_eq!(recv(socket.as_fd(), &mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn accepted_sockets_inherit_no_delay() {
    for no_delay in [true, false] {
        let options = ListenOptions { no_delay, ..ListenOptions::default() };
        let (listener, address) = listen_on(V4, &options);
        let _client = connect_blocking(address).unwrap();
        let (socket, _) = accept_soon(&listener);
        assert_eq!(sockopt::tcp_nodelay(&socket).unwrap(), no_delay);
    }
}

#[test]
fn ipv6_sockets_serve_ipv4_clients_unless_told_otherwise() {
    if listen("[::1]:0".parse().unwrap(), &ListenOptions::default()).is_err() {
        return; // this machine has no IPv6
    }
    for ipv6_only in [false, true] {
        let options = ListenOptions { ipv6_only, ..ListenOptions::default() };
        let (listener, address) = listen_on("[::]:0", &options);
        let mut addresses = vec![address];
        if !ipv6_only {
            addresses.insert(0, SocketAddr::new("0.0.0.0".parse().unwrap(), address.port()));
        }
        assert_eq!(listening_addresses(listener.as_fd()).unwrap(), addresses);

        let _v6 =
            connect_blocking(SocketAddr::new("::1".parse().unwrap(), address.port())).unwrap();
        let (_, peer) = accept_soon(&listener);
        assert_eq!(peer.ip().to_string(), "::1");

        let v4 = connect_blocking(SocketAddr::new("127.0.0.1".parse().unwrap(), address.port()));
        assert_eq!(v4.is_err(), ipv6_only);
        if v4.is_ok() {
            let (_, peer) = accept_soon(&listener);
            assert_eq!(peer.ip().to_string(), "::ffff:127.0.0.1");
        }
    }
}

#[test]
fn an_address_in_use_is_refused() {
    let (_listener, address) = listen_on(V4, &ListenOptions::default());
    let second = listen(address, &ListenOptions::default()).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
}

#[test]
fn an_address_can_be_listened_on_again_right_after_a_restart() {
    let (listener, address) = listen_on(V4, &ListenOptions::default());
    let client = connect_blocking(address).unwrap();
    // The side that closes first keeps the address busy for a minute (TIME-WAIT).
    drop(accept_soon(&listener));
    drop((listener, client));
    // A child that another test starts listens, too, until it executes its program.
    soon(|| match listen(address, &ListenOptions::default()) {
        Err(why) if why.kind() == ErrorKind::AddrInUse => Err(ErrorKind::WouldBlock.into()),
        listener => listener,
    });
}

#[test]
fn reuse_port_deals_connections_to_all_listeners() {
    const CONNECTIONS: usize = 200;
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let (first, address) = listen_on(V4, &options);
    let second = listen(address, &options).unwrap();
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| connect_blocking(address).unwrap()).collect();
    let counts = shares(&[first, second], CONNECTIONS);
    // 200 fair coins: fewer than 50 heads has a probability of 10^-13.
    assert!(counts.iter().all(|&count| count >= 50), "{counts:?}");
    drop(clients);
}

/// One listener that was alone, and two that come after it: they get nothing until they may, and
/// nothing is lost if they go before that.
#[test]
fn listeners_that_are_opened_later_get_no_connections_until_they_may() {
    const CONNECTIONS: usize = 200;
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let (first, address) = listen_on(V4, &options);
    let connect =
        || -> Vec<_> { (0..CONNECTIONS).map(|_| connect_blocking(address).unwrap()).collect() };
    for is_kept in [false, true] {
        deal_among_first(first.as_fd(), 1).unwrap();
        let later = || listen(address, &options).unwrap();
        let listeners = [first.try_clone().unwrap(), later(), later()];
        let clients = connect();
        assert_eq!(shares(&listeners, CONNECTIONS), [CONNECTIONS, 0, 0]);
        drop(clients);
        if is_kept {
            deal_among_first(first.as_fd(), 3).unwrap();
            let clients = connect();
            let counts = shares(&listeners, CONNECTIONS);
            assert!(counts.iter().all(|&count| count >= 25), "{counts:?}");
            drop(clients);
        }
    }
}

#[test]
fn cpu_steering_gives_a_connection_to_the_listener_of_its_cpu() {
    const CONNECTIONS: usize = 20;
    let cpus: Vec<usize> = allowed_cpus().into_iter().filter(|&cpu| cpu < 16).collect();
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let (first, address) = listen_on(V4, &options);
    let mut listeners = vec![first];
    for _ in 0..cpus.iter().copied().max().unwrap_or(0) {
        listeners.push(listen(address, &options).unwrap());
    }
    attach_reuseport_cpu_steering(listeners[0].as_fd()).unwrap();
    for &cpu in &cpus {
        // On the loopback device the client's CPU handles the server's side as well.
        let connect = move || {
            pin_thread(&[cpu]).unwrap();
            (0..CONNECTIONS).map(|_| connect_blocking(address).unwrap()).collect::<Vec<_>>()
        };
        let _clients = thread::spawn(connect).join().unwrap();
        let counts = shares(&listeners, CONNECTIONS);
        assert_eq!(counts[cpu], CONNECTIONS, "from CPU {cpu}: {counts:?}");
    }
}

#[test]
fn a_deferred_connection_is_accepted_with_its_first_bytes() {
    let options = ListenOptions { defer_accept_s: 30, ..ListenOptions::default() };
    let (listener, address) = listen_on(V4, &options);
    let mut client = TcpStream::connect(address).unwrap();
    assert_eq!(accept(listener.as_fd()).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.write_all(b"GET").unwrap();
    let (socket, _) = accept_soon(&listener);
    let mut buffer = [0; 8];
    assert_eq!(soon(|| recv(socket.as_fd(), &mut buffer)), 3);
}

/// How many bytes the kernel accepts for a client that does not read.
fn taken(unsent_bytes_max: u32) -> usize {
    let options = ListenOptions { unsent_bytes_max, ..ListenOptions::default() };
    let (listener, address) = listen_on(V4, &options);
    let _client = TcpStream::connect(address).unwrap();
    let (socket, _) = accept_soon(&listener);
    let chunk = [0; 16 << 10];
    let mut taken = 0;
    loop {
        match send(socket.as_fd(), &chunk, false) {
            Ok(len) => taken += len,
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                // Bytes that are under way may still make room.
                thread::sleep(Duration::from_millis(50));
                if send(socket.as_fd(), &chunk, false).is_err() {
                    return taken;
                }
            }
        }
    }
}

#[test]
fn who_does_not_read_is_sent_no_more_than_is_allowed_to_wait() {
    let (few, many) = (taken(64 << 10), taken(0));
    // The client's own buffer is filled either way, before anything has to wait.
    assert!(few + (1 << 20) < many, "{few} {many}");
}

#[test]
fn after_shutting_down_one_side_the_other_goes_on() {
    let (socket, mut client) = connected();
    assert_eq!(send(socket.as_fd(), b"bye", false).unwrap(), 3);
    shutdown_write(socket.as_fd()).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "bye");
    client.write_all(b"thanks").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(soon(|| recv(socket.as_fd(), &mut buffer)), 6);
}

#[test]
fn linger_zero_resets_the_connection_on_close() {
    let (socket, mut client) = connected();
    assert!(take_error(socket.as_fd()).unwrap().is_none());
    set_linger_zero(socket.as_fd()).unwrap();
    drop(socket);
    let reset = uninterrupted(|| client.read(&mut [0])).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);

    let (socket, client) = connected();
    set_linger_zero(client.as_fd()).unwrap();
    drop(client);
    let error = soon(|| take_error(socket.as_fd())?.ok_or(ErrorKind::WouldBlock.into()));
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(take_error(socket.as_fd()).unwrap().is_none(), "taken");
}

#[test]
fn connecting_without_a_listener_is_refused() {
    let (listener, address) = listen_on(V4, &ListenOptions::default());
    drop(listener);
    assert_eq!(connect_blocking(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn peers_of_other_families_are_an_error() {
    let path = std::env::temp_dir().join(format!("ropewalk-os-socket-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = accept(listener.as_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EAFNOSUPPORT));
}

#[test]
fn a_blocking_receive_waits_for_its_timeout_or_for_a_shutdown() {
    let (ours, _client) = connected();
    set_blocking(ours.as_fd(), true).unwrap();
    set_receive_timeout(ours.as_fd(), 20).unwrap();
    assert_eq!(recv(ours.as_fd(), &mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    set_receive_timeout(ours.as_fd(), 0).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| recv(ours.as_fd(), &mut [0]));
        thread::sleep(Duration::from_millis(20));
        shutdown_read(ours.as_fd()).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn a_blocking_send_gives_up_on_a_reader_that_stalls() {
    let (ours, _client) = connected();
    set_blocking(ours.as_fd(), true).unwrap();
    set_send_timeout(ours.as_fd(), 20).unwrap();
    let bytes = vec![0; 64 << 20];
    assert!(send(ours.as_fd(), &bytes, false).unwrap() < bytes.len());
    // On a busy machine the kernel finds room for more after its first refusal.
    let why = (0..1000).find_map(|_| send(ours.as_fd(), &bytes, false).err()).unwrap();
    assert_eq!(why.kind(), ErrorKind::WouldBlock);
    shutdown_both(ours.as_fd()).unwrap();
    assert_eq!(send(ours.as_fd(), &bytes, false).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_wait_for_readiness_ends_with_it_or_with_its_time() {
    let (ours, mut client) = connected();
    assert!(!wait_ready(ours.as_fd(), Readiness::Readable, 10).unwrap());
    assert!(wait_ready(ours.as_fd(), Readiness::Writable, 10).unwrap());
    client.write_all(b"x").unwrap();
    assert!(wait_ready(ours.as_fd(), Readiness::Readable, 5_000).unwrap());
}

#[test]
fn input_is_bytes_and_not_an_end() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    assert!(!has_input(ours.as_fd()) && is_silent(ours.as_fd()));
    theirs.write_all(b"GET").unwrap();
    assert!(has_input(ours.as_fd()) && has_input(ours.as_fd()), "it stays");
    assert!(!is_silent(ours.as_fd()));
    assert_eq!(recv(ours.as_fd(), &mut [0; 8]).unwrap(), 3);
    assert!(is_silent(ours.as_fd()));
    drop(theirs);
    assert!(!has_input(ours.as_fd()) && !is_silent(ours.as_fd()));
}
