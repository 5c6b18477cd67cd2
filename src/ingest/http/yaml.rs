//! YAML documents as JSON values, as far as recorders of HTTP write it.
//!
//! # Divergence from the real API
//!
//! An alias stands for nothing: recorders use them for headers only, and following them would let a small
//! file fill the memory. Scalars are texts, but for plain ones that are numbers, truth values or null. Tags
//! are ignored.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use crate::transcript::Notice;

/// Deepest nesting that is read, as deep as JSON may be.
const MAX_DEPTH: usize = 128;

/// A list or mapping that is not closed yet.
enum Open {
    List(Vec<Value>),
    Mapping(Map<String, Value>, Option<String>),
}

impl Open {
    fn add(&mut self, value: Value) {
        match self {
            Open::List(items) => items.push(value),
            Open::Mapping(fields, key) => match key.take() {
                Some(name) => {
                    fields.insert(name, value);
                }
                None => *key = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            },
        }
    }

    fn close(self) -> Value {
        match self {
            Open::List(items) => Value::Array(items),
            Open::Mapping(fields, _) => Value::Object(fields),
        }
    }
}

/// All documents of `text`. Where it breaks off, or nests too deep, what was read so far counts and a notice
/// says so.
pub fn parse(text: &str, notices: &mut Vec<Notice>) -> Vec<Value> {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, line) = match event {
            Ok((event, span)) => (event, span.start.line()),
            Err(e) => {
                let line = e.marker().line() as u64;
                notices.push(Notice { line, reason: format!("broken YAML: {}", e.info()) });
                break;
            }
        };
        let value = match event {
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MAX_DEPTH => {
                let reason = format!("YAML that nests deeper than {MAX_DEPTH} levels; the rest is not read");
                notices.push(Notice { line: line as u64, reason });
                break;
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Mapping(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(done) => done.close(),
                None => continue,
            },
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::Alias(_) => Value::Null,
            _ => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.add(value),
            None => documents.push(value),
        }
    }
    // What is still open was cut off.
    let rest = open.into_iter().rev().reduce(|inner, mut outer| {
        outer.add(inner.close());
        outer
    });
    documents.extend(rest.map(Open::close));
    documents
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn what_recorders_write_is_read() {
        let text = "---\nversion: 2\ninteractions:\n- id: 0\n  body: '{\"a\":\"it''s\"}'\n  raw: |+\n    data: x\n\n    data: y\n\n  \
                    folded: \"one \\\n    two\"\n  duration: 1.5s\n  empty: \"\"\n  h: &a [x]\n  again: *a\n";
        let mut notices = Vec::new();
        let expected = json!({"version": 2, "interactions": [{
            "id": 0, "body": "{\"a\":\"it's\"}", "raw": "data: x\n\ndata: y\n\n", "folded": "one two",
            "duration": "1.5s", "empty": "", "h": ["x"], "again": null,
        }]});
        assert_eq!(parse(text, &mut notices), [expected]);
        assert_eq!(notices, []);
    }

    #[test]
    fn what_is_broken_is_read_as_far_as_it_goes() {
        let mut notices = Vec::new();
        assert_eq!(parse("a: 1\nb:\n- c: x\n- \"d", &mut notices), [json!({"a": 1, "b": [{"c": "x"}]})]);
        assert_eq!(notices.len(), 1);
        let deep = "[".repeat(100_000);
        notices.clear();
        parse(&deep, &mut notices);
        assert_eq!(notices.len(), 1);
    }
}
