//! TODO-overflow
