//! What is parked holds no thread, whoever ends it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use os::epoll::EventBuffer;

use super::*;
use crate::parts::house::tests::{admit, house};

const GET: &[u8] = b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n";

/// A lot, and what its acceptor would do for it.
struct Yard {
    lot: Lot,
    events: EventBuffer,
}

impl Yard {
    fn new(threads: usize) -> Self {
        let plan = LotPlan { name: "test", threads, queue: 64, stack_bytes: 256 * 1024 };
        let epoll = Arc::new(Epoll::new().unwrap());
        let mut lot = Lot::new(Arc::new(house(usize::MAX)), &epoll, plan);
        lot.begin().unwrap();
        Self { lot, events: EventBuffer::with_capacity(64) }
    }

    fn admit(&mut self) -> UnixStream {
        let (arrival, client) = admit(&self.lot.shared.house);
        client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        assert!(self.lot.dispatch(arrival));
        client
    }

    fn turn(&mut self) {
        self.lot.shared.epoll.wait(&mut self.events, Some(5)).unwrap();
        let keys: Vec<u64> = self.events.iter().map(|event| event.key).collect();
        keys.into_iter().for_each(|key| self.lot.ready(key));
    }

    /// Turns until the client has received something, or the end.
    fn read(&mut self, client: &mut UnixStream) -> usize {
        for _ in 0..2000 {
            self.turn();
            if let Ok(n) = client.read(&mut [0; 4096]) {
                return n;
            }
        }
        panic!("nothing in twenty seconds");
    }

    fn turn_until(&mut self, condition: impl Fn(&Lot) -> bool) {
        for _ in 0..4000 {
            if condition(&self.lot) {
                return;
            }
            self.turn();
        }
        panic!("it has not come true in twenty seconds");
    }
}

fn waiting(lot: &Lot) -> usize {
    lot.shared.lock().waiting
}

#[test]
fn one_thread_serves_many_clients_that_stay() {
    let mut yard = Yard::new(1);
    let mut clients: Vec<UnixStream> = (0..20).map(|_| yard.admit()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.write_all(GET).unwrap();
            assert!(yard.read(client) > 0);
        }
    }
    yard.turn_until(|lot| waiting(lot) == 1);
    assert!(!yard.lot.is_idle(), "all are still there");
    let parked = yard.lot.shared.lock().places.iter().filter(|p| p.car.is_some()).count();
    assert_eq!(parked, 20);
    drop(clients);
    yard.turn_until(Lot::is_idle);
    yard.lot.finish();
}

#[test]
fn who_is_parked_can_be_closed_from_outside() {
    let mut yard = Yard::new(1);
    let (mut first, mut second) = (yard.admit(), yard.admit());
    first.write_all(GET).unwrap();
    assert!(yard.read(&mut first) > 0);
    yard.turn_until(|lot| waiting(lot) == 1);
    assert!(yard.lot.shared.house.evict());
    assert_eq!(yard.read(&mut second), 0, "the second has rested longest");
    first.write_all(GET).unwrap();
    assert!(yard.read(&mut first) > 0);
    yard.turn_until(|lot| waiting(lot) == 1);
    assert!(yard.lot.shared.house.evict());
    assert_eq!(yard.read(&mut first), 0);
    yard.turn_until(Lot::is_idle);
    yard.lot.finish();
}
