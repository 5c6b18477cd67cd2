//! Every preset on recorded sessions: no plan is broken, and a run that is resumed before each request is
//! the run that was not.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ctxsim::policy::{PolicySpec, preset_names};
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};

/// Recorded sessions of fewer than 200 requests.
fn short_sessions() -> Vec<Session> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let traces = paths.iter().filter(|p| p.to_string_lossy().ends_with(".trace.jsonl"));
    let read = |p: &std::path::PathBuf| {
        let session = ctxsim::session::trace::read(BufReader::new(File::open(p).unwrap()), p).unwrap();
        session.view(RecordedCompactions::Undo).into_owned()
    };
    traces.map(read).filter(|s| s.steps.len() < 200).collect()
}

/// The preset as typed, with what makes it act where it is off by default.
fn typed(name: &str) -> String {
    match name {
        "google-adk" => "google-adk:compaction_interval=2,overlap_size=1".to_owned(),
        "langchain-summarization" => "langchain-summarization:trigger.messages=50".to_owned(),
        "openai-compaction" => "openai-compaction:compact_threshold=100000".to_owned(),
        name => name.to_owned(),
    }
}

#[test]
fn no_preset_breaks_a_plan_and_a_resume_changes_none() {
    let models = Models::builtin().unwrap();
    let resuming = RunOptions { resume_before_each_request: true, ..RunOptions::default() };
    let sessions = short_sessions();
    let mut edits = 0;
    for name in preset_names() {
        let config = typed(name).parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
        for id in ["claude-haiku-4-5", "claude-opus-5-5"] {
            let model = models.get(id).unwrap();
            let strategy = config.strategy(model, &models).unwrap();
            for session in &sessions {
                let session = session.scaled_to(model.tokenizer);
                let go = |options: &RunOptions| -> (Summary, FullRecorder) {
                    let mut record = FullRecorder::default();
                    let scratch = &mut Scratch::default();
                    let summary = run(&session, &strategy, model, options, scratch, &mut record);
                    (summary, record)
                };
                let (live, record) = go(&RunOptions::default());
                assert_eq!(live.violations, 0, "{name} on {id}, {}: {:?}", session.id, record.events);
                let (resumed, resumed_record) = go(&resuming);
                assert_eq!(live, resumed, "{name} on {id}, {}", session.id);
                assert_eq!(record.requests, resumed_record.requests, "{name} on {id}, {}", session.id);
                edits += live.passes + live.compactions;
            }
        }
    }
    assert!(edits > 500, "only {edits} edits were resumed over");
}
