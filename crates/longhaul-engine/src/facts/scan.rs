//! One pass over the lines of a text, cheap for lines that say nothing.

use super::failing::failing;
use super::log_line;
use super::{Fact, FactKind, Facts};
use crate::clip;
use crate::known::{ByContent, ContentKey};
use crate::lines::{Breaks, Line, Lines};
use crate::shape::Document;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Distinct facts of one class beyond this are not kept.
pub(crate) const MOST_DISTINCT: usize = 4096;
/// So many totals are kept, the last ones: totals stand at the end.
const MOST_TOTALS: usize = 12;
/// So many keys and columns are facts.
const MOST_NAMES: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Error,
    /// An error word that may also follow a number: `3 failed`.
    CountedError,
    Warning,
    Exit,
    Counted,
    /// `2 files changed`
    Changed,
}

/// The words that make a line worth a look.
const WORDS: [(&str, Word); 28] = [
    ("error", Word::CountedError),
    ("xfailed", Word::Counted),
    ("failed", Word::CountedError),
    ("failure", Word::Error),
    ("fatal", Word::Error),
    ("exception", Word::Error),
    ("panicked", Word::Error),
    ("traceback", Word::Error),
    ("assertion", Word::Error),
    ("warn", Word::Warning),
    ("must be replaced", Word::Warning),
    ("will be destroyed", Word::Warning),
    ("exit", Word::Exit),
    ("returncode", Word::Exit),
    ("passed", Word::Counted),
    ("skipped", Word::Counted),
    ("test", Word::Counted),
    ("insertion", Word::Counted),
    ("deletion", Word::Counted),
    ("row", Word::Counted),
    ("matches", Word::Counted),
    ("problem", Word::Counted),
    ("suite", Word::Counted),
    ("changed", Word::Changed),
    ("fail", Word::Counted),
    ("failing", Word::Counted),
    ("passing", Word::Counted),
    ("npm err!", Word::Error),
];

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(WORDS.map(|(word, _)| word))
        .ok()
});

/// What the words of one line say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// It reports an error.
    pub error: bool,
    /// It reports a warning.
    pub warning: bool,
    /// It has some word of failing in it, even as a part of another.
    fails: bool,
}

impl Words {
    /// What the words of this line say.
    #[must_use]
    pub fn of(line: &str) -> Self {
        words(line, |_, _, _| {})
    }
}

/// Calls back for each number or status that the words of a line point at: what, from where, to where.
fn words(line: &str, mut found: impl FnMut(FactKind, usize, usize)) -> Words {
    let mut said = Words::default();
    let bytes = line.as_bytes();
    let Some(finder) = FINDER.as_ref() else { return said };
    for hit in finder.find_iter(line) {
        let word = WORDS[hit.pattern().as_usize()].1;
        let begins = hit.start() == 0 || !is_word(bytes[hit.start() - 1]);
        let end = hit.end() + usize::from(bytes.get(hit.end()).is_some_and(|b| matches!(b, b's' | b'S')));
        let ends = bytes.get(end).is_none_or(|byte| !is_word(*byte));
        match word {
            Word::Error | Word::CountedError => {
                said.fails = true;
                let thrown = !begins
                    && bytes[hit.start()].is_ascii_uppercase()
                    && matches!(bytes.get(hit.end()), None | Some(b':'));
                said.error |= ends && (begins || thrown) && !is_none(bytes, hit.start(), end);
            }
            Word::Warning => {
                let end = if bytes[hit.end()..].get(..3).is_some_and(|ing| ing.eq_ignore_ascii_case(b"ing")) {
                    hit.end() + 3
                } else {
                    hit.end()
                };
                let ends = bytes.get(end).is_none_or(|byte| !is_word(*byte));
                let raised =
                    !begins && bytes[hit.start()].is_ascii_uppercase() && bytes.get(end) == Some(&b':');
                said.warning |= ends && (begins || raised);
                if let Some(start) = number_before(bytes, hit.start()) {
                    let end = end + usize::from(bytes.get(end) == Some(&b's'));
                    found(FactKind::Total, start, end);
                }
            }
            Word::Exit => {
                if let Some((start, end)) = status_after(line, hit.start()) {
                    found(FactKind::Exit, start, end);
                }
            }
            Word::Counted | Word::Changed => said.fails |= bytes[hit.start()].eq_ignore_ascii_case(&b'f'),
        }
        let noun = match word {
            Word::Changed => ["file ", "files "]
                .into_iter()
                .find_map(|noun| line.get(..hit.start())?.ends_with(noun).then(|| hit.start() - noun.len())),
            Word::CountedError | Word::Counted => Some(hit.start()),
            _ => None,
        };
        if let Some(start) = noun.filter(|_| ends).and_then(|noun| number_before(bytes, noun)) {
            found(FactKind::Total, start, end);
        }
    }
    said
}

/// Whether it is said that there are none of these: `0 failed`, `Failures: 0`, `failed=0`.
fn is_none(bytes: &[u8], start: usize, end: usize) -> bool {
    let counted = number_before(bytes, start).map(|at| &bytes[at..start - 1]);
    let rest = bytes[end..].strip_prefix(b":").or_else(|| bytes[end..].strip_prefix(b"="));
    let rest = rest.map(|rest| rest.strip_prefix(b" ").unwrap_or(rest));
    let named = rest.is_some_and(|rest| {
        rest.first() == Some(&b'0') && rest.get(1).is_none_or(|byte| !is_word(*byte) && *byte != b'.')
    });
    counted == Some(b"0") || named
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Where the number before a noun starts: digits with commas, one space, the noun.
fn number_before(bytes: &[u8], noun: usize) -> Option<usize> {
    if noun < 2 || bytes[noun - 1] != b' ' || !bytes[noun - 2].is_ascii_digit() {
        return None;
    }
    let digits =
        bytes[..noun - 1].iter().rev().take(20).take_while(|byte| matches!(byte, b'0'..=b'9' | b',')).count();
    let mut start = noun - 1 - digits;
    while bytes[start] == b',' {
        start += 1;
    }
    let stands_alone = start == 0 || !is_word(bytes[start - 1]) && !goes_on_before(bytes, start);
    (start < noun - 1 && stands_alone).then_some(start)
}

/// Whether digits are the end of a longer number: of a time, a date, a decimal fraction or an address.
fn goes_on_before(bytes: &[u8], start: usize) -> bool {
    let joined = matches!(bytes[start - 1], b':' | b'.' | b'-' | b'/' | b'+');
    joined && start >= 2 && bytes[start - 2].is_ascii_digit()
}

/// The number that an exit status, written in one of the usual ways, names: `exit code 1`, `exited with 2`, `"exit_code": 0`.
fn status_after(line: &str, at: usize) -> Option<(usize, usize)> {
    let mut rest = line.get(at..)?;
    let skip = |rest: &mut &str, choices: &[&str]| {
        for choice in choices {
            if rest.get(..choice.len()).is_some_and(|start| start.eq_ignore_ascii_case(choice)) {
                *rest = &rest[choice.len()..];
                return;
            }
        }
    };
    skip(&mut rest, &["returncode", "exit_code\"", "exit_code", "exitcode\"", "exitcode", "exited", "exit"]);
    skip(&mut rest, &[" with"]);
    skip(&mut rest, &[" code", " status"]);
    let gap = rest.bytes().take_while(|byte| matches!(byte, b':' | b'=' | b' ' | b'>')).count();
    let digits = &rest[gap..];
    let number = digits.strip_prefix('-').unwrap_or(digits).bytes().take_while(u8::is_ascii_digit).count();
    if gap == 0 || number == 0 {
        return None;
    }
    let start = line.len() - digits.len();
    Some((start, start + number + usize::from(digits.starts_with('-'))))
}

/// Whether a status is called a status, and not just a number after a word (`exit 1` in a script is a line of code).
fn is_explicit(line: &str, at: usize) -> bool {
    let before = &line[..at];
    let tail = &before[before.char_indices().rev().nth(24).map_or(0, |(start, _)| start)..];
    ["code", "status", "returncode", "Exit", "exited"].iter().any(|word| tail.contains(word))
}

struct Scan<'a> {
    facts: Facts<'a>,
    errors: Distinct<'a>,
    warnings: Distinct<'a>,
    tests: Distinct<'a>,
    frames: Distinct<'a>,
    exits: Vec<Fact<'a>>,
    totals: Vec<Fact<'a>>,
    known_totals: HashSet<&'a str>,
    /// The innermost Python frame so far; the exception follows it.
    frame: Option<Line<'a>>,
    /// Lines left in which the first frame below an error may stand.
    awaits_frame: u8,
    /// The line after a Rust panic is its message.
    awaits_message: bool,
}

/// Texts with the same key are one fact.
struct Distinct<'a> {
    kind: FactKind,
    key: fn(&[u8]) -> ContentKey,
    by_key: ByContent<usize>,
    found: Vec<Fact<'a>>,
}

impl<'a> Distinct<'a> {
    fn new(kind: FactKind, key: fn(&[u8]) -> ContentKey) -> Self {
        Self { kind, key, by_key: ByContent::default(), found: Vec::new() }
    }

    fn add(&mut self, at: usize, text: &'a str) {
        let key = (self.key)(clip::start(text, 80).as_bytes());
        if let Some(index) = self.by_key.get(&key) {
            self.found[*index].times += 1;
        } else if self.found.len() < MOST_DISTINCT {
            self.by_key.insert(key, self.found.len());
            self.found.push(Fact { kind: self.kind, text: Cow::Borrowed(text), at, times: 1 });
        }
    }
}

/// A key of the whole text: two tests may differ in a digit.
fn key(text: &[u8]) -> ContentKey {
    ContentKey::of(0, text)
}

/// No more of a text than this makes its key.
const KEY_WIDTH: usize = 400;

/// A key that is the same for texts that differ in their digits only.
pub(crate) fn key_without_digits(text: &[u8]) -> ContentKey {
    // Runs are gathered and hashed at once: one by one would cost more than all the rest of the pass.
    let (mut bare, mut length) = ([0; KEY_WIDTH], 0);
    let mut push = |part: &[u8]| {
        let part = &part[..part.len().min(KEY_WIDTH - length)];
        bare[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    };
    let is_digit = |byte: Option<&u8>| [u8::from(byte.is_some_and(u8::is_ascii_digit))];
    push(&is_digit(text.first()));
    push(&is_digit(text.last()));
    for run in text.split(u8::is_ascii_digit).filter(|run| !run.is_empty()) {
        push(run);
        push(&[0xff]);
    }
    ContentKey::of(0, &bare[..length])
}

pub(super) fn scan(text: &str, breaks: Breaks) -> Facts<'_> {
    let mut scan = Scan {
        facts: Facts::default(),
        errors: Distinct::new(FactKind::Error, key_without_digits),
        warnings: Distinct::new(FactKind::Warning, key_without_digits),
        tests: Distinct::new(FactKind::Failing, key),
        frames: Distinct::new(FactKind::Frame, key_without_digits),
        exits: Vec::new(),
        totals: Vec::new(),
        known_totals: HashSet::new(),
        frame: None,
        awaits_frame: 0,
        awaits_message: false,
    };
    for line in Lines::new(text, breaks) {
        scan.line(line);
    }
    scan.finish(text)
}

impl<'a> Scan<'a> {
    fn line(&mut self, line: Line<'a>) {
        self.facts.lines += 1;
        let trimmed = line.trimmed();
        if trimmed.text.is_empty() {
            self.facts.blank += 1;
            return;
        }
        // Few lines have a count in them, so few are asked.
        let event = OnceCell::new();
        let is_event = || *event.get_or_init(|| log_line::is_event(line.text));
        let said = words(line.text, |kind, start, end| {
            let text = &line.text[start..end];
            let fact = Fact { kind, text: Cow::Borrowed(text), at: line.at + start, times: 1 };
            match kind {
                FactKind::Exit => {
                    if is_explicit(line.text, start) {
                        self.facts.exit = text.parse().ok();
                    }
                    if self.exits.len() < 3 && self.exits.iter().all(|known| known.text != text) {
                        self.exits.push(fact);
                    }
                }
                _ if is_event() => {}
                _ if self.known_totals.len() < MOST_DISTINCT && self.known_totals.insert(text) => {
                    self.totals.push(fact);
                }
                _ => {}
            }
        });
        self.report(trimmed, said);
        let first = trimmed.text.as_bytes()[0];
        if (said.fails || first >= 0x80 || matches!(first, 0x1b | b'n' | b'r'))
            && let Some(name) = failing(trimmed.text)
        {
            self.tests.add(line.at, name);
        }
        self.trace(trimmed, first);
    }

    fn report(&mut self, line: Line<'a>, said: Words) {
        let detail = line.text.starts_with("E  ") || std::mem::take(&mut self.awaits_message);
        if said.error || detail {
            self.facts.error_lines += usize::from(said.error);
            if line.text.len() >= 8 {
                self.errors.add(line.at, line.text);
            }
            if let Some(frame) = self.frame.take() {
                self.frames.add(frame.at, frame.text);
            }
            self.awaits_frame = 3;
            self.awaits_message = line.text.contains("panicked at ");
        } else if said.warning {
            self.facts.warning_lines += 1;
            if line.text.len() >= 8 {
                self.warnings.add(line.at, line.text);
            }
        }
    }

    fn trace(&mut self, line: Line<'a>, first: u8) {
        match first {
            b'F' if line.text.starts_with("File \"") => self.frame = Some(line),
            b'a' if self.awaits_frame > 0 && line.text.starts_with("at ") => {
                self.awaits_frame = 0;
                self.frames.add(line.at, line.text);
            }
            _ => self.awaits_frame = self.awaits_frame.saturating_sub(1),
        }
    }

    fn finish(mut self, text: &'a str) -> Facts<'a> {
        let lines = self.facts.full_lines().to_string();
        let counted = |kind, text: String| Fact { kind, text: Cow::Owned(text), at: 0, times: 1 };
        let found = &mut self.facts.found;
        found.push(counted(FactKind::Lines, lines));
        found.append(&mut self.exits);
        let late = self.totals.len().saturating_sub(MOST_TOTALS);
        found.extend(self.totals.drain(late..));
        for distinct in [&mut self.errors, &mut self.warnings, &mut self.tests, &mut self.frames] {
            found.append(&mut distinct.found);
        }
        if let Some(document) = Document::read(text) {
            let root = &document.root;
            let record = if root.kinds.list { root.items.as_deref() } else { Some(root) };
            if root.kinds.list {
                found.push(counted(FactKind::Length, root.count.to_string()));
            }
            let ids = root.values.iter().filter(|_| root.kinds.map).map(|(key, _)| *key);
            let keys = record.into_iter().flat_map(|node| &node.fields).map(|(key, _)| *key).chain(ids);
            found.extend(keys.take(MOST_NAMES).map(|key| name_fact(text, FactKind::Key, key)));
        } else {
            found.extend(columns(text).into_iter().map(|name| name_fact(text, FactKind::Column, name)));
        }
        self.facts
    }
}

fn name_fact<'a>(text: &'a str, kind: FactKind, name: &'a str) -> Fact<'a> {
    Fact { kind, text: Cow::Borrowed(name), at: name.as_ptr() as usize - text.as_ptr() as usize, times: 1 }
}

/// The column names of a text that is separated by commas or tabs: most of the first lines have as many as the first.
pub(crate) fn columns(text: &str) -> Vec<&str> {
    let mut lines =
        Lines::new(text, Breaks::Newline).map(|line| line.text).skip_while(|line| line.trim().is_empty());
    let Some(head) = lines.next() else { return Vec::new() };
    for separator in [b',', b'\t'] {
        let count = |line: &str| memchr::memchr_iter(separator, line.as_bytes()).count();
        let of_head = count(head);
        if of_head >= 2 && lines.clone().take(19).filter(|line| count(line) == of_head).count() >= 12 {
            let names = head.split(separator as char).map(|name| name.trim().trim_matches('"'));
            return names.filter(|name| !name.is_empty()).take(MOST_NAMES).collect();
        }
    }
    Vec::new()
}
