//! Parked connections hold no thread, whether the client or the server closes them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use os::epoll::EventBuffer;

use super::*;
use crate::parts::kernel_threads::registry::tests::{admit, registry};

const GET: &[u8] = b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n";

/// A pool, with a stand-in for its acceptor.
struct Bench {
    pool: ParkingPool,
    events: EventBuffer,
}

impl Bench {
    fn new(threads: usize) -> Self {
        let plan = ParkingPlan { name: "test", threads, queue: 64, stack_bytes: 256 * 1024 };
        let epoll = Arc::new(Epoll::new().unwrap());
        let mut pool = ParkingPool::new(Arc::new(registry(usize::MAX)), &epoll, plan);
        pool.begin().unwrap();
        Self { pool, events: EventBuffer::with_capacity(64) }
    }

    fn admit(&mut self) -> UnixStream {
        let (arrival, client) = admit(&self.pool.shared.registry);
        client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        assert!(self.pool.dispatch(arrival));
        client
    }

    fn turn(&mut self) {
        self.pool.shared.epoll.wait(&mut self.events, Some(5)).unwrap();
        self.events.iter().for_each(|event| self.pool.ready(event));
    }

    /// Takes turns until the client has received bytes or the end.
    fn read(&mut self, client: &mut UnixStream) -> usize {
        for _ in 0..2000 {
            self.turn();
            if let Ok(n) = client.read(&mut [0; 4096]) {
                return n;
            }
        }
        panic!("nothing in twenty seconds");
    }

    fn turn_until(&mut self, condition: impl Fn(&ParkingPool) -> bool) {
        for _ in 0..4000 {
            if condition(&self.pool) {
                return;
            }
            self.turn();
        }
        panic!("it has not come true in twenty seconds");
    }
}

fn waiting(pool: &ParkingPool) -> usize {
    lock(&pool.shared.state).waiting
}

#[test]
fn one_thread_serves_many_clients_that_stay() {
    let mut bench = Bench::new(1);
    let mut clients: Vec<UnixStream> = (0..20).map(|_| bench.admit()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.write_all(GET).unwrap();
            assert!(bench.read(client) > 0);
        }
    }
    bench.turn_until(|pool| waiting(pool) == 1);
    assert!(!bench.pool.is_idle(), "all are still there");
    let mut state = lock(&bench.pool.shared.state);
    let keys = state.places.keys().into_iter();
    let parked = keys.filter(|key| state.places.get(*key).is_some_and(|it| it.0.is_some())).count();
    drop(state);
    assert_eq!(parked, 20);
    drop(clients);
    bench.turn_until(ParkingPool::is_idle);
    bench.pool.finish();
}

#[test]
fn a_parked_connection_can_be_closed_from_outside() {
    let mut bench = Bench::new(1);
    let (mut first, mut second) = (bench.admit(), bench.admit());
    first.write_all(GET).unwrap();
    assert!(bench.read(&mut first) > 0);
    bench.turn_until(|pool| waiting(pool) == 1);
    assert!(bench.pool.shared.registry.evict());
    assert_eq!(bench.read(&mut second), 0, "the second has rested longest");
    first.write_all(GET).unwrap();
    assert!(bench.read(&mut first) > 0);
    bench.turn_until(|pool| waiting(pool) == 1);
    assert!(bench.pool.shared.registry.evict());
    assert_eq!(bench.read(&mut first), 0);
    bench.turn_until(ParkingPool::is_idle);
    bench.pool.finish();
}
