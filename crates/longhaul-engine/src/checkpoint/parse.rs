//! Markdown back into a checkpoint.
//!
//! What [`render`](super::render) writes comes back as the same value. What a person or a model wrote in its place is read as
//! far as it follows the form: a line that is no item becomes one, and a section that is not known belongs to the one before.

use super::render::{BELOW, HEADING, INDENT, ITEM, NONE, SHORTENED, SOURCE};
use super::{Checkpoint, Completed, Quoted, Section};
use crate::evidence::has_rule;
use crate::redact::Redacted;
use crate::texts::{CHECKPOINT_OPENING, END_OPENING, Node, is_framed};

/// Before a rule that stands in a checkpoint which nobody vouches for.
const UNVOUCHED: &str = "(from the checkpoint before) ";

impl Checkpoint {
    /// The checkpoint that this text is a rendering of; none if it is the text of something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if !text.starts_with(CHECKPOINT_OPENING) {
            return None;
        }
        let mut checkpoint = Self::default();
        let (mut named, mut ended) = (0, false);
        let mut section = None;
        let mut lines: Vec<&str> = Vec::new();
        for line in text.split('\n') {
            let title = line.strip_prefix(HEADING).map(str::trim_end);
            let next = title.and_then(|title| Section::ALL.into_iter().find(|s| s.title() == title));
            let ends = line.starts_with(END_OPENING);
            if next.is_none() && !ends {
                lines.push(line);
                continue;
            }
            // The empty line before a heading or the end mark belongs to neither side.
            lines.pop_if(|line| line.is_empty());
            checkpoint.read_section(section, &std::mem::take(&mut lines));
            if ends {
                (section, ended) = (None, true);
                break;
            }
            section = next;
            named += 1;
        }
        checkpoint.read_section(section, &lines);
        (named > 0 || ended).then_some(checkpoint)
    }

    /// Whether a text is a rendering from its first line to its last: a marker, known sections in their order with nothing before
    /// them, the end mark.
    #[must_use]
    pub fn is_whole(text: &str) -> bool {
        let inside = || text.trim_end().lines().skip(1);
        let titles = inside().filter_map(|line| line.strip_prefix(HEADING));
        let places: Option<Vec<usize>> =
            titles.map(|title| Section::ALL.iter().position(|section| section.title() == title)).collect();
        let begins = inside().find(|line| !line.is_empty());
        let ends = inside().filter(|line| line.starts_with(END_OPENING)).count() == 1;
        let in_order = places.is_some_and(|places| places.is_sorted_by(|one, next| one < next));
        let nothing_before =
            begins.is_some_and(|line| line.starts_with(HEADING) || line.starts_with(END_OPENING));
        is_framed(text) && in_order && nothing_before && ends
    }

    /// The same where nobody vouches for it: a rule in it is one that the transcript has, and need not be the user's.
    #[must_use]
    pub(crate) fn unvouched(mut self) -> Self {
        for section in [Section::ActiveTask, Section::Goal, Section::Constraints] {
            let is_rule = |item: &Redacted| section == Section::Constraints || has_rule(item.as_str());
            let rules = self.lists[section as usize].iter_mut().filter(|item| is_rule(item));
            for rule in rules.filter(|rule| !rule.as_str().starts_with(UNVOUCHED)) {
                *rule = Redacted::own(UNVOUCHED).and(rule);
            }
        }
        self
    }

    fn read_section(&mut self, section: Option<Section>, lines: &[&str]) {
        let Some(section) = section else { return };
        let sources = match section {
            Section::CriticalContext => lines.iter().position(|line| line.starts_with(SOURCE)),
            _ => None,
        };
        let (mut listed, quoted) = lines.split_at(sources.unwrap_or(lines.len()));
        let folder = listed.first().and_then(|line| line.strip_prefix(BELOW)?.strip_suffix(':'));
        let folder = folder.filter(|_| section == Section::RelevantFiles);
        listed = &listed[usize::from(folder.is_some())..];
        for (number, text) in items(section, listed) {
            let below = folder.and_then(|folder| Some(format!("{folder}{}", text.strip_prefix(SHORTENED)?)));
            let item = (number, below.unwrap_or(text));
            match item {
                // What stands there in another form than ours leads nowhere.
                (_, text) if section == Section::EarlierWork => self.earlier.extend(text.parse::<Node>()),
                (None, text) if section != Section::CompletedActions => {
                    self.push(section, Redacted::from_store(text));
                }
                (number, text) => {
                    let next = self.completed.last().map_or(1, |last| last.number.saturating_add(1));
                    let Ok(entry) = text.parse();
                    self.completed.push(Completed { number: number.unwrap_or(next), entry });
                }
            }
        }
        for line in quoted {
            if let Some(source) = line.strip_prefix(SOURCE) {
                let source = Redacted::from_store(source.to_owned());
                self.quoted.push(Quoted { source, lines: Vec::new() });
            } else if let Some(last) = self.quoted.last_mut() {
                let line = line.strip_prefix('\\').unwrap_or(line);
                last.lines.push(Redacted::from_store(line.to_owned()));
            }
        }
    }
}

/// The items of a list, each with its number if it has one.
fn items(section: Section, lines: &[&str]) -> Vec<(Option<u32>, String)> {
    if lines == [NONE] {
        return Vec::new();
    }
    let mut items: Vec<(Option<u32>, String)> = Vec::new();
    for line in lines {
        let begins = match section {
            Section::CompletedActions => numbered(line).map(|(number, text)| (Some(number), text)),
            _ => line.strip_prefix(ITEM).map(|text| (None, text)),
        };
        match (begins, line.strip_prefix(INDENT), items.last_mut()) {
            (Some((number, text)), ..) => items.push((number, text.to_owned())),
            (None, Some(more), Some((_, text))) => {
                text.push('\n');
                text.push_str(more);
            }
            _ if line.trim().is_empty() => {}
            _ => items.push((None, (*line).to_owned())),
        }
    }
    items
}

fn numbered(line: &str) -> Option<(u32, &str)> {
    let (number, text) = line.split_once(". ")?;
    let canonical = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| canonical)?, text))
}
