//! TODO-pairing
