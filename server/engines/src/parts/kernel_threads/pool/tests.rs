//! The threads that a pool has, without any server around it.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, ThreadId};
use std::time::Duration;

use testkit::wait_until;

use super::super::registry::tests::{admit, registry};
use super::*;

/// Sends the id of the thread that it runs on, and waits for the client's close.
fn send_thread_id(_: &Registry, arrival: &mut Arrival, buffer: &mut [u8]) -> Option<Connection> {
    let id = format!("{:?}", thread::current().id());
    let _ = os::send::send(arrival.entry.socket(), id.as_bytes(), false);
    while os::send::recv(arrival.entry.socket(), buffer).is_ok_and(|n| n > 0) {}
    None
}

/// Panics, as a bug would.
fn fail(_: &Registry, _: &mut Arrival, _: &mut [u8]) -> Option<Connection> {
    panic!("this connection is broken");
}

fn pool(spare: usize, threads_max: usize, serve: Serve) -> ThreadPool {
    let plan = PoolPlan {
        name: "test",
        spare,
        threads_max,
        yields_after_ms: None,
        stack_bytes: 256 * 1024,
        buffer_bytes: 64,
        serve,
    };
    ThreadPool::new(Arc::new(registry(usize::MAX)), plan)
}

/// Has a connection served, and reads the id of its thread.
fn connect(pool: &mut ThreadPool) -> (UnixStream, String) {
    let (arrival, mut client) = admit(&pool.team.registry);
    assert!(pool.dispatch(arrival));
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut id = [0; 64];
    let n = os::uninterrupted(|| client.read(&mut id)).unwrap();
    (client, String::from_utf8_lossy(&id[..n]).into_owned())
}

fn waiting(pool: &ThreadPool) -> usize {
    lock(&pool.team.state).waiting
}

fn alive(pool: &ThreadPool) -> usize {
    lock(&pool.team.state).alive
}

#[test]
fn threads_that_were_started_before_serve_again_and_again() {
    let mut pool = pool(2, 8, send_thread_id);
    pool.begin().unwrap();
    let mut threads = HashSet::new();
    for _ in 0..20 {
        wait_until(|| waiting(&pool) == 2);
        threads.insert(connect(&mut pool).1);
    }
    assert!(threads.len() <= 2, "{threads:?}");
    assert_eq!(alive(&pool), 2);
    pool.finish();
}

#[test]
fn more_threads_start_on_demand_and_only_the_spare_ones_stay() {
    let mut pool = pool(2, 8, send_thread_id);
    pool.begin().unwrap();
    wait_until(|| waiting(&pool) == 2);
    let (clients, threads): (Vec<_>, HashSet<_>) = (0..5).map(|_| connect(&mut pool)).unzip();
    assert_eq!((threads.len(), alive(&pool)), (5, 5), "{threads:?}");
    assert!(!pool.is_idle());
    drop(clients);
    wait_until(|| alive(&pool) == 2);
    assert!(pool.is_idle());
    pool.maintain(Tick(0));
    assert_eq!(pool.threads.len(), 2, "the threads that ended are joined");
    pool.finish();
}

#[test]
fn on_demand_each_connection_has_a_new_thread() {
    let mut pool = pool(0, 8, send_thread_id);
    pool.begin().unwrap();
    let first = connect(&mut pool).1;
    wait_until(|| alive(&pool) == 0);
    assert_ne!(first, connect(&mut pool).1);
    pool.finish();
}

#[test]
fn without_a_thread_for_it_a_connection_waits_for_the_next_that_is_free() {
    let mut pool = pool(0, 1, send_thread_id);
    let (first, _) = connect(&mut pool);
    let (arrival, mut second) = admit(&pool.team.registry);
    assert!(pool.dispatch(arrival));
    assert_eq!(alive(&pool), 1);
    drop(first);
    assert!(os::uninterrupted(|| second.read(&mut [0; 64])).unwrap() > 0);
    assert_eq!(alive(&pool), 1);
    drop(second);
    pool.finish();
}

#[test]
fn a_panic_ends_its_connection_only() {
    let mut pool = pool(1, 1, fail);
    pool.begin().unwrap();
    for _ in 0..2 {
        let (arrival, mut client) = admit(&pool.team.registry);
        assert!(pool.dispatch(arrival));
        let _ = client.write_all(b"x");
        let mut byte = [0];
        assert!(!client.read(&mut byte).is_ok_and(|n| n > 0), "it is closed, or reset");
    }
    wait_until(|| pool.is_idle());
    assert_eq!(alive(&pool), 1);
    pool.finish();
}

#[test]
fn nothing_is_left_behind() {
    let ids = |pool: &ThreadPool| -> HashSet<ThreadId> {
        pool.threads.values().map(|thread| thread.thread().id()).collect()
    };
    let mut pool = pool(4, 4, send_thread_id);
    pool.begin().unwrap();
    assert_eq!(ids(&pool).len(), 4);
    pool.finish();
    assert!(pool.threads.is_empty());
    assert_eq!(alive(&pool), 0);
}
