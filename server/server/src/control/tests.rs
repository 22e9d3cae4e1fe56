//! The rules of who may ask, and what a request is.

use os::socket::{Readiness, wait_ready};

use super::*;

#[test]
fn root_and_the_user_of_the_server_may_ask_but_for_its_own_processes() {
    let (own, parent) = (1000, std::os::unix::process::parent_id());
    let servers: Vec<Identity> = Identity::of(std::process::id()).into_iter().collect();
    let check = |process, user| check(Peer { process, user }, own, &servers);
    assert_eq!(check(Some(parent), own), Ok(()));
    assert!(check(Some(parent), own + 1).is_err());
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let of_child = check(Some(child.id()), own);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(of_child.is_err() && check(Some(std::process::id()), own).is_err());
    assert!(check(Some(child.id()), own).is_err() && check(None, own).is_err(), "it is not there");
    assert_eq!(check(None, 0), Ok(()), "root's processes may be hidden");
}

#[test]
fn what_is_asked_are_words_and_others_are_not() {
    let change = Asked::Change(vec!["engine.name=fibers".into(), "a=b c".into()]);
    for asked in [Asked::Status, Asked::Reload, Asked::Drain, change] {
        assert_eq!(Asked::from_words(&asked.words()), Some(asked));
    }
    for words in [&["status", "now"][..], &["change"], &["stop"], &[""]] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(Asked::from_words(&words), None, "{words:?}");
    }
}

fn by_then(stream: &UnixStream, in_us: u64) -> Timed<'_> {
    Timed { stream, until_us: os::clock::now() + in_us }
}

#[test]
fn a_request_has_one_deadline_however_it_comes() {
    let (mut client, server) = UnixStream::pair().unwrap();
    let sending = thread::spawn(move || {
        for _ in 0..1000 {
            let waited = wait_ready(client.as_fd(), Readiness::Readable, 10);
            if waited.is_ok_and(|has_ended| has_ended) || client.write_all(b"a").is_err() {
                return;
            }
        }
    });
    let read = read_words(by_then(&server, 100_000));
    drop(server);
    sending.join().unwrap();
    assert!(read.is_err(), "{read:?}");
}

#[test]
fn an_answer_has_a_deadline() {
    let (client, server) = UnixStream::pair().unwrap();
    let answer = Answer::done(vec!["x".repeat(4 << 20)]);
    assert!(write_answer(by_then(&server, 100_000), &answer).is_err(), "the client takes nothing");
    drop(client);
}

#[test]
fn a_request_is_words_that_end() {
    let read = |bytes: &[u8]| {
        let (mut client, server) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let sending = thread::spawn(move || client.write_all(&bytes));
        let words = read_words(by_then(&server, 60_000_000)).unwrap();
        drop(server);
        let _ = sending.join().unwrap(); // what is too long is not taken
        words
    };
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(read(b"change\0a=b c\0"), words(&["change", "a=b c"]));
    assert_eq!(read(b"status\0"), words(&["status"]));
    assert_eq!(read(b""), words(&[]));
    assert_eq!(read(b"status"), None, "it may have been cut short");
    assert_eq!(read(b"\xff\0"), None);
    let longest = [vec![b'a'; REQUEST_BYTES_MAX as usize - 1], vec![0]].concat();
    assert_eq!(read(&longest).map(|words| words.len()), Some(1));
    assert_eq!(read(&[b"a", &longest[..]].concat()), None);
}
