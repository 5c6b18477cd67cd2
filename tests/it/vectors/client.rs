//! Mechanisms of the client's wire and session file.

use ctxsim::provider::{SentKind, Ttl};
use ctxsim::session::{Flags, PrefixBlock};
use ctxsim::sim::ledger::{SessionEntry, replay_entries};
use serde_json::{Value, json};

use super::grammar::text;
use super::policy::Client;

/// Blocks in front of the conversation, told apart by their hash.
fn prefix_blocks(count: usize, salt: u64) -> Vec<PrefixBlock> {
    (0..count).map(|i| PrefixBlock { hash: salt + i as u64, tokens: 10 }).collect()
}

pub fn cache_markers(case: &Client<'_>) -> Value {
    let (list, mut conversation) = case.built();
    let system = usize::try_from(case.get("system_blocks").as_u64().unwrap_or(0)).unwrap();
    let tools = case.get("tools").as_array().map_or(0, Vec::len);
    conversation.session.prefix.tools = prefix_blocks(tools, 1_000);
    conversation.session.prefix.system = prefix_blocks(system, 2_000);
    let mut model = case.model();
    if case.get("caching").as_bool() == Some(false) {
        model.cache = None;
    }
    let strategy = case.config().strategy(&model, &ctxsim::provider::Models::builtin().unwrap()).unwrap();
    let context = conversation.context(list.len());
    let mut placed = Vec::new();
    context.wire().markers(&strategy.markers, &mut placed);
    let blocks = context.wire().blocks();
    let markers: Vec<Value> = placed
        .iter()
        .map(|marker| {
            let at = marker.after as usize;
            match blocks[at].kind {
                SentKind::Tool => json!({"at": "tool", "index": at}),
                SentKind::System => json!({"at": "system", "index": at - tools}),
                _ => {
                    let message = blocks[at].message;
                    let first =
                        blocks.iter().position(|b| !b.kind.is_prefix() && b.message == message).unwrap();
                    json!({"at": "message", "index": message, "block": at - first})
                }
            }
        })
        .collect();
    let ttl = placed.first().map(|m| if m.ttl == Ttl::Long { "1h" } else { "5m" });
    json!({"markers": markers, "ttl": ttl})
}

/// A session has the results of a step before its other input (`Step::input`), as `compile` puts them.
fn results_first(mut list: Vec<Value>) -> Vec<Value> {
    for input in list.split_mut(|m| m["role"] == "assistant") {
        input.sort_by_key(|m| m["role"] != "tool_result");
    }
    list
}

pub fn wire(case: &Client<'_>) -> Value {
    let conversation = case.conversation(&results_first(case.list()));
    let context = conversation.context(conversation.message_start.len());
    let session = &conversation.session;
    let mut roles: Vec<&str> = Vec::new();
    let mut kinds: Vec<Vec<&str>> = Vec::new();
    for (sent, block) in context.wire().session_blocks() {
        if sent.message as usize == roles.len() {
            roles.push(if sent.kind.is_assistant() { "assistant" } else { "user" });
            kinds.push(Vec::new());
        }
        let kind = match sent.kind {
            SentKind::Thinking if session.blocks.flags[block as usize].has(Flags::REDACTED) => {
                "redacted_thinking"
            }
            SentKind::Thinking => "thinking",
            SentKind::ToolUse => "tool_use",
            SentKind::ToolResult => "tool_result",
            SentKind::Image => "image",
            _ => "text",
        };
        kinds.last_mut().unwrap().push(kind);
    }
    json!({"roles": roles, "block_kinds": kinds})
}

pub fn entries(case: &Client<'_>) -> Value {
    let list = case.get("entries").as_array().cloned().unwrap_or_default();
    let id = |e: &Value| e["id"].as_str().unwrap().to_owned();
    let parsed: Vec<SessionEntry> = list
        .iter()
        .map(|e| match e["kind"].as_str().unwrap() {
            "message" => SessionEntry::Message { id: id(e) },
            "compaction" => {
                SessionEntry::Compaction { id: id(e), up_to: e["up_to"].as_str().unwrap().to_owned() }
            }
            _ => SessionEntry::Other { id: id(e) },
        })
        .collect();
    let replayed = replay_entries(&parsed);
    let wrap = 41;
    let shown: Vec<(String, u64)> = replayed
        .messages
        .iter()
        .map(|i| match &parsed[*i] {
            SessionEntry::Compaction { .. } => {
                ("user".to_owned(), wrap + text(&list[*i]["summary"]).encode_utf16().count() as u64)
            }
            _ => {
                let message = &list[*i]["message"];
                let body = message.get("text").map(text).unwrap_or_default();
                (message["role"].as_str().unwrap().to_owned(), body.encode_utf16().count() as u64)
            }
        })
        .collect();
    json!({
        "messages": shown.len(), "entries": parsed.len(), "leaf": replayed.leaf,
        "roles": shown.iter().map(|(role, _)| role).collect::<Vec<_>>(),
        "first_chars": shown.first().map_or(0, |(_, chars)| *chars),
    })
}
