//! A headless Chromium, driven through its pipe (`--remote-debugging-pipe`): JSON messages that end
//! in a zero byte. Just enough to open a page, ask it, point at it and look at it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::tools::{CHROMIUM, has};
use crate::{Temporary, is_root};
use serde_json::{Value, json};

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    orders: Option<ChildStdin>,
    events: BufReader<ChildStdout>,
    session: String,
    number: u64,
    /// Events: what happened beside the answers to calls.
    pub seen: Vec<Value>,
    _profile: Temporary,
}

impl Browser {
    /// With one empty tab; none where there is no Chromium, which is said.
    pub fn start() -> Option<Self> {
        if !has(&CHROMIUM) {
            return None;
        }
        let profile = Temporary::new();
        // The pipe's ends are descriptors 3 and 4; a shell can put ours there.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", "chromium"]);
        command.args(["--headless", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        if is_root() {
            command.arg("--no-sandbox");
        }
        command.arg("about:blank").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        let orders = child.stdin.take();
        let (session, seen) = (String::new(), Vec::new());
        let mut browser =
            Self { child, orders, events, session, number: 0, seen, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            &json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sends an order and waits for its answer.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            order["sessionId"] = json!(self.session);
        }
        let orders = self.orders.as_mut().unwrap();
        write!(orders, "{order}\0").unwrap();
        orders.flush().unwrap();
        loop {
            let message = self.next();
            if message["id"] == json!(self.number) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.seen.push(message);
        }
    }

    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.events.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "Chromium has ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Opens a file and waits until all of it has been loaded.
    pub fn open(&mut self, path: &Path) {
        self.seen.clear();
        self.call("Page.navigate", &json!({ "url": format!("file://{}", path.display()) }));
        while !self.seen.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.seen.push(event);
        }
    }

    /// The size of the window, and whether it is dark.
    pub fn shape(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
        self.settle();
    }

    /// Until the page has been laid out and drawn.
    fn settle(&mut self) {
        self.ask(
            "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))",
        );
    }

    /// The value of a script.
    pub fn ask(&mut self, script: &str) -> Value {
        let question = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &question);
        assert!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Moves the pointer, and clicks if wanted, where the script's `[x, y]` is in the window.
    pub fn point_at(&mut self, script: &str, click: bool) {
        let place = self.ask(script);
        let kinds = ["mouseMoved", "mousePressed", "mouseReleased"];
        for kind in &kinds[..if click { 3 } else { 1 }] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "clickCount": 1,
                "button": if *kind == "mouseMoved" { "none" } else { "left" },
            });
            self.call("Input.dispatchMouseEvent", &event);
        }
        self.settle();
    }

    /// Errors and warnings of the console, and what went wrong without anybody catching it.
    pub fn complaints(&self) -> Vec<&Value> {
        let bad = |event: &&Value| {
            let level = &event["params"]["entry"]["level"];
            let kind = &event["params"]["type"];
            match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Log.entryAdded") => level == "error" || level == "warning",
                Some("Runtime.consoleAPICalled") => kind == "error" || kind == "warning",
                _ => false,
            }
        };
        self.seen.iter().filter(bad).collect()
    }

    /// What was asked for, beside what is in the page itself.
    pub fn requests(&self) -> Vec<String> {
        let asked = self.seen.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let urls = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.filter(|url| !url.starts_with("data:")).map(str::to_owned).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends when its pipe does, and takes its helpers along.
        self.orders = None;
        if self.child.wait().is_err() {
            let _ = self.child.kill();
        }
    }
}
