//! Text for people: keeps headings, the first line of each paragraph, and list items.

use super::super::parsed_output::{ParsedOutput, Sample, strip_line_number};
use super::super::proposal::{DigestProposal, decay};
use super::super::weights::{self as all, prose as weights};

fn is_heading(line: &str) -> bool {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    ((1..=6).contains(&hashes) && line[hashes..].starts_with(' '))
        || (line.starts_with("**") && line.ends_with("**") && line.len() > 4)
}

fn is_list_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    line.starts_with("- ") || line.starts_with("* ") || (digits > 0 && line[digits..].starts_with(". "))
}

/// Returns whether a line has enough words and does not end like code.
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
    words >= weights::MIN_SENTENCE_WORDS && !line.ends_with(['{', ';', ')'])
}

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    sample.share(|line| {
        let line = line.trim();
        is_heading(line) || is_list_item(line) || is_sentence(line)
    }) >= weights::MIN_SHARE
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let (mut after_blank, mut quoted) = (true, 0);
    for line in output.lines() {
        let text = strip_line_number(line.text).trim();
        if text.is_empty() {
            after_blank = true;
            continue;
        }
        let value = match text {
            text if is_heading(text) => weights::HEADING_VALUE,
            _ if after_blank => weights::PARAGRAPH_VALUE,
            text if is_list_item(text) => weights::LIST_ITEM_VALUE,
            _ => weights::OTHER_VALUE,
        };
        after_blank = is_heading(text);
        if quoted < all::MAX_TEXT_LINES {
            proposal.add_quote(line.trimmed(), decay(value, quoted, all::TEXT_DECAY));
            quoted += 1;
        }
    }
    proposal.add_facts(output, all::READ_FACTS);
    proposal.add_edges(output, &weights::EDGES);
}
