//! The write-ahead log: pages that are newer than those of the database.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::page::u32_at;

/// Bytes of the log's head, and of the head of a frame.
const HEAD: usize = 32;
const FRAME_HEAD: usize = 24;

/// Larger logs are not read.
const MAX_BYTES: u64 = 1 << 30;

/// Pages in the log beside the database `label`, those of finished transactions only.
pub fn beside(label: &Path) -> BTreeMap<u32, Vec<u8>> {
    let mut name = label.as_os_str().to_owned();
    name.push("-wal");
    let mut bytes = Vec::new();
    // A log that is not there, or that cannot be read, has no pages.
    let file = std::fs::File::open(Path::new(&name));
    let read = file.and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    if read.is_err() { BTreeMap::new() } else { pages(&bytes).unwrap_or_default() }
}

/// The newest of each page up to the last commit. Frames behind the first that does not belong are leftovers
/// of an earlier use of the file.
fn pages(log: &[u8]) -> Option<BTreeMap<u32, Vec<u8>>> {
    let magic = u32_at(log, 0)?;
    if magic & !1 != 0x377f_0682 {
        return None;
    }
    let sum = Sum { big_endian: magic & 1 == 1 };
    let size = usize::try_from(u32_at(log, 8)?).ok().filter(|size| (512..=65_536).contains(size))?;
    let salts = (u32_at(log, 16)?, u32_at(log, 20)?);
    let mut so_far = sum.add((0, 0), log.get(..24)?);
    if so_far != (u32_at(log, 24)?, u32_at(log, 28)?) {
        return None;
    }
    let (mut committed, mut open) = (BTreeMap::new(), BTreeMap::new());
    for frame in log.get(HEAD..)?.chunks_exact(FRAME_HEAD + size) {
        let (head, page) = frame.split_at(FRAME_HEAD);
        so_far = sum.add(sum.add(so_far, &head[..8]), page);
        let belongs = (u32_at(head, 8)?, u32_at(head, 12)?) == salts;
        if !belongs || so_far != (u32_at(head, 16)?, u32_at(head, 20)?) {
            break;
        }
        open.insert(u32_at(head, 0)?, page.to_vec());
        // Size of the database behind a commit, 0 amid a transaction.
        if u32_at(head, 4)? > 0 {
            committed.append(&mut open);
        }
    }
    Some(committed)
}

/// The log's running checksum.
struct Sum {
    big_endian: bool,
}

impl Sum {
    fn add(&self, (mut a, mut b): (u32, u32), bytes: &[u8]) -> (u32, u32) {
        for pair in bytes.as_chunks::<8>().0 {
            let [w, x, y, z, rest @ ..] = *pair;
            let word =
                |bytes| if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
            a = a.wrapping_add(word([w, x, y, z])).wrapping_add(b);
            b = b.wrapping_add(word(rest)).wrapping_add(a);
        }
        (a, b)
    }
}
