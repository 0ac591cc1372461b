//! Directory listings: how many entries, where they are, of which sort.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, counted, number};
use super::Tally;
use crate::lines::Line;
use std::borrow::Cow;

/// So many lines that are no entries are proposed.
const MOST_OTHERS: u32 = 40;

/// The path or name that a line of a listing is about: of `ls`, `ls -l`, `tree`, `find`, `git ls-tree`.
fn entry(line: &str) -> Option<&str> {
    let line = line.trim_end();
    if let Some(name) = long_entry(line) {
        return Some(name);
    }
    let start =
        line.trim_start_matches([' ', '│', '├', '└', '─', '|', '`', '-', '+', '\u{a0}', '\t', '•', '*']);
    let name = start.strip_prefix("[DIR] ").or_else(|| start.strip_prefix("[FILE] ")).unwrap_or(start);
    let ok = !name.is_empty()
        && name.len() <= 200
        && !name.contains(['(', '{', '=', '"', ';', '<', ',', '\\'])
        && name.split(' ').count() <= 2
        && (name.contains('/') || name.contains('.') || line.len() > start.len() || !name.contains(' '));
    ok.then_some(name)
}

/// `-rw-r--r-- 1 root root 12 Nov 15 21:11 name`, `100644 blob 2e90 141 name`
fn long_entry(line: &str) -> Option<&str> {
    let mode = line.split(' ').next()?;
    let is_mode = mode.len() >= 10 && mode.bytes().all(|byte| b"dlrwxstST-+.@bcps".contains(&byte));
    if is_mode {
        return line.split_whitespace().nth(8).map(|name| &line[line.rfind(name).unwrap_or(0)..]);
    }
    let blob = mode.len() == 6 && mode.bytes().all(|byte| byte.is_ascii_digit());
    if blob { line.split_once('\t').map(|(_, name)| name) } else { None }
}

/// How large `ls -l` says that a file is.
fn size(line: &str) -> Option<u64> {
    long_entry(line)?;
    line.split_whitespace().nth(4)?.parse().ok()
}

pub(in super::super) fn shows(page: &Page<'_>, sample: &Sample<'_>) -> bool {
    let long = sample.share(|line| long_entry(line).is_some());
    let drawn = sample.share(|line| {
        line.contains("── ")
            || line.trim_start().starts_with("[DIR]")
            || line.trim_start().starts_with("[FILE]")
    });
    let paths = sample.share(|line| {
        let line = line.trim();
        entry(line) == Some(line) && !line.contains(' ') && (line.contains('/') || is_file(line))
    });
    page.facts.full_lines() >= 3 && (long >= 0.6 || drawn >= 0.6 || paths >= 0.8)
}

fn is_file(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=6).contains(&extension.len())
            && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

fn is_folder(line: &str, name: &str) -> bool {
    name.ends_with('/')
        || line.starts_with('d') && long_entry(line).is_some()
        || line.trim_start().starts_with("[DIR]")
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let (mut entries, mut folders) = (0usize, 0usize);
    let (mut sorts, mut places) = (Tally::default(), Tally::default());
    let (mut quoted, mut others) = (0u32, 0u32);
    let mut largest: (Option<Line<'a>>, u64) = (None, 0);
    for line in page.lines() {
        if line.text.trim().is_empty() || line.text.starts_with("total ") {
            continue;
        }
        if line.text.ends_with(':') && !line.text.contains(' ') {
            proposal.quote(line, 2.0);
            continue;
        }
        let Some(name) = entry(line.text) else {
            // What is no entry says something about them: a total, a heading, a folder that could not be read.
            if others < MOST_OTHERS {
                proposal.quote(line.trimmed(), 5.0 / (1.0 + f64::from(others) * 0.05));
                others += 1;
            }
            continue;
        };
        if let Some(size) = size(line.text).filter(|size| *size > largest.1) {
            largest = (Some(line), size);
        }
        entries += 1;
        if is_folder(line.text, name) {
            folders += 1;
        } else if is_file(name) {
            sorts.add(name.rsplit_once('.').map_or("", |(_, extension)| extension));
        }
        let relative = name.trim_start_matches("./");
        if let Some((place, _)) = relative
            .trim_start_matches('/')
            .split_once('/')
            .filter(|(place, rest)| !place.is_empty() && !rest.is_empty())
        {
            places.add(place);
        }
        if quoted < 60 {
            proposal.quote(line.trimmed(), 2.5 / (1.0 + f64::from(quoted) * 0.05));
            quoted += 1;
        }
    }
    if let Some(line) = largest.0 {
        proposal.quote(line.trimmed(), 4.0);
    }
    proposal.lead.push(if folders > 0 {
        format!("{}, {} of them folders", counted(entries, "entry"), number(folders))
    } else {
        counted(entries, "entry")
    });
    for (label, tally) in [("by folder", places), ("by extension", sorts)] {
        let counts = tally.most_first();
        let items = counts.iter().enumerate().map(|(rank, (name, count))| {
            // One entry in each of many folders says little about any of them.
            let value = if *count == 1 { 2.0 } else { 6.0 };
            (Cow::Owned(format!("{name} {}", number(*count))), value / (1.0 + rank as f64 * 0.04))
        });
        let of = counts.len();
        proposal.note_of(label, items.collect(), of);
    }
    proposal.facts(page, Worth::READ);
}
