//! What the interface was told: when requests began, what they used, and when the history was cut.

use serde_json::Value;

use crate::ingest::money;
use crate::ingest::value::{self, Counts, items, text, time_ms};
use crate::usage::Usage;

/// A request as it was announced.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its number, from 1.
    pub number: usize,
    pub at_ms: Option<i64>,
    pub usage: Option<Usage>,
    /// What it cost, as the client worked it out.
    pub cost_pusd: Option<u64>,
    /// A count of it was none.
    pub is_bad: bool,
    /// Index of the message that answers it.
    pub message: usize,
    /// Index of the last message when it began.
    history_index: Option<i64>,
}

/// Messages that are left out of prompts from some request on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    pub from: usize,
    pub to: usize,
    /// Index of the message before which it happened.
    pub message: usize,
    pub at_ms: Option<i64>,
}

/// A history that was condensed.
#[derive(Debug, Clone, Copy)]
pub struct Condensed {
    pub at_ms: Option<i64>,
    pub pre_tokens: Option<u64>,
    pub post_tokens: Option<u64>,
}

/// All that is read of the files beside the messages.
#[derive(Debug, Default)]
pub struct Ui {
    requests: Vec<Request>,
    pub truncations: Vec<Truncation>,
    pub condensed: Vec<Condensed>,
    /// Models by the time of their first use, in order.
    models: Vec<(i64, String)>,
}

impl Ui {
    /// Reads the messages of the interface, and the task's metadata.
    pub fn of(messages: &[Value], metadata: &[Value]) -> Ui {
        let mut ui = Ui::default();
        let mut range = None;
        for message in messages.iter().filter_map(Value::as_array).flatten() {
            ui.message(message, &mut range);
        }
        for row in metadata.iter().flat_map(|m| items(m, "model_usage")) {
            if let Some(ms) = time_ms(row.get("ts")) {
                ui.models.push((ms, text(row, "model_id").to_owned()));
            }
        }
        ui.models.sort_by_key(|(ms, _)| *ms);
        ui
    }

    fn message(&mut self, message: &Value, range: &mut Option<(usize, usize)>) {
        let at_ms = time_ms(message.get("ts"));
        let history_index = message.get("conversationHistoryIndex").and_then(Value::as_i64);
        let ends = items(message, "conversationHistoryDeletedRange");
        let end = |i: usize| ends.get(i).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        if let (Some(from), Some(to)) = (end(0), end(1))
            && range.replace((from, to)) != Some((from, to))
        {
            let message =
                history_index.and_then(|i| usize::try_from(i + 1).ok()).unwrap_or(to.saturating_add(1));
            self.truncations.push(Truncation { from, to, message, at_ms });
        }
        match text(message, "say") {
            "api_req_started" => {
                let said: Value = serde_json::from_str(text(message, "text")).unwrap_or_default();
                let mut counts = Counts::default();
                let usage = usage(&said, &mut counts);
                let (usage, is_bad) = (counts.finish(usage), counts.is_bad());
                let number = self.requests.len() + 1;
                let cost_pusd = money::pusd(said.get("cost"));
                self.requests.push(Request {
                    number,
                    at_ms,
                    usage,
                    cost_pusd,
                    is_bad,
                    message: 0,
                    history_index,
                });
            }
            "condense_context" => {
                let what = message.get("contextCondense").unwrap_or(&Value::Null);
                let tokens = |name: &str| Some(Counts::default().field(what, name)).filter(|t| *t > 0);
                let (pre_tokens, post_tokens) = (tokens("prevContextTokens"), tokens("newContextTokens"));
                self.condensed.push(Condensed { at_ms, pre_tokens, post_tokens });
            }
            _ => {}
        }
    }

    /// The requests that were billed, each with the message that answers it, in the order of these.
    pub fn assign(&self, messages: &[Value]) -> Vec<Request> {
        let assistants: Vec<usize> =
            (0..messages.len()).filter(|i| is_answer_of_model(&messages[*i])).collect();
        let ms_of = |i: usize| time_ms(messages[i].get("ts"));
        let mut next = 0;
        let mut assigned = Vec::new();
        for request in self.requests.iter().filter(|r| r.usage.is_some() || r.is_bad) {
            let is_answer = |i: usize| match (request.history_index, request.at_ms.zip(ms_of(i))) {
                (Some(last), _) => i64::try_from(i).is_ok_and(|i| i > last),
                (None, Some((begun, answered))) => answered >= begun,
                (None, None) => true,
            };
            let place = (next..assistants.len()).find(|place| is_answer(assistants[*place]));
            let message = place.map_or(messages.len(), |place| assistants[place]);
            // Where nothing tells them apart, each request has an answer of its own.
            let is_told = request.history_index.is_some()
                || request.at_ms.is_some_and(|_| place.is_some_and(|p| ms_of(assistants[p]).is_some()));
            next = match place {
                Some(place) if is_told => place,
                Some(place) => place + 1,
                None => assistants.len(),
            };
            assigned.push(Request { message, ..request.clone() });
        }
        assigned
    }

    /// The model in use at a time; of an unknown time the first.
    pub fn model_at(&self, ms: Option<i64>) -> String {
        let until = |(used, _): &&(i64, String)| ms.is_some_and(|ms| *used <= ms);
        let row = self.models.iter().rev().find(until).or(self.models.first());
        row.map(|(_, model)| model.clone()).unwrap_or_default()
    }
}

/// Whether a message is an answer, and no summary that is kept under the model's name.
fn is_answer_of_model(message: &Value) -> bool {
    text(message, "role") == "assistant" && !super::is_summary(message)
}

fn usage(said: &Value, counts: &mut Counts) -> Usage {
    let input = counts.field(said, "tokensIn");
    let (read, written) = (counts.field(said, "cacheReads"), counts.field(said, "cacheWrites"));
    let includes_cached = !value::text(said, "apiProtocol").is_empty() && input >= read + written;
    Usage {
        uncached_tokens: if includes_cached { input - read - written } else { input },
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens: counts.field(said, "tokensOut"),
    }
}
