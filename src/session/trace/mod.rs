//! The content-free trace format, both ways.
