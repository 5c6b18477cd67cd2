//! The policy language: rules as data, and the interpreter that turns them into plans.
//!
//! A preset ([`preset`], `presets/*.toml`) declares an agent's parameters under their own names and its
//! rules. With parameters set it is a [`PolicyConfig`]; bound to a model, a [`Strategy`]; in a run, an
//! [`interpreter::Interpreter`] that sees a [`view::View`] and answers with [`plan::Plan`]s. No strategy
//! has code of its own: what differs between agents is in the files.

pub mod action;
mod cadence;
pub mod check;
mod common;
pub mod estimate;
mod file;
pub mod fold;
pub mod fold_plan;
mod fresh;
pub mod interpreter;
mod items;
pub mod keep_alive;
pub mod laws;
mod list_value;
pub mod live;
mod measures;
pub mod occasion;
pub mod params;
pub mod plan;
pub mod preset;
pub mod reads;
pub mod recovery;
mod reinject;
pub mod replace;
pub mod resolve;
pub mod sent;
pub mod spec;
pub mod strategy;
pub mod stubs;
pub mod summarize;
pub mod sums;
pub mod turns;
mod twins;
pub mod value;
pub mod view;
pub mod words;

pub use common::{BELIEVED_WINDOW, SUMMARY_TOKENS, WARM_PREFIX, common_params};
pub use params::{Param, ParamValue, Scale, find as find_param};
pub use preset::{Preset, load_preset, parse_preset, preset_names};
pub use resolve::PolicyConfig;
pub use spec::{PolicySpec, split_list};
pub use strategy::{OnBindingError, Strategy};

use crate::session::Session;
use occasion::{Occasion, Stopped};
use plan::{Ingest, Plan};
use strategy::{Hook, Hooks};
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
    /// Hooks at which it wants to be asked at all.
    fn hooks(&self) -> Hooks {
        Hooks::of(&[Hook::Request, Hook::Manual])
    }
    /// Whether this rule wants to be asked at a hook; the ladder of recovery and the user may ask all the same.
    fn is_asked(&self, _rule: usize, _hook: Hook) -> bool {
        true
    }
    /// Whether this rule would decide nothing at any hook as things are: it need not be asked. Cheap, or `false`.
    fn is_idle(&self, _rule: usize, _view: &View<'_>) -> bool {
        false
    }
    /// A tool result came back and is about to enter the conversation.
    fn at_tool_result(&mut self, _rule: usize, _view: &View<'_>, _result: u32) -> Option<Ingest> {
        None
    }
    /// The process was restarted: whatever the policy remembers is to be worked out anew, except what its
    /// agent writes down.
    fn resumed(&mut self, _session: &Session) {}
    /// The rules are about to be asked, one after the other.
    fn begin(&mut self, _occasion: &Occasion) {}
    /// A hook is reached.
    fn at_hook(&mut self, _rule: usize, _occasion: &Occasion, _view: &View<'_>) -> Option<Plan<'p>> {
        None
    }
    /// What the rule decided was carried out.
    fn applied(&mut self, _rule: usize, _occasion: &Occasion, _view: &View<'_>) -> Option<Stopped> {
        None
    }
    /// A summary that the rule asked for earlier is written: whether it is wanted now.
    fn summary_is_due(&mut self, _rule: usize, _occasion: &Occasion, _view: &View<'_>) -> bool {
        true
    }
    /// It could not be.
    fn failed(&mut self, _rule: usize) {}
    /// A request is about to be sent; with `manual`, the user has asked for a compaction.
    fn at_request(&mut self, rule: usize, view: &View<'_>, manual: bool) -> Option<Plan<'p>> {
        self.at_hook(rule, &Occasion::at(if manual { Hook::Manual } else { Hook::Request }), view)
    }
}
