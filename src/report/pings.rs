//! Pings in results.json.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wire::Decimal;
use crate::sim::summary::KeepAliveTotal;
use crate::usage::Usage;

/// Pings, where there were any.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct KeepAliveWire {
    pings: u64,
    /// Requests that read more than they could have without.
    converted_requests: u64,
    /// What these would have cost above what they did.
    saved_usd: Decimal<12>,
    prompt_tokens: u64,
    output_tokens: u64,
}

impl KeepAliveWire {
    pub(super) fn of(total: &KeepAliveTotal) -> Option<KeepAliveWire> {
        (total.pings > 0).then(|| KeepAliveWire {
            pings: total.pings,
            converted_requests: total.converted_requests,
            saved_usd: Decimal(total.saved_pusd),
            prompt_tokens: total.usage.prompt_tokens(),
            output_tokens: total.usage.output_tokens,
        })
    }

    pub(super) fn total(&self) -> KeepAliveTotal {
        KeepAliveTotal {
            pings: self.pings,
            converted_requests: self.converted_requests,
            saved_pusd: self.saved_usd.0,
            usage: Usage {
                uncached_tokens: self.prompt_tokens,
                output_tokens: self.output_tokens,
                ..Usage::default()
            },
        }
    }
}
