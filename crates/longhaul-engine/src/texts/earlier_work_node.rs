//! An item of the section Earlier Work: `Actions 1–212 in 5 stretches (recall 4k2m9x3p7q)`, followed by its
//! most important lines.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::action_entry::{ActionEntry, RECALL_PREFIX, split_bracketed_end};

/// One span of earlier work, or several consecutive ones grouped together. A span is what one compaction
/// summarized. The recall ID opens the page with the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierWorkNode {
    /// The numbers of the first and the last action; `None` if the span has no action.
    actions: Option<(u32, u32)>,
    spans: u32,
    recall_id: Option<String>,
    lines: Vec<ActionEntry>,
}

/// The error for a text that is not the rendering of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidNode;

impl EarlierWorkNode {
    /// Builds the node of one span from the numbers of its actions and the recall ID of its page.
    #[must_use]
    pub fn leaf(actions: RangeInclusive<u32>, recall_id: Option<String>) -> Self {
        let actions = (!actions.is_empty()).then(|| actions.into_inner());
        Self { actions, spans: 1, recall_id, lines: Vec::new() }
    }

    /// Groups consecutive nodes into one with all of their lines. Of equal lines only the last is kept.
    #[must_use]
    pub fn group(nodes: &[Self], recall_id: Option<String>) -> Self {
        let numbers = || nodes.iter().filter_map(|node| node.actions);
        let first = numbers().next().map(|(first, _)| first);
        let actions = first.zip(numbers().next_back().map(|(_, last)| last));
        let spans = nodes.iter().fold(0, |sum: u32, node| sum.saturating_add(node.spans));
        let lines = dedup_lines(nodes.iter().flat_map(|node| node.lines.clone()));
        Self { actions, spans, recall_id, lines }
    }

    /// Returns the node with other lines, each shortened to about `most` characters.
    #[must_use]
    pub fn with_lines<'e>(self, lines: impl Iterator<Item = &'e ActionEntry>, most: usize) -> Self {
        Self { lines: dedup_lines(lines.map(|line| line.shortened(most))), ..self }
    }

    /// Returns the node with only those lines whose index `places` accepts.
    #[must_use]
    pub fn keep_lines(&self, places: impl Fn(usize) -> bool) -> Self {
        let lines = self.lines.iter().enumerate().filter(|(place, _)| places(*place));
        Self { lines: lines.map(|(_, line)| line.clone()).collect(), ..self.clone() }
    }

    /// Returns the numbers of the first and the last action.
    #[must_use]
    pub fn actions(&self) -> Option<(u32, u32)> {
        self.actions
    }

    /// Returns the number of spans in the node.
    #[must_use]
    pub fn spans(&self) -> u32 {
        self.spans
    }

    /// Returns the recall ID of the page.
    #[must_use]
    pub fn recall_id(&self) -> Option<&str> {
        self.recall_id.as_deref()
    }

    /// Returns the most important lines, oldest first.
    #[must_use]
    pub fn lines(&self) -> &[ActionEntry] {
        &self.lines
    }

    /// Returns the first line: the action numbers, the number of spans and the recall ID.
    #[must_use]
    pub fn heading(&self) -> String {
        let mut head = match self.actions {
            None => "No action".to_owned(),
            Some((first, last)) if first == last => format!("Action {first}"),
            Some((first, last)) => format!("Actions {first}–{last}"),
        };
        if self.spans > 1 {
            head.extend([" in ", &self.spans.to_string(), " stretches"]);
        }
        if let Some(recall_id) = &self.recall_id {
            head.extend([RECALL_PREFIX, recall_id, ")"]);
        }
        head
    }

    fn parse_heading(head: &str) -> Option<Self> {
        let (covers, recall_id) = split_bracketed_end(head, RECALL_PREFIX, ')');
        let (numbers, spans) = match covers.split_once(" in ") {
            Some((numbers, count)) => (numbers, count.strip_suffix(" stretches")?.parse().ok()?),
            None => (covers, 1),
        };
        let actions = match numbers.split_once(' ')? {
            ("No", _) => None,
            ("Actions", numbers) => {
                let (first, last) = numbers.split_once('–')?;
                Some((first.parse().ok()?, last.parse().ok()?))
            }
            (_, number) => Some((number.parse().ok()?, number.parse().ok()?)),
        };
        let node = Self { actions, spans, recall_id: recall_id.map(str::to_owned), lines: Vec::new() };
        (node.heading() == head).then_some(node)
    }
}

/// Removes empty lines, and of equal lines all but the last.
fn dedup_lines(lines: impl Iterator<Item = ActionEntry>) -> Vec<ActionEntry> {
    let says = |line: &ActionEntry| !(line.target().is_empty() && line.outcome().as_str().is_empty());
    let all: Vec<ActionEntry> = lines.filter(says).collect();
    let is_last = |(at, line): &(usize, &ActionEntry)| !all[at + 1..].contains(*line);
    all.iter().enumerate().filter(is_last).map(|(_, line)| line.clone()).collect()
}

impl fmt::Display for EarlierWorkNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.heading())?;
        self.lines.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

/// Parses what `Display` writes.
impl FromStr for EarlierWorkNode {
    type Err = InvalidNode;

    fn from_str(text: &str) -> Result<Self, InvalidNode> {
        let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
        let node = Self::parse_heading(head).ok_or(InvalidNode)?;
        let lines = lines.lines().filter(|line| !line.trim().is_empty());
        let lines = lines.map(|line| {
            let Ok(line) = line.parse();
            line
        });
        Ok(Self { lines: lines.collect(), ..node })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redact::Redacted;
    use crate::texts::EntryKind;

    fn entry(act: EntryKind, target: &str, outcome: &str) -> ActionEntry {
        let text = |text: &str| Redacted::assume_redacted(text.to_owned());
        ActionEntry::new(act, &text(target), &text(outcome))
    }

    #[test]
    fn a_heading_has_the_action_numbers_and_the_recall_id() {
        let leaf = |first, last, line: &str| {
            let lines = [entry(EntryKind::Note, "", line), entry(EntryKind::UserRequest, "", "Mend it.")];
            EarlierWorkNode::leaf(first..=last, Some("4k2m".to_owned())).with_lines(lines.iter(), 80)
        };
        let nodes = [leaf(1, 4, "It rains."), leaf(5, 5, "It pours."), leaf(6, 5, "It rains.")];
        let texts = nodes.each_ref().map(EarlierWorkNode::heading);
        assert_eq!(texts, ["Actions 1–4 (recall 4k2m)", "Action 5 (recall 4k2m)", "No action (recall 4k2m)"]);
        assert_eq!(
            EarlierWorkNode::group(&nodes, Some("9x3p".to_owned())).to_string(),
            "Actions 1–5 in 3 stretches (recall 9x3p)\nNOTED — It pours.\nNOTED — It rains.\nASKED — Mend it."
        );
        for other in ["", "Actions 1–", "Actions 01–4", "Action +1", "1–4", "Actions 4 in 2 stretches x"] {
            assert_eq!(other.parse::<EarlierWorkNode>(), Err(InvalidNode), "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_rendering_parses_back(
            actions in (0u32..9, 0u32..9),
            recall_id in proptest::option::of("[a-z0-9]{10}"),
            lines in proptest::collection::vec(
                ("[a-zA-Z —()\\[\\]:#\n-]{0,30}|.{0,20} (recall x)", ".{0,40}|RUN .{0,9}\n(recall x)", any::<bool>()), 0..4),
        ) {
            let lines: Vec<ActionEntry> = lines.iter().map(|(target, outcome, other)| match other {
                true => ActionEntry::parse_redacted(&Redacted::assume_redacted(outcome.clone())),
                false => entry(EntryKind::Run, target, outcome),
            }).collect();
            let node = EarlierWorkNode::leaf(actions.0..=actions.1, recall_id).with_lines(lines.iter(), 30);
            prop_assert_eq!(node.to_string().parse(), Ok(node));
        }
    }
}
