//! Recordings built from the numbers of a usage series, and their audit.

use std::fmt::Write as _;
use std::path::Path;

use ctxsim::audit::{Account, Finding, SessionAudit, audit};
use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::provider::model::Models;

pub const OPUS: &str = "claude-opus-5";

/// Half an hour before midnight, 2026-10-01 UTC.
pub const EVENING_MS: i64 = 1_790_897_400_000;

/// Tokens of one request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Billed {
    pub read: u64,
    pub short: u64,
    pub long: u64,
    pub uncached: u64,
    pub output: u64,
}

/// Read, and written for five minutes.
pub fn short(read: u64, written: u64) -> Billed {
    Billed { read, short: written, output: 100, ..Billed::default() }
}

/// Read, and written for an hour.
pub fn long(read: u64, written: u64) -> Billed {
    Billed { read, long: written, output: 100, ..Billed::default() }
}

/// Of a vendor that caches by itself: the whole prompt, and what of it was read.
pub fn implicit(prompt: u64, read: u64) -> Billed {
    Billed { read, uncached: prompt - read, output: 100, ..Billed::default() }
}

/// Lines of a session file. Each request is an answer with a call, and its result comes in with the next.
pub struct Log {
    pub lines: Vec<String>,
    model: String,
    at_ms: Option<i64>,
    requests: usize,
    /// Calls of the last answer, by id.
    open: Vec<String>,
    answered: bool,
}

impl Log {
    /// A session whose requests begin at `at_ms`, or have no times.
    pub fn new(at_ms: Option<i64>) -> Log {
        Log { lines: Vec::new(), model: OPUS.into(), at_ms, requests: 0, open: Vec::new(), answered: false }
    }

    /// A session of these requests, ten seconds apart.
    pub fn of(series: impl IntoIterator<Item = Billed>) -> Log {
        let mut log = Log::new(Some(EVENING_MS - 36_000_000));
        series.into_iter().for_each(|billed| log.request(billed));
        log
    }

    pub fn model(&mut self, model: &str) {
        self.model = model.to_owned();
    }

    pub fn pause(&mut self, ms: i64) {
        self.at_ms = self.at_ms.map(|at| at + ms);
    }

    fn stamp(&self) -> String {
        self.at_ms.map_or_else(String::new, |ms| format!(r#""timestamp":"{ms}","#))
    }

    pub fn line(&mut self, kind: &str, rest: &str) {
        let n = self.lines.len();
        let line = format!(r#"{{"type":"{kind}","uuid":"u{n}","sessionId":"s",{}{rest}}}"#, self.stamp());
        self.lines.push(line);
    }

    /// A user line with these content blocks.
    pub fn user(&mut self, blocks: &str) {
        self.line("user", &format!(r#""message":{{"role":"user","content":[{blocks}]}}"#));
        self.answered = true;
    }

    pub fn prompt(&mut self) {
        self.user(r#"{"type":"text","text":"go on"}"#);
    }

    /// The results of all open calls; `content` is the JSON of each.
    pub fn results(&mut self, content: &str) {
        for id in std::mem::take(&mut self.open) {
            let block = format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":{content}}}"#);
            self.user(&block);
        }
    }

    /// An image in the result of the last call.
    pub fn image(&mut self) {
        self.results(
            r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]"#,
        );
    }

    pub fn compaction(&mut self) {
        self.line(
            "system",
            r#""subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":150000}"#,
        );
        self.line("user", r#""isCompactSummary":true,"message":{"role":"user","content":"what was done"}"#);
        self.answered = true;
    }

    pub fn cleared(&mut self, ids: &str, tokens: u64) {
        self.line(
            "system",
            &format!(r#""subtype":"microcompact_boundary","microcompactMetadata":{{"tokensSaved":{tokens},"compactedToolIds":[{ids}]}}"#),
        );
    }

    /// A request ten seconds after the one before; it begins with the results of open calls, or a prompt.
    pub fn request(&mut self, billed: Billed) {
        let id = format!("toolu_{}", self.requests + 1);
        let call =
            format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"step {id}"}}}}"#);
        self.request_with(billed, &call, &[&id]);
    }

    /// The same with these blocks in its answer, and calls of these ids.
    pub fn request_with(&mut self, billed: Billed, blocks: &str, calls: &[&str]) {
        if self.requests > 0 {
            self.pause(10_000);
        }
        self.results(r#""done""#);
        if !std::mem::take(&mut self.answered) {
            self.prompt();
        }
        self.answered = false;
        self.answer(billed, blocks);
        self.open = calls.iter().map(|id| (*id).to_owned()).collect();
    }

    /// An answer without any input of its own.
    pub fn answer(&mut self, billed: Billed, blocks: &str) {
        self.requests += 1;
        let (n, model) = (self.requests, self.model.clone());
        let Billed { read, short, long, uncached, output } = billed;
        let written = short + long;
        self.line(
            "assistant",
            &format!(
                r#""requestId":"req_{n}","message":{{"id":"msg_{n}","model":"{model}","stop_reason":"tool_use","content":[{blocks}],"usage":{{"input_tokens":{uncached},"cache_read_input_tokens":{read},"cache_creation_input_tokens":{written},"cache_creation":{{"ephemeral_5m_input_tokens":{short},"ephemeral_1h_input_tokens":{long}}},"output_tokens":{output}}}}}"#
            ),
        );
    }

    pub fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    pub fn audit(&self) -> SessionAudit {
        audit_of(&self.text())
    }
}

pub fn accounts(text: &str) -> Vec<Account> {
    let recordings = ingest::read(text.as_bytes(), Path::new("log"), &ReadOptions::default()).unwrap();
    recordings.iter().map(account).collect()
}

pub fn account(recording: &Recording) -> Account {
    match recording {
        Recording::Transcript(transcript) => Account::of(transcript),
        Recording::Session(session) | Recording::Hashed { session, .. } => Account::of_session(session),
    }
}

pub fn audit_of(text: &str) -> SessionAudit {
    let accounts = accounts(text);
    assert_eq!(accounts.len(), 1);
    audit(&accounts[0], &Models::builtin().unwrap(), None)
}

/// Causes of all breaks, by request.
pub fn causes(audit: &SessionAudit) -> Vec<(u32, &'static str)> {
    audit.breaks.iter().map(|b| (b.request, b.cause.name())).collect()
}

/// Names of the detectors that found something.
pub fn detectors(audit: &SessionAudit) -> Vec<&'static str> {
    let mut names: Vec<&str> = audit.findings.iter().map(|f| f.detector).collect();
    names.dedup();
    names
}

pub fn finding<'a>(audit: &'a SessionAudit, detector: &str) -> &'a Finding {
    let found = audit.findings.iter().find(|f| f.detector == detector);
    found.unwrap_or_else(|| panic!("no {detector} in {:?}", audit.findings))
}
