//! What a call did to the lines of files: which went out and which came in, as far as the call itself shows it.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use super::Touched;

/// Lines kept of each side: the telling ones.
const MOST_OUT: usize = 4;
const MOST_IN: usize = 8;
/// A line longer than this is data.
const WIDTH: usize = 600;
/// More lines than this are not compared one by one, looked at for what tells most, or known again.
const COMPARED: usize = 20_000;
const RATED: usize = 400;
const MARKED: usize = 400;

/// What a call did to one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// The file, as the call writes it.
    pub path: String,
    /// What became of it; none where it was edited.
    pub how: Option<Touched>,
    /// The lines whose place was taken, where only their numbers are known.
    pub range: Option<(usize, usize)>,
    /// The file that it was copied or moved from.
    pub from: Option<String>,
    /// Files that it writes when it is run, where it is a script.
    pub writes: Vec<String>,
    /// What went out.
    pub out: Side,
    /// What came in.
    pub into: Side,
}

/// One side of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    /// How many lines.
    pub lines: usize,
    /// Some of them, each with its place, those that tell most first.
    pub telling: Vec<(usize, String)>,
    /// What tells each of them from others, so that what goes out later is known again; none of a file that is written whole.
    pub(crate) marks: Vec<u32>,
}

/// What tells a line from others, wherever it stands.
pub(crate) fn mark(line: &str) -> u32 {
    xxh3_64(line.trim().as_bytes()) as u32
}

impl Side {
    /// A side of an edit.
    fn of(lines: &[&str], most: usize) -> Self {
        let marks = lines.iter().take(MARKED).map(|line| mark(line)).collect();
        Self { marks, ..Self::telling(lines, most) }
    }

    /// What tells most of many lines.
    fn telling(lines: &[&str], most: usize) -> Self {
        let mut rated: Vec<(usize, f32)> =
            lines.iter().take(RATED).map(|line| tells(line)).enumerate().collect();
        rated.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        // Beside lines that tell something, others are noise.
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
        Self { lines: lines.len(), telling, marks: Vec::new() }
    }
}

/// How much a line of code tells by itself: the names in it; little where it only leads to others, nothing for brackets, blanks
/// and data.
fn tells(line: &str) -> f32 {
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
    if line.len() > WIDTH || is_data() {
        return 0.0;
    }
    let (mut words, mut names) = (0, 0);
    let is_sign = |c: char| {
        if c.is_ascii() {
            !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.')
        } else {
            !c.is_alphanumeric()
        }
    };
    for word in line.split(is_sign).filter(|word| word.len() > 1) {
        words += 1;
        names += usize::from(word.trim_matches(['_', '.']).contains(['_', '.']));
    }
    if words == 0 {
        return 0.0;
    }
    // Prose is a comment or a text, whatever it stands in.
    let is_prose = names == 0 && !line.contains(['=', '(', '{', '[', '<']);
    let little = is_prose || SAYS_LITTLE.iter().any(|start| line.starts_with(start));
    (words.min(6) + 2 * names.min(3)) as f32 * if little { 0.35 } else { 1.0 }
}

impl Change {
    /// A file that is written from its beginning.
    pub(super) fn created(path: String, content: &str) -> Self {
        let lines: Vec<&str> = content.lines().collect();
        let (how, into) = (Some(Touched::Created), Side::telling(&lines, MOST_IN));
        Self { path, how, into, writes: written_by(content), ..Self::default() }
    }

    /// Lines that take the place of others: what is on both sides is no change.
    pub(super) fn edited(path: String, old: &[&str], new: &[&str]) -> Self {
        let (old, new) = differing(old, new);
        Self { path, out: Side::of(&old, MOST_OUT), into: Side::of(&new, MOST_IN), ..Self::default() }
    }

    /// With another edit of the same file.
    pub(super) fn and(&mut self, other: Self) {
        for (side, more, most) in
            [(&mut self.out, other.out, MOST_OUT), (&mut self.into, other.into, MOST_IN)]
        {
            let behind = side.lines;
            side.telling.extend(more.telling.into_iter().map(|(at, line)| (behind + at, line)));
            side.telling.truncate(most);
            side.lines += more.lines;
            side.marks.extend(more.marks);
        }
    }

    /// Something that shows no lines.
    pub(super) fn whole(path: String, how: Touched) -> Self {
        Self { path, how: Some(how), ..Self::default() }
    }
}

/// The files that a program writes, as far as its text names them: `open('a.py', 'w')`, with the name itself or one that it was given.
pub(super) fn written_by(program: &str) -> Vec<String> {
    const MODES: [&str; 6] = ["'w'", "\"w\"", "'a'", "\"a\"", "'w+'", "\"w+\""];
    let mut found: Vec<String> = Vec::new();
    let opened = program.match_indices("open(").filter_map(|(at, call)| {
        let (name, rest) = program[at + call.len()..].split_once(',')?;
        MODES.iter().any(|mode| rest.trim_start().starts_with(mode)).then_some(name.trim())
    });
    for name in opened {
        let quoted = |text: &str| {
            let sign = text.chars().next().filter(|sign| matches!(sign, '\'' | '"'))?;
            text[1..].split_once(sign).map(|(path, _)| path.to_owned())
        };
        let given = || {
            let lines = program
                .lines()
                .filter_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
            lines.map(str::trim_start).find_map(quoted)
        };
        let path = quoted(name).or_else(given).filter(|path| !path.is_empty() && !path.contains('\n'));
        found.extend(path.filter(|path| !found.contains(path)));
    }
    found
}

/// The lines that only one side has.
fn differing<'a>(old: &[&'a str], new: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same..], &new[same..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - same], &new[..new.len() - same]);
    if old.len() + new.len() > COMPARED {
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

/// What a program that is run at once does to files.
pub(super) fn by_program(program: &str) -> Vec<Change> {
    let lines: Vec<&str> = program.lines().collect();
    written_by(program).into_iter().map(|path| Change::edited(path, &[], &lines)).collect()
}

/// An edit of the file that an editor has open: `edit 3:4`, the lines, `end_of_edit`; its first line and the others.
pub(super) fn open_file_edit(command: &str) -> Option<(&str, &str)> {
    let (head, rest) = command.trim_start().split_once('\n')?;
    let is_edit = head.strip_prefix("edit ").is_some_and(|range| range.contains(':'));
    let (text, _) = rest.rsplit_once("end_of_edit").filter(|_| is_edit)?;
    Some((head, text))
}

/// Lines that an editor put into the file that it had open, which its answer names.
pub(crate) fn into_open_file(command: &str, shown: &str) -> Option<Change> {
    let (head, text) = open_file_edit(command)?;
    let range = head.strip_prefix("edit ").and_then(|range| range.trim().split_once(':'));
    let range = range.and_then(|(from, to)| {
        Some((from.parse::<usize>().ok()?, to.split_whitespace().next()?.parse::<usize>().ok()?))
    });
    let path =
        shown.split_once("[File: ").and_then(|(_, path)| path.split_once(" (")).map_or("", |(path, _)| path);
    let mut change = Change::edited(path.to_owned(), &[], &text.lines().collect::<Vec<_>>());
    change.range = range;
    Some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_of_the_open_file_has_the_path_that_is_shown() {
        let change =
            into_open_file("edit 3:4\n  port = 81\nend_of_edit", "[File: /a/b.py (90 lines total)]").unwrap();
        assert_eq!((change.path.as_str(), change.into.telling.len()), ("/a/b.py", 1));
        assert_eq!(into_open_file("ls\nedit", ""), None);
    }
}
