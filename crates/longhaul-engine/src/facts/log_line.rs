//! Recognizes log lines by the level and the time near their beginning.

use crate::truncate;

/// The log levels, each with its spellings.
const LEVEL_SPELLINGS: [(&str, &[&str]); 6] = [
    ("fatal", &["fatal", "critical", "crit", "alert", "emerg", "emergency", "panic"]),
    ("error", &["error", "err", "severe"]),
    ("warn", &["warn", "warning"]),
    ("info", &["info", "notice"]),
    ("debug", &["debug", "verbose"]),
    ("trace", &["trace", "fine"]),
];

/// Returns the level of a log line. It must be near the beginning, and in capitals or between punctuation.
pub(crate) fn log_level(line: &str) -> Option<&'static str> {
    let head = truncate::first_chars(line, 100);
    let bytes = head.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        if !bytes[start].is_ascii_alphabetic() {
            start += 1;
            continue;
        }
        let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = &bytes[start..start + length];
        if (3..=9).contains(&length)
            && let Some((level, _)) = LEVEL_SPELLINGS
                .iter()
                .find(|(_, names)| names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(word)))
        {
            let before = start.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(start + length).copied();
            let marked = matches!(
                (before, after),
                (Some(b'['), Some(b']')) | (Some(b'=' | b'"'), _) | (_, Some(b':')) | (Some(b'<'), Some(b'>'))
            );
            if marked || word.iter().all(u8::is_ascii_uppercase) {
                return Some(level);
            }
        }
        start += length;
    }
    None
}

/// Returns the time of a log line as it is written. It must be near the beginning and contain `hh:mm`.
pub(crate) fn log_time(line: &str) -> Option<&str> {
    let bytes = &line.as_bytes()[..line.len().min(48)];
    let at = bytes.windows(5).position(|w| w[2] == b':' && [w[0], w[1], w[3], w[4]].iter().all(u8::is_ascii_digit))?;
    let from = bytes[..at]
        .iter()
        .rposition(|byte| matches!(byte, b'[' | b'(' | b'"' | b'\t' | b'|' | b'='))
        .map_or(0, |at| at + 1);
    let length = line.as_bytes()[at..]
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.' | b',' | b'Z' | b'+'))
        .count();
    let from = if at - from > 24 { at } else { from };
    line.get(from..at + length).map(|time| time.trim().trim_end_matches([':', '.', ',']))
}

/// Whether a line has both a time and a level.
pub(crate) fn is_log_line(line: &str) -> bool {
    log_time(line).is_some() && log_level(line).is_some()
}

/// Whether a line reports one event. Its counts belong to that event and are no totals of the output. Build
/// tools put a level before their summaries, too, but no time, and no level of a warning in capitals.
pub(crate) fn is_log_event(line: &str) -> bool {
    const LEVELS: [&str; 4] = ["WARN", "WARNING", "DEBUG", "TRACE"];
    let opening = line.trim_start().trim_start_matches('[');
    let word = opening.split([' ', '\t', ']']).next().unwrap_or_default();
    LEVELS.contains(&word) || is_log_line(line)
}
