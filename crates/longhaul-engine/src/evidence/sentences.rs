//! Splits a text into the sentences that its author wrote. Code, quotes, pasted output and tagged sections
//! are left out.
//!
//! Rules, requests and questions are read only from these sentences, so a pasted log line with "always" is
//! not a rule.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::lines::{Line, LineBreak, Lines};

use super::weights::{CODE_BYTES_PER_SYMBOL, MAX_SENTENCE_BYTES, MIN_WRAPPED_LINE_BYTES};
use super::words::{Cue, Cues, EVIDENCE_WORDS};

/// A sentence, with the kind of paragraph that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sentence<'a> {
    pub(super) text: &'a str,
    pub(super) place: SentencePlace,
}

/// The kind of paragraph that a sentence is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentencePlace {
    Paragraph,
    ListItem,
    Heading,
}

impl<'a> Sentence<'a> {
    /// Returns the sentence with its line breaks replaced by spaces.
    pub(super) fn on_one_line(self) -> Cow<'a, str> {
        if self.text.contains('\n') {
            Cow::Owned(self.text.split_whitespace().collect::<Vec<_>>().join(" "))
        } else {
            Cow::Borrowed(self.text)
        }
    }

    /// Returns whether the sentence ends with a colon and so introduces the text below it.
    pub(super) fn ends_with_colon(self) -> bool {
        self.text.trim_end_matches(['*', '_', ' ']).ends_with([':', '：'])
    }
}

/// Returns whether a text ends like a question, also in Chinese, Japanese and Arabic.
pub(super) fn is_question(text: &str) -> bool {
    let text = text.trim_end_matches(['"', '\'', ')', '*', '_', '”', '」', '»', ' ', '\n']);
    ["?", "？", "か。", "吗。", "呢。", "؟"].iter().any(|end| text.ends_with(end))
}

/// Returns the sentences that the author of a text wrote, in order.
pub(super) fn split_sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Paragraph> = None;
    for line in own_lines(text) {
        let Some(line) = line else {
            close_paragraph(text, &mut open, &mut found);
            continue;
        };
        let words = line.trimmed();
        let bare = strip_bullet(words.text);
        let is_item = bare.len() < words.text.len();
        let goes_on = open.is_some_and(|paragraph| {
            let before = &text[paragraph.start..paragraph.end];
            !is_item && !ends_sentence(before) && last_line(before).len() >= MIN_WRAPPED_LINE_BYTES
        });
        if !goes_on {
            close_paragraph(text, &mut open, &mut found);
        }
        let start = words.offset + words.text.len() - bare.len();
        let end = words.offset + words.text.len();
        let paragraph = open.unwrap_or(Paragraph { start, end, place: place_of_line(words.text, bare) });
        open = Some(Paragraph { end, ..paragraph });
    }
    close_paragraph(text, &mut open, &mut found);
    found
}

/// The byte range of lines that form one paragraph.
#[derive(Clone, Copy)]
struct Paragraph {
    start: usize,
    end: usize,
    place: SentencePlace,
}

fn close_paragraph<'a>(text: &'a str, open: &mut Option<Paragraph>, found: &mut Vec<Sentence<'a>>) {
    let Some(Paragraph { start, end, place }) = open.take() else { return };
    let paragraph = &text[start..end];
    // JSON in a paragraph shows that it was pasted, however its lines are broken.
    if !paragraph.contains("{\"") && !paragraph.contains("\":") {
        split_paragraph(paragraph, place, found);
    }
}

fn place_of_line(line: &str, bare: &str) -> SentencePlace {
    let is_bold = line.starts_with("**") && line.ends_with("**");
    match line.as_bytes() {
        [b'#', ..] => SentencePlace::Heading,
        _ if is_bold => SentencePlace::Heading,
        _ if bare.len() < line.len() => SentencePlace::ListItem,
        _ => SentencePlace::Paragraph,
    }
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}

fn ends_sentence(text: &str) -> bool {
    text.ends_with(['.', '!', '?', ':', '。', '！', '？', '：', '…'])
}

/// Returns the author's own lines. `None` marks a line that was left out or the end of a paragraph.
fn own_lines(text: &str) -> Vec<Option<Line<'_>>> {
    let sections = TagSections::scan(text);
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    let mut skip_to = 0;
    for line in Lines::new(text, LineBreak::Newline) {
        if line.offset < skip_to {
            continue;
        }
        let trimmed = line.trimmed();
        if let Some(mark) = fence {
            if trimmed.text.starts_with(mark) {
                fence = None;
            }
            lines.push(None);
            continue;
        }
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.text.starts_with(mark)) {
            // A fence that is closed on the same line does not reach the next line.
            fence = (!trimmed.text[3..].contains(mark)).then_some(mark);
            lines.push(None);
            continue;
        }
        if let Some(end) = end_of_pem_block(text, line).or_else(|| sections.end_of_section(trimmed)) {
            skip_to = end;
            lines.push(None);
            continue;
        }
        let own = !trimmed.text.is_empty() && !is_pasted(line.text) && !is_bare_tag(trimmed.text);
        lines.push(own.then_some(line));
    }
    lines
}

/// Returns where a PEM key or certificate that starts in this line ends. It is skipped as a whole, because a
/// single line of it is not recognizable.
fn end_of_pem_block(text: &str, line: Line<'_>) -> Option<usize> {
    const OPEN: &str = "-----BEGIN ";
    const CLOSE: &str = "-----END ";
    line.text
        .contains(OPEN)
        .then(|| text[line.offset..].find(CLOSE).map_or(text.len(), |end| line.offset + end + CLOSE.len()))
}

/// The closing tags of a text. A section in tags is material for the model, not the author's words, unless
/// its tag is one that wraps a person's words.
struct TagSections<'a> {
    ends_by_name: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> TagSections<'a> {
    fn scan(text: &'a str) -> Self {
        let mut closers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in memchr::memmem::find_iter(text.as_bytes(), b"</") {
            let rest = &text[at + 2..];
            let name = &rest[..rest.bytes().take_while(|byte| is_tag_name_byte(*byte)).count()];
            if rest[name.len()..].starts_with('>') && !name.is_empty() {
                closers.entry(name).or_default().push(at + 2 + name.len() + 1);
            }
        }
        Self { ends_by_name: closers }
    }

    /// Returns where the section that this line opens ends.
    fn end_of_section(&self, line: Line<'_>) -> Option<usize> {
        let rest = line.text.strip_prefix('<')?;
        let name = &rest[..rest.bytes().take_while(|byte| is_tag_name_byte(*byte)).count()];
        let opens = !name.is_empty() && rest[name.len()..].starts_with(['>', ' ', '\t', '\n']);
        if !opens || EVIDENCE_WORDS.own_tags.iter().any(|tag| tag == name) {
            return None;
        }
        let ends = self.ends_by_name.get(name)?;
        ends.get(ends.partition_point(|end| *end <= line.offset)).copied()
    }
}

fn is_tag_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')
}

/// Returns whether a line consists of a single tag.
fn is_bare_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line.contains(' ')
}

/// Returns whether a line is a quote, code, or the output of a program.
fn is_pasted(line: &str) -> bool {
    let text = line.trim();
    let indented = line.starts_with("    ") || line.starts_with('\t');
    let is_item = strip_bullet(text).len() < text.len();
    if indented && !is_item {
        return true;
    }
    let first = text.as_bytes().first().copied().unwrap_or(b' ');
    let last = text.as_bytes().last().copied().unwrap_or(b' ');
    let opener = matches!(first, b'>' | b'$' | b'{' | b'}' | b'[' | b'|' | b'/' | b'+' | b'%' | b'@' | b'\\')
        // A sentence may start with the name of a file or a command.
        && !(matches!(first, b'/' | b'@' | b'[') && text.contains(' ') && !matches!(last, b';' | b'{' | b'}' | b']'));
    opener || matches!(last, b';' | b'{' | b'}') || is_program_output(text) || is_code(text)
}

/// Returns whether a line starts like the output of a logger, a stack trace or a test runner.
fn is_program_output(text: &str) -> bool {
    let starts = |start: &String| {
        text.starts_with(start.as_str())
            && (start != "at " || text.ends_with(')'))
            && (start != "index " || text.contains(".."))
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let stamped = digits >= 2
        && text.as_bytes().get(digits).is_some_and(|byte| matches!(byte, b':' | b'-' | b'/'))
        && text.as_bytes().get(digits + 1).is_some_and(u8::is_ascii_digit);
    stamped || EVIDENCE_WORDS.output_starts.iter().any(starts)
}

/// Returns whether a line starts like code, or has more punctuation of code than prose has.
fn is_code(text: &str) -> bool {
    let opens = EVIDENCE_WORDS.code_starts.iter().any(|start| text.starts_with(start.as_str()));
    let is_symbol =
        |byte: &u8| matches!(byte, b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'=' | b';' | b'<' | b'>' | b'\\' | b'|');
    let symbols = text.bytes().filter(is_symbol).count();
    (opens && symbols > 0)
        || text.starts_with("//")
        || text.starts_with("#!")
        || symbols * CODE_BYTES_PER_SYMBOL > text.len()
}

/// Returns a list item or heading without its bullet, number, `#` characters or check box.
pub(super) fn strip_bullet(text: &str) -> &str {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match text.as_bytes() {
        [b'-' | b'*' | b'+', b' ', ..] => 1,
        [b'#', ..] => text.bytes().take_while(|byte| *byte == b'#').count(),
        _ if text.starts_with('•') => '•'.len_utf8(),
        [..] if (1..=3).contains(&digits) && matches!(text.as_bytes().get(digits), Some(b'.' | b')')) => digits + 1,
        _ => return text,
    };
    let rest = &text[mark..];
    let bare = rest.trim_start();
    if bare.len() == rest.len() && !bare.is_empty() {
        return text;
    }
    for checkbox in ["[ ] ", "[x] ", "[X] "] {
        if let Some(bare) = bare.strip_prefix(checkbox) {
            return bare;
        }
    }
    bare
}

/// Splits a paragraph into its sentences.
fn split_paragraph<'a>(paragraph: &'a str, place: SentencePlace, found: &mut Vec<Sentence<'a>>) {
    let mut start = 0;
    for end in sentence_ends(paragraph) {
        push_sentence(&paragraph[start..end], place, found);
        start = end;
    }
}

/// Returns where the sentences of a paragraph end, each with the white space behind it. The last one ends with the
/// text. A full stop inside code, an abbreviation or a number ends no sentence.
pub(crate) fn sentence_ends(paragraph: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let (mut start, mut in_code) = (0, false);
    let mut rest = paragraph.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        in_code ^= character == '`';
        let is_wide_stop = matches!(character, '。' | '！' | '？');
        let may_end = matches!(character, '.' | '!' | '?' | '…') && !in_code;
        if !(is_wide_stop || may_end) {
            continue;
        }
        let mut end = at + character.len_utf8();
        while let Some((_, next)) = rest.next_if(|(_, next)| {
            matches!(next, '.' | '!' | '?' | '？' | '！' | '。' | ')' | '"' | '”' | '»' | '」' | '*' | '_')
        }) {
            end += next.len_utf8();
        }
        let followed = rest.peek().is_none_or(|(_, next)| next.is_whitespace());
        if (is_wide_stop || followed) && !ends_in_abbreviation(&paragraph[start..end]) {
            while let Some((_, blank)) = rest.next_if(|(_, next)| next.is_whitespace()) {
                end += blank.len_utf8();
            }
            ends.push(end);
            start = end;
        }
    }
    if ends.last() != Some(&paragraph.len()) && !paragraph.is_empty() {
        ends.push(paragraph.len());
    }
    ends
}

/// Returns whether a sentence starts with a word that refers to the sentence before it ("that", "but", "it").
pub(crate) fn depends_on_sentence_before(sentence: &str) -> bool {
    let cues = Cues::scan(sentence);
    cues.starts_with(Cue::Dependent) || cues.starts_with(Cue::Correction)
}

fn push_sentence<'a>(text: &'a str, place: SentencePlace, found: &mut Vec<Sentence<'a>>) {
    let text = text.trim();
    if text.chars().any(char::is_alphanumeric) && text.len() <= MAX_SENTENCE_BYTES {
        found.push(Sentence { text, place });
    }
}

/// Returns whether the full stop at the end of this text belongs to an abbreviation or to the number of a
/// list item.
pub(crate) fn ends_in_abbreviation(text: &str) -> bool {
    let Some(bare) = text.strip_suffix('.') else { return false };
    let word = bare.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or(bare);
    let is_number =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) && word.len() == bare.trim().len();
    is_number || EVIDENCE_WORDS.abbreviations.iter().any(|abbreviation| abbreviation.eq_ignore_ascii_case(word))
}
