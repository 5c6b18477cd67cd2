//! The loop of one cell.

use crate::policy::Strategy;
use crate::provider::{Account, ModelSpec};
use crate::session::Session;

use super::{Recorder, Summary};

/// What to do when the provider refuses bound thinking; overrides the strategy's own answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBindingError {
    /// Remove all thinking now in the history for good, and retry once.
    Strip,
    /// Retry with `drop_block`, and keep it to the end.
    DropBlock,
    /// End the run.
    Fail,
}

/// Options of a run besides session, strategy and model.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Kind of account.
    pub account: Account,
    /// Override of the strategy's answer to a binding rejection.
    pub on_binding_error: Option<OnBindingError>,
    /// The prefix floor is already cached when the session begins.
    pub warm_prefix: bool,
    /// Root seed.
    pub seed: u64,
}

/// Working memory of a worker, reused from cell to cell.
#[derive(Debug, Default)]
pub struct Scratch {}

/// Replays `session` under `strategy` on `model`.
pub fn run(
    _session: &Session,
    _strategy: &Strategy,
    _model: &ModelSpec,
    _options: &RunOptions,
    _scratch: &mut Scratch,
    _recorder: &mut impl Recorder,
) -> Summary {
    Summary::default()
}
