//! The policy language: rules as data, and the interpreter that turns them into plans.
//!
//! A preset ([`preset`], `presets/*.toml`) declares an agent's parameters under their own names and its
//! rules. With parameters set it is a [`PolicyConfig`]; bound to a model, a [`Strategy`]; in a run, an
//! [`interpreter::Interpreter`] that sees a [`view::View`] and answers with [`plan::Plan`]s. No strategy
//! has code of its own: what differs between agents is in the files.

pub mod check;
pub mod estimate;
pub mod interpreter;
pub mod laws;
pub mod params;
pub mod plan;
pub mod preset;
pub mod resolve;
pub mod spec;
pub mod strategy;
pub mod stubs;
pub mod summarize;
pub mod value;
pub mod view;

pub use params::{Param, ParamValue, Scale, find as find_param};
pub use preset::{Preset, load_preset, parse_preset, preset_names};
pub use resolve::PolicyConfig;
pub use spec::{PolicySpec, split_list};
pub use strategy::{OnBindingError, Strategy};

use crate::session::Session;
use plan::{Offload, Plan};
use view::View;

/// Decides what happens to a context. [`interpreter::Interpreter`] implements it for policy files; a Rust
/// user may implement it directly and run it with [`crate::sim::run::run_policy`].
///
/// A policy only decides: its plans are checked and carried out by the context.
pub trait Policy<'p> {
    /// Number of rules; they are asked in order at each hook.
    fn rule_count(&self) -> usize;
    /// Name of a rule, for events.
    fn rule_id(&self, rule: usize) -> &str;
    /// Whether [`Policy::at_tool_result`] needs to be asked at all.
    fn has_tool_result_rules(&self) -> bool {
        false
    }
    /// A tool result came back and is about to enter the conversation.
    fn at_tool_result(&mut self, _rule: usize, _view: &View<'_>, _result: u32) -> Option<Offload> {
        None
    }
    /// The process was restarted: whatever the policy remembers is to be worked out anew.
    fn resumed(&mut self, _session: &Session) {}
    /// A request is about to be sent. With `manual`, the user has asked for a compaction.
    fn at_request(&mut self, _rule: usize, _view: &View<'_>, _manual: bool) -> Option<Plan<'p>> {
        None
    }
}

/// Common parameter: fixed size of summaries in tokens, instead of the law of docs/decisions.md 15.
pub const SUMMARY_TOKENS: &str = "summary_tokens";
/// Common parameter: the floor of the hidden prefix is cached before the session begins.
pub const WARM_PREFIX: &str = "warm_prefix";

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
    vec![
        row(
            SUMMARY_TOKENS,
            ParamValue::Int(0),
            "tokens",
            Some((0, 1_000_000)),
            "size of every summary; 0: 12 % of the summarizer's prompt, at most its output limit",
        ),
        row(
            WARM_PREFIX,
            ParamValue::Bool(false),
            "",
            None,
            "system prompt and tools are cached before the session begins",
        ),
    ]
}
