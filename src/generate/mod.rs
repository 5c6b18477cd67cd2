//! Synthetic sessions: seeded, from profiles that are data, and fitted to recordings.
//!
//! A [`Profile`] (`profiles/*.toml`) gives each parameter a [`Dist`]; [`session()`] draws one session from it. Every
//! parameter has a stream of its own in every session, so the same seed gives the same bytes on every machine, a session
//! does not depend on how many others are made, and changing one parameter leaves all other draws as they were.
//! [`fit`] goes the other way: from sessions to a profile, and how well it describes sessions it was not fitted to.
//!
//! [`ConstantGrowth`] needs no profile: what closed forms and benchmarks are checked on.

mod dist;
mod family;
pub mod fit;
mod growth;
mod observe;
mod profile;
mod sample;
mod session;
mod write;

pub use dist::Dist;
pub use growth::ConstantGrowth;
pub use profile::{Parameter, Profile, profile_names};
pub use session::{MAX_STEPS, START_MS, session, session_id};
