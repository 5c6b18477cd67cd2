//! From results to bytes: pure functions, one per format, and the files they land in.

pub mod audit;
pub mod audit_wire;
pub mod csv;
pub mod curve;
mod decimal;
pub mod events;
pub mod files;
#[cfg(feature = "dataframe")]
pub mod frame;
pub mod grid;
pub mod html;
pub mod json;
pub mod layout;
pub mod markdown;
mod pings;
pub mod plot;
pub mod requests;
pub mod results;
pub mod story;
pub mod sweep;
pub mod table;
pub mod validate;
pub mod validate_document;
pub mod wins;
pub mod wire;

pub use results::{Cell, Recipe, RecipePolicy, Relative, ResultSet, Skipped, Total};
