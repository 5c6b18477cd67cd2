//! What the client sends of its history: blocks as recorded, stubs and placeholders in their place, nothing
//! of what has left.

use std::ops::Range;

use super::context::Context;
use super::wire::Content;
use crate::cause::Cause;
use crate::policy::view::{State, View};
use crate::provider::SentKind;

impl Context<'_> {
    /// Appends revealed blocks to what is sent.
    pub fn send(&mut self, range: Range<u32>) {
        let at = self.summary_at;
        if at > self.view.live_from && range.start < at && at <= range.end {
            self.send_blocks(range.start..at);
            if let Some(summary) = self.view.summary {
                self.wire.push_summary(&summary, at);
            }
            return self.send_blocks(at..range.end);
        }
        self.send_blocks(range);
    }

    /// What is still in the history of these blocks.
    fn send_blocks(&mut self, range: Range<u32>) {
        if self.view.live.ends_with(&range) {
            return self.send_run(range);
        }
        let mut from = range.start;
        loop {
            let Some(run) = self.view.live.runs_in(from..range.end).next() else { return };
            from = run.end;
            self.send_run(run);
        }
    }

    fn send_run(&mut self, range: Range<u32>) {
        self.view.work.add(range.len());
        let session = self.view.session;
        let mut stubs = None;
        let mut from = range.start;
        loop {
            from = self.wire.push_as_recorded(session, from..range.end, &self.view.states);
            if from == range.end {
                return;
            }
            let state = self.view.states[from as usize];
            if state != State::default() && state.is_sent() {
                let at = stubs.get_or_insert_with(|| self.view.stubs.partition_point(|s| s.block < from));
                let content = edited_content(&self.view, at, from, state);
                self.wire.push_edited(session, from, content);
            }
            from += 1;
        }
    }

    /// Sends everything from block `first` on anew; blocks may have changed or left, none has come back.
    pub(super) fn resend_from(&mut self, first: u32, cause: Cause) {
        let first = first.max(self.view.live_from);
        let (view, answers_edited) = (&self.view, self.answers_edited);
        let summary_ref = self.summary_at.checked_sub(1).filter(|_| self.summary_at > view.live_from);
        let mut at = view.stubs.partition_point(|s| s.block < first);
        self.wire.rewrite_from(first, cause, |block, sent| {
            view.work.add(1);
            let state = view.states[block as usize];
            if !state.is_sent() {
                return summary_ref == Some(block) && sent.kind == SentKind::Text;
            }
            // Only results, and calls and thinking where a rule is about them, are ever sent as something else.
            let is_edited = |kind| answers_edited && matches!(kind, SentKind::ToolUse | SentKind::Thinking);
            if sent.kind == SentKind::ToolResult || is_edited(sent.kind) {
                let content = match state == State::default() {
                    true => Content::as_recorded(view.session, block),
                    false => edited_content(view, &mut at, block, state),
                };
                content.put_into(sent);
            }
            true
        });
    }

    pub(super) fn rebuild_head(&mut self) {
        let is_in_front = self.summary_at <= self.view.live_from;
        let in_front = if is_in_front { self.summaries() } else { Vec::new() };
        self.wire.rebuild_head(&self.prefix, &in_front);
        self.send(self.view.live_from..self.view.revealed);
    }
}

/// What is sent of a block; `at` is the first stub at or behind it that is known of, and moves on.
fn edited_content(view: &View<'_>, at: &mut usize, block: u32, state: State) -> Content {
    let (session, stubs) = (view.session, &view.stubs);
    let stored = view.stored_of(block);
    let stored_tokens = stored.map(|s| s.tokens);
    let stub = if state.has(State::ELIDED) {
        *at += stubs[*at..].iter().take_while(|s| s.block < block).count();
        stubs.get(*at).filter(|s| s.block == block)
    } else {
        None
    };
    match (stub, stored_tokens) {
        (Some(stub), _) if stub.server => Content::placeholder(session, block, stored_tokens, stub.tokens),
        (Some(stub), _) => Content::stub(session, block, stub.tokens),
        (None, Some(tokens)) if stored.is_some_and(|s| s.is_text) => Content::text(session, block, tokens),
        (None, Some(tokens)) => Content::stub(session, block, tokens),
        (None, None) => Content::as_recorded(session, block),
    }
}
