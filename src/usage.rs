//! Token classes of one request: the partition that every provider bills by.

use serde::{Deserialize, Serialize};

/// What one request used. The prompt is the sum of the four input classes, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens billed at the plain input price.
    pub uncached_tokens: u64,
    /// Prompt tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written with the vendor's short life (Anthropic 5 minutes).
    pub cache_write_5m_tokens: u64,
    /// Prompt tokens written with the vendor's long life (Anthropic 1 hour).
    pub cache_write_1h_tokens: u64,
    /// Generated tokens, hidden thinking included.
    pub output_tokens: u64,
}

impl Usage {
    /// Tokens of the whole prompt: uncached + read + both writes.
    pub fn prompt_tokens(&self) -> u64 {
        self.uncached_tokens + self.cache_read_tokens + self.cache_write_tokens()
    }

    /// Tokens written to the cache, whatever their life.
    pub fn cache_write_tokens(&self) -> u64 {
        self.cache_write_5m_tokens + self.cache_write_1h_tokens
    }

    /// Field-wise sum.
    #[inline]
    pub fn add(&mut self, other: &Usage) {
        self.uncached_tokens += other.uncached_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_5m_tokens += other.cache_write_5m_tokens;
        self.cache_write_1h_tokens += other.cache_write_1h_tokens;
        self.output_tokens += other.output_tokens;
    }

    /// Field-wise maximum: how the usage of one response spread over several lines is merged.
    pub fn max(&self, other: &Usage) -> Usage {
        Usage {
            uncached_tokens: self.uncached_tokens.max(other.uncached_tokens),
            cache_read_tokens: self.cache_read_tokens.max(other.cache_read_tokens),
            cache_write_5m_tokens: self.cache_write_5m_tokens.max(other.cache_write_5m_tokens),
            cache_write_1h_tokens: self.cache_write_1h_tokens.max(other.cache_write_1h_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
        }
    }
}
