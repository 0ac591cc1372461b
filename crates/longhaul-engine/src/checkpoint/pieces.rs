//! A long text in fewer characters: the pieces of it that say most, in their order, with a sign where others were left out.

use std::ops::Range;

use crate::evidence::begins_item;
use crate::redact::Redacted;

/// A line longer than this is taken sentence by sentence.
const LONG_LINE: usize = 200;
/// What stands where pieces were left out, and what it costs.
const GAP: &str = " […] ";

/// At most about `most` characters of a text: its beginning, and of the rest what weighs most.
pub(super) fn excerpt(text: &Redacted, most: usize, weigh: impl Fn(&str) -> f32) -> Redacted {
    let whole = text.as_str();
    if whole.len() <= most {
        return text.clone();
    }
    let pieces = pieces(whole);
    let Some(first) = pieces.first().filter(|first| first.range.len() <= most) else {
        return text.clipped(most);
    };
    let mut left = most.saturating_sub(first.range.len());
    let mut order: Vec<(usize, f32)> = pieces
        .iter()
        .enumerate()
        .skip(1)
        .map(|(at, piece)| (at, piece.weight(&whole[piece.range.clone()], &weigh)))
        .collect();
    // The last words of a text often say what follows from it.
    if let Some(last) = order.last_mut() {
        last.1 += 0.5;
    }
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen = vec![0];
    for (at, weight) in order {
        // What stands under a heading says something else without it.
        let heading = pieces[at].under.filter(|heading| !chosen.contains(heading));
        let cost =
            pieces[at].range.len() + GAP.len() + heading.map_or(0, |heading| pieces[heading].range.len());
        if cost <= left && weight > 0.0 {
            left -= cost;
            chosen.extend(heading);
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (index, at) in chosen.iter().enumerate() {
        let range = pieces[*at].range.clone();
        match ranges.last_mut().filter(|_| index > 0 && chosen[index - 1] + 1 == *at) {
            Some(open) => open.end = range.end,
            None => ranges.push(range),
        }
    }
    let ends_early = chosen.last() != Some(&(pieces.len() - 1));
    text.parts(&ranges, GAP, if ends_early { GAP } else { "" }).trimmed()
}

/// A line, or a sentence of a long one.
struct Piece {
    range: Range<usize>,
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
        if paragraph.len() <= LONG_LINE || fenced || leads {
            found.push(Piece { range: start..end, fenced, leads, under });
            continue;
        }
        let mut from = start;
        for (at, sign) in paragraph.char_indices() {
            let after = at + sign.len_utf8();
            let ends = matches!(sign, '。' | '！' | '？')
                || matches!(sign, '.' | '!' | '?' | ';') && paragraph[after..].starts_with([' ', '\n']);
            if ends && start + after > from {
                found.push(Piece { range: from..start + after, fenced, leads, under });
                from = start + after;
            }
        }
        if from < end {
            found.push(Piece { range: from..end, fenced, leads, under });
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
    fn the_beginning_and_what_weighs_most_stay_in_order() {
        let text =
            "Fix the parser.\nIt is old.\nNever touch the tests.\nIt rains.\nUse tabs only.\n".repeat(2);
        let text = Redacted::from_store(text);
        let weigh = |piece: &str| if piece.contains("Never") || piece.contains("only") { 3.0 } else { 1.0 };
        let short = excerpt(&text, 80, weigh);
        assert_eq!(
            short.as_str().replace('\n', "/"),
            "Fix the parser./ […] Never touch the tests./ […] Use tabs only."
        );
        assert_eq!(excerpt(&text, 1_000, weigh), text);
        assert!(excerpt(&text, 8, weigh).as_str().starts_with("Fix the"));
    }
}
