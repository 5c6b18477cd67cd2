//! The one integration-test binary.

mod vectors;
