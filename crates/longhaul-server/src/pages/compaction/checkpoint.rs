//! Parses a checkpoint into items, and finds the item that covers a summarized block.
//!
//! If originals are stored, an item names them by their recall IDs. Otherwise a turn is found by its action,
//! and a text by the words that an item quotes. A block that no item covers is linked to the heading of the
//! section where it would be.

use std::collections::HashMap;

use longhaul_engine::action::{Action, Actions};
use longhaul_engine::checkpoint::Section;
use longhaul_engine::plan::ContentKind;
use longhaul_engine::texts::{ActionEntry, CHECKPOINT_END_OPENING, EntryKind};

/// A checkpoint as the page shows it.
#[derive(Debug, Clone, Default)]
pub struct CheckpointView {
    /// The items in order, with the headings. Together they contain the whole text.
    pub items: Vec<CheckpointItem>,
    /// The size in tokens.
    pub tokens: u64,
    /// The number of messages that the checkpoint replaced.
    pub replaced_messages: usize,
}

/// A heading, a list item with all its lines, or other text of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The text, with the list marker.
    pub text: String,
    /// The section that contains the item; none if its heading is not known.
    section: Option<Section>,
}

/// The kind of a checkpoint item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// The heading of a section.
    Heading,
    /// A list item, or lines from one source.
    ListItem,
    /// Any other text, such as the frame of the checkpoint.
    Other,
}

impl CheckpointView {
    /// Parses the Markdown of a checkpoint. The first characters of a line decide its kind.
    pub(super) fn parse(text: &str) -> Self {
        let mut items: Vec<CheckpointItem> = Vec::new();
        let mut section = None;
        for line in text.lines() {
            let last = items.last_mut();
            let kind = if line.starts_with("## ") {
                section = Section::ALL.into_iter().find(|section| line[3..].trim_end() == section.title());
                Some(ItemKind::Heading)
            } else if line.starts_with("- ") || line.starts_with("### ") || is_numbered(line) {
                Some(ItemKind::ListItem)
            } else if line.starts_with(CHECKPOINT_END_OPENING)
                || last.as_ref().is_none_or(|last| last.kind == ItemKind::Heading)
            {
                Some(ItemKind::Other)
            } else {
                None
            };
            match (kind, last) {
                (Some(kind), _) => items.push(CheckpointItem { kind, text: line.to_owned(), section }),
                (None, Some(last)) => {
                    last.text.push('\n');
                    last.text.push_str(line);
                }
                (None, None) => {}
            }
        }
        Self { items, tokens: 0, replaced_messages: 0 }
    }

    /// Returns the index of a section's heading; of the first heading if the section is missing.
    fn heading_item(&self, section: Section) -> Option<usize> {
        let headings = || self.items.iter().enumerate().filter(|(_, item)| item.kind == ItemKind::Heading);
        let found = headings().find(|(_, item)| item.section == Some(section)).or_else(|| headings().next());
        found.map(|(at, _)| at)
    }
}

fn is_numbered(line: &str) -> bool {
    line.split_once(". ").is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Finds the checkpoint items that cover summarized blocks.
pub(super) struct ItemFinder<'c> {
    checkpoint: &'c CheckpointView,
    /// The items by the recall IDs that they name.
    by_recall_id: HashMap<String, usize>,
    /// The quoted lines with their items, longest first.
    by_quote: Vec<(String, usize)>,
    /// The items by the index of the turn that they describe.
    by_turn: HashMap<usize, usize>,
}

/// A turn of which at least one block was summarized.
pub(super) struct SummarizedTurn {
    pub(super) turn: usize,
    /// The text of its tool calls.
    pub(super) calls_text: String,
}

/// The shortest line, in bytes, that counts as a quotation; a shorter one could be in any text. Chosen by
/// hand.
const MIN_QUOTE_BYTES: usize = 16;

impl<'c> ItemFinder<'c> {
    /// Indexes a checkpoint for the summarized turns, which must be in order.
    pub(super) fn new(checkpoint: &'c CheckpointView, actions: &Actions, summarized_turns: &[SummarizedTurn]) -> Self {
        let (mut recall_ids, mut quotes) = (HashMap::new(), Vec::new());
        for (at, item) in checkpoint.items.iter().enumerate().filter(|(_, item)| item.kind == ItemKind::ListItem) {
            for recall_id in mentioned_recall_ids(&item.text) {
                recall_ids.entry(recall_id.to_owned()).or_insert(at);
            }
            let lines = item
                .text
                .lines()
                .map(|line| collapse_whitespace(item_text(line)))
                .filter(|line| line.len() >= MIN_QUOTE_BYTES);
            quotes.extend(lines.map(|line| (line, at)));
        }
        quotes.sort_by_key(|(quote, at)| (std::cmp::Reverse(quote.len()), *at));
        let mut finder = Self { checkpoint, by_recall_id: recall_ids, by_quote: quotes, by_turn: HashMap::new() };
        finder.match_turns(actions, summarized_turns);
        finder
    }

    /// Matches the items of Completed Actions with turns. The actions are in order of time, so each is
    /// searched after the one before. If an item quotes a change, the quotation tells it from other changes
    /// of the same file.
    fn match_turns(&mut self, actions: &Actions, summarized_turns: &[SummarizedTurn]) {
        let mut from = 0;
        for (at, text) in self.list_items(Section::CompletedActions).collect::<Vec<_>>() {
            let Ok(entry) = item_text(text).parse::<ActionEntry>();
            let target = entry.target().trim_end_matches('…').trim();
            if target.len() < 3
                || matches!(entry.kind(), EntryKind::Note | EntryKind::Answer | EntryKind::Message | EntryKind::Other)
            {
                continue;
            }
            let quoted: Vec<&str> =
                entry.outcome().as_str().split('`').skip(1).step_by(2).filter(|quote| quote.len() > 3).collect();
            let is_open_match = |summarized: &&SummarizedTurn| {
                !self.by_turn.contains_key(&summarized.turn)
                    && actions.in_turn(summarized.turn).iter().any(|action| acted_on(action, target))
            };
            let quotes_change = |summarized: &&SummarizedTurn| {
                quoted.iter().any(|quote| summarized.calls_text.contains(quote.trim_end_matches('…')))
            };
            let later_turns = || summarized_turns[from..].iter().filter(is_open_match);
            let found = later_turns().find(quotes_change).or_else(|| later_turns().next());
            let found = found.map(|summarized| summarized.turn);
            if let Some(turn) = found {
                from = summarized_turns.partition_point(|summarized| summarized.turn < turn);
                self.by_turn.insert(turn, at);
            }
        }
        // A file that was only read can be an item of Relevant Files.
        let files: Vec<(usize, &str)> = self.list_items(Section::RelevantFiles).collect();
        for SummarizedTurn { turn, .. } in summarized_turns {
            let targets = || {
                actions
                    .in_turn(*turn)
                    .iter()
                    .filter(|action| action.is_read_only)
                    .filter_map(|action| action.target.as_deref())
            };
            let path =
                |line: &str| item_text(line).split(" — ").next().map(|path| path.trim_start_matches("…/").to_owned());
            let file = files.iter().find(|(_, line)| {
                path(line).is_some_and(|path| path.len() > 3 && targets().any(|target| target.contains(&path)))
            });
            if let Some((at, _)) = file {
                self.by_turn.entry(*turn).or_insert(*at);
            }
        }
    }

    fn list_items(&self, section: Section) -> impl Iterator<Item = (usize, &'c str)> {
        let items = self.checkpoint.items.iter().enumerate();
        items
            .filter(move |(_, item)| item.section == Some(section) && item.kind == ItemKind::ListItem)
            .map(|(at, item)| (at, item.text.as_str()))
    }

    /// Returns the index of the item that covers a block, or of the heading of the section where it would be.
    pub(super) fn find(&self, turn: usize, kind: ContentKind, recall_id: Option<&str>, text: &str) -> Option<usize> {
        let by_recall_id = recall_id.and_then(|recall_id| self.by_recall_id.get(recall_id)).copied();
        let section = match kind {
            ContentKind::Prompt | ContentKind::Checkpoint | ContentKind::Opaque | ContentKind::Page => Section::Goal,
            ContentKind::Reply | ContentKind::Reasoning | ContentKind::Call | ContentKind::Result => {
                Section::CompletedActions
            }
        };
        by_recall_id
            .or_else(|| self.find_quote(kind, text))
            .or_else(|| self.by_turn.get(&turn).copied())
            .or_else(|| self.checkpoint.heading_item(section))
    }

    /// Returns the item that quotes the most of a text. A tool result is only searched in Critical Context,
    /// the one section that quotes tools.
    fn find_quote(&self, kind: ContentKind, text: &str) -> Option<usize> {
        if matches!(kind, ContentKind::Call | ContentKind::Reasoning) {
            return None;
        }
        let text = collapse_whitespace(text);
        let is_allowed = |at: usize| {
            kind != ContentKind::Result || self.checkpoint.items[at].section == Some(Section::CriticalContext)
        };
        let quoted = self.by_quote.iter().find(|(quote, at)| is_allowed(*at) && text.contains(quote.as_str()));
        let exact =
            || self.by_quote.iter().find(|(quote, at)| is_allowed(*at) && text.len() >= 4 && quote.as_str() == text);
        quoted.or_else(exact).map(|(_, at)| *at)
    }
}

/// Returns whether an action worked on a target as an item names it: whole, cut at the end, or without its
/// leading folders.
fn acted_on(action: &Action, target: &str) -> bool {
    let names = action.target.iter().map(String::as_str).chain(action.files.iter().map(|touch| touch.path.as_str()));
    let is_it = |name: String| {
        name.starts_with(target)
            || name.strip_suffix(target).is_some_and(|folders| folders.ends_with('/'))
            || name.len() >= 3 && target.starts_with(name.as_str())
    };
    !action.is_read_only && names.map(collapse_whitespace).any(is_it)
}

/// Returns the text of an item without its list marker, its keyword and the marks of a cut quotation.
fn item_text(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("### ")).unwrap_or(line);
    let line = if is_numbered(line) { line.split_once(". ").map_or(line, |(_, rest)| rest) } else { line };
    let line = line.strip_prefix("(answered) ").unwrap_or(line);
    let line = line.strip_prefix("NOTED — ").or_else(|| line.strip_prefix("ANSWER — ")).unwrap_or(line);
    let line = line.strip_prefix("[…]").unwrap_or(line);
    line.split(" […]").next().unwrap_or(line).split(" (recall ").next().unwrap_or(line).trim_end_matches('…').trim()
}

fn collapse_whitespace(text: impl AsRef<str>) -> String {
    text.as_ref().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the recall IDs that a text mentions after the word `recall`.
fn mentioned_recall_ids(text: &str) -> impl Iterator<Item = &str> {
    text.split("recall ").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        &rest[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_parsed_line_by_line_without_loss() {
        let text = "[Longhaul checkpoint: x.]\n\n## Goal\n- fix it\n  now\n\n## Completed Actions\n1. RUN make — ok (recall 4k2m9x3p7q)\n2. EDIT a\n\n[End of the checkpoint.]";
        let checkpoint = CheckpointView::parse(text);
        let all: Vec<&str> = checkpoint.items.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(all.join("\n"), text);
        assert_eq!(checkpoint.items.len(), 7, "{all:?}");
        let finder = ItemFinder::new(&checkpoint, &Actions::default(), &[]);
        assert_eq!(finder.find(0, ContentKind::Result, Some("4k2m9x3p7q"), ""), Some(4));
        assert_eq!(
            finder.find(0, ContentKind::Prompt, None, "nothing like it"),
            Some(1),
            "the section that would have it"
        );
    }
}
