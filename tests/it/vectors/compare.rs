//! Field by field comparison: only what is expected, bounds `{min, max}`, `null` for none.

use serde_json::{Map, Value};

/// Compares `actual` with `expected`; adds a line to `wrong` for every field that differs and returns how
/// many fields were compared.
pub fn compare(place: &str, expected: &Value, actual: &Value, wrong: &mut Vec<String>) -> usize {
    match (expected, actual) {
        (Value::Object(bound), _) if is_bound(bound) => {
            let number = actual.as_f64();
            let min = bound.get("min").and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY);
            let max = bound.get("max").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
            check(place, expected, actual, number.is_some_and(|n| (min..=max).contains(&n)), wrong)
        }
        (Value::Object(fields), Value::Object(found)) => {
            fields.iter().map(|(name, expected)| field(place, name, expected, found, wrong)).sum()
        }
        (Value::Array(items), Value::Array(found)) => {
            if items.len() != found.len() {
                return check(place, expected, actual, false, wrong);
            }
            let item = |(i, (e, a)): (usize, (&Value, &Value))| compare(&format!("{place}.{i}"), e, a, wrong);
            let compared: usize = items.iter().zip(found).enumerate().map(item).sum();
            compared.max(1)
        }
        _ => check(place, expected, actual, expected == actual, wrong),
    }
}

fn field(
    place: &str,
    name: &str,
    expected: &Value,
    found: &Map<String, Value>,
    wrong: &mut Vec<String>,
) -> usize {
    let place = format!("{place}.{name}");
    let Some(actual) = found.get(name) else {
        return check(&place, expected, &Value::String("(no such field)".into()), false, wrong);
    };
    if name == "thinking" && expected.is_object() {
        return check(&place, expected, actual, expected == actual, wrong);
    }
    compare(&place, expected, actual, wrong)
}

fn is_bound(object: &Map<String, Value>) -> bool {
    !object.is_empty()
        && object.iter().all(|(key, value)| (key == "min" || key == "max") && value.is_number())
}

fn check(place: &str, expected: &Value, actual: &Value, same: bool, wrong: &mut Vec<String>) -> usize {
    if !same {
        wrong.push(format!("{place}: expected {expected}, got {actual}"));
    }
    1
}

#[test]
fn differences_of_vectors_are_found_and_counted() {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let expected = json(r#"{"a": 1, "b": [1, {"min": 2, "max": 3}], "thinking": {"t": true}, "n": null}"#);
    let count = |actual: &str| {
        let mut wrong = Vec::new();
        (compare("v", &expected, &json(actual), &mut wrong), wrong.len())
    };
    assert_eq!(count(r#"{"a": 1, "b": [1, 3], "thinking": {"t": true}, "n": null, "more": 1}"#), (5, 0));
    assert_eq!(count(r#"{"a": 2, "b": [1, 4], "thinking": {"t": true, "u": true}}"#), (5, 4));
    assert_eq!(count(r#"{"a": 1, "b": [1], "thinking": {"t": true}, "n": 0}"#), (4, 2));
}
