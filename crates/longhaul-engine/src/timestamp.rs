//! Points in time, as files, databases and HTTP headers give them.
//!
//! The engine reads no clock: every timestamp is passed in.
//!
//! It uses nothing of the engine.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::civil::{Date, DateTime};

/// A point in time, in milliseconds since 1970 UTC: the unit in which the store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses an ISO 8601 time (`2026-05-04T23:19:37.123Z`), with a space for the `T`, without fractions, with an offset,
    /// or a date alone. A time without a zone is taken as UTC.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let instant = text.parse::<jiff::Timestamp>();
        let utc = |time: DateTime| time.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let instant = match instant {
            Ok(instant) => Some(instant),
            // A date alone is midnight; anything else without a zone is a time of day in UTC.
            Err(_) if text.len() == 10 => text.parse::<Date>().ok().and_then(|date| utc(date.into())),
            Err(_) => text.parse::<DateTime>().ok().and_then(utc),
        };
        instant.map(|instant| Self(instant.as_millisecond()))
    }

    /// Converts seconds since 1970, as databases keep them.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1000.0) as i64)
    }

    /// Returns the seconds from an earlier time to this one, or 0 if the other time is later.
    #[must_use]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.0.saturating_sub(earlier.0)).max(0) as f64 / 1000.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let millis = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Self(millis)
    }
}

/// Formats the time to the second, in UTC: `2026-05-04T23:19:37Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only times outside the years -9999 to 9999 are not representable; their number says as much as any date.
        match jiff::Timestamp::from_second(self.0.div_euclid(1000)) {
            Ok(instant) => write!(f, "{instant}"),
            Err(_) => write!(f, "{} ms since 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_times_as_agents_write_them() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01", 0),
            ("2026-05-04T23:19:37.123Z", 1_777_936_777_123),
            ("2026-05-04T23:19:37.1234567Z", 1_777_936_777_123),
            ("2026-05-04 23:19:37", 1_777_936_777_000),
            ("2026-05-05T01:19:37+02:00", 1_777_936_777_000),
            ("2026-05-04T18:19:37-0500", 1_777_936_777_000),
            ("2024-02-29T12:00:00.5Z", 1_709_208_000_500),
            ("1969-12-31T23:59:59Z", -1000),
        ];
        for (text, millis) in cases {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)), "{text}");
        }
        for text in ["", "today", "2026-13-01", "2026-05-04T25:00:00Z", "2026-05-04Tx", "2026-05-04T10:00:00+x", "ä-b"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_printed_time_parses_back() {
        const DAY_MS: i64 = 86_400_000;
        for day in (-200_000..200_000).step_by(7) {
            let time = Timestamp(day * DAY_MS + 12_345_000);
            assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        }
    }
}
