//! What a search found: how much in which file, and the first find of each.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, counted, number};
use super::Tally;
use crate::facts::Words;
use crate::lines::Line;
use std::borrow::Cow;
use std::collections::HashSet;

/// One line of a search in files.
struct Hit<'a> {
    /// Empty where only one file was searched.
    path: &'a str,
    /// A find, and not a line around one.
    found: bool,
}

/// Reads `path:12:text`, `path-12-text` (a line around a find), `12:text`, `12-text` and `path:text`.
fn hit(line: &str) -> Option<Hit<'_>> {
    let bytes = line.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        // A time or a date has more digits behind the mark.
        let marked = matches!(bytes.get(digits), Some(b':' | b'-'))
            && !bytes.get(digits + 1).is_some_and(u8::is_ascii_digit);
        return marked.then(|| Hit { path: "", found: bytes[digits] == b':' });
    }
    for (at, byte) in bytes.iter().enumerate().take(240) {
        match byte {
            b':' | b'-' => {
                let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                if digits > 0 && bytes.get(at + 1 + digits) == Some(byte) && is_path(&line[..at]) {
                    return Some(Hit { path: &line[..at], found: *byte == b':' });
                }
                if *byte == b':'
                    && is_path(&line[..at])
                    && !line[..at].contains(':')
                    && !matches!(bytes.get(at + 1), Some(b'/' | b':'))
                    && !bytes[at + 1..].is_empty()
                {
                    let name = line[..at].rsplit('/').next().unwrap_or_default();
                    // `module.part[3]: done` names no file: an extension is of letters and digits.
                    let file = name.rsplit_once('.').is_some_and(|(_, end)| !end.contains(['[', ']']));
                    if file && !later_number(&bytes[at + 1..]) {
                        return Some(Hit { path: &line[..at], found: true });
                    }
                }
            }
            b' ' | b'\t' | b'(' | b'"' | b'<' => return None,
            _ => {}
        }
    }
    None
}

/// `HEAD:src/a.py:12:` has its number after the second colon.
fn later_number(rest: &[u8]) -> bool {
    let end =
        rest.iter().take(200).position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len().min(200));
    rest[..end].windows(2).any(|pair| matches!(pair[0], b':' | b'-') && pair[1].is_ascii_digit())
}

fn is_path(text: &str) -> bool {
    !text.is_empty()
        && (text.contains('/') || text.contains('.'))
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The address on a line of results from the web.
fn address(line: &str) -> Option<&str> {
    let line =
        line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ' ' | '-' | '*' | '['));
    let line = ["URL:", "Url:", "url:", "Link:", "link:", "Source:"]
        .iter()
        .find_map(|name| line.strip_prefix(name))
        .unwrap_or(line)
        .trim_start();
    (line.starts_with("http://") || line.starts_with("https://"))
        .then(|| line.split_whitespace().next().unwrap_or(line))
}

fn is_web(sample: &Sample<'_>) -> bool {
    let addresses = sample.lines().filter(|line| address(line).is_some()).count();
    addresses >= 3 && sample.share(|line| address(line).is_some()) >= 0.12
}

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    sample.share(|line| hit(line).is_some() && !Words::of(line).error) >= 0.6 || is_web(sample)
}

/// How many finds there are, if the output is that of a search in files.
pub(in super::super) fn matches(page: &Page<'_>) -> Option<usize> {
    let (mut finds, mut others) = (0, 0);
    for line in page.lines().filter(|line| !line.text.trim().is_empty()) {
        match hit(line.text) {
            Some(hit) => finds += usize::from(hit.found),
            None => others += 1,
        }
    }
    (finds > others).then_some(finds)
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let mut files = Tally::default();
    let mut seen: HashSet<&str> = HashSet::new();
    let (mut finds, mut heading, mut quoted) = (0usize, "", 0u32);
    let (mut above, mut addresses) = (None::<Line<'a>>, 0u32);
    for line in page.lines() {
        if let Some(address) = address(line.text) {
            // The first results are the best ones.
            let rank = 1.0 / (1.0 + f64::from(addresses) * 0.2);
            addresses += 1;
            proposal.quote(Line { at: page.offset(address), text: address }, 6.0 * rank);
            // The title stands above the address.
            if let Some(title) = above.take() {
                proposal.quote(title, 6.0 * rank);
            }
            continue;
        }
        above = Some(line.trimmed()).filter(|line| !line.text.is_empty());
        let Some(hit) = hit(line.text) else {
            if is_path(line.text.trim()) && !line.text.contains([' ', '<']) {
                heading = line.text.trim();
            }
            continue;
        };
        if !hit.found {
            continue;
        }
        finds += 1;
        let path = if hit.path.is_empty() { heading } else { hit.path };
        files.add(path);
        if quoted < 400 {
            let first = seen.insert(path);
            proposal.quote(line.trimmed(), if first { 4.0 } else { 1.5 } / (1.0 + f64::from(quoted) * 0.02));
            quoted += 1;
        }
    }
    if finds > 0 {
        let files = files.most_first();
        let named = files.iter().filter(|(path, _)| !path.is_empty()).count();
        let place = if named > 0 { format!(" in {}", counted(named, "file")) } else { String::new() };
        proposal.lead.push(format!("{}{place}", counted(finds, "match")));
        let items = files.iter().filter(|(path, _)| !path.is_empty()).take(400).enumerate();
        let items = items.map(|(rank, (path, count))| {
            (Cow::Owned(format!("{path} {}", number(*count))), 6.0 / (1.0 + rank as f64 * 0.15))
        });
        proposal.note_of("matches by file", items.collect(), named);
    } else {
        proposal.edges(page, 20, 3, 3.0);
    }
    proposal.facts(page, Worth::READ);
}
