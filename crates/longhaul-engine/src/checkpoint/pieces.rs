//! A long text in fewer characters: the pieces of it that say most, in their order, with a sign where others were left out.

use std::ops::Range;

use crate::clip::start_within;
use crate::evidence::begins_item;
use crate::redact::Redacted;

/// A line longer than this is taken sentence by sentence.
const LONG_LINE: usize = 200;
/// What stands where pieces were left out, and what it costs.
const GAP: &str = " […] ";

/// What is left over is not worth another gap.
const LEAST: usize = 60;

/// A text that can be had shorter: its beginning, and of the rest what weighs most. What stands together stays together: whole
/// blocks are taken, and of one that is too long the part around its weightiest piece.
pub(super) struct Excerpts<'t> {
    text: &'t Redacted,
    pieces: Vec<Piece>,
    /// The weightiest first.
    blocks: Vec<Block>,
}

impl<'t> Excerpts<'t> {
    pub(super) fn of(text: &'t Redacted, weigh: impl Fn(&str) -> f32) -> Self {
        let whole = text.as_str();
        let pieces = pieces(whole);
        let weights: Vec<f32> =
            pieces.iter().map(|piece| piece.weight(&whole[piece.range.clone()], &weigh)).collect();
        let mut blocks: Vec<Block> =
            blocks(&pieces).into_iter().map(|range| Block::of(range, &weights)).collect();
        // A text opens with what it is about, and its last words often say what follows from it.
        if let Some(last) = blocks.last_mut() {
            last.weight += 0.5;
        }
        if let Some(first) = blocks.first_mut().filter(|_| !pieces[0].leads) {
            (first.weight, first.best, first.opens) = (f32::MAX, 0, true);
        }
        blocks.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.best.cmp(&b.best)));
        Self { text, pieces, blocks }
    }

    /// About so many characters of it at most.
    pub(super) fn within(&self, most: usize) -> Redacted {
        if self.text.as_str().len() <= most {
            return self.text.clone();
        }
        let chosen = self.choose(most);
        if chosen.is_empty() {
            return opening(self.text, most);
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
        Redacted::own(begins).and(&self.text.parts(&ranges, GAP, ends)).trimmed()
    }

    /// Which pieces fit, in order; none where not even the first does.
    fn choose(&self, most: usize) -> Vec<usize> {
        let Self { pieces, blocks, .. } = self;
        let mut chosen: Vec<usize> = Vec::new();
        let mut left = most;
        if pieces.first().is_none_or(|first| first.range.len() > most) {
            return chosen;
        }
        for block in blocks.iter().filter(|block| block.weight > 0.0) {
            if left < LEAST && !chosen.is_empty() {
                break;
            }
            // What it opens with leaves room for what weighs most.
            let first = pieces[block.best].range.len() + GAP.len();
            let kept = if block.opens { (most / 2).min(left.saturating_sub(first)) } else { 0 };
            left -= kept;
            block.take(pieces, &mut chosen, &mut left);
            left += kept;
        }
        // What is left over goes to what was begun.
        for block in blocks {
            block.go_on(pieces, &mut chosen, &mut left);
        }
        chosen.sort_unstable();
        chosen
    }
}

/// The first words of a text.
fn opening(text: &Redacted, most: usize) -> Redacted {
    let start = start_within(text.as_str(), most);
    let words = start.rfind(char::is_whitespace).filter(|words| *words > most / 2);
    let range = 0..words.unwrap_or(start.len());
    text.parts(std::slice::from_ref(&range), GAP, GAP).trimmed()
}

/// Pieces that stand together.
struct Block {
    range: Range<usize>,
    /// The weightiest of them, and its weight.
    best: usize,
    weight: f32,
    /// Whether the text opens with it.
    opens: bool,
}

impl Block {
    fn of(range: Range<usize>, weights: &[f32]) -> Self {
        let start = range.start;
        let best = range.clone().fold(start, |best, at| if weights[at] > weights[best] { at } else { best });
        Self { best, weight: weights[best], range, opens: false }
    }

    /// Takes what fits: what leads to it, and the weightiest piece with what stands beside that.
    fn take(&self, pieces: &[Piece], chosen: &mut Vec<usize>, left: &mut usize) {
        let length = |at: usize| pieces[at].range.len();
        // What stands under a heading says something else without it.
        let heading = pieces[self.best].under;
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

    /// Takes what fits behind what was taken.
    fn go_on(&self, pieces: &[Piece], chosen: &mut Vec<usize>, left: &mut usize) {
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

/// Which pieces stand together: what one line leads to, and what no blank line parts.
fn blocks(pieces: &[Piece]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let follows = at > 0 && (!piece.apart || pieces[at - 1].leads);
        match found.last_mut().filter(|_| follows && !piece.leads) {
            Some(open) => open.end = at + 1,
            None => found.push(at..at + 1),
        }
    }
    found
}

/// A line, or a sentence of a long one.
struct Piece {
    range: Range<usize>,
    /// Whether a blank line is before it.
    apart: bool,
    /// Inside a fence: pasted, or code.
    fenced: bool,
    /// Whether it only leads to what is below it.
    leads: bool,
    /// The piece that leads to it.
    under: Option<usize>,
}

impl Piece {
    fn weight(&self, text: &str, weigh: &impl Fn(&str) -> f32) -> f32 {
        match text.trim() {
            _ if self.leads => 0.0,
            text if text.starts_with("```") => 0.0,
            text if self.fenced => weigh(text).min(1.0) * 0.3,
            text => weigh(text),
        }
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut found: Vec<Piece> = Vec::new();
    let mut fenced = false;
    let mut under = None;
    for (start, paragraph) in paragraphs(text) {
        let marks = paragraph.trim_start().starts_with("```");
        fenced ^= marks;
        let fenced = fenced || marks;
        let bare = paragraph.trim().trim_matches(['*', '_']);
        let leads = !fenced && (bare.ends_with([':', '：']) || paragraph.starts_with('#'));
        if leads {
            under = Some(found.len());
        }
        let under = under.filter(|_| !leads);
        let end = start + paragraph.len();
        let before = found.last().map_or(start, |before: &Piece| before.range.end);
        let apart = !text[before..start].trim_matches([' ', '\t', '\r']).is_empty();
        if paragraph.len() <= LONG_LINE || fenced || leads {
            found.push(Piece { range: start..end, apart, fenced, leads, under });
            continue;
        }
        let mut from = start;
        for (at, sign) in paragraph.char_indices() {
            let after = at + sign.len_utf8();
            let ends = matches!(sign, '。' | '！' | '？')
                || matches!(sign, '.' | '!' | '?' | ';') && paragraph[after..].starts_with([' ', '\n']);
            if ends && start + after > from {
                found.push(Piece {
                    range: from..start + after,
                    apart: apart && from == start,
                    fenced,
                    leads,
                    under,
                });
                from = start + after;
            }
        }
        if from < end {
            found.push(Piece { range: from..end, apart: apart && from == start, fenced, leads, under });
        }
    }
    found
}

/// The lines of a text that say something, with where they begin. A long line that does not end a sentence was broken by an
/// editor, and goes on with the next.
fn paragraphs(text: &str) -> Vec<(usize, &str)> {
    const WRAPPED: usize = 60;
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut start = 0;
    let mut goes_on = false;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let trimmed = line.trim();
        let begins = begins_item(trimmed) || trimmed.starts_with(['>', '|', '`']);
        match found.last_mut().filter(|_| goes_on && !begins) {
            _ if trimmed.is_empty() => {}
            Some((from, paragraph)) => *paragraph = &text[*from..end],
            None => found.push((start, line)),
        }
        let ends = trimmed.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '…', '`']);
        goes_on = trimmed.len() >= WRAPPED && !ends;
        start = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_what_weighs_most_stay_in_order_and_together() {
        let text =
            "Fix the parser.\nIt is old.\n\nIt rains.\n\nNever touch the tests.\nThey are slow.\n\nBye.\n";
        let text = Redacted::from_store(text.repeat(3));
        let weigh = |piece: &str| if piece.contains("Never") { 3.0 } else { 1.0 };
        let short = Excerpts::of(&text, weigh).within(110);
        assert_eq!(
            short.as_str().replace('\n', "/"),
            "Fix the parser./It is old./ […] Never touch the tests./They are slow./ […]"
        );
        assert_eq!(Excerpts::of(&text, weigh).within(1_000), text);
        assert!(Excerpts::of(&text, weigh).within(8).as_str().starts_with("Fix the"));
    }

    #[test]
    fn what_stands_under_a_heading_brings_it() {
        let text = "All is well:\n- one\n- two\n\nStill open:\n- the port is never closed\n- the log\n";
        let text = Redacted::from_store(text.repeat(2));
        let short =
            Excerpts::of(&text, |piece: &str| if piece.contains("never") { 3.0 } else { 0.1 }).within(70);
        assert_eq!(short.as_str().replace('\n', "/"), "[…] Still open:/- the port is never closed/- the log");
    }
}
