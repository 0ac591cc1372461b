//! An item of Earlier Work: `Actions 1–212 in 5 stretches (recall 4k2m9x3p7q)`, and below it what tells most of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::entry::{Entry, RECALL, split_end};

/// A stretch of earlier work, or several in a row, by the page that tells more of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The numbers of its actions; nothing where nothing was done.
    actions: Option<(u32, u32)>,
    stretches: u32,
    handle: Option<String>,
    lines: Vec<Entry>,
}

/// A text that is no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNode;

impl Node {
    /// One stretch, with the actions of these numbers, and what fetches its page.
    #[must_use]
    pub fn leaf(actions: RangeInclusive<u32>, handle: Option<String>) -> Self {
        let actions = (!actions.is_empty()).then(|| actions.into_inner());
        Self { actions, stretches: 1, handle, lines: Vec::new() }
    }

    /// Several in a row as one, with all that they say; what was said twice is said where it was said last.
    #[must_use]
    pub fn group(nodes: &[Self], handle: Option<String>) -> Self {
        let numbers = || nodes.iter().filter_map(|node| node.actions);
        let first = numbers().next().map(|(first, _)| first);
        let actions = first.zip(numbers().next_back().map(|(_, last)| last));
        let stretches = nodes.iter().fold(0, |sum: u32, node| sum.saturating_add(node.stretches));
        let lines = once(nodes.iter().flat_map(|node| node.lines.clone()));
        Self { actions, stretches, handle, lines }
    }

    /// The same with other lines, each shortened to about so many characters.
    #[must_use]
    pub fn with_lines<'e>(self, lines: impl Iterator<Item = &'e Entry>, most: usize) -> Self {
        Self { lines: once(lines.map(|line| line.brief(most))), ..self }
    }

    /// The same with these of its lines, by their places.
    #[must_use]
    pub fn with_only(&self, places: impl Fn(usize) -> bool) -> Self {
        let lines = self.lines.iter().enumerate().filter(|(place, _)| places(*place));
        Self { lines: lines.map(|(_, line)| line.clone()).collect(), ..self.clone() }
    }

    /// The numbers of its first and its last action.
    #[must_use]
    pub fn actions(&self) -> Option<(u32, u32)> {
        self.actions
    }

    /// How many stretches it is.
    #[must_use]
    pub fn stretches(&self) -> u32 {
        self.stretches
    }

    /// What fetches its page.
    #[must_use]
    pub fn handle(&self) -> Option<&str> {
        self.handle.as_deref()
    }

    /// What tells most of it, in order of time.
    #[must_use]
    pub fn lines(&self) -> &[Entry] {
        &self.lines
    }

    /// What it covers and what fetches it, without its lines.
    #[must_use]
    pub fn head(&self) -> String {
        let mut head = match self.actions {
            None => "No action".to_owned(),
            Some((first, last)) if first == last => format!("Action {first}"),
            Some((first, last)) => format!("Actions {first}–{last}"),
        };
        if self.stretches > 1 {
            head.extend([" in ", &self.stretches.to_string(), " stretches"]);
        }
        if let Some(handle) = &self.handle {
            head.extend([RECALL, handle, ")"]);
        }
        head
    }

    fn read_head(head: &str) -> Option<Self> {
        let (covers, handle) = split_end(head, RECALL, ')');
        let (numbers, stretches) = match covers.split_once(" in ") {
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
        let node = Self { actions, stretches, handle: handle.map(str::to_owned), lines: Vec::new() };
        (node.head() == head).then_some(node)
    }
}

/// Lines that say something, each where it was said last.
fn once(lines: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let says = |line: &Entry| !(line.target().is_empty() && line.outcome().as_str().is_empty());
    let all: Vec<Entry> = lines.filter(says).collect();
    let is_last = |(at, line): &(usize, &Entry)| !all[at + 1..].contains(*line);
    all.iter().enumerate().filter(is_last).map(|(_, line)| line.clone()).collect()
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head())?;
        self.lines.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

/// Reads back what was written.
impl FromStr for Node {
    type Err = NoNode;

    fn from_str(text: &str) -> Result<Self, NoNode> {
        let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
        let node = Self::read_head(head).ok_or(NoNode)?;
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
    use crate::texts::Act;

    fn entry(act: Act, target: &str, outcome: &str) -> Entry {
        let text = |text: &str| Redacted::from_store(text.to_owned());
        Entry::new(act, &text(target), &text(outcome))
    }

    #[test]
    fn a_node_says_what_it_covers_and_what_fetches_it() {
        let leaf = |first, last, line: &str| {
            let lines = [entry(Act::Noted, "", line), entry(Act::Asked, "", "Mend it.")];
            Node::leaf(first..=last, Some("4k2m".to_owned())).with_lines(lines.iter(), 80)
        };
        let nodes = [leaf(1, 4, "It rains."), leaf(5, 5, "It pours."), leaf(6, 5, "It rains.")];
        let texts = nodes.each_ref().map(Node::head);
        assert_eq!(texts, ["Actions 1–4 (recall 4k2m)", "Action 5 (recall 4k2m)", "No action (recall 4k2m)"]);
        assert_eq!(
            Node::group(&nodes, Some("9x3p".to_owned())).to_string(),
            "Actions 1–5 in 3 stretches (recall 9x3p)\nNOTED — It pours.\nNOTED — It rains.\nASKED — Mend it."
        );
        for other in ["", "Actions 1–", "Actions 01–4", "Action +1", "1–4", "Actions 4 in 2 stretches x"]
        {
            assert_eq!(other.parse::<Node>(), Err(NoNode), "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same(
            actions in (0u32..9, 0u32..9),
            handle in proptest::option::of("[a-z0-9]{10}"),
            lines in proptest::collection::vec(
                ("[a-zA-Z —()\\[\\]:#\n-]{0,30}|.{0,20} (recall x)", ".{0,40}|RUN .{0,9}\n(recall x)", any::<bool>()), 0..4),
        ) {
            let lines: Vec<Entry> = lines.iter().map(|(target, outcome, other)| match other {
                true => Entry::read(&Redacted::from_store(outcome.clone())),
                false => entry(Act::Run, target, outcome),
            }).collect();
            let node = Node::leaf(actions.0..=actions.1, handle).with_lines(lines.iter(), 30);
            prop_assert_eq!(node.to_string().parse(), Ok(node));
        }
    }
}
