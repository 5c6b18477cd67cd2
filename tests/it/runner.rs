//! The runner of many cells.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::policy::PolicySpec;
use ctxsim::provider::model::Models;
use ctxsim::session::Session;
use ctxsim::session::compile::{CompileOptions, compile};
use ctxsim::sim::RunOptions;
use ctxsim::sweep::{CellResult, Control, Detail, ModelChoice, Plan, Planned, runner};

use crate::support::recording;

fn session(i: usize) -> Session {
    let text = recording(&format!("session-{i:03}"), "claude-opus-4-6", 4 + (i as u64 % 5), 5_000);
    let read = ingest::read(text.as_bytes(), Path::new("s"), &ReadOptions::default()).expect("a recording");
    match &read[0] {
        Recording::Transcript(transcript) => compile(transcript, &CompileOptions::default()),
        Recording::Session(session) | Recording::Hashed { session, .. } => session.as_ref().clone(),
    }
}

fn plan(sessions: usize) -> Plan {
    let models = Models::builtin().expect("built in");
    let specs = ["claude-opus-5-5", "claude-opus-4-6"].map(|id| models.get(id).expect("known").clone());
    let strategies = ["none", "arcturn:minCharsPerPass=0"].map(|text| {
        let config = text.parse::<PolicySpec>().expect("right").load(&[], &[]).expect("right");
        specs.iter().map(|model| config.strategy(model, &models).expect("fits")).collect()
    });
    let choices: Vec<ModelChoice> = (0..2).map(|model| ModelChoice { model, substituted: None }).collect();
    let planned = |i| Planned { session: Arc::new(session(i)), models: choices.clone() };
    Plan {
        sessions: (0..sessions).map(planned).collect(),
        models: specs.to_vec(),
        strategies: strategies.to_vec(),
        options: RunOptions::default(),
    }
}

type Key = (usize, usize, usize);

fn keys(cells: &[CellResult]) -> Vec<Key> {
    cells.iter().map(|c| (c.session, c.policy, c.model.model)).collect()
}

#[test]
fn cells_come_by_session_policy_and_model_whatever_the_threads() {
    let plan = plan(70);
    assert_eq!(plan.cells(), 280);
    let mut runs = Vec::new();
    for (jobs, detail) in [(1, Detail::Full), (3, Detail::Full), (3, Detail::Summary)] {
        let control = Control::default();
        let mut cells: Vec<CellResult> = Vec::new();
        let complete = runner::run(&plan, detail, jobs, &control, |block| {
            cells.extend(block);
            Ok::<(), ctxsim::Error>(())
        });
        assert!(complete.expect("threads start"));
        assert_eq!(control.done.load(Ordering::Relaxed), 280);
        assert!(keys(&cells).is_sorted());
        assert!(cells.iter().all(|c| c.record.requests.is_empty() == (detail == Detail::Summary)));
        runs.push(cells.into_iter().map(|c| c.summary).collect::<Vec<_>>());
    }
    assert_eq!(runs[0].len(), 280);
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
}

#[test]
fn a_stop_keeps_the_cells_that_are_done() {
    let plan = plan(70);
    let control = Control::default();
    let mut cells: Vec<CellResult> = Vec::new();
    let complete = runner::run(&plan, Detail::Summary, 2, &control, |block| {
        cells.extend(block);
        control.stop.store(true, Ordering::Relaxed);
        Ok::<(), ctxsim::Error>(())
    });
    assert!(!complete.expect("threads start"));
    assert!(!cells.is_empty() && cells.len() < 280);
}
