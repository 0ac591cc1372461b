//! Excerpts of a long text: the most important pieces in their order, with `…` where others were left out.

use std::ops::Range;

use super::weights::{
    CODE_FACTOR, LAST_PASSAGE_WEIGHT, MAX_CODE_WEIGHT, MAX_WHOLE_LINE_BYTES, MIN_REMAINING_BYTES,
    MIN_WRAPPED_LINE_BYTES,
};
use crate::evidence::is_list_item_or_heading;
use crate::redact::Redacted;
use crate::truncate::first_bytes;

/// The text between two pieces that were not adjacent. Its length counts against the limit.
const GAP: &str = " … ";

/// Makes excerpts of one text in any length: its beginning, and the heaviest passages of the rest. A passage
/// is taken whole if it fits, otherwise the part around its heaviest piece.
pub(super) struct ExcerptBuilder<'t> {
    text: &'t Redacted,
    pieces: Vec<TextPiece>,
    /// The passages, heaviest first.
    passages: Vec<PiecePassage>,
}

impl<'t> ExcerptBuilder<'t> {
    pub(super) fn new(text: &'t Redacted, weigh: impl Fn(&str) -> f32) -> Self {
        let whole = text.as_str();
        let pieces = split_pieces(whole);
        let weights: Vec<f32> = pieces.iter().map(|piece| piece.weight(&whole[piece.range.clone()], &weigh)).collect();
        let mut blocks: Vec<PiecePassage> =
            group_passages(&pieces).into_iter().map(|range| PiecePassage::new(range, &weights)).collect();
        // A text starts with its subject, and its last words often say what follows from it.
        if let Some(last) = blocks.last_mut() {
            last.weight += LAST_PASSAGE_WEIGHT;
        }
        if let Some(first) = blocks.first_mut().filter(|_| !pieces[0].is_heading) {
            (first.weight, first.best, first.is_first) = (f32::MAX, 0, true);
        }
        blocks.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.best.cmp(&b.best)));
        Self { text, pieces, passages: blocks }
    }

    /// Returns an excerpt of about `most` bytes, or the whole text if it is not longer.
    pub(super) fn shorten_to(&self, most: usize) -> Redacted {
        if self.text.as_str().len() <= most {
            return self.text.clone();
        }
        let chosen = self.choose_pieces(most);
        if chosen.is_empty() {
            return first_words(self.text, most);
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (index, at) in chosen.iter().enumerate() {
            let range = self.pieces[*at].range.clone();
            match ranges.last_mut().filter(|_| index > 0 && chosen[index - 1] + 1 == *at) {
                Some(open) => open.end = range.end,
                None => ranges.push(range),
            }
        }
        let ends = if chosen.last() == Some(&(self.pieces.len() - 1)) { "" } else { GAP };
        let begins = if chosen.first() == Some(&0) { "" } else { GAP };
        Redacted::literal(begins).append(&self.text.join_ranges(&ranges, GAP, ends)).trimmed()
    }

    /// Returns the indices of the pieces that fit, in order; none if not even the first piece fits.
    fn choose_pieces(&self, most: usize) -> Vec<usize> {
        let Self { pieces, passages: blocks, .. } = self;
        let mut chosen: Vec<usize> = Vec::new();
        let mut left = most;
        if pieces.first().is_none_or(|first| first.range.len() > most) {
            return chosen;
        }
        for block in blocks.iter().filter(|block| block.weight > 0.0) {
            if left < MIN_REMAINING_BYTES && !chosen.is_empty() {
                break;
            }
            // The first passage may use only half, so that the heaviest one also fits.
            let first = pieces[block.best].range.len() + GAP.len();
            let kept = if block.is_first { (most / 2).min(left.saturating_sub(first)) } else { 0 };
            left -= kept;
            block.take_around_best(pieces, &mut chosen, &mut left);
            left += kept;
        }
        // Spend the rest on passages that were taken in part.
        for block in blocks {
            block.take_following(pieces, &mut chosen, &mut left);
        }
        chosen.sort_unstable();
        chosen
    }
}

/// What a piece of a text is worth for its length.
pub(super) type TextValue = f32;

/// A text in pieces, each with what it is worth, for excerpts that take the best pieces wherever they stand.
#[derive(PartialEq)]
pub(super) struct RankedPieces {
    text: Redacted,
    pieces: Vec<RankedPiece>,
}

#[derive(PartialEq)]
struct RankedPiece {
    range: Range<usize>,
    value: TextValue,
    /// The heading that the piece stands under. Without it, an item of a list may say the opposite.
    heading: Option<Range<usize>>,
}

impl RankedPieces {
    pub(super) fn new(text: Redacted, weigh: impl Fn(&str) -> TextValue) -> Self {
        let whole = text.as_str();
        let all = split_pieces(whole);
        let is_text = |piece: &TextPiece| whole[piece.range.clone()].chars().any(char::is_alphanumeric);
        let content = all.iter().filter(|piece| !piece.is_heading && is_text(piece));
        let mut pieces: Vec<RankedPiece> = content
            .map(|piece| {
                let words = whole[piece.range.clone()].trim();
                let value = if piece.fenced { weigh(words) * CODE_FACTOR } else { weigh(words) };
                let heading = piece.heading.map(|heading| all[heading].range.clone());
                RankedPiece { range: piece.range.clone(), value, heading }
            })
            .collect();
        // A text that ends with a heading.
        if let Some(last) = all.last().filter(|last| last.is_heading && is_text(last)) {
            let value = weigh(&whole[last.range.clone()]);
            pieces.push(RankedPiece { range: last.range.clone(), value, heading: None });
        }
        Self { text, pieces }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn text(&self) -> &str {
        self.text.as_str()
    }

    pub(super) fn text_of(&self, piece: usize) -> &str {
        &self.text.as_str()[self.pieces[piece].range.clone()]
    }

    /// Returns the heading of a piece if none of the chosen ones has the same.
    pub(super) fn new_heading(&self, piece: usize, chosen: impl IntoIterator<Item = usize>) -> Option<&str> {
        let heading = self.pieces[piece].heading.clone()?;
        let is_told = chosen.into_iter().any(|other| self.pieces[other].heading.as_ref() == Some(&heading));
        (!is_told).then(|| &self.text.as_str()[heading])
    }

    pub(super) fn value_of(&self, piece: usize) -> TextValue {
        self.pieces[piece].value
    }

    /// Returns the pieces with their values, the most valuable first.
    pub(super) fn ranked(&self) -> Vec<(usize, TextValue)> {
        let mut ranked: Vec<(usize, TextValue)> = self.pieces.iter().map(|piece| piece.value).enumerate().collect();
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        ranked
    }

    /// Returns the chosen pieces in their order, each under its heading, with a gap between those that were not adjacent.
    pub(super) fn excerpt(&self, chosen: &[usize]) -> Redacted {
        let mut parts: Vec<Range<usize>> = chosen.iter().map(|at| self.pieces[*at].range.clone()).collect();
        parts.extend(chosen.iter().filter_map(|at| self.pieces[*at].heading.clone()));
        parts.sort_by_key(|part| part.start);
        parts.dedup();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for part in parts {
            let is_adjacent =
                |open: &&mut Range<usize>| !self.text.as_str()[open.end..part.start].contains(char::is_alphanumeric);
            match ranges.last_mut().filter(is_adjacent) {
                Some(open) => open.end = part.end,
                None => ranges.push(part),
            }
        }
        self.text.join_ranges(&ranges, GAP, "").trimmed()
    }
}

/// Returns the first words of a text, about `most` bytes.
fn first_words(text: &Redacted, most: usize) -> Redacted {
    let start = first_bytes(text.as_str(), most);
    let words = start.rfind(char::is_whitespace).filter(|words| *words > most / 2);
    let range = 0..words.unwrap_or(start.len());
    text.join_ranges(std::slice::from_ref(&range), GAP, GAP).trimmed()
}

/// Consecutive pieces that belong together.
struct PiecePassage {
    range: Range<usize>,
    /// The index of the heaviest piece, and its weight.
    best: usize,
    weight: f32,
    /// Whether this is the first passage of the text.
    is_first: bool,
}

impl PiecePassage {
    fn new(range: Range<usize>, weights: &[f32]) -> Self {
        let start = range.start;
        let best = range.clone().fold(start, |best, at| if weights[at] > weights[best] { at } else { best });
        Self { best, weight: weights[best], range, is_first: false }
    }

    /// Takes the heaviest piece with its heading, and as many adjacent pieces as fit.
    fn take_around_best(&self, pieces: &[TextPiece], chosen: &mut Vec<usize>, left: &mut usize) {
        let length = |at: usize| pieces[at].range.len();
        // A piece without its heading may change its meaning.
        let heading = pieces[self.best].heading;
        let missing = heading.filter(|heading| !chosen.contains(heading));
        let cost = length(self.best) + GAP.len() + missing.map_or(0, length);
        if cost > *left {
            return;
        }
        *left -= cost;
        chosen.extend(missing);
        let first = heading.map_or(self.range.start, |heading| self.range.start.max(heading + 1));
        let (mut from, mut to) = (self.best, self.best + 1);
        while to < self.range.end && length(to) <= *left {
            *left -= length(to);
            to += 1;
        }
        while from > first && length(from - 1) <= *left {
            from -= 1;
            *left -= length(from);
        }
        chosen.extend(from..to);
    }

    /// Takes the pieces that follow the last chosen one, as long as they fit.
    fn take_following(&self, pieces: &[TextPiece], chosen: &mut Vec<usize>, left: &mut usize) {
        let Some(last) = chosen.iter().copied().filter(|at| self.range.contains(at)).max() else { return };
        for (at, piece) in pieces.iter().enumerate().take(self.range.end).skip(last + 1) {
            if piece.range.len() > *left {
                return;
            }
            *left -= piece.range.len();
            chosen.push(at);
        }
    }
}

/// Groups the pieces into passages. A heading or a blank line starts a new passage.
fn group_passages(pieces: &[TextPiece]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let follows = at > 0 && (!piece.after_blank_line || pieces[at - 1].is_heading);
        match found.last_mut().filter(|_| follows && !piece.is_heading) {
            Some(open) => open.end = at + 1,
            None => found.push(at..at + 1),
        }
    }
    found
}

/// A line, or a sentence of a long line.
struct TextPiece {
    range: Range<usize>,
    /// Whether a blank line precedes it.
    after_blank_line: bool,
    /// Whether it is inside a code fence, so that it is pasted text or code.
    fenced: bool,
    /// Whether it is a heading, or a line that ends with a colon.
    is_heading: bool,
    /// The index of the heading that it belongs to.
    heading: Option<usize>,
}

impl TextPiece {
    fn weight(&self, text: &str, weigh: &impl Fn(&str) -> f32) -> f32 {
        match text.trim() {
            _ if self.is_heading => 0.0,
            text if text.starts_with("```") => 0.0,
            text if self.fenced => weigh(text).min(MAX_CODE_WEIGHT) * CODE_FACTOR,
            text => weigh(text),
        }
    }
}

fn split_pieces(text: &str) -> Vec<TextPiece> {
    let mut found: Vec<TextPiece> = Vec::new();
    let mut fenced = false;
    let mut under = None;
    for (start, paragraph) in split_paragraphs(text) {
        let marks = paragraph.trim_start().starts_with("```");
        fenced ^= marks;
        let fenced = fenced || marks;
        let bare = paragraph.trim().trim_matches(['*', '_']);
        let leads = !fenced && (bare.ends_with([':', '：']) || paragraph.starts_with('#'));
        let before = found.last().map_or(start, |before: &TextPiece| before.range.end);
        let apart = !text[before..start].trim_matches([' ', '\t', '\r']).is_empty();
        // A paragraph behind a list is no longer under the line that introduces the list.
        let introduces = |at: usize| at + 1 < found.len() && !text[found[at].range.clone()].starts_with('#');
        if apart && !is_list_item_or_heading(bare) && under.is_some_and(introduces) {
            under = None;
        }
        if leads {
            under = Some(found.len());
        }
        let under = under.filter(|_| !leads);
        let end = start + paragraph.len();
        let mut push = |range: Range<usize>| {
            let after_blank_line = apart && range.start == start;
            found.push(TextPiece { range, after_blank_line, fenced, is_heading: leads, heading: under });
        };
        let mut from = start;
        if paragraph.len() > MAX_WHOLE_LINE_BYTES && !fenced && !leads {
            for (at, c) in paragraph.char_indices() {
                let after = at + c.len_utf8();
                let ends = matches!(c, '。' | '！' | '？')
                    || matches!(c, '.' | '!' | '?' | ';') && paragraph[after..].starts_with([' ', '\n']);
                if ends {
                    push(from..start + after);
                    from = start + after;
                }
            }
        }
        if from < end {
            push(from..end);
        }
    }
    found
}

/// Splits a text into its non-empty lines, each with its start. A long line that does not end a sentence was
/// wrapped by an editor and is joined with the next one.
fn split_paragraphs(text: &str) -> Vec<(usize, &str)> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut start = 0;
    let mut goes_on = false;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let trimmed = line.trim();
        let begins = is_list_item_or_heading(trimmed) || trimmed.starts_with(['>', '|', '`']);
        match found.last_mut().filter(|_| goes_on && !begins) {
            _ if trimmed.is_empty() => {}
            Some((from, paragraph)) => *paragraph = &text[*from..end],
            None => found.push((start, line)),
        }
        let ends = trimmed.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '…', '`']);
        goes_on = trimmed.len() >= MIN_WRAPPED_LINE_BYTES && !ends;
        start = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_beginning_and_the_heaviest_passages_in_order() {
        let text = "Fix the parser.\nIt is old.\n\nIt rains.\n\nNever touch the tests.\nThey are slow.\n\nBye.\n";
        let text = Redacted::assume_redacted(text.repeat(3));
        let weigh = |piece: &str| if piece.contains("Never") { 3.0 } else { 1.0 };
        let short = ExcerptBuilder::new(&text, weigh).shorten_to(110);
        assert_eq!(
            short.as_str().replace('\n', "/"),
            "Fix the parser./It is old./ … Never touch the tests./They are slow./ …"
        );
        assert_eq!(ExcerptBuilder::new(&text, weigh).shorten_to(1_000), text);
        assert!(ExcerptBuilder::new(&text, weigh).shorten_to(8).as_str().starts_with("Fix the"));
    }

    #[test]
    fn a_piece_brings_its_heading() {
        let text = "All is well:\n- one\n- two\n\nStill open:\n- the port is never closed\n- the log\n";
        let text = Redacted::assume_redacted(text.repeat(2));
        let short =
            ExcerptBuilder::new(&text, |piece: &str| if piece.contains("never") { 3.0 } else { 0.1 }).shorten_to(70);
        assert_eq!(short.as_str().replace('\n', "/"), "… Still open:/- the port is never closed/- the log");
    }
}
