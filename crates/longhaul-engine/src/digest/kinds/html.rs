//! Web pages and accessibility trees: keeps the title, headings, controls and text.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, decay, format_count};
use super::super::weights::{self as all, html as weights};
use super::NameCounts;
use crate::lines::Line;
use crate::truncate;
use memchr::memchr;
use std::borrow::Cow;

/// Returns a name with its value from a table of values with the names that have them.
fn find_value(table: &'static [(f64, &'static str)], name: &str) -> Option<(&'static str, f64)> {
    let mut names = table.iter().flat_map(|(value, names)| names.split(' ').map(|name| (name, *value)));
    names.find(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Returns the role at the start of a line of an accessibility tree: `- button "Go" [ref=e2]`, `[12] link
/// 'Home'`, `uid=1_2 heading "A"`.
fn parse_role(line: &str) -> Option<(&'static str, f64)> {
    let mut rest = line.trim_start().trim_start_matches(['-', '*', ' ']);
    if let Some(inner) = rest.strip_prefix('[') {
        rest = inner.split_once(']')?.1.trim_start();
    } else if let Some(inner) = rest.strip_prefix("uid=") {
        rest = inner.split_once(' ')?.1;
    }
    let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (word, after) = rest.split_at(length);
    let follows = after.is_empty() || after.starts_with([' ', ':']);
    let told = after.trim_start().starts_with(['"', '\'', '[', ':']) || after.is_empty();
    (follows && told).then(|| find_value(&weights::ROLE_VALUES, word)).flatten()
}

fn is_accessibility_tree(sample: &Sample<'_>) -> bool {
    sample.head.len() >= weights::MIN_ROLE_LINES
        && sample.share(|line| parse_role(line).is_some()) >= weights::MIN_ROLE_SHARE
}

pub(in super::super) fn recognizes(output: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let start = truncate::first_chars(output.text.trim_start(), weights::EXAMINED_CHARS).to_ascii_lowercase();
    let tagged = |line: &str| line.trim_start().starts_with('<') && line.trim_end().ends_with('>');
    let opens = start.starts_with("<!doctype html")
        || start.starts_with("<html")
        || start.contains("<body")
        || start.contains("<head>");
    opens || is_accessibility_tree(sample) || (start.contains("<div") && sample.share(tagged) >= weights::MIN_TAG_SHARE)
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    if is_accessibility_tree(&output.sample()) {
        propose_tree(output, proposal);
    } else {
        propose_markup(output, proposal);
    }
    proposal.add_facts(output, all::READ_FACTS);
}

fn propose_tree<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let mut roles: NameCounts<'static> = NameCounts::default();
    let mut quoted = 0;
    for line in output.lines() {
        let Some((name, value)) = parse_role(line.text) else { continue };
        roles.add(name);
        if quoted < all::MAX_TEXT_LINES {
            proposal.add_quote(line.trimmed(), decay(value, quoted, all::TEXT_DECAY));
            quoted += 1;
        }
    }
    propose_counts(proposal, "roles", roles);
}

fn propose_counts(proposal: &mut DigestProposal<'_>, label: &str, metrics: NameCounts<'static>) {
    proposal.add_list(
        label,
        weights::COUNTS_VALUE,
        metrics
            .most_frequent_first()
            .iter()
            .map(|(name, count)| Cow::Owned::<str>(format!("{} {name}", format_count(*count)))),
    );
}

fn propose_markup<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let mut elements: NameCounts<'static> = NameCounts::default();
    let text = output.text;
    let (mut at, mut value, mut hidden, mut quoted) = (0, weights::TEXT_VALUE, None, 0);
    while let Some(found) = memchr(b'<', &text.as_bytes()[at..]) {
        let open = at + found;
        let piece = Line { offset: at, text: &text[at..open] }.trimmed();
        if hidden.is_none() && piece.text.len() >= weights::MIN_TEXT_BYTES && quoted < all::MAX_TEXT_LINES {
            let first = piece.text.lines().next().unwrap_or_default();
            proposal.add_quote(Line { offset: piece.offset, text: first }, decay(value, quoted, all::TEXT_DECAY));
            quoted += 1;
        }
        let close = memchr(b'>', &text.as_bytes()[open..]).map_or(text.len(), |close| open + close + 1);
        let name = text[open + 1..close].trim_start_matches('/');
        let name = &name[..name.bytes().take_while(u8::is_ascii_alphanumeric).count()];
        let closes = text[open + 1..].starts_with('/');
        match hidden {
            Some(inside) if closes && name.eq_ignore_ascii_case(inside) => hidden = None,
            None if !closes && (name.eq_ignore_ascii_case("script") || name.eq_ignore_ascii_case("style")) => {
                hidden = Some(name);
            }
            _ => {}
        }
        value = weights::TEXT_VALUE;
        if hidden.is_none()
            && !closes
            && let Some((element, worth)) = find_value(&weights::ELEMENT_VALUES, name)
        {
            elements.add(element);
            value = worth;
        }
        at = close;
    }
    propose_counts(proposal, "elements", elements);
}
