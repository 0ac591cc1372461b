//! Whose words a clause rests on: people's, the agent's, or only a tool's.
//!
//! A clause is held against windows of neighbouring words, not against all words of a source at once: out of the vocabulary of a long
//! session nearly any sentence could be put together.

use std::collections::HashMap;

use super::claims::{Claim, Kind, is_command};
use super::words::{TABLE, has_any, on_one_line, prose};
use crate::checkpoint::{Checkpoint, Section};
use crate::evidence::{Bag, Evidence};
use crate::transcript::{BlockKind, PartKind, Transcript, UnitKind};

/// A clause rests on a source that has at least this share of it in one window.
const RESTS: f32 = 0.6;
/// A clause that says in other words what a source says has at least this share of it.
const PARAPHRASES: f32 = 0.35;
/// A tool's window that has so much more of a clause than any of people's is where the clause comes from.
const NEARER: f32 = 0.2;
/// A window has so many words for each of the clause,
const WINDOW_PER_WORD: usize = 4;
/// and so many more.
const WINDOW_WORDS: usize = 16;
/// Of a very long source this many words are looked at.
const MAX_WORDS: usize = 4_000_000;

/// Whose words a clause rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// People said it: users, and the system prompt.
    People,
    /// The agent said it, and no tool did before.
    Agent,
    /// A tool's output says it, and no person does.
    Tool,
    /// Nobody is found who said it in these words.
    Nobody,
}

/// The words of a session by who said them.
pub(super) struct Support {
    ids: HashMap<String, u32>,
    people: Passage,
    agent: Passage,
    tools: Passage,
    /// What people said, in lower case on one line each.
    spoken: String,
}

/// The words of a source that some clause has, too, with their positions.
#[derive(Default)]
struct Passage {
    words: Vec<(u32, u32)>,
    length: u32,
}

impl Support {
    /// Reads a session for the words of these statements.
    pub(super) fn new<'s>(
        transcript: &Transcript<'_>,
        evidence: &Evidence,
        statements: impl Iterator<Item = &'s str>,
    ) -> Self {
        let mut ids = HashMap::new();
        for key in statements.flat_map(|text| keys(text).into_iter().map(|(key, _)| key)) {
            let next = ids.len() as u32;
            ids.entry(key).or_insert(next);
        }
        let mut support = Self {
            ids,
            people: Passage::default(),
            agent: Passage::default(),
            tools: Passage::default(),
            spoken: String::new(),
        };
        support.read(transcript, evidence);
        support
    }

    fn read(&mut self, transcript: &Transcript<'_>, evidence: &Evidence) {
        for block in transcript.preamble.iter().filter(|block| block.kind == BlockKind::System) {
            self.hear(&block.text());
        }
        let any_person = evidence.said.iter().any(|said| said.by_user);
        for said in evidence.said.iter().filter(|said| said.by_user || !any_person) {
            self.hear(said.words());
        }
        for (at, unit) in transcript.units.iter().enumerate() {
            if let UnitKind::Checkpoint(block) = &unit.kind {
                // What an earlier audit let stand for people's words still does; the rest of a checkpoint is nobody's.
                let earlier = Checkpoint::parse(&block.text()).unwrap_or_default();
                for section in [Section::ActiveTask, Section::Goal, Section::Constraints] {
                    for item in earlier.list(section) {
                        self.hear(item.as_str());
                    }
                }
                continue;
            }
            let is_prompt = matches!(unit.kind, UnitKind::Prompt { .. });
            for part in transcript.parts_of(at) {
                let text = part.block.text();
                match part.kind {
                    PartKind::Result { .. } => self.tools.add(&self.ids, &text),
                    PartKind::Said if !is_prompt => self.agent.add(&self.ids, &text),
                    PartKind::Said | PartKind::Call(_) => {}
                }
            }
        }
    }

    fn hear(&mut self, text: &str) {
        self.people.add(&self.ids, text);
        self.spoken.push_str(&on_one_line(&text.to_lowercase()));
        self.spoken.push('\n');
    }

    /// Whose words a clause rests on; nothing for one that says nothing.
    pub(super) fn origin(&self, clause: &str, claims: &[Claim<'_>]) -> Option<Origin> {
        let keys = keys(clause);
        if keys.is_empty() {
            return None;
        }
        let of = |passage: &Passage| passage.best(&self.ids, &keys);
        let (people, tools) = (of(&self.people), of(&self.tools));
        let is_spoken = self.says(clause);
        let orders_otherwise = claims.iter().any(|claim| is_order(claim) && !self.says(claim.text));
        let permits = has_any(&prose(clause), &TABLE.permits);
        let may = !permits || has_any(&self.spoken, &TABLE.permits);
        let is_theirs = people >= RESTS && tools < people + NEARER;
        // Other words for what people said have at least some of theirs, and more of theirs than of any tool's.
        let is_paraphrase = people >= PARAPHRASES && tools < people && !permits;
        if is_spoken || ((is_theirs || is_paraphrase) && !orders_otherwise && may) {
            return Some(Origin::People);
        }
        Some(if tools >= RESTS {
            Origin::Tool
        } else if of(&self.agent) >= RESTS {
            Origin::Agent
        } else {
            Origin::Nobody
        })
    }

    /// Whether people said this word for word.
    pub(super) fn says(&self, text: &str) -> bool {
        let text = on_one_line(&text.to_lowercase());
        let text = text.trim_end_matches(['.', ';', '!', '。']).trim();
        !text.is_empty() && self.spoken.contains(text)
    }
}

/// Whether something that a clause names could be followed as an order: an address, or a command.
pub(super) fn is_order(claim: &Claim<'_>) -> bool {
    claim.kind == Kind::Url || claim.kind == Kind::Code && is_command(claim.text)
}

impl Passage {
    fn add(&mut self, ids: &HashMap<String, u32>, text: &str) {
        if self.length as usize > MAX_WORDS {
            return;
        }
        for (key, _) in keys(text) {
            self.length += 1;
            if let Some(id) = ids.get(&key) {
                self.words.push((self.length, *id));
            }
        }
        // Two texts are not neighbours.
        self.length += 1_000;
    }

    /// The largest share of these words that stand near one another.
    fn best(&self, ids: &HashMap<String, u32>, keys: &[(String, f32)]) -> f32 {
        let wanted: HashMap<u32, f32> =
            keys.iter().filter_map(|(key, weight)| Some((*ids.get(key)?, *weight))).collect();
        let all: f32 = wanted.values().sum();
        let reach = (keys.len() * WINDOW_PER_WORD + WINDOW_WORDS) as u32;
        let found: Vec<(u32, u32)> =
            self.words.iter().filter(|(_, id)| wanted.contains_key(id)).copied().collect();
        let mut inside: HashMap<u32, usize> = HashMap::new();
        let (mut first, mut weight, mut best) = (0, 0.0_f32, 0.0_f32);
        for (at, id) in &found {
            let count = inside.entry(*id).or_default();
            *count += 1;
            if *count == 1 {
                weight += wanted[id];
            }
            while found[first].0 + reach < *at {
                let gone = found[first].1;
                first += 1;
                let count = inside.entry(gone).or_default();
                *count -= 1;
                if *count == 0 {
                    weight -= wanted[&gone];
                }
            }
            best = best.max(weight);
        }
        if all > 0.0 { best / all } else { 0.0 }
    }
}

/// The telling words of a text in their order; of scripts without spaces, pairs of characters.
fn keys(text: &str) -> Vec<(String, f32)> {
    Bag::keys(text)
        .flat_map(|(word, weight)| {
            let characters: Vec<char> = word.chars().collect();
            let is_unspaced = characters.len() > 2 && characters.iter().any(|sign| *sign >= '\u{2E80}');
            if is_unspaced {
                characters.windows(2).map(|pair| (pair.iter().collect(), 1.0)).collect()
            } else {
                vec![(word, weight)]
            }
        })
        .collect()
}
