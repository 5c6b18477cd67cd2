//! Size laws: how long a stub, a file path or a rendered transcript is, from numbers alone.
//!
//! The simulator needs the size of what an agent writes, not its words. A law is linear in the lengths
//! of what the text names (tool, path, numbers), so it is exact where the agent's template is known, and
//! data in the preset either way.
//!
//! # Divergence from the real API
//!
//! In a run the tokens of a stub come from its characters and the recording's tool-result coefficient;
//! the lines of an omitted middle are in proportion to its characters (docs/decisions.md 14).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::compile::json_utf16;

/// Numbers a stub may print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// UTF-16 units of the replaced content.
    Chars,
    /// Its UTF-8 bytes.
    Bytes,
    /// Its lines.
    Lines,
    /// The limit it crossed.
    Limit,
    /// UTF-16 units left out of an excerpt.
    OmittedChars,
    /// Lines left out of an excerpt.
    OmittedLines,
    /// UTF-8 bytes left out of an excerpt.
    OmittedBytes,
}

/// What a law is applied to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// UTF-16 units of the tool's name.
    pub tool_utf16: u64,
    /// Length of the tool's name as JSON, quotes included.
    pub tool_json_utf16: u64,
    /// UTF-16 units of the file path, 0 without one.
    pub path_utf16: u64,
    /// UTF-16 units of the replaced content.
    pub chars: u64,
    /// UTF-8 bytes of it.
    pub bytes: u64,
    /// Lines of it.
    pub lines: u64,
    /// The limit it crossed, as the stub prints it.
    pub limit: u64,
    /// UTF-16 units of the middle that is left out between two ends; 0 where none are kept.
    pub omitted_chars: u64,
    /// Lines of that middle.
    pub omitted_lines: u64,
    /// UTF-8 bytes of that middle.
    pub omitted_bytes: u64,
    /// The result reports an error.
    pub is_error: bool,
}

impl Facts {
    fn figure(&self, figure: Figure) -> u64 {
        match figure {
            Figure::Chars => self.chars,
            Figure::Bytes => self.bytes,
            Figure::Lines => self.lines,
            Figure::Limit => self.limit,
            Figure::OmittedChars => self.omitted_chars,
            Figure::OmittedLines => self.omitted_lines,
            Figure::OmittedBytes => self.omitted_bytes,
        }
    }
}

/// Length of a stub in UTF-16 units: `fixed` plus the lengths of what it names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StubLaw {
    /// Characters that are always there.
    pub fixed: u64,
    /// Times the tool's name appears plain.
    #[serde(default)]
    pub tool: u64,
    /// Times it appears as a JSON string.
    #[serde(default)]
    pub tool_json: u64,
    /// Times the path appears.
    #[serde(default)]
    pub path: u64,
    /// Numbers printed in plain decimal.
    #[serde(default)]
    pub digits: Vec<Figure>,
    /// More characters for an error result.
    #[serde(default)]
    pub error: u64,
    /// Characters that JSON escapes (quotes, line feeds): what the stub is longer by inside JSON.
    #[serde(default)]
    pub json_escapes: u64,
    /// Characters that take three UTF-8 bytes each.
    #[serde(default)]
    pub wide: u64,
    /// The law where the result has a file; `None`: this one.
    #[serde(default)]
    pub with_path: Option<WithPath>,
}

/// Differences of a stub that points at a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithPath {
    /// Characters that are always there, instead of those of the law without a file.
    pub fixed: u64,
    /// Times the path appears.
    pub path: u64,
}

impl StubLaw {
    /// UTF-16 units of the stub, excerpts left out.
    pub fn utf16(&self, facts: &Facts) -> u64 {
        let names = [facts.tool_utf16, facts.tool_json_utf16, facts.path_utf16];
        self.utf16_of(names, facts.is_error, |figure| facts.figure(figure))
    }

    /// The same of a stub that names a tool, the tool as JSON, and a path of these lengths, and figures that are
    /// looked up where they are printed.
    // Inlined: figures that are not printed are not looked up.
    #[inline(always)]
    pub(super) fn utf16_of(
        &self,
        [tool_utf16, tool_json_utf16, path_utf16]: [u64; 3],
        is_error: bool,
        figure: impl Fn(Figure) -> u64,
    ) -> u64 {
        let (fixed, paths) = match &self.with_path {
            Some(with) if path_utf16 > 0 => (with.fixed, with.path),
            _ => (self.fixed, self.path),
        };
        fixed
            + self.tool * tool_utf16
            + self.tool_json * tool_json_utf16
            + paths * path_utf16
            + self.digits.iter().map(|f| digits(figure(*f))).sum::<u64>()
            + if is_error { self.error } else { 0 }
    }
}

/// Length of the path of an offloaded result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathLaw {
    /// Characters of the folder, home included.
    pub folder_utf16: u64,
    /// Characters of the session id, once in the folder.
    pub session_utf16: u64,
    /// Separators and extension.
    pub fixed: u64,
}

impl PathLaw {
    /// UTF-16 units of the path for a result of this tool and call, both made safe.
    pub fn utf16(&self, safe_tool_utf16: u64, safe_call_utf16: u64) -> u64 {
        self.folder_utf16 + self.session_utf16 + self.fixed + safe_tool_utf16 + safe_call_utf16
    }
}

/// Longest part of a file name.
pub const SAFE_NAME_MAX: usize = 80;

/// A name made safe as part of a file name: runs of anything but letters, digits, `.`, `_` and `-`
/// become one `-`, none at the ends, at most 80 characters, `unknown` if nothing is left.
pub fn safe_name(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    let mut in_run = false;
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            safe.push(c);
            in_run = false;
        } else if !in_run {
            safe.push('-');
            in_run = true;
        }
    }
    let trimmed: String = safe.trim_matches('-').chars().take(SAFE_NAME_MAX).collect();
    if trimmed.is_empty() { "unknown".to_owned() } else { trimmed }
}

/// Length of a tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameSize {
    /// UTF-16 units of the name.
    pub utf16: u32,
    /// As a JSON string, quotes included.
    pub json_utf16: u32,
    /// Made safe as part of a file name.
    pub safe_utf16: u32,
}

impl NameSize {
    /// Measures a name.
    pub fn of(name: &str) -> NameSize {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        NameSize {
            utf16: narrow(name.encode_utf16().count()),
            json_utf16: u32::try_from(2 + json_utf16(name)).unwrap_or(u32::MAX),
            safe_utf16: narrow(safe_name(name).len()),
        }
    }
}

/// File name of an offloaded result.
pub fn offload_file_name(tool: &str, call_id: &str) -> String {
    format!("{}-{}.txt", safe_name(tool), safe_name(call_id))
}

/// Why a result could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// No space, no permission, no such folder.
    Failed,
    /// The run was aborted after the tool answered.
    Aborted,
}

/// Path of a result's file: the plain name, or once with a unique suffix where that is taken; `None` where
/// both are, and the original stays in the conversation.
pub fn offload_path(
    dir: &str,
    tool: &str,
    call_id: &str,
    unique_suffix: &str,
    is_taken: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let name = offload_file_name(tool, call_id);
    let plain = format!("{dir}/{name}");
    if !is_taken(&plain) {
        return Some(plain);
    }
    let stem = name.strip_suffix(".txt").unwrap_or(&name);
    Some(format!("{dir}/{stem}-{unique_suffix}.txt")).filter(|path| !is_taken(path))
}

/// Where the result ended up: nowhere after a fault, so the original stays.
pub fn written_path(path: Option<String>, fault: Option<WriteFault>) -> Option<String> {
    path.filter(|_| fault.is_none())
}

/// How much of the two ends of a text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    /// Kept from the beginning.
    pub head: u64,
    /// Kept from the end.
    pub tail: u64,
    /// Left out between the two.
    pub omitted: u64,
}

/// Ends of a text of `length`: never all of it, at least one unit is left out.
pub fn excerpt(length: u64, keep_head: u64, keep_tail: u64) -> Excerpt {
    let mut head = keep_head.min(length);
    let mut tail = keep_tail.min(length - head);
    if head + tail >= length {
        tail = (length - head).saturating_sub(1);
        if head + tail >= length {
            head = (length - tail).saturating_sub(1);
        }
    }
    Excerpt { head, tail, omitted: length - head - tail }
}

/// Lines of a part of a text, estimated in proportion and rounded up.
pub fn lines_in_part(lines: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 { 0 } else { (lines * part).div_ceil(whole) }
}

/// Decimal digits of a number.
pub fn digits(n: u64) -> u64 {
    u64::from(n.checked_ilog10().unwrap_or(0)) + 1
}

/// Labels and caps with which a transcript is rendered for a summarizer. Parts are joined by a blank
/// line; thinking and images are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TranscriptLaw {
    /// Characters before a user text.
    pub user_label: u64,
    /// Before an assistant text.
    pub assistant_label: u64,
    /// Before the calls of an assistant message.
    pub calls_label: u64,
    /// Around one call's arguments: `name(` … `)`.
    pub call_fixed: u64,
    /// Between two calls.
    pub call_separator: u64,
    /// Around the tool's name before a result.
    pub result_label: u64,
    /// More for an error result.
    pub result_error: u64,
    /// UTF-16 units of a result that are kept.
    pub result_cap: u64,
    /// Characters of the note about the rest, its number left out.
    pub result_note: u64,
}

/// UTF-16 units between two parts of a rendered transcript.
pub const PART_SEPARATOR: u64 = 2;

impl TranscriptLaw {
    /// UTF-16 units of one result, rendered.
    pub fn result_utf16(&self, tool_utf16: u64, utf16: u64, is_error: bool) -> u64 {
        let label = self.result_label + tool_utf16 + if is_error { self.result_error } else { 0 };
        let body = if utf16 > self.result_cap {
            self.result_cap + self.result_note + digits(utf16 - self.result_cap)
        } else {
            utf16
        };
        label + body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_always_leaves_something_out() {
        assert_eq!(excerpt(40_000, 4_000, 1_000), Excerpt { head: 4_000, tail: 1_000, omitted: 35_000 });
        assert_eq!(excerpt(100, 80, 40), Excerpt { head: 80, tail: 19, omitted: 1 });
        assert_eq!(excerpt(100, 500, 10), Excerpt { head: 99, tail: 0, omitted: 1 });
        assert_eq!(excerpt(5, 0, 9), Excerpt { head: 0, tail: 4, omitted: 1 });
    }

    #[test]
    fn digits_of_numbers() {
        assert_eq!([0, 9, 10, 99_999, 100_000].map(digits), [1, 1, 2, 5, 6]);
    }

    #[test]
    fn unsafe_names() {
        assert_eq!(safe_name("a b::c"), "a-b-c");
        assert_eq!(safe_name(&"x".repeat(200)).len(), SAFE_NAME_MAX);
        assert_eq!(safe_name("€€"), "unknown");
    }
}
