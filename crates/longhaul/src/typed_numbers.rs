//! Parses numbers as people type them: `20k`, `1.5M`, `50%`, `2GB`, `7d`.

use longhaul_engine::Timestamp;

/// Parses a number of tokens, such as `20000`, `20k` or `1.5M`.
pub(crate) fn parse_tokens(typed: &str) -> Result<u64, String> {
    let wrong = || "expected tokens as 20000, 20k or 1.5M".to_owned();
    let bare: String = typed.trim().chars().filter(|c| !matches!(c, ',' | '_')).collect();
    if bare.ends_with('%') {
        return Err("this is a share, not a number of tokens; write 20000, 20k or 1.5M".to_owned());
    }
    let (digits, thousands) = match bare.char_indices().last() {
        Some((at, 'k' | 'K')) => (&bare[..at], 3),
        Some((at, 'm' | 'M')) => (&bare[..at], 6),
        Some(_) => (bare.as_str(), 0),
        None => return Err(wrong()),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > thousands {
        return Err(wrong());
    }
    // Parsed as digits, not as a float, so that large numbers stay exact.
    format!("{whole}{part:0<thousands$}").parse().map_err(|_| "too many tokens to count".to_owned())
}

/// Parses a size in bytes: `500MB`, `2GB`, `1.5G`, or a number of bytes.
pub(crate) fn parse_bytes(typed: &str) -> Result<u64, String> {
    let wrong = || "expected a size as 500MB, 2GB or a number of bytes".to_owned();
    let bare = typed.trim().to_ascii_lowercase();
    let bare = bare.strip_suffix('b').unwrap_or(&bare).trim_end();
    let turns = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];
    let found = turns.iter().find_map(|(turn, size)| Some((bare.strip_suffix(*turn)?, *size)));
    let (digits, size) = found.unwrap_or((bare, 1.0));
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.trim_end().parse::<f64>().ok().filter(|number| is_number && number.is_finite());
    number.map(|number| (number * size) as u64).ok_or_else(wrong)
}

/// Parses a share of the window or of the threshold: `0.5` or `50%`.
pub(crate) fn parse_share(typed: &str) -> Result<f64, String> {
    let typed = typed.trim();
    let (digits, of) = typed.strip_suffix('%').map_or((typed, 1.0), |digits| (digits.trim_end(), 100.0));
    let number = digits.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map(|number| number / of).ok_or_else(|| "expected a share as 0.5 or 50%".to_owned())
}

/// The start of a period that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// The number of milliseconds before now.
    Ago(i64),
    /// A fixed time.
    From(Timestamp),
}

impl Since {
    /// Returns the earliest time in the period.
    pub(crate) fn earliest(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(millis) => Timestamp(now.0.saturating_sub(millis)),
            Self::From(time) => time,
        }
    }
}

/// Parses the start of a period: `30m`, `12h`, `7d`, `2w`, or a date.
pub(crate) fn parse_since(typed: &str) -> Result<Since, String> {
    let typed = typed.trim();
    let turns = [('m', 60_000), ('h', 3_600_000), ('d', 86_400_000), ('w', 604_800_000)];
    let short = turns.iter().find_map(|(turn, millis)| {
        let count: i64 = typed.strip_suffix(*turn)?.parse().ok().filter(|count| *count >= 0)?;
        count.checked_mul(*millis)
    });
    match (short, Timestamp::parse(typed)) {
        (Some(millis), _) => Ok(Since::Ago(millis)),
        (None, Some(time)) => Ok(Since::From(time)),
        (None, None) => Err("expected 30m, 12h, 7d, 2w or a date as 2026-05-01".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_back_is_a_span_or_a_date() {
        assert_eq!(parse_since("7d"), Ok(Since::Ago(604_800_000)));
        assert_eq!(parse_since("90m").unwrap().earliest(Timestamp(5_400_001)), Timestamp(1));
        assert_eq!(parse_since("1970-01-02"), Ok(Since::From(Timestamp(86_400_000))));
        for wrong in ["", "d", "7", "-1d", "yesterday", "99999999999999999d"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_their_units() {
        for (typed, size) in [("0", 0), ("1234", 1_234), ("2GB", 2_000_000_000), ("1.5M", 1_500_000), ("9kb", 9_000)] {
            assert_eq!(parse_bytes(typed), Ok(size), "{typed}");
        }
        for wrong in ["", "GB", "-1", "1e3", "2 parrots", "inf"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thousands_and_millions_may_be_short() {
        let cases = [
            ("20000", 20_000),
            ("20k", 20_000),
            ("20K", 20_000),
            ("1.5M", 1_500_000),
            ("0.25k", 250),
            ("1.234567m", 1_234_567),
            ("20_000", 20_000),
            ("1,000,000", 1_000_000),
            ("0", 0),
            ("18446744073709551615", u64::MAX),
        ];
        for (typed, number) in cases {
            assert_eq!(parse_tokens(typed), Ok(number), "{typed}");
        }
        for wrong in
            ["", "k", "-1", "1.5", "1e3", "20kk", "x", "50%", ".5k", "1.2345k", "99999999999999999999", "1.5.5M"]
        {
            assert!(parse_tokens(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_may_be_percentages() {
        for (typed, number) in [("0.5", 0.5), ("50%", 0.5), ("50 %", 0.5), ("-1", -1.0), ("85.5%", 0.855)] {
            assert_eq!(parse_share(typed), Ok(number), "{typed}");
        }
        for wrong in ["", "%", "x", "inf", "nan", "1e999"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
