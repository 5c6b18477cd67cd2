//! Files that are one JSON document, whatever they are called: the whole of it, or as much as is there.

use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::json_lines::repair;
use crate::lines::{self, MAX_LINE_BYTES};
use crate::transcript::Notice;

/// Reads all of `source`: one document, or several in a row. One that is cut off is read up to its last
/// whole object or array, with a notice.
///
/// # Errors
///
/// Those of `source`, except a compressed stream that ends early: that is a notice.
pub fn read(source: &mut dyn BufRead, notices: &mut Vec<Notice>) -> io::Result<Vec<Value>> {
    Ok(values(&bytes(source, notices)?, notices))
}

/// All bytes of `source`, up to the longest that is read.
///
/// # Errors
///
/// As [`read`].
pub fn bytes(source: &mut dyn BufRead, notices: &mut Vec<Notice>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut note = |reason: String| notices.push(Notice { line: 0, reason });
    match source.take(MAX_LINE_BYTES as u64 + 1).read_to_end(&mut bytes) {
        Err(e) if matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
            note(format!("the stream ends early: {e}"));
        }
        other => {
            other?;
        }
    }
    if bytes.len() > MAX_LINE_BYTES {
        note(format!("the document has more than {} MiB; the rest is not read", MAX_LINE_BYTES >> 20));
    }
    Ok(bytes)
}

/// The documents in `bytes`, as [`read`] gives them.
pub fn values(bytes: &[u8], notices: &mut Vec<Notice>) -> Vec<Value> {
    let mut note = |reason: String| notices.push(Notice { line: 0, reason });
    let text = lines::text(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let (mut values, rest) = parse(&text);
    if rest.is_empty() {
        return values;
    }
    let repaired = repair(rest);
    let mut rest = &*repaired;
    loop {
        let (more, failed) = parse(rest);
        values.extend(more);
        if failed.is_empty() {
            break;
        }
        // In a log the next line may be good.
        if let Some(next) = failed.find("\n{").filter(|_| failed.starts_with('{')) {
            note("broken JSON: a line is left out".to_owned());
            rest = &failed[next + 1..];
            continue;
        }
        match serde_json::from_str(&closed(failed)) {
            Ok(value) => {
                note("the document is cut off: what comes last may be incomplete".to_owned());
                values.push(value);
            }
            Err(e) => note(format!("broken JSON: {e}")),
        }
        break;
    }
    values
}

/// Values up to the first that fails, and the text from there on.
fn parse(text: &str) -> (Vec<Value>, &str) {
    let mut values = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut done = 0;
    while let Some(Ok(value)) = stream.next() {
        values.push(value);
        done = stream.byte_offset();
    }
    (values, text[done..].trim_matches(|c: char| c.is_whitespace() || c == '\0'))
}

/// A text that breaks off, cut behind its last whole object or array, and closed there.
fn closed(text: &str) -> String {
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    let (mut end, mut open_at_end) = (0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' if open.last() == Some(&c) => {
                open.pop();
                (end, open_at_end) = (at + 1, open.clone());
            }
            _ => {}
        }
    }
    text[..end].chars().chain(open_at_end.into_iter().rev()).collect()
}

/// The fields at the beginning of a document that are whole in `head`. A list stands for its first item.
pub fn beginning(head: &[u8]) -> Map<String, Value> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let head = head.strip_prefix(b"[").unwrap_or(head);
    let mut fields = Map::new();
    // It ends with an error where the head does; what came before is what counts.
    let text = lines::text(head);
    let _ = Fields(&mut fields).deserialize(&mut serde_json::Deserializer::from_str(&text));
    if head.first().is_some_and(|byte| *byte != b'{') {
        fields.extend(yaml_fields(head).map(|name| (name.to_owned(), Value::Null)));
    }
    fields
}

/// Names at the left edge of a YAML document.
fn yaml_fields(head: &[u8]) -> impl Iterator<Item = &str> {
    let lines = head.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let is_name =
        |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name).filter(is_name)
}

struct Fields<'m>(&'m mut Map<String, Value>);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let value = match map.next_value() {
                Ok(value) => value,
                Err(e) => {
                    self.0.insert(name, Value::Null);
                    return Err(e);
                }
            };
            self.0.insert(name, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{beginning, read};

    fn values(bytes: &[u8]) -> (Vec<serde_json::Value>, Vec<String>) {
        let mut notices = Vec::new();
        let values = read(&mut &bytes[..], &mut notices).unwrap();
        (values, notices.into_iter().map(|n| n.reason).collect())
    }

    #[test]
    fn a_document_may_have_any_layout() {
        let whole = [json!({"a": [1, {"b": "x"}]})];
        for text in ["{\"a\":[1,{\"b\":\"x\"}]}", "\u{feff}{\n \"a\" : [1,\r\n {\"b\":\"x\"}]\n}\n\0\n"] {
            assert_eq!(values(text.as_bytes()), (whole.to_vec(), Vec::new()), "{text}");
        }
        assert_eq!(values(b"{\"a\":NaN} {\"b\":1}").0, [json!({"a": "NaN"}), json!({"b": 1})]);
    }

    #[test]
    fn one_that_is_cut_off_is_read_as_far_as_it_goes() {
        let text = br#"{"a":[{"b":"}]\""},{"c":[1],"d":"e"#;
        let (found, notices) = values(text);
        assert_eq!(found, [json!({"a": [{"b": "}]\""}, {"c": [1]}]})]);
        assert_eq!(notices, ["the document is cut off: what comes last may be incomplete"]);
        for cut in 0..text.len() {
            values(&text[..cut]);
        }
    }

    #[test]
    fn a_broken_line_of_a_log_costs_no_more_than_itself() {
        let (found, notices) = values(b"{\"a\":1}\n{\"b\":\n{\"c\":3}\n{\"d\":4,}\n{\"e\":[5]}\n");
        assert_eq!(found, [json!({"a": 1}), json!({"c": 3}), json!({"e": [5]})]);
        assert_eq!(notices, ["broken JSON: a line is left out"; 2]);
    }

    #[test]
    fn the_beginning_is_enough_to_see_the_fields() {
        let fields = beginning(b"{\n \"a\": {\"x\": 1},\n \"b\": [1,\n 2");
        assert_eq!(json!(fields), json!({"a": {"x": 1}, "b": null}));
        assert_eq!(json!(beginning(b"[{\"role\":\"system\"},")), json!({"role": "system"}));
        assert!(beginning(b"\"a\"").is_empty());
    }
}
