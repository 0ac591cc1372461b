//! Search results: keeps the number of matches in each file, and the first match of each file.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, count_with_noun, decay, format_count};
use super::super::weights::{self as all, search as weights};
use super::NameCounts;
use crate::facts::LineSignals;
use crate::lines::Line;
use std::borrow::Cow;
use std::collections::HashSet;

/// One line of the results of a search in files.
struct SearchLine<'a> {
    /// The path; empty if only one file was searched.
    path: &'a str,
    /// Whether the line is a match, and not a line of context.
    is_match: bool,
}

/// Parses `path:12:text`, `path-12-text` (a line of context), `12:text`, `12-text` and `path:text`.
fn parse_search_line(line: &str) -> Option<SearchLine<'_>> {
    let bytes = line.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        // A time or a date has another digit after the separator.
        let marked =
            matches!(bytes.get(digits), Some(b':' | b'-')) && !bytes.get(digits + 1).is_some_and(u8::is_ascii_digit);
        return marked.then(|| SearchLine { path: "", is_match: bytes[digits] == b':' });
    }
    for (at, byte) in bytes.iter().enumerate().take(weights::MATCH_HEAD_BYTES) {
        match byte {
            b':' | b'-' => {
                let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                if digits > 0 && bytes.get(at + 1 + digits) == Some(byte) && is_path(&line[..at]) {
                    return Some(SearchLine { path: &line[..at], is_match: *byte == b':' });
                }
                if *byte == b':'
                    && is_path(&line[..at])
                    && !line[..at].contains(':')
                    && !matches!(bytes.get(at + 1), Some(b'/' | b':'))
                    && !bytes[at + 1..].is_empty()
                {
                    let name = line[..at].rsplit('/').next().unwrap_or_default();
                    // `module.part[3]: done` names no file, because a file extension has no brackets.
                    let file = name.rsplit_once('.').is_some_and(|(_, end)| !end.contains(['[', ']']));
                    if file && !has_later_line_number(&bytes[at + 1..]) {
                        return Some(SearchLine { path: &line[..at], is_match: true });
                    }
                }
            }
            b' ' | b'\t' | b'(' | b'"' | b'<' => return None,
            _ => {}
        }
    }
    None
}

/// Returns whether a line number follows later, as in `HEAD:src/a.py:12:`.
fn has_later_line_number(rest: &[u8]) -> bool {
    let rest = &rest[..rest.len().min(weights::LATER_NUMBER_BYTES)];
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len());
    rest[..end].windows(2).any(|pair| matches!(pair[0], b':' | b'-') && pair[1].is_ascii_digit())
}

fn is_path(text: &str) -> bool {
    !text.is_empty()
        && (text.contains('/') || text.contains('.'))
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns the URL in a line of web search results.
fn parse_url(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ' ' | '-' | '*' | '['));
    let line = ["URL:", "Url:", "url:", "Link:", "link:", "Source:"]
        .iter()
        .find_map(|name| line.strip_prefix(name))
        .unwrap_or(line)
        .trim_start();
    (line.starts_with("http://") || line.starts_with("https://"))
        .then(|| line.split_whitespace().next().unwrap_or(line))
}

fn is_web_search(sample: &Sample<'_>) -> bool {
    let addresses = sample.lines().filter(|line| parse_url(line).is_some()).count();
    addresses >= weights::MIN_ADDRESSES && sample.share(|line| parse_url(line).is_some()) >= weights::MIN_ADDRESS_SHARE
}

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    sample.share(|line| parse_search_line(line).is_some() && !LineSignals::scan(line).error) >= weights::MIN_MATCH_SHARE
        || is_web_search(sample)
}

/// Counts the matches, if the output is that of a search in files.
pub(in super::super) fn count_matches(output: &ParsedOutput<'_>) -> Option<usize> {
    let (mut finds, mut others) = (0, 0);
    for line in output.lines().filter(|line| !line.text.trim().is_empty()) {
        match parse_search_line(line.text) {
            Some(hit) => finds += usize::from(hit.is_match),
            None => others += 1,
        }
    }
    (finds > others).then_some(finds)
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let mut files = NameCounts::default();
    let mut seen: HashSet<&str> = HashSet::new();
    let (mut finds, mut heading, mut quoted) = (0usize, "", 0);
    let (mut above, mut addresses) = (None::<Line<'a>>, 0);
    for line in output.lines() {
        if let Some(address) = parse_url(line.text) {
            // The first results of a web search are the best.
            let value = weights::ADDRESS_VALUE * decay(1.0, addresses, weights::ADDRESS_DECAY);
            addresses += 1;
            proposal.add_quote(Line { offset: output.offset_of(address), text: address }, value);
            // The title is in the line above the URL.
            if let Some(title) = above.take() {
                proposal.add_quote(title, value);
            }
            continue;
        }
        above = Some(line.trimmed()).filter(|line| !line.text.is_empty());
        let Some(hit) = parse_search_line(line.text) else {
            if is_path(line.text.trim()) && !line.text.contains([' ', '<']) {
                heading = line.text.trim();
            }
            continue;
        };
        if !hit.is_match {
            continue;
        }
        finds += 1;
        let path = if hit.path.is_empty() { heading } else { hit.path };
        files.add(path);
        if quoted < all::MAX_CANDIDATES {
            let value = if seen.insert(path) { weights::FIRST_MATCH_VALUE } else { weights::MATCH_VALUE };
            proposal.add_quote(line.trimmed(), decay(value, quoted, all::TEXT_DECAY));
            quoted += 1;
        }
    }
    if finds > 0 {
        let files = files.most_frequent_first();
        let named = files.iter().filter(|(path, _)| !path.is_empty()).count();
        let place = if named > 0 { format!(" in {}", count_with_noun(named, "file")) } else { String::new() };
        proposal.head_facts.push(format!("{}{place}", count_with_noun(finds, "match")));
        let items = files.iter().filter(|(path, _)| !path.is_empty()).take(all::MAX_CANDIDATES).enumerate();
        let items = items.map(|(rank, (path, count))| {
            (
                Cow::Owned(format!("{path} {}", format_count(*count))),
                decay(weights::FILE_VALUE, rank, weights::FILE_DECAY),
            )
        });
        proposal.add_partial_list("matches by file", items.collect(), named);
    } else {
        proposal.add_edges(output, &weights::EDGES);
    }
    proposal.add_facts(output, all::READ_FACTS);
}
