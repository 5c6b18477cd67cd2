//! The only thing that changes during a run.
