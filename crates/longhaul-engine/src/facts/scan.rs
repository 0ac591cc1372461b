//! Collects facts in one pass over the lines of a text. Lines without a signal word are cheap.

use super::failing_test::failing_test_name;
use super::log_line;
use super::{Fact, FactKind, Facts};
use crate::block_cache::{ContentKey, ContentMap};
use crate::lines::{Line, LineBreak, Lines};
use crate::shape::Document;
use crate::truncate;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The maximum number of distinct facts of one kind. More are counted as lines but not kept.
pub(crate) const MAX_DISTINCT_FACTS: usize = 4096;
/// The maximum number of totals that are kept. The last ones are kept, because totals are at the end of an
/// output.
const MAX_TOTALS: usize = 12;
/// The maximum number of keys or columns that are facts.
const MAX_NAMES: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    Error,
    /// An error word that may also follow a number: `3 failed`.
    CountedError,
    Warning,
    Exit,
    Counted,
    /// The word `changed`, as in `2 files changed`.
    Changed,
}

/// The words that make a line worth reading.
const SIGNAL_WORDS: [(WordKind, &[&str]); 6] = [
    (WordKind::CountedError, &["error", "failed"]),
    (WordKind::Error, &["failure", "fatal", "exception", "panicked", "traceback", "assertion", "npm err!"]),
    (WordKind::Warning, &["warn", "must be replaced", "will be destroyed"]),
    (WordKind::Exit, &["exit", "returncode"]),
    (WordKind::Changed, &["changed"]),
    (WordKind::Counted, COUNTED_WORDS),
];
/// The nouns and results that a number before them counts.
const COUNTED_WORDS: &[&str] = &[
    "xfailed",
    "passed",
    "skipped",
    "test",
    "insertion",
    "deletion",
    "row",
    "matches",
    "problem",
    "suite",
    "fail",
    "failing",
    "passing",
];

/// One automaton for all signal words, and the kind of each.
static WORD_FINDER: LazyLock<Option<(AhoCorasick, Vec<WordKind>)>> = LazyLock::new(|| {
    let words = || SIGNAL_WORDS.iter().flat_map(|(kind, words)| words.iter().map(move |word| (*kind, *word)));
    let finder = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(words().map(|(_, word)| word))
        .ok()?;
    Some((finder, words().map(|(kind, _)| kind).collect()))
});

/// The signals that the words of one line give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineSignals {
    /// Whether the line reports an error.
    pub error: bool,
    /// Whether the line reports a warning.
    pub warning: bool,
    /// Whether the line contains a word for failure, even as a part of another word.
    mentions_failure: bool,
}

impl LineSignals {
    /// Reads the words of a line.
    #[must_use]
    pub fn scan(line: &str) -> Self {
        scan_words(line, |_, _, _| {})
    }
}

/// Reads the words of a line. Calls `found` with the kind and the byte range of each total and exit status.
fn scan_words(line: &str, mut found: impl FnMut(FactKind, usize, usize)) -> LineSignals {
    let mut said = LineSignals::default();
    let bytes = line.as_bytes();
    let Some((finder, kinds)) = WORD_FINDER.as_ref() else { return said };
    for hit in finder.find_iter(line) {
        let word = kinds[hit.pattern().as_usize()];
        let begins = hit.start() == 0 || !is_word_byte(bytes[hit.start() - 1]);
        let end = hit.end() + usize::from(bytes.get(hit.end()).is_some_and(|b| matches!(b, b's' | b'S')));
        let ends = bytes.get(end).is_none_or(|byte| !is_word_byte(*byte));
        match word {
            WordKind::Error | WordKind::CountedError => {
                said.mentions_failure = true;
                let thrown = !begins
                    && bytes[hit.start()].is_ascii_uppercase()
                    && matches!(bytes.get(hit.end()), None | Some(b':'));
                said.error |= ends && (begins || thrown) && !is_zero_count(bytes, hit.start(), end);
            }
            WordKind::Warning => {
                let end = if bytes[hit.end()..].get(..3).is_some_and(|ing| ing.eq_ignore_ascii_case(b"ing")) {
                    hit.end() + 3
                } else {
                    hit.end()
                };
                let ends = bytes.get(end).is_none_or(|byte| !is_word_byte(*byte));
                let raised = !begins && bytes[hit.start()].is_ascii_uppercase() && bytes.get(end) == Some(&b':');
                said.warning |= ends && (begins || raised);
                if let Some(start) = number_before(bytes, hit.start()) {
                    let end = end + usize::from(bytes.get(end) == Some(&b's'));
                    found(FactKind::Total, start, end);
                }
            }
            WordKind::Exit => {
                if let Some((start, end)) = exit_status_after(line, hit.start()) {
                    found(FactKind::ExitStatus, start, end);
                }
            }
            WordKind::Counted | WordKind::Changed => {
                said.mentions_failure |= bytes[hit.start()].eq_ignore_ascii_case(&b'f');
            }
        }
        let noun = match word {
            WordKind::Changed => ["file ", "files "]
                .into_iter()
                .find_map(|noun| line.get(..hit.start())?.ends_with(noun).then(|| hit.start() - noun.len())),
            WordKind::CountedError | WordKind::Counted => Some(hit.start()),
            _ => None,
        };
        if let Some(start) = noun.filter(|_| ends).and_then(|noun| number_before(bytes, noun)) {
            found(FactKind::Total, start, end);
        }
    }
    said
}

/// Whether the line says that the count is zero: `0 failed`, `Failures: 0`, `failed=0`.
fn is_zero_count(bytes: &[u8], start: usize, end: usize) -> bool {
    let counted = number_before(bytes, start).map(|at| &bytes[at..start - 1]);
    let rest = bytes[end..].strip_prefix(b":").or_else(|| bytes[end..].strip_prefix(b"="));
    let rest = rest.map(|rest| rest.strip_prefix(b" ").unwrap_or(rest));
    let named = rest.is_some_and(|rest| {
        rest.first() == Some(&b'0') && rest.get(1).is_none_or(|byte| !is_word_byte(*byte) && *byte != b'.')
    });
    counted == Some(b"0") || named
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns where the number before a noun starts. The number has digits and commas, and one space follows it.
fn number_before(bytes: &[u8], noun: usize) -> Option<usize> {
    if noun < 2 || bytes[noun - 1] != b' ' || !bytes[noun - 2].is_ascii_digit() {
        return None;
    }
    let digits = bytes[..noun - 1].iter().rev().take(20).take_while(|byte| matches!(byte, b'0'..=b'9' | b',')).count();
    let mut start = noun - 1 - digits;
    while bytes[start] == b',' {
        start += 1;
    }
    let stands_alone = start == 0 || !is_word_byte(bytes[start - 1]) && !continues_number(bytes, start);
    (start < noun - 1 && stands_alone).then_some(start)
}

/// Whether the digits at `start` are the end of a longer number: of a time, a date, a decimal fraction or an
/// address.
fn continues_number(bytes: &[u8], start: usize) -> bool {
    let joined = matches!(bytes[start - 1], b':' | b'.' | b'-' | b'/' | b'+');
    joined && start >= 2 && bytes[start - 2].is_ascii_digit()
}

/// Returns the byte range of the exit status that begins with a word at `at`: `exit code 1`, `exited with 2`,
/// `"exit_code": 0`.
fn exit_status_after(line: &str, at: usize) -> Option<(usize, usize)> {
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

/// Whether a number is called an exit status. The number in `exit 1` may be a line of a script.
fn is_called_status(line: &str, at: usize) -> bool {
    let before = &line[..at];
    let tail = &before[before.char_indices().rev().nth(24).map_or(0, |(start, _)| start)..];
    ["code", "status", "returncode", "Exit", "exited"].iter().any(|word| tail.contains(word))
}

struct FactScan<'a> {
    facts: Facts<'a>,
    errors: DistinctFacts<'a>,
    warnings: DistinctFacts<'a>,
    tests: DistinctFacts<'a>,
    frames: DistinctFacts<'a>,
    exits: Vec<Fact<'a>>,
    totals: Vec<Fact<'a>>,
    known_totals: HashSet<&'a str>,
    /// The innermost Python stack frame so far. The exception is on a line below it.
    python_frame: Option<Line<'a>>,
    /// The number of following lines in which the first stack frame below an error may be.
    frame_lines_left: u8,
    /// Whether the next line is the message of a Rust panic.
    awaits_message: bool,
}

/// Collects facts of one kind. Texts with the same key are one fact.
struct DistinctFacts<'a> {
    kind: FactKind,
    key: fn(&[u8]) -> ContentKey,
    by_key: ContentMap<usize>,
    found: Vec<Fact<'a>>,
}

impl<'a> DistinctFacts<'a> {
    fn new(kind: FactKind, key: fn(&[u8]) -> ContentKey) -> Self {
        Self { kind, key, by_key: ContentMap::default(), found: Vec::new() }
    }

    fn add(&mut self, at: usize, text: &'a str) {
        let key = (self.key)(truncate::first_chars(text, 80).as_bytes());
        if let Some(index) = self.by_key.get(&key) {
            self.found[*index].count += 1;
        } else if self.found.len() < MAX_DISTINCT_FACTS {
            self.by_key.insert(key, self.found.len());
            self.found.push(Fact { kind: self.kind, text: Cow::Borrowed(text), at, count: 1 });
        }
    }
}

/// Returns a key of the whole text, because the names of two tests may differ in a digit.
fn exact_key(text: &[u8]) -> ContentKey {
    ContentKey::new(0, text)
}

/// The maximum number of bytes of a text that are part of its key.
const MAX_KEY_BYTES: usize = 400;

/// Returns a key that is the same for texts that differ only in their digits.
pub(crate) fn key_without_digits(text: &[u8]) -> ContentKey {
    // The runs between digits are collected and hashed at once. Hashing them one by one would cost more than
    // the rest of the scan.
    let (mut bare, mut length) = ([0; MAX_KEY_BYTES], 0);
    let mut push = |part: &[u8]| {
        let part = &part[..part.len().min(MAX_KEY_BYTES - length)];
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
    ContentKey::new(0, &bare[..length])
}

pub(super) fn scan_facts(text: &str, breaks: LineBreak) -> Facts<'_> {
    let mut scan = FactScan {
        facts: Facts::default(),
        errors: DistinctFacts::new(FactKind::Error, key_without_digits),
        warnings: DistinctFacts::new(FactKind::Warning, key_without_digits),
        tests: DistinctFacts::new(FactKind::FailingTest, exact_key),
        frames: DistinctFacts::new(FactKind::StackFrame, key_without_digits),
        exits: Vec::new(),
        totals: Vec::new(),
        known_totals: HashSet::new(),
        python_frame: None,
        frame_lines_left: 0,
        awaits_message: false,
    };
    for line in Lines::new(text, breaks) {
        scan.read_line(line);
    }
    scan.finish(text)
}

impl<'a> FactScan<'a> {
    fn read_line(&mut self, line: Line<'a>) {
        self.facts.lines += 1;
        let trimmed = line.trimmed();
        if trimmed.text.is_empty() {
            self.facts.blank_lines += 1;
            return;
        }
        // Few lines contain a count, so the test for a log event runs only when needed.
        let event = OnceCell::new();
        let is_event = || *event.get_or_init(|| log_line::is_log_event(line.text));
        let said = scan_words(line.text, |kind, start, end| {
            let text = &line.text[start..end];
            let fact = Fact { kind, text: Cow::Borrowed(text), at: line.offset + start, count: 1 };
            match kind {
                FactKind::ExitStatus => {
                    if is_called_status(line.text, start) {
                        self.facts.exit_status = text.parse().ok();
                    }
                    if self.exits.len() < 3 && self.exits.iter().all(|exit| exit.text != text) {
                        self.exits.push(fact);
                    }
                }
                _ if is_event() => {}
                _ if self.known_totals.len() < MAX_DISTINCT_FACTS && self.known_totals.insert(text) => {
                    self.totals.push(fact);
                }
                _ => {}
            }
        });
        self.note_report(trimmed, said);
        let first = trimmed.text.as_bytes()[0];
        if (said.mentions_failure || first >= 0x80 || matches!(first, 0x1b | b'n' | b'r'))
            && let Some(name) = failing_test_name(trimmed.text)
        {
            self.tests.add(line.offset, name);
        }
        self.note_frame(trimmed, first);
    }

    fn note_report(&mut self, line: Line<'a>, said: LineSignals) {
        let detail = line.text.starts_with("E  ") || std::mem::take(&mut self.awaits_message);
        if said.error || detail {
            self.facts.error_lines += usize::from(said.error);
            if line.text.len() >= 8 {
                self.errors.add(line.offset, line.text);
            }
            if let Some(frame) = self.python_frame.take() {
                self.frames.add(frame.offset, frame.text);
            }
            self.frame_lines_left = 3;
            self.awaits_message = line.text.contains("panicked at ");
        } else if said.warning {
            self.facts.warning_lines += 1;
            if line.text.len() >= 8 {
                self.warnings.add(line.offset, line.text);
            }
        }
    }

    fn note_frame(&mut self, line: Line<'a>, first: u8) {
        match first {
            b'F' if line.text.starts_with("File \"") => self.python_frame = Some(line),
            b'a' if self.frame_lines_left > 0 && line.text.starts_with("at ") => {
                self.frame_lines_left = 0;
                self.frames.add(line.offset, line.text);
            }
            _ => self.frame_lines_left = self.frame_lines_left.saturating_sub(1),
        }
    }

    fn finish(mut self, text: &'a str) -> Facts<'a> {
        let lines = self.facts.nonblank_lines().to_string();
        let counted = |kind, text: String| Fact { kind, text: Cow::Owned(text), at: 0, count: 1 };
        let found = &mut self.facts.all;
        found.push(counted(FactKind::LineCount, lines));
        found.append(&mut self.exits);
        let late = self.totals.len().saturating_sub(MAX_TOTALS);
        found.extend(self.totals.drain(late..));
        for distinct in [&mut self.errors, &mut self.warnings, &mut self.tests, &mut self.frames] {
            found.append(&mut distinct.found);
        }
        if let Some(document) = Document::parse(text) {
            let root = &document.root;
            let record = if root.kinds.list { root.items.as_deref() } else { Some(root) };
            if root.kinds.list {
                found.push(counted(FactKind::ListLength, root.item_count.to_string()));
            }
            let ids = root.values.iter().filter(|_| root.kinds.map).map(|(key, _)| *key);
            let keys = record.into_iter().flat_map(|node| &node.fields).map(|(key, _)| *key).chain(ids);
            found.extend(keys.take(MAX_NAMES).map(|key| name_fact(text, FactKind::Key, key)));
        } else {
            found.extend(column_names(text).into_iter().map(|name| name_fact(text, FactKind::Column, name)));
        }
        self.facts
    }
}

fn name_fact<'a>(text: &'a str, kind: FactKind, name: &'a str) -> Fact<'a> {
    Fact { kind, text: Cow::Borrowed(name), at: name.as_ptr() as usize - text.as_ptr() as usize, count: 1 }
}

/// Returns the column names of a text that is separated by commas or tabs. Of the next 19 lines, at least 12
/// must have as many separators as the first.
pub(crate) fn column_names(text: &str) -> Vec<&str> {
    let mut lines =
        Lines::new(text, LineBreak::Newline).map(|line| line.text).skip_while(|line| line.trim().is_empty());
    let Some(head) = lines.next() else { return Vec::new() };
    for separator in [b',', b'\t'] {
        let count = |line: &str| memchr::memchr_iter(separator, line.as_bytes()).count();
        let of_head = count(head);
        if of_head >= 2 && lines.clone().take(19).filter(|line| count(line) == of_head).count() >= 12 {
            let names = head.split(separator as char).map(|name| name.trim().trim_matches('"'));
            return names.filter(|name| !name.is_empty()).take(MAX_NAMES).collect();
        }
    }
    Vec::new()
}
