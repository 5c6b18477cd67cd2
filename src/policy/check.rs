//! Configurations that are right by their grammar and cannot do what they say.
//!
//! Each finding is one sentence with the two numbers that do not go together. Nothing here ends a run: a
//! configuration may be meant that way.

use super::action::Growth;
use super::estimate::Anchor;
use super::laws::{Facts, excerpt};
use super::strategy::{
    Action, Measure, MessageUnit, OffloadRule, Rule, Strategy, StubRule, StubSize, Threshold, Unit, Until,
};
use crate::provider::ModelSpec;
use crate::session::roles::Role;
use crate::session::{BlockKind, NONE, Session, Tool};

/// Fixed overhead that is assumed where there is no recording: tools and system prompt of a small agent.
pub const ASSUMED_OVERHEAD_TOKENS: u64 = 15_000;
/// Limit of a file-reading tool that is assumed where there is no recording: 50 KiB, as pi's
/// (npm @earendil-works/pi-coding-agent 1.6.0).
pub const ASSUMED_READ_UTF16: u64 = 51_200;
/// Characters to a token where a gate in characters is compared with a window in tokens.
const UTF16_PER_TOKEN: u64 = 4;
/// A limit of at least this stands for a trigger that is switched off.
const NEVER: i64 = 1_000_000_000;

/// What a configuration is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The model's window.
    pub window_tokens: u64,
    /// Tools, system prompt and injected text of the first request: the largest of all sessions.
    pub overhead_tokens: u64,
    /// Tools that read files, each with the longest result it gave.
    pub readers: Vec<(Tool, u64)>,
    /// There is no recording: overhead and readers are assumed.
    pub assumed: bool,
}

impl Surroundings {
    /// Without a recording.
    pub fn assumed(model: &ModelSpec) -> Surroundings {
        Surroundings {
            window_tokens: model.window_tokens,
            overhead_tokens: ASSUMED_OVERHEAD_TOKENS,
            readers: vec![(Tool { name: "Read".to_owned(), role: Role::Read }, ASSUMED_READ_UTF16)],
            assumed: true,
        }
    }

    /// Those of recordings.
    pub fn of<'s>(model: &ModelSpec, sessions: impl IntoIterator<Item = &'s Session>) -> Surroundings {
        let mut found = Surroundings {
            window_tokens: model.window_tokens,
            overhead_tokens: 0,
            readers: Vec::new(),
            assumed: false,
        };
        for session in sessions {
            found.overhead_tokens = found.overhead_tokens.max(session.prefix.tokens());
            for (i, tool) in session.blocks.tool.iter().enumerate() {
                if *tool != NONE && session.blocks.kind[i] == BlockKind::ToolResult {
                    found.note_read(&session.tools[*tool as usize], u64::from(session.blocks.utf16[i]));
                }
            }
        }
        found
    }

    fn note_read(&mut self, tool: &Tool, utf16: u64) {
        if tool.role != Role::Read {
            return;
        }
        match self.readers.iter_mut().find(|(known, _)| known.name == tool.name) {
            Some((_, longest)) => *longest = utf16.max(*longest),
            None => self.readers.push((tool.clone(), utf16)),
        }
    }

    fn assumption(&self) -> &'static str {
        if self.assumed { " (assumed; a run takes the recording's)" } else { "" }
    }
}

/// Everything about `strategy` that cannot work out as it says, in rule order.
pub fn check(strategy: &Strategy, around: &Surroundings) -> Vec<String> {
    let mut found = Vec::new();
    for rule in &strategy.rules {
        let anchored = strategy.law_of(rule).is_some_and(|law| law.anchor != Anchor::None);
        check_triggers(rule, anchored, around, &mut found);
        match &rule.action {
            Action::Stub(stub) => {
                check_target(rule, stub, &mut found);
                check_gate(rule, stub, around, &mut found);
            }
            Action::Offload(offload) => check_offload(rule, offload, around, &mut found),
            Action::Truncate(_) | Action::Summarize(_) => {}
        }
    }
    found
}

/// Whether a measure counts tokens, and whether tools and system prompt are among them.
fn tokens_measured(measure: Measure, anchored: bool) -> Option<bool> {
    match measure {
        Measure::RequestTokens | Measure::LastPrompt | Measure::LastUsage => Some(true),
        Measure::Messages(MessageUnit::Estimate) => Some(anchored),
        Measure::Messages(MessageUnit::PlainEstimate) => Some(false),
        _ => None,
    }
}

fn check_triggers(rule: &Rule, anchored: bool, around: &Surroundings, found: &mut Vec<String>) {
    let id = &rule.id;
    for trigger in rule.when.iter().filter(|t| t.limit < NEVER) {
        let Some(with_overhead) = tokens_measured(trigger.measure, anchored) else { continue };
        let limit = trigger.limit;
        let (overhead, window) = (around.overhead_tokens, around.window_tokens);
        if with_overhead && limit < signed(overhead) {
            found.push(format!(
                "rule `{id}`: its trigger of {limit} tokens is below the fixed overhead of {overhead} \
                 tokens{}; it fires at every request",
                around.assumption(),
            ));
        }
        if limit > signed(window) {
            found.push(format!(
                "rule `{id}`: its trigger of {limit} tokens is above the window of {window} tokens; requests \
                 overflow before it fires",
            ));
        }
    }
}

/// Edits that go on until the measure is under a level need one that is under the trigger.
fn check_target(rule: &Rule, stub: &StubRule, found: &mut Vec<String>) {
    let Some(trigger) = rule.when.iter().map(|t| t.limit).min() else { return };
    let stop = match stub.until {
        Some(Until::Total(level)) => Some(level),
        _ => stub.target,
    };
    if let Some(target) =
        stop.map(|level| level.value(trigger, Growth::default())).filter(|target| *target >= trigger)
    {
        found.push(format!(
            "rule `{}`: its target of {target} is not below its trigger of {trigger}; what comes next fires \
             it again",
            rule.id,
        ));
    }
}

/// A gate above everything that a full window holds never passes.
fn check_gate(rule: &Rule, stub: &StubRule, around: &Surroundings, found: &mut Vec<String>) {
    let (most, unit) = match stub.savings.unit {
        _ if matches!(stub.stub, StubSize::Tokens(_)) => (around.window_tokens, "tokens"),
        Unit::Tokens | Unit::Estimate => (around.window_tokens, "tokens"),
        Unit::Utf16 => (around.window_tokens.saturating_mul(UTF16_PER_TOKEN), "characters"),
        Unit::Bytes => (around.window_tokens.saturating_mul(UTF16_PER_TOKEN), "bytes"),
        Unit::Lines | Unit::Count => return,
    };
    if stub.savings.min > most {
        found.push(format!(
            "rule `{}`: its gate of {} {unit} can never pass; a full window holds {most}",
            rule.id, stub.savings.min,
        ));
    }
}

fn check_offload(rule: &Rule, offload: &OffloadRule, around: &Surroundings, found: &mut Vec<String>) {
    let id = &rule.id;
    let block = |t: &&Threshold| t.measure == Measure::Block(Unit::Utf16);
    let Some(trigger) = rule.when.iter().filter(block).min_by_key(|t| t.limit) else { return };
    let limit = u64::try_from(trigger.limit).unwrap_or(0);
    if offload.unit == Unit::Utf16 {
        let chars = limit + u64::from(!trigger.inclusive);
        let kept = excerpt(chars, offload.keep_head, offload.keep_tail);
        let path_utf16 = offload.path.utf16(0, 0);
        let facts = Facts { chars, bytes: chars, lines: 1, limit, path_utf16, ..Facts::default() };
        let stub = offload.stub.utf16(&facts) + kept.head + kept.tail;
        // A few hundred characters of a marker around what is kept do no harm.
        if stub > limit + limit / 100 {
            found.push(format!(
                "rule `{id}`: its limit of {limit} characters is under its own stub of {stub}; what it \
                 replaces grows",
            ));
        }
    }
    let matches = |tool: &Tool, list: &[String]| list.iter().any(|pattern| tool.matches(pattern));
    let offloaded = |tool: &Tool| {
        (offload.only.is_empty() || matches(tool, &offload.only)) && !matches(tool, &offload.except)
    };
    let longest = around.readers.iter().filter(|(tool, _)| offloaded(tool)).max_by_key(|(_, utf16)| *utf16);
    if let Some((tool, utf16)) = longest.filter(|(_, utf16)| *utf16 > limit) {
        found.push(format!(
            "rule `{id}`: its limit of {limit} characters is below the {utf16}{} that `{}` returns; a file \
             read back is offloaded again",
            around.assumption(),
            tool.name,
        ));
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::policy::{PolicyConfig, load_preset, parse_preset, preset_names};
    use crate::provider::Models;

    fn findings(rules: &str) -> Vec<String> {
        let text = format!("name = \"t\"\nversion = \"1\"\nsummary = \"s\"\nextends = \"none\"\n{rules}");
        let preset = Arc::new(parse_preset(&text, "t").unwrap());
        let models = Models::builtin().unwrap();
        let model = models.get("claude-haiku-4-5").unwrap();
        let (set, common, warnings) = Default::default();
        let config = PolicyConfig { label: "t".to_owned(), preset, set, common, warnings };
        check(&config.strategy(model, &models).unwrap(), &Surroundings::assumed(model))
    }

    fn compaction(when: &str) -> String {
        format!(
            "[[rule]]\nid = \"compact\"\nat = \"request\"\nwhen = [{when}]\n\
             native_compact = {{ max_output_tokens = 100 }}\n"
        )
    }

    fn clearing(keys: &str) -> String {
        format!(
            "[[rule]]\nid = \"clear\"\nat = \"request\"\n\
             when = [{{ of = \"tool_results\", unit = \"utf16\", over = 100000 }}]\nstub = {{ fixed = 9 }}\n{keys}"
        )
    }

    fn offload(limit: u64, except: &str) -> String {
        format!(
            "[[rule]]\nid = \"offload\"\nat = \"tool_result\"\n\
             when = [{{ of = \"block\", unit = \"utf16\", over = {limit} }}]\n\
             select = {{ tool_results = {{ except = [{except}] }} }}\n\
             offload = {{ head = 4000, tail = 1000, limit = {limit}, stub = {{ fixed = 500 }}, \
             path = {{ home = \"\", folder = \"\", session_id = 0 }} }}\n"
        )
    }

    /// One finding that holds both numbers.
    #[track_caller]
    fn one(rules: &str, numbers: [&str; 2]) {
        let found = findings(rules);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(numbers.iter().all(|n| found[0].contains(n)), "{found:?}");
    }

    #[track_caller]
    fn none(rules: &str) {
        assert_eq!(findings(rules), [""; 0]);
    }

    #[test]
    fn a_trigger_below_the_fixed_overhead() {
        one(&compaction(r#"{ of = "request", unit = "tokens", over = 14999 }"#), ["14999", "15000"]);
        none(&compaction(r#"{ of = "request", unit = "tokens", over = 15000 }"#));
        one(&compaction(r#"{ of = "last_usage", unit = "tokens", over = 900 }"#), ["900", "15000"]);
    }

    #[test]
    fn a_threshold_above_the_window() {
        one(&compaction(r#"{ of = "request", unit = "tokens", over = 200001 }"#), ["200001", "200000"]);
        none(&compaction(r#"{ of = "request", unit = "tokens", over = 200000 }"#));
        none(&compaction(r#"{ of = "request", unit = "tokens", over = 1000000000000 }"#));
    }

    #[test]
    fn a_target_that_is_not_below_its_trigger() {
        let until = |total: &str| {
            clearing(&format!("select = {{ tool_results = {{ until = {{ total = {total} }} }} }}\n"))
        };
        one(&until("100000"), ["100000", "trigger of 100000"]);
        none(&until("99999"));
        one(&until("{ trigger = 1.0 }"), ["100000", "trigger of 100000"]);
        none(&until("{ fired = 0.5 }"));
    }

    #[test]
    fn a_gate_that_can_never_pass() {
        let gate = |n: u64| {
            clearing(&format!("select = {{ tool_results = {{}} }}\ncadence = {{ min_savings = {n} }}\n"))
        };
        one(&gate(800_001), ["800001", "800000"]);
        none(&gate(800_000));
    }

    #[test]
    fn an_offload_limit_under_its_own_stub() {
        one(&offload(5_000, "\"read\""), ["5000", "5500"]);
        none(&offload(5_500, "\"read\""));
    }

    #[test]
    fn a_reading_tool_whose_limit_is_above_that_of_the_offload() {
        one(&offload(16_000, ""), ["16000", "51200"]);
        none(&offload(16_000, "\"read\""));
        none(&offload(51_200, ""));
    }

    #[test]
    fn recordings_replace_what_is_assumed() {
        let session = crate::generate::ConstantGrowth::default().session();
        let models = Models::builtin().unwrap();
        let mut around = Surroundings::of(models.get("claude-haiku-4-5").unwrap(), [&session]);
        assert_eq!((around.overhead_tokens, around.readers.len()), (15_000, 0));
        around.note_read(&Tool { name: "Read".to_owned(), role: Role::Read }, 7);
        around.note_read(&Tool { name: "Read".to_owned(), role: Role::Read }, 5);
        around.note_read(&Tool { name: "Bash".to_owned(), role: Role::Shell }, 9);
        assert_eq!(around.readers.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn presets_with_their_defaults_are_in_order() {
        let models = Models::builtin().unwrap();
        let model = models.get("claude-opus-5-5").unwrap();
        for name in preset_names() {
            let preset = load_preset(name).unwrap();
            let (label, set, common) = (name.to_owned(), BTreeMap::new(), BTreeMap::new());
            let config = PolicyConfig { label, preset, set, common, warnings: Vec::new() };
            let mut around = Surroundings::assumed(model);
            around.readers.clear();
            assert_eq!(check(&config.strategy(model, &models).unwrap(), &around), [""; 0], "{name}");
        }
    }
}
