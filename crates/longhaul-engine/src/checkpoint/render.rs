//! Renders a checkpoint as Markdown.

use super::paths::common_folder;
use super::weights::{MIN_FOLDER_BYTES, MIN_FOLDER_FILES};
use super::{Checkpoint, Section};
use crate::redact::Redacted;
use crate::texts::{CHECKPOINT_END_OPENING, CHECKPOINT_OPENING, CheckpointMarker};

/// The start of a section's heading.
pub(super) const HEADING_PREFIX: &str = "## ";
/// The start of the line that names the source of quoted lines.
pub(super) const SOURCE_PREFIX: &str = "### ";
/// The start of a list item.
pub(super) const ITEM_PREFIX: &str = "- ";
/// The indentation of further lines of a list item.
pub(super) const INDENT: &str = "  ";
/// The start of the line that names the folder that most files are in.
pub(super) const FOLDER_PREFIX: &str = "Below ";
/// The start of a path that is relative to that folder.
pub(super) const IN_FOLDER_PREFIX: &str = "…/";
/// The only line of a section without content, as a model may write it. We omit such a section.
pub(super) const EMPTY_SECTION: &str = "None.";

/// The line above a model's summary; the author and `]` follow.
pub(super) const SUMMARY_OPENING: &str = "[Summary by ";
/// The words behind the author that date a summary, by what follows it.
pub(super) const DATE_AT_MESSAGES: &str = "; where the messages below differ, they win.";
pub(super) const DATE_AT_SINCE_THEN: &str = ", up to \u{201c}Since Then\u{201d}; what is newer wins.";
pub(super) const DATE_WITH_GAP: &str = "; turns between it and the messages below are missing, and these messages win.";
/// The heading of the numbered actions behind a model's summary.
pub(super) const SINCE_THEN_TITLE: &str = "Since Then";
/// The start of a line of a summary that would look like the end of the summary otherwise.
pub(super) const SUMMARY_ESCAPE: &str = "\\";

impl Checkpoint {
    /// Renders the Markdown between the marker and the end line. Sections without content are omitted.
    #[must_use]
    pub fn render(&self, marker: &CheckpointMarker) -> String {
        format!("{marker}\n{}\n{}", self.render_sections(), marker.end_line())
    }

    /// Renders the sections without the marker and the end line, for a recall page.
    #[must_use]
    pub(crate) fn render_page(&self) -> String {
        self.render_sections().trim_start().to_owned()
    }

    fn render_sections(&self) -> String {
        let mut text = String::new();
        let (before, behind) = Section::ALL.split_at(Section::EarlierWork as usize + 1);
        self.render_list(before, &mut text);
        if let Some(summary) = &self.summary {
            text.extend(["\n", SUMMARY_OPENING, summary.author.as_str(), self.summary_date(), "]\n\n"]);
            for line in summary.text.as_str().lines() {
                text.push_str(if ends_summary(line.trim_start_matches('\\')) { SUMMARY_ESCAPE } else { "" });
                text.extend([line, "\n"]);
            }
        }
        self.render_list(behind, &mut text);
        text
    }

    /// Returns the words that date the summary: where it ends, and that what is newer wins.
    fn summary_date(&self) -> &'static str {
        if self.summary.as_ref().is_some_and(|summary| summary.leaves_gap) {
            DATE_WITH_GAP
        } else if self.completed.is_empty() {
            DATE_AT_MESSAGES
        } else {
            DATE_AT_SINCE_THEN
        }
    }

    fn render_list(&self, sections: &[Section], text: &mut String) {
        for section in sections.iter().filter(|section| !self.is_empty(**section)) {
            text.push('\n');
            match section {
                Section::CompletedActions if self.summary.is_some() => {
                    text.extend([HEADING_PREFIX, SINCE_THEN_TITLE, "\n"]);
                }
                _ => text.push_str(&heading(*section)),
            }
            self.render_section(*section, text);
        }
    }

    fn render_section(&self, section: Section, text: &mut String) {
        let items = self.list(section);
        let folder = if section == Section::RelevantFiles { shared_folder(items) } else { "" };
        if !folder.is_empty() {
            text.extend([FOLDER_PREFIX, folder, ":\n"]);
        }
        for item in items {
            match item.as_str().strip_prefix(folder).filter(|_| !folder.is_empty()) {
                Some(rest) => push_item(ITEM_PREFIX, &format!("{IN_FOLDER_PREFIX}{rest}"), text),
                None => push_item(ITEM_PREFIX, item.as_str(), text),
            }
        }
        if section == Section::EarlierWork {
            self.earlier_work.iter().for_each(|node| push_item(ITEM_PREFIX, &node.to_string(), text));
        }
        if section == Section::CompletedActions {
            for action in &self.completed {
                push_item(&format!("{}. ", action.number), &action.entry.to_string(), text);
            }
        }
        if section == self.section_of_quotes() {
            for quoted in &self.quoted {
                text.extend([SOURCE_PREFIX, quoted.source(), "\n"]);
                quoted.lines().for_each(|line| push_quoted(line, text));
            }
        }
    }
}

/// Returns the folder that all absolute paths have in common; empty if writing it once saves too little.
fn shared_folder(items: &[Redacted]) -> &str {
    let path = |item: &'_ Redacted| item.as_str().split(" — ").next().map_or(0, str::len);
    let whole: Vec<&str> =
        items.iter().map(|item| &item.as_str()[..path(item)]).filter(|path| path.starts_with('/')).collect();
    let is_plain = |item: &Redacted| !item.as_str().starts_with(IN_FOLDER_PREFIX) && !item.as_str().contains('\n');
    let folder = common_folder(&whole);
    let is_worth_it = whole.len() >= MIN_FOLDER_FILES && folder.len() >= MIN_FOLDER_BYTES && items.iter().all(is_plain);
    if is_worth_it { folder } else { "" }
}

/// Returns whether a line ends a model's summary: it is a heading that only stands behind one.
pub(super) fn ends_summary(line: &str) -> bool {
    let title = line.strip_prefix(HEADING_PREFIX).map(str::trim_end);
    title == Some(SINCE_THEN_TITLE) || title == Some(Section::NotInSummary.title())
}

/// Returns the line of a section's heading.
pub(super) fn heading(section: Section) -> String {
    format!("{HEADING_PREFIX}{}\n", section.title())
}

/// Appends a list item. Its further lines are indented, so that no text can look like the next item or
/// section.
fn push_item(mark: &str, item: &str, text: &mut String) {
    text.push_str(mark);
    for (index, line) in item.split('\n').enumerate() {
        if index > 0 {
            text.push_str(INDENT);
        }
        text.push_str(line);
        text.push('\n');
    }
}

/// Appends a quoted line. Only a line that looks like our own structure gets a backslash, because each one
/// costs tokens.
fn push_quoted(line: &str, text: &mut String) {
    const STRUCTURE: [&str; 6] =
        [HEADING_PREFIX, SOURCE_PREFIX, SUMMARY_OPENING, CHECKPOINT_OPENING, CHECKPOINT_END_OPENING, "\\"];
    if STRUCTURE.iter().any(|start| line.starts_with(start)) {
        text.push('\\');
    }
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::RequestPosition;

    #[test]
    fn a_shared_folder_is_written_once_and_parses_back() {
        let mut checkpoint = Checkpoint::default();
        let files = ["/home/ada/app/src/a.rs — edited", "/home/ada/app/b.rs — read", "c.rs", "/home/ada/app/d — e — f"];
        for file in files {
            checkpoint.push(Section::RelevantFiles, Redacted::assume_redacted(file.to_owned()));
        }
        let text = checkpoint
            .render(&CheckpointMarker { request_position: RequestPosition::Unknown, memory_files: Vec::new() });
        assert!(
            text.contains("Below /home/ada/app/:\n- …/src/a.rs — edited\n- …/b.rs — read\n- c.rs\n- …/d — e — f\n")
        );
        assert_eq!(Checkpoint::parse(&text), Some(checkpoint));
    }
}
