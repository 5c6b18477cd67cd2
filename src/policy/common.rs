//! Parameters that every policy takes besides its own: of the simulation, and of what a client asks of the provider.

use std::collections::BTreeMap;

use super::keep_alive::KeepAlive;
use super::params::{Param, ParamValue, Scale};

/// Fixed size of summaries in tokens, instead of the law of docs/decisions.md 15.
pub const SUMMARY_TOKENS: &str = "summary_tokens";
/// The floor of the hidden prefix is cached before the session begins.
pub const WARM_PREFIX: &str = "warm_prefix";
/// The window the client believes in, instead of what its preset says.
pub const BELIEVED_WINDOW: &str = "believed_window_tokens";
/// Seconds without a request after which the client pings.
pub const KEEP_ALIVE_IDLE: &str = "keep_alive.idle_s";
/// Most pings between two requests.
pub const KEEP_ALIVE_PINGS: &str = "keep_alive.pings";
/// Most pings of a session.
pub const KEEP_ALIVE_CAP: &str = "keep_alive.cap";
/// Prompts below this are not pinged.
pub const KEEP_ALIVE_MIN_TOKENS: &str = "keep_alive.min_tokens";
/// What the client wants done with a prompt that does not fit.
pub const TRUNCATION: &str = "truncation";

/// Parameters of the simulation itself, accepted by every policy besides its own.
pub fn common_params() -> Vec<Param> {
    let row = |name: &str, default: ParamValue, unit: &str, range, doc: &str| Param {
        name: name.to_owned(),
        default,
        default_if: None,
        unit: unit.to_owned(),
        range,
        choices: Vec::new(),
        scale: Scale::Linear,
        doc: doc.to_owned(),
        invalid_is_default: false,
        means: Vec::new(),
    };
    let number = |name: &str, default: i64, unit: &str, most: i64, doc: &str| {
        row(name, ParamValue::Int(default), unit, Some((0, most)), doc)
    };
    let truncation = row(
        TRUNCATION,
        ParamValue::Text("disabled".to_owned()),
        "",
        None,
        "auto: a prompt that does not fit loses its oldest messages at the provider, instead of being refused",
    );
    vec![
        number(
            SUMMARY_TOKENS,
            0,
            "tokens",
            1_000_000,
            "size of every summary; 0: 12 % of the summarizer's prompt, at most its output limit",
        ),
        number(
            BELIEVED_WINDOW,
            0,
            "tokens",
            1_000_000_000,
            "window the client believes in; 0: what its preset says of the model",
        ),
        row(
            WARM_PREFIX,
            ParamValue::Bool(false),
            "",
            None,
            "system prompt and tools are cached before the session begins",
        ),
        number(
            KEEP_ALIVE_IDLE,
            0,
            "seconds",
            86_400,
            "time from the start of a request after which the client pings to keep the cache alive; 0: never",
        ),
        number(KEEP_ALIVE_PINGS, 1, "pings", 1_000, "most pings between two requests"),
        number(KEEP_ALIVE_CAP, 0, "pings", 1_000_000, "most pings of a session; 0: no limit"),
        number(KEEP_ALIVE_MIN_TOKENS, 0, "tokens", 1_000_000_000, "prompts with fewer tokens are not pinged"),
        Param { choices: vec!["disabled".to_owned(), "auto".to_owned()], ..truncation },
    ]
}

/// When the client pings, as set.
pub(super) fn keep_alive(set: &BTreeMap<String, ParamValue>) -> Option<KeepAlive> {
    let number = |name: &str, default: u64| match set.get(name) {
        Some(ParamValue::Int(n)) => u64::try_from(*n).unwrap_or(default),
        _ => default,
    };
    let idle_s = i64::try_from(number(KEEP_ALIVE_IDLE, 0)).unwrap_or(0);
    (idle_s > 0).then(|| KeepAlive {
        idle_ms: idle_s * 1_000,
        pings: u32::try_from(number(KEEP_ALIVE_PINGS, 1)).unwrap_or(u32::MAX),
        cap: Some(number(KEEP_ALIVE_CAP, 0)).filter(|cap| *cap > 0),
        min_tokens: number(KEEP_ALIVE_MIN_TOKENS, 0),
    })
}

/// Whether the client asks for `truncation: "auto"`.
pub(super) fn truncates(set: &BTreeMap<String, ParamValue>) -> bool {
    set.get(TRUNCATION) == Some(&ParamValue::Text("auto".to_owned()))
}
