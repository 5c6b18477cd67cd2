//! What is kept of an image: its size in pixels, the length of its base64 text, and a hash.
//!
//! # Divergence from the real API
//!
//! The size is read from PNG and JPEG headers only; of other kinds it is unknown.

use xxhash_rust::xxh3::xxh3_64;

use crate::transcript::Image;

/// Bytes behind a base64 text, decoded one at a time: a header is found without decoding the image.
struct Decoded<'a>(&'a [u8]);

impl Decoded<'_> {
    fn byte(&self, index: usize) -> Option<u8> {
        let at = index / 3 * 4 + index % 3;
        let (high, low) = (sextet(*self.0.get(at)?)?, sextet(*self.0.get(at + 1)?)?);
        // A byte takes 6, 4 or 2 bits of its first character, and the rest of the next.
        let shift = 2 * (index % 3 + 1);
        Some(((u16::from(high) << shift | u16::from(low) >> (6 - shift)) & 0xff) as u8)
    }

    fn u16(&self, index: usize) -> Option<u32> {
        Some(u32::from(self.byte(index)?) << 8 | u32::from(self.byte(index + 1)?))
    }

    fn u32(&self, index: usize) -> Option<u32> {
        Some(self.u16(index)? << 16 | self.u16(index + 2)?)
    }

    fn starts_with(&self, magic: &[u8]) -> bool {
        magic.iter().enumerate().all(|(i, b)| self.byte(i) == Some(*b))
    }
}

fn sextet(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// Width and height of a PNG: its first chunk is always the header.
fn png_size(data: &Decoded<'_>) -> Option<(u32, u32)> {
    data.starts_with(b"\x89PNG\r\n\x1a\n").then_some(())?;
    Some((data.u32(16)?, data.u32(20)?))
}

/// Width and height of a JPEG: segments are skipped by their lengths up to the frame header.
fn jpeg_size(data: &Decoded<'_>) -> Option<(u32, u32)> {
    data.starts_with(&[0xff, 0xd8]).then_some(())?;
    let mut at = 2;
    loop {
        if data.byte(at)? != 0xff {
            return None;
        }
        match data.byte(at + 1)? {
            // Fill bytes and segments without a length.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            // Frame headers; C4, C8 and CC are tables that share the range.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((data.u16(at + 7)?, data.u16(at + 5)?));
            }
            // Image data or the end, and no frame header before it.
            0xd9 | 0xda => return None,
            _ => at += 2 + data.u16(at + 2)? as usize,
        }
    }
}

/// Describes the image behind `base64`, which may be a data URL.
pub fn describe(base64: &str) -> Image {
    let text = match base64.split_once(";base64,") {
        Some((head, rest)) if head.starts_with("data:") => rest,
        _ => base64,
    };
    let data = Decoded(text.as_bytes());
    let size_px =
        png_size(&data).or_else(|| jpeg_size(&data)).filter(|(width, height)| *width > 0 && *height > 0);
    Image {
        base64_chars: u32::try_from(text.len()).unwrap_or(u32::MAX),
        size_px,
        hash: xxh3_64(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoded, describe};

    #[test]
    fn decodes_single_bytes() {
        // "any carnal pleas" in base64.
        let data = Decoded(b"YW55IGNhcm5hbCBwbGVhcw==");
        let bytes: Vec<u8> = (0..16).map_while(|i| data.byte(i)).collect();
        assert_eq!(bytes, b"any carnal pleas");
        assert_eq!(data.byte(16), None);
    }

    #[test]
    fn reads_png_and_jpeg_headers() {
        // Signature, IHDR of 640 × 480.
        assert_eq!(describe("iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA=").size_px, Some((640, 480)));
        assert_eq!(
            describe("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA=").size_px,
            Some((640, 480))
        );
        // SOI, an application segment of 4 bytes, SOF0 of 300 wide and 200 high.
        assert_eq!(describe("/9j/4AAEAAD/wAARCADIASwDAREAAhEAAxEA").size_px, Some((300, 200)));
    }

    #[test]
    fn a_damaged_or_redacted_image_has_no_size() {
        for text in ["", "REDACTED", "iVBORw0KGgo", "/9j/", "/9j/4AAEAAD/2gAA", "é~"] {
            assert_eq!(describe(text).size_px, None, "{text}");
        }
        assert_eq!(describe("REDACTED").base64_chars, 8);
    }
}
