//! `OpenAI` Responses.

use serde_json::Value;

use crate::ingest::codex;
use crate::ingest::exchange::{By, Exchange};
use crate::ingest::value::{self, items, text};
use crate::transcript::Content;

/// Takes over what was sent.
pub fn request(exchange: &mut Exchange, body: &Value) {
    exchange.instruct(body.get("instructions").unwrap_or(&Value::Null));
    exchange.tools = super::tools(body);
    let previous = text(body, "previous_response_id");
    exchange.previous_id = Some(previous.to_owned()).filter(|id| !id.is_empty());
    match body.get("input") {
        Some(Value::Array(sent)) => sent.iter().for_each(|item| input(exchange, item)),
        Some(sent) => exchange.send(By::User, value::user_content(sent)),
        None => {}
    }
}

fn input(exchange: &mut Exchange, item: &Value) {
    let content = item.get("content").unwrap_or(&Value::Null);
    let kind = text(item, "type");
    match text(item, "role") {
        "system" | "developer" => exchange.instruct(content),
        "user" => exchange.send(By::User, value::user_content(content)),
        "assistant" => exchange.send(By::Model, value::user_content(content)),
        _ if kind.ends_with("_output") => {
            let result = codex::result(text(item, "call_id").to_owned(), item);
            exchange.send(By::User, vec![result]);
        }
        _ => exchange.send(By::Model, codex::output_of(item)),
    }
}

/// Content of an answer.
pub fn answer(response: &Value) -> Vec<Content> {
    items(response, "output").iter().flat_map(codex::output_of).collect()
}
