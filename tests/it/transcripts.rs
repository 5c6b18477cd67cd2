//! Hand-made transcripts.

use ctxsim::transcript::{Content, Entry, Event, EventKind, Input, Response, ResultPart, Transcript};
use ctxsim::usage::Usage;

pub const OLDER: &str = "claude-opus-4-6";

pub fn transcript(entries: Vec<Entry>) -> Transcript {
    Transcript {
        format: "claude-code",
        agent: "agent".into(),
        agent_version: "1".into(),
        session_id: "session".into(),
        entries,
        ..Transcript::default()
    }
}

pub fn text(chars: usize) -> Content {
    Content::Text("x".repeat(chars))
}

pub fn call(id: &str) -> Content {
    Content::ToolUse { id: id.into(), name: "Bash".into(), input: "{}".into() }
}

pub fn result(id: &str, chars: usize) -> Content {
    let parts = vec![ResultPart::Text("r".repeat(chars))];
    Content::ToolResult { call_id: id.into(), parts, is_error: false }
}

pub fn thinking(chars: usize, signature_chars: u32) -> Content {
    Content::Thinking { text: "t".repeat(chars), signature_chars, redacted: false }
}

pub fn input(content: Vec<Content>) -> Entry {
    Entry::Input(Input { content, ..Input::default() })
}

pub fn injected(content: Vec<Content>) -> Entry {
    Entry::Input(Input { content, injected: true, ..Input::default() })
}

pub fn event(kind: EventKind) -> Entry {
    Entry::Event(Event { line: 0, at_ms: None, kind })
}

pub fn compaction() -> Entry {
    event(EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None })
}

/// Response of the older generation without usage.
pub fn response(content: Vec<Content>) -> Entry {
    Entry::Response(Response { model: OLDER.into(), content, ..Response::default() })
}

/// Response with uncached, read, and 5-minute written tokens; its output is a placeholder.
pub fn billed(content: Vec<Content>, [uncached, read, written]: [u64; 3]) -> Entry {
    billed_by(OLDER, content, [uncached, read, written])
}

pub fn billed_by(model: &str, content: Vec<Content>, [uncached, read, written]: [u64; 3]) -> Entry {
    let usage = Usage {
        uncached_tokens: uncached,
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens: 1,
    };
    Entry::Response(Response { model: model.into(), content, usage: Some(usage), ..Response::default() })
}

/// The same with a final count of output tokens.
pub fn finished(content: Vec<Content>, input: [u64; 3], output_tokens: u64) -> Entry {
    let Entry::Response(mut response) = billed(content, input) else { unreachable!("billed is a response") };
    response.usage = response.usage.map(|usage| Usage { output_tokens, ..usage });
    response.output_is_final = true;
    Entry::Response(response)
}
