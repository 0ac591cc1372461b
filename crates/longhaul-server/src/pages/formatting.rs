//! Formats numbers, money and times for people, and makes untrusted text safe to show.

use std::borrow::Cow;

use longhaul_engine::tokens::group_digits;

use longhaul_engine::Timestamp;

/// Formats an amount of dollars (`$1.24`, `−$0.0031`), with enough digits to tell a small amount from zero.
#[must_use]
pub fn dollars(amount: f64) -> String {
    let c = if amount < 0.0 { "−" } else { "" };
    let size = amount.abs();
    if !size.is_finite() {
        return "?".to_owned();
    }
    if size >= 1000.0 {
        return format!("{c}${}", group_digits(size.round() as u64));
    }
    let digits = match size {
        size if size < 0.000_05 => 2,
        size if size < 0.01 => 4,
        size if size < 0.1 => 3,
        _ => 2,
    };
    let text = format!("{size:.digits$}");
    let c = if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) { "" } else { c };
    format!("{c}${text}")
}

/// Formats an amount of dollars on an axis, with enough digits to tell one tick from the next: `$0.50`,
/// `$0.00005`.
#[must_use]
pub fn dollar_tick(amount: f64) -> String {
    let digits = format!("{amount:.6}");
    let short = digits.trim_end_matches('0');
    let min_length = digits.find('.').map_or(digits.len(), |point| point + 3);
    format!("${}", &digits[..short.len().max(min_length)])
}

/// Formats seconds since 1970 as `2026-11-17 19:58 UTC`.
#[must_use]
pub fn utc_timestamp(seconds: i64) -> String {
    let text = Timestamp(seconds.saturating_mul(1000)).to_string();
    match text.split_once('T') {
        Some((date, clock)) => format!("{date} {} UTC", clock.get(..5).unwrap_or(clock)),
        None => text,
    }
}

/// Formats an age in seconds: `just now`, `5 min ago`, `3 h ago`, `12 days ago`.
#[must_use]
pub fn time_ago(seconds: u64) -> String {
    match seconds {
        0..60 => "just now".to_owned(),
        60..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", group_digits(seconds / 86_400)),
    }
}

/// Formats a duration: `8 ms`, `1.3 s`, `12 min`, `3 h 05`.
#[must_use]
pub fn format_duration(milliseconds: f64) -> String {
    let seconds = milliseconds / 1000.0;
    match seconds {
        seconds if seconds < 0.01 => format!("{milliseconds:.1} ms"),
        seconds if seconds < 1.0 => format!("{milliseconds:.0} ms"),
        seconds if seconds < 90.0 => format!("{seconds:.1} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format_minutes(seconds / 60.0),
    }
}

/// Formats a number of minutes: `12 min`, `3 h 05`.
#[must_use]
pub fn format_minutes(minutes: f64) -> String {
    let total_minutes = minutes.round() as u64;
    if total_minutes < 120 {
        format!("{total_minutes} min")
    } else {
        format!("{} h {:02}", group_digits(total_minutes / 60), total_minutes % 60)
    }
}

/// Formats a number in a few characters: `950`, `31.5k`, `1.2M`.
#[must_use]
pub fn short_count(tokens: f64) -> String {
    match tokens {
        _ if tokens >= 999_950.0 => format!("{}M", (tokens / 1e5).round() / 10.0),
        _ if tokens >= 1e3 => format!("{}k", (tokens / 100.0).round() / 10.0),
        _ => format!("{tokens:.0}"),
    }
}

/// Formats a count with its noun: `1 compaction`, `2,000 compactions`.
#[must_use]
pub fn pluralize(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", group_digits(count as u64), if count == 1 { "" } else { "s" })
}

/// Makes untrusted text safe to show on one line: line breaks become spaces, and characters that change the
/// text direction or are invisible become their names.
#[must_use]
pub fn sanitize_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| control_char_name(c).is_some() || c == '\n' || c == '\t') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match control_char_name(c) {
            Some(name) => shown.push_str(&name),
            None if c == '\n' || c == '\t' => shown.push(' '),
            None => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns the visible name of a control character, such as `^[` or `U+202E`; none for other characters. Line
/// breaks and tabs have none, because texts of several lines contain them.
pub(super) fn control_char_name(c: char) -> Option<String> {
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
        assert_eq!(utc_timestamp(1_777_936_777), "2026-05-04 23:19 UTC");
        assert_eq!(
            [time_ago(5), time_ago(300), time_ago(9000), time_ago(900_000)],
            ["just now", "5 min ago", "2 h ago", "10 days ago"]
        );
        assert_eq!(
            [format_duration(7.24), format_duration(120.0), format_duration(1300.0)],
            ["7.2 ms", "120 ms", "1.3 s"]
        );
        assert_eq!([short_count(950.0), short_count(31_450.0), short_count(999_999.0)], ["950", "31.5k", "1M"]);
        assert_eq!([format_duration(720_000.0), format_duration(11_100_000.0)], ["12 min", "3 h 05"]);
    }

    #[test]
    fn characters_that_reorder_or_hide_text_become_visible() {
        assert_eq!(sanitize_line("a\u{202e}b\u{1b}c\nd\u{e0041}"), "aU+202Eb^[c dU+E0041");
        assert!(matches!(sanitize_line("plain é 漢"), Cow::Borrowed(_)));
    }
}
