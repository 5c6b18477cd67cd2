//! A headless Chromium, driven over its debugging pipe: JSON messages that end with a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// A browser that does not answer for so long never will.
const PATIENCE: Duration = Duration::from_secs(60);

const FLAGS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--hide-scrollbars",
    "--font-render-hinting=none",
];

/// A page in a browser of its own.
pub struct Page {
    browser: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: String,
    /// Messages that answered no call.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

fn chromium() -> PathBuf {
    if let Some(path) = std::env::var_os("CTXSIM_CHROMIUM") {
        return path.into();
    }
    let folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.find(|path| path.is_file()).expect("Chromium on the PATH, or named by CTXSIM_CHROMIUM")
}

impl Page {
    /// Starts a browser with an empty page of this size.
    pub fn start(width: u32, height: u32) -> Page {
        let profile = tempfile::tempdir().expect("a temporary folder");
        // The pipe is on descriptors 3 and 4; a shell puts ours there.
        let mut browser = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"])
            .arg(chromium())
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let pipe = browser.stdin.take().expect("piped");
        let out = BufReader::new(browser.stdout.take().expect("piped"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in out.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("JSON from the browser");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut page = Page {
            browser,
            pipe,
            messages,
            next: 1,
            session: String::new(),
            events: Vec::new(),
            _profile: profile,
        };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        page.session = text(&page.call("Target.attachToTarget", attach)["sessionId"]);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.resize(width, height);
        page
    }

    /// Changes the size of the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// `light` or `dark`, as the system would say.
    pub fn prefer(&mut self, scheme: &str) {
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", feature);
    }

    /// Opens a file and waits until its scripts have done their work.
    pub fn open(&mut self, path: &Path) {
        self.call("Page.navigate", json!({"url": format!("file://{}", path.display())}));
        self.wait("document.documentElement.dataset.ready === 'true'");
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let promise = format!(
            "new Promise((done) => {{ const look = () => {{ let is = false; try {{ is = {expression}; }} catch {{}} \
             is ? done(true) : setTimeout(look, 20); }}; look(); }})"
        );
        // A page that is being left forgets the promise.
        while self.evaluate(&promise) != json!(true) {}
    }

    /// Value of an expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let args = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.send("Runtime.evaluate", &args);
        assert!(result["result"]["exceptionDetails"].is_null(), "{expression}: {result:#}");
        result["result"]["result"]["value"].clone()
    }

    /// Texts of all elements that a selector finds.
    pub fn texts(&mut self, selector: &str) -> Vec<String> {
        let script = format!("[...document.querySelectorAll({selector:?})].map((e) => e.textContent.trim())");
        self.evaluate(&script).as_array().expect("a list").iter().map(text).collect()
    }

    /// Clicks the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let (x, y) = self.point(selector, 0.5, 0.5);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Moves the pointer over an element, to a share of its width and height.
    pub fn hover(&mut self, selector: &str, across: f64, down: f64) {
        let (x, y) = self.point(selector, across, down);
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Drags over an element, from one share of its width and height to another.
    pub fn drag(&mut self, selector: &str, from: (f64, f64), to: (f64, f64)) {
        let (start, end) = (self.point(selector, from.0, from.1), self.point(selector, to.0, to.1));
        let steps = [("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)];
        for (kind, (x, y)) in steps {
            let event =
                json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    fn point(&mut self, selector: &str, across: f64, down: f64) -> (f64, f64) {
        let script = format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width * {across}, b.y + b.height * {down}]; }})()"
        );
        let point = self.evaluate(&script);
        (point[0].as_f64().expect("x"), point[1].as_f64().expect("y"))
    }

    /// Presses a key: `Tab`, `Enter`, `ArrowRight` or a character.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        let characters = if key == "Enter" {
            "\r"
        } else if code == 0 {
            key
        } else {
            ""
        };
        let down = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": characters});
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    /// The whole page as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let args = json!({"format": "png", "captureBeyondViewport": true});
        base64(&text(&self.call("Page.captureScreenshot", args)["data"]))
    }

    /// Errors on the console, exceptions, and requests for anything but the page itself.
    pub fn complaints(&mut self) -> Vec<String> {
        let told = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Runtime.consoleAPICalled") => {
                    ["error", "warning", "assert"].map(Value::from).contains(&params["type"])
                }
                Some("Log.entryAdded") => {
                    ["error", "warning"].map(Value::from).contains(&params["entry"]["level"])
                }
                Some("Network.requestWillBeSent") => !text(&params["request"]["url"]).starts_with("file:"),
                _ => false,
            }
        };
        self.evaluate("0");
        self.events.iter().filter(|e| told(e)).map(Value::to_string).collect()
    }

    /// Result of a method that must succeed.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.send(method, &params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn send(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.pipe.write_all(format!("{message}\0").as_bytes()).expect("the browser reads");
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("an answer of the browser");
            if message["id"] == json!(id) {
                return message;
            }
            self.events.push(message);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// A string in JSON.
pub fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(digit).collect();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let bits = chunk.iter().fold(0_u32, |bits, d| bits << 6 | u32::from(*d)) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    out
}
