//! Moments as agents write them down: ISO times in UTC or with an offset, seconds, milliseconds.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, in milliseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

impl Moment {
    /// Reads `2026-05-04T23:19:37.123Z`, with a blank for the `T`, without fractions, with an offset, or the date alone. What
    /// names no zone is taken as UTC.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, rest) = text.split_at_checked(10)?;
        let days = days(&numbers::<3>(date, '-')?)?;
        let Some(time) = rest.strip_prefix(['T', 't', ' ']) else {
            return rest.is_empty().then_some(Self(days * DAY));
        };
        let (clock, zone) = time.split_at(time.find(['Z', 'z', '+', '-']).unwrap_or(time.len()));
        let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, "0"));
        let [hours, minutes, seconds] = numbers::<3>(clock, ':')?;
        if hours > 24 || minutes > 59 || seconds > 60 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let millis = fraction.bytes().chain(*b"000").take(3).fold(0, |sum, b| sum * 10 + i64::from(b - b'0'));
        let at = days * DAY + ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis;
        Some(Self(at - offset(zone)?))
    }

    /// Of so many seconds since 1970, as databases keep them.
    #[must_use]
    pub fn of_seconds(seconds: f64) -> Self {
        Self((seconds * 1000.0) as i64)
    }

    /// As the file system gives it.
    #[must_use]
    pub fn of_system(time: SystemTime) -> Self {
        let millis = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Self(millis)
    }

    /// The seconds from an earlier one to this; none, where that is later.
    #[must_use]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.0.saturating_sub(earlier.0)).max(0) as f64 / 1000.0
    }
}

/// `2026-05-04T23:19:37Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY) / 1000);
        let [year, month, day] = date(days);
        let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
    }
}

fn numbers<const N: usize>(text: &str, between: char) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for number in &mut found {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Days since 1970 of a date of the Gregorian calendar: months are counted from March, so that the leap day is the last.
fn days(&[year, month, day]: &[i64; 3]) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(
        year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468,
    )
}

/// The other way round.
fn date(days: i64) -> [i64; 3] {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    [era * 400 + year + i64::from(month <= 2), month, day]
}

/// `Z`, `+02:00`, `+0200`, `-05`, or nothing, in milliseconds.
fn offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at(1);
    let digits: String = rest.chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 2 | 4) {
        return None;
    }
    let (hours, minutes) = digits.split_at(2);
    let minutes: i64 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
    let all = (hours.parse::<i64>().ok()? * 60 + minutes) * 60_000;
    Some(if sign == "-" { -all } else { all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_agents_write_them() {
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
            assert_eq!(Moment::parse(text), Some(Moment(millis)), "{text}");
        }
        for text in [
            "",
            "today",
            "2026-13-01",
            "2026-05-04T25:00:00Z",
            "2026-05-04Tx",
            "2026-05-04T10:00:00+x",
            "ä-b",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for day in (-200_000..200_000).step_by(7) {
            let moment = Moment(day * DAY + 12_345_000);
            assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        }
    }
}
