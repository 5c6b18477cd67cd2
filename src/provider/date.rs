//! Calendar days, and the hours in which a vendor charges more.
//!
//! # Divergence from the real API
//!
//! * Public holidays are a list in `models/peak.toml`; in a year that is not on it every weekday has peak hours.
//! * A request belongs to the hour in which it starts. That an hour's first millisecond is peak and the one after
//!   its last is not, is assumed.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::error::{Error, Result};

const DAY_MS: i64 = 86_400_000;

/// A calendar date; compares in time order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The UTC day of an instant (Unix epoch, milliseconds); `None` outside the years 1 to 9999.
    pub fn of_ms(at_ms: i64) -> Option<Date> {
        // Days since 0000-03-01, with years that begin in March so that the leap day is their last; 146,097 days
        // are 400 years.
        let days = at_ms.div_euclid(DAY_MS) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year =
            u16::try_from(era * 400 + year_of_era + next_year).ok().filter(|y| (1..=9_999).contains(y))?;
        Some(Date { year, month: u8::try_from(month).ok()?, day: u8::try_from(day).ok()? })
    }

    /// Midnight UTC, Unix epoch in milliseconds.
    pub fn start_ms(self) -> i64 {
        let (year, month) = match self.month {
            1 | 2 => (i64::from(self.year) - 1, i64::from(self.month) + 9),
            _ => (i64::from(self.year), i64::from(self.month) - 3),
        };
        let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        (days + (month * 153 + 2) / 5 + i64::from(self.day) - 1 - 719_468) * DAY_MS
    }
}

impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Result<Date> {
        let wrong = || Error::Config {
            origin: format!("date `{text}`"),
            reason: "write it as YYYY-MM-DD, like 2026-11-30".into(),
        };
        let mut parts = text.split('-');
        let mut number = |digits: usize| {
            let part = parts.next().filter(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_digit()));
            part.and_then(|p| p.parse::<u16>().ok())
        };
        let (Some(year), Some(month), Some(day)) = (number(4), number(2), number(2)) else {
            return Err(wrong());
        };
        let narrow = |n: u16| u8::try_from(n).map_err(|_| wrong());
        let date = Date { year, month: narrow(month)?, day: narrow(day)? };
        // A day that its month does not have is another day once counted.
        if parts.next().is_some() || !(1..=12).contains(&month) || Date::of_ms(date.start_ms()) != Some(date)
        {
            return Err(wrong());
        }
        Ok(date)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Hours of the week in which a vendor charges its peak price: weekdays that are no public holiday.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PeakText")]
pub struct PeakHours {
    /// Minutes of the UTC day, from inclusive, to exclusive.
    windows: Vec<(u32, u32)>,
    /// First and last day of each holiday.
    holidays: Vec<(Date, Date)>,
}

/// As written: `hours_utc = ["01:00-04:00"]`, `holidays = ["2026-10-01..2026-10-07"]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeakText {
    hours_utc: Vec<String>,
    #[serde(default)]
    holidays: Vec<String>,
}

impl TryFrom<PeakText> for PeakHours {
    type Error = String;

    fn try_from(text: PeakText) -> std::result::Result<PeakHours, String> {
        let windows = text.hours_utc.iter().map(|w| window(w)).collect::<std::result::Result<_, _>>()?;
        let days = |range: &String| {
            let (from, to) = range.split_once("..").unwrap_or((range, range));
            let day = |text: &str| text.parse::<Date>().map_err(|e| e.to_string());
            Ok((day(from)?, day(to)?))
        };
        let holidays = text.holidays.iter().map(days).collect::<std::result::Result<_, String>>()?;
        Ok(PeakHours { windows, holidays })
    }
}

fn window(text: &str) -> std::result::Result<(u32, u32), String> {
    let minute = |clock: &str| {
        let (hour, minute) = clock.split_once(':')?;
        let (hour, minute) = (hour.parse::<u32>().ok()?, minute.parse::<u32>().ok()?);
        (hour <= 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let ends = text.split_once('-').and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
    ends.filter(|(from, to)| from < to)
        .ok_or_else(|| format!("`{text}` is no span of hours; write it as 01:00-04:00"))
}

impl PeakHours {
    /// Whether a request that starts at this instant pays the peak price.
    pub fn contains(&self, at_ms: i64) -> bool {
        let minute = u32::try_from(at_ms.rem_euclid(DAY_MS) / 60_000).unwrap_or(0);
        // 1970-01-01 was a Thursday; 0 is Monday.
        let weekday = (at_ms.div_euclid(DAY_MS) + 3).rem_euclid(7);
        let is_holiday = || {
            Date::of_ms(at_ms).is_some_and(|day| self.holidays.iter().any(|(a, b)| *a <= day && day <= *b))
        };
        weekday < 5 && self.windows.iter().any(|(from, to)| (*from..*to).contains(&minute)) && !is_holiday()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        let (day, clock) = text.split_once('T').unwrap();
        let (hour, minute) = clock.split_once(':').unwrap();
        day.parse::<Date>().unwrap().start_ms()
            + (hour.parse::<i64>().unwrap() * 60 + minute.parse::<i64>().unwrap()) * 60_000
    }

    #[test]
    fn dates_compare_and_refuse_nonsense() {
        let day = |t: &str| t.parse::<Date>();
        assert!(day("2026-11-30").unwrap() < day("2026-12-01").unwrap());
        assert_eq!(day("2026-12-01").unwrap().to_string(), "2026-12-01");
        for bad in
            ["2026-13-01", "2026-1-1", "yesterday", "2026-12-01-1", "20x6-12-01", "2026-02-29", "0000-01-01"]
        {
            assert!(day(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn days_and_instants_agree() {
        for (text, days) in
            [("1970-01-01", 0), ("1970-03-01", 59), ("2000-02-29", 11_016), ("2026-11-30", 20_787)]
        {
            let date: Date = text.parse().unwrap();
            assert_eq!(date.start_ms(), days * DAY_MS, "{text}");
            assert_eq!(Date::of_ms(days * DAY_MS + DAY_MS - 1), Some(date), "{text}");
        }
        for days in (-700_000..2_900_000).step_by(97) {
            assert_eq!(Date::of_ms(days * DAY_MS).map(Date::start_ms), Some(days * DAY_MS));
        }
        assert_eq!((Date::of_ms(i64::MAX / 2), Date::of_ms(i64::MIN / 2)), (None, None));
    }

    #[test]
    fn peak_hours_leave_nights_weekends_and_holidays_out() {
        let peak = PeakHours::try_from(PeakText {
            hours_utc: vec!["01:00-04:00".into(), "06:00-10:00".into()],
            holidays: vec!["2026-10-01..2026-10-07".into(), "2026-12-25".into()],
        })
        .unwrap();
        // 2026-11-30 is a Monday.
        for (instant, expected) in [
            ("2026-11-30T00:59", false),
            ("2026-11-30T01:00", true),
            ("2026-11-30T03:59", true),
            ("2026-11-30T04:00", false),
            ("2026-11-30T06:00", true),
            ("2026-11-30T09:59", true),
            ("2026-11-30T10:00", false),
            ("2026-11-29T02:00", false),
            ("2026-11-28T02:00", false),
            ("2026-12-04T02:00", true),
            ("2026-09-30T02:00", true),
            ("2026-10-01T02:00", false),
            ("2026-10-07T09:00", false),
            ("2026-10-08T09:00", true),
            ("2026-12-25T02:00", false),
        ] {
            assert_eq!(peak.contains(at(instant)), expected, "{instant}");
        }
        for bad in ["04:00-01:00", "1-2", "25:00-26:00", "01:00"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }
}
