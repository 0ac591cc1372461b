//! A text as the sentences that its speaker means: what is pasted, quoted or fenced is somebody else's.
//!
//! Rules, requests and questions are read from these sentences alone, so a log that says "always" is no rule.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::lines::{Breaks, Line, Lines};

use super::words::TABLE;

/// A line that does not end a sentence and is at least this long was broken by an editor, not by its writer.
const WRAPPED: usize = 60;

/// A sentence longer than this was not said.
const LONGEST: usize = 1_000;

/// What was said between two full stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sentence<'a> {
    pub(super) text: &'a str,
    pub(super) place: Place,
}

/// Where a sentence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Paragraph,
    Item,
    Heading,
}

impl<'a> Sentence<'a> {
    /// The words on one line.
    pub(super) fn on_one_line(self) -> Cow<'a, str> {
        if self.text.contains('\n') {
            Cow::Owned(self.text.split_whitespace().collect::<Vec<_>>().join(" "))
        } else {
            Cow::Borrowed(self.text)
        }
    }

    /// Whether it leads to what stands below it.
    pub(super) fn leads(self) -> bool {
        self.text.trim_end_matches(['*', '_', ' ']).ends_with([':', '：'])
    }
}

/// Whether a text asks something.
pub(super) fn is_question(text: &str) -> bool {
    let text = text.trim_end_matches(['"', '\'', ')', '*', '_', '”', '」', '»', ' ', '\n']);
    ["?", "？", "か。", "吗。", "呢。", "؟"].iter().any(|end| text.ends_with(end))
}

/// The sentences that the writer of a text means, in order.
pub(super) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Paragraph> = None;
    for line in own_lines(text) {
        let Some(line) = line else {
            flush(text, &mut open, &mut found);
            continue;
        };
        let words = line.trimmed();
        let bare = without_bullet(words.text);
        let is_item = bare.len() < words.text.len();
        let goes_on = open.is_some_and(|paragraph| {
            let before = &text[paragraph.start..paragraph.end];
            !is_item && !ends_sentence(before) && last_line(before).len() >= WRAPPED
        });
        if !goes_on {
            flush(text, &mut open, &mut found);
        }
        let start = words.at + words.text.len() - bare.len();
        let end = words.at + words.text.len();
        let paragraph = open.unwrap_or(Paragraph { start, end, place: place(words.text, bare) });
        open = Some(Paragraph { end, ..paragraph });
    }
    flush(text, &mut open, &mut found);
    found
}

/// Lines that belong together, by their bytes.
#[derive(Clone, Copy)]
struct Paragraph {
    start: usize,
    end: usize,
    place: Place,
}

fn flush<'a>(text: &'a str, open: &mut Option<Paragraph>, found: &mut Vec<Sentence<'a>>) {
    let Some(Paragraph { start, end, place }) = open.take() else { return };
    let paragraph = &text[start..end];
    // A paragraph with a piece of JSON in it was pasted, however its lines were broken.
    if !paragraph.contains("{\"") && !paragraph.contains("\":") {
        split(paragraph, place, found);
    }
}

fn place(line: &str, bare: &str) -> Place {
    let is_bold = line.starts_with("**") && line.ends_with("**");
    match line.as_bytes() {
        [b'#', ..] => Place::Heading,
        _ if is_bold => Place::Heading,
        _ if bare.len() < line.len() => Place::Item,
        _ => Place::Paragraph,
    }
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}

fn ends_sentence(text: &str) -> bool {
    text.ends_with(['.', '!', '?', ':', '。', '！', '？', '：', '…'])
}

/// The lines that are the writer's own, with a gap where others were left out or a paragraph ends.
fn own_lines(text: &str) -> Vec<Option<Line<'_>>> {
    let sections = Sections::of(text);
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    let mut skip_to = 0;
    for line in Lines::new(text, Breaks::Newline) {
        if line.at < skip_to {
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
            // A fence that opens and closes on one line holds nothing of the next.
            fence = (!trimmed.text[3..].contains(mark)).then_some(mark);
            lines.push(None);
            continue;
        }
        if let Some(end) = end_of_key(text, line) {
            skip_to = end;
            lines.push(None);
            continue;
        }
        if let Some(end) = sections.end_of_material(trimmed) {
            skip_to = end;
            lines.push(None);
            continue;
        }
        let own = !trimmed.text.is_empty() && !is_pasted(line.text) && !is_bare_tag(trimmed.text);
        lines.push(own.then_some(line));
    }
    lines
}

/// Where a key or certificate ends that begins in this line: a line of it by itself would not be known for one.
fn end_of_key(text: &str, line: Line<'_>) -> Option<usize> {
    const OPEN: &str = "-----BEGIN ";
    const CLOSE: &str = "-----END ";
    line.text
        .contains(OPEN)
        .then(|| text[line.at..].find(CLOSE).map_or(text.len(), |end| line.at + end + CLOSE.len()))
}

/// Where tags close: a section in tags is material that was put before the model, unless the tag is one that wraps a
/// person's words.
struct Sections<'a> {
    closers: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Sections<'a> {
    fn of(text: &'a str) -> Self {
        let mut closers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in memchr::memmem::find_iter(text.as_bytes(), b"</") {
            let rest = &text[at + 2..];
            let name = &rest[..rest.bytes().take_while(|byte| is_name(*byte)).count()];
            if rest[name.len()..].starts_with('>') && !name.is_empty() {
                closers.entry(name).or_default().push(at + 2 + name.len() + 1);
            }
        }
        Self { closers }
    }

    /// Where the section that this line opens ends.
    fn end_of_material(&self, line: Line<'_>) -> Option<usize> {
        let rest = line.text.strip_prefix('<')?;
        let name = &rest[..rest.bytes().take_while(|byte| is_name(*byte)).count()];
        let opens = !name.is_empty() && rest[name.len()..].starts_with(['>', ' ', '\t', '\n']);
        if !opens || TABLE.own_tags.iter().any(|tag| tag == name) {
            return None;
        }
        let ends = self.closers.get(name)?;
        ends.get(ends.partition_point(|end| *end <= line.at)).copied()
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')
}

/// A tag alone on its line says nothing itself.
fn is_bare_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line.contains(' ')
}

/// Whether a line is quoted, code, or a program's output.
fn is_pasted(line: &str) -> bool {
    let text = line.trim();
    let indented = line.starts_with("    ") || line.starts_with('\t');
    let is_item = without_bullet(text).len() < text.len();
    if indented && !is_item {
        return true;
    }
    let first = text.as_bytes().first().copied().unwrap_or(b' ');
    let last = text.as_bytes().last().copied().unwrap_or(b' ');
    let opener = matches!(first, b'>' | b'$' | b'{' | b'}' | b'[' | b'|' | b'/' | b'+' | b'%' | b'@' | b'\\')
        // A mention of a file or a command may open a sentence.
        && !(matches!(first, b'/' | b'@' | b'[') && text.contains(' ') && !matches!(last, b';' | b'{' | b'}' | b']'));
    opener || matches!(last, b';' | b'{' | b'}') || is_output(text) || is_code(text)
}

/// Starts that loggers, stack traces and test runners write.
fn is_output(text: &str) -> bool {
    const STARTS: [&str; 17] = [
        "Traceback (",
        "File \"",
        "at ",
        "E   ",
        "ERROR",
        "WARN",
        "INFO ",
        "DEBUG ",
        "TRACE ",
        "FATAL",
        "error[",
        "warning: ",
        "error: ",
        "npm ERR",
        "thread '",
        "diff --git",
        "index ",
    ];
    let starts = |start: &&str| {
        text.starts_with(*start)
            && (*start != "at " || text.ends_with(')'))
            && (*start != "index " || text.contains(".."))
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let stamped = digits >= 2
        && text.as_bytes().get(digits).is_some_and(|byte| matches!(byte, b':' | b'-' | b'/'))
        && text.as_bytes().get(digits + 1).is_some_and(u8::is_ascii_digit);
    stamped || STARTS.iter().any(starts)
}

/// Words that open a line of a program, and signs that prose has not.
fn is_code(text: &str) -> bool {
    const OPENERS: [&str; 18] = [
        "def ",
        "class ",
        "import ",
        "from ",
        "function ",
        "const ",
        "let ",
        "var ",
        "return ",
        "public ",
        "private ",
        "#include",
        "#!",
        "//",
        "/*",
        "--",
        "fn ",
        "pub ",
    ];
    let opens = OPENERS.iter().any(|opener| text.starts_with(opener));
    let is_sign = |byte: &u8| {
        matches!(byte, b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'=' | b';' | b'<' | b'>' | b'\\' | b'|')
    };
    let signs = text.bytes().filter(is_sign).count();
    (opens && signs > 0) || text.starts_with("//") || text.starts_with("#!") || signs * 6 > text.len()
}

/// A list item or heading without its mark.
pub(super) fn without_bullet(text: &str) -> &str {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match text.as_bytes() {
        [b'-' | b'*' | b'+', b' ', ..] => 1,
        [b'#', ..] => text.bytes().take_while(|byte| *byte == b'#').count(),
        _ if text.starts_with('•') => '•'.len_utf8(),
        [..] if (1..=3).contains(&digits) && matches!(text.as_bytes().get(digits), Some(b'.' | b')')) => {
            digits + 1
        }
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

/// Splits a paragraph where its sentences end.
fn split<'a>(paragraph: &'a str, place: Place, found: &mut Vec<Sentence<'a>>) {
    let mut start = 0;
    let mut in_code = false;
    let mut rest = paragraph.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        if character == '`' {
            in_code = !in_code;
        }
        let full = matches!(character, '。' | '！' | '？');
        let may_end = matches!(character, '.' | '!' | '?' | '…') && !in_code;
        if !(full || may_end) {
            continue;
        }
        let mut end = at + character.len_utf8();
        while let Some((_, next)) = rest.next_if(|(_, next)| {
            matches!(next, '.' | '!' | '?' | '？' | '！' | '。' | ')' | '"' | '”' | '»' | '」' | '*' | '_')
        }) {
            end += next.len_utf8();
        }
        let followed = rest.peek().is_none_or(|(_, next)| next.is_whitespace());
        if (full || followed) && !is_abbreviation(&paragraph[start..end]) {
            push(&paragraph[start..end], place, found);
            start = end;
        }
    }
    push(&paragraph[start..], place, found);
}

fn push<'a>(text: &'a str, place: Place, found: &mut Vec<Sentence<'a>>) {
    let text = text.trim();
    if text.chars().any(char::is_alphanumeric) && text.len() <= LONGEST {
        found.push(Sentence { text, place });
    }
}

/// Whether the point at the end of this text belongs to an abbreviation or a number in a list.
pub(crate) fn is_abbreviation(text: &str) -> bool {
    let Some(bare) = text.strip_suffix('.') else { return false };
    let word = bare.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or(bare);
    let is_number =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) && word.len() == bare.trim().len();
    is_number || TABLE.abbreviations.iter().any(|known| known.eq_ignore_ascii_case(word))
}
