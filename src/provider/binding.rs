//! TODO-binding
