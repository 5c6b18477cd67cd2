//! What users of real agents reported about context management, with their numbers, as checks of the
//! policy language: a small policy of each faulty design and of its fix, on a session of known sizes.

mod edits;
mod summaries;
mod triggers;
mod vendors;
