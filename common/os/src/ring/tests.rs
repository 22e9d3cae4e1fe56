//! Rings against real sockets: exhaustion, cancellation, ends of operations that repeat.

use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

const SIZES: Sizes = Sizes { entries: 8, buffers: 4, buffer_bytes: 64, direct: 0 };

/// A ring, or nothing where this process may have none, which is printed.
fn ring(sizes: Sizes) -> Option<Ring> {
    match Ring::new(sizes) {
        Ok(ring) => Some(ring),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Two ends of a TCP connection, the first one non-blocking.
fn connected() -> (Rc<Descriptor>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (shared(ours), theirs)
}

fn shared(socket: impl Into<OwnedFd>) -> Rc<Descriptor> {
    Rc::new(socket.into().into())
}

/// A ring with a table of `places` places, and a listener; nothing where this process may have
/// none.
fn direct(places: u32) -> Option<(Ring, Rc<Descriptor>, SocketAddr)> {
    let ring = ring(Sizes { direct: places, ..SIZES })?;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    Some((ring, shared(listener), address))
}

/// Connects a client, and accepts its connection: one, or as the first of `many`.
fn welcome(
    ring: &mut Ring,
    listener: &Rc<Descriptor>,
    address: SocketAddr,
    many: bool,
) -> (TcpStream, Rc<Descriptor>) {
    ring.accept(0, listener, many);
    let theirs = TcpStream::connect(address).unwrap();
    (theirs, accept(ring).unwrap())
}

/// The connection that was accepted.
fn accept(ring: &mut Ring) -> Result<Rc<Descriptor>, Option<i32>> {
    match next(ring) {
        Some(Event::Accepted { result: Ok(ours), .. }) => Ok(Rc::new(ours)),
        Some(Event::Accepted { result: Err(why), .. }) => Err(why.raw_os_error()),
        other => panic!("{other:?}"),
    }
}

/// The next event; none if nothing happens for two seconds.
fn next(ring: &mut Ring) -> Option<Event> {
    for _ in 0..20 {
        if let Some(event) = ring.next_event() {
            return Some(event);
        }
        ring.wait(Some(100_000)).unwrap();
    }
    None
}

/// What was received, and whether that was the last event; the buffer is given back.
fn take(ring: &mut Ring) -> (Result<Vec<u8>, i32>, bool) {
    let Some(Event::Received { result, is_last, .. }) = next(ring) else { panic!("no bytes") };
    let bytes = result.map_err(|why| why.raw_os_error().unwrap()).map(|received| {
        received.map_or(Vec::new(), |received| {
            let bytes = ring.bytes(&received).to_vec();
            ring.give_back(received);
            bytes
        })
    });
    (bytes, is_last)
}

#[test]
fn a_receive_repeats_until_the_end_of_the_stream() {
    let Some(mut ring) = ring(SIZES) else { return };
    let (ours, mut theirs) = connected();
    ring.receive(7, &ours, true);
    for _ in 0..20 {
        theirs.write_all(b"ping").unwrap();
        assert_eq!(take(&mut ring), (Ok(b"ping".to_vec()), false));
    }
    drop(theirs);
    assert_eq!(take(&mut ring), (Ok(Vec::new()), true));
    assert_eq!(Rc::strong_count(&ours), 1, "the ring has let go of the socket");
}

#[test]
fn a_receive_that_does_not_repeat_ends_with_what_it_got() {
    let Some(mut ring) = ring(SIZES) else { return };
    let (ours, mut theirs) = connected();
    ring.receive(7, &ours, false);
    theirs.write_all(b"ping").unwrap();
    assert_eq!(take(&mut ring), (Ok(b"ping".to_vec()), true));
}

#[test]
fn a_receive_without_buffers_ends_and_can_begin_again_without_loss() {
    let Some(mut ring) = ring(Sizes { buffers: 2, ..SIZES }) else { return };
    let (ours, mut theirs) = connected();
    let sent: Vec<u8> = (0..255).collect();
    theirs.write_all(&sent).unwrap();
    ring.receive(7, &ours, true);
    let mut kept = Vec::new();
    loop {
        let Some(Event::Received { result, is_last, .. }) = next(&mut ring) else { panic!() };
        match result {
            Ok(received) => kept.push(received.unwrap()),
            Err(why) => {
                assert_eq!((why.raw_os_error(), is_last), (Some(libc::ENOBUFS), true));
                break;
            }
        }
    }
    assert_eq!(kept.len(), 2);
    let mut got = Vec::new();
    for received in kept {
        got.extend_from_slice(ring.bytes(&received));
        ring.give_back(received);
    }
    while got.len() < sent.len() {
        ring.receive(7, &ours, true);
        loop {
            match take(&mut ring) {
                (Ok(bytes), false) => got.extend_from_slice(&bytes),
                (Err(libc::ENOBUFS), true) => break,
                other => panic!("{other:?}"),
            }
            if got.len() == sent.len() {
                break;
            }
        }
    }
    assert_eq!(got, sent);
}

#[test]
fn what_is_cancelled_ends_and_keeps_nothing() {
    let Some(mut ring) = ring(SIZES) else { return };
    let (ours, _theirs) = connected();
    let receiving = ring.receive(7, &ours, true);
    ring.wait(Some(0)).unwrap();
    ring.cancel(receiving);
    assert_eq!(take(&mut ring), (Err(libc::ECANCELED), true));
    assert_eq!(Rc::strong_count(&ours), 1);
    ring.cancel(receiving); // it has ended: nothing happens
    ring.wait(Some(1000)).unwrap();
    assert!(ring.next_event().is_none());
}

#[test]
fn more_than_fits_the_queue_is_done_all_the_same() {
    let Some(mut ring) = ring(SIZES) else { return };
    let pairs: Vec<_> = (0..50).map(|_| connected()).collect();
    for (key, (ours, _)) in pairs.iter().enumerate() {
        ring.send(key as u64, ours, [b"he", b"llo"], false);
    }
    let mut keys: Vec<u64> = (0..50)
        .map(|_| match next(&mut ring) {
            Some(Event::Sent { key, result }) => {
                assert_eq!(result.unwrap(), 5);
                key
            }
            other => panic!("{other:?}"),
        })
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..50).collect::<Vec<_>>());
    for (_, mut theirs) in pairs {
        let mut bytes = [0; 5];
        theirs.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }
}

#[test]
fn a_send_waits_for_room_and_keeps_its_bytes() {
    let Some(mut ring) = ring(SIZES) else { return };
    let (ours, mut theirs) = connected();
    let piece = vec![b'x'; 100_000];
    let mut sent = 0;
    // Repeats until an operation does not end at once: the socket is full.
    loop {
        ring.send(1, &ours, [&piece, b""], false);
        ring.wait(Some(50_000)).unwrap();
        match ring.next_event() {
            Some(Event::Sent { result, .. }) => sent += result.unwrap(),
            Some(other) => panic!("{other:?}"),
            None => break,
        }
    }
    let mut bytes = vec![0; sent];
    theirs.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == b'x'));
    assert!(matches!(next(&mut ring), Some(Event::Sent { result: Ok(1..), .. })));
}

#[test]
fn an_accept_repeats_and_ends_when_it_is_cancelled() {
    let Some(mut ring) = ring(SIZES) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = shared(listener);
    let accepting = ring.accept(3, &listener, true);
    for _ in 0..20 {
        let _theirs = TcpStream::connect(address).unwrap();
        let event = next(&mut ring);
        assert!(matches!(event, Some(Event::Accepted { result: Ok(_), is_last: false, .. })));
    }
    ring.cancel(accepting);
    let event = next(&mut ring);
    assert!(matches!(event, Some(Event::Accepted { result: Err(_), is_last: true, .. })));
}

#[test]
fn readiness_is_told_once() {
    let Some(mut ring) = ring(SIZES) else { return };
    let (ours, mut theirs) = connected();
    ring.poll_readable(1, &ours);
    ring.wait(Some(0)).unwrap();
    assert!(ring.next_event().is_none());
    theirs.write_all(b"x").unwrap();
    assert!(matches!(next(&mut ring), Some(Event::Ready { key: 1 })));
    ring.poll_writable(2, &ours);
    assert!(matches!(next(&mut ring), Some(Event::Ready { key: 2 })));
}

#[test]
fn a_ring_that_goes_lets_go_of_everything() {
    let Some(mut ring) = ring(SIZES) else { return };
    let pairs: Vec<_> = (0..30).map(|_| connected()).collect();
    for (key, (ours, _)) in pairs.iter().enumerate() {
        ring.receive(key as u64, ours, true);
    }
    drop(ring);
    assert!(pairs.iter().all(|(ours, _)| Rc::strong_count(ours) == 1));
}

#[test]
fn a_buffer_of_another_ring_shows_nothing() {
    let (Some(mut first), Some(second)) = (ring(SIZES), ring(SIZES)) else { return };
    let (ours, mut theirs) = connected();
    first.receive(1, &ours, true);
    theirs.write_all(b"secret").unwrap();
    let Some(Event::Received { result: Ok(Some(received)), .. }) = next(&mut first) else {
        panic!("no bytes")
    };
    assert_eq!(second.bytes(&received), b"");
    assert_eq!(first.bytes(&received), b"secret");
    first.give_back(received);
}

#[test]
fn a_refusal_is_explained_in_one_line() {
    for code in [libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::ENOMEM] {
        let text = explain(&error(code)).to_string();
        assert!(text.contains("io_uring") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn a_direct_descriptor_serves_all_operations_and_is_closed_with_its_last_share() {
    let Some((mut ring, listener, address)) = direct(4) else { return };
    for many in [false, true] {
        let accepting = ring.accept(0, &listener, many);
        let mut theirs = TcpStream::connect(address).unwrap();
        let ours = accept(&mut ring).unwrap();
        ring.cancel(accepting);
        if many {
            assert!(accept(&mut ring).is_err());
        }
        assert!(ours.is_direct());
        let receiving = ring.receive(1, &ours, true);
        theirs.write_all(b"ping").unwrap();
        assert_eq!(take(&mut ring), (Ok(b"ping".to_vec()), false));
        ring.send(2, &ours, [b"po", b"ng"], false);
        assert!(matches!(next(&mut ring), Some(Event::Sent { key: 2, result: Ok(4) })));
        ring.poll_writable(3, &ours);
        assert!(matches!(next(&mut ring), Some(Event::Ready { key: 3 })));
        ring.cancel(receiving);
        drop(ours);
        assert_eq!(take(&mut ring), (Err(libc::ECANCELED), true));
        ring.wait(Some(0)).unwrap();
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"pong");
    }
}

#[test]
fn a_direct_descriptor_becomes_an_ordinary_one_and_nothing_else_is_lost() {
    let Some((mut ring, listener, address)) = direct(8) else { return };
    let (mut theirs, ours) = welcome(&mut ring, &listener, address, true);
    // More is submitted than fits, and more completes, before the descriptor is made.
    for key in 0..50 {
        ring.send(key, &ours, [b"x", b""], false);
    }
    let before = crate::socket::peer_addr(ring.ordinary(&ours).unwrap()).unwrap();
    assert_eq!(before, theirs.local_addr().unwrap());
    let first = ring.ordinary(&ours).unwrap().as_raw_fd();
    assert_eq!(ring.ordinary(&ours).unwrap().as_raw_fd(), first, "it is made once");
    let mut keys: Vec<u64> = (0..50)
        .map(|_| match next(&mut ring) {
            Some(Event::Sent { key, result: Ok(1) }) => key,
            other => panic!("{other:?}"),
        })
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..50).collect::<Vec<_>>());
    theirs.read_exact(&mut [0; 50]).unwrap();
    drop(ours);
    ring.wait(Some(0)).unwrap();
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "both are closed");
}

#[test]
fn places_that_were_given_up_are_taken_again() {
    let Some((mut ring, listener, address)) = direct(1) else { return };
    for _ in 0..5 {
        let (_theirs, ours) = welcome(&mut ring, &listener, address, false);
        ring.accept(0, &listener, false);
        let mut without = TcpStream::connect(address).unwrap();
        assert_eq!(accept(&mut ring).unwrap_err(), Some(libc::ENFILE));
        assert_eq!(without.read(&mut [0; 1]).unwrap_or(0), 0, "he is cut off");
        drop(ours);
    }
}

#[test]
fn a_direct_descriptor_of_another_ring_is_none() {
    let (Some((mut first, listener, address)), Some((mut second, ..))) = (direct(1), direct(1))
    else {
        return;
    };
    let (_theirs, ours) = welcome(&mut first, &listener, address, false);
    second.receive(1, &ours, true);
    assert_eq!(take(&mut second), (Err(libc::EBADF), true));
    assert_eq!(second.ordinary(&ours).unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert!(first.ordinary(&ours).is_ok());
}

#[test]
fn a_ring_that_goes_closes_what_was_in_its_table() {
    let Some((mut ring, listener, address)) = direct(4) else { return };
    let (mut theirs, ours) = welcome(&mut ring, &listener, address, true);
    ring.receive(1, &ours, true);
    drop(ours); // its operation has the last share
    drop(ring);
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
}
