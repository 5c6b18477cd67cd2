//! The short forms of the vector files: texts, and repeated items.

use serde_json::{Map, Value};

/// A text: a string, `{repeat, times}` or `{concat}`.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(form) if form.contains_key("repeat") => {
            text(&form["repeat"]).repeat(form["times"].as_u64().unwrap() as usize)
        }
        Value::Object(form) if form.contains_key("concat") => {
            form["concat"].as_array().unwrap().iter().map(text).collect()
        }
        other => panic!("no text: {other}"),
    }
}

/// A list in which `{<key>: n, from?, of: [items]}` stands for n copies of its items with `{i}` counted up
/// in every string. `key` is `repeat_blocks` or `repeat_messages`.
pub fn expand(list: &Value, key: &str) -> Vec<Map<String, Value>> {
    let mut items = Vec::new();
    for item in list.as_array().unwrap() {
        let item = item.as_object().unwrap();
        let Some(times) = item.get(key).and_then(Value::as_u64) else {
            items.push(item.clone());
            continue;
        };
        let from = item.get("from").and_then(Value::as_u64).unwrap_or(0);
        for i in from..from + times {
            let copy = expand(&item["of"], key).into_iter().map(|of| with_number(&Value::Object(of), i));
            items.extend(copy.map(|value| value.as_object().unwrap().clone()));
        }
    }
    items
}

fn with_number(value: &Value, i: u64) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{i}", &i.to_string())),
        Value::Array(items) => items.iter().map(|item| with_number(item, i)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), with_number(field, i))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn short_forms_of_vectors_expand() {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(text(&json(r#"{"concat": ["a", {"repeat": "bc", "times": 2}]}"#)), "abcbc");
    let list =
        json(r#"[{"id": "x"}, {"repeat_blocks": 2, "from": 3, "of": [{"id": "b{i}", "n": ["{i}"]}]}]"#);
    let expanded = Value::from_iter(expand(&list, "repeat_blocks"));
    assert_eq!(expanded, json(r#"[{"id": "x"}, {"id": "b3", "n": ["3"]}, {"id": "b4", "n": ["4"]}]"#));
}
