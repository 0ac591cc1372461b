//! Lines of logs: the level and the time that stand near their beginning.

use crate::clip;

/// Levels in all their spellings.
const LEVELS: [(&str, &str); 18] = [
    ("error", "error"),
    ("err", "error"),
    ("fatal", "fatal"),
    ("critical", "fatal"),
    ("crit", "fatal"),
    ("alert", "fatal"),
    ("emerg", "fatal"),
    ("emergency", "fatal"),
    ("panic", "fatal"),
    ("severe", "error"),
    ("warn", "warn"),
    ("warning", "warn"),
    ("info", "info"),
    ("notice", "info"),
    ("debug", "debug"),
    ("trace", "trace"),
    ("verbose", "debug"),
    ("fine", "trace"),
];

/// The level of a line, which stands near its beginning, in capitals or between marks.
pub(crate) fn level(line: &str) -> Option<&'static str> {
    let head = clip::start(line, 100);
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
            && let Some((_, level)) =
                LEVELS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word))
        {
            let before = start.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(start + length).copied();
            let marked = matches!(
                (before, after),
                (Some(b'['), Some(b']'))
                    | (Some(b'=' | b'"'), _)
                    | (_, Some(b':'))
                    | (Some(b'<'), Some(b'>'))
            );
            if marked || word.iter().all(u8::is_ascii_uppercase) {
                return Some(level);
            }
        }
        start += length;
    }
    None
}

/// The time of a line, as it is written: it stands near the beginning and has `hh:mm` in it.
pub(crate) fn time(line: &str) -> Option<&str> {
    let bytes = &line.as_bytes()[..line.len().min(48)];
    let at = bytes
        .windows(5)
        .position(|w| w[2] == b':' && [w[0], w[1], w[3], w[4]].iter().all(u8::is_ascii_digit))?;
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

/// Whether a line has a time and a level.
pub(crate) fn is_log_line(line: &str) -> bool {
    time(line).is_some() && level(line).is_some()
}

/// Whether a line reports one event: what it counts belongs to that event, and is no total of the whole output. Build tools put a
/// level before their summaries, too, but neither a time nor, in capitals, that of a warning.
pub(crate) fn is_event(line: &str) -> bool {
    const LEVELS: [&str; 4] = ["WARN", "WARNING", "DEBUG", "TRACE"];
    let opening = line.trim_start().trim_start_matches('[');
    let word = opening.split([' ', '\t', ']']).next().unwrap_or_default();
    LEVELS.contains(&word) || is_log_line(line)
}
