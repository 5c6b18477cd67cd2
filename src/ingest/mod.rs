//! Readers: one file per recording format, each from bytes to [`crate::transcript::Transcript`].
