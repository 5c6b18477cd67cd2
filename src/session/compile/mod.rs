//! Transcript → Session: where text ends.
//!
//! The order: blocks, steps and events (`build`), times, coefficients (`fit`), tokens (`weights`,
//! `calibrate`, `undone`, `shrink`), hidden prefix (`prefix`).
//!
//! Sizes of a result with several text parts are sums over the parts; its lines are those of the parts
//! joined by a line feed. Arguments of a call are measured as compact JSON. Empty text and unsigned
//! thinking are never sent and are no blocks; signed thinking is one even if its text is empty.
//!
//! - A result that answers no open call becomes injected user text.
//! - A call still unanswered when the next request is made gets a synthetic error result of
//!   [`SYNTHETIC_RESULT_UTF16`] characters. Calls that a clear or a rewind removed need none.
//! - A request that would add nothing gets an empty synthetic injected text.
//! - Content after the last response was never sent and is left out.
//!
//! # Divergence from the real API
//!
//! - Block sizes inside a step are an estimate; only their sum is recorded.
//! - Content that the recording does not show (attachments that are not kept, a hook's text) is spread
//!   over the blocks of the step in which it appeared.
//! - A recorded request may hold content behind its last breakpoint, billed as plain input and written
//!   by the request after it. Here it belongs to its blocks, which are written at once; only the
//!   provider's own few tokens stay behind the last block (see `weights`).
//! - The signature of thinking is known by its length alone, so two hidden thoughts of equal length have
//!   one hash.

mod build;
mod calibrate;
mod fit;
mod measure;
mod prefix;
mod shrink;
pub(crate) mod times;
mod undone;
mod weights;

pub use build::SYNTHETIC_RESULT_UTF16;
pub use measure::json_utf16;

use crate::session::{Origin, Session};
use crate::tokens::Tokenizer;
use crate::transcript::{Entry, Transcript};

/// How tokens are counted (`--tokens`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenMode {
    /// Calibrated on the recording's own usage, else per-model coefficients.
    #[default]
    Auto,
    /// One token per this many thousandths of a character (`chars:4` = 4000).
    CharsMilli(u32),
}

/// What becomes of the recording's own compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordedCompactions {
    /// The history is what it would have been without them.
    #[default]
    Undo,
    /// They happen as recorded.
    Keep,
}

/// Options of [`compile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompileOptions {
    /// How blocks are sized.
    pub tokens: TokenMode,
    /// Key of the content hashes; 0 is the constant key, `--anonymise` draws one.
    pub hash_key: u64,
}

/// Compiles a transcript. A transcript always compiles: what cannot be used was named by the reader.
///
/// The session holds both what the recording's own compactions injected and what they removed, so that
/// one compiled form serves both ways of replaying; [`Session::view`] picks one and must be called
/// before a run.
pub fn compile(transcript: &Transcript, options: &CompileOptions) -> Session {
    let model = first_model(transcript);
    let tokenizer = Tokenizer::of_model(model);
    let mut draft = build::Builder::new(transcript, tokenizer, options.hash_key).build(transcript);
    times::set_times(&mut draft.steps, draft.raw_steps.iter().map(|s| &s.times));
    let coefficients = match options.tokens {
        TokenMode::Auto => fit::fit(&draft, tokenizer),
        TokenMode::CharsMilli(milli) => fit::per_character(milli),
    };
    let sized = calibrate::calibrate(&mut draft, transcript, &coefficients, tokenizer, options);
    Session {
        id: transcript.session_id.clone(),
        parent: transcript.parent_session_id.clone(),
        origin: Origin {
            format: transcript.format.to_owned(),
            agent: transcript.agent.clone(),
            agent_version: transcript.agent_version.clone(),
        },
        model: model.to_owned(),
        tokenizer,
        coefficients,
        prefix: sized.prefix,
        prefix_is_measured: sized.prefix_is_measured,
        warm_prefix_tokens: prefix::first_read(&draft.steps),
        tools: draft.tools,
        calls: draft.calls,
        blocks: draft.blocks,
        result_parts: draft.result_parts,
        steps: draft.steps,
        events: draft.events,
    }
}

fn first_model(transcript: &Transcript) -> &str {
    transcript
        .entries
        .iter()
        .find_map(|entry| match entry {
            Entry::Response(response) if !response.model.is_empty() => Some(response.model.as_str()),
            _ => None,
        })
        .unwrap_or_default()
}
