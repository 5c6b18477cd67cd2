//! A conversation in the making, for formats whose order is the order of sending.

use std::path::Path;

use crate::transcript::{Content, Entry, Event, EventKind, Input, Notice, Response, Transcript};
use crate::{Error, Result};

/// Where something is and when it was written.
#[derive(Debug, Clone, Copy, Default)]
pub struct At {
    /// Line number, from 1; of documents the number of the message.
    pub line: u64,
    /// Its time.
    pub ms: Option<i64>,
}

/// Entries in order, and the place of the last response among them.
#[derive(Debug, Default)]
pub struct Conversation {
    /// What was gathered so far.
    pub transcript: Transcript,
    responses: usize,
    last_response: Option<usize>,
}

impl Conversation {
    /// Number of responses so far.
    pub fn responses(&self) -> usize {
        self.responses
    }

    /// Adds content on its way to the model, if there is any.
    pub fn input(&mut self, at: At, mut content: Vec<Content>, injected: bool) {
        content.retain(|c| !matches!(c, Content::Text(text) if text.is_empty()));
        if !content.is_empty() {
            let input = Input { line: at.line, at_ms: at.ms, content, injected };
            self.transcript.entries.push(Entry::Input(input));
        }
    }

    /// Begins a response.
    pub fn open_response(&mut self, at: At, id: &str, model: &str) {
        self.responses += 1;
        self.last_response = Some(self.transcript.entries.len());
        self.transcript.entries.push(Entry::Response(Response {
            line: at.line,
            id: id.to_owned(),
            model: model.to_owned(),
            first_at_ms: at.ms,
            last_at_ms: at.ms,
            ..Response::default()
        }));
    }

    /// The response that was begun last.
    pub fn last_response(&mut self) -> Option<&mut Response> {
        match self.transcript.entries.get_mut(self.last_response?) {
            Some(Entry::Response(response)) => Some(response),
            _ => None,
        }
    }

    /// Adds an event.
    pub fn event(&mut self, at: At, kind: EventKind) {
        self.transcript.entries.push(Entry::Event(Event { line: at.line, at_ms: at.ms, kind }));
    }

    /// Adds an event unless one like it happened since the last response; nothing can be resumed before
    /// the first.
    pub fn event_once(&mut self, at: At, kind: EventKind) {
        let Some(last) = self.last_response else { return };
        let is_same = |entry: &Entry| matches!(entry, Entry::Event(event) if event.kind == kind);
        if !self.transcript.entries[last..].iter().any(is_same) {
            self.event(at, kind);
        }
    }

    /// The finished transcripts of those that hold a response, of a file with several; the first one carries what
    /// could not be used.
    ///
    /// # Errors
    ///
    /// If none holds one.
    pub fn finish_all(
        all: impl IntoIterator<Item = Conversation>,
        format: &'static str,
        notices: Vec<Notice>,
        label: &Path,
    ) -> Result<Vec<Transcript>> {
        let mut transcripts = Vec::new();
        for conversation in all.into_iter().filter(|conversation| conversation.responses > 0) {
            transcripts.extend(conversation.finish(format, Vec::new(), label)?);
        }
        match transcripts.first_mut() {
            Some(first) => first.notices = notices,
            None => return Conversation::default().finish(format, notices, label),
        }
        Ok(transcripts)
    }

    /// The finished transcript of `format`.
    ///
    /// # Errors
    ///
    /// If it holds no response.
    pub fn finish(self, format: &'static str, notices: Vec<Notice>, label: &Path) -> Result<Vec<Transcript>> {
        if self.responses == 0 {
            // Where nothing is left, what could not be read is likely why.
            let first = notices.first();
            let because = first.map_or(String::new(), |notice| format!("; {}", notice.reason));
            let reason = format!("this recording holds no response of a model{because}");
            let line = first.map_or(0, |notice| notice.line);
            return Err(Error::Input { path: label.to_owned(), line, reason });
        }
        let mut transcript = self.transcript;
        transcript.format = format;
        format.clone_into(&mut transcript.agent);
        transcript.notices = notices;
        Ok(vec![transcript])
    }
}
