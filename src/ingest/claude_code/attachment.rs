//! Attachments: what the client adds to the conversation by itself, and which of it is sent.
//!
//! # Divergence from the real API
//!
//! The client wraps what varies (a diff, a list of names) in wording of its own, which recordings do
//! not hold: only the part that varies is counted, in the envelope of a system reminder.

use serde_json::Value;

use super::content;
use super::lenient::Body;
use crate::ingest::Detail;
use crate::transcript::Content;

/// How the text of an attachment is formed.
#[derive(Clone, Copy)]
enum Form {
    /// Not sent to the model.
    NotSent,
    /// Sent at session start and with a prompt only, where it has a text.
    HookOutput,
    /// Sent as if typed: a text or content blocks.
    Prompt,
    /// Sent as a system reminder that holds these fields (a dot leads into an object; of names
    /// separated by a bar, the first that is there).
    Reminder(&'static [&'static str]),
}

/// Attachment types, by name.
const TYPES: &[(&str, Form)] = &[
    ("agent_listing_delta", Form::Reminder(&["addedLines|addedTypes", "removedTypes"])),
    ("agent_mention", Form::Reminder(&["agentType"])),
    ("async_hook_response", Form::Reminder(&["response"])),
    ("command_permissions", Form::NotSent),
    ("compact_file_reference", Form::Reminder(&["filename"])),
    ("critical_system_reminder", Form::Reminder(&["content"])),
    ("date_change", Form::Reminder(&["newDate"])),
    ("deferred_tools_delta", Form::Reminder(&["addedLines|addedNames", "removedNames"])),
    ("diagnostics", Form::Reminder(&["files"])),
    ("directory", Form::Reminder(&["path", "content"])),
    ("edited_text_file", Form::Reminder(&["filename", "snippet"])),
    ("file", Form::Reminder(&["filename", "content.file.content|content"])),
    ("hook_additional_context", Form::Reminder(&["content"])),
    ("hook_blocking_error", Form::Reminder(&["blockingError.blockingError|blockingError"])),
    ("hook_success", Form::HookOutput),
    ("invoked_skills", Form::Reminder(&["skills"])),
    ("mcp_instructions_delta", Form::Reminder(&["addedBlocks|addedNames", "removedNames"])),
    ("mcp_resource", Form::Reminder(&["uri", "content"])),
    ("nested_memory", Form::Reminder(&["path", "content.content|content"])),
    ("opened_file_in_ide", Form::Reminder(&["filename"])),
    ("output_style", Form::Reminder(&["style"])),
    ("plan_file_reference", Form::Reminder(&["planFilePath", "planContent"])),
    ("plan_mode", Form::Reminder(&["planFilePath"])),
    ("plan_mode_exit", Form::Reminder(&["planFilePath"])),
    ("plan_mode_reentry", Form::Reminder(&["planFilePath"])),
    ("queued_command", Form::Prompt),
    ("relevant_memories", Form::Reminder(&["memories"])),
    ("selected_lines_in_ide", Form::Reminder(&["filename", "content"])),
    ("skill_listing", Form::Reminder(&["content"])),
    ("task_reminder", Form::Reminder(&["content"])),
    ("task_status", Form::Reminder(&["taskId", "status", "description", "deltaSummary"])),
    ("todo", Form::Reminder(&["content"])),
    ("todo_reminder", Form::Reminder(&["content"])),
    ("total_tokens_reminder", Form::Reminder(&["used", "total", "remaining"])),
    ("ultramemory", Form::Reminder(&["content"])),
];

/// The row of a type. Unknown hooks report to the user; any other unknown type is taken for a
/// reminder.
fn form(kind: &str) -> Form {
    match TYPES.binary_search_by_key(&kind, |(name, _)| name) {
        Ok(row) => TYPES[row].1,
        Err(_) if kind.starts_with("hook_") => Form::NotSent,
        Err(_) => Form::Reminder(&["content|text|snippet"]),
    }
}

/// What an attachment sends to the model; empty if nothing.
pub fn sent_content(attachment: &Value) -> Vec<Content> {
    let field = |name: &str| attachment.get(name).and_then(Value::as_str).unwrap_or_default();
    match form(field("type")) {
        Form::NotSent => Vec::new(),
        Form::HookOutput => {
            let reaches_the_model = matches!(field("hookEvent"), "SessionStart" | "UserPromptSubmit");
            let text = if reaches_the_model { field("content") } else { "" };
            if text.is_empty() { Vec::new() } else { vec![reminder(text)] }
        }
        Form::Prompt => match attachment.get("prompt") {
            Some(Value::String(text)) => vec![Content::Text(text.clone())],
            Some(blocks @ Value::Array(_)) => {
                let text = blocks.to_string();
                serde_json::from_str::<Body<'_>>(&text)
                    .map(|body| content::of_user(body, Detail::Full))
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        },
        Form::Reminder(fields) => {
            let parts =
                fields.iter().filter_map(|spec| spec.split('|').find_map(|path| part(attachment, path)));
            vec![reminder(&parts.collect::<Vec<_>>().join("\n"))]
        }
    }
}

fn reminder(text: &str) -> Content {
    Content::Text(format!("<system-reminder>\n{text}\n</system-reminder>"))
}

/// The text at `path`; `None` if there is nothing.
fn part(attachment: &Value, path: &str) -> Option<String> {
    let value = path.split('.').try_fold(attachment, |value, name| value.get(name))?;
    let text = plain(value);
    (!text.is_empty()).then_some(text)
}

/// Strings as they are, arrays one item a line, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{TYPES, sent_content};
    use crate::transcript::Content;

    fn text(attachment: serde_json::Value) -> Option<String> {
        match sent_content(&attachment).as_slice() {
            [] => None,
            [Content::Text(text)] => {
                let inside = text
                    .strip_prefix("<system-reminder>\n")
                    .and_then(|t| t.strip_suffix("\n</system-reminder>"));
                Some(inside.unwrap_or(text).to_owned())
            }
            more => panic!("{more:?}"),
        }
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(TYPES.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn what_is_sent_has_its_text() {
        for (attachment, expected) in [
            (json!({"type":"queued_command","prompt":"go on"}), "go on"),
            (json!({"type":"edited_text_file","filename":"a.rs","snippet":"1\tx"}), "a.rs\n1\tx"),
            (
                json!({"type":"deferred_tools_delta","addedNames":["A"],"addedLines":["A","B"],"removedNames":["C"]}),
                "A\nB\nC",
            ),
            (json!({"type":"deferred_tools_delta","addedNames":["A"],"addedLines":[]}), "A"),
            (json!({"type":"nested_memory","path":"m","content":{"content":"rules"}}), "m\nrules"),
            (json!({"type":"task_reminder","content":[{"id":"1"}]}), r#"{"id":"1"}"#),
            (json!({"type":"task_reminder","content":[]}), ""),
            (json!({"type":"hook_additional_context","content":["a","b"]}), "a\nb"),
            (json!({"type":"hook_success","hookEvent":"SessionStart","content":"hello"}), "hello"),
            (json!({"type":"something_new","content":"x"}), "x"),
        ] {
            assert_eq!(text(attachment.clone()).as_deref(), Some(expected), "{attachment}");
        }
    }

    #[test]
    fn what_is_not_sent_has_none() {
        for attachment in [
            json!({"type":"hook_success","hookEvent":"PostToolUse","content":"done"}),
            json!({"type":"hook_success","hookEvent":"SessionStart","content":"","stdout":"{}"}),
            json!({"type":"hook_system_message","content":"note"}),
            json!({"type":"hook_something_new","content":"note"}),
            json!({"type":"command_permissions","allowedTools":["A"]}),
        ] {
            assert_eq!(text(attachment.clone()), None, "{attachment}");
        }
    }
}
