//! Traces that name nobody (`ctxsim trace`), and nothing at all (`--anonymise`).

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::session::{EventKind, PrefixBlock, Session};

/// Shortest id that counts as made by a machine: a hash of 64 bits in hexadecimal digits.
const OPAQUE_ID_CHARS: usize = 16;

/// Longest text that counts as a version.
const VERSION_CHARS: usize = 32;

impl Session {
    /// The same session with nothing in it that a person wrote: an id that is not made of hexadecimal digits
    /// alone, as UUIDs and hashes are, becomes a hash (of the same id the same, so that links between sessions
    /// stay); a version that does not look like one is left out. Tools and models keep their names.
    pub fn nameless(&self) -> Session {
        let mut session = self.clone();
        session.id = opaque(&self.id);
        session.parent = self.parent.as_deref().map(opaque);
        if !is_version(&self.origin.agent_version) {
            session.origin.agent_version.clear();
        }
        session
    }

    /// The same, and names of tools, ids and hashes are hashed under `key`; the tools' roles stay. Whoever
    /// draws the key at random and forgets it leaves no way to test what a block, a tool or an id was. Within
    /// one key, what was equal stays equal.
    pub fn anonymised(&self, key: u64) -> Session {
        let rehash = |hash: u64| xxh3_64_with_seed(&hash.to_le_bytes(), key);
        let rename = |name: &str| format!("{:016x}", xxh3_64_with_seed(name.as_bytes(), key));
        let rehash_prefix =
            |blocks: &mut Vec<PrefixBlock>| blocks.iter_mut().for_each(|b| b.hash = rehash(b.hash));
        let mut session = self.nameless();
        session.id = rename(&self.id);
        session.parent = self.parent.as_deref().map(rename);
        session.tools.iter_mut().for_each(|tool| tool.name = rename(&tool.name));
        rehash_prefix(&mut session.prefix.tools);
        rehash_prefix(&mut session.prefix.system);
        rehash_prefix(&mut session.prefix.injected);
        session.blocks.hash.iter_mut().for_each(|hash| *hash = rehash(*hash));
        let tails = session.steps.iter_mut().map(|step| &mut step.tail_hash);
        tails.filter(|hash| **hash != 0).for_each(|hash| *hash = rehash(*hash));
        for event in &mut session.events {
            match &mut event.kind {
                EventKind::ToolsChanged { tools } => rehash_prefix(tools),
                EventKind::SystemChanged { system } => rehash_prefix(system),
                EventKind::ParametersChanged { hash } => *hash = rehash(*hash),
                _ => {}
            }
        }
        session
    }
}

fn opaque(id: &str) -> String {
    let is_opaque = id.len() >= OPAQUE_ID_CHARS && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if is_opaque { id.to_owned() } else { format!("{:016x}", xxh3_64(id.as_bytes())) }
}

fn is_version(text: &str) -> bool {
    let is_of_version = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+');
    let number = text.strip_prefix('v').unwrap_or(text);
    text.len() <= VERSION_CHARS
        && number.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(is_of_version)
}
