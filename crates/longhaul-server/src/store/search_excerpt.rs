//! Chooses what a hit shows: the passage that matches the query best, with the passages around it, and, while
//! there is room, other passages with what the first lacks.
//!
//! ```text
//! block ──▶ passages (sentences, lines) ──weight, and weight that neighbours lend──▶ the best ──▶ its context ──▶ others
//! ```
//!
//! The context goes on into the next blocks of the turn, and into the next message: a reply that says "I make a
//! copy of the original:" is followed by the call that says where, and a question by its answer.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use longhaul_engine::redact::Redacted;

use super::search::QueryTerms;

/// The characters of an excerpt. A question's answer often takes two or three sentences; five hits of this
/// length take about 800 tokens. Chosen by hand.
pub(super) const MAX_EXCERPT_CHARS: usize = 600;
/// The characters of an excerpt that go to the best passage and its context before other passages get room.
/// Chosen by hand.
const CONTEXT_CHARS: usize = MAX_EXCERPT_CHARS / 2;
/// The bytes above which a line is cut into passages. Chosen by hand.
const MAX_PASSAGE_BYTES: usize = 200;
/// The bytes below which a sentence is not a passage of its own: it belongs to the next. Chosen by hand.
const MIN_SENTENCE_BYTES: usize = 40;
/// The share of its weight that a passage lends to the one before and after it: an answer stands next to its
/// question. The same as between turns.
const LENT_SHARE: f64 = 0.4;

/// A passage of a block: a line, or a part of a long line.
struct Passage {
    bytes: Range<usize>,
    /// The indexes of the query's terms in it.
    terms: BTreeSet<usize>,
    weight: f64,
    contains_phrase: bool,
}

/// Returns the passages of a text that say most about the query, in their order. What follows the text, in its
/// turn and in the next message, is shown only where the best passage is near the end of the text.
pub(super) fn excerpt(block: &str, following: &[String], phrase: Option<&str>, query: &QueryTerms) -> Redacted {
    let mut text = readable(block);
    if phrase.is_some_and(|phrase| !text.contains(phrase)) {
        text = Cow::Borrowed(block);
    }
    let own_passages = passage_ranges(&text).len();
    if !following.is_empty() {
        let mut whole = text.into_owned();
        for block in following {
            let start = whole.len() + 1;
            let added = readable(block);
            let most = added.floor_char_boundary(MAX_EXCERPT_CHARS * 4);
            whole.extend(["\n", &added[..most]]);
            if whole.len() > start + MAX_EXCERPT_CHARS * 4 {
                break;
            }
        }
        text = Cow::Owned(whole);
    }
    let passages: Vec<Passage> = passage_ranges(&text)
        .into_iter()
        .map(|bytes| {
            let terms = query.terms_in(&text[bytes.clone()]);
            let contains_phrase = phrase.is_some_and(|phrase| text[bytes.clone()].contains(phrase));
            Passage { weight: query.weight_of(&terms), terms, contains_phrase, bytes }
        })
        .collect();
    let mut shown = String::new();
    let mut end = None;
    for index in choose(&passages, own_passages, &text) {
        let bytes = passages[index].bytes.clone();
        let is_inside_line = bytes.start > 0 && !text[..bytes.start].ends_with('\n');
        match end {
            Some(end) if end == index => shown.push(' '),
            Some(_) => shown.push_str(" … "),
            None if is_inside_line => shown.push_str("… "),
            None => {}
        }
        shown.push_str(text[bytes].trim());
        end = Some(index + 1);
    }
    Redacted::assume_redacted(shown).one_line(MAX_EXCERPT_CHARS)
}

/// Returns a text with the escapes of JSON strings resolved if it looks like JSON: the arguments of a call and
/// many results are JSON in one line, and their lines are what is to be read.
fn readable(text: &str) -> Cow<'_, str> {
    if !text.starts_with(['{', '[']) || !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match if c == '\\' { characters.next() } else { Some(c) } {
            Some('n' | 'r') if c == '\\' => plain.push('\n'),
            Some('t') if c == '\\' => plain.push('\t'),
            Some('u') if c == '\\' => plain.push_str("\\u"),
            Some(other) => plain.push(other),
            None => plain.push('\\'),
        }
    }
    Cow::Owned(plain)
}

/// Returns the weight of the best passage of a text, with what its neighbours lend.
pub(super) fn best_passage_weight(passages: &[BTreeSet<usize>], query: &QueryTerms) -> f64 {
    let own: Vec<f64> = passages.iter().map(|terms| query.weight_of(terms)).collect();
    (0..own.len()).map(|index| own[index] + lent(&own, index)).fold(0.0, f64::max)
}

/// Returns what the neighbours of a passage lend to it.
fn lent(own: &[f64], index: usize) -> f64 {
    let before = index.checked_sub(1).and_then(|before| own.get(before)).copied().unwrap_or_default();
    let after = own.get(index + 1).copied().unwrap_or_default();
    LENT_SHARE * (before + after)
}

/// The passages that are shown, and the characters that are left.
struct Choice<'p> {
    passages: &'p [Passage],
    text: &'p str,
    room: usize,
    chosen: BTreeSet<usize>,
}

impl Choice<'_> {
    /// Adds a passage if it fits into the room, of which `reserve` characters stay free. Returns whether it is
    /// shown.
    fn take(&mut self, index: usize, reserve: usize) -> bool {
        let Some(passage) = self.passages.get(index) else { return false };
        if self.chosen.contains(&index) {
            return true;
        }
        let length = self.text[passage.bytes.clone()].chars().count() + " … ".chars().count();
        if length + reserve > self.room {
            return false;
        }
        self.room -= length;
        self.chosen.insert(index)
    }

    /// Adds passages around one, two after it for each before it: what follows usually says more.
    fn grow(&mut self, from: usize, reserve: usize) {
        let (mut after, mut before) = (Some(from), Some(from));
        while after.is_some() || before.is_some() {
            for _ in 0..2 {
                after = after.map(|at| at + 1).filter(|at| self.take(*at, reserve));
            }
            before = before.and_then(|at| at.checked_sub(1)).filter(|at| self.take(*at, reserve));
        }
    }
}

/// Returns the indexes of the passages to show, in order. Only the first `own` passages are searched.
fn choose(passages: &[Passage], own: usize, text: &str) -> BTreeSet<usize> {
    let weights: Vec<f64> = passages.iter().map(|passage| passage.weight).collect();
    let score = |index: usize| if weights[index] > 0.0 { weights[index] + lent(&weights, index) } else { 0.0 };
    let mut choice = Choice { passages, text, room: MAX_EXCERPT_CHARS, chosen: BTreeSet::new() };
    let best = (0..own.min(passages.len())).max_by(|a, b| {
        let literal = passages[*a].contains_phrase.cmp(&passages[*b].contains_phrase);
        literal.then(score(*a).total_cmp(&score(*b))).then(b.cmp(a))
    });
    let Some(best) = best else { return choice.chosen };
    if !choice.take(best, 0) {
        return BTreeSet::from([best]);
    }
    choice.grow(best, MAX_EXCERPT_CHARS - CONTEXT_CHARS);
    // Other passages, those first that have terms which are not shown yet.
    let mut covered: BTreeSet<usize> =
        choice.chosen.iter().flat_map(|index| passages[*index].terms.iter().copied()).collect();
    let mut others: Vec<usize> = (0..own.min(passages.len())).filter(|index| weights[*index] > 0.0).collect();
    others.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
    for index in others {
        let has_new = passages[index].terms.iter().any(|term| !covered.contains(term));
        if has_new && choice.take(index, 0) {
            covered.extend(&passages[index].terms);
        }
    }
    choice.grow(best, 0);
    choice.chosen
}

/// Splits a text into lines, and long lines into sentences or, where there are none, into parts of about the
/// same length that end between words.
pub(super) fn passage_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if !line.trim().is_empty() {
            split_line(text, start..end, &mut ranges);
        }
        start = end;
    }
    ranges
}

fn split_line(text: &str, line: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let mut start = line.start;
    while line.end - start > MAX_PASSAGE_BYTES {
        let longest = text.floor_char_boundary(start + MAX_PASSAGE_BYTES);
        let part = &text[start..longest];
        let is_end = |(at, c): (usize, char)| {
            let follows = part[at + c.len_utf8()..].chars().next();
            let ends = matches!(c, '。' | '！' | '？')
                || (matches!(c, '.' | '!' | '?' | ';') && follows.is_some_and(char::is_whitespace));
            (ends && at >= MIN_SENTENCE_BYTES).then_some(start + at + c.len_utf8())
        };
        let sentence = part.char_indices().find_map(is_end);
        let between_words = || part.rfind([' ', ',']).filter(|at| *at > 0).map(|at| start + at + 1);
        let end = sentence.or_else(between_words).unwrap_or(longest);
        ranges.push(start..end);
        start = end;
    }
    if !text[start..line.end].trim().is_empty() {
        ranges.push(start..line.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(terms: &[(&str, f64)]) -> QueryTerms {
        QueryTerms::for_test(terms)
    }

    #[test]
    fn an_excerpt_of_one_long_line_shows_what_was_found() {
        let rows: Vec<String> =
            (0..400).map(|n| format!(r#"{{"id":{n},"name":"item {n}","stock":{}}}"#, n * 7 + 1)).collect();
        let text = format!("[{}]", rows.join(","));
        let terms = query(&[("item", 0.1), ("371", 3.0)]);
        for phrase in [Some("item 371"), None] {
            let shown = excerpt(&text, &[], phrase, &terms);
            assert!(shown.as_str().contains("item 371"), "{phrase:?}: {shown}");
            assert!(
                shown.as_str().starts_with('…') && shown.as_str().chars().count() <= MAX_EXCERPT_CHARS + 1,
                "{shown}"
            );
        }
        let first = excerpt(&text, &[], Some("item 0"), &terms);
        assert!(first.as_str().starts_with("[{"), "{first}");
        let accented = "é".repeat(1_000) + " the needle is here";
        assert!(excerpt(&accented, &[], Some("needle"), &terms).as_str().contains("needle"));
        assert_eq!(excerpt("", &[], None, &terms).as_str(), "");
    }

    #[test]
    fn an_excerpt_is_centred_on_the_sentence_that_answers() {
        let filler = "Nothing of any interest was said about that in this place at all. ".repeat(12);
        let text = format!("{filler}Where does the zinnia stand? It stands in bed 4711. {filler}");
        let shown = excerpt(&text, &[], None, &query(&[("zinnia", 2.0)]));
        assert!(shown.as_str().contains("zinnia stand? It stands in bed 4711."), "{shown}");
    }

    #[test]
    fn an_excerpt_has_several_passages_if_they_say_different_things() {
        let noise = "a line of noise\n".repeat(60);
        let text = format!("{noise}the zinnia was ordered\n{noise}the price of it is 12\n{noise}");
        let shown = excerpt(&text, &[], None, &query(&[("zinnia", 2.0), ("price", 1.5)]));
        assert!(
            shown.as_str().contains("zinnia was ordered") && shown.as_str().contains("price of it is 12"),
            "{shown}"
        );
        assert!(shown.as_str().contains(" … "), "{shown}");
        assert_eq!(
            excerpt("first\nsecond needle\nthird", &[], Some("needle"), &query(&[])).as_str(),
            "first second needle third"
        );
    }

    #[test]
    fn an_excerpt_goes_on_into_the_next_blocks_of_the_turn() {
        let reply = "First I make a copy of the original:";
        let call = r#"{"command": "cp ./iam.py ./iam.py.backup\necho \"done\""}"#;
        let following = [call.to_owned(), "<returncode>0</returncode>".to_owned()];
        let shown = excerpt(reply, &following, None, &query(&[("original", 2.0)]));
        assert!(
            shown.as_str().contains("original: {\"command\": \"cp ./iam.py ./iam.py.backup echo \"done\"\"}"),
            "{shown}"
        );
        assert!(shown.as_str().ends_with("</returncode>"), "{shown}");
        // A long block has no room left for others, and a phrase is found as it was written.
        let long = "the original is here, and much more is said about it ".repeat(60);
        assert!(!excerpt(&long, &following, None, &query(&[("original", 2.0)])).as_str().contains("command"));
        assert!(excerpt(call, &[], Some("backup\\necho"), &query(&[])).as_str().contains("backup\\necho"));
        let cut = r#"{"path":"C:\\new\u00e9\"#;
        assert_eq!(readable(cut), "{\"path\":\"C:\\new\\u00e9\\");
    }

    #[test]
    fn sentences_end_in_all_scripts() {
        let text = "这是第一句话，没有任何意思，只是为了占用一些地方而已，真的没有别的。".repeat(20);
        let text = format!("{text}配置文件在这里。{text}");
        let shown = excerpt(&text, &[], None, &query(&[("配置", 2.0)]));
        assert!(shown.as_str().contains("配置文件在这里。"), "{shown}");
    }
}
