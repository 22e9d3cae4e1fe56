//! Connections that rest beside the load, and generators that wait to be told when to start.

use load::outcome::Setting;
use load::plan::Start;
use load::run::{Watch, run};
use testkit::comes_true;
use testkit::scripted::{Action, Reply, Scripted};

use crate::setup::{MS, Watcher, closed, doing, done, get, log, millis, plan, send};

fn reply() -> Reply {
    Reply::ok(b"rope")
}

#[test]
fn they_have_asked_once_and_rest() {
    let server = doing(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    (plan.idle, plan.sessions_max) = (70, Some(10));
    let counts = done(&plan).measures.counts;
    assert_eq!((counts.idle_connections, counts.idle_closed), (70, 0));
    // Neither their requests nor their replies are of the load.
    assert_eq!((counts.requests, counts.connections), (20, 10));
    assert_eq!(server.connections().len(), 80);
    let seen = server.requests();
    for connection in 0..70 {
        let asked = seen.iter().filter(|asked| asked.connection == connection);
        assert_eq!(asked.map(|asked| asked.request).collect::<Vec<_>>(), [0], "{connection}");
    }
    let last_idle_us = seen.iter().filter(|asked| asked.connection < 70).map(|asked| asked.at_us);
    let first_us = seen.iter().filter(|asked| asked.connection >= 70).map(|asked| asked.at_us);
    assert!(last_idle_us.max() <= first_us.min(), "all rest before the load begins");
}

#[test]
fn those_that_the_server_closes_are_counted() {
    let script = |asked: &testkit::scripted::ReceivedRequest| match asked.connection {
        n if n < 20 && n % 4 == 0 => vec![send(&reply()), Action::Wait(millis(20)), Action::Close],
        // The load goes on until long after that, however busy the machine.
        20 => vec![Action::Wait(millis(2_000)), send(&reply())],
        _ => vec![send(&reply())],
    };
    let server = Scripted::start(os::clock::now, script);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.idle = 20;
    let counts = done(&plan).measures.counts;
    assert_eq!((counts.idle_connections, counts.idle_closed, counts.replies), (20, 5, 1));
}

#[test]
fn each_generator_holds_its_share() {
    let server = doing(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.idle, plan.model, plan.sessions_max) = (5, closed(2), Some(2));
    let held = [0, 1].map(|index| {
        plan.share = (index, 2);
        done(&plan).measures.counts.idle_connections
    });
    assert_eq!(held, [3, 2]);
}

#[test]
fn a_server_that_does_not_keep_them_is_told() {
    let closing = Reply { fields: vec!["Connection: close".into()], ..reply() };
    let server = doing(&[send(&closing)]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.idle = 3;
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    let expected = "--idle 3: connection 1 of them: the server does not keep it open after a reply";
    assert_eq!(why, expected);
}

/// Tells it to start soon, notes how much had been asked by then, and in the end what is open.
struct Teller<'s> {
    server: &'s Scripted,
    asked_before: usize,
    start_us: u64,
    open_after: usize,
}

impl Watch for Teller<'_> {
    fn on_interval(&mut self, _seconds: f64, _interval: &load::measures::Interval) {}

    fn wants_to_stop(&mut self) -> bool {
        false
    }

    fn on_ready(&mut self) -> Result<u64, String> {
        let (seconds, nanoseconds) = os::clock::unix_time();
        self.asked_before = self.server.requests().len();
        self.start_us = os::clock::now() + 50 * MS;
        Ok(seconds as u64 * 1_000_000 + u64::from(nanoseconds) / 1_000 + 50 * MS)
    }

    fn on_measured(&mut self) {
        // It sees the end of the load's own connection, and of no other.
        let _ = comes_true(|| self.server.open() <= 4);
        std::thread::sleep(millis(50));
        self.open_after = self.server.open();
    }
}

#[test]
fn who_waits_to_be_told_is_ready_by_then() {
    let server = doing(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.idle, plan.start) = (4, Start::WhenTold);
    let mut teller = Teller { server: &server, asked_before: 0, start_us: 0, open_after: 0 };
    run(&plan, Setting::default(), &mut teller).unwrap();
    assert_eq!(teller.asked_before, 4, "what rests is there before it says that it is ready");
    assert_eq!(teller.open_after, 4, "and until whoever told it has looked");
    let seen = server.requests();
    assert_eq!(seen.len(), 5);
    assert!(seen[4].at_us + 2 >= teller.start_us, "{} before {}", seen[4].at_us, teller.start_us);
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    assert_eq!(why, "nobody tells when to start");
}
