//! The changes that a tool call makes to files: which lines it removes and adds, as far as the call itself
//! shows them.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use super::FileOperation;

/// The number of removed lines that are stored. Chosen by hand.
const MAX_REMOVED_SAMPLES: usize = 4;
/// The number of added lines that are stored. Chosen by hand.
const MAX_ADDED_SAMPLES: usize = 8;
/// A longer line, in bytes, is taken for data and never stored. Chosen by hand.
const MAX_CODE_LINE_BYTES: usize = 600;
/// With more changed lines than this, removed and added lines are not compared with each other. Chosen by
/// hand: it bounds the time.
const MAX_COMPARED_LINES: usize = 20_000;
/// The number of lines that are scored when the lines to store are chosen. Chosen by hand: it bounds the
/// time.
const MAX_SCORED_LINES: usize = 400;
/// The number of lines whose hashes are stored. Chosen by hand: it bounds the memory.
const MAX_HASHED_LINES: usize = 400;

/// The change that a tool call makes to one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileChange {
    /// The path, as the call writes it.
    pub path: String,
    /// The operation on the file; `None` for an edit.
    pub operation: Option<FileOperation>,
    /// The first and last line that the edit replaces, if the call gives only line numbers.
    pub replaced_range: Option<(usize, usize)>,
    /// The file that this one was copied or moved from.
    pub copied_from: Option<String>,
    /// The files that this file writes when it is run, if it is a script.
    pub script_writes: Vec<String>,
    /// The lines that the change removes.
    pub removed: ChangedLines,
    /// The lines that the change adds.
    pub added: ChangedLines,
}

/// The lines that a change removes or adds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedLines {
    /// The number of lines.
    pub line_count: usize,
    /// The most informative lines, best first, each with its index.
    pub sampled: Vec<(usize, String)>,
    /// The hashes of the lines, so that a later removal of the same line is recognized; empty for a file that
    /// is written as a whole.
    pub(crate) hashes: Vec<u32>,
}

/// Returns the hash of a line without its indentation.
pub(crate) fn line_hash(line: &str) -> u32 {
    xxh3_64(line.trim().as_bytes()) as u32
}

impl ChangedLines {
    /// Returns the lines of one side of an edit, with their hashes.
    fn with_hashes(lines: &[&str], most: usize) -> Self {
        let marks = lines.iter().take(MAX_HASHED_LINES).map(|line| line_hash(line)).collect();
        Self { hashes: marks, ..Self::telling(lines, most) }
    }

    /// Returns the most informative of these lines, without hashes.
    fn telling(lines: &[&str], most: usize) -> Self {
        let mut rated: Vec<(usize, f32)> =
            lines.iter().take(MAX_SCORED_LINES).map(|line| score_line(line)).enumerate().collect();
        rated.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        // Lines that score less than a quarter of the best one are noise.
        let least = rated.first().map_or(0.0, |(_, best)| best / 4.0);
        let mut telling: Vec<(usize, String)> = Vec::with_capacity(most);
        for (at, _) in rated.iter().take_while(|(_, rate)| *rate > least) {
            let line = lines[*at].trim();
            if telling.len() == most {
                break;
            }
            if telling.iter().all(|(_, told)| told != line) {
                telling.push((*at, line.to_owned()));
            }
        }
        Self { line_count: lines.len(), sampled: telling, hashes: Vec::new() }
    }
}

/// Scores how informative a line of code is by itself. Words and identifiers raise the score. Comments,
/// imports and control flow score little; brackets, blank lines and data score nothing.
fn score_line(line: &str) -> f32 {
    const SAYS_LITTLE: [&str; 20] = [
        "#",
        "//",
        "/*",
        "*",
        "\"\"\"",
        "import ",
        "from ",
        "use ",
        "print(",
        "with open(",
        "console.log",
        "echo ",
        "if ",
        "elif ",
        "else",
        "for ",
        "while ",
        "try",
        "except ",
        "} else",
    ];
    let line = line.trim();
    let is_data = || line.len() > 80 && line.split_whitespace().any(|word| word.len() > 80);
    if line.len() > MAX_CODE_LINE_BYTES || is_data() {
        return 0.0;
    }
    let (mut words, mut names) = (0, 0);
    let is_symbol = |c: char| {
        if c.is_ascii() { !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.') } else { !c.is_alphanumeric() }
    };
    for word in line.split(is_symbol).filter(|word| word.len() > 1) {
        words += 1;
        names += usize::from(word.trim_matches(['_', '.']).contains(['_', '.']));
    }
    if words == 0 {
        return 0.0;
    }
    // A line of prose is a comment or a string, whatever language the file is in.
    let is_prose = names == 0 && !line.contains(['=', '(', '{', '[', '<']);
    let little = is_prose || SAYS_LITTLE.iter().any(|start| line.starts_with(start));
    (words.min(6) + 2 * names.min(3)) as f32 * if little { 0.35 } else { 1.0 }
}

impl FileChange {
    /// Returns the change of a file that is written as a whole.
    pub(super) fn created(path: String, content: &str) -> Self {
        let lines: Vec<&str> = content.lines().collect();
        let (how, into) = (Some(FileOperation::Created), ChangedLines::telling(&lines, MAX_ADDED_SAMPLES));
        Self { path, operation: how, added: into, script_writes: files_written_by(content), ..Self::default() }
    }

    /// Returns the change that replaces some lines by others. Lines on both sides do not count.
    pub(super) fn edited(path: String, old: &[&str], new: &[&str]) -> Self {
        let (old, new) = differing_lines(old, new);
        Self {
            path,
            removed: ChangedLines::with_hashes(&old, MAX_REMOVED_SAMPLES),
            added: ChangedLines::with_hashes(&new, MAX_ADDED_SAMPLES),
            ..Self::default()
        }
    }

    /// Adds another edit of the same file.
    pub(super) fn merge(&mut self, other: Self) {
        for (side, more, most) in
            [(&mut self.removed, other.removed, MAX_REMOVED_SAMPLES), (&mut self.added, other.added, MAX_ADDED_SAMPLES)]
        {
            let behind = side.line_count;
            side.sampled.extend(more.sampled.into_iter().map(|(at, line)| (behind + at, line)));
            side.sampled.truncate(most);
            side.line_count += more.line_count;
            side.hashes.extend(more.hashes);
        }
    }

    /// Returns a change whose lines are unknown.
    pub(super) fn without_lines(path: String, how: FileOperation) -> Self {
        Self { path, operation: Some(how), ..Self::default() }
    }
}

/// Returns the files that a Python program opens for writing: `open('a.py', 'w')`, with a literal path or a
/// variable that a literal is assigned to.
pub(super) fn files_written_by(program: &str) -> Vec<String> {
    const MODES: [&str; 6] = ["'w'", "\"w\"", "'a'", "\"a\"", "'w+'", "\"w+\""];
    let mut found: Vec<String> = Vec::new();
    let opened = program.match_indices("open(").filter_map(|(at, call)| {
        let (name, rest) = program[at + call.len()..].split_once(',')?;
        MODES.iter().any(|mode| rest.trim_start().starts_with(mode)).then_some(name.trim())
    });
    for name in opened {
        let quoted = |text: &str| {
            let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
            text[1..].split_once(quote).map(|(path, _)| path.to_owned())
        };
        let given = || {
            let lines =
                program.lines().filter_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
            lines.map(str::trim_start).find_map(quoted)
        };
        let path = quoted(name).or_else(given).filter(|path| !path.is_empty() && !path.contains('\n'));
        found.extend(path.filter(|path| !found.contains(path)));
    }
    found
}

/// Returns the lines that only the old side has, and those that only the new side has.
fn differing_lines<'a>(old: &[&'a str], new: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same..], &new[same..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - same], &new[..new.len() - same]);
    if old.len() + new.len() > MAX_COMPARED_LINES {
        return (old.to_vec(), new.to_vec());
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in new {
        *left.entry(line.trim()).or_default() += 1;
    }
    let mut goes_on = |line: &&&str| match left.get_mut(line.trim()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    let out: Vec<&str> = old.iter().filter(|line| goes_on(line)).copied().collect();
    let mut came = Vec::new();
    for line in new.iter().rev() {
        if let Some(count) = left.get_mut(line.trim()).filter(|count| **count > 0) {
            *count -= 1;
            came.push(*line);
        }
    }
    came.reverse();
    (out, came)
}

/// Returns the changes of a program that is run directly: its whole text counts as added to each file that it
/// writes.
pub(super) fn program_changes(program: &str) -> Vec<FileChange> {
    let lines: Vec<&str> = program.lines().collect();
    files_written_by(program).into_iter().map(|path| FileChange::edited(path, &[], &lines)).collect()
}

/// Parses an edit of the file that an editor has open (`edit 3:4`, the lines, `end_of_edit`) into its first
/// line and its text.
pub(super) fn parse_editor_edit(command: &str) -> Option<(&str, &str)> {
    let (head, rest) = command.trim_start().split_once('\n')?;
    let is_edit = head.strip_prefix("edit ").is_some_and(|range| range.contains(':'));
    let (text, _) = rest.rsplit_once("end_of_edit").filter(|_| is_edit)?;
    Some((head, text))
}

/// Returns the change by an edit of the open file. The editor's answer (`shown`) gives the path.
pub(crate) fn editor_change(command: &str, shown: &str) -> Option<FileChange> {
    let (head, text) = parse_editor_edit(command)?;
    let range = head.strip_prefix("edit ").and_then(|range| range.trim().split_once(':'));
    let range = range.and_then(|(from, to)| {
        Some((from.parse::<usize>().ok()?, to.split_whitespace().next()?.parse::<usize>().ok()?))
    });
    let path = shown.split_once("[File: ").and_then(|(_, path)| path.split_once(" (")).map_or("", |(path, _)| path);
    let mut change = FileChange::edited(path.to_owned(), &[], &text.lines().collect::<Vec<_>>());
    change.replaced_range = range;
    Some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_of_the_open_file_has_the_path_that_is_shown() {
        let change = editor_change("edit 3:4\n  port = 81\nend_of_edit", "[File: /a/b.py (90 lines total)]").unwrap();
        assert_eq!((change.path.as_str(), change.added.sampled.len()), ("/a/b.py", 1));
        assert_eq!(editor_change("ls\nedit", ""), None);
    }
}
