//! Mechanisms of offloading: a result that is shortened before it enters the conversation.

use ctxsim::policy::interpreter::Interpreter;
use ctxsim::policy::laws::{self, Facts};
use ctxsim::policy::strategy::{Action, OffloadRule};
use ctxsim::policy::{Policy, Strategy};
use serde_json::{Value, json};

use super::grammar::text;
use super::policy::{Client, edit_law, rule, stub_facts};

pub fn file_name(case: &Client<'_>) -> Value {
    json!({"file_name": laws::offload_file_name(case.text("tool"), case.text("call_id"))})
}

fn offload_rule(strategy: &Strategy) -> Option<(usize, &OffloadRule)> {
    rule(strategy, "offload").and_then(|(i, r)| match &r.action {
        Action::Offload(o) => Some((i, o)),
        _ => None,
    })
}

/// One result in a history of its own.
fn single_result(case: &Client<'_>) -> (Vec<Value>, String, Vec<String>) {
    let content = case.get("content").as_array().cloned().unwrap_or_default();
    let texts: Vec<String> = content.iter().filter_map(|c| c.get("text")).map(text).collect();
    let images: Vec<String> = content.iter().filter_map(|c| c.get("image_base64")).map(text).collect();
    let mut message = json!({
        "role": "tool_result", "id": case.get("call_id"), "tool": case.get("tool"),
        "text": texts.concat(), "is_error": case.get("is_error"),
    });
    if !images.is_empty() {
        message["image_base64"] = json!(images.concat());
    }
    (vec![message], texts.join("\n"), images)
}

fn resolved_limits(case: &Client<'_>) -> serde_json::Map<String, Value> {
    let params = case.config().resolved_params(&case.model()).into_iter();
    params.filter_map(|(k, v)| Some((k.strip_prefix("offloadLimits.")?.to_owned(), json!(v)))).collect()
}

pub fn offload(case: &Client<'_>) -> Value {
    let (list, document, images) = single_result(case);
    let mut conversation = case.conversation(&list);
    let texts =
        case.get("content").as_array().into_iter().flatten().filter(|c| c.get("text").is_some()).count();
    if let Some(parts) = conversation.session.result_parts.first_mut() {
        parts.texts = u32::try_from(texts).unwrap();
    }
    let strategy = case.strategy();
    let context = conversation.context(1);
    let decided = offload_rule(&strategy).and_then(|(i, _)| {
        Interpreter::new(&strategy, &conversation.session).at_tool_result(i, context.view(), 0)
    });
    let fault = match case.get("fault").as_str() {
        Some("write_failed") => Some(laws::WriteFault::Failed),
        Some("aborted") => Some(laws::WriteFault::Aborted),
        _ => None,
    };
    let name = |k: &str| case.get(k).as_str().unwrap_or("").to_owned();
    let existing: Vec<String> = case
        .get("existing_files")
        .as_array()
        .into_iter()
        .flatten()
        .map(|v| v.as_str().unwrap().to_owned())
        .collect();
    let taken = |path: &str| existing.iter().any(|e| e == path || path.ends_with(&format!("/{e}")));
    let path =
        laws::offload_path(&name("dir"), &name("tool"), &name("call_id"), &name("unique_suffix"), &taken);
    let written = laws::written_path(path, fault);
    let resolved = resolved_limits(case);
    let original_details = case.get("details").as_object().cloned().unwrap_or_default();
    let (Some(_), Some(path)) = (decided, written) else {
        return json!({"offloaded": false, "content_unchanged": true, "files_written": 0, "resolved": resolved,
            "path": null, "is_error": case.get("is_error"), "details_contain": original_details});
    };
    let (_, rule) = offload_rule(&strategy).unwrap();
    let units: Vec<u16> = document.encode_utf16().collect();
    let kept = laws::excerpt(units.len() as u64, rule.keep_head, rule.keep_tail);
    let middle =
        &units[usize::try_from(kept.head).unwrap()..units.len() - usize::try_from(kept.tail).unwrap()];
    let lines =
        |part: &[u16]| if part.is_empty() { 0 } else { 1 + part.iter().filter(|u| **u == 10).count() as u64 };
    let facts = Facts {
        tool_utf16: name("tool").encode_utf16().count() as u64,
        path_utf16: path.encode_utf16().count() as u64,
        chars: units.len() as u64,
        bytes: document.len() as u64,
        lines: lines(&units),
        limit: rule.limit,
        omitted_chars: kept.omitted,
        omitted_lines: lines(middle),
        ..Facts::default()
    };
    let mut details = original_details;
    details.insert("offloaded".into(), json!(true));
    details.insert("path".into(), json!(path));
    let mut kinds = vec!["text"];
    kinds.resize(1 + images.len(), "image");
    json!({
        "offloaded": true, "path": path, "stub_chars": rule.stub.utf16(&facts) + kept.head + kept.tail,
        "omitted_chars": kept.omitted, "omitted_lines": facts.omitted_lines, "head": kept.head, "tail": kept.tail,
        "chars": facts.chars, "bytes": facts.bytes, "lines": facts.lines, "result_kinds": kinds, "images": images,
        "is_error": case.get("is_error"), "details_contain": details, "content_unchanged": false, "files_written": 1,
        "resolved": resolved,
    })
}

pub fn offload_then_edit(case: &Client<'_>) -> Value {
    let offloaded = offload(case);
    let stub_chars = offloaded["stub_chars"].as_u64().unwrap();
    let path = offloaded["path"].as_str().unwrap().to_owned();
    let tool = case.get("tool").as_str().unwrap();
    let facts = stub_facts(tool, stub_chars, false, &path);
    let strategy = case.strategy();
    let elision = edit_law(&strategy).utf16(&facts);
    json!({"path": path, "offload_stub_chars": stub_chars, "elided_chars": stub_chars,
        "elision_stub_chars": elision, "chars_saved": stub_chars - elision})
}
