//! One session written twice: plainly, and with its lines split, doubled or in another order where the format
//! allows it.

use serde_json::{Value, json};

/// Choices that are made by the fuzzer's bytes; zeros when they are used up.
pub struct Draw<'b>(&'b [u8]);

impl<'b> Draw<'b> {
    /// Draws from `bytes`.
    pub fn new(bytes: &'b [u8]) -> Draw<'b> {
        Draw(bytes)
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    fn chance(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Any text, odd characters included.
    fn text(&mut self) -> String {
        let length = usize::from(self.below(24)).min(self.0.len());
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(head).into_owned()
    }

    fn shuffle(&mut self, lines: &mut [Value]) {
        for i in (1..lines.len()).rev() {
            lines.swap(i, usize::from(self.byte()) % (i + 1));
        }
    }
}

/// Makes the two texts.
type Maker = fn(&mut Draw<'_>) -> (String, String);

/// Line formats, by name.
pub const MAKERS: &[(&str, Maker)] = &[
    ("claude-code", claude_code),
    ("codex", codex),
    ("pi", pi),
    ("gemini-cli", gemini_cli),
    ("claude-trace", claude_trace),
    ("arcturn", arcturn),
    ("copilot-cli", copilot_cli),
    ("goose", goose),
    ("otel", otel),
    ("request-log", request_log),
];

/// Most sessions are longer; these are enough to meet each other.
const MOST_RESPONSES: u8 = 6;

fn text_of(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Each line once, or twice.
fn doubled(lines: &[Value], draw: &mut Draw<'_>) -> Vec<Value> {
    lines.iter().flat_map(|line| std::iter::repeat_n(line.clone(), 1 + usize::from(draw.chance()))).collect()
}

/// Blocks of one answer are lines of their own, whose usage grows; any order, any number of times.
fn claude_code(draw: &mut Draw<'_>) -> (String, String) {
    let (mut plain, mut mixed) = (Vec::new(), Vec::new());
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        let blocks: Vec<Value> = (0..1 + draw.below(4)).map(|n| claude_block(id, n, draw)).collect();
        let input = draw.byte();
        let line = |uuid: String, blocks: &[Value], output: usize| {
            json!({"type": "assistant", "uuid": uuid, "sessionId": "s", "requestId": format!("q{id}"), "message": {
                "id": format!("m{id}"), "model": "m", "role": "assistant", "content": blocks, "stop_reason": "end_turn",
                "usage": {"input_tokens": input, "cache_read_input_tokens": id, "output_tokens": output},
            }})
        };
        plain.push(line(format!("u{id}"), &blocks, blocks.len()));
        let split: Vec<Value> = (1..)
            .zip(&blocks)
            .map(|(n, block)| line(format!("u{id}-{n}"), std::slice::from_ref(block), n))
            .collect();
        let mut split = doubled(&split, draw);
        draw.shuffle(&mut split);
        mixed.extend(split);
    }
    (text_of(&plain), text_of(&mixed))
}

fn claude_block(id: u8, n: u8, draw: &mut Draw<'_>) -> Value {
    json!({"type": "tool_use", "id": format!("c{id}-{n}"), "name": draw.text(), "input": {"a": draw.text()}})
}

/// The count of an answer stands before the results of its calls or behind them, and may be repeated.
fn codex(draw: &mut Draw<'_>) -> (String, String) {
    let mut plain = vec![json!({"type": "session_meta", "payload": {"id": "s"}})];
    let mut mixed = plain.clone();
    let mut total = 0_u64;
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        let item = |payload: Value| json!({"type": "response_item", "payload": payload});
        let calls: Vec<Value> = (0..1 + draw.below(3))
            .map(|n| item(json!({"type": "function_call", "call_id": format!("c{id}-{n}"), "name": "shell", "arguments": draw.text()})))
            .collect();
        let results: Vec<Value> = (0..calls.len())
            .map(|n| item(json!({"type": "function_call_output", "call_id": format!("c{id}-{n}"), "output": draw.text()})))
            .collect();
        let input = u64::from(draw.byte()) + 1;
        total += input + 1;
        let count = json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
            "last_token_usage": {"input_tokens": input, "cached_input_tokens": input / 2, "output_tokens": 1},
            "total_token_usage": {"total_tokens": total},
        }}});
        plain.extend(calls.iter().chain([&count]).chain(&results).cloned());
        mixed.extend(doubled(&calls, draw));
        let counts = doubled(&[count], draw);
        let results = doubled(&results, draw);
        let (first, second) = if draw.chance() { (counts, results) } else { (results, counts) };
        mixed.extend(first.into_iter().chain(second));
    }
    (text_of(&plain), text_of(&mixed))
}

/// Entries of a tree, any of them twice.
fn pi(draw: &mut Draw<'_>) -> (String, String) {
    let mut lines = vec![
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-01T10:00:00Z", "cwd": "w"}),
    ];
    let mut parent = Value::Null;
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        let prompt = json!({"type": "message", "id": format!("u{id}"), "parentId": parent, "message": {"role": "user", "content": draw.text()}});
        let answer = json!({"type": "message", "id": format!("a{id}"), "parentId": format!("u{id}"), "message": {
            "role": "assistant", "model": "m", "responseId": format!("r{id}"), "stopReason": "stop",
            "content": [{"type": "text", "text": draw.text()}],
            "usage": {"input": draw.byte(), "output": 1, "cacheRead": draw.byte(), "cacheWrite": 0},
        }});
        parent = json!(format!("a{id}"));
        lines.extend([prompt, answer]);
    }
    let mixed = doubled(&lines, draw);
    (text_of(&lines), text_of(&mixed))
}

/// A message is written again whenever it changes; the last version counts.
fn gemini_cli(draw: &mut Draw<'_>) -> (String, String) {
    let head =
        json!({"sessionId": "s", "projectHash": "p", "startTime": "2026-03-01T10:00:00Z", "kind": "main"});
    let (mut plain, mut mixed) = (vec![head.clone()], vec![head]);
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        let message = |content: String, output: u8| {
            json!({"id": format!("g{id}"), "type": "gemini", "model": "m", "content": content,
                "tokens": {"input": 10, "output": output, "cached": 3}})
        };
        let (content, output) = (draw.text() + ".", draw.byte());
        mixed.extend((0..draw.below(3)).map(|early| message(".".to_owned(), early)));
        let whole = message(content, output);
        plain.push(whole.clone());
        mixed.extend(doubled(&[whole], draw));
    }
    (text_of(&plain), text_of(&mixed))
}

/// Pairs of a request with its whole history and an answer, any of them twice.
fn claude_trace(draw: &mut Draw<'_>) -> (String, String) {
    let (mut lines, mut history) = (Vec::new(), Vec::new());
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        history.push(json!({"role": "user", "content": draw.text()}));
        let answer = draw.text();
        lines.push(json!({
            "request": {"url": "u", "timestamp": 1_772_359_200 + u64::from(id), "body": {"model": "m", "messages": history}},
            "response": {"status_code": 200, "body": {"id": format!("m{id}"), "role": "assistant", "model": "m",
                "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
                "usage": {"input_tokens": draw.byte(), "output_tokens": 1}}},
        }));
        // Sometimes the client forgets what it sent.
        if draw.below(4) == 0 {
            history.remove(0);
        }
        history.push(json!({"role": "assistant", "content": answer}));
    }
    let mixed = doubled(&lines, draw);
    (text_of(&lines), text_of(&mixed))
}

/// Entries of a tree in another dress, any of them twice.
fn arcturn(draw: &mut Draw<'_>) -> (String, String) {
    let mut lines =
        vec![json!({"version": 1, "sessionId": "s", "cwd": "w", "createdAt": 1_790_000_000_000_u64})];
    let mut parent = Value::Null;
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        let entry = |name: String, parent: Value, message: Value| json!({"kind": "message", "id": name, "parentId": parent, "message": message});
        let prompt = json!({"role": "user", "content": [{"type": "text", "text": draw.text()}]});
        let answer = json!({
            "role": "assistant", "model": "m", "stopReason": "toolCalls",
            "content": [{"type": "toolCall", "id": format!("c{id}"), "name": "bash", "arguments": {"command": draw.text()}}],
            "usage": {"inputTokens": draw.byte(), "outputTokens": 1, "cacheReadTokens": draw.byte(), "cacheWriteTokens": 2},
        });
        let result = json!({"role": "toolResult", "toolCallId": format!("c{id}"), "toolName": "bash",
            "content": [{"type": "text", "text": draw.text()}]});
        lines.push(entry(format!("u{id}"), parent, prompt));
        lines.push(entry(format!("a{id}"), json!(format!("u{id}")), answer));
        lines.push(entry(format!("r{id}"), json!(format!("a{id}")), result));
        parent = json!(format!("r{id}"));
    }
    let mixed = doubled(&lines, draw);
    (text_of(&lines), text_of(&mixed))
}

/// Events with ids, any of them twice; an answer may be spread over several of one call to the API.
fn copilot_cli(draw: &mut Draw<'_>) -> (String, String) {
    let event = |name: String, kind: &str, data: Value| json!({"type": kind, "id": name, "data": data});
    let mut lines = vec![event(
        "h".to_owned(),
        "session.start",
        json!({"sessionId": "s", "version": 1, "producer": "copilot-agent"}),
    )];
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        lines.push(event(format!("u{id}"), "user.message", json!({"content": draw.text()})));
        let call =
            json!({"toolCallId": format!("c{id}"), "name": "bash", "arguments": {"command": draw.text()}});
        let answer = json!({"messageId": format!("m{id}"), "apiCallId": format!("q{id}"), "model": "m", "content": draw.text(),
            "toolRequests": [call], "outputTokens": draw.byte()});
        lines.push(event(format!("a{id}"), "assistant.message", answer));
        let result =
            json!({"toolCallId": format!("c{id}"), "success": true, "result": {"content": draw.text()}});
        lines.push(event(format!("r{id}"), "tool.execution_complete", result));
    }
    let mixed = doubled(&lines, draw);
    (text_of(&lines), text_of(&mixed))
}

/// Messages with ids or without, any of them twice.
fn goose(draw: &mut Draw<'_>) -> (String, String) {
    let mut lines = vec![json!({"working_dir": "w", "description": "d"})];
    for id in 0..1 + u64::from(draw.below(MOST_RESPONSES)) {
        let mut message = |role: &str, at: u64, content: Value| {
            let mut line =
                json!({"role": role, "created": 1_790_000_000 + 10 * id + at, "content": [content]});
            if draw.chance() {
                line["id"] = json!(format!("m{id}-{at}"));
            }
            line
        };
        let call = json!({"status": "success", "value": {"name": "shell", "arguments": {"command": id}}});
        let result = json!({"status": "success", "value": [{"type": "text", "text": "done"}]});
        lines.push(message("user", 0, json!({"type": "text", "text": "go on"})));
        lines.push(message(
            "assistant",
            1,
            json!({"type": "toolRequest", "id": format!("t{id}"), "toolCall": call}),
        ));
        lines.push(message(
            "user",
            2,
            json!({"type": "toolResponse", "id": format!("t{id}"), "toolResult": result}),
        ));
    }
    let mixed = doubled(&lines, draw);
    (text_of(&lines), text_of(&mixed))
}

/// Spans of an export, in any order and any of them twice.
fn otel(draw: &mut Draw<'_>) -> (String, String) {
    let (mut lines, mut sent) = (Vec::new(), Vec::new());
    for id in 0..1 + u64::from(draw.below(MOST_RESPONSES)) {
        let message =
            |role: &str, text: String| json!({"role": role, "parts": [{"type": "text", "content": text}]});
        sent.push(message("user", draw.text()));
        let answer = message("assistant", draw.text());
        let text = |key: &str, text: String| json!({"key": key, "value": {"stringValue": text}});
        let count = |key: &str, count: u8| json!({"key": key, "value": {"intValue": count.to_string()}});
        lines.push(json!({"resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": "t", "spanId": format!("s{id}"), "name": "chat",
            "startTimeUnixNano": format!("{}", 1_772_359_200_000_000_000 + id * 1_000_000_000),
            "attributes": [
                text("gen_ai.request.model", "m".to_owned()),
                text("gen_ai.conversation.id", "c".to_owned()),
                text("gen_ai.input.messages", Value::from(sent.clone()).to_string()),
                text("gen_ai.output.messages", json!([answer]).to_string()),
                count("gen_ai.usage.input_tokens", draw.byte()),
                count("gen_ai.usage.output_tokens", draw.byte()),
            ],
        }]}]}]}));
        sent.push(answer);
    }
    let mut mixed = doubled(&lines, draw);
    draw.shuffle(&mut mixed);
    (text_of(&lines), text_of(&mixed))
}

/// Pairs of bodies, any of them twice.
fn request_log(draw: &mut Draw<'_>) -> (String, String) {
    let (mut lines, mut history) = (Vec::new(), Vec::new());
    for id in 0..1 + draw.below(MOST_RESPONSES) {
        history.push(json!({"role": "user", "content": draw.text()}));
        let call = json!({"id": format!("c{id}"), "type": "function", "function": {"name": "shell", "arguments": "{}"}});
        let answer = json!({"role": "assistant", "content": draw.text(), "tool_calls": [call]});
        lines.push(json!({
            "request": {"model": "m", "messages": history},
            "response": {"id": format!("g{id}"), "object": "chat.completion", "model": "m",
                "choices": [{"index": 0, "message": answer}],
                "usage": {"prompt_tokens": draw.byte(), "completion_tokens": draw.byte()}},
        }));
        history.push(answer);
        history.push(json!({"role": "tool", "tool_call_id": format!("c{id}"), "content": draw.text()}));
    }
    let mixed = doubled(&lines, draw);
    (text_of(&lines), text_of(&mixed))
}
