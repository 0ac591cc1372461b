//! Text for people: headings, the first line of each paragraph, points of lists.

use super::super::page::{Page, Sample, unnumbered};
use super::super::proposal::{Proposal, Worth};

fn is_heading(line: &str) -> bool {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    ((1..=6).contains(&hashes) && line[hashes..].starts_with(' '))
        || (line.starts_with("**") && line.ends_with("**") && line.len() > 4)
}

fn is_point(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    line.starts_with("- ") || line.starts_with("* ") || (digits > 0 && line[digits..].starts_with(". "))
}

/// A line of several words that reads like language.
fn is_sentence(line: &str) -> bool {
    let words = line
        .split(' ')
        .filter(|word| {
            !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_alphabetic() || matches!(c, ',' | '.' | '\'' | ':' | '-' | '’' | '?' | '!'))
        })
        .count();
    words >= 5 && !line.ends_with(['{', ';', ')'])
}

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    sample.share(|line| {
        let line = line.trim();
        is_heading(line) || is_point(line) || is_sentence(line)
    }) >= 0.5
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let (mut after_blank, mut quoted) = (true, 0u32);
    for line in page.lines() {
        let text = unnumbered(line.text).trim();
        if text.is_empty() {
            after_blank = true;
            continue;
        }
        let value = match text {
            text if is_heading(text) => 6.0,
            _ if after_blank => 3.5,
            text if is_point(text) => 2.5,
            _ => 1.0,
        };
        after_blank = is_heading(text);
        if quoted < 600 {
            proposal.quote(line.trimmed(), value / (1.0 + f64::from(quoted) * 0.02));
            quoted += 1;
        }
    }
    proposal.facts(page, Worth::READ);
    proposal.edges(page, 1, 2, 4.0);
}
