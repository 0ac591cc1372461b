//! Numbers, money and times as people read them.

use std::borrow::Cow;

use longhaul_engine::tokens::grouped;

use crate::agents::Moment;

/// `$1.24`, `−$0.0031`: the sign first, and as many digits as tell a small sum from nothing.
#[must_use]
pub fn dollars(amount: f64) -> String {
    let sign = if amount < 0.0 { "−" } else { "" };
    let size = amount.abs();
    if !size.is_finite() {
        return "?".to_owned();
    }
    if size >= 1000.0 {
        return format!("{sign}${}", grouped(size.round() as u64));
    }
    let digits = match size {
        size if size < 0.000_05 => 2,
        size if size < 0.01 => 4,
        size if size < 0.1 => 3,
        _ => 2,
    };
    let text = format!("{size:.digits$}");
    let sign = if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) { "" } else { sign };
    format!("{sign}${text}")
}

/// A sum along an axis, with as many digits as tell one tick from the next: `$0.50`, `$0.00005`.
#[must_use]
pub fn dollar_tick(amount: f64) -> String {
    let digits = format!("{amount:.6}");
    let short = digits.trim_end_matches('0');
    let least = digits.find('.').map_or(digits.len(), |point| point + 3);
    format!("${}", &digits[..short.len().max(least)])
}

/// `2026-11-17 19:58 UTC`, of seconds since 1970.
#[must_use]
pub fn stamp(seconds: i64) -> String {
    let text = Moment(seconds.saturating_mul(1000)).to_string();
    match text.split_once('T') {
        Some((date, clock)) => format!("{date} {} UTC", clock.get(..5).unwrap_or(clock)),
        None => text,
    }
}

/// `just now`, `5 min ago`, `3 h ago`, `12 days ago`.
#[must_use]
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "just now".to_owned(),
        60..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// How long something took: `8 ms`, `1.3 s`, `12 min`, `3 h 05`.
#[must_use]
pub fn lasted(milliseconds: f64) -> String {
    let seconds = milliseconds / 1000.0;
    match seconds {
        seconds if seconds < 0.01 => format!("{milliseconds:.1} ms"),
        seconds if seconds < 1.0 => format!("{milliseconds:.0} ms"),
        seconds if seconds < 90.0 => format!("{seconds:.1} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => clock(seconds / 60.0),
    }
}

/// How long after a beginning: `12 min`, `3 h 05`.
#[must_use]
pub fn clock(minutes: f64) -> String {
    let whole = minutes.round() as u64;
    if whole < 120 { format!("{whole} min") } else { format!("{} h {:02}", grouped(whole / 60), whole % 60) }
}

/// Tokens in a few characters: `950`, `31.5k`, `1.2M`.
#[must_use]
pub fn short(tokens: f64) -> String {
    match tokens {
        _ if tokens >= 999_950.0 => format!("{}M", (tokens / 1e5).round() / 10.0),
        _ if tokens >= 1e3 => format!("{}k", (tokens / 100.0).round() / 10.0),
        _ => format!("{tokens:.0}"),
    }
}

/// A text that is somebody else's, on one line: characters that turn the direction of writing, break lines or are not meant
/// to be seen at all are named in their place.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| named(c).is_some() || c == '\n' || c == '\t') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match named(c) {
            Some(name) => shown.push_str(&name),
            None if c == '\n' || c == '\t' => shown.push(' '),
            None => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The name of a character that is harmless only where it is not obeyed: `^[`, `U+202E`. Line ends and tabs are none: a text of
/// several lines has them.
pub(super) fn named(c: char) -> Option<String> {
    match c {
        '\n' | '\t' => None,
        '\0'..='\u{1f}' => Some(format!("^{}", char::from(b'@' + c as u8))),
        '\u{7f}' => Some("^?".to_owned()),
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => Some(format!("U+{:04X}", u32::from(c))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_its_sign_and_enough_digits() {
        let cases = [
            (0.0, "$0.00"),
            (-0.0, "$0.00"),
            (-0.000_01, "$0.00"),
            (1.239, "$1.24"),
            (-12.5, "−$12.50"),
            (0.031, "$0.031"),
            (-0.0031, "−$0.0031"),
            (12_345.6, "$12,346"),
            (f64::NAN, "?"),
        ];
        for (amount, text) in cases {
            assert_eq!(dollars(amount), text);
        }
    }

    #[test]
    fn times_are_those_of_the_clock() {
        assert_eq!(stamp(1_777_936_777), "2026-05-04 23:19 UTC");
        assert_eq!(
            [ago(5), ago(300), ago(9000), ago(900_000)],
            ["just now", "5 min ago", "2 h ago", "10 days ago"]
        );
        assert_eq!([lasted(7.24), lasted(120.0), lasted(1300.0)], ["7.2 ms", "120 ms", "1.3 s"]);
        assert_eq!([short(950.0), short(31_450.0), short(999_999.0)], ["950", "31.5k", "1M"]);
        assert_eq!([lasted(720_000.0), lasted(11_100_000.0)], ["12 min", "3 h 05"]);
    }

    #[test]
    fn characters_that_turn_or_hide_text_are_seen() {
        assert_eq!(shown("a\u{202e}b\u{1b}c\nd\u{e0041}"), "aU+202Eb^[c dU+E0041");
        assert!(matches!(shown("plain é 漢"), Cow::Borrowed(_)));
    }
}
