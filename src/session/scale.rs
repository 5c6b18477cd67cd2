//! A session on another model's tokenizer (spec/decisions.md 12).
