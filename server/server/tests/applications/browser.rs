//! A page in Chromium that the server sends, with a WebSocket and an event stream of an application
//! on the same server, as those of chats and dashboards have them.

use testkit::{Browser, Temporary, has};

use crate::harness::for_each_engine;
use crate::in_front_of;
use crate::real_servers::{GO_HTTP, NODE_HTTP, RealServer};

/// A loop, whose thread has many connections, and an engine whose threads have one each.
const ENGINES: [&str; 2] = ["event-loop", "threads"];

/// `outcome` becomes what the page has got.
const PAGE: &str = r#"<!doctype html><title>Live</title><link rel="icon" href="data:,"><script>
function talk() {
    return new Promise((resolve, reject) => {
        const got = [];
        const socket = new WebSocket(`ws://${location.host}/app/ws`);
        socket.binaryType = "arraybuffer";
        socket.onopen = () => { socket.send("h\u00e9llo"); };
        socket.onerror = () => reject("the WebSocket has failed");
        socket.onmessage = ({ data }) => {
            got.push(typeof data === "string" ? data : [...new Uint8Array(data)].join());
            if (got.length === 1) socket.send(new Uint8Array([0, 255, 10]));
            else socket.close(1000, "bye");
        };
        socket.onclose = (end) => resolve([...got, end.wasClean, end.code, end.reason]);
    });
}
function listen() {
    return new Promise((resolve, reject) => {
        const got = [];
        const source = new EventSource("/app/events");
        source.onmessage = ({ data }) => {
            got.push(data);
            if (got.length < 6) return;
            source.close();
            resolve(got);
        };
        source.onerror = () => source.readyState === EventSource.CLOSED && reject("no events");
    });
}
const outcome = Promise.all([talk(), listen()]).then(JSON.stringify);
</script>"#;

/// What the echo says, and the three events of two connections, of which the second names the last
/// event of the first.
const OUTCOME: &str = concat!(
    r#"[["héllo","0,255,10",true,1000,"bye"],"#,
    r#"["1 after 0","2 after 0","3 after 0","4 after 3","5 after 3","6 after 3"]]"#
);

#[test]
fn a_page_has_a_web_socket_and_an_event_stream() {
    let Some(kind) = [&NODE_HTTP, &GO_HTTP].into_iter().find(|kind| has(kind.tool)) else { return };
    let Some(browser) = Browser::start() else { return };
    let browser = std::sync::Mutex::new(browser);
    let program = RealServer::start(kind, &[]);
    let directory = Temporary::new();
    directory.file("site/index.html", PAGE);
    for_each_engine(|spec| {
        if !ENGINES.contains(&spec.name) {
            return;
        }
        let server = in_front_of(spec, &directory, &[program.address()], "");
        let mut browser = browser.lock().unwrap();
        browser.visit(&format!("http://{}/", server.addresses()[0]));
        assert_eq!(browser.evaluate("outcome"), OUTCOME, "{}", spec.name);
        assert!(browser.complaints().is_empty(), "{}: {:?}", spec.name, browser.complaints());
    });
}
