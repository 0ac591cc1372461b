//! What actions were about, in a few words: written, and read again from the checkpoint before.

use super::actions::{TARGET, clip_line};

/// Names of files that a folded line still gives.
pub(super) const NAMED: usize = 4;
/// What the targets of the verbs for files are called.
const FILES: &str = "files";
/// What a list of targets ends with that is not whole.
const MORE: &str = ", …";
/// Characters of the first targets that a line still shows when room is short.
const FIRST: usize = 40;

/// What the targets of a verb are called; a line of before may have any verb.
fn noun(verb: &str) -> &'static str {
    match verb {
        "READ" | "WRITE" | "EDIT" => FILES,
        "RUN" => "commands",
        "SEARCH" => "queries",
        "LIST" => "folders",
        "FETCH" | "BROWSE" => "pages",
        "FINISH" | "ANSWER" | "CANCEL" | "BEGIN" => "requests",
        _ => "targets",
    }
}

/// What is left of targets that are given up: the folder of files, the first of others.
pub(super) fn what_is_left(verb: &str, targets: &[String]) -> String {
    if noun(verb) == FILES {
        return common_folder(targets);
    }
    targets.iter().find(|target| !target.is_empty()).map_or(String::new(), |first| clip_line(first, FIRST))
}

/// What is left of targets, as a target beside others.
pub(super) fn as_target(verb: &str, left: String) -> String {
    if noun(verb) == FILES && !left.is_empty() { left + "/" } else { left }
}

/// So many targets of which only that much is left.
pub(super) fn summed(verb: &str, count: u32, under: &str) -> String {
    match noun(verb) {
        noun if under.is_empty() => format!("{count} {noun}"),
        FILES => format!("{count} {FILES} under {under}"),
        noun => format!("{count} {noun} ({}{MORE})", under.trim_end_matches(MORE)),
    }
}

/// Several targets in a few words.
pub(super) fn many(verb: &str, targets: &[String]) -> String {
    let noun = noun(verb);
    let folder = if noun == FILES { common_folder(targets) } else { String::new() };
    let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
    let names: Vec<&str> = targets.iter().map(|target| target.get(start..).unwrap_or(target)).collect();
    let mut shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        shown.push_str(MORE);
    }
    let under = if folder.is_empty() { String::new() } else { format!(" under {folder}") };
    format!("{} {noun}{under} ({})", targets.len(), clip_line(&shown, TARGET))
}

/// The folder that holds all of these paths; empty where there is none.
fn common_folder(paths: &[String]) -> String {
    let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let mut paths = paths.iter();
    let Some(first) = paths.next() else { return String::new() };
    let mut common = folder(first);
    for path in paths {
        while !common.is_empty()
            && !path.strip_prefix(common.as_str()).is_some_and(|rest| rest.starts_with('/'))
        {
            common = folder(&common);
        }
    }
    common
}

/// How many actions a written target stands for, the target if it is one, the folder if it is many.
pub(super) fn read_target(target: &str) -> (u32, Vec<String>, Option<String>) {
    let left = |rest: &str| {
        if rest.starts_with('(') {
            return rest.to_owned();
        }
        let listed = rest.split_once('(').and_then(|(_, listed)| listed.strip_suffix(')'));
        match (rest.split_once("under "), listed) {
            (None, Some(listed)) if !rest.starts_with(FILES) => listed.trim_end_matches(MORE).to_owned(),
            (Some((_, under)), _) => under.split(" (").next().unwrap_or_default().to_owned(),
            _ => String::new(),
        }
    };
    let (first, rest) = target.split_once(' ').unwrap_or((target, ""));
    if let Some(count) = first.strip_suffix('×').and_then(|count| count.parse().ok()) {
        return (count, Vec::new(), Some(left(rest)));
    }
    let nouns = [FILES, "commands", "queries", "folders", "pages", "requests", "targets"];
    if let (Ok(count), Some(noun)) = (first.parse(), rest.split(' ').next())
        && nouns.contains(&noun)
    {
        return (count, Vec::new(), Some(left(rest)));
    }
    match target.rsplit_once(' ') {
        Some((target, times)) if times.ends_with('×') => {
            let count = times.trim_end_matches('×').parse().unwrap_or(1);
            (count, vec![target.to_owned()], None)
        }
        _ => (1, Some(target.to_owned()).filter(|target| !target.is_empty()).into_iter().collect(), None),
    }
}
