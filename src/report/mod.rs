//! From results to bytes.
