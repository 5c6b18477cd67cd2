//! What stays or comes besides a summary.

/// What stays or comes besides a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reinject {
    /// The last user message stays word for word.
    pub last_user: bool,
    /// Which other user messages do.
    pub user_messages: UserMessages,
    /// A text of so many tokens comes with the summary.
    pub tokens: u64,
}

/// User messages that stay in front of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserMessages {
    /// None.
    #[default]
    None,
    /// The newest, up to so many tokens of the client's estimate.
    Newest(u64),
    /// All of them, and none is measured.
    All,
}

impl UserMessages {
    /// The newest, up to so many tokens; none where that is 0.
    pub fn up_to(tokens: u64) -> UserMessages {
        if tokens == 0 { UserMessages::None } else { UserMessages::Newest(tokens) }
    }
}
