//! A headless Chromium, driven through its pipe (`--remote-debugging-pipe`) by JSON messages that
//! end in a zero byte. It offers just enough to open a page, evaluate scripts, move the pointer and
//! read the console.

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
    /// Events, that is messages that answer no call.
    pub seen: Vec<Value>,
    _profile: Temporary,
}

impl Browser {
    /// Starts Chromium with one empty tab; prints a line and returns none where there is no
    /// Chromium.
    pub fn start() -> Option<Self> {
        if !has(&CHROMIUM) {
            return None;
        }
        let profile = Temporary::new();
        // Chromium expects the ends of the pipe as descriptors 3 and 4; a shell moves ours there.
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

    /// Calls a method and waits for its answer.
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

    /// Opens a file and waits until it has been loaded.
    pub fn open(&mut self, path: &Path) {
        self.visit(&format!("file://{}", path.display()));
    }

    /// Opens a page and waits until it has been loaded.
    pub fn visit(&mut self, url: &str) {
        self.seen.clear();
        self.call("Page.navigate", &json!({ "url": url }));
        while !self.seen.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.seen.push(event);
        }
    }

    /// Sets the size of the window, and the light or dark colour scheme.
    pub fn shape(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
        self.wait_until_drawn();
    }

    /// Waits until the page has been laid out and drawn.
    fn wait_until_drawn(&mut self) {
        self.evaluate(
            "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))",
        );
    }

    /// Evaluates a script and returns its value.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let question = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &question);
        assert!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Moves the pointer to the `[x, y]` in the window that the script returns, and clicks if
    /// wanted.
    pub fn point_at(&mut self, script: &str, click: bool) {
        let place = self.evaluate(script);
        let kinds = ["mouseMoved", "mousePressed", "mouseReleased"];
        for kind in &kinds[..if click { 3 } else { 1 }] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "clickCount": 1,
                "button": if *kind == "mouseMoved" { "none" } else { "left" },
            });
            self.call("Input.dispatchMouseEvent", &event);
        }
        self.wait_until_drawn();
    }

    /// Errors and warnings of the console, and uncaught exceptions.
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

    /// The URLs of all requests, except of data in the page itself.
    pub fn requests(&self) -> Vec<String> {
        let asked = self.seen.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let urls = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.filter(|url| !url.starts_with("data:")).map(str::to_owned).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium and its helpers end when the pipe is closed.
        self.orders = None;
        if self.child.wait().is_err() {
            let _ = self.child.kill();
        }
    }
}
