//! The one integration-test binary.

mod classify;
mod prices;
mod provider;
mod provider_misses;
mod provider_support;
mod reference;
mod vectors;
