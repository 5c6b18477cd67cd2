//! `--shard hash:i/n`: which sessions are this machine's.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

/// The `index`-th of `count` parts, from 1, by hash of the session id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// Which part, from 1.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Number of parts.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the session belongs to this part. Every session belongs to exactly one of `count`.
    pub fn contains(&self, session_id: &str) -> bool {
        xxh3_64(session_id.as_bytes()) % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("`{text}` is no shard; write hash:i/n with 1 <= i <= n, such as hash:1/4");
        let (index, count) = text.strip_prefix("hash:").and_then(|s| s.split_once('/')).ok_or_else(wrong)?;
        let shard =
            Shard { index: index.parse().map_err(|_| wrong())?, count: count.parse().map_err(|_| wrong())? };
        if shard.index == 0 || shard.index > shard.count { Err(wrong()) } else { Ok(shard) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hash:{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_is_in_exactly_one_shard() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("hash:{i}/3").parse().expect("a shard")).collect();
        for id in 0..1_000 {
            let id = format!("session-{id}");
            assert_eq!(shards.iter().filter(|s| s.contains(&id)).count(), 1, "{id}");
        }
        assert!(shards.iter().all(|s| (0..1_000).any(|id| s.contains(&format!("session-{id}")))));
    }

    #[test]
    fn wrong_shards_say_what_is_right() {
        for wrong in ["1/2", "hash:0/2", "hash:3/2", "hash:1", "hash:a/b", "count:1/2", "hash:1/0"] {
            let error = wrong.parse::<Shard>().expect_err(wrong);
            assert!(error.contains("hash:i/n"), "{error}");
        }
        assert_eq!("hash:2/7".parse::<Shard>().expect("right").to_string(), "hash:2/7");
    }
}
