//! Diffs and patches: keeps the files with their counts of changed lines, and some changed lines.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, count_with_noun, decay, format_count};
use super::super::weights::{self as all, diff as weights};
use crate::lines::Line;
use std::borrow::Cow;

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let hunk = |line: &str| line.starts_with("@@ -") && line[4..].contains(" @@");
    let opens = |line: &&str| {
        ["diff --git ", "*** Begin Patch", "--- ", "Index: "].iter().any(|opener| line.starts_with(opener))
    };
    let logged = sample.head.first().is_some_and(|line| line.starts_with("commit ") || line.starts_with("From "));
    let paired = sample.any(hunk) && sample.any(|line| line.starts_with("+++ "));
    sample.head.first().is_some_and(|line| line.starts_with("diff --git ") || line.starts_with("*** Begin Patch"))
        || (sample.head.iter().take(weights::OPENING_LINES).any(opens) && paired)
        || (logged && sample.any(|line| line.starts_with("diff --git ")))
}

#[derive(Default)]
struct DiffFile<'a> {
    path: &'a str,
    added: usize,
    removed: usize,
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let mut files: Vec<DiffFile<'a>> = Vec::new();
    let mut hunk = Hunk::default();
    let mut changed = 0;
    let mut commits = CommitScan::default();
    for line in output.lines() {
        let Some(first) = line.text.bytes().next() else { continue };
        if hunk.consume_line(first) {
            let Some(file) = files.last_mut() else { continue };
            file.added += usize::from(first == b'+');
            file.removed += usize::from(first == b'-');
            if matches!(first, b'+' | b'-')
                && changed < all::MAX_CANDIDATES
                && line.text.trim().len() >= weights::MIN_CHANGED_LINE_BYTES
            {
                proposal.add_quote(line, decay(weights::CHANGED_LINE_VALUE, changed, all::DECAY));
                changed += 1;
            }
        } else if let Some(path) = header_path(line.text) {
            match files.last_mut() {
                // The header of a git diff is followed by two lines with the names of the same file.
                Some(last) if last.added + last.removed == 0 && !line.text.starts_with("diff ") => {
                    last.path = path;
                }
                _ => files.push(DiffFile { path, ..DiffFile::default() }),
            }
        } else if let Some(sizes) = Hunk::parse_header(line.text) {
            hunk = sizes;
            if files.is_empty() {
                files.push(DiffFile::default());
            }
        } else {
            commits.add_line(line, proposal);
        }
    }
    let (added, removed) =
        files.iter().fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
    proposal.head_facts.push(format!(
        "{}, +{} −{}",
        count_with_noun(files.len(), "file"),
        format_count(added),
        format_count(removed)
    ));
    if commits.count > 0 {
        proposal.head_facts.push(count_with_noun(commits.count, "commit"));
    }
    let of = files.len();
    let items = files.iter().take(all::MAX_CANDIDATES).enumerate().map(|(rank, file)| {
        let text = format!("{} +{} −{}", file.path, file.added, file.removed);
        (Cow::Owned(text), decay(weights::FILE_VALUE, rank, weights::FILE_DECAY))
    });
    proposal.add_partial_list("files", items.collect(), of);
    proposal.add_facts(output, all::READ_FACTS);
}

/// Returns the path in a header line. Of a pair of headers, only the new side counts.
fn header_path(line: &str) -> Option<&str> {
    if let Some(names) = line.strip_prefix("diff --git ") {
        return names.rsplit_once(" b/").map(|(_, path)| path).or(Some(names));
    }
    for marker in ["*** Update File: ", "*** Add File: ", "*** Delete File: "] {
        if let Some(path) = line.strip_prefix(marker) {
            return Some(path);
        }
    }
    let path = line.strip_prefix("+++ ")?.split('\t').next()?;
    (path != "/dev/null").then(|| path.strip_prefix("b/").unwrap_or(path))
}

/// The lines that are still to come in a hunk. The count keeps a removed line `-- x` from being taken for a
/// header.
#[derive(Default)]
struct Hunk {
    old_left: usize,
    new_left: usize,
}

impl Hunk {
    fn parse_header(line: &str) -> Option<Self> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let size = |range: &str| range.split_once(',').map_or(Some(1), |(_, size)| size.parse().ok());
        Some(Self { old_left: size(old)?, new_left: size(new)? })
    }

    fn consume_line(&mut self, first: u8) -> bool {
        if self.old_left == 0 && self.new_left == 0 {
            return false;
        }
        match first {
            b'+' => self.new_left = self.new_left.saturating_sub(1),
            b'-' => self.old_left = self.old_left.saturating_sub(1),
            b' ' => {
                self.old_left = self.old_left.saturating_sub(1);
                self.new_left = self.new_left.saturating_sub(1);
            }
            b'\\' => {}
            _ => {
                *self = Self::default();
                return false;
            }
        }
        true
    }
}

/// The commits of a log. Their subjects are quoted, because they explain the changes.
#[derive(Default)]
struct CommitScan {
    count: usize,
    awaits_subject: bool,
}

impl CommitScan {
    fn add_line<'a>(&mut self, line: Line<'a>, proposal: &mut DigestProposal<'a>) {
        if line.text.starts_with("commit ") {
            self.count += 1;
            self.awaits_subject = true;
            proposal.add_quote(line, weights::COMMIT_VALUE);
        } else if self.awaits_subject && line.text.starts_with("    ") && !line.text.trim().is_empty() {
            self.awaits_subject = false;
            proposal.add_quote(line.trimmed(), weights::COMMIT_SUBJECT_VALUE);
        }
    }
}
