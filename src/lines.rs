//! Physical lines, of which none can fill the memory: a packed file of a megabyte may hold one of a
//! gigabyte.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

/// Longest line that is read. Real ones hold a few images, some megabytes.
pub const MAX_LINE_BYTES: usize = 256 << 20;

/// What [`read`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A line, with its end where it has one.
    Line,
    /// A line of more than the limit, which was passed over.
    TooLong,
    /// The end of the source.
    End,
}

/// Reads the next line into `buffer`, in place of what is there; at most `limit` bytes are held.
///
/// # Errors
///
/// Those of `source`.
pub fn read(source: &mut (impl BufRead + ?Sized), buffer: &mut Vec<u8>, limit: usize) -> io::Result<Found> {
    buffer.clear();
    let mut rest = source;
    match Read::take(&mut rest, limit as u64 + 1).read_until(b'\n', buffer)? {
        0 => return Ok(Found::End),
        n if n <= limit => return Ok(Found::Line),
        _ => {}
    }
    let mut ended = buffer.last() == Some(&b'\n');
    *buffer = Vec::new();
    while !ended {
        let bytes = rest.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        let end = bytes.iter().position(|b| *b == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        ended = end.is_some();
        rest.consume(used);
    }
    Ok(Found::TooLong)
}

/// Bytes as text; what is no UTF-8 becomes U+FFFD. Nearly all is UTF-8, and [`String::from_utf8_lossy`] alone looks
/// at each byte for itself: 30 % of the time of accounting.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// What to say of a line that is too long.
pub fn too_long() -> String {
    format!("the line has more than {} MiB and is not read", MAX_LINE_BYTES >> 20)
}

#[cfg(test)]
mod tests {
    use super::{Found, read};

    #[test]
    fn a_line_over_the_limit_is_passed_over_and_not_held() {
        let mut source = &b"1234567\n12345678\nab\n123456789012345678901234567890"[..];
        let mut buffer = Vec::new();
        let mut next = || {
            let found = read(&mut source, &mut buffer, 8).expect("memory reads");
            (found, super::text(&buffer).into_owned(), buffer.capacity())
        };
        let (found, line, _) = next();
        assert_eq!((found, line.as_str()), (Found::Line, "1234567\n"));
        assert_eq!(next(), (Found::TooLong, String::new(), 0));
        assert_eq!(next().1, "ab\n");
        assert_eq!(next(), (Found::TooLong, String::new(), 0));
        assert_eq!(next().0, Found::End);
    }
}
