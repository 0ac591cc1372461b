//! A checkpoint as Markdown.

use super::names::common_folder;
use super::{Checkpoint, Section};
use crate::redact::Redacted;
use crate::texts::{CHECKPOINT_OPENING, END_OPENING, Marker};

/// Before a section.
pub(super) const HEADING: &str = "## ";
/// Before the source of quoted lines.
pub(super) const SOURCE: &str = "### ";
/// Before an item of a list.
pub(super) const ITEM: &str = "- ";
/// Before each further line of an item.
pub(super) const INDENT: &str = "  ";
/// Before the folder that most files are in, on a line of its own; and before what is below it.
pub(super) const BELOW: &str = "Below ";
pub(super) const SHORTENED: &str = "…/";
/// A folder is named once if it is at least so long and so many files are in it.
const LONG_FOLDER: usize = 10;
const FILES: usize = 3;

/// In a section without anything, as a model may write it.
pub(super) const NONE: &str = "None.";

/// How the folder is written that most files are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folders {
    /// Once for all of them.
    Once,
    /// With each.
    Each,
}

impl Checkpoint {
    /// The Markdown, with the marker in front and the end mark behind. A section without anything is left out.
    #[must_use]
    pub fn render(&self, marker: &Marker) -> String {
        self.render_with(marker, Folders::Once)
    }

    /// The same with paths as somebody else wrote them.
    pub(super) fn render_with(&self, marker: &Marker, folders: Folders) -> String {
        format!("{marker}\n{}\n{}", self.body(folders), marker.end())
    }

    /// What it says, without the words around it.
    #[must_use]
    pub(crate) fn page(&self) -> String {
        self.body(Folders::Once).trim_start().to_owned()
    }

    fn body(&self, folders: Folders) -> String {
        let mut text = String::new();
        for section in Section::ALL.into_iter().filter(|section| !self.is_empty(*section)) {
            text.push('\n');
            text.push_str(&heading(section));
            self.render_section(section, folders, &mut text);
        }
        text
    }

    fn render_section(&self, section: Section, folders: Folders, text: &mut String) {
        let items = self.list(section);
        let folder = match folders {
            Folders::Once if section == Section::RelevantFiles => folder(items),
            _ => "",
        };
        if !folder.is_empty() {
            text.extend([BELOW, folder, ":\n"]);
        }
        for item in items {
            match item.as_str().strip_prefix(folder).filter(|_| !folder.is_empty()) {
                Some(rest) => push_item(ITEM, &format!("{SHORTENED}{rest}"), text),
                None => push_item(ITEM, item.as_str(), text),
            }
        }
        if section == Section::EarlierWork {
            self.earlier.iter().for_each(|node| push_item(ITEM, &node.to_string(), text));
        }
        if section == Section::CompletedActions {
            for action in &self.completed {
                push_item(&format!("{}. ", action.number), &action.entry.to_string(), text);
            }
        }
        if section == Section::CriticalContext {
            for quoted in &self.quoted {
                push_source(quoted.source(), text);
                quoted.lines().for_each(|line| push_quoted(line, text));
            }
        }
    }
}

/// The folder that all whole paths among these have in common; nothing where that is not worth a line.
fn folder(items: &[Redacted]) -> &str {
    let path = |item: &'_ Redacted| item.as_str().split(" — ").next().map_or(0, str::len);
    let whole: Vec<&str> =
        items.iter().map(|item| &item.as_str()[..path(item)]).filter(|path| path.starts_with('/')).collect();
    let is_plain = |item: &Redacted| !item.as_str().starts_with(SHORTENED) && !item.as_str().contains('\n');
    let folder = common_folder(&whole);
    let is_worth_it = whole.len() >= FILES && folder.len() >= LONG_FOLDER && items.iter().all(is_plain);
    if is_worth_it { folder } else { "" }
}

/// The line of a section's heading.
pub(super) fn heading(section: Section) -> String {
    format!("{HEADING}{}\n", section.title())
}

/// An item of a list; its further lines are indented, so that no text can look like the next item or section.
pub(super) fn push_item(mark: &str, item: &str, text: &mut String) {
    text.push_str(mark);
    for (index, line) in item.split('\n').enumerate() {
        if index > 0 {
            text.push_str(INDENT);
        }
        text.push_str(line);
        text.push('\n');
    }
}

pub(super) fn push_source(source: &str, text: &mut String) {
    text.push_str(SOURCE);
    text.push_str(source);
    text.push('\n');
}

/// A quoted line as it is, for the least tokens; one that looks like structure of ours gets a backslash.
pub(super) fn push_quoted(line: &str, text: &mut String) {
    const STRUCTURE: [&str; 5] = [HEADING, SOURCE, CHECKPOINT_OPENING, END_OPENING, "\\"];
    if STRUCTURE.iter().any(|start| line.starts_with(start)) {
        text.push('\\');
    }
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::Closing;

    #[test]
    fn the_folder_of_most_files_stands_once_and_reads_back() {
        let mut checkpoint = Checkpoint::default();
        let files = [
            "/home/ada/app/src/a.rs — edited",
            "/home/ada/app/b.rs — read",
            "c.rs",
            "/home/ada/app/d — e — f",
        ];
        for file in files {
            checkpoint.push(Section::RelevantFiles, Redacted::from_store(file.to_owned()));
        }
        let text = checkpoint.render(&Marker { closing: Closing::None, memory: Vec::new() });
        assert!(text.contains(
            "Below /home/ada/app/:\n- …/src/a.rs — edited\n- …/b.rs — read\n- c.rs\n- …/d — e — f\n"
        ));
        assert_eq!(Checkpoint::parse(&text), Some(checkpoint));
    }
}
