//! Every action, hook and selector of the policy language in a run: nothing is broken, a resume before every
//! request changes nothing, and each of them does something.

mod refused;
mod rules;
mod summaries;

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

/// What goes in front of the rules.
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

#[test]
fn parts_that_do_not_go_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let models = Models::builtin().unwrap();
    for (i, (rule, said)) in refused::REFUSED.iter().enumerate() {
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
    for (i, (what, rule)) in rules::RULES.iter().chain(rules::OF_SUMMARIES).enumerate() {
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
