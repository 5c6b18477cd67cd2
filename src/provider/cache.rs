//! TODO-cache
