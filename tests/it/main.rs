//! The one integration-test binary.

mod reference;
mod vectors;
