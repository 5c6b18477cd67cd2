//! TODO-price
