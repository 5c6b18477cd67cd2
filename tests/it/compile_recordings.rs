//! Real recordings: every recorded prompt total is met up to the first undone compaction.
//!
//! Recordings are not part of the project. The variable `CTXSIM_RECORDINGS` names a folder with some;
//! without it these tests say so and check nothing.

use std::path::PathBuf;

use ctxsim::ingest::{self, Recording};
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{DropReason, EventKind, Session, trace};

use crate::prompt_totals::{first_unpaired, prompt_totals};

pub fn recordings() -> Vec<PathBuf> {
    let Ok(folder) = std::env::var("CTXSIM_RECORDINGS") else {
        println!("skipped: CTXSIM_RECORDINGS names no folder of recordings");
        return Vec::new();
    };
    ingest::input::resolve(&[folder]).expect("the folder can be read")
}

pub fn sessions(path: &std::path::Path) -> Vec<Session> {
    let source = ingest::input::open(path).expect("the file can be opened");
    let recordings = ingest::read(source, path, &ingest::ReadOptions::default()).unwrap_or_else(|why| {
        // A folder holds files without a response too.
        println!("skipped: {why}");
        Vec::new()
    });
    let transcripts = recordings.into_iter().filter_map(|r| match r {
        Recording::Transcript(transcript) => Some(transcript),
        Recording::Session(_) | Recording::Hashed { .. } => None,
    });
    transcripts.map(|t| compile(&t, &CompileOptions::default())).collect()
}

#[test]
fn recorded_totals_are_met_until_the_first_undone_compaction() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for path in recordings() {
        for base in sessions(&path) {
            let session = base.view(RecordedCompactions::Undo);
            assert_eq!(first_unpaired(&session), None, "{}", path.display());
            assert_eq!(first_unpaired(&base.view(RecordedCompactions::Keep)), None, "{}", path.display());
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
            let dropped = session.events.iter().filter(|e| {
                matches!(e.kind, EventKind::BlocksDropped { reason: DropReason::Unexplained, .. })
            });
            println!(
                "{name} {}: {shown} of {} requests, prefix {}, {} unexplained drops, {:?}",
                session.model,
                session.steps.len(),
                session.prefix.tokens(),
                dropped.count(),
                session.coefficients,
            );
        }
    }
    println!("{checked} requests checked");
    assert!(wrong.is_empty(), "{} differ (recording, step, replayed, recorded): {wrong:?}", wrong.len());
}

#[test]
fn recordings_come_back_from_their_traces() {
    for path in recordings() {
        let mut bytes = 0;
        let (mut blocks, mut requests) = (0, 0);
        for session in sessions(&path) {
            let mut out = Vec::new();
            trace::write(&session, &mut out).expect("a vector takes everything");
            bytes += out.len();
            blocks += session.blocks.len();
            requests += session.steps.len();
            let back = trace::read(out.as_slice(), &path).expect("what was written can be read");
            assert!(back == session, "{} differs from its trace", path.display());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}: {requests} requests, {blocks} blocks, {bytes} bytes of trace");
    }
}

#[test]
fn recorded_totals_are_met_to_the_end_where_compactions_are_kept() {
    let mut checked = 0;
    for path in recordings() {
        for base in sessions(&path) {
            let session = base.view(RecordedCompactions::Keep);
            for (k, (step, total)) in session.steps.iter().zip(prompt_totals(&session)).enumerate() {
                let Some(usage) = step.recorded else { continue };
                assert_eq!(total, usage.prompt_tokens(), "{} step {k}", path.display());
                checked += 1;
            }
        }
    }
    println!("{checked} requests checked");
}
