//! Traces that name nothing (`ctxsim trace --anonymise`).

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::session::roles::Role;
use crate::session::{EventKind, PrefixBlock, Session};

impl Session {
    /// The same session without its names: tools become their role (`read`, `read2`, ...; `tool1`, ...
    /// where they have none), ids and hashes are hashed again under `key`. Whoever draws the key at
    /// random and forgets it leaves no way to test what a block or an id was. Within one key, equal
    /// content stays equal.
    pub fn anonymised(&self, key: u64) -> Session {
        let rehash = |hash: u64| xxh3_64_with_seed(&hash.to_le_bytes(), key);
        let rename = |id: &str| format!("{:016x}", xxh3_64_with_seed(id.as_bytes(), key));
        let rehash_prefix =
            |blocks: &mut Vec<PrefixBlock>| blocks.iter_mut().for_each(|b| b.hash = rehash(b.hash));
        let mut session = self.clone();
        session.id = rename(&self.id);
        session.parent = self.parent.as_deref().map(rename);
        let mut seen = [0_usize; Role::ALL.len()];
        for tool in &mut session.tools {
            let slot = Role::ALL.iter().position(|(role, _)| *role == tool.role).unwrap_or_default();
            seen[slot] += 1;
            tool.name = match (tool.role, seen[slot]) {
                (Role::Other, n) => format!("tool{n}"),
                (role, 1) => role.word().to_owned(),
                (role, n) => format!("{}{n}", role.word()),
            };
        }
        rehash_prefix(&mut session.prefix.tools);
        rehash_prefix(&mut session.prefix.system);
        rehash_prefix(&mut session.prefix.injected);
        session.blocks.hash.iter_mut().for_each(|hash| *hash = rehash(*hash));
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
