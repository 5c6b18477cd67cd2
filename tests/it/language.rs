//! Every action, hook and selector of the policy language in a run: nothing is broken, a resume before every
//! request changes nothing, and each of them does something.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};

use crate::policy_support::with_human_turns;

const HEAD: &str = r#"
name = "t"
version = "1"
summary = "s"
[cache]
ttl = "5m"
markers = ["tools", "system", "last_user"]
[estimate]
unit = "utf16"
chars_per_token = 3.5
message_tokens = 3
"#;

/// A rule of its own, and what goes in front of the rules.
const RULES: &[(&str, &str)] = &[
    (
        "stub by results",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "estimate", over = 20000 }]
select = { tool_results = { min = 100, min_unit = "bytes", keep_recent = { results = 4 } } }
stub = { fixed = 20 }
cadence = { min_savings = 2000, savings_unit = "estimate" }
"#,
    ),
    (
        "replaced for good, newest by size, the crossing one too",
        r#"[[rule]]
id = "r"
at = ["turn_end", "after_tools"]
when = [{ of = "tool_results", unit = "estimate", over = 5000 }]
select = { tool_results = { keep_recent = { tokens = 9000, crossing = "drop" }, except = ["Skill"] } }
stub = { fixed = 40, digits = ["chars"] }
cadence = { savings_over = 3000, savings_unit = "tokens" }
view = "destructive"
"#,
    ),
    (
        "stateless with a stop rule",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 15000 }]
select = { tool_results = { keep_recent = { results = 3 }, until = { saved = 8000 } } }
stub = { fixed = 9 }
cadence = { savings_unit = "tokens" }
view = "stateless"
"#,
    ),
    (
        "polling",
        r#"[[rule]]
id = "r"
at = "request"
select = { tool_results = { keep_first = 1, hidden_items = 1, keep_recent = { results = 5 }, quantum = 4 } }
stub = { fixed = 45, digits = ["lines"] }
view = "stateless"
"#,
    ),
    (
        "old results are cut",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "bytes", over = 30000 }]
select = { tool_results = { min = 1000, keep_recent = { turns = 2, turn = "boundary" } } }
truncate = { head = 200, tail = 200, marker = { fixed = 30, digits = ["omitted_chars"] } }
view = "destructive"
"#,
    ),
    (
        "old results are cut, recorded",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "count", at_least = 8 }]
select = { tool_results = { min = 1000, keep_recent = { messages = 6 } } }
truncate = { head = 10, tail = 10, unit = "lines", marker = { fixed = 30 } }
"#,
    ),
    (
        "fresh results are cut",
        r#"[[rule]]
id = "r"
at = "tool_result"
when = [{ of = "block", unit = "lines", over = 40 }, { of = "block", unit = "bytes", over = 5000 }]
select = { tool_results = {} }
truncate = { budget = 4000, unit = "bytes", head_percent = 20, marker = { fixed = 60, digits = ["omitted_bytes"] } }
"#,
    ),
    (
        "arguments are emptied",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "count", over = 12 }]
select = { tool_inputs = { min = 40, keep_recent = { turns = 3 } } }
clear_inputs = { chars = 2 }
"#,
    ),
    (
        "arguments are emptied for good",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "count", over = 12 }]
select = { tool_inputs = { min = 40, keep_recent = { turns = 3 } } }
clear_inputs = { chars = 2 }
cadence = { min_interval = 5 }
view = "destructive"
"#,
    ),
    (
        "pairs leave",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "count", over = 8 }]
select = { pairs = { keep_recent = { results = 5 } } }
drop = {}
cadence = { min_savings = 4000 }
"#,
    ),
    (
        "pairs are left out of each request",
        r#"[[rule]]
id = "r"
at = "request"
select = { pairs = { keep_recent = { results = 5 } } }
drop = {}
view = "stateless"
"#,
    ),
    (
        "thinking leaves",
        r#"[[rule]]
id = "r"
at = "request"
select = { thinking = { keep_recent = { turns = 2 } } }
strip_thinking = {}
"#,
    ),
    (
        "messages leave, a marker stays",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "count", over = 24 }]
select = { messages = { keep_first = 1, keep_recent = { messages = 10 }, snap = "assistant" } }
drop = { marker_chars = 80 }
"#,
    ),
    (
        "messages leave without a trace",
        r#"[[rule]]
id = "r"
at = "turn_start"
when = [{ of = "messages", unit = "turns", over = 2 }]
select = { messages = { keep_recent = { turns = 1, turn = "user" } } }
drop = {}
"#,
    ),
    (
        "a middle is summarized in place, to half of what fired",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "events", over = 40 }]
cadence = { min_fold_percent = 10 }
[rule.select.messages]
keep_first = 1
snap = "assistant"
hidden_events = 1
until = { total = { fired = 0.5 } }
[rule.summarize]
input = "messages"
prompt_chars = 500
wrap_chars = 10
max_output_tokens = 2000
model = "same"
place = "in_place"
"#,
    ),
    (
        "user messages stay, the summary is last, the cache is read",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "estimate", at_least = 20000 }]
select = { messages = {} }
[rule.summarize]
input = "fork"
prompt_chars = 500
wrap_chars = 10
max_output_tokens = 2000
model = "same"
place = "last"
reinject = { user_messages = 20000, tokens = 100 }
"#,
    ),
    (
        "two calls, a share of the text stays, a larger summary is thrown away",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "last_usage", unit = "tokens", at_least = 30000 }]
select = { messages = { keep_recent = { share = 0.3 }, toward = "older" } }
cadence = { not_after_self = true, breaker = { failures = 3, refills = 4 } }
[rule.summarize]
input = "fork"
prompt_chars = 500
max_output_tokens = 2000
model = "lite"
fallback_model = "same"
calls = 2
output = { share = 0.05 }
reject_if_larger = true
"#,
    ),
    (
        "a target with head-room",
        r#"[[rule]]
id = "r"
at = "response"
when = [{ of = "tool_results", unit = "utf16", over = 40000 }]
select = { tool_results = { min = 500, keep_recent = { results = 2 } } }
stub = { fixed = 30 }
cadence = { target = 25000 }
view = "destructive"
"#,
    ),
    (
        "in the cold",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "utf16", over = 10000 }]
select = { tool_results = { keep_recent = { turns = 2 } } }
stub = { fixed = 30 }
cadence = { when_cache = "prefer_cold" }
"#,
    ),
    (
        "tiers with their own stubs",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "eligible", unit = "tokens", at_least = 5000 }]
select = { tool_results = { keep_recent = { estimate = 6000 } } }
stub = { fixed = 60, path = 0 }
stub_by_tool = [{ only = ["shell"], stub = { fixed = 60 }, head = 5, tail = 5, unit = "lines" }]
cadence = { savings = "gross", savings_unit = "tokens", no_refire_above_floor = true }
"#,
    ),
    (
        "the provider leaves old thinking out of its own copy",
        r#"[[rule]]
id = "r"
at = "request"
view = "server"
select = { thinking = { keep_recent = { thinking_turns = 2 } } }
strip_thinking = {}
"#,
    ),
    (
        "summaries accumulate, each of more than the last one holds",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", at_least = 8000 }]
select = { messages = { keep_recent = { turns = 3 }, snap = "assistant" } }
cadence = { larger_than_last_summary = true }
[rule.summarize]
input = "messages"
prompt_chars = 500
wrap_chars = 10
max_output_tokens = 500
model = "same"
accumulate = true
"#,
    ),
    (
        "results and messages leave until there is room for growth",
        r#"[[rule]]
id = "r"
at = "request"
view = "destructive"
when = [{ of = "messages", unit = "plain_estimate", over = 15000 }]
select = { tool_results = { keep_recent = { results = 2 } } }
stub = { fixed = 20 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 }, savings_unit = "estimate" }
[[rule]]
id = "s"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 20000 }]
select = { messages = { snap = "assistant" } }
drop = { marker_chars = 40 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }
"#,
    ),
];

/// Rules whose parts do not go together, and a word of what is said.
const REFUSED: &[(&str, &str)] = &[
    (
        r#"select = { tool_results = {} }
stub = { fixed = 20 }
cadence = { target = 5, headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }
when = [{ of = "messages", unit = "estimate", over = 20000 }]"#,
        "cadence.target",
    ),
    (
        r#"select = { tool_results = {} }
stub = { fixed = 20 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }"#,
        "`when`",
    ),
    (
        r#"select = { messages = { until = { count = 3 } } }
drop = { marker_chars = 40 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }
when = [{ of = "messages", unit = "estimate", over = 20000 }]"#,
        "`until`",
    ),
    (
        r#"select = { messages = {} }
drop = { marker_chars = 40 }
cadence = { larger_than_last_summary = true }"#,
        "`summarize`",
    ),
    (
        r#"select = { messages = { keep_recent = { thinking_turns = 2 } } }
drop = { marker_chars = 40 }"#,
        "messages are kept by",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", accumulate = true, place = "last" }"#,
        "`accumulate`",
    ),
];

#[test]
fn parts_that_do_not_go_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let models = Models::builtin().unwrap();
    for (i, (rule, said)) in REFUSED.iter().enumerate() {
        let text = format!("{HEAD}[[rule]]\nid = \"r\"\nat = \"request\"\n{rule}\n");
        let policy = file(dir.path(), &format!("refused{i}"), &text);
        let config = policy.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
        let refused = config.strategy(models.get("claude-opus-5").unwrap(), &models).unwrap_err().to_string();
        assert!(refused.contains(said), "{rule}: {refused}");
    }
}

fn on(model: &str, session: &Session, policy: &str, options: &RunOptions) -> (Summary, FullRecorder) {
    let models = Models::builtin().unwrap();
    let model = models.get(model).unwrap();
    let spec: PolicySpec = policy.parse().unwrap();
    let strategy = spec.load(&[], &[]).unwrap().strategy(model, &models).unwrap();
    let mut record = FullRecorder::default();
    let session = session.scaled_to(model.tokenizer);
    let summary = run(&session, &strategy, model, options, &mut Scratch::default(), &mut record);
    (summary, record)
}

fn sessions() -> Vec<Session> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let read = |p: &std::path::PathBuf| {
        let session = ctxsim::session::trace::read(BufReader::new(File::open(p).unwrap()), p).unwrap();
        session.view(RecordedCompactions::Undo).into_owned()
    };
    let recorded = paths.iter().filter(|p| p.to_string_lossy().ends_with(".trace.jsonl")).map(read);
    let short = recorded.filter(|s| s.steps.len() < 150);
    let made =
        ConstantGrowth { requests: 60, result_utf16: 4_000, result_tokens: 1_500, ..Default::default() };
    short.chain([with_human_turns(made.session(), 6)]).collect()
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn whatever_a_rule_does_keeps_the_conversation_whole_and_survives_a_resume() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = sessions();
    let resuming = RunOptions { resume_before_each_request: true, ..RunOptions::default() };
    for (i, (what, rule)) in RULES.iter().enumerate() {
        let policy = file(dir.path(), &format!("p{i}"), &format!("{HEAD}{rule}"));
        let mut did = 0;
        for session in &sessions {
            let live = on("claude-opus-5", session, &policy, &RunOptions::default());
            let said: Vec<_> =
                live.1.events.iter().filter(|e| format!("{e:?}").contains("Violation")).collect();
            assert_eq!(live.0.violations, 0, "{what}, {}: {said:?}", session.id);
            let rejected: Vec<_> =
                live.1.events.iter().filter(|e| format!("{e:?}").contains("Rejection")).collect();
            assert_eq!(live.0.stop_reason, None, "{what}, {}: {rejected:?}", session.id);
            let resumed = on("claude-opus-5", session, &policy, &resuming);
            assert_eq!(live.1.requests, resumed.1.requests, "{what}, {}", session.id);
            did += live.0.passes + live.0.compactions;
            did += live.1.events.iter().filter(|e| format!("{e:?}").contains("Truncate")).count() as u64;
        }
        assert!(did > 0, "{what}: it never does anything");
    }
}

#[test]
fn layers_of_two_agents_keep_the_measures_of_their_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
name = "both"
version = "1"
summary = "s"
extends = "arcturn"
include = [{ from = "octo", rules = ["reclaim", "fold"] }]
[[rule]]
id = "compact"
at = "request"
if = [{ param = "offload", is = ["never"] }]
select = { messages = {} }
native_compact = { max_output_tokens = 1 }
[[rule]]
id = "edit"
at = "request"
if = [{ param = "offload", is = ["never"] }]
select = { tool_results = {} }
stub = { fixed = 1 }
"#;
    let policy = file(dir.path(), "both", text);
    let session =
        ConstantGrowth { requests: 60, result_utf16: 20_000, result_tokens: 8_000, ..Default::default() }
            .session();
    let both = format!("{policy}:compact_threshold=60000");
    let (summary, _) = on("claude-opus-5-5", &session, &both, &RunOptions::default());
    assert_eq!(summary.violations, 0);
    assert_eq!(summary.offloads, 59, "each result goes to a file, by one agent");
    assert!(summary.elided_results > 0, "what is left of it is reclaimed by the limits of the other");
    let models = Models::builtin().unwrap();
    let spec: PolicySpec = both.parse().unwrap();
    let strategy =
        spec.load(&[], &[]).unwrap().strategy(models.get("claude-opus-5-5").unwrap(), &models).unwrap();
    let ids: Vec<&str> = strategy.rules.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["reclaim", "fold", "offload"]);
    assert!(strategy.rules[0].scope.estimate.is_some() && strategy.rules[2].scope.estimate.is_none());
}
