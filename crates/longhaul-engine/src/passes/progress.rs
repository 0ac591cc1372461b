//! Shortens progress output that was printed line after line or over itself: the first and the last line
//! stay, with the number of lines between them.

use memchr::memchr2;
use serde::Deserialize;

use super::{Pass, PassScope, ProposedChange, Remainder, ResultBlock};
use crate::action::Verb;
use crate::digest::format_count;
use crate::facts::LineSignals;

pub(super) const PASS: Pass = Pass {
    name: "progress",
    reason: "repeated progress; the first and the last line stay",
    remainder: Remainder::MayShrinkFurther,
    run,
};

/// The minimum number of lines in a run of progress that is shortened. Chosen by hand.
const MIN_RUN_LINES: usize = 4;

#[derive(Deserialize)]
struct ProgressTable {
    openers: Vec<String>,
}

table! {
    static TABLE: ProgressTable = "progress.toml";
}

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let ran = scope
        .candidates()
        .filter(|found| matches!(found.action.verb, Verb::Run | Verb::Other) && found.action.shown_file.is_none());
    ran.filter_map(|found: ResultBlock<'_, '_>| {
        let text = found.block.text();
        let short = collapse_progress(&text)?;
        found.shorten_to(PASS.name, &text, short)
    })
    .collect()
}

/// A run of consecutive lines that differ only in how far the progress is.
struct ProgressRun<'a> {
    first_end: usize,
    last_start: usize,
    last: &'a str,
    lines: usize,
}

/// Returns the text with runs of progress shortened, or `None` if it has none.
fn collapse_progress(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut run: Option<ProgressRun<'_>> = None;
    let mut close = |run: Option<ProgressRun<'_>>| {
        let Some(run) = run.filter(|run| run.lines >= MIN_RUN_LINES) else { return };
        out.push_str(&text[copied..run.first_end]);
        out.push_str("\n[… ");
        out.push_str(&format_count(run.lines - 2));
        out.push_str(" similar lines]\n");
        copied = run.last_start;
    };
    let mut at = 0;
    while at < text.len() {
        let end = memchr2(b'\n', b'\r', &text.as_bytes()[at..]).map_or(text.len(), |length| at + length);
        let line = &text[at..end];
        if !line.trim_start().is_empty() {
            match &mut run {
                Some(run) if continues_progress(run.last, line) => {
                    run.lines += 1;
                    (run.last_start, run.last) = (at, line);
                }
                _ => {
                    close(run.take());
                    run = Some(ProgressRun { first_end: end, last_start: at, last: line, lines: 1 });
                }
            }
        }
        at = end + 1;
    }
    close(run);
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// Whether a line continues the progress of the line before it. Errors and warnings are no progress, unless
/// the two lines are the same.
fn continues_progress(before: &str, line: &str) -> bool {
    if before == line {
        return true;
    }
    let goes_on = has_same_opener(before, line) || has_same_fixed_text(before, line) && shows_progress(line);
    let signals = || LineSignals::scan(line);
    goes_on && !(signals().error || signals().warning)
}

fn has_same_opener(before: &str, line: &str) -> bool {
    let opener = |line: &str| line.split_whitespace().next().map(|word| word.trim_end_matches(char::is_numeric).len());
    let (before, line) = (before.trim_start(), line.trim_start());
    let Some(length) = opener(line) else { return false };
    let Some(word) = line.get(..length).filter(|word| before.get(..length) == Some(*word)) else {
        return false;
    };
    word.len() > 3 && TABLE.openers.iter().any(|opener| opener.eq_ignore_ascii_case(word))
}

/// Whether two lines differ only in digits, bars, white space and escape sequences of the terminal.
fn has_same_fixed_text(before: &str, line: &str) -> bool {
    let mut rest = (before, line);
    loop {
        rest = (skip_variable(rest.0), skip_variable(rest.1));
        match (rest.0.chars().next(), rest.1.chars().next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b => rest = (&rest.0[a.len_utf8()..], &rest.1[b.len_utf8()..]),
            _ => return false,
        }
    }
}

/// Skips the characters that differ between two lines of progress.
fn skip_variable(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches(is_variable_char);
        let Some(escape) = text.strip_prefix("\u{1b}[") else { return text };
        let end = escape.find(|c: char| c.is_ascii_alphabetic()).map_or(escape.len(), |end| end + 1);
        text = &escape[end..];
    }
}

fn is_variable_char(c: char) -> bool {
    c.is_ascii_digit()
        || matches!(c, ' ' | '\t' | '.' | ',' | ':' | '#' | '=' | '>' | '-' | '*' | '_' | '\\' | '|' | '/')
        || matches!(c, '\u{2500}'..='\u{28ff}')
}

/// Whether a line shows progress: a percentage, a count such as `3/9`, a bar or a spinner.
fn shows_progress(line: &str) -> bool {
    let bytes = line.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let share = memchr::memchr_iter(b'%', bytes).any(|at| at > 0 && is_digit(at - 1));
    let of = memchr::memchr_iter(b'/', bytes).any(|at| at > 0 && is_digit(at - 1) && is_digit(at + 1));
    let bar = bytes
        .windows(4)
        .any(|four| matches!(four[0], b'#' | b'=' | b'-' | b'.' | b'*') && four.iter().all(|byte| *byte == four[0]));
    share || of || bar || line.chars().any(|c| matches!(c, '\u{2580}'..='\u{259f}' | '\u{2800}'..='\u{28ff}' | '━'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_progress_become_first_count_last() {
        for (text, expected) in [
            ("a\n10% done\n20% done\n30% done\n40% done\nb\n", "a\n10% done\n[… 2 similar lines]\n40% done\nb\n"),
            ("get\r 1%\r 2%\r 50%\r100%\nok\n", "get\r 1%\n[… 2 similar lines]\n100%\nok\n"),
            ("[#   ] 1/4\n[##  ] 2/4\n[### ] 3/4\n[####] 4/4\n", "[#   ] 1/4\n[… 2 similar lines]\n[####] 4/4\n"),
            (
                "   Compiling a v1\n   Compiling b v2\n   Compiling c v3\n   Compiling d v4\n   Compiling e v5\n    Finished\n",
                "   Compiling a v1\n[… 3 similar lines]\n   Compiling e v5\n    Finished\n",
            ),
            ("same\r\nsame\r\nsame\r\nsame\r\nx\r\n", "same\n[… 2 similar lines]\nsame\r\nx\r\n"),
            ("⠋ wait\n⠙ wait\n⠹ wait\n⠸ wait\n", "⠋ wait\n[… 2 similar lines]\n⠸ wait\n"),
        ] {
            let short = collapse_progress(text);
            assert_eq!(short.as_deref(), Some(expected), "{text}");
            assert_eq!(collapse_progress(expected), None, "once is enough");
        }
    }

    #[test]
    fn data_and_errors_are_no_progress() {
        for text in [
            "1 2\n3 4\n5 6\n7 8\n9 10\n",
            "10% done\n20% done\n30% done\n",
            "a.rs:1: error 1%\na.rs:2: error 2%\na.rs:3: error 3%\na.rs:4: error 4%\n",
            "let a = 1;\nlet b = 2;\nlet c = 3;\nlet d = 4;\n",
            "2024-01-01 12:00:01 x\n2024-01-01 12:00:02 x\n2024-01-01 12:00:03 x\n2024-01-01 12:00:04 x\n",
            "",
        ] {
            assert_eq!(collapse_progress(text), None, "{text}");
        }
    }
}
