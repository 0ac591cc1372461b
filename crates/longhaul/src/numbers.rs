//! Numbers as people type them: `20k`, `1.5M`, `50%`.

use longhaul_server::agents::Moment;

/// A number of tokens.
pub(crate) fn tokens(typed: &str) -> Result<u64, String> {
    let wrong = || "expected tokens as 20000, 20k or 1.5M".to_owned();
    let bare: String = typed.trim().chars().filter(|c| !matches!(c, ',' | '_')).collect();
    if bare.ends_with('%') {
        return Err("a share is no number of tokens; write tokens as 20000, 20k or 1.5M".to_owned());
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
    // In digits, so that what was typed is what is meant, however many there are.
    format!("{whole}{part:0<thousands$}").parse().map_err(|_| "too many tokens to count".to_owned())
}

/// A size in bytes: `500MB`, `2GB`, `1.5G`, or a number of bytes.
pub(crate) fn bytes(typed: &str) -> Result<u64, String> {
    let wrong = || "expected a size as 500MB, 2GB or a number of bytes".to_owned();
    let bare = typed.trim().to_ascii_lowercase();
    let bare = bare.strip_suffix('b').unwrap_or(&bare).trim_end();
    let units = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];
    let found = units.iter().find_map(|(unit, size)| Some((bare.strip_suffix(*unit)?, *size)));
    let (digits, size) = found.unwrap_or((bare, 1.0));
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.trim_end().parse::<f64>().ok().filter(|number| is_number && number.is_finite());
    number.map(|number| (number * size) as u64).ok_or_else(wrong)
}

/// A share: of the window, or of the threshold.
pub(crate) fn share(typed: &str) -> Result<f64, String> {
    let typed = typed.trim();
    let (digits, of) = typed.strip_suffix('%').map_or((typed, 1.0), |digits| (digits.trim_end(), 100.0));
    let number = digits.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map(|number| number / of).ok_or_else(|| "expected a share as 0.5 or 50%".to_owned())
}

/// How far back to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// So many milliseconds before now.
    Ago(i64),
    /// From this moment on.
    From(Moment),
}

impl Since {
    /// The earliest moment that counts.
    pub(crate) fn moment(self, now: Moment) -> Moment {
        match self {
            Self::Ago(millis) => Moment(now.0.saturating_sub(millis)),
            Self::From(moment) => moment,
        }
    }
}

/// `30m`, `12h`, `7d`, `2w`, or a date.
pub(crate) fn since(typed: &str) -> Result<Since, String> {
    let typed = typed.trim();
    let units = [('m', 60_000), ('h', 3_600_000), ('d', 86_400_000), ('w', 604_800_000)];
    let short = units.iter().find_map(|(unit, millis)| {
        let count: i64 = typed.strip_suffix(*unit)?.parse().ok().filter(|count| *count >= 0)?;
        count.checked_mul(*millis)
    });
    match (short, Moment::parse(typed)) {
        (Some(millis), _) => Ok(Since::Ago(millis)),
        (None, Some(moment)) => Ok(Since::From(moment)),
        (None, None) => Err("expected 30m, 12h, 7d, 2w or a date as 2026-05-01".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_back_is_a_span_or_a_date() {
        assert_eq!(since("7d"), Ok(Since::Ago(604_800_000)));
        assert_eq!(since("90m").unwrap().moment(Moment(5_400_001)), Moment(1));
        assert_eq!(since("1970-01-02"), Ok(Since::From(Moment(86_400_000))));
        for wrong in ["", "d", "7", "-1d", "yesterday", "99999999999999999d"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_their_units() {
        for (typed, size) in
            [("0", 0), ("1234", 1_234), ("2GB", 2_000_000_000), ("1.5M", 1_500_000), ("9kb", 9_000)]
        {
            assert_eq!(bytes(typed), Ok(size), "{typed}");
        }
        for wrong in ["", "GB", "-1", "1e3", "2 parrots", "inf"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
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
            assert_eq!(tokens(typed), Ok(number), "{typed}");
        }
        for wrong in [
            "",
            "k",
            "-1",
            "1.5",
            "1e3",
            "20kk",
            "x",
            "50%",
            ".5k",
            "1.2345k",
            "99999999999999999999",
            "1.5.5M",
        ] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_may_be_percentages() {
        for (typed, number) in [("0.5", 0.5), ("50%", 0.5), ("50 %", 0.5), ("-1", -1.0), ("85.5%", 0.855)] {
            assert_eq!(share(typed), Ok(number), "{typed}");
        }
        for wrong in ["", "%", "x", "inf", "nan", "1e999"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
