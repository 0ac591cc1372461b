//! What a user asked a compaction to keep above all: `--focus 'database schema'`.

use aho_corasick::{AhoCorasick, MatchKind};

use super::render::{ITEM, push_item, push_quoted, push_source};
use super::{Checkpoint, Section};
use crate::evidence::is_filler;
use crate::texts::Marker;
use crate::tokens::Counter;

/// Words shorter than this are found as whole words only: `db` is not a part of `feedback`.
const SHORT: usize = 4;

/// The words of a topic.
#[derive(Debug, Clone)]
pub struct Topic {
    finder: AhoCorasick,
}

impl Topic {
    /// A topic in the user's words; none if there is no word in them.
    #[must_use]
    pub fn on(words: &str) -> Option<Self> {
        let all: Vec<String> = words
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let telling: Vec<String> = all.iter().filter(|word| !is_filler(word)).cloned().collect();
        let words = if telling.is_empty() { all } else { telling };
        let forms: Vec<String> =
            words.iter().flat_map(|word| [singular(word), word.to_uppercase()]).collect();
        let mut finder = AhoCorasick::builder();
        finder.ascii_case_insensitive(true).match_kind(MatchKind::Standard);
        if forms.is_empty() { None } else { finder.build(&forms).ok().map(|finder| Self { finder }) }
    }

    /// Whether a text is about it: whether one of its words stands there.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.finder.find_overlapping_iter(text).any(|hit| {
            let word = &text[hit.range()];
            word.chars().count() >= SHORT || !word.is_ascii() || {
                let joined = |c: char| c.is_alphanumeric();
                !text[..hit.start()].chars().next_back().is_some_and(joined)
                    && !text[hit.end()..].chars().next().is_some_and(joined)
            }
        })
    }
}

/// `schemas` is about `schema`, too.
fn singular(word: &str) -> String {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > SHORT && !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    }
}

impl Checkpoint {
    /// Which share of the rendering's tokens is on a topic: items with one of its words, quoted lines that have one or whose
    /// source has. The marker, the headings and all other items are not.
    #[must_use]
    pub fn share_on(&self, topic: &Topic, counter: Counter, marker: &Marker) -> f64 {
        let mut on_topic = String::new();
        for section in Section::ALL {
            for item in self.list(section).iter().filter(|item| topic.is_in(item.as_str())) {
                push_item(ITEM, item.as_str(), &mut on_topic);
            }
        }
        for action in &self.completed {
            let text = action.entry.to_string();
            if topic.is_in(&text) {
                push_item(&format!("{}. ", action.number), &text, &mut on_topic);
            }
        }
        for quoted in &self.quoted {
            let source = topic.is_in(quoted.source());
            if source {
                push_source(quoted.source(), &mut on_topic);
            }
            quoted
                .lines()
                .filter(|line| source || topic.is_in(line))
                .for_each(|line| push_quoted(line, &mut on_topic));
        }
        let all = self.tokens(counter, marker).number();
        counter.count(&on_topic).number() as f64 / all.max(1) as f64
    }
}
