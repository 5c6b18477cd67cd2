//! Messages in the dialect of OpenAI's chat completions, which many agents write down.

use serde_json::Value;

use super::value::{self, items, text};
use crate::transcript::Content;

/// The calls of an assistant message.
pub fn calls(message: &Value) -> impl Iterator<Item = Content> {
    items(message, "tool_calls").iter().map(|call| {
        let function = call.get("function").unwrap_or(&Value::Null);
        let arguments = function.get("arguments").unwrap_or(&Value::Null);
        Content::ToolUse {
            id: text(call, "id").to_owned(),
            name: text(function, "name").to_owned(),
            input: arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned),
        }
    })
}

/// The texts and images of a message.
pub fn content(message: &Value) -> Vec<Content> {
    value::user_content(message.get("content").unwrap_or(&Value::Null))
}

/// A message as the result of call `call_id`.
pub fn result(message: &Value, call_id: String) -> Content {
    let parts = value::result_parts(message.get("content").unwrap_or(&Value::Null));
    Content::ToolResult { call_id, parts, is_error: false }
}

/// How blocks that hold a command are opened; any other block is an illustration.
const COMMAND_FENCES: &[&str] = &["```bash\n", "```mswea_bash_command\n"];

/// The one fenced command in a text, and the text around it; `None` if there is none or more than one.
pub fn fenced(text: &str) -> Option<(String, String)> {
    let mut starts = COMMAND_FENCES.iter().flat_map(|fence| text.match_indices(fence));
    let (start, fence) = starts.next()?;
    if starts.next().is_some() {
        return None;
    }
    let inside = &text[start + fence.len()..];
    let (command, after) = inside.split_once("\n```")?;
    Some((format!("{}{after}", &text[..start]), command.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::fenced;

    #[test]
    fn one_command_is_found_among_other_blocks() {
        let found = |text: &str| fenced(text).map(|(around, command)| format!("{around}|{command}"));
        assert_eq!(found("a\n```bash\nls\npwd\n```").as_deref(), Some("a\n|ls\npwd"));
        assert_eq!(
            found("```py\nx\n```\n```mswea_bash_command\nls\n```b").as_deref(),
            Some("```py\nx\n```\nb|ls")
        );
        for none in ["", "```\nls\n```", "```bash\nls", "```bash\na\n```\n```bash\nb\n```"] {
            assert_eq!(fenced(none), None, "{none}");
        }
    }
}
