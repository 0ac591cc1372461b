//! Directory listings: keeps the number of entries, by folder and by extension, and some of the entries.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, count_with_noun, decay, format_count};
use super::super::weights::{self as all, listing as weights};
use super::NameCounts;
use crate::lines::Line;
use std::borrow::Cow;

/// Returns the path or name in a line of `ls`, `ls -l`, `tree`, `find` or `git ls-tree`.
fn parse_entry(line: &str) -> Option<&str> {
    let line = line.trim_end();
    if let Some(name) = parse_long_entry(line) {
        return Some(name);
    }
    let start = line.trim_start_matches([' ', '│', '├', '└', '─', '|', '`', '-', '+', '\u{a0}', '\t', '•', '*']);
    let name = start.strip_prefix("[DIR] ").or_else(|| start.strip_prefix("[FILE] ")).unwrap_or(start);
    let ok = !name.is_empty()
        && name.len() <= weights::MAX_NAME_BYTES
        && !name.contains(['(', '{', '=', '"', ';', '<', ',', '\\'])
        && name.split(' ').count() <= 2
        && (name.contains('/') || name.contains('.') || line.len() > start.len() || !name.contains(' '));
    ok.then_some(name)
}

/// Returns the name in `-rw-r--r-- 1 root root 12 Nov 15 21:11 name` or `100644 blob 2e90 141 name`.
fn parse_long_entry(line: &str) -> Option<&str> {
    let mode = line.split(' ').next()?;
    let is_mode = mode.len() >= 10 && mode.bytes().all(|byte| b"dlrwxstST-+.@bcps".contains(&byte));
    if is_mode {
        return line.split_whitespace().nth(8).map(|name| &line[line.rfind(name).unwrap_or(0)..]);
    }
    let blob = mode.len() == 6 && mode.bytes().all(|byte| byte.is_ascii_digit());
    if blob { line.split_once('\t').map(|(_, name)| name) } else { None }
}

/// Returns the size in bytes that `ls -l` prints for a file.
fn entry_size(line: &str) -> Option<u64> {
    parse_long_entry(line)?;
    line.split_whitespace().nth(4)?.parse().ok()
}

pub(in super::super) fn recognizes(output: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let long = sample.share(|line| parse_long_entry(line).is_some());
    let drawn = sample.share(|line| {
        line.contains("── ") || line.trim_start().starts_with("[DIR]") || line.trim_start().starts_with("[FILE]")
    });
    let paths = sample.share(|line| {
        let line = line.trim();
        parse_entry(line) == Some(line) && !line.contains(' ') && (line.contains('/') || has_file_extension(line))
    });
    output.facts.nonblank_lines() >= weights::MIN_LINES
        && (long >= weights::MIN_LONG_SHARE || drawn >= weights::MIN_DRAWN_SHARE || paths >= weights::MIN_PATH_SHARE)
}

fn has_file_extension(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && (1..=6).contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

fn is_folder(line: &str, name: &str) -> bool {
    name.ends_with('/')
        || line.starts_with('d') && parse_long_entry(line).is_some()
        || line.trim_start().starts_with("[DIR]")
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let (mut entries, mut folders) = (0usize, 0usize);
    let (mut sorts, mut places) = (NameCounts::default(), NameCounts::default());
    let (mut quoted, mut others) = (0, 0);
    let mut largest: (Option<Line<'a>>, u64) = (None, 0);
    for line in output.lines() {
        if line.text.trim().is_empty() || line.text.starts_with("total ") {
            continue;
        }
        if line.text.ends_with(':') && !line.text.contains(' ') {
            proposal.add_quote(line, weights::FOLDER_VALUE);
            continue;
        }
        let Some(name) = parse_entry(line.text) else {
            // Other lines describe the entries: a total, a heading, or a folder that could not be read.
            if others < weights::MAX_OTHER_LINES {
                proposal.add_quote(line.trimmed(), decay(weights::OTHER_VALUE, others, weights::LINE_DECAY));
                others += 1;
            }
            continue;
        };
        if let Some(size) = entry_size(line.text).filter(|size| *size > largest.1) {
            largest = (Some(line), size);
        }
        entries += 1;
        if is_folder(line.text, name) {
            folders += 1;
        } else if has_file_extension(name) {
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
        if quoted < weights::MAX_ENTRY_LINES {
            proposal.add_quote(line.trimmed(), decay(weights::ENTRY_VALUE, quoted, weights::LINE_DECAY));
            quoted += 1;
        }
    }
    if let Some(line) = largest.0 {
        proposal.add_quote(line.trimmed(), weights::LARGEST_VALUE);
    }
    proposal.head_facts.push(if folders > 0 {
        format!("{}, {} of them folders", count_with_noun(entries, "entry"), format_count(folders))
    } else {
        count_with_noun(entries, "entry")
    });
    for (label, metrics) in [("by folder", places), ("by extension", sorts)] {
        let counts = metrics.most_frequent_first();
        let items = counts.iter().enumerate().map(|(rank, (name, count))| {
            let value = if *count == 1 { weights::SINGLE_COUNT_VALUE } else { weights::COUNT_VALUE };
            (Cow::Owned(format!("{name} {}", format_count(*count))), decay(value, rank, all::DECAY))
        });
        let of = counts.len();
        proposal.add_partial_list(label, items.collect(), of);
    }
    proposal.add_facts(output, all::READ_FACTS);
}
