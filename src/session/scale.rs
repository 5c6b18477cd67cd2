//! A session on another model's tokenizer (docs/decisions.md 12).
//!
//! # Divergence from the real API
//!
//! One ratio for all content; code and prose differ in truth. To and from OpenAI the ratio is that of
//! the text coefficients, not a measurement.

use std::borrow::Cow;

use super::{EventKind, PrefixBlock, Session};
use crate::tokens::{Coefficients, Tokenizer, conversion_ratio, scale_ratio};

/// One count of tokens on another tokenizer, half up.
pub fn scale_tokens(tokens: u64, from: Tokenizer, to: Tokenizer) -> u64 {
    if from == to {
        return tokens;
    }
    let (num, den) = conversion_ratio(from, to);
    scale_ratio(tokens, num, den)
}

impl Session {
    /// The session with every count of tokens on the tokenizer `to`: blocks, images, prefix, tails,
    /// outputs and coefficients, each half up. What was billed stays as recorded.
    pub fn scaled_to(&self, to: Tokenizer) -> Cow<'_, Session> {
        if to == self.tokenizer {
            return Cow::Borrowed(self);
        }
        let (num, den) = conversion_ratio(self.tokenizer, to);
        let scale = |tokens: u32| u32::try_from(scale_ratio(u64::from(tokens), num, den)).unwrap_or(u32::MAX);
        let scale_prefix =
            |blocks: &mut Vec<PrefixBlock>| blocks.iter_mut().for_each(|b| b.tokens = scale(b.tokens));
        let mut session = self.clone();
        session.tokenizer = to;
        let c = self.coefficients;
        session.coefficients = Coefficients {
            text_milli: scale(c.text_milli),
            tool_use_milli: scale(c.tool_use_milli),
            thinking_milli: scale(c.thinking_milli),
            tool_result_milli: scale(c.tool_result_milli),
            request_tokens: scale(c.request_tokens),
        };
        scale_prefix(&mut session.prefix.tools);
        scale_prefix(&mut session.prefix.system);
        scale_prefix(&mut session.prefix.injected);
        session.warm_prefix_tokens = scale_ratio(self.warm_prefix_tokens, num, den);
        session.blocks.tokens.iter_mut().for_each(|tokens| *tokens = scale(*tokens));
        for row in &mut session.result_parts {
            row.image_tokens = scale(row.image_tokens);
        }
        for step in &mut session.steps {
            step.tail_tokens = scale(step.tail_tokens);
            step.output_tokens = scale(step.output_tokens);
        }
        for event in &mut session.events {
            match &mut event.kind {
                EventKind::ToolsChanged { tools } => scale_prefix(tools),
                EventKind::SystemChanged { system } => scale_prefix(system),
                _ => {}
            }
        }
        Cow::Owned(session)
    }
}
