//! A checkpoint as Markdown.

use super::{Checkpoint, Section};
use crate::texts::{CHECKPOINT_OPENING, END_OPENING, Marker};

/// Before a section.
pub(super) const HEADING: &str = "## ";
/// Before the source of quoted lines.
pub(super) const SOURCE: &str = "### ";
/// Before an item of a list.
pub(super) const ITEM: &str = "- ";
/// Before each further line of an item.
pub(super) const INDENT: &str = "  ";
/// In a section without anything, as a model may write it.
pub(super) const NONE: &str = "None.";

impl Checkpoint {
    /// The Markdown, with the marker in front and the end mark behind. A section without anything is left out.
    #[must_use]
    pub fn render(&self, marker: &Marker) -> String {
        let mut text = marker.to_string();
        text.push('\n');
        for section in Section::ALL.into_iter().filter(|section| !self.is_empty(*section)) {
            text.push('\n');
            text.push_str(&heading(section));
            self.render_section(section, &mut text);
        }
        text.push('\n');
        text.push_str(&marker.end());
        text
    }

    fn render_section(&self, section: Section, text: &mut String) {
        for item in self.list(section) {
            push_item(ITEM, item.as_str(), text);
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
