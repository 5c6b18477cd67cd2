//! Aider: a Markdown history of all chats in a folder (spec/formats.md section 11).
//!
//! A heading begins a chat, which is a session; `#### ` lines are what the user typed, `> ` lines what the
//! client says, and the rest is the model's. A `> Tokens:` line ends an answer and says what it used, in
//! rounded numbers: what was sent includes what was read from the cache or written to it.
//!
//! # Divergence from the real API
//!
//! Not checked against a recording with answers. Counts have two digits, so their difference may be off by
//! more than what is left. Files that are in the chat are sent with each request and are not in the history.
//! Times are those of the machine's own zone and are left out. A chat whose answers end without a count is
//! read, and has no usage there.

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use crate::lines::{self, Found, MAX_LINE_BYTES};
use crate::transcript::{Content, Notice, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "aider";

/// How a chat begins.
const HEADING: &str = "# aider chat started at ";

/// Commands of the user that are sent to a model; others are the client's.
const SENT_COMMANDS: &[&str] = &["/ask ", "/code ", "/architect "];

/// Whether the first text line is that of a history.
pub fn recognise(object: &Map<String, Value>) -> bool {
    object.get("markdown").and_then(Value::as_str).is_some_and(|line| line.starts_with(HEADING))
}

/// What stands for the fields of the first object where a text is looked at: its first line.
pub fn outline(head: &[u8]) -> Option<Map<String, Value>> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let line = head.starts_with(HEADING.as_bytes()).then(|| head.split(|b| *b == b'\n').next())??;
    let line = String::from_utf8_lossy(line).into_owned();
    Some(Map::from_iter([("markdown".to_owned(), Value::from(line))]))
}

/// Reads a history: each chat that holds an answer.
///
/// # Errors
///
/// If the source fails, or holds no answer.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut reader = Reader::default();
    let mut notices = Vec::new();
    let (mut buffer, mut number) = (Vec::new(), 0);
    loop {
        number += 1;
        match lines::read(source, &mut buffer, MAX_LINE_BYTES) {
            Ok(Found::End) => break,
            Ok(Found::TooLong) => notices.push(Notice { line: number, reason: lines::too_long() }),
            Ok(Found::Line) => {
                let bytes = buffer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&buffer);
                let line = String::from_utf8_lossy(bytes);
                reader.line(number, line.trim_end_matches(['\n', '\r', '\0']), &mut notices);
            }
            Err(source) => return Err(Error::Io { path: label.to_owned(), source }),
        }
    }
    reader.end_chat();
    Conversation::finish_all(reader.chats, NAME, notices, label)
}

#[derive(Default)]
struct Reader {
    chats: Vec<Conversation>,
    chat: Conversation,
    model: String,
    /// What the user typed and nobody answered yet, with its first line.
    typed: Option<(u64, Vec<String>)>,
    /// The line before was typed too.
    is_typing: bool,
    /// The answer so far, with its first line.
    answer: Option<(u64, Vec<String>)>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &str, notices: &mut Vec<Notice>) {
        let typed = line.strip_prefix("####").filter(|t| t.is_empty() || t.starts_with(' '));
        let goes_on = std::mem::replace(&mut self.is_typing, typed.is_some());
        if let Some(time) = line.strip_prefix(HEADING) {
            self.end_chat();
            let digits: String = time.chars().filter(char::is_ascii_digit).collect();
            self.chat.transcript.session_id = format!("{NAME}-{digits}-{number}");
            return;
        }
        if self.chat.transcript.session_id.is_empty() {
            return;
        }
        if let Some(typed) = typed {
            self.end_answer(None);
            if !goes_on {
                self.send();
            }
            let typed = typed.trim().to_owned();
            self.typed.get_or_insert((number, Vec::new())).1.push(typed);
        } else if let Some(said) = line.strip_prefix('>') {
            self.said(number, said.trim(), notices);
        } else if !line.trim().is_empty() || self.answer.is_some() {
            self.begin_answer(number).push(line.to_owned());
        }
    }

    fn begin_answer(&mut self, number: u64) -> &mut Vec<String> {
        self.send();
        &mut self.answer.get_or_insert((number, Vec::new())).1
    }

    /// What the user typed is sent, unless it is a command for the client.
    fn send(&mut self) {
        let Some((line, typed)) = self.typed.take() else { return };
        let text = typed.join("\n");
        if !text.starts_with('/') || SENT_COMMANDS.iter().any(|command| text.starts_with(command)) {
            self.chat.input(At { line, ms: None }, vec![Content::Text(text)], false);
        }
    }

    /// A line of the client's.
    fn said(&mut self, number: u64, said: &str, notices: &mut Vec<Notice>) {
        let model = ["Main model: ", "Model: "].iter().find_map(|start| said.strip_prefix(start));
        if let Some(name) = model.and_then(|rest| rest.split_whitespace().next()) {
            name.clone_into(&mut self.model);
        } else if let Some(version) = said.strip_prefix("Aider v") {
            version.clone_into(&mut self.chat.transcript.agent_version);
        } else if let Some(counts) = said.strip_prefix("Tokens: ") {
            let usage = usage(counts);
            if usage.is_none() {
                let reason = "the token counts of this line cannot be read: its request has no usage";
                notices.push(Notice { line: number, reason: reason.to_owned() });
            }
            self.begin_answer(number);
            self.end_answer(Some(usage));
        }
    }

    /// The answer is over: with what was said of its usage, if anything was.
    fn end_answer(&mut self, usage: Option<Option<Usage>>) {
        let Some((line, text)) = self.answer.take() else { return };
        let text = text.join("\n").trim().to_owned();
        if text.is_empty() && usage.is_none() {
            return;
        }
        let id = format!("{}-{}", self.chat.transcript.session_id, self.chat.responses() + 1);
        self.chat.open_response(At { line, ms: None }, &id, &self.model);
        if let Some(response) = self.chat.last_response() {
            response.content = vec![Content::Text(text)];
            response.content.retain(|c| *c != Content::Text(String::new()));
            response.usage = usage.flatten();
            response.output_is_final = response.usage.is_some();
        }
    }

    fn end_chat(&mut self) {
        self.end_answer(None);
        self.typed = None;
        let chat = std::mem::take(&mut self.chat);
        if chat.responses() > 0 {
            self.chats.push(chat);
        }
    }
}

/// `9.7k sent, 2.1k cache write, 1.2k cache hit, 85 received. Cost: ...`
fn usage(text: &str) -> Option<Usage> {
    let counts = text.split("Cost:").next().unwrap_or_default().trim().trim_end_matches('.');
    let mut usage = Usage::default();
    let mut sent = 0;
    // A comma may also part thousands.
    for part in counts.split(", ") {
        let (number, what) = part.split_once(' ')?;
        let number = count(number)?;
        match what {
            "sent" => sent = number,
            "cache write" => usage.cache_write_5m_tokens = number,
            "cache hit" => usage.cache_read_tokens = number,
            "received" => usage.output_tokens = number,
            _ => return None,
        }
    }
    // Rounded counts may leave less than nothing.
    usage.uncached_tokens = sent.saturating_sub(usage.cache_read_tokens + usage.cache_write_5m_tokens);
    Some(usage)
}

/// `85`, `1,234`, `9.7k`, `1.2M`.
fn count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) => (digits, if text.ends_with('k') { 1_000 } else { 1_000_000 }),
        None => (text, 1),
    };
    let digits = digits.replace(',', "");
    let (whole, tenths) = digits.split_once('.').unwrap_or((&digits, "0"));
    let tenth = (tenths.len() == 1).then(|| tenths.parse::<u64>().ok())??;
    let count = whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(tenth * unit / 10)?;
    (count <= 1_000_000_000).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::{count, usage};

    #[test]
    fn rounded_counts_are_read() {
        for (text, expected) in
            [("85", 85), ("1,234", 1_234), ("9.7k", 9_700), ("12k", 12_000), ("1.2M", 1_200_000), ("0", 0)]
        {
            assert_eq!(count(text), Some(expected), "{text}");
        }
        for none in ["", "k", "-5", "1.25k", "9.k", "NaN", "99999999999999999999", "2000M"] {
            assert_eq!(count(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_sent_includes_what_is_cached() {
        let read =
            usage("9.7k sent, 2.1k cache write, 1.2k cache hit, 85 received. Cost: $0.03 message.").unwrap();
        assert_eq!(
            [read.uncached_tokens, read.cache_write_5m_tokens, read.cache_read_tokens, read.output_tokens],
            [6_400, 2_100, 1_200, 85]
        );
        assert_eq!(usage("many sent, 85 received."), None);
    }
}
