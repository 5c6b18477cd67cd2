//! Real recordings: every recorded prompt total is met up to the first undone compaction.
//!
//! Recordings are not part of the project. The variable `CTXSIM_RECORDINGS` names a folder with some;
//! without it these tests say so and check nothing.

use std::path::PathBuf;

use ctxsim::ingest::{self, Recording};
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{EventKind, Session};

use crate::prompt_totals::prompt_totals;

pub fn recordings() -> Vec<PathBuf> {
    let Ok(folder) = std::env::var("CTXSIM_RECORDINGS") else {
        println!("skipped: CTXSIM_RECORDINGS names no folder of recordings");
        return Vec::new();
    };
    ingest::input::resolve(&[folder]).expect("the folder can be read")
}

pub fn sessions(path: &std::path::Path) -> Vec<Session> {
    let source = ingest::input::open(path).expect("the file can be opened");
    let recordings = ingest::read(source, path, &ingest::ReadOptions::default()).expect("it can be read");
    let transcripts = recordings.into_iter().filter_map(|r| match r {
        Recording::Transcript(transcript) => Some(transcript),
        Recording::Session(_) => None,
    });
    transcripts.map(|t| compile(&t, &CompileOptions::default())).collect()
}

#[test]
fn recorded_totals_are_met_until_the_first_undone_compaction() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for path in recordings() {
        for session in sessions(&path) {
            let session = session.view(RecordedCompactions::Undo);
            let first_undone = session
                .events
                .iter()
                .find(|e| {
                    matches!(
                        e.kind,
                        EventKind::RecordedCompaction { .. } | EventKind::RecordedClearing { .. }
                    )
                })
                .map_or(session.steps.len(), |e| e.before_step as usize);
            let mut shown = 0;
            for (k, total) in prompt_totals(&session).into_iter().enumerate().take(first_undone) {
                let Some(usage) = session.steps[k].recorded else { continue };
                checked += 1;
                shown += 1;
                if total != usage.prompt_tokens() {
                    wrong.push((path.clone(), k, total, usage.prompt_tokens()));
                }
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            println!(
                "{name} {} {}: {shown} of {} requests, prefix {} + {} + {}, {:?}",
                session.id,
                session.model,
                session.steps.len(),
                session.prefix.tools.iter().map(|b| b.tokens).sum::<u32>(),
                session.prefix.system.iter().map(|b| b.tokens).sum::<u32>(),
                session.prefix.injected.iter().map(|b| b.tokens).sum::<u32>(),
                session.coefficients,
            );
            for e in &session.events {
                if !matches!(e.kind, EventKind::Resumed) {
                    println!("   {e:?}");
                }
            }
        }
    }
    println!("{checked} requests checked");
    assert!(wrong.is_empty(), "{} differ, first {:?}", wrong.len(), wrong.iter().map(|w|(w.0.file_name().unwrap().to_string_lossy().chars().take(7).collect::<String>(),w.1,w.2 as i64-w.3 as i64)).collect::<Vec<_>>());
}
