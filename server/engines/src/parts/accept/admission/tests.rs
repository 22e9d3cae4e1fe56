//! Tests of the rule of admission with an engine that consists of numbers.

use std::collections::VecDeque;
use std::net::UdpSocket;

use super::*;

/// An engine in numbers.
struct ModelEngine {
    places: usize,
    open: usize,
    /// The number of open connections that are idle.
    idle: usize,
    /// The number of connections that wait, for each listener.
    queues: Vec<usize>,
    /// Whether the n-th attempt to accept finds no descriptor.
    exhausted: VecDeque<bool>,
    /// The outcome of closing an idle connection.
    made: Room,
    may_accept: bool,
    is_crowded: bool,
    closed: usize,
    shortages: Vec<Shortage>,
    pauses: usize,
}

impl ModelEngine {
    fn new(places: usize, open: usize, idle: usize, queues: &[usize]) -> Self {
        Self {
            places,
            open,
            idle,
            queues: queues.to_vec(),
            exhausted: VecDeque::new(),
            made: Room::Made,
            may_accept: true,
            is_crowded: false,
            closed: 0,
            shortages: Vec::new(),
            pauses: 0,
        }
    }

    fn row(&mut self, count: usize) -> RowOutcome {
        accept_row(self, 0, count)
    }

    #[track_caller]
    fn check(&self, open: usize, closed: usize, queue: usize) {
        assert_eq!((self.open, self.closed, self.queues[0]), (open, closed, queue));
        assert_eq!(self.pauses, self.shortages.len(), "without room it pauses");
    }
}

impl Admission for ModelEngine {
    fn is_full(&self) -> bool {
        self.open >= self.places
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        let sockets = self.queues.iter().map(|_| UdpSocket::bind("127.0.0.1:0").unwrap().into());
        Box::new(Listeners::new(sockets.collect(), false)) // no connection waits there
    }

    fn has_arrival(&mut self, listener: usize) -> bool {
        self.queues[listener] > 0
    }

    fn may_accept(&mut self) -> bool {
        self.may_accept
    }

    fn accept(&mut self, listener: usize) -> Accepted {
        if self.queues[listener] == 0 {
            return Accepted::Nothing;
        }
        if self.exhausted.pop_front() == Some(true) {
            return Accepted::Exhausted;
        }
        self.queues[listener] -= 1;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = socket.local_addr().unwrap();
        Accepted::Connection(socket.into(), peer)
    }

    fn admit(&mut self, _: OwnedFd, _: SocketAddr) -> bool {
        self.open += 1;
        !self.is_crowded
    }

    fn make_room(&mut self, _: Shortage) -> Room {
        if self.idle == 0 {
            return Room::None;
        }
        self.idle -= 1;
        self.closed += 1;
        if self.made == Room::Made {
            self.open -= 1;
        }
        self.made
    }

    fn request_room_from_others(&mut self) {
        self.shortages.push(Shortage::Places);
    }

    fn turn_one_away(&mut self, listener: usize) {
        self.shortages.push(Shortage::Descriptors { listener });
    }

    fn pause(&mut self) {
        self.pauses += 1;
    }
}

#[test]
fn a_row_takes_all_that_wait_or_as_many_as_it_may() {
    let mut engine = ModelEngine::new(10, 0, 0, &[3]);
    assert_eq!(engine.row(64), RowOutcome::Empty);
    engine.check(3, 0, 0);
    let mut engine = ModelEngine::new(10, 0, 0, &[3]);
    assert_eq!(engine.row(2), RowOutcome::Enough);
    engine.check(2, 0, 1);
    let mut engine = ModelEngine { may_accept: false, ..ModelEngine::new(10, 0, 0, &[3]) };
    assert_eq!(engine.row(64), RowOutcome::Enough);
    engine.check(0, 0, 3);
    let mut engine = ModelEngine { is_crowded: true, ..ModelEngine::new(10, 0, 0, &[3]) };
    assert_eq!(engine.row(64), RowOutcome::NoRoom, "the engine decides when to go on");
    engine.check(1, 0, 2);
}

#[test]
fn an_idle_connection_is_closed_only_for_one_that_waits() {
    let mut engine = ModelEngine::new(2, 2, 2, &[3]);
    assert_eq!(engine.row(64), RowOutcome::Enough, "the next event announces further ones");
    engine.check(2, 1, 2);
    let mut engine = ModelEngine::new(2, 2, 2, &[0]);
    assert_eq!(engine.row(64), RowOutcome::Empty, "an event was stale");
    engine.check(2, 0, 0);
    let mut engine = ModelEngine::new(3, 2, 2, &[3]);
    assert_eq!(engine.row(64), RowOutcome::Enough);
    engine.check(3, 0, 2);
    assert_eq!(engine.shortages, []);
}

#[test]
fn without_an_idle_connection_the_next_one_waits_for_a_place() {
    let mut engine = ModelEngine::new(2, 2, 0, &[3]);
    assert_eq!(engine.row(64), RowOutcome::NoRoom);
    engine.check(2, 0, 3);
    assert_eq!(engine.shortages, [Shortage::Places]);
    // With several loops others may be faster.
    let mut engine = ModelEngine::new(2, 3, 1, &[3]);
    assert_eq!(engine.row(64), RowOutcome::NoRoom);
    engine.check(2, 1, 3);
    assert_eq!(engine.shortages, [Shortage::Places]);
}

#[test]
fn room_that_is_being_made_is_waited_for() {
    let mut engine = ModelEngine { made: Room::Begun, ..ModelEngine::new(2, 2, 1, &[3]) };
    assert_eq!(engine.row(64), RowOutcome::Waits);
    engine.check(2, 1, 3);
    assert_eq!(engine.shortages, []);
}

#[test]
fn without_a_descriptor_an_idle_connection_is_closed_or_a_client_turned_away() {
    let exhausted = || VecDeque::from([false, true]);
    let mut engine = ModelEngine { exhausted: exhausted(), ..ModelEngine::new(10, 4, 1, &[3]) };
    assert_eq!(engine.row(64), RowOutcome::Empty);
    engine.check(6, 1, 0);
    let mut engine = ModelEngine { exhausted: exhausted(), ..ModelEngine::new(10, 4, 0, &[3]) };
    assert_eq!(engine.row(64), RowOutcome::NoRoom);
    engine.check(5, 0, 2);
    assert_eq!(engine.shortages, [Shortage::Descriptors { listener: 0 }]);
    let begun = ModelEngine { made: Room::Begun, ..ModelEngine::new(10, 4, 1, &[3]) };
    let mut engine = ModelEngine { exhausted: exhausted(), ..begun };
    assert_eq!(engine.row(64), RowOutcome::Waits);
    engine.check(5, 1, 2);
}

#[test]
fn before_the_end_all_that_wait_are_taken_while_room_can_be_made() {
    let mut engine = ModelEngine::new(1, 1, 1, &[3, 0, 2]);
    engine.idle = 5; // connections that were taken are idle at once
    assert!(LastRows::default().take(&mut engine));
    assert_eq!((engine.closed, &engine.queues[..]), (5, &[0, 0, 0][..]));
    let mut engine = ModelEngine::new(4, 2, 0, &[1, 3]);
    assert!(LastRows::default().take(&mut engine), "for the last there is no room");
    assert_eq!(engine.queues, [0, 2]);
    assert_eq!(engine.shortages, [Shortage::Places]);
}

#[test]
fn before_the_end_room_that_is_being_made_is_waited_for() {
    let mut engine = ModelEngine { made: Room::Begun, ..ModelEngine::new(1, 1, 9, &[1, 2]) };
    let mut last = LastRows::default();
    for left in [3, 2, 1] {
        assert!(!last.take(&mut engine));
        assert_eq!(engine.queues.iter().sum::<usize>(), left);
        engine.open -= 1; // it has closed
    }
    assert!(last.take(&mut engine));
    assert_eq!(engine.queues, [0, 0]);
    let mut engine = ModelEngine { made: Room::Begun, ..ModelEngine::new(1, 1, 1, &[1, 2]) };
    let mut last = LastRows::default();
    assert!(!last.take(&mut engine));
    last.abandon();
    assert!(last.take(&mut engine), "no connection closes");
    assert_eq!(engine.queues, [1, 2]);
}
