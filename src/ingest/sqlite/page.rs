//! Pages, cells and records. Any byte may be wrong: what does not fit is `None`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

/// How text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// All pages, the newest of each.
#[derive(Debug)]
pub struct Pages {
    bytes: Vec<u8>,
    /// Pages that a log has newer.
    newer: BTreeMap<u32, Vec<u8>>,
    size: usize,
    /// Bytes of a page that hold content.
    usable: usize,
    pub encoding: Encoding,
}

impl Pages {
    /// The pages of a database with its log; `None` if it is none.
    pub fn new(bytes: Vec<u8>, newer: BTreeMap<u32, Vec<u8>>) -> Option<Pages> {
        let first = newer.get(&1).map_or(bytes.as_slice(), Vec::as_slice);
        if !first.starts_with(super::MAGIC) {
            return None;
        }
        let size = match u16_at(first, 16)? {
            1 => 65_536,
            size => usize::from(size),
        };
        let reserved = usize::from(*first.get(20)?);
        let encoding = match u32_at(first, 56)? {
            2 => Encoding::Utf16Le,
            3 => Encoding::Utf16Be,
            _ => Encoding::Utf8,
        };
        let is_size = size.is_power_of_two() && size >= 512 && size - reserved >= 480;
        is_size.then(|| Pages { bytes, newer, size, usable: size - reserved, encoding })
    }

    /// Page `number`, from 1.
    pub fn get(&self, number: u32) -> Option<Cow<'_, [u8]>> {
        if let Some(page) = self.newer.get(&number).filter(|page| page.len() == self.size) {
            return Some(Cow::Borrowed(page));
        }
        let start = usize::try_from(number).ok()?.checked_sub(1)?.checked_mul(self.size)?;
        self.bytes.get(start..start.checked_add(self.size)?).map(Cow::Borrowed)
    }

    /// Size of everything.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len() + self.newer.len() * self.size
    }

    /// The payload of `length` bytes whose beginning is at `at`; the rest is on pages of its own.
    pub fn payload(&self, page: &[u8], at: usize, length: usize) -> Option<Vec<u8>> {
        let here = self.length_on_page(length);
        let mut payload = page.get(at..at.checked_add(here)?)?.to_vec();
        let mut next = if here < length { u32_at(page, at + here)? } else { 0 };
        while payload.len() < length {
            let more = self.get(next)?;
            let wanted = (length - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(more.get(4..4 + wanted)?);
            next = u32_at(&more, 0)?;
        }
        Some(payload)
    }

    /// How much of a payload stays on the page of its cell.
    fn length_on_page(&self, length: usize) -> usize {
        let (largest, smallest) = (self.usable - 35, (self.usable - 12) * 32 / 255 - 23);
        if length <= largest {
            return length;
        }
        let with_full_pages = smallest + (length - smallest) % (self.usable - 4);
        if with_full_pages <= largest { with_full_pages } else { smallest }
    }
}

/// A page of a table's tree.
pub struct Tree<'p> {
    page: &'p [u8],
    /// It has rows; others have pages.
    pub is_leaf: bool,
    /// Of others: the page behind the last cell.
    pub last_child: Option<u32>,
    pointers: usize,
    count: usize,
}

impl<'p> Tree<'p> {
    /// Page `number` as one of a table; `None` if it is none.
    pub fn of(page: &'p [u8], number: u32) -> Option<Tree<'p>> {
        // The first page begins with the header of the database.
        let start = if number == 1 { 100 } else { 0 };
        let is_leaf = match page.get(start)? {
            0x0d => true,
            0x05 => false,
            _ => return None,
        };
        let count = usize::from(u16_at(page, start + 3)?);
        let last_child = if is_leaf { None } else { Some(u32_at(page, start + 8)?) };
        let pointers = start + if is_leaf { 8 } else { 12 };
        Some(Tree { page, is_leaf, last_child, pointers, count })
    }

    /// Where its cells begin.
    pub fn cells(&self) -> impl Iterator<Item = usize> {
        (0..self.count).map_while(|i| u16_at(self.page, self.pointers + 2 * i)).map(usize::from)
    }
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_be_bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_be_bytes)
}

/// A number of one to nine bytes, and the place behind it.
pub fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for i in 0..9 {
        let byte = u64::from(*bytes.get(at + i)?);
        if i == 8 {
            return Some((value << 8 | byte, at + 9));
        }
        value = value << 7 | byte & 0x7f;
        if byte < 0x80 {
            return Some((value, at + i + 1));
        }
    }
    None
}

/// The values of a record.
pub fn record(payload: &[u8], encoding: Encoding) -> Option<Vec<Value>> {
    let (header, mut at) = varint(payload, 0)?;
    let header = usize::try_from(header).ok()?;
    let (mut values, mut body) = (Vec::new(), header);
    while at < header {
        let (kind, next) = varint(payload, at)?;
        at = next;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            kind => usize::try_from((kind - 12) / 2).ok()?,
        };
        let bytes = payload.get(body..body.checked_add(length)?)?;
        body += length;
        values.push(value(kind, bytes, encoding));
    }
    Some(values)
}

fn value(kind: u64, bytes: &[u8], encoding: Encoding) -> Value {
    let whole = || {
        let sign = if bytes.first().is_some_and(|b| *b >= 0x80) { -1 } else { 0 };
        bytes.iter().fold(sign, |n: i64, b| n << 8 | i64::from(*b))
    };
    match kind {
        0 => Value::Null,
        1..=6 => Value::from(whole()),
        // Prices; nobody asks for one.
        7 => Value::Null,
        8 => Value::from(0),
        9 => Value::from(1),
        kind if kind % 2 == 1 => Value::String(decode(bytes, encoding)),
        // Text that a program stored as bytes.
        _ => Value::String(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn decode(bytes: &[u8], encoding: Encoding) -> String {
    let units = |of: fn([u8; 2]) -> u16| bytes.as_chunks().0.iter().map(move |pair| of(*pair));
    let lossy = |units: Vec<u16>| String::from_utf16_lossy(&units);
    match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Encoding::Utf16Le => lossy(units(u16::from_le_bytes).collect()),
        Encoding::Utf16Be => lossy(units(u16::from_be_bytes).collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Encoding, record, varint};

    #[test]
    fn numbers_have_one_to_nine_bytes() {
        assert_eq!(varint(&[0x7f], 0), Some((127, 1)));
        assert_eq!(varint(&[0x81, 0x00], 0), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9], 0), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0xff; 8], 0), None);
    }

    #[test]
    fn records_hold_every_kind_of_value() {
        // Header: its length, then null, 1 byte, 2 bytes, double, the constants 0 and 1, text of 2, bytes of 1.
        let mut bytes = vec![9, 0, 1, 2, 7, 8, 9, 17, 14];
        bytes.extend([0xff, 0x01, 0x00]);
        bytes.extend([0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"hix");
        let values = record(&bytes, Encoding::Utf8).unwrap();
        assert_eq!(json!(values), json!([null, -1, 256, null, 0, 1, "hi", "x"]));
        for cut in 0..bytes.len() {
            assert_eq!(record(&bytes[..cut], Encoding::Utf8), None, "{cut}");
        }
    }
}
