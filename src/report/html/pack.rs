//! Requests of a run as few characters, for `decode.js` to read.
//!
//! Column after column, each value a variable-length integer (seven bits a byte, low ones first). A zero is
//! followed by how many more zeros follow it, so that a column of nothing is two bytes long. What is left of a
//! read is what was expected: everything that the request before had in the cache. All of it is base64.

use crate::sim::RequestRow;

/// The columns of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// base64.
    pub text: String,
    /// Requests.
    pub requests: usize,
    /// Pico-dollars that one unit of the cost column stands for.
    pub cost_unit_pusd: u64,
    /// Start of the first request, where known.
    pub first_at_ms: Option<i64>,
}

/// Packs the requests of a run.
pub fn pack(rows: &[RequestRow]) -> Packed {
    let unit = rows.iter().fold(0, |unit, row| gcd(unit, row.cost_pusd)).max(1);
    let small = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let mut column = |value: &dyn Fn(usize, &RequestRow) -> u64| {
        write_column(&mut bytes, rows.iter().enumerate().map(|(i, row)| value(i, row)));
    };
    let before = |i: usize| i.checked_sub(1).map(|i| &rows[i]);
    column(&|i, row| u64::from(row.request) - before(i).map_or(0, |b| u64::from(b.request)) - 1);
    column(&|_, row| row.gap_ms.map_or(0, |gap| zigzag(gap) + 1));
    column(&|_, row| row.usage.uncached_tokens);
    column(&|i, row| zigzag(signed(row.usage.cache_read_tokens) - signed(before(i).map_or(0, cached))));
    column(&|_, row| row.usage.cache_write_5m_tokens);
    column(&|_, row| row.usage.cache_write_1h_tokens);
    column(&|_, row| row.usage.output_tokens);
    column(&|_, row| small(row.cost_pusd / unit));
    column(&|_, row| row.miss_cause.map_or(0, |cause| cause.index() as u64 + 1));
    column(&|_, row| row.missed_tokens);
    column(&|_, row| u64::from(row.passes));
    column(&|_, row| u64::from(row.compactions));
    column(&|_, row| u64::from(row.rejections));
    Packed {
        text: base64(&bytes),
        requests: rows.len(),
        cost_unit_pusd: small(unit),
        first_at_ms: rows.first().and_then(|row| row.at_ms),
    }
}

/// What a request leaves in the cache.
fn cached(row: &RequestRow) -> u64 {
    row.usage.cache_read_tokens + row.usage.cache_write_tokens()
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Small numbers of either sign as small numbers.
fn zigzag(n: i64) -> u64 {
    n.unsigned_abs() * 2 - u64::from(n < 0)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn write_column(out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    let mut zeros = 0;
    for value in values {
        match value {
            0 => zeros += 1,
            _ => {
                write_zeros(out, &mut zeros);
                write_number(out, value);
            }
        }
    }
    write_zeros(out, &mut zeros);
}

fn write_zeros(out: &mut Vec<u8>, zeros: &mut u64) {
    if *zeros > 0 {
        write_number(out, 0);
        write_number(out, *zeros - 1);
        *zeros = 0;
    }
}

fn write_number(out: &mut Vec<u8>, mut n: u64) {
    while n > 0x7f {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push((n & 0x7f) as u8);
}

/// As of RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i) & 0x3f) as usize];
            out.push(if i > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::usage::Usage;

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn columns_of_zeros_are_two_numbers_and_signs_alternate() {
        let mut out = Vec::new();
        write_column(&mut out, [0, 0, 0, 300, 0].into_iter());
        assert_eq!(out, [0, 2, 0xac, 0x02, 0, 0]);
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_session_whose_cache_holds_takes_few_characters() {
        let mut read = 0;
        let rows: Vec<RequestRow> = (1..=1_000)
            .map(|request| {
                let written = 500 + u64::from(request) * 7 % 900;
                let usage = Usage {
                    uncached_tokens: 3,
                    cache_read_tokens: read,
                    cache_write_5m_tokens: written,
                    cache_write_1h_tokens: 0,
                    output_tokens: 400,
                };
                read += written;
                RequestRow {
                    request,
                    at_ms: Some(0),
                    gap_ms: Some(9_000),
                    usage,
                    cost_pusd: u128::from(read) * 500_000 + u128::from(written) * 6_250_000,
                    miss_cause: (request % 50 == 0).then_some(Cause::TtlExpired),
                    missed_tokens: 0,
                    estimate_tokens: 0,
                    passes: 0,
                    compactions: 0,
                    rejections: 0,
                }
            })
            .collect();
        let packed = pack(&rows);
        assert_eq!((packed.requests, packed.cost_unit_pusd), (1_000, 250_000));
        assert!(packed.text.len() < 16 * rows.len(), "{}", packed.text.len());
    }
}
