//! One tool output as the kinds read it: its text without the envelope, its facts, and a sample of its lines.

use super::focus::Focus;
use super::words::{WORDS, opens_with};
use crate::clip;
use crate::facts::Facts;
use crate::lines::{Breaks, Line, Lines};
use crate::shape::fields_of;
use crate::tokens::grouped;
use crate::tools::Call;

/// Lines of the sample, and how much of each.
const SAMPLE_HEAD: usize = 120;
const SAMPLE_TAIL: usize = 40;
const SAMPLE_WIDTH: usize = 300;

/// What a kind digests.
pub(super) struct Page<'a> {
    /// The output as it came.
    pub(super) source: &'a str,
    /// How many bytes it was, where not all of them were text.
    pub(super) bytes: Option<usize>,
    /// The output without an envelope around it.
    pub(super) text: &'a str,
    /// The keys of the JSON object around the text, if there is one.
    pub(super) envelope: Vec<&'a str>,
    /// How the lines of `text` end.
    pub(super) breaks: Breaks,
    /// The facts of `text`.
    pub(super) facts: Facts<'a>,
    /// What the task is about.
    pub(super) focus: &'a Focus,
    /// The call that gave the output.
    pub(super) call: &'a Call,
}

impl<'a> Page<'a> {
    pub(super) fn of(source: &'a str, focus: &'a Focus, call: &'a Call) -> Self {
        let Some((envelope, text)) = enveloped(source) else {
            let facts = Facts::of(source);
            return Self {
                source,
                bytes: None,
                text: source,
                envelope: Vec::new(),
                breaks: Breaks::Newline,
                facts,
                focus,
                call,
            };
        };
        let mut facts = Facts::within(text, Breaks::Escaped);
        facts.exit = Facts::of(source).exit.or(facts.exit);
        Self { source, bytes: None, text, envelope, breaks: Breaks::Escaped, facts, focus, call }
    }

    /// The page of an output that was so many bytes before it became text.
    pub(super) fn made_of(self, bytes: Option<usize>) -> Self {
        Self { bytes, ..self }
    }

    /// How long the output is: in characters, unless it was no text.
    pub(super) fn length(&self) -> String {
        match self.bytes {
            Some(bytes) => format!("{} bytes", grouped(bytes as u64)),
            None => format!("{} chars", grouped(self.source.chars().count() as u64)),
        }
    }

    pub(super) fn lines(&self) -> Lines<'a> {
        Lines::new(self.text, self.breaks)
    }

    /// The last lines that are not blank, last first.
    pub(super) fn last_lines(&self, most: usize) -> Vec<Line<'a>> {
        let mut last = Vec::new();
        let mut end = self.text.len();
        while last.len() < most && end > 0 {
            let head = &self.text[..end];
            let (at, cut) = match self.breaks {
                Breaks::Newline => memchr::memrchr(b'\n', head.as_bytes()).map_or((0, 0), |at| (at + 1, at)),
                Breaks::Escaped => {
                    memchr::memmem::rfind(head.as_bytes(), b"\\n").map_or((0, 0), |at| (at + 2, at))
                }
            };
            let line = Line { at, text: &self.text[at..end] }.trimmed();
            if !line.text.is_empty() {
                last.push(line);
            }
            end = cut;
        }
        last
    }

    /// The exit status of what was run: agents put it in the first or the last lines, around the output. A status named
    /// anywhere else belongs to something that the output talks about.
    pub(super) fn status(&self) -> Option<i64> {
        let here = self.breaks == Breaks::Escaped
            || self.lines().take(4).any(|line| names_status(line.text))
            || self.last_lines(6).iter().any(|line| names_status(line.text));
        self.facts.exit.filter(|_| here)
    }

    /// Where a piece of the text begins.
    pub(super) fn offset(&self, piece: &str) -> usize {
        (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    pub(super) fn sample(&self) -> Sample<'a> {
        let full = |line: &Line<'_>| !line.text.trim().is_empty() && !is_wrapper(line.text.trim());
        let head: Vec<_> = self
            .lines()
            .take(4 * SAMPLE_HEAD)
            .filter(full)
            .take(SAMPLE_HEAD)
            .map(|line| sampled(line.text))
            .collect();
        let mut tail: Vec<_> = self
            .last_lines(SAMPLE_TAIL)
            .iter()
            .filter(|line| full(line))
            .map(|line| sampled(line.text))
            .collect();
        tail.reverse();
        Sample { head, tail }
    }
}

fn sampled(line: &str) -> &str {
    unnumbered(clip::start(line, SAMPLE_WIDTH))
}

/// The line without the number that `cat -n` and file readers put in front of it.
pub(super) fn unnumbered(line: &str) -> &str {
    let start = line.trim_start_matches(' ');
    let digits = start.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &start[digits..];
    // Numbers are set flush right; an id in the first column of a table is not.
    let padded = start.len() < line.len();
    match rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t').filter(|_| padded)) {
        Some(code) if digits > 0 => code,
        _ => line,
    }
}

fn names_status(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['<', '[', '(']);
    opens_with(line, &WORDS.statuses)
}

pub(super) fn is_wrapper(line: &str) -> bool {
    WORDS.wrappers.iter().any(|opener| line.starts_with(opener.as_str()))
}

/// The inside of the one long string of a small JSON object: `{"output":"…","metadata":{"exit_code":0}}`.
fn enveloped(source: &str) -> Option<(Vec<&str>, &str)> {
    const NAMES: [&str; 7] = ["output", "stdout", "content", "text", "result", "stderr", "error"];
    let start = source.trim_start();
    let key = start.strip_prefix('{')?.trim_start().strip_prefix('"')?;
    if !key.as_bytes().first()?.is_ascii_lowercase() {
        return None;
    }
    let fields = fields_of(start);
    if fields.len() > 12 {
        return None;
    }
    let (_, text) = fields.iter().find(|(key, value)| {
        NAMES.contains(key)
            && value.starts_with('"')
            && value.contains("\\n")
            && value.len() * 10 > start.len() * 7
    })?;
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    Some((fields.iter().map(|(key, _)| *key).collect(), text))
}

/// Some lines of an output, enough to tell its kind. Blank lines and wrappers are not among them, nor line numbers.
pub(super) struct Sample<'a> {
    pub(super) head: Vec<&'a str>,
    pub(super) tail: Vec<&'a str>,
}

impl<'a> Sample<'a> {
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        self.head.iter().chain(&self.tail).copied()
    }

    /// The share of lines that pass a test.
    pub(super) fn share(&self, test: impl Fn(&str) -> bool) -> f64 {
        let all = self.head.len() + self.tail.len();
        self.lines().filter(|line| test(line)).count() as f64 / all.max(1) as f64
    }

    pub(super) fn any(&self, test: impl Fn(&str) -> bool) -> bool {
        self.lines().any(test)
    }
}
