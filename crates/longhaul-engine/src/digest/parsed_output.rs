//! A tool output as the kinds read it: its text without a JSON envelope, its facts, and a sample of its
//! lines.

use super::focus::Focus;
use super::weights::{SAMPLE_HEAD_LINES, SAMPLE_LINE_CHARS, SAMPLE_TAIL_LINES};
use super::words::{OUTPUT_WORDS, starts_with_any};
use crate::facts::Facts;
use crate::lines::{Line, LineBreak, Lines};
use crate::shape::parse_fields;
use crate::tokens::group_digits;
use crate::tools::ParsedCall;
use crate::truncate;

/// A tool output, prepared for the kinds.
pub(super) struct ParsedOutput<'a> {
    /// The unchanged output.
    pub(super) source: &'a str,
    /// The size of the original output in bytes, if not all of it was text.
    pub(super) original_bytes: Option<usize>,
    /// The output without a JSON envelope around it.
    pub(super) text: &'a str,
    /// The keys of the JSON object around the text, if there is one.
    pub(super) envelope: Vec<&'a str>,
    /// The way in which the lines of `text` are separated.
    pub(super) breaks: LineBreak,
    /// The facts of `text`.
    pub(super) facts: Facts<'a>,
    /// The words that the current task is about.
    pub(super) focus: &'a Focus,
    /// The call that printed the output.
    pub(super) call: &'a ParsedCall,
}

impl<'a> ParsedOutput<'a> {
    pub(super) fn parse(source: &'a str, focus: &'a Focus, call: &'a ParsedCall) -> Self {
        let (envelope, text, breaks) = match unwrap_json_envelope(source) {
            Some((envelope, text)) => (envelope, text, LineBreak::EscapedNewline),
            None => (Vec::new(), source, LineBreak::Newline),
        };
        let mut facts = Facts::scan_with_breaks(text, breaks);
        if breaks == LineBreak::EscapedNewline {
            facts.exit_status = Facts::scan(source).exit_status.or(facts.exit_status);
        }
        Self { source, original_bytes: None, text, envelope, breaks, facts, focus, call }
    }

    /// Sets the size of the original output in bytes.
    pub(super) fn with_original_bytes(self, bytes: Option<usize>) -> Self {
        Self { original_bytes: bytes, ..self }
    }

    /// Returns the length of the output in words: in characters, or in bytes if it was not all text.
    pub(super) fn length_text(&self) -> String {
        match self.original_bytes {
            Some(bytes) => format!("{} bytes", group_digits(bytes as u64)),
            None => format!("{} chars", group_digits(self.source.chars().count() as u64)),
        }
    }

    pub(super) fn lines(&self) -> Lines<'a> {
        Lines::new(self.text, self.breaks)
    }

    /// Returns the last `most` lines that are not blank, the last one first.
    pub(super) fn last_lines(&self, most: usize) -> Vec<Line<'a>> {
        let mut last = Vec::new();
        let mut end = self.text.len();
        while last.len() < most && end > 0 {
            let head = &self.text[..end];
            let (at, cut) = match self.breaks {
                LineBreak::Newline => memchr::memrchr(b'\n', head.as_bytes()).map_or((0, 0), |at| (at + 1, at)),
                LineBreak::EscapedNewline => {
                    memchr::memmem::rfind(head.as_bytes(), b"\\n").map_or((0, 0), |at| (at + 2, at))
                }
            };
            let line = Line { offset: at, text: &self.text[at..end] }.trimmed();
            if !line.text.is_empty() {
                last.push(line);
            }
            end = cut;
        }
        last
    }

    /// Returns the exit status of the call. Agents write it in the first or last lines, around the output; a
    /// status anywhere else belongs to something that the output describes.
    pub(super) fn exit_status(&self) -> Option<i64> {
        let here = self.breaks == LineBreak::EscapedNewline
            || self.lines().take(4).any(|line| names_exit_status(line.text))
            || self.last_lines(6).iter().any(|line| names_exit_status(line.text));
        self.facts.exit_status.filter(|_| here)
    }

    /// Returns the byte offset of a piece of the text.
    pub(super) fn offset_of(&self, piece: &str) -> usize {
        (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    pub(super) fn sample(&self) -> Sample<'a> {
        let full = |line: &Line<'_>| !line.text.trim().is_empty() && !is_wrapper_line(line.text.trim());
        let head: Vec<_> = self
            .lines()
            .take(4 * SAMPLE_HEAD_LINES)
            .filter(full)
            .take(SAMPLE_HEAD_LINES)
            .map(|line| sample_line(line.text))
            .collect();
        let mut tail: Vec<_> = self
            .last_lines(SAMPLE_TAIL_LINES)
            .iter()
            .filter(|line| full(line))
            .map(|line| sample_line(line.text))
            .collect();
        tail.reverse();
        Sample { head, tail }
    }
}

fn sample_line(line: &str) -> &str {
    strip_line_number(truncate::first_chars(line, SAMPLE_LINE_CHARS))
}

/// Returns a line without the number that `cat -n` and file readers put before it.
pub(super) fn strip_line_number(line: &str) -> &str {
    let start = line.trim_start_matches(' ');
    let digits = start.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &start[digits..];
    // Line numbers are aligned to the right; an ID in the first column of a table is not.
    let padded = start.len() < line.len();
    match rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t').filter(|_| padded)) {
        Some(code) if digits > 0 => code,
        _ => line,
    }
}

fn names_exit_status(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['<', '[', '(']);
    starts_with_any(line, &OUTPUT_WORDS.statuses)
}

pub(super) fn is_wrapper_line(line: &str) -> bool {
    OUTPUT_WORDS.wrappers.iter().any(|opener| line.starts_with(opener.as_str()))
}

/// Unwraps a small JSON object with one long text: `{"output":"…","metadata":{"exit_code":0}}`. Returns the
/// object's keys and the text, still escaped.
fn unwrap_json_envelope(source: &str) -> Option<(Vec<&str>, &str)> {
    const NAMES: [&str; 7] = ["output", "stdout", "content", "text", "result", "stderr", "error"];
    let start = source.trim_start();
    let key = start.strip_prefix('{')?.trim_start().strip_prefix('"')?;
    if !key.as_bytes().first()?.is_ascii_lowercase() {
        return None;
    }
    let fields = parse_fields(start);
    if fields.len() > 12 {
        return None;
    }
    let (_, text) = fields.iter().find(|(key, value)| {
        NAMES.contains(key) && value.starts_with('"') && value.contains("\\n") && value.len() * 10 > start.len() * 7
    })?;
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    Some((fields.iter().map(|(key, _)| *key).collect(), text))
}

/// Lines of an output by which its kind is detected, without blank lines, wrapper lines and line numbers.
pub(super) struct Sample<'a> {
    pub(super) head: Vec<&'a str>,
    pub(super) tail: Vec<&'a str>,
}

impl<'a> Sample<'a> {
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        self.head.iter().chain(&self.tail).copied()
    }

    /// Returns the share of lines that pass a test, from 0 to 1.
    pub(super) fn share(&self, test: impl Fn(&str) -> bool) -> f64 {
        let all = self.head.len() + self.tail.len();
        self.lines().filter(|line| test(line)).count() as f64 / all.max(1) as f64
    }

    pub(super) fn any(&self, test: impl Fn(&str) -> bool) -> bool {
        self.lines().any(test)
    }
}
