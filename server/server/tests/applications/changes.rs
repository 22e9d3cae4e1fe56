//! Changes of the architecture with a client in each situation: whatever it is in the middle of, it
//! is answered, and closed only after an answer that says so.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread;

use engines::Moves;
use server::Server;
use server::config::Config;
use site::fields::HeaderRule;
use testkit::{Temporary, circuit, comes_true, wait_until};

use crate::harness::{Running, config, connect, for_each_engine, site, take_head};
use crate::upgrades::{AGREED, application, echo, pass, switched};
use crate::{body, response, under_test};

const PAGE: &[u8] = b"<h1>Rope</h1>";

/// A file that no socket takes at once.
static LARGE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..8 << 20).map(|at: u32| (at % 251) as u8).collect());

/// The first part of a request that is sent in two.
const BEGIN: &str = "GET / HTTP/1.1\r\nHo";

/// The number of steps that an application takes to answer some requests: more than one change.
const STEPS_HELD: usize = 3;

/// What a client is in the middle of when the server changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Situation {
    /// It has sent nothing since it connected.
    Silent,
    /// It has been answered.
    Resting,
    /// Its request has just been sent.
    Asking,
    HalfAHead,
    /// It never sends the rest of its head.
    Late,
    HalfAnUpload,
    /// It has sent several requests, and has received nothing yet.
    Pipelined,
    SlowReader,
    /// It has sent all that it will.
    HalfClosed,
    /// It has received what its application sends before the change.
    HalfAReply,
    /// Its application answers some changes later.
    Unanswered,
    /// It speaks another protocol.
    Switched,
}

const ALL: [Situation; 12] = [
    Situation::Silent,
    Situation::Resting,
    Situation::Asking,
    Situation::HalfAHead,
    Situation::Late,
    Situation::HalfAnUpload,
    Situation::Pipelined,
    Situation::SlowReader,
    Situation::HalfClosed,
    Situation::HalfAReply,
    Situation::Unanswered,
    Situation::Switched,
];

/// A client, and what it has been told of the response that it is receiving.
struct Client {
    situation: Situation,
    reader: BufReader<TcpStream>,
    head: String,
}

impl Client {
    /// A client that comes into its situation before step `step` is over.
    fn place(situation: Situation, server: &Server, step: usize) -> Self {
        let stream = match situation {
            Situation::Switched => switched(server),
            _ => connect(server),
        };
        let mut client = Self { situation, reader: BufReader::new(stream), head: String::new() };
        match situation {
            Situation::Silent | Situation::Switched => {}
            Situation::Resting => {
                client.ask("/");
                assert!(!client.expect(PAGE));
            }
            Situation::Asking => client.ask("/"),
            Situation::HalfAHead | Situation::Late => client.send(BEGIN),
            Situation::HalfAnUpload => {
                client
                    .send("POST /app/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n01234");
            }
            Situation::Pipelined => {
                ["/large", "/app/now", "/"].iter().for_each(|path| client.ask(path));
            }
            Situation::SlowReader => client.ask("/large"),
            Situation::HalfClosed => {
                client.ask("/large");
                client.reader.get_ref().shutdown(Shutdown::Write).unwrap();
            }
            Situation::HalfAReply => {
                client.ask(&format!("/app/half/{}", step + 1));
                client.head = String::from_utf8(take_head(client.reader.get_mut())).unwrap();
            }
            Situation::Unanswered => client.ask(&format!("/app/held/{}", step + STEPS_HELD)),
        }
        client
    }

    /// Goes on after a change, to the end. If the connection moves as soon as it rests no response
    /// says that it ends.
    fn finish(mut self, moves_at_rest: bool) {
        println!("{:?}", self.situation);
        match self.situation {
            Situation::Silent | Situation::Resting => self.ask("/"),
            Situation::HalfAHead => self.send(&get("/")[BEGIN.len()..]),
            Situation::HalfAnUpload => self.send("56789"),
            Situation::Switched => {
                return pass(self.reader.get_mut(), b"another protocol after the change");
            }
            Situation::HalfAReply => {
                assert_eq!(body(&self.head, &mut self.reader), b"first, last");
                return self.goes_on();
            }
            _ => {}
        }
        let expected: &[&[u8]] = match self.situation {
            Situation::HalfAnUpload => &[b"0123456789"],
            Situation::Pipelined => &[&LARGE, b"now", PAGE],
            Situation::SlowReader | Situation::HalfClosed => &[&LARGE],
            Situation::Unanswered => &[b"held"],
            _ => &[PAGE],
        };
        let is_last = expected.iter().any(|body| self.expect(body));
        if let Situation::Silent | Situation::Resting = self.situation {
            assert!(!(is_last && moves_at_rest), "{:?} ends", self.situation);
        }
        match is_last || self.situation == Situation::HalfClosed {
            true => self.ends(),
            false => self.goes_on(),
        }
    }

    fn send(&mut self, text: &str) {
        self.reader.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ask(&mut self, path: &str) {
        self.send(&get(path));
    }

    /// Takes a response with this body. Returns whether it is the last.
    fn expect(&mut self, body: &[u8]) -> bool {
        let (head, received) = response(&mut self.reader);
        assert!(head.starts_with("HTTP/1.1 200 "), "{:?}: {head}", self.situation);
        assert!(received == body, "{:?}: {} bytes", self.situation, received.len());
        head.contains("\r\nConnection: close\r\n")
    }

    /// No response has said that the connection ends: it is answered once more.
    fn goes_on(mut self) {
        self.ask("/");
        self.expect(PAGE);
    }

    fn ends(mut self) {
        let mut more = Vec::new();
        self.reader.read_to_end(&mut more).unwrap();
        assert_eq!(more, b"", "{:?}", self.situation);
    }

    /// The rest of the head does not come, on whatever engine that is found out.
    fn wait_until_given_up(mut self) {
        let (head, _) = response(&mut self.reader);
        assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
        self.ends();
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// The step that is reached: applications hold back what is for a later one.
#[derive(Default)]
struct Steps {
    reached: Mutex<usize>,
    changed: Condvar,
    /// The number of requests that were held back, or have come without all of their body.
    waits: AtomicUsize,
}

impl Steps {
    fn reach(&self, step: usize) {
        *self.reached.lock().unwrap() = step;
        self.changed.notify_all();
    }

    fn wait_for(&self, step: usize) {
        let reached = self.reached.lock().unwrap();
        self.waits.fetch_add(1, Ordering::Relaxed);
        drop(self.changed.wait_while(reached, |reached| *reached < step).unwrap());
    }
}

/// An application for all situations.
fn held_back(steps: &Arc<Steps>) -> SocketAddr {
    let steps = Arc::clone(steps);
    application(move |head, mut stream| {
        let send = |mut stream: &TcpStream, text: &str| stream.write_all(text.as_bytes()).unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let (what, step) = path.rsplit_once('/').unwrap();
        let wait = || steps.wait_for(step.parse().unwrap());
        match (what, step) {
            ("/app/half", _) => {
                send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst,");
                wait();
                send(stream, " last");
            }
            ("/app/held", _) => {
                wait();
                send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nheld");
            }
            (_, "now") => send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnow"),
            (_, "echo") => {
                steps.waits.fetch_add(1, Ordering::Relaxed);
                let mut body = [0; 10];
                stream.read_exact(&mut body).unwrap();
                send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
                stream.write_all(&body).unwrap();
            }
            _ => {
                stream.write_all(AGREED).unwrap();
                echo(stream);
            }
        }
    })
}

fn config_of(directory: &Temporary, application: SocketAddr, engine: &str) -> Config {
    config_to(directory, &[("/app/**", application)], engine)
}

/// Routes from these paths to these applications.
fn config_to(directory: &Temporary, routes: &[(&str, SocketAddr)], engine: &str) -> Config {
    let route = |(path, application): &(&str, SocketAddr)| {
        format!("{{ path = \"{path}\", proxy = [\"http://{application}\"], idle_ms = 600000 }}")
    };
    let routes: Vec<String> = routes.iter().map(route).collect();
    let route = format!("host.route=[{}]", routes.join(", "));
    let engine = format!("engine.name={engine}");
    // What cannot be moved may take its time.
    let timeouts = ["timeouts.drain_ms=600000", "timeouts.head_ms=15000"];
    config(directory, &[&engine, &route, timeouts[0], timeouts[1]])
}

#[test]
fn a_client_is_answered_whatever_it_is_in_the_middle_of() {
    let directory = site();
    directory.file("site/large", &*LARGE);
    let steps = Arc::new(Steps::default());
    let application = held_back(&steps);
    let engines = under_test::engines();
    let configs = engines.iter().map(|spec| config_of(&directory, application, spec.name));
    let configs: Vec<Config> = configs.collect();
    let Some(first) = configs.first() else { return };
    let mut server = Running::start(first);
    let (mut late, mut unanswered) = (Vec::new(), Vec::new());
    let mut former = 0;
    for (step, index) in circuit(configs.len()).into_iter().skip(1).chain([0]).enumerate() {
        println!("from {} to {}", engines[former].name, engines[index].name);
        let move_at_rest = [former, index].iter().all(|index| engines[*index].moves.are_taken());
        former = index;
        let mut clients: Vec<Client> =
            ALL.iter().map(|situation| Client::place(*situation, &server, step)).collect();
        let address = server.addresses()[0];
        thread::scope(|scope| {
            let arriving = scope.spawn(move || arrive(address));
            server.change(&configs[index]).unwrap();
            arriving.join().unwrap();
        });
        steps.reach(step + 1);
        late.extend(clients.extract_if(.., |client| client.situation == Situation::Late));
        unanswered
            .extend(clients.extract_if(.., |client| client.situation == Situation::Unanswered));
        clients.into_iter().for_each(|client| client.finish(move_at_rest));
        if step + 1 >= STEPS_HELD {
            unanswered.remove(0).finish(false);
        }
    }
    steps.reach(usize::MAX);
    unanswered.into_iter().for_each(|client| client.finish(false));
    late.into_iter().for_each(Client::wait_until_given_up);
}

/// Each is with the next engine before it has received its answer, or has sent all of its request.
#[test]
fn connections_move_in_the_middle_of_an_answer() {
    let directory = site();
    directory.file("site/large", &*LARGE);
    let application = held_back(&Arc::new(Steps::default()));
    let mut engines = under_test::engines();
    engines.retain(|spec| matches!(spec.moves, Moves::BetweenSteps));
    let configs = engines.iter().map(|spec| config_of(&directory, application, spec.name));
    let configs: Vec<Config> = configs.collect();
    let Some(first) = configs.first() else { return };
    let mut server = Running::start(first);
    let next = engines.iter().zip(&configs).cycle().skip(1);
    for (former, (new, config)) in engines.iter().zip(next) {
        println!("from {} to {}", former.name, new.name);
        let situations = [Situation::SlowReader, Situation::Pipelined, Situation::HalfAHead];
        let clients = situations.map(|situation| Client::place(situation, &server, 0));
        let begun = |client: &Client| client.reader.get_ref().peek(&mut [0]).unwrap();
        clients[..2].iter().for_each(|client| assert_eq!(begun(client), 1));
        server.change(config).unwrap();
        let lines = || server.status().into_iter().filter(|line| line.starts_with("former "));
        let have_moved = comes_true(|| lines().all(|line| line.ends_with(": 0 connections open")));
        assert!(have_moved, "{:?}", lines().collect::<Vec<_>>());
        clients.into_iter().for_each(|client| client.finish(true));
    }
}

/// It was to go to the engine that came next, which has left as well by now.
#[test]
fn a_client_that_can_go_nowhere_any_more_is_told() {
    let directory = site();
    for_each_engine(|spec| {
        let steps = Arc::new(Steps::default());
        let application = held_back(&steps);
        let config = |engine| config_of(&directory, application, engine);
        let mut server = Running::start(&config(spec.name));
        let mut client = Client::place(Situation::Unanswered, &server, 0);
        assert!(comes_true(|| steps.waits.load(Ordering::Relaxed) == 1));
        for engine in ["event-loop", "threads-direct"] {
            server.change(&config(engine)).unwrap();
        }
        steps.reach(STEPS_HELD);
        // A process that waits for an application learns of the order after the answer.
        let is_told = client.expect(b"held") || {
            client.ask("/");
            client.expect(PAGE)
        };
        assert!(is_told, "{}: no answer says that it is the last", spec.name);
        client.ends();
    });
}

/// The workers stay, and with them what clients are in the middle of, however long that takes; an
/// answer that has begun to be asked for is of the former rules.
#[test]
fn what_clients_are_in_the_middle_of_outlasts_a_change_of_a_header() {
    let directory = site();
    for_each_engine(|spec| {
        let steps = Arc::new(Steps::default());
        let application = held_back(&steps);
        let config = |name: &str| {
            let mut config = config_of(&directory, application, spec.name);
            config.settings.timeouts.drain_ms = 1;
            let (path, value) = ("/**".into(), name.into());
            let rule = HeaderRule { path, name: "X-Rules".into(), value, ..HeaderRule::default() };
            config.settings.hosts[0].headers = vec![rule];
            config
        };
        let mut server = Running::start(&config("former"));
        let mut tunnel = switched(&server);
        let middle = [Situation::HalfAnUpload, Situation::HalfAReply, Situation::Unanswered];
        let mut clients = middle.map(|situation| Client::place(situation, &server, 0));
        assert!(comes_true(|| steps.waits.load(Ordering::Relaxed) == 3));
        for name in ["another", "the last"] {
            server.change(&config(name)).unwrap();
            pass_drain_time();
            server.do_housekeeping();
        }
        pass(&mut tunnel, b"another protocol after the change");
        let [upload, reply, unanswered] = &mut clients;
        steps.reach(STEPS_HELD);
        assert_eq!(body(&reply.head, &mut reply.reader), b"first, last", "{}", spec.name);
        upload.send("56789");
        for (client, expected) in [(upload, &b"0123456789"[..]), (unanswered, b"held")] {
            let (head, received) = response(&mut client.reader);
            assert_eq!(received, expected, "{}", spec.name);
            assert!(head.contains("\r\nX-Rules: former\r\n"), "{}: {head}", spec.name);
        }
        for client in &mut clients {
            client.ask("/app/now");
            let (head, received) = response(&mut client.reader);
            assert_eq!(received, b"now", "{}", spec.name);
            assert!(head.contains("\r\nX-Rules: the last\r\n"), "{}: {head}", spec.name);
        }
    });
}

/// An application that answers with its name, keeps the connection, and counts those that end.
fn named(name: &'static str, ended: &Arc<AtomicUsize>) -> SocketAddr {
    let ended = Arc::clone(ended);
    application(move |_, mut stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", name.len());
        stream.write_all([head.as_bytes(), name.as_bytes()].concat().as_slice()).unwrap();
        let has_ended = stream.read(&mut [0]).is_ok_and(|count| count == 0);
        ended.fetch_add(usize::from(has_ended), Ordering::Relaxed);
    })
}

/// Lets more time pass than connections have that cannot be moved: nothing that could be waited for
/// happens to those that stay.
fn pass_drain_time() {
    let until = os::clock::now() + 20_000;
    wait_until(|| os::clock::now() > until);
}

/// What is out comes back from where it went, and nothing is kept for an application that no route
/// leads to.
#[test]
fn routes_lead_to_other_applications_while_the_workers_stay() {
    let directory = site();
    for_each_engine(|spec| {
        let steps = Arc::new(Steps::default());
        let ended = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let [second, third, last] =
            [("second", 0), ("third", 1), ("last", 2)].map(|(name, it)| named(name, &ended[it]));
        let have_ended = || ended.each_ref().map(|ended| ended.load(Ordering::Relaxed));
        let config = |routes: &[(&str, SocketAddr)]| {
            let mut config = config_to(&directory, routes, spec.name);
            config.settings.timeouts.drain_ms = 1;
            config
        };
        let mut server = Running::start(&config(&[("/app/**", held_back(&steps))]));
        if !server.worker_processes().is_empty() {
            return; // they are replaced
        }
        let mut tunnel = switched(&server);
        let middle = [Situation::HalfAnUpload, Situation::Unanswered, Situation::Silent];
        let [mut upload, mut unanswered, mut client] =
            middle.map(|situation| Client::place(situation, &server, 0));
        assert!(comes_true(|| steps.waits.load(Ordering::Relaxed) == 2));
        let mut asks = |path: &str, answer: &str| {
            client.ask(path);
            assert!(!client.expect(answer.as_bytes()), "{}: {path}", spec.name);
        };
        asks("/app/now", "now");
        let mut change = |routes: &[(&str, SocketAddr)]| {
            server.change(&config(routes)).unwrap();
            pass_drain_time();
            server.do_housekeeping();
        };
        change(&[("/more/**", third), ("/app/**", second)]);
        asks("/app/now", "second");
        asks("/more/now", "third");
        change(&[("/app/**", last), ("/more/**", third)]);
        asks("/app/now", "last");
        assert!(comes_true(|| have_ended() == [1, 0, 0]), "{}: {:?}", spec.name, have_ended());
        change(&[("/app/**", last)]);
        assert!(comes_true(|| have_ended() == [1, 1, 0]), "{}: {:?}", spec.name, have_ended());
        let line = "1 tunnel open to applications that no route leads to any more";
        assert!(server.status().iter().any(|it| it == line), "{:#?}", server.status());
        pass(&mut tunnel, b"another protocol after the changes");
        steps.reach(STEPS_HELD);
        assert!(!unanswered.expect(b"held"), "{}", spec.name);
        upload.send("56789");
        assert!(!upload.expect(b"0123456789"), "{}", spec.name);
        unanswered.ask("/app/now");
        unanswered.expect(b"last");
    });
}

/// Each would take a place that the next engine's calls need.
#[test]
fn who_has_left_keeps_no_connection_to_an_application() {
    let directory = site();
    for_each_engine(|spec| {
        let (steps, ended) = (Arc::new(Steps::default()), Arc::new(AtomicUsize::new(0)));
        let (reached, closed) = (Arc::clone(&steps), Arc::clone(&ended));
        let application = application(move |head, mut stream| {
            if head.starts_with("GET /app/held ") {
                reached.wait_for(1);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnow").unwrap();
            let rest = stream.read(&mut [0]).unwrap_or(0);
            closed.fetch_add(usize::from(rest == 0), Ordering::Relaxed);
        });
        let mut server = Running::start(&config_of(&directory, application, spec.name));
        let mut waiting = Client::place(Situation::Silent, &server, 0);
        waiting.ask("/app/held");
        assert!(comes_true(|| steps.waits.load(Ordering::Relaxed) == 1));
        let mut client = Client::place(Situation::Silent, &server, 0);
        client.ask("/app/now");
        assert!(!client.expect(b"now"));
        // Another one: the same would stay.
        let next = if spec.name == "event-loop" { "fibers" } else { "event-loop" };
        server.change(&config_of(&directory, application, next)).unwrap();
        drop(client);
        let has_closed = |count| comes_true(|| ended.load(Ordering::Relaxed) == count);
        assert!(has_closed(1), "{}: what rested is kept", spec.name);
        steps.reach(1);
        waiting.expect(b"now");
        assert!(has_closed(2), "{}: the last one is kept", spec.name);
    });
}

/// Connects again and again, as others do while the server changes.
fn arrive(address: SocketAddr) {
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(get("/").as_bytes()).unwrap();
        assert_eq!(response(&mut BufReader::new(stream)).1, PAGE);
    }
}
