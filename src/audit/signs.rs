//! What a recording shows about one request besides its numbers.

/// Bit set of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signs(u16);

impl Signs {
    /// The user wrote something.
    pub const PROMPT: Signs = Signs(1);
    /// An image came in.
    pub const IMAGE: Signs = Signs(1 << 1);
    /// The answer before holds reasoning.
    pub const THINKING: Signs = Signs(1 << 2);
    /// The agent compacted.
    pub const COMPACTION: Signs = Signs(1 << 3);
    /// The agent cleared results in place.
    pub const RESULTS_CLEARED: Signs = Signs(1 << 4);
    /// The user cleared the history.
    pub const CLEARED: Signs = Signs(1 << 5);
    /// The user went back.
    pub const REWOUND: Signs = Signs(1 << 6);
    /// The session was resumed.
    pub const RESUMED: Signs = Signs(1 << 7);
    /// The tool definitions changed.
    pub const TOOLS: Signs = Signs(1 << 8);
    /// The system prompt changed.
    pub const SYSTEM: Signs = Signs(1 << 9);
    /// Parameters of the request changed.
    pub const PARAMETERS: Signs = Signs(1 << 10);
    /// Tools whose definitions had been deferred were loaded.
    pub const LOADED_TOOLS: Signs = Signs(1 << 11);
    /// The text of a skill was loaded.
    pub const SKILL: Signs = Signs(1 << 12);
    /// Writes by life do not sum to all writes.
    pub const SPLIT_DIFFERS: Signs = Signs(1 << 13);
    /// Lines of one response report different prompts.
    pub const LINES_DIFFER: Signs = Signs(1 << 14);

    /// Adds `other` if `yes`.
    pub fn set(&mut self, other: Signs, yes: bool) {
        if yes {
            self.0 |= other.0;
        }
    }

    /// Whether any bit of `other` is set.
    pub fn any(self, other: Signs) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets.
    pub const fn with(self, other: Signs) -> Signs {
        Signs(self.0 | other.0)
    }
}
