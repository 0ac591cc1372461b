//! Diffs and patches: which files, how much in each, and the changed lines that matter.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, counted, number};
use crate::lines::Line;
use std::borrow::Cow;

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    let hunk = |line: &str| line.starts_with("@@ -") && line[4..].contains(" @@");
    let opens = |line: &&str| {
        ["diff --git ", "*** Begin Patch", "--- ", "Index: "].iter().any(|opener| line.starts_with(opener))
    };
    let logged =
        sample.head.first().is_some_and(|line| line.starts_with("commit ") || line.starts_with("From "));
    let paired = sample.any(hunk) && sample.any(|line| line.starts_with("+++ "));
    sample
        .head
        .first()
        .is_some_and(|line| line.starts_with("diff --git ") || line.starts_with("*** Begin Patch"))
        || (sample.head.iter().take(12).any(opens) && paired)
        || (logged && sample.any(|line| line.starts_with("diff --git ")))
}

#[derive(Default)]
struct File<'a> {
    path: &'a str,
    added: usize,
    removed: usize,
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let mut files: Vec<File<'a>> = Vec::new();
    let mut hunk = Hunk::default();
    let mut changed = 0;
    let mut commits = Commits::default();
    for line in page.lines() {
        let Some(first) = line.text.bytes().next() else { continue };
        if hunk.takes(first) {
            let Some(file) = files.last_mut() else { continue };
            file.added += usize::from(first == b'+');
            file.removed += usize::from(first == b'-');
            if matches!(first, b'+' | b'-') && changed < 400 && line.text.trim().len() > 4 {
                proposal
                    .quote(Line { at: line.at, text: line.text }, 3.0 / (1.0 + f64::from(changed) * 0.04));
                changed += 1;
            }
        } else if let Some(path) = path_of(line.text) {
            match files.last_mut() {
                // A git header is followed by the two names of the same file.
                Some(last) if last.added + last.removed == 0 && !line.text.starts_with("diff ") => {
                    last.path = path;
                }
                _ => files.push(File { path, ..File::default() }),
            }
        } else if let Some(sizes) = Hunk::opened_by(line.text) {
            hunk = sizes;
            if files.is_empty() {
                files.push(File::default());
            }
        } else {
            commits.line(line, proposal);
        }
    }
    let (added, removed) =
        files.iter().fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
    proposal.lead.push(format!("{}, +{} −{}", counted(files.len(), "file"), number(added), number(removed)));
    if commits.seen > 0 {
        proposal.lead.push(counted(commits.seen, "commit"));
    }
    let of = files.len();
    let items = files.iter().take(400).enumerate().map(|(rank, file)| {
        let text = format!("{} +{} −{}", file.path, file.added, file.removed);
        (Cow::Owned(text), 8.0 / (1.0 + rank as f64 * 0.3))
    });
    proposal.note_of("files", items.collect(), of);
    proposal.facts(page, Worth::READ);
}

/// The path that a header line names; the old side of a pair is not taken, unless the file was deleted.
fn path_of(line: &str) -> Option<&str> {
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

/// Lines that are still to come in a hunk, so that a removed line `-- x` is not taken for a header.
#[derive(Default)]
struct Hunk {
    old: usize,
    new: usize,
}

impl Hunk {
    fn opened_by(line: &str) -> Option<Self> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let size = |range: &str| range.split_once(',').map_or(Some(1), |(_, size)| size.parse().ok());
        Some(Self { old: size(old)?, new: size(new)? })
    }

    fn takes(&mut self, first: u8) -> bool {
        if self.old == 0 && self.new == 0 {
            return false;
        }
        match first {
            b'+' => self.new = self.new.saturating_sub(1),
            b'-' => self.old = self.old.saturating_sub(1),
            b' ' => {
                self.old = self.old.saturating_sub(1);
                self.new = self.new.saturating_sub(1);
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

/// The commits of a log: their subjects say what the changes are for.
#[derive(Default)]
struct Commits {
    seen: usize,
    awaits_subject: bool,
}

impl Commits {
    fn line<'a>(&mut self, line: Line<'a>, proposal: &mut Proposal<'a>) {
        if line.text.starts_with("commit ") {
            self.seen += 1;
            self.awaits_subject = true;
            proposal.quote(line, 3.0);
        } else if self.awaits_subject && line.text.starts_with("    ") && !line.text.trim().is_empty() {
            self.awaits_subject = false;
            proposal.quote(line.trimmed(), 6.0);
        }
    }
}
