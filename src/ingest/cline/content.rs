//! Blocks of messages, and calls that are written as XML.

use serde_json::{Map, Value};

use crate::ingest::image;
use crate::ingest::value::{self, chars, flag, items, text};
use crate::transcript::{Content, ResultPart};

/// Tools that older versions have the model call in XML.
const XML_TOOLS: &[&str] = &[
    "execute_command",
    "read_file",
    "write_to_file",
    "replace_in_file",
    "apply_diff",
    "insert_content",
    "search_and_replace",
    "search_files",
    "list_files",
    "list_code_definition_names",
    "browser_action",
    "use_mcp_tool",
    "access_mcp_resource",
    "ask_followup_question",
    "attempt_completion",
    "new_task",
    "plan_mode_respond",
    "switch_mode",
    "fetch_instructions",
    "update_todo_list",
    "codebase_search",
    "web_fetch",
    "condense",
];

/// Elements that hold what the user typed.
const TYPED: &[&str] = &["<task>", "<feedback>", "<user_message>", "<answer>"];

/// The texts of a message's content.
pub fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().map(|block| text(block, "text")).collect(),
        _ => Vec::new(),
    }
}

/// Content of a message of the user.
pub fn of_user(message: &Value) -> Vec<Content> {
    match message.get("content").unwrap_or(&Value::Null) {
        Value::Array(blocks) => blocks.iter().flat_map(user_block).collect(),
        other => value::user_content(other),
    }
}

fn user_block(block: &Value) -> Vec<Content> {
    match text(block, "type") {
        "tool_result" => vec![Content::ToolResult {
            call_id: text(block, "tool_use_id").to_owned(),
            parts: match block.get("content").unwrap_or(&Value::Null) {
                Value::Array(parts) => parts.iter().map(part).collect(),
                other => value::result_parts(other),
            },
            is_error: flag(block, "is_error"),
        }],
        "image" => match part(block) {
            ResultPart::Image(image) => vec![Content::Image(image)],
            _ => Vec::new(),
        },
        _ => value::user_content(block),
    }
}

/// A part of a result. An image has its data in `source`.
fn part(block: &Value) -> ResultPart {
    match block.pointer("/source/data").and_then(Value::as_str) {
        Some(data) if text(block, "type") == "image" => ResultPart::Image(image::describe(data)),
        _ => value::result_part(block),
    }
}

/// Content of a response.
pub fn of_response(message: &Value) -> Vec<Content> {
    if let Some(text) = message.get("content").and_then(Value::as_str) {
        return vec![Content::Text(text.to_owned())];
    }
    items(message, "content").iter().filter_map(block).collect()
}

fn block(block: &Value) -> Option<Content> {
    match text(block, "type") {
        "text" => Some(Content::Text(text(block, "text").to_owned())),
        "thinking" => Some(Content::Thinking {
            text: text(block, "thinking").to_owned(),
            signature_chars: chars(text(block, "signature")),
            redacted: false,
        }),
        "redacted_thinking" => Some(Content::Thinking {
            text: String::new(),
            signature_chars: chars(text(block, "data")),
            redacted: true,
        }),
        // Kept for the interface, and sent again as the provider asks for it.
        "reasoning" => Some(Content::Thinking {
            text: text(block, "text").to_owned(),
            signature_chars: chars(text(block, "encrypted_content")),
            redacted: false,
        }),
        "tool_use" => Some(Content::ToolUse {
            id: text(block, "id").to_owned(),
            name: text(block, "name").to_owned(),
            input: block.get("input").map_or_else(|| "{}".to_owned(), Value::to_string),
        }),
        _ => None,
    }
}

/// Whether the client put a text in: the state of the workspace, and, next to results, all but what the user
/// typed.
pub fn is_by_client(content: &Content, answers: bool) -> bool {
    let Content::Text(text) = content else { return answers };
    let has_typed = TYPED.iter().any(|tag| text.contains(tag));
    text.starts_with("<environment_details>") || text.starts_with("[ERROR]") || (answers && !has_typed)
}

/// Puts the last call that is written as XML in the place of its text; gives its tool.
pub fn take_xml_call(content: &mut Vec<Content>, id: &str) -> Option<String> {
    if content.iter().any(|c| matches!(c, Content::ToolUse { .. })) {
        return None;
    }
    let place = content.iter().rposition(|c| matches!(c, Content::Text(_)))?;
    let Content::Text(text) = &content[place] else { return None };
    let found = XML_TOOLS.iter().filter_map(|tool| Some((text.rfind(&format!("<{tool}>"))?, *tool)));
    let (start, tool) = found.max()?;
    let inside = &text[start + tool.len() + 2..];
    // A call that breaks off is none.
    let (inside, _) = inside.split_once(&format!("</{tool}>"))?;
    let input = Value::Object(parameters(inside)).to_string();
    let before = Content::Text(text[..start].trim_end().to_owned());
    let call = Content::ToolUse { id: id.to_owned(), name: tool.to_owned(), input };
    content.splice(place..=place, [before, call]);
    Some(tool.to_owned())
}

/// Elements as parameters.
fn parameters(text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let element = after.split_once('>');
        let end = element.and_then(|(name, body)| Some((name, body.split_once(&format!("</{name}>"))?)));
        rest = match end {
            Some((name, (value, behind))) => {
                found.insert(name.to_owned(), Value::from(value.trim()));
                behind
            }
            None => after,
        };
    }
    found
}

/// What the client says of the call of `tool` becomes its result: the text that names it, and what follows up
/// to the state of the workspace.
pub fn with_xml_result(content: Vec<Content>, id: &str, tool: &str) -> Vec<Content> {
    let names_it = |c: &Content| matches!(c, Content::Text(t) if t.strip_prefix('[').is_some_and(|t| t.starts_with(tool)));
    let Some(start) = content.iter().position(names_it) else { return content };
    let mut content = content.into_iter();
    let mut others: Vec<Content> = content.by_ref().take(start).collect();
    let mut parts = Vec::new();
    for block in content {
        match block {
            Content::Text(text) if text.starts_with("<environment_details>") || !parts_may_take(&text) => {
                others.push(Content::Text(text));
            }
            Content::Text(text) => parts.push(ResultPart::Text(text)),
            Content::Image(image) => parts.push(ResultPart::Image(image)),
            other => others.push(other),
        }
    }
    others.insert(0, Content::ToolResult { call_id: id.to_owned(), parts, is_error: false });
    others
}

/// Whether a text can be part of a result: what the user typed is not.
fn parts_may_take(text: &str) -> bool {
    !TYPED.iter().any(|tag| text.starts_with(tag))
}

#[cfg(test)]
mod tests {
    use super::{take_xml_call, with_xml_result};
    use crate::transcript::{Content, ResultPart};

    fn text(text: &str) -> Content {
        Content::Text(text.to_owned())
    }

    #[test]
    fn the_last_call_in_xml_is_a_call() {
        let mut content = vec![text("look:\n\n<read_file>\n<path>a/b.rs</path>\n</read_file>")];
        assert_eq!(take_xml_call(&mut content, "xml-2").as_deref(), Some("read_file"));
        let call = Content::ToolUse {
            id: "xml-2".to_owned(),
            name: "read_file".to_owned(),
            input: r#"{"path":"a/b.rs"}"#.to_owned(),
        };
        assert_eq!(content, [text("look:"), call]);
        for none in ["", "read_file", "<read_file>", "<read_file><path>", "<other>x</other>"] {
            assert_eq!(take_xml_call(&mut vec![text(none)], "x"), None, "{none}");
        }
    }

    #[test]
    fn what_the_client_says_of_a_call_is_its_result() {
        let said = ["[read_file for 'a'] Result:", "fn main() {}", "<environment_details>\n", "<feedback>no"];
        let content = with_xml_result(said.map(text).to_vec(), "x", "read_file");
        let parts = said[..2].iter().map(|t| ResultPart::Text((*t).to_owned())).collect();
        let result = Content::ToolResult { call_id: "x".to_owned(), parts, is_error: false };
        assert_eq!(content, [result, text(said[2]), text(said[3])]);
        assert_eq!(with_xml_result(vec![text("[ERROR] none")], "x", "read_file"), [text("[ERROR] none")]);
    }
}
