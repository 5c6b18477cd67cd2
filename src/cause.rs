//! Why prompt tokens were not read from the cache: one list, used by the provider, the recorder,
//! the metrics, the audit, the comparison with recorded usage and every report.

use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Cause of missed tokens. The order is the order of precedence (docs/decisions.md 27).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Cause { $($(#[$doc])* $variant,)* }

        impl Cause {
            /// Every cause, in order of precedence.
            pub const ALL: &'static [Cause] = &[$(Cause::$variant,)*];

            /// The name used in every output.
            pub fn name(self) -> &'static str {
                match self { $(Cause::$variant => $name,)* }
            }
        }
    };
}

causes! {
    /// Nothing had been cached yet: the first request of a session.
    ColdStart => "cold_start",
    /// Tokens that no earlier prompt held.
    NewContent => "new_content",
    /// The entry's life had ended.
    TtlExpired => "ttl_expired",
    /// A rule of the strategy rewrote history.
    PrefixRule => "prefix_rule",
    /// A compaction replaced history by a summary.
    PrefixCompaction => "prefix_compaction",
    /// The tool definitions changed.
    PrefixTools => "prefix_tools",
    /// The same tools in another order.
    PrefixToolOrder => "prefix_tool_order",
    /// The system prompt changed.
    PrefixSystem => "prefix_system",
    /// Another model.
    PrefixModel => "prefix_model",
    /// Effort, tool choice or thinking parameters changed.
    PrefixParameters => "prefix_parameters",
    /// An image was added or removed.
    PrefixImage => "prefix_image",
    /// Thinking was stripped or dropped.
    PrefixThinking => "prefix_thinking",
    /// A resume re-serialised history.
    PrefixResume => "prefix_resume",
    /// The user went back to an earlier point, or cleared the history.
    PrefixRewind => "prefix_rewind",
    /// A skill or memory block inside the prefix changed.
    PrefixSkill => "prefix_skill",
    /// The prefix changed for a reason that is not known.
    PrefixUnknown => "prefix_unknown",
    /// The last entry lies more positions back than the provider looks.
    Lookback => "lookback",
    /// The prefix was shorter than the provider caches.
    BelowMinimum => "below_minimum",
    /// The entry was evicted for capacity.
    Evicted => "evicted",
    /// The entry was being written by a request that had not begun to answer.
    NotYetReadable => "not_yet_readable",
    /// A recorded miss that an identical prefix does not explain.
    ProviderSide => "provider_side",
    /// None of the above.
    Unknown => "unknown",
}

impl Cause {
    /// Position in [`Cause::ALL`]: index of per-cause tables.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The one name of a difference that is no miss: a read above what was left, because a request that the
/// recording does not hold extended the entry. It stands beside the names of causes where recorded usage is
/// compared with what was predicted.
pub const SIDE_REQUEST: &str = "side_request";

/// Number of causes.
pub const CAUSE_COUNT: usize = Cause::ALL.len();
