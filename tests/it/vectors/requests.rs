//! Mechanism `requests`: a conversation with the mock provider.

use ctxsim::provider::{
    Account, Answer, Marker, ModelSpec, NO_LINK, Params, PrefixMismatch, Provider, RejectionKind, Request,
    SentBlock, SentKind, Ttl, wire_path,
};
use serde_json::{Map, Value, json};

use super::{Case, grammar, provider::models};

type Fields = Map<String, Value>;

/// The client's side: its blocks, and the response that the next request will carry.
#[derive(Default)]
struct Client {
    blocks: Vec<Fields>,
    output: Vec<Fields>,
    sent: Vec<SentBlock>,
    thinking_ids: Vec<String>,
    cached_before: u64,
}

pub fn run(case: &Case<'_>) -> Option<Value> {
    if case.system != "anthropic-api" {
        return None;
    }
    let model = models().get(case.input["model"].as_str().unwrap()).unwrap();
    let account = case.input.get("account").unwrap_or(&case.defaults["anthropic"]["account"]);
    let account: Account = serde_json::from_value(account.clone()).unwrap();
    let mut provider = Provider::new(model, account);
    let mut client = Client::default();
    for request in case.input.get("setup").and_then(Value::as_array).into_iter().flatten() {
        client.send(&mut provider, model, request.as_object().unwrap());
    }
    let requests = case.input["requests"].as_array().unwrap();
    let outcomes: Vec<Value> =
        requests.iter().map(|r| client.send(&mut provider, model, r.as_object().unwrap())).collect();
    Some(json!({ "requests": outcomes }))
}

impl Client {
    fn send(&mut self, provider: &mut Provider<'_>, model: &ModelSpec, request: &Fields) -> Value {
        self.edit(request);
        let blocks = self.wire(request);
        let same = |(a, b): &(&SentBlock, &SentBlock)| {
            SentBlock { message: 0, ..**a } == SentBlock { message: 0, ..**b }
        };
        let changed_from = self.sent.iter().zip(&blocks).take_while(same).count();
        let index = |id: &Value| self.blocks.iter().position(|b| b["id"] == *id).unwrap() as u32;
        let markers: Vec<Marker> = list(request, "markers")
            .iter()
            .map(|m| Marker { after: index(&m["after"]), ttl: ttl(&m["ttl"]) })
            .collect();
        let number = |field: &str| request.get(field).and_then(Value::as_u64).unwrap_or(0);
        let params = request.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
        let answer = provider.send(&Request {
            at_ms: request["at_ms"].as_i64().unwrap(),
            ttft_ms: number("ttft_ms") as u32,
            blocks: &blocks,
            changed_from,
            change: None,
            markers: &markers,
            automatic: request.get("automatic").map(ttl),
            params: parameters(&params),
            tail_tokens: 0,
            max_output_tokens: params.get("max_tokens").and_then(Value::as_u64).unwrap_or(0) as u32,
        });
        self.sent = blocks;
        self.output = request.get("output").map(|o| grammar::expand(o, "repeat_blocks")).unwrap_or_default();
        match answer {
            Answer::Done(_) => {
                let ids: Vec<u32> = self.output.clone().iter().filter_map(|b| self.thinking_id(b)).collect();
                let outcome = self.outcome(provider, model, &answer, number("output_tokens"));
                provider.answered(&ids);
                outcome
            }
            Answer::Rejected(_) => {
                self.output.clear();
                self.outcome(provider, model, &answer, 0)
            }
        }
    }

    /// The request's blocks: given, or the previous ones with the response and the edits.
    fn edit(&mut self, request: &Fields) {
        if let Some(blocks) = request.get("blocks") {
            self.blocks = grammar::expand(blocks, "repeat_blocks");
            return;
        }
        self.blocks.append(&mut self.output);
        for (id, fields) in request.get("replace").and_then(Value::as_object).into_iter().flatten() {
            let block = self.blocks.iter_mut().find(|b| b["id"] == *id).unwrap();
            block.extend(fields.as_object().unwrap().clone());
        }
        for id in list(request, "remove") {
            self.blocks.retain(|b| b["id"] != *id);
        }
        for insert in list(request, "insert") {
            let at = self.blocks.iter().position(|b| b["id"] == insert["before"]).unwrap();
            self.blocks.insert(at, insert["block"].as_object().unwrap().clone());
        }
        if let Some(append) = request.get("append") {
            self.blocks.extend(grammar::expand(append, "repeat_blocks"));
        }
        // Tools, then system, then messages, whatever the order of the list.
        self.blocks.sort_by_key(|b| match b["kind"].as_str().unwrap() {
            "tool" => 0,
            "system" => 1,
            _ => 2,
        });
    }

    fn wire(&mut self, request: &Fields) -> Vec<SentBlock> {
        let server_edits =
            request.get("server_edits").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut sent: Vec<SentBlock> = Vec::new();
        for block in &self.blocks.clone() {
            let id = block["id"].as_str().unwrap();
            let kind = kind(block);
            let version = block.get("version").and_then(Value::as_u64).unwrap_or(1);
            let edited = server_edits.get(id).and_then(Value::as_u64);
            let last = sent.last().filter(|b| !b.kind.is_prefix());
            let counted =
                last.map_or(0, |b| b.message + u32::from(b.kind.is_assistant() != kind.is_assistant()));
            sent.push(SentBlock {
                hash: xxhash_rust::xxh3::xxh3_64(format!("{id} {version}").as_bytes()),
                tokens: edited.unwrap_or_else(|| block["tokens"].as_u64().unwrap()) as u32,
                link: self.thinking_id(block).unwrap_or(NO_LINK),
                message: block.get("message").and_then(Value::as_u64).map_or(counted, |m| m as u32),
                kind,
                deferred: block.get("deferred").and_then(Value::as_bool).unwrap_or(false),
                placeholder: edited.is_some(),
            });
        }
        sent
    }

    fn thinking_id(&mut self, block: &Fields) -> Option<u32> {
        if block["kind"] != "thinking" {
            return None;
        }
        let id = block["id"].as_str().unwrap();
        let known = self.thinking_ids.iter().position(|t| t == id);
        Some(known.unwrap_or_else(|| {
            self.thinking_ids.push(id.to_owned());
            self.thinking_ids.len() - 1
        }) as u32)
    }

    fn outcome(
        &mut self,
        provider: &Provider<'_>,
        model: &ModelSpec,
        answer: &Answer,
        output_tokens: u64,
    ) -> Value {
        let id = |at: u32| self.blocks[at as usize]["id"].clone();
        match answer {
            Answer::Rejected(rejection) => json!({
                "error": {
                    "kind": match rejection.kind {
                        RejectionKind::Binding { .. } => "binding",
                        RejectionKind::Overflow { .. } => "overflow",
                        RejectionKind::InvalidRequest => "invalid_request",
                    },
                    "block": rejection.block.map(id),
                    "path": rejection.path,
                    "message": rejection.message,
                },
                "cost_pusd": 0,
            }),
            Answer::Done(done) => {
                let mut usage = done.usage;
                usage.output_tokens = output_tokens;
                let failing = |i: u32| {
                    provider.mismatched_thinking().contains(&i) || provider.dropped_thinking().contains(&i)
                };
                let sent =
                    (0..self.sent.len() as u32).filter(|&i| self.sent[i as usize].kind == SentKind::Thinking);
                let thinking: Map<String, Value> =
                    sent.map(|i| (id(i).as_str().unwrap().to_owned(), json!(!failing(i)))).collect();
                let failed = thinking.values().filter(|valid| **valid == json!(false)).count();
                let kept = usage.cache_read_tokens == self.cached_before;
                self.cached_before = usage.cache_read_tokens + usage.cache_write_tokens();
                let dropped = provider.dropped_thinking();
                json!({
                    "cache_read": usage.cache_read_tokens,
                    "cache_write_5m": usage.cache_write_5m_tokens,
                    "cache_write_1h": usage.cache_write_1h_tokens,
                    "uncached": usage.uncached_tokens,
                    "output": output_tokens,
                    "cost_pusd": model.prices.cost(&usage, None).map(|c| c.total() as u64),
                    "error": null,
                    "later_thinking": match failed {
                        0 => "valid",
                        n if n == thinking.len() => "invalid_all",
                        _ => "invalid",
                    },
                    "thinking": thinking,
                    "dropped_thinking": dropped.iter().map(|&i| id(i)).collect::<Vec<_>>(),
                    "dropped_paths": dropped.iter().map(|&i| wire_path(&self.sent, i as usize)).collect::<Vec<_>>(),
                    "allowed_mismatches": done.allowed_mismatches,
                    "messages_cache": if kept { "kept" } else { "lost" },
                })
            }
        }
    }
}

fn list<'a>(request: &'a Fields, field: &str) -> &'a [Value] {
    request.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn ttl(value: &Value) -> Ttl {
    serde_json::from_value(value.clone()).unwrap()
}

fn kind(block: &Fields) -> SentKind {
    let assistant = block.get("role").and_then(Value::as_str) == Some("assistant");
    match block["kind"].as_str().unwrap() {
        "tool" => SentKind::Tool,
        "system" => SentKind::System,
        "text" if assistant => SentKind::AssistantText,
        "text" => SentKind::Text,
        "thinking" => SentKind::Thinking,
        "tool_use" => SentKind::ToolUse,
        "tool_result" => SentKind::ToolResult,
        "image" => SentKind::Image,
        other => panic!("kind {other}"),
    }
}

fn parameters(params: &Fields) -> Params {
    let text = |field: &str| params.get(field).filter(|v| !v.is_null()).map(ToString::to_string);
    let differs = |field: &str, default: &str| text(field).filter(|t| *t != format!("\"{default}\""));
    let keyed = (differs("tool_choice", "auto"), differs("effort", "default"));
    Params {
        messages_key: if keyed == (None, None) {
            0
        } else {
            xxhash_rust::xxh3::xxh3_64(format!("{keyed:?}").as_bytes())
        },
        prefix_mismatch: match params.get("prefix_mismatch_behavior").and_then(Value::as_str) {
            None => None,
            Some("error") => Some(PrefixMismatch::Error),
            Some("drop_block") => Some(PrefixMismatch::DropBlock),
            Some(other) => panic!("prefix_mismatch_behavior {other}"),
        },
        binding_beta: params.get("beta").and_then(Value::as_bool).unwrap_or(false),
        truncates: false,
    }
}
