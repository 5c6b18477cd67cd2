//! Timestamps of recordings, as milliseconds since the Unix epoch.

/// The end of year 9999, the last that a date can name. Sums of times below it cannot overflow.
const LAST_MS: i64 = 253_402_300_799_999;

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March here, so that the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Days of a month.
fn days_of(year: i64, month: i64) -> i64 {
    let next =
        if month == 12 { days_from_civil(year + 1, 1, 1) } else { days_from_civil(year, month + 1, 1) };
    next - days_from_civil(year, month, 1)
}

/// Reads `n` digits at the head of `text`, and gives the rest.
fn digits(text: &[u8], n: usize) -> Option<(i64, &[u8])> {
    let (head, rest) = text.split_at_checked(n)?;
    let value =
        head.iter().try_fold(0, |sum: i64, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))?;
    Some((value, rest))
}

/// Expects `byte` at the head of `text`, and gives the rest.
fn after(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.split_first().filter(|(head, _)| **head == byte).map(|(_, rest)| rest)
}

/// Milliseconds of a fraction of a second, cut off after the third digit.
fn fraction_ms(text: &[u8]) -> (i64, &[u8]) {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let ms = (0..3).fold(0, |ms, i| ms * 10 + text[..len].get(i).map_or(0, |b| i64::from(b - b'0')));
    (ms, &text[len..])
}

/// Offset from UTC in minutes: `Z`, nothing, `+hh:mm`, `-hhmm`.
fn offset_minutes(text: &[u8]) -> Option<i64> {
    let (sign, text) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, text) = digits(text, 2)?;
    let (minutes, text) = digits(after(text, b':').unwrap_or(text), 2)?;
    text.is_empty().then_some(sign * (hours * 60 + minutes))
}

/// Reads an ISO 8601 date and time (`2026-02-13T02:19:11.604Z`, offsets allowed), or a bare number of
/// milliseconds. `None` for anything else.
pub fn parse_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() >= 12 && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|ms| *ms <= LAST_MS);
    }
    let (year, rest) = digits(text.as_bytes(), 4)?;
    let (month, rest) = digits(after(rest, b'-')?, 2)?;
    let (day, rest) = digits(after(rest, b'-')?, 2)?;
    let (hour, rest) = digits(after(rest, b'T').or_else(|| after(rest, b' '))?, 2)?;
    let (minute, rest) = digits(after(rest, b':')?, 2)?;
    let (second, rest) = digits(after(rest, b':')?, 2)?;
    let (ms, rest) = after(rest, b'.').map_or((0, rest), fraction_ms);
    let in_range = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let minutes = in_range.then_some(hour * 60 + minute)? - offset_minutes(rest)?;
    Some((days_from_civil(year, month, day) * 1440 + minutes) * 60_000 + second * 1000 + ms)
}

#[cfg(test)]
mod tests {
    use super::parse_ms;

    #[test]
    fn reads_the_forms_that_occur() {
        assert_eq!(parse_ms("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(parse_ms("2026-02-13T02:19:11.604Z"), Some(1_770_949_151_604));
        assert_eq!(parse_ms("2024-02-29T23:59:59Z"), Some(1_709_251_199_000));
        assert_eq!(parse_ms("2026-02-13T03:19:11.6049999+01:00"), Some(1_770_949_151_604));
        assert_eq!(parse_ms("2026-02-12T21:19:11.6-0500"), Some(1_770_949_151_600));
        assert_eq!(parse_ms("1770949151604"), Some(1_770_949_151_604));
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-02-13",
            "2026-02-13T02:19:11.604ZZ",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }

    #[test]
    fn times_that_would_overflow_are_none() {
        assert_eq!(parse_ms("253402300799999"), parse_ms("9999-12-31T23:59:59.999Z"));
        for text in ["253402300800000", "9223372036854775807", "99999999999999999999"] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
