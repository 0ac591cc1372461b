//! A checkpoint line by line, and which line speaks for what was folded.
//!
//! Where originals are kept, a line names them by their handles, and there is no doubt. Else a step is found by what it did, and
//! words by the words: a line quotes what people and the agent said, and names what was run and changed. What no line speaks
//! for leads to the section that would have it.

use std::collections::HashMap;

use longhaul_engine::action::{Action, Actions};
use longhaul_engine::checkpoint::Section;
use longhaul_engine::plan::What;
use longhaul_engine::texts::{Act, END_OPENING, Entry};

/// A checkpoint as it is shown.
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    /// Its items, headings among them, in order. All of its text is in them.
    pub items: Vec<Item>,
    /// How many tokens it has.
    pub tokens: u64,
    /// How many messages it stands for.
    pub stands_for: usize,
}

/// A heading, an item of a list with all its lines, or other text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// Its words, with the marks of the list.
    pub text: String,
    /// The section that it stands in.
    section: Option<Section>,
}

/// What a piece of a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// The heading of a section.
    Heading,
    /// An item of a list, or lines of one source.
    Listed,
    /// What stands around them.
    Around,
}

impl Checkpoint {
    /// Reads the Markdown. Structure is told by the first characters of a line.
    pub(super) fn read(text: &str) -> Self {
        let mut items: Vec<Item> = Vec::new();
        let mut section = None;
        for line in text.lines() {
            let last = items.last_mut();
            let kind = if line.starts_with("## ") {
                section = Section::ALL.into_iter().find(|known| line[3..].trim_end() == known.title());
                Some(ItemKind::Heading)
            } else if line.starts_with("- ") || line.starts_with("### ") || is_numbered(line) {
                Some(ItemKind::Listed)
            } else if line.starts_with(END_OPENING)
                || last.as_ref().is_none_or(|last| last.kind == ItemKind::Heading)
            {
                Some(ItemKind::Around)
            } else {
                None
            };
            match (kind, last) {
                (Some(kind), _) => items.push(Item { kind, text: line.to_owned(), section }),
                (None, Some(last)) => {
                    last.text.push('\n');
                    last.text.push_str(line);
                }
                (None, None) => {}
            }
        }
        Self { items, tokens: 0, stands_for: 0 }
    }

    /// The item of a section's heading; of the first, where the section is not there.
    fn heading(&self, section: Section) -> Option<usize> {
        let headings = || self.items.iter().enumerate().filter(|(_, item)| item.kind == ItemKind::Heading);
        let found = headings().find(|(_, item)| item.section == Some(section)).or_else(|| headings().next());
        found.map(|(at, _)| at)
    }
}

fn is_numbered(line: &str) -> bool {
    line.split_once(". ")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Finds the line for what was folded.
pub(super) struct Carriers<'c> {
    checkpoint: &'c Checkpoint,
    /// Items by the handles that they name.
    handles: HashMap<String, usize>,
    /// Items by the words that they quote, longest first.
    quotes: Vec<(String, usize)>,
    /// Which item speaks for a step.
    steps: HashMap<usize, usize>,
}

/// A unit of which something was folded, in their order.
pub(super) struct Gone {
    pub(super) unit: usize,
    /// What its calls said.
    pub(super) calls: String,
}

/// Quoted words shorter than this could be anybody's.
const TELLING: usize = 16;

impl<'c> Carriers<'c> {
    /// For what goes of a transcript, unit by unit.
    pub(super) fn new(checkpoint: &'c Checkpoint, actions: &Actions, gone: &[Gone]) -> Self {
        let (mut handles, mut quotes) = (HashMap::new(), Vec::new());
        for (at, item) in
            checkpoint.items.iter().enumerate().filter(|(_, item)| item.kind == ItemKind::Listed)
        {
            for handle in named_handles(&item.text) {
                handles.entry(handle.to_owned()).or_insert(at);
            }
            let lines =
                item.text.lines().map(|line| squeezed(words(line))).filter(|line| line.len() >= TELLING);
            quotes.extend(lines.map(|line| (line, at)));
        }
        quotes.sort_by_key(|(words, at)| (std::cmp::Reverse(words.len()), *at));
        let mut carriers = Self { checkpoint, handles, quotes, steps: HashMap::new() };
        carriers.find_steps(actions, gone);
        carriers
    }

    /// Actions stand in order of time, so each is looked for behind the one before; what it changed, where the line quotes
    /// that, tells it from others on the same file.
    fn find_steps(&mut self, actions: &Actions, gone: &[Gone]) {
        let mut from = 0;
        for (at, text) in self.listed(Section::CompletedActions).collect::<Vec<_>>() {
            let Ok(entry) = words(text).parse::<Entry>();
            let target = entry.target().trim_end_matches('…').trim();
            if target.len() < 3 || matches!(entry.act(), Act::Noted | Act::Answer | Act::Message | Act::Other)
            {
                continue;
            }
            let quoted: Vec<&str> = entry
                .outcome()
                .as_str()
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|quote| quote.len() > 3)
                .collect();
            let did = |gone: &&Gone| {
                !self.steps.contains_key(&gone.unit)
                    && actions.of_unit(gone.unit).iter().any(|action| did(action, target))
            };
            let tells =
                |gone: &&Gone| quoted.iter().any(|quote| gone.calls.contains(quote.trim_end_matches('…')));
            let behind = || gone[from..].iter().filter(did);
            let found = behind().find(tells).or_else(|| behind().next()).map(|gone| gone.unit);
            if let Some(unit) = found {
                from = gone.partition_point(|gone| gone.unit < unit);
                self.steps.insert(unit, at);
            }
        }
        // What was only looked at stands among the files, if anywhere.
        let files: Vec<(usize, &str)> = self.listed(Section::RelevantFiles).collect();
        for Gone { unit, .. } in gone {
            let named = || {
                actions
                    .of_unit(*unit)
                    .iter()
                    .filter(|action| action.looks)
                    .filter_map(|action| action.target.as_deref())
            };
            let path = |line: &str| {
                words(line).split(" — ").next().map(|path| path.trim_start_matches("…/").to_owned())
            };
            let file = files.iter().find(|(_, line)| {
                path(line).is_some_and(|path| path.len() > 3 && named().any(|target| target.contains(&path)))
            });
            if let Some((at, _)) = file {
                self.steps.entry(*unit).or_insert(*at);
            }
        }
    }

    fn listed(&self, section: Section) -> impl Iterator<Item = (usize, &'c str)> {
        let items = self.checkpoint.items.iter().enumerate();
        items
            .filter(move |(_, item)| item.section == Some(section) && item.kind == ItemKind::Listed)
            .map(|(at, item)| (at, item.text.as_str()))
    }

    /// The item that speaks for a block, or the heading of the section that would.
    pub(super) fn of(&self, unit: usize, what: What, handle: Option<&str>, text: &str) -> Option<usize> {
        let by_handle = handle.and_then(|handle| self.handles.get(handle)).copied();
        let section = match what {
            What::Prompt | What::Checkpoint | What::Opaque | What::Page => Section::Goal,
            What::Reply | What::Reasoning | What::Call | What::Result => Section::CompletedActions,
        };
        by_handle
            .or_else(|| self.quoting(what, text))
            .or_else(|| self.steps.get(&unit).copied())
            .or_else(|| self.checkpoint.heading(section))
    }

    /// The item that quotes the most of a text. What a tool said is quoted among the critical lines only.
    fn quoting(&self, what: What, text: &str) -> Option<usize> {
        if matches!(what, What::Call | What::Reasoning) {
            return None;
        }
        let text = squeezed(text);
        let may = |at: usize| {
            what != What::Result || self.checkpoint.items[at].section == Some(Section::CriticalContext)
        };
        let quoted = self.quotes.iter().find(|(words, at)| may(*at) && text.contains(words.as_str()));
        let whole =
            || self.quotes.iter().find(|(words, at)| may(*at) && text.len() >= 4 && words.as_str() == text);
        quoted.or_else(whole).map(|(_, at)| *at)
    }
}

/// Whether an action did something to a target, as a line of ours names it: whole, cut, or without the folders before it.
fn did(action: &Action, target: &str) -> bool {
    let names =
        action.target.iter().map(String::as_str).chain(action.files.iter().map(|touch| touch.path.as_str()));
    let is_it = |name: String| {
        name.starts_with(target)
            || name.strip_suffix(target).is_some_and(|folders| folders.ends_with('/'))
            || name.len() >= 3 && target.starts_with(name.as_str())
    };
    !action.looks && names.map(squeezed).any(is_it)
}

/// What an item says, without the marks of the list and of how a quote was cut.
fn words(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("### ")).unwrap_or(line);
    let line = if is_numbered(line) { line.split_once(". ").map_or(line, |(_, rest)| rest) } else { line };
    let line = line.strip_prefix("(answered) ").unwrap_or(line);
    let line = line.strip_prefix("NOTED — ").or_else(|| line.strip_prefix("ANSWER — ")).unwrap_or(line);
    let line = line.strip_prefix("[…]").unwrap_or(line);
    line.split(" […]")
        .next()
        .unwrap_or(line)
        .split(" (recall ")
        .next()
        .unwrap_or(line)
        .trim_end_matches('…')
        .trim()
}

fn squeezed(text: impl AsRef<str>) -> String {
    text.as_ref().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The handles that a text names, behind the word that says what they are for.
fn named_handles(text: &str) -> impl Iterator<Item = &str> {
    text.split("recall ").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        &rest[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_line_by_line_and_nothing_of_it_is_left_out() {
        let text = "[Longhaul checkpoint: x.]\n\n## Goal\n- fix it\n  now\n\n## Completed Actions\n1. RUN make — ok (recall 4k2m9x3p7q)\n2. EDIT a\n\n[End of the checkpoint.]";
        let checkpoint = Checkpoint::read(text);
        let all: Vec<&str> = checkpoint.items.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(all.join("\n"), text);
        assert_eq!(checkpoint.items.len(), 7, "{all:?}");
        let carriers = Carriers::new(&checkpoint, &Actions::default(), &[]);
        assert_eq!(carriers.of(0, What::Result, Some("4k2m9x3p7q"), ""), Some(4));
        assert_eq!(
            carriers.of(0, What::Prompt, None, "nothing like it"),
            Some(1),
            "the section that would have it"
        );
    }
}
