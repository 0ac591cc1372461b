//! Web pages and accessibility trees: title, headings, what can be used, the text.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, number};
use super::Tally;
use crate::clip;
use crate::lines::Line;
use memchr::memchr;
use std::borrow::Cow;

/// Roles of accessibility trees, and what a line of each is worth.
const ROLES: [(&str, f64); 34] = [
    ("heading", 6.0),
    ("button", 4.5),
    ("link", 4.0),
    ("textbox", 5.0),
    ("searchbox", 5.0),
    ("combobox", 5.0),
    ("checkbox", 4.5),
    ("radio", 4.5),
    ("tab", 4.0),
    ("menuitem", 4.0),
    ("option", 3.0),
    ("alert", 7.0),
    ("dialog", 5.0),
    ("rootwebarea", 7.0),
    ("document", 5.0),
    ("text", 1.5),
    ("statictext", 1.5),
    ("paragraph", 2.0),
    ("generic", 0.5),
    ("list", 1.0),
    ("listitem", 1.0),
    ("img", 1.0),
    ("image", 1.0),
    ("navigation", 2.0),
    ("main", 2.0),
    ("banner", 1.5),
    ("contentinfo", 1.0),
    ("article", 2.0),
    ("table", 2.0),
    ("row", 1.5),
    ("cell", 1.0),
    ("form", 3.0),
    ("status", 4.0),
    ("strong", 1.0),
];

/// The role that a line of an accessibility tree begins with: `- button "Go" [ref=e2]`, `[12] link 'Home'`, `uid=1_2 heading "A"`.
fn role(line: &str) -> Option<(&'static str, f64)> {
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
    (follows && told)
        .then(|| ROLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).copied())
        .flatten()
}

fn is_tree(sample: &Sample<'_>) -> bool {
    sample.head.len() >= 4 && sample.share(|line| role(line).is_some()) >= 0.6
}

pub(in super::super) fn shows(page: &Page<'_>, sample: &Sample<'_>) -> bool {
    let start = clip::start(page.text.trim_start(), 400).to_ascii_lowercase();
    let tagged = |line: &str| line.trim_start().starts_with('<') && line.trim_end().ends_with('>');
    let opens = start.starts_with("<!doctype html")
        || start.starts_with("<html")
        || start.contains("<body")
        || start.contains("<head>");
    opens || is_tree(sample) || (start.contains("<div") && sample.share(tagged) >= 0.6)
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    if is_tree(&page.sample()) {
        tree(page, proposal);
    } else {
        markup(page, proposal);
    }
    proposal.facts(page, Worth::READ);
}

fn tree<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let mut roles: Tally<'static> = Tally::default();
    let mut quoted = 0u32;
    for line in page.lines() {
        let Some((name, value)) = role(line.text) else { continue };
        roles.add(name);
        if quoted < 600 {
            proposal.quote(line.trimmed(), value / (1.0 + f64::from(quoted) * 0.02));
            quoted += 1;
        }
    }
    tell(proposal, "roles", roles);
}

fn tell(proposal: &mut Proposal<'_>, label: &str, tally: Tally<'static>) {
    proposal.note(
        label,
        6.0,
        tally
            .most_first()
            .iter()
            .map(|(name, count)| Cow::Owned::<str>(format!("{} {name}", number(*count)))),
    );
}

/// Elements that are counted, and what the text right inside them is worth.
const ELEMENTS: [(&str, f64); 14] = [
    ("title", 9.0),
    ("h1", 7.0),
    ("h2", 5.0),
    ("h3", 4.0),
    ("a", 1.0),
    ("button", 4.0),
    ("input", 0.0),
    ("form", 0.0),
    ("select", 0.0),
    ("table", 0.0),
    ("img", 0.0),
    ("p", 4.0),
    ("li", 1.5),
    ("label", 3.0),
];

fn markup<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let mut elements: Tally<'static> = Tally::default();
    let text = page.text;
    let (mut at, mut value, mut hidden, mut quoted) = (0, 1.5, None, 0u32);
    while let Some(found) = memchr(b'<', &text.as_bytes()[at..]) {
        let open = at + found;
        let piece = Line { at, text: &text[at..open] }.trimmed();
        if hidden.is_none() && piece.text.len() > 2 && quoted < 600 {
            let first = piece.text.lines().next().unwrap_or_default();
            proposal.quote(Line { at: piece.at, text: first }, value / (1.0 + f64::from(quoted) * 0.02));
            quoted += 1;
        }
        let close = memchr(b'>', &text.as_bytes()[open..]).map_or(text.len(), |close| open + close + 1);
        let name = text[open + 1..close].trim_start_matches('/');
        let name = &name[..name.bytes().take_while(u8::is_ascii_alphanumeric).count()];
        let closes = text[open + 1..].starts_with('/');
        match hidden {
            Some(inside) if closes && name.eq_ignore_ascii_case(inside) => hidden = None,
            None if !closes
                && (name.eq_ignore_ascii_case("script") || name.eq_ignore_ascii_case("style")) =>
            {
                hidden = Some(name);
            }
            _ => {}
        }
        value = 1.5;
        if hidden.is_none()
            && !closes
            && let Some((known, worth)) = ELEMENTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            elements.add(known);
            value = *worth;
        }
        at = close;
    }
    tell(proposal, "elements", elements);
}
